//! Equations that hold for any capture.

use overhead_dissect::{Dissector, Totals};
use overhead_model::{Amounts, ConnectionSummary, Operation, RowId, RowKey, Side, SideTotals, Tally};

/// A tally of bytes by account, whatever they belong to.
#[derive(Debug, Default)]
pub(crate) struct Sum(Amounts);

impl Tally for Sum {
    fn row(&mut self, _: RowKey<'_>) -> RowId {
        RowId(0)
    }

    fn operation(&mut self, _: RowId, operation: &Operation) {
        operation.sides.iter().for_each(|side| self.0 += side.amounts);
    }

    fn late(&mut self, _: RowId, _: Side, totals: &SideTotals) {
        self.0 += totals.amounts;
    }

    fn connection(&mut self, _: ConnectionSummary) {}
}

/// Ends the dissection and checks the totals.
pub(crate) fn settle(dissector: Dissector<Sum>) -> Totals {
    let (Sum(sum), totals) = dissector.finish();
    assert_eq!(sum.total() + totals.other, totals.wire_bytes, "the ledger balances");
    assert_eq!(sum.payload() + totals.tcp.retransmitted_bytes, totals.tcp.payload_bytes, "payload adds up");
    totals
}
