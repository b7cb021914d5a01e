//! Compares subjects by payload if only one has frames.

use crate::group::RunGroup;
use overhead_model::record::{SideRow, SideSums};
use overhead_model::{Account, Amounts, Transport};

/// Returns whether exactly one of the two subjects has connections in frames.
pub(super) fn differ(groups: [&RunGroup; 2]) -> bool {
    let transports = groups.map(|group| group.runs.iter().map(|named| named.run.transport));
    let [has_frames, others_have] = transports.map(|mut transports| transports.any(Transport::has_frames));
    has_frames != others_have
}

/// Reduces a subject to its payload, as if captured without frames.
pub(super) fn alone(group: &RunGroup) -> RunGroup {
    let mut group = group.clone();
    for row in group.runs.iter_mut().flat_map(|named| &mut named.run.operations) {
        [&mut row.request, &mut row.response].into_iter().for_each(of_row);
        for statement in &mut row.statements {
            [&mut statement.totals.request, &mut statement.totals.response].into_iter().for_each(of_statement);
        }
    }
    group
}

fn of_row(side: &mut SideRow) {
    side.accounts = of_amounts(side.accounts);
    side.wire_bytes = side.payload_bytes;
}

fn of_statement(side: &mut SideSums) {
    side.accounts = of_amounts(side.accounts);
    side.wire_bytes = side.payload_bytes;
}

fn of_amounts(mut amounts: Amounts) -> Amounts {
    for account in Account::ALL.into_iter().filter(|account| !account.is_payload()) {
        amounts[account] = 0;
    }
    amounts
}
