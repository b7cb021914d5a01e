//! Several segments for a message that would fit into one.

use super::percent;
use crate::finding::{AdviceFinding, Certainty, Example, Remedy};
use crate::rule::Rule;
use crate::seen::{SeenDirection, SeenOperation, SeenTraffic};
use overhead_model::{Account, Amounts, Side};
use std::collections::BTreeMap;

/// Minimum number of messages.
const MESSAGES: u64 = 10;
/// Minimum percentage of the row's bytes.
const SHARE: f64 = 1.0;
/// Payload of an Ethernet segment with timestamps (1,500 − 20 − 32).
const SEGMENT: u64 = 1448;
/// Longest time between segments of a message that was ready at once.
const AT_ONCE_NS: u64 = 5_000_000;

/// Messages written in several calls, without corking.
#[derive(Default)]
pub struct SmallSegments {
    rows: BTreeMap<(usize, Side), SplitMessages>,
}

#[derive(Default)]
struct SplitMessages {
    messages: u64,
    segments: u64,
    headers: [u64; 3],
    example: Option<Example>,
}

const REMEDIES: [Remedy; 3] = [
    Remedy {
        at: "driver or server",
        setting: "one write for each message: a buffered writer (Go bufio, Java BufferedOutputStream) that is flushed at its end, or writev",
    },
    Remedy { at: "sockets", setting: "TCP_CORK (Linux), or MSG_MORE with all but the last write" },
    Remedy { at: "nginx", setting: "tcp_nopush on, with sendfile on: header and body of an answer in one segment" },
];

impl Rule for SmallSegments {
    fn name(&self) -> &'static str {
        "small-segments"
    }

    fn operation(&mut self, closed: &SeenOperation<'_>) {
        if !closed.row.is_workload() {
            return;
        }
        for side in Side::BOTH {
            let direction = &closed.directions[side as usize];
            if !is_split(direction) {
                continue;
            }
            let split = self.rows.entry((closed.row_number, side)).or_default();
            split.messages += 1;
            split.example.get_or_insert(closed.example);
            for piece in direction.pieces.iter().skip(1) {
                split.segments += 1;
                split.headers.iter_mut().zip(piece.headers).for_each(|(sum, bytes)| *sum += bytes);
            }
        }
    }

    fn findings(&self, seen: &SeenTraffic) -> Vec<AdviceFinding> {
        self.rows.iter().filter_map(|(&(number, side), split)| self.of_row(seen, (number, side), split)).collect()
    }
}

/// Returns whether a short message arrived at once, in several frames without other payload.
fn is_split(direction: &SeenDirection) -> bool {
    let SeenDirection { pieces, count, len, .. } = direction;
    let whole = pieces.len() as u64 == *count && pieces.iter().all(|piece| piece.len == piece.payload);
    let mut pairs = pieces.iter().zip(pieces.iter().skip(1));
    *count > 1
        && *len <= SEGMENT
        && whole
        && pairs.all(|(before, after)| after.time_ns.saturating_sub(before.time_ns) <= AT_ONCE_NS)
}

impl SmallSegments {
    fn of_row(
        &self,
        seen: &SeenTraffic,
        (number, side): (usize, Side),
        split: &SplitMessages,
    ) -> Option<AdviceFinding> {
        let row = seen.rows.get(number)?;
        if split.messages < MESSAGES || percent(split.headers.iter().sum(), row.wire()) < SHARE {
            return None;
        }
        let title = format!(
            "{} {}s of at most {SEGMENT} B come in several segments, {} more than needed",
            split.messages,
            side.name(),
            split.segments
        );
        let mut amounts = [Amounts::ZERO; 2];
        let [link, ip, tcp] = split.headers;
        for (account, bytes) in [(Account::Link, link), (Account::Ip, ip), (Account::Tcp, tcp)] {
            amounts[side as usize][account] = bytes;
        }
        Some(AdviceFinding {
            operations: split.messages,
            example: split.example,
            remedies: REMEDIES.to_vec(),
            certainty: Certainty::Exact,
            computed: "headers of all but the first segment of messages that have their frames to themselves and arrive within 5 ms from one to the next".to_owned(),
            unknown: "acknowledgments that fall away with them; system calls (see the counters of a run)",
            ..AdviceFinding::new(self.name(), title, row.subject()).without(number, &amounts)
        })
    }
}
