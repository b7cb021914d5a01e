//! Warnings about what the dissection noted.

use super::Warnings;
use overhead_decode::Note;
use overhead_decode::limits::{DECOMPRESSED, EXPANDED, EXPANDED_OPERATIONS, EXPANSION_FREE, PACKED_OPERATIONS};
use overhead_dissect::limits;
use overhead_report::text::{counted, grouped};

impl Warnings {
    /// Reports what makes pairing or the count of round trips doubtful.
    fn warn_of_pairing(&mut self, note: Note, count: u64) {
        match note {
            Note::Ambiguous => self.partial(format!(
                "{} could belong to any of several requests that need none, and went to the first of them: rows and latencies of these may be another's; to avoid this, send an opaque (`O`) or the key (`k`) with the request",
                counted(count, "answer")
            )),
            Note::Unpaired => self.partial(format!(
                "{} after lost frames could belong to several requests: such answers and requests are counted apart, the requests as unanswered",
                counted(count, "answer")
            )),
            Note::Shifted => self.partial(format!(
                "{} had requests under way that were sent before the capture or the window began: answers to these went to the first that were seen, and rows and latencies may be those of others up to where the client waited for all; capture from the beginning of the connections",
                counted(count, "connection")
            )),
            Note::Overlapping => self.remark(format!(
                "on {}, most requests were sent while others waited for their answers: if the client sends by a clock (an open-loop load generator), its round trips are counted too high",
                counted(count, "connection")
            )),
            _ => {}
        }
    }

    /// Reports traffic that was not captured, could not be distinguished or was not processed.
    fn warn_of_bound(&mut self, note: Note, count: u64) {
        match note {
            // The warnings about directions cover this note, but it also makes the result partial.
            Note::OneWay => self.partial = true,
            Note::MidMessage => self.remark(format!(
                "the capture, a window or the rest after a gap begins in the middle of a message {}: what lies before the next is in `unknown`",
                times(count)
            )),
            Note::Abandoned => self.partial(format!(
                "on {} no frame of the server was captured: requests beyond the first {} were closed as unanswered at once",
                counted(count, "connection"),
                grouped(limits::OUTSTANDING_ONE_WAY as u64)
            )),
            Note::EndNotCaptured => self.partial(format!(
                "the end of {} is in no captured frame, as later sequence or acknowledgment numbers show: values of these connections are too small",
                counted(count, "direction of a connection")
            )),
            Note::Implausible(codec) => self.remark(format!(
                "{} to decompress to more than {} can ({} times the compressed length): the body is in `unknown`",
                claiming(count),
                codec.name(),
                grouped(codec.expansion() as u64)
            )),
            Note::LongBody => self.remark(format!(
                "{} to decompress to more than {} MiB, the most that is decompressed at once: the body is in `unknown`",
                claiming(count),
                DECOMPRESSED >> 20
            )),
            Note::Expansion => self.partial(format!(
                "{} not decompressed, and in `unknown`: a run decompresses at most {EXPANSION_FREE} times the compressed length and {} more",
                if count == 1 { "1 message is".to_owned() } else { format!("{} are", counted(count, "message")) },
                counted(EXPANDED, "byte")
            )),
            Note::ManyOperations => self.partial(format!(
                "{} more operations than are decoded, and the rest of each is in `unknown`: a run decodes at most {} in one, and {} more than compressed bytes",
                if count == 1 { "1 compressed packet has".to_owned() } else { format!("{} have", counted(count, "compressed packet")) },
                grouped(PACKED_OPERATIONS),
                grouped(EXPANDED_OPERATIONS)
            )),
            Note::Datagrams { port, is_selected } => {
                let warning = format!(
                    "{} on port {port} {} of UDP, which is not decoded: counted as `other`",
                    counted(count, "datagram"),
                    if count == 1 { "is" } else { "are" },
                );
                if is_selected { self.partial(warning) } else { self.remark(warning) }
            }
            _ => {}
        }
    }

    /// Reports what taps repeated or put out of order.
    fn warn_of_tap(&mut self, note: Note, count: u64) {
        match note {
            Note::Translated { from, to } => self.remark(format!(
                "{} to {from} {} captured on both sides of an address translation: counted once, under the server's own address {to}",
                counted(count, "connection"),
                if count == 1 { "was" } else { "were" }
            )),
            Note::Relay { server } => self.remark(format!(
                "{server} may be a proxy or pooler: the same requests go on to another server of this capture, which answers them first, so the totals include the traffic on both sides of it; --by server separates them"
            )),
            Note::UnsteadyTap => self.partial(
                "the tap repeated many frames, but not nearly all: repeats count as copies, and some may be retransmissions; capture at one port, in both directions",
            ),
            Note::RepeatedBackInTime => self.partial(format!(
                "the times in the file step back, and {} there repeat earlier payload: they count as retransmissions, and may be copies of the same frames; put the frames in order (`reordercap`)",
                counted(count, "frame")
            )),
            Note::BothEnds => self.partial(
                "the capture has both ends of a path in one file: each frame counts where it was seen first, so latencies are those of neither end; analyze the capture of one end",
            ),
            _ => {}
        }
    }

    pub(super) fn warn_of_note(&mut self, note: Note, count: u64) {
        match note {
            // The next two notes cover encryption; other warnings list foreign traffic by port, and late frames.
            Note::Tls | Note::Foreign(_) | Note::CapturedLate | Note::CapturedTooLate => {}
            // Completed by `of_encrypted`, which knows the connections.
            Note::Encrypted => self.encrypted = count,
            Note::Undecryptable(why) => self.remark(format!(
                "the decryption of {} ended ({why}): the ciphertext from there on is in `unknown`",
                counted(count, "direction of a connection")
            )),
            Note::UndecodedMessage => self.remark(format!(
                "{} could not be decoded to the end: the rest is in `unknown`",
                counted(count, "message")
            )),
            Note::UntypedValue => self.remark(format!(
                "{} whose type was not seen on the wire {} like an array, a composite or a collection: inner structure, if any, is in `data` with the values",
                counted(count, "cell"),
                if count == 1 { "looks" } else { "look" }
            )),
            Note::ProRata => self.remark(format!(
                "{} of compressed bytes are shared between accounts in proportion to what they decompress to",
                counted(count, "body")
            )),
            Note::OneWay
            | Note::Datagrams { .. }
            | Note::MidMessage
            | Note::Abandoned
            | Note::Expansion
            | Note::ManyOperations
            | Note::EndNotCaptured
            | Note::Implausible(_)
            | Note::LongBody => self.warn_of_bound(note, count),
            Note::Ambiguous | Note::Shifted | Note::Unpaired | Note::Overlapping => self.warn_of_pairing(note, count),
            Note::Translated { .. } | Note::Relay { .. } | Note::UnsteadyTap | Note::BothEnds | Note::RepeatedBackInTime => {
                self.warn_of_tap(note, count);
            }
            Note::Switched(protocol) => self.remark(format!(
                "{} went on with {protocol}, which is not decoded: the payload from there on is in `unknown`",
                counted(count, "connection")
            )),
            Note::Malformed(why) => self.partial(format!(
                "{}: what follows is not of the expected protocol ({why}) and is in `unknown`",
                counted(count, "direction of a connection")
            )),
            // Even if nothing was lost: decoding may have resumed at a false boundary.
            Note::LostBoundary => {
                self.partial(format!(
                    "message boundaries were lost {}: what lies before the next is in `unknown`, and operations there are not counted",
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

fn claiming(count: u64) -> String {
    format!("{} {}", counted(count, "compressed message"), if count == 1 { "claims" } else { "claim" })
}

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{} times", grouped(count)) }
}
