//! Several segments for a message that would fit into one.

use super::percent;
use crate::finding::{AdviceFinding, Certainty, FoundOperations, Remedy, remedies};
use crate::rule::Rule;
use crate::seen::{SeenDirection, SeenOperation, SeenRow, SeenTraffic};
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
    /// With the number of further segments.
    rows: BTreeMap<(usize, Side), (u64, FoundOperations)>,
}

const REMEDIES: &[Remedy] = remedies! {
    "driver or server": "one write for each message: a buffered writer (Go bufio, Java BufferedOutputStream) that is flushed at its end, or writev",
    "sockets": "TCP_CORK (Linux), or MSG_MORE with all but the last write",
    "nginx": "tcp_nopush on, with sendfile on: header and body of an answer in one segment",
};

impl Rule for SmallSegments {
    fn operation(&mut self, closed: &SeenOperation<'_>) {
        if !closed.row.is_workload() {
            return;
        }
        for side in Side::BOTH {
            let direction = &closed.directions[side as usize];
            if !is_split(direction) {
                continue;
            }
            let (segments, split) = self.rows.entry((closed.row.number, side)).or_default();
            split.add(1, 0, closed.example);
            for piece in direction.pieces.iter().skip(1) {
                *segments += 1;
                let accounts = [Account::Link, Account::Ip, Account::Tcp].into_iter().zip(piece.headers);
                accounts.for_each(|(account, bytes)| split.amounts[side as usize][account] += bytes);
            }
        }
    }

    fn side_finding(&self, _: &SeenTraffic, row: &SeenRow, side: Side) -> Option<AdviceFinding> {
        let (segments, FoundOperations { times, amounts, example, .. }) = self.rows.get(&(row.number, side))?;
        if *times < MESSAGES || percent(amounts.iter().map(Amounts::total).sum(), row.wire()) < SHARE {
            return None;
        }
        let title = format!(
            "{times} {}s of at most {SEGMENT} B come in several segments, {segments} more than needed",
            side.name()
        );
        Some(AdviceFinding {
            remedies: REMEDIES.to_vec(),
            certainty: Certainty::Exact,
            computed: "headers of all but the first segment of messages that have their frames to themselves and arrive within 5 ms from one to the next".to_owned(),
            unknown: "acknowledgments that fall away with them; system calls (see the counters of a run)",
            ..AdviceFinding::new(title, row, *times, *example).without(row.number, amounts)
        })
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
