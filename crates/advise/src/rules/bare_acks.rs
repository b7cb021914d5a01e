//! Acknowledgments in separate frames.

use super::percent;
use crate::finding::{AdviceFinding, ByteEvidence, Certainty, Remedy};
use crate::rule::Rule;
use crate::seen::{SeenRow, SeenTraffic};
use overhead_model::{Account, Amounts, Side};

/// Minimum number of operations.
const OPERATIONS: u64 = 20;
/// Minimum percentage of the row's bytes.
const SHARE: f64 = 15.0;

/// Frames without payload (RFC 9293 section 3.8.6.3).
pub struct BareAcks;

const REMEDIES: [Remedy; 4] = [
    Remedy { at: "sockets", setting: "no TCP_QUICKACK: an answer within 40 ms carries the acknowledgment" },
    Remedy { at: "Linux", setting: "ip route change … quickack 0" },
    Remedy { at: "driver", setting: "larger batches and pipelining: an acknowledgment covers several operations" },
    Remedy { at: "server", setting: "answer in one write: each further segment can bring an acknowledgment" },
];

impl Rule for BareAcks {
    fn name(&self) -> &'static str {
        "bare-acks"
    }

    fn findings(&self, seen: &SeenTraffic) -> Vec<AdviceFinding> {
        seen.workload().filter_map(|(number, row)| self.of_row(seen, number, row)).collect()
    }
}

impl BareAcks {
    fn of_row(&self, _: &SeenTraffic, number: usize, row: &SeenRow) -> Option<AdviceFinding> {
        let control = row.amounts.map(|side| side[Account::Control]);
        let bytes: u64 = control.iter().sum();
        if row.count < OPERATIONS || percent(bytes, row.wire()) < SHARE {
            return None;
        }
        let account = Account::Control;
        let evidence = Side::BOTH.map(|side| ByteEvidence {
            side,
            account,
            field: "frames without payload".to_owned(),
            bytes: control[side as usize],
        });
        let title = format!("{:.0}% of the bytes are frames that only acknowledge", percent(bytes, row.wire()));
        Some(AdviceFinding {
            operations: row.count,
            example: row.example,
            evidence: evidence.into_iter().filter(|evidence| evidence.bytes > 0).collect(),
            remedies: REMEDIES.to_vec(),
            computed: "all frames without payload that belong to these operations; handshakes and teardowns are not among them".to_owned(),
            unknown: "how many of them remain: TCP acknowledges every second full segment in any case",
            certainty: Certainty::AtMost,
            ..AdviceFinding::new(self.name(), title, row.subject())
                .without(number, &control.map(|bytes| Amounts::of(account, bytes)))
        })
    }
}
