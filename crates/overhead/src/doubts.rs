//! What a reader has to know before believing a result: warnings, in whole sentences, and whether they make it partial.

use overhead_dissect::Totals;
use overhead_dissect::decode::Note;
use overhead_model::exit;
use overhead_report::text::{counted, grouped};

/// Collected doubts of a run.
#[derive(Debug, Default)]
pub struct Doubts {
    warnings: Vec<String>,
    partial: bool,
}

impl Doubts {
    /// Something is missing from the result.
    pub fn partial(&mut self, warning: impl Into<String>) {
        self.partial = true;
        self.warnings.push(warning.into());
    }

    /// Nothing is missing, but a reader should know.
    pub fn remark(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }

    /// The warnings and the exit status that goes with them.
    pub fn settle(self) -> (Vec<String>, u8) {
        (self.warnings, if self.partial { exit::PARTIAL } else { exit::COMPLETE })
    }

    /// Frames that were left out because the user said so.
    pub fn outside(&mut self, frames: u64) {
        if frames > 0 {
            let are = if frames == 1 { "is" } else { "are" };
            self.remark(format!("{} outside --from and --to {are} not counted", counted(frames, "frame")));
        }
    }

    /// What the totals of a dissection give rise to.
    pub fn of_totals(&mut self, totals: &Totals) {
        if totals.frames == 0 {
            self.remark("no frame was captured");
        } else if totals.tcp.connections == 0 && totals.snap_bytes > 0 {
            self.partial(format!(
                "no connection was decoded, and only up to {} of each frame were captured: capture whole frames with -s 0",
                counted(totals.snap_bytes, "byte")
            ));
        } else if totals.tcp.connections == 0 {
            self.remark(
                "no connection was decoded: if the server listens on another port, name it with --port, and its system with --db",
            );
        }
        for link in totals.link_types.iter().filter(|link| link.name().is_none()) {
            self.partial(format!(
                "frames of link type {link} are not decoded and count as `other`: capture on Ethernet, loopback, cooked (`any`) or raw IP"
            ));
        }
        if totals.malformed_frames > 0 {
            self.remark(format!("{} with broken headers count as `other`", counted(totals.malformed_frames, "frame")));
        }
        if totals.header_snapped_frames > 0 {
            self.partial(format!(
                "the snap length of {} cut off the headers of {}, which count as `other`: capture whole frames with -s 0; -s {} keeps the headers alone",
                counted(totals.snap_bytes, "byte"),
                counted(totals.header_snapped_frames, "frame"),
                totals.header_bytes
            ));
        }
        if totals.tcp.snapped_bytes > 0 {
            self.partial(format!(
                "{} of payload were on the wire but not captured (snapped): capture whole frames with -s 0",
                counted(totals.tcp.snapped_bytes, "byte")
            ));
        }
        if totals.tcp.gap_bytes > 0 {
            self.partial(format!(
                "{} are in no captured frame (gaps in the TCP sequence): the capture lost frames, and these bytes are posted nowhere",
                counted(totals.tcp.gap_bytes, "byte")
            ));
        }
        for (note, count) in &totals.notes {
            self.of_note(*note, *count);
        }
    }

    fn of_note(&mut self, note: Note, count: u64) {
        match note {
            // Whether that hides anything is for the next two to say.
            Note::Tls => {}
            Note::Encrypted => self.remark(format!(
                "{} encrypted, and without a key in a log or with a suite that is not supported: the ciphertext is in `unknown`; name the client's or server's key log with --keylog",
                counted(count, "connection")
            )),
            Note::Undecryptable(why) => self.remark(format!(
                "the decryption of {} ended ({why}): the ciphertext from there on is in `unknown`",
                counted(count, "direction of a connection")
            )),
            Note::UndecodedMessage => {
                self.remark(format!(
                    "{} could not be decoded to the end: the rest is in `unknown`",
                    counted(count, "message")
                ));
            }
            Note::UntypedValue => self.remark(format!(
                "{} whose type was not seen on the wire {} like an array, a composite or a collection: inner structure, if any, is in `data` with the values",
                counted(count, "cell"),
                if count == 1 { "looks" } else { "look" }
            )),
            Note::ProRata => self.remark(format!(
                "{} of compressed bytes are shared between accounts in proportion to what they decompress to",
                counted(count, "body")
            )),
            Note::Malformed(why) => self.remark(format!(
                "{}: what follows is not of the expected protocol ({why}) and is in `unknown`",
                counted(count, "direction of a connection")
            )),
            Note::LostBoundary => {
                self.remark(format!(
                    "message boundaries were lost {}: what lies before the next is in `unknown`",
                    times(count)
                ));
            }
            Note::Conflict => self.remark(format!(
                "{} carried other bytes than the first copy, which is the one that counts: the capture is damaged or someone interferes",
                counted(count, "retransmission")
            )),
            Note::LongMessage => {
                self.remark(format!("{} longer than is kept: the rest is in `unknown`", counted(count, "message")));
            }
        }
    }
}

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{} times", grouped(count)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_makes_a_result_partial_and_a_remark_does_not() {
        let mut totals = Totals { frames: 1, ..Totals::default() };
        totals.tcp.connections = 1;
        totals.notes.insert(Note::Tls, 1);
        let mut doubts = Doubts::default();
        doubts.of_totals(&totals);
        assert_eq!(doubts.settle().1, exit::COMPLETE);
        totals.tcp.gap_bytes = 7;
        let mut doubts = Doubts::default();
        doubts.of_totals(&totals);
        let (warnings, status) = doubts.settle();
        assert_eq!(status, exit::PARTIAL);
        assert!(warnings.iter().any(|warning| warning.starts_with("7 bytes are in no captured frame")), "{warnings:?}");
    }
}
