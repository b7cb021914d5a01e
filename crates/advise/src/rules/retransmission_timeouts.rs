//! Losses that were only repaired by a timeout.

use crate::finding::{AdviceFinding, Certainty, FoundOperations, Remedy, add_sides, remedies};
use crate::rule::Rule;
use crate::seen::{SeenCharge, SeenOperation, SeenRow, SeenTraffic};
use overhead_model::Account;
use std::collections::{BTreeMap, HashMap};

/// Minimum number of timeouts.
const TIMEOUTS: u64 = 2;
/// A little below Linux' shortest timeout, 200 ms (`tcp_rto_min`). RFC 6298 section 2.4 requires 1 s.
const TIMEOUT_NS: u64 = 190_000_000;

/// Retransmissions after silence (RFC 6298 section 5).
#[derive(Default)]
pub struct RetransmissionTimeouts {
    operations: HashMap<u64, FoundOperations>,
    rows: BTreeMap<usize, FoundOperations>,
}

const REMEDIES: &[Remedy] = remedies! {
    "network":
        "find the loss: drops of interfaces (ip -s link, ethtool -S), of queues (tc -s qdisc), of listen queues (nstat -az TcpExtListenOverflows)",
    "Linux": "ip route change … rto_min 10ms, inside a data centre; net.ipv4.tcp_thin_linear_timeouts=1",
    "clients": "TCP_USER_TIMEOUT (libpq tcp_user_timeout) and retries, so that a dead connection is not waited for",
};

impl Rule for RetransmissionTimeouts {
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
        lost.add(1, ns, example);
        lost.amounts[charge.side as usize][Account::Retransmission] += charge.bytes;
    }

    fn operation(&mut self, closed: &SeenOperation<'_>) {
        let Some(lost) = self.operations.remove(&closed.example.operation) else { return };
        let row = self.rows.entry(closed.row.number).or_default();
        row.add(lost.times, lost.ns, lost.example.unwrap_or(closed.example));
        add_sides(&mut row.amounts, &lost.amounts);
    }

    fn row_finding(&self, _: &SeenTraffic, row: &SeenRow) -> Option<AdviceFinding> {
        let FoundOperations { times, ns, amounts, example } = self.rows.get(&row.number)?;
        if *times < TIMEOUTS {
            return None;
        }
        let mean = *ns as f64 / *times as f64 / 1e6;
        let title = format!("{times} losses were mended by time-outs, {mean:.0} ms each on average");
        Some(AdviceFinding {
            remedies: REMEDIES.to_vec(),
            certainty: Certainty::Exact,
            is_extra_time: true,
            computed: "retransmissions that come 190 ms or more after the last payload of their connection; the time is this pause".to_owned(),
            unknown: "where the segment was lost; whether the peer was merely slow",
            ..AdviceFinding::new(title, row, *times, *example).saving(row.number, amounts, "repeated payload and its headers").waiting(*ns)
        })
    }
}
