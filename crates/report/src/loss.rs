//! What a capture lost, and what that makes of its figures.

use crate::text::number::counted;
use overhead_model::record::{Source, TcpTotals};

/// Returns why figures per operation are lower bounds, a phrase for each kind of loss; none where they are exact.
pub(crate) fn lower_bounds(source: &Source, tcp: &TcpTotals) -> Vec<String> {
    let drops = source.kernel_drops.value().copied().unwrap_or_default();
    let losses = [
        (drops, "frame", "dropped by the kernel"),
        (tcp.gap_bytes, "byte", "in no captured frame (gaps)"),
        (tcp.snapped_bytes, "byte of payload", "not captured (snapped)"),
        (source.header_snapped_frames, "frame", "whose headers were not captured (snapped)"),
    ];
    let lost = losses.into_iter().filter(|(count, ..)| *count > 0);
    lost.map(|(count, noun, how)| format!("{} {how}", counted(count, noun))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use overhead_model::Measured;

    #[test]
    fn each_kind_of_loss_makes_figures_lower_bounds() {
        let whole = fixture::redis();
        assert!(lower_bounds(&whole.source, &whole.tcp).is_empty());
        let mut run = whole.clone();
        run.source.kernel_drops = Measured::Value(1);
        run.source.header_snapped_frames = 2;
        (run.tcp.gap_bytes, run.tcp.snapped_bytes) = (3, 4_096);
        let expected = [
            "1 frame dropped by the kernel",
            "3 bytes in no captured frame (gaps)",
            "4,096 bytes of payload not captured (snapped)",
            "2 frames whose headers were not captured (snapped)",
        ];
        assert_eq!(lower_bounds(&run.source, &run.tcp), expected);
    }

    #[test]
    fn drops_that_are_not_known_are_no_loss() {
        let mut run = fixture::redis();
        run.source.kernel_drops = Measured::unavailable("offline");
        assert!(lower_bounds(&run.source, &run.tcp).is_empty());
    }
}
