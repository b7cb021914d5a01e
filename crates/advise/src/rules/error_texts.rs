//! Frequent errors with long answers.

use super::percent;
use crate::finding::{AdviceFinding, Certainty, FoundOperations, Remedy, remedies};
use crate::rule::Rule;
use crate::seen::{SeenOperation, SeenRow, SeenTraffic};
use overhead_model::{Account, Amounts, Outcome};
use std::collections::BTreeMap;

/// Minimum number of errors.
const ERRORS: u64 = 10;
/// Minimum percentage of errors in a row.
const RATE: f64 = 5.0;
/// Minimum mean length of an error's answer.
const LONG: u64 = 60;

#[derive(Default)]
pub struct ErrorTexts {
    rows: BTreeMap<usize, FoundOperations>,
}

const REMEDIES: &[Remedy] = remedies! {
    "application": "mend what fails; an expected conflict needs no error: INSERT … ON CONFLICT DO NOTHING, INSERT IGNORE, IF NOT EXISTS",
    "PostgreSQL": "log_error_verbosity only affects the log; RAISE in functions with short messages, without DETAIL and HINT",
    "Redis scripts": "return {err='CODE'} with a short code (redis.error_reply)",
    "HTTP servers": "short bodies for errors: nginx error_page with a small file",
};

/// What is counted.
const FIELD: &str = "answers with an error";

impl Rule for ErrorTexts {
    fn operation(&mut self, closed: &SeenOperation<'_>) {
        if closed.operation.outcome != Outcome::Error {
            return;
        }
        let row = self.rows.entry(closed.row.number).or_default();
        row.add(1, 0, closed.example);
        row.amounts[1] += closed.operation.sides[1].amounts;
    }

    fn row_finding(&self, _: &SeenTraffic, row: &SeenRow) -> Option<AdviceFinding> {
        let FoundOperations { times: errors, amounts: [_, answers], example, .. } = *self.rows.get(&row.number)?;
        let mean = answers.payload() / errors;
        if errors < ERRORS || percent(errors, row.count) < RATE || mean < LONG {
            return None;
        }
        let title = format!("{errors} of {} operations are answered by an error, of {mean} B on average", row.count);
        let mut saved = Amounts::ZERO;
        for account in Account::ALL.into_iter().filter(|account| account.is_payload()) {
            saved[account] = answers[account];
        }
        Some(AdviceFinding {
            remedies: REMEDIES.to_vec(),
            certainty: Certainty::AtMost,
            computed: "payload of all answers with an error".to_owned(),
            unknown: "which of the errors the application expects; what would be answered instead",
            ..AdviceFinding::new(title, row, errors, example).saving(row.number, &[Amounts::ZERO, saved], FIELD)
        })
    }
}
