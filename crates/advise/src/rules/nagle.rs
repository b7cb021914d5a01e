//! The last segment of a message held back until the one before is acknowledged, which is delayed.

use crate::finding::{Certainty, Example, Finding, Remedy};
use crate::rule::Rule;
use crate::seen::{Closed, Piece, Seen};
use overhead_model::Side;
use std::collections::BTreeMap;

/// Stalls of a row below which nothing is said.
const STALLS: u64 = 3;
/// The delay of an acknowledgment: 40 ms on Linux, 200 ms at most on others (RFC 1122 section 4.2.3.2 allows 500).
const DELAY_NS: std::ops::RangeInclusive<u64> = 35_000_000..=250_000_000;
/// How soon after the acknowledgment the held segment follows: 5 ms.
const AT_ONCE_NS: u64 = 5_000_000;

/// Nagle's algorithm (RFC 896) against delayed acknowledgments (RFC 1122 section 4.2.3.2).
#[derive(Default)]
pub struct Nagle {
    rows: BTreeMap<(usize, Side), Stalls>,
}

#[derive(Default)]
struct Stalls {
    times: u64,
    ns: u64,
    example: Option<Example>,
}

const REMEDIES: [Remedy; 4] = [
    Remedy { at: "pymemcache", setting: "Client(…, no_delay=True)" },
    Remedy { at: "libmemcached", setting: "MEMCACHED_BEHAVIOR_TCP_NODELAY" },
    Remedy { at: "pgjdbc, MySQL Connector/J", setting: "tcpNoDelay=true (the default)" },
    Remedy { at: "sockets", setting: "setsockopt(TCP_NODELAY), or one write (writev, TCP_CORK) for each message" },
];

impl Rule for Nagle {
    fn name(&self) -> &'static str {
        "nagle"
    }

    fn operation(&mut self, closed: &Closed<'_>) {
        for side in Side::BOTH {
            let pieces = &closed.directions[side as usize].pieces;
            let held = pieces.iter().zip(pieces.iter().skip(1)).filter_map(|(before, piece)| held_ns(before, piece));
            for ns in held {
                let stalls = self.rows.entry((closed.row_number, side)).or_default();
                stalls.times += 1;
                stalls.ns += ns;
                stalls.example.get_or_insert(closed.example);
            }
        }
    }

    fn findings(&self, seen: &Seen) -> Vec<Finding> {
        let rows = self.rows.iter().filter(|(_, stalls)| stalls.times >= STALLS);
        rows.filter_map(|(&(number, side), stalls)| {
            let row = seen.rows.get(number)?;
            let who = if side == Side::Request { "client" } else { "server" };
            let title = format!("{} times the {who} held the rest of a message back until it was acknowledged, {:.0} ms later on average", stalls.times, stalls.ns as f64 / stalls.times as f64 / 1e6);
            let mut finding = Finding {
                operations: stalls.times,
                example: stalls.example,
                remedies: REMEDIES.to_vec(),
                certainty: Certainty::Exact,
                computed: "time between two segments of a message, 35 to 250 ms, of which the second follows an acknowledgment without payload within 5 ms".to_owned(),
                unknown: "whether the sender had the rest of the message ready all that time",
                ..Finding::new(self.name(), title, row.subject())
            };
            finding.saving.ns = Some(stalls.ns);
            Some(finding)
        })
        .collect()
    }
}

/// Returns for how long a piece was held after the one before.
fn held_ns(before: &Piece, piece: &Piece) -> Option<u64> {
    let waited = piece.time_ns.saturating_sub(before.time_ns);
    let acknowledged = piece
        .bare_ns
        .is_some_and(|bare| bare > before.time_ns && bare <= piece.time_ns && piece.time_ns - bare <= AT_ONCE_NS);
    (DELAY_NS.contains(&waited) && acknowledged).then_some(waited)
}
