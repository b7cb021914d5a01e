//! Acknowledgments in separate frames.

use super::percent;
use crate::finding::{AdviceFinding, Certainty, Remedy, remedies};
use crate::rule::Rule;
use crate::seen::{SeenRow, SeenTraffic};
use overhead_model::{Account, Amounts};

/// Minimum number of operations.
const OPERATIONS: u64 = 20;
/// Minimum percentage of the row's bytes.
const SHARE: f64 = 15.0;

/// Frames without payload (RFC 9293 section 3.8.6.3).
pub struct BareAcks;

const REMEDIES: &[Remedy] = remedies! {
    "sockets": "no TCP_QUICKACK: an answer within 40 ms carries the acknowledgment",
    "Linux": "ip route change … quickack 0",
    "driver": "larger batches and pipelining: an acknowledgment covers several operations",
    "server": "answer in one write: each further segment can bring an acknowledgment",
};

impl Rule for BareAcks {
    fn row_finding(&self, _: &SeenTraffic, row: &SeenRow) -> Option<AdviceFinding> {
        let control = row.amounts.map(|side| Amounts::new(Account::Control, side[Account::Control]));
        let share = percent(control.iter().map(Amounts::total).sum(), row.wire());
        if !row.is_workload() || row.count < OPERATIONS || share < SHARE {
            return None;
        }
        let title = format!("{share:.0}% of the bytes are frames that only acknowledge");
        Some(AdviceFinding {
            remedies: REMEDIES.to_vec(),
            computed: "all frames without payload that belong to these operations; handshakes and teardowns are not among them".to_owned(),
            unknown: "how many would remain: TCP acknowledges every second full segment in any case",
            certainty: Certainty::AtMost,
            ..AdviceFinding::new(title, row, row.count, row.example).saving(row.number, &control, "frames without payload")
        })
    }
}
