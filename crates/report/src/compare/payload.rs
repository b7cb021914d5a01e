//! Compares subjects by payload if only one has frames.

use crate::group::RunGroup;
use overhead_model::record::SideSums;
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
        for side in [&mut row.request, &mut row.response] {
            side.accounts = payload(side.accounts);
            side.wire_bytes = side.payload_bytes;
        }
        let totals = row.statements.iter_mut().map(|statement| &mut statement.totals);
        for side in totals.flat_map(|totals| [&mut totals.request, &mut totals.response]) {
            *side = SideSums { unseen: side.unseen.take(), ..SideSums::new(side.frames, payload(side.accounts)) };
        }
    }
    group
}

fn payload(mut amounts: Amounts) -> Amounts {
    for account in Account::ALL.into_iter().filter(|account| !account.is_payload()) {
        amounts[account] = 0;
    }
    amounts
}
