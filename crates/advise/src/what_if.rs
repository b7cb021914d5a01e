//! The ledger with the remedy of a rule applied.

use crate::finding::{AdviceFinding, Certainty, FindingSubject, LedgerChange};
use crate::seen::SeenTraffic;
use overhead_model::{Account, Amounts, Side};
use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangedRow {
    pub subject: FindingSubject,
    /// Unchanged: avoided operations have no bytes left.
    pub count: u64,
    /// As captured, by side.
    pub before: [Amounts; 2],
    /// With the remedy, by side.
    pub after: [Amounts; 2],
}

/// The ledger of the selected connections before and after.
#[derive(Clone, Debug, Serialize)]
pub struct WhatIf {
    /// The rule whose findings are applied, as in `--what-if`.
    pub rule: &'static str,
    /// The lowest of its findings.
    pub certainty: Certainty,
    /// Wire bytes of the selected connections.
    pub before: u64,
    /// Wire bytes that would remain.
    pub after: u64,
    /// Only rows that change.
    pub rows: Vec<ChangedRow>,
    /// Distinct explanations of the findings.
    pub computed: Vec<String>,
}

impl WhatIf {
    /// Applies the changes of all findings of a rule.
    pub fn new(rule: &'static str, seen: &SeenTraffic, findings: &[AdviceFinding]) -> Self {
        let findings: Vec<&AdviceFinding> = findings.iter().filter(|finding| finding.rule == rule).collect();
        let mut after: Vec<[Amounts; 2]> = seen.rows.iter().map(|row| row.amounts).collect();
        for &LedgerChange { row, side, account, bytes } in findings.iter().flat_map(|finding| &finding.changes) {
            if let Some(amounts) = after.get_mut(row) {
                let amount = &mut amounts[side as usize][account];
                *amount = amount.saturating_add_signed(bytes);
            }
        }
        let changed = seen.rows.iter().zip(&after).filter(|(row, after)| row.amounts != **after);
        let rows = changed.map(|(row, after)| ChangedRow {
            subject: row.into(),
            count: row.count,
            before: row.amounts,
            after: *after,
        });
        let exact = findings.iter().all(|finding| finding.certainty == Certainty::Exact);
        let mut computed: Vec<String> = findings.iter().map(|finding| finding.computed.clone()).collect();
        computed.sort();
        computed.dedup();
        Self {
            rule,
            certainty: if exact { Certainty::Exact } else { Certainty::Modelled },
            before: seen.wire(),
            after: after.iter().flatten().map(Amounts::total).sum(),
            rows: rows.collect(),
            computed,
        }
    }
}

impl ChangedRow {
    /// Returns the accounts that differ: side, account, before and after.
    pub fn differences(&self) -> impl Iterator<Item = (Side, Account, u64, u64)> + '_ {
        let all = Side::BOTH.into_iter().flat_map(|side| Account::ALL.map(|account| (side, account)));
        all.map(|(side, account)| {
            (side, account, self.before[side as usize][account], self.after[side as usize][account])
        })
        .filter(|(_, _, before, after)| before != after)
    }
}
