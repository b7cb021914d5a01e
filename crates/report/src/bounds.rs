//! Separates exact byte counts of a run from lower bounds.

use crate::number::{DASH, counted};
use overhead_model::Run;
use overhead_model::record::{Source, TcpTotals};

/// Byte counts that are lower bounds: frames were lost or truncated, or one direction was not captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LowerBounds {
    /// Bytes on the wire: the capture lacks frames.
    pub wire: bool,
    /// Payload accounts except `unknown`: they exclude truncated or lost bytes.
    pub payload: bool,
}

/// Marks a lower bound.
pub(crate) const AT_LEAST: char = '≥';

impl LowerBounds {
    pub(crate) fn new(run: &Run) -> Self {
        let dropped = run.source.kernel_drops.value().is_some_and(|frames| *frames > 0);
        let one_way = run.tcp.request_only > 0 || run.tcp.response_only > 0;
        let lost = dropped || one_way || run.tcp.gap_bytes > 0 || run.source.header_snapped_frames > 0;
        Self { wire: lost, payload: lost || run.source.truncated_frames > 0 }
    }

    /// Returns the lower bounds for the sum of two runs.
    pub(crate) const fn or(self, other: Self) -> Self {
        Self { wire: self.wire || other.wire, payload: self.payload || other.payload }
    }

    /// Marks a number of wire bytes if it is a lower bound.
    pub(crate) fn wire(self, figure: String) -> String {
        marked(self.wire, figure)
    }

    /// Marks a number of payload bytes if it is a lower bound.
    pub(crate) fn payload(self, figure: String) -> String {
        marked(self.payload, figure)
    }
}

fn marked(bound: bool, mut figure: String) -> String {
    if bound && figure != DASH {
        figure.insert(0, AT_LEAST);
    }
    figure
}

/// Returns a phrase for each kind of capture loss, as in the record's `lower_bounds`.
pub(crate) fn losses(source: &Source, tcp: &TcpTotals) -> Vec<String> {
    let dropped = source.kernel_drops.value().copied().unwrap_or_default();
    let losses = [
        (dropped, "frame", "dropped by the kernel"),
        (tcp.gap_bytes, "byte", "in gaps"),
        (source.truncated_frames, "frame", "captured in part"),
        (source.header_snapped_frames, "frame", "captured without all headers"),
        (tcp.request_only, "connection", "without the server's frames"),
        (tcp.response_only, "connection", "without the client's frames"),
    ];
    let lost = losses.into_iter().filter(|(count, ..)| *count > 0);
    lost.map(|(count, noun, how)| format!("{} {how}", counted(count, noun))).collect()
}

/// Returns a sentence that explains why byte counts are lower bounds, or `None` if they are exact.
pub(crate) fn lower_bounds(run: &Run) -> Option<String> {
    let bounds = LowerBounds::new(run);
    let reasons = losses(&run.source, &run.tcp);
    let what = if bounds.wire { "byte counts" } else { "bytes of protocol and data" };
    (bounds.wire || bounds.payload).then(|| format!("{AT_LEAST}: {what} are lower bounds: {}", reasons.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use overhead_model::Measured;

    #[test]
    fn what_lost_frames_is_a_lower_bound_and_what_was_cut_is_one_in_part() {
        let mut run = fixture::redis_live().run;
        assert_eq!((LowerBounds::new(&run), lower_bounds(&run)), (LowerBounds::default(), None));
        run.source.truncated_frames = 2;
        let cut = LowerBounds::new(&run);
        assert_eq!((cut.wire("1.0".to_owned()), cut.payload("1.0".to_owned())), ("1.0".to_owned(), "≥1.0".to_owned()));
        run.source.kernel_drops = Measured::Value(3);
        let said = lower_bounds(&run).unwrap();
        assert_eq!(said, "≥: byte counts are lower bounds: 3 frames dropped by the kernel, 2 frames captured in part");
        assert_eq!(LowerBounds::new(&run).wire(DASH.to_owned()), DASH);
        run.source.kernel_drops = Measured::unavailable("offline");
        assert!(!LowerBounds::new(&run).wire);
        run.source.header_snapped_frames = 1;
        assert!(LowerBounds::new(&run).wire);
        assert_eq!(
            losses(&run.source, &run.tcp),
            ["2 frames captured in part", "1 frame captured without all headers"]
        );
    }

    #[test]
    fn without_a_direction_all_bytes_are_lower_bounds() {
        let mut run = fixture::redis_live().run;
        run.tcp.request_only = 1;
        assert!(LowerBounds::new(&run).wire && LowerBounds::new(&run).payload);
        assert_eq!(losses(&run.source, &run.tcp), ["1 connection without the server's frames"]);
    }
}
