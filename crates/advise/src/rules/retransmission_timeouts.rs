//! Losses that were only repaired by a timeout.

use crate::finding::{AdviceFinding, ByteEvidence, Certainty, Example, Remedy};
use crate::rule::Rule;
use crate::seen::{SeenCharge, SeenOperation, SeenTraffic};
use overhead_model::{Account, Side};
use std::collections::{BTreeMap, HashMap};

/// Minimum number of timeouts.
const TIMEOUTS: u64 = 2;
/// A little below Linux' shortest timeout, 200 ms (`tcp_rto_min`). RFC 6298 section 2.4 requires 1 s.
const TIMEOUT_NS: u64 = 190_000_000;

/// Retransmissions after silence (RFC 6298 section 5).
#[derive(Default)]
pub struct RetransmissionTimeouts {
    operations: HashMap<u64, TimeoutLosses>,
    rows: BTreeMap<usize, TimeoutLosses>,
}

#[derive(Clone, Copy, Default)]
struct TimeoutLosses {
    times: u64,
    ns: u64,
    bytes: [u64; 2],
    example: Option<Example>,
}

const REMEDIES: [Remedy; 3] = [
    Remedy {
        at: "network",
        setting: "find the loss: drops of interfaces (ip -s link, ethtool -S), of queues (tc -s qdisc), of listen queues (nstat -az TcpExtListenOverflows)",
    },
    Remedy {
        at: "Linux",
        setting: "ip route change … rto_min 10ms, inside a data centre; net.ipv4.tcp_thin_linear_timeouts=1",
    },
    Remedy {
        at: "clients",
        setting: "TCP_USER_TIMEOUT (libpq tcp_user_timeout) and retries, so that a dead connection is not waited for",
    },
];

impl Rule for RetransmissionTimeouts {
    fn name(&self) -> &'static str {
        "retransmission-timeouts"
    }

    fn charge(&mut self, charge: &SeenCharge) {
        let Some(ns) = charge.since_ns.filter(|ns| *ns >= TIMEOUT_NS) else { return };
        if charge.account != Account::Retransmission {
            return;
        }
        // If the segment was captured before it was lost, its operation has already closed.
        let (lost, example) = match (charge.operation, charge.closed) {
            (Some(example), _) => (self.operations.entry(example.operation).or_default(), example),
            (None, Some((row, example))) => (self.rows.entry(row).or_default(), example),
            (None, None) => return,
        };
        lost.times += 1;
        lost.ns += ns;
        lost.bytes[charge.side as usize] += charge.bytes;
        lost.example.get_or_insert(example);
    }

    fn operation(&mut self, closed: &SeenOperation<'_>) {
        let Some(lost) = self.operations.remove(&closed.example.operation) else { return };
        let row = self.rows.entry(closed.row_number).or_default();
        row.times += lost.times;
        row.ns += lost.ns;
        row.bytes.iter_mut().zip(lost.bytes).for_each(|(sum, bytes)| *sum += bytes);
        row.example = row.example.or(lost.example);
    }

    fn findings(&self, seen: &SeenTraffic) -> Vec<AdviceFinding> {
        let rows = self.rows.iter().filter(|(_, lost)| lost.times >= TIMEOUTS);
        rows.filter_map(|(&number, lost)| {
            let row = seen.rows.get(number)?;
            let title = format!("{} losses were mended by time-outs, {:.0} ms each on average", lost.times, lost.ns as f64 / lost.times as f64 / 1e6);
            let account = Account::Retransmission;
            let evidence = Side::BOTH.map(|side| ByteEvidence { side, account, field: "repeated payload and its headers".to_owned(), bytes: lost.bytes[side as usize] });
            let mut finding = AdviceFinding {
                operations: lost.times,
                example: lost.example,
                evidence: evidence.into_iter().filter(|evidence| evidence.bytes > 0).collect(),
                remedies: REMEDIES.to_vec(),
                certainty: Certainty::Exact,
            is_extra_time: true,
                computed: "retransmissions that come 190 ms or more after the payload before on their connection: the silence is the time".to_owned(),
                unknown: "where the segment was lost; whether the peer was merely slow",
                ..AdviceFinding::new(self.name(), title, row.subject())
            };
            for side in Side::BOTH {
                finding.change(number, side, account, -lost.bytes[side as usize].cast_signed());
            }
            finding.saving.ns = Some(lost.ns);
            Some(finding)
        })
        .collect()
    }
}
