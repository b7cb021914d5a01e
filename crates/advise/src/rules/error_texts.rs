//! Frequent errors with long answers.

use super::percent;
use crate::finding::{AdviceFinding, ByteEvidence, Certainty, Example, Remedy};
use crate::rule::Rule;
use crate::seen::{SeenOperation, SeenTraffic};
use overhead_model::{Account, Amounts, Outcome, Side};
use std::collections::BTreeMap;

/// Minimum number of errors.
const ERRORS: u64 = 10;
/// Minimum percentage of errors in a row.
const RATE: f64 = 5.0;
/// Minimum mean length of an error's answer.
const LONG: u64 = 60;

#[derive(Default)]
pub struct ErrorTexts {
    rows: BTreeMap<usize, (u64, Amounts, Option<Example>)>,
}

const REMEDIES: [Remedy; 4] = [
    Remedy {
        at: "application",
        setting: "mend what fails; an expected conflict needs no error: INSERT … ON CONFLICT DO NOTHING, INSERT IGNORE, IF NOT EXISTS",
    },
    Remedy {
        at: "PostgreSQL",
        setting: "log_error_verbosity only affects the log; RAISE in functions with short messages, without DETAIL and HINT",
    },
    Remedy { at: "Redis scripts", setting: "return {err='CODE'} with a short code (redis.error_reply)" },
    Remedy { at: "HTTP servers", setting: "short bodies for errors: nginx error_page with a small file" },
];

impl Rule for ErrorTexts {
    fn name(&self) -> &'static str {
        "error-texts"
    }

    fn operation(&mut self, closed: &SeenOperation<'_>) {
        if closed.operation.outcome != Outcome::Error {
            return;
        }
        let row = self.rows.entry(closed.row_number).or_default();
        row.0 += 1;
        row.1 += closed.operation.sides[1].amounts;
        row.2.get_or_insert(closed.example);
    }

    fn findings(&self, seen: &SeenTraffic) -> Vec<AdviceFinding> {
        self.rows.iter().filter_map(|(&number, row)| self.of_row(seen, number, *row)).collect()
    }
}

impl ErrorTexts {
    fn of_row(
        &self,
        seen: &SeenTraffic,
        number: usize,
        (errors, amounts, example): (u64, Amounts, Option<Example>),
    ) -> Option<AdviceFinding> {
        let row = seen.rows.get(number)?;
        if errors < ERRORS || percent(errors, row.count) < RATE || amounts.payload() / errors < LONG {
            return None;
        }
        let title = format!(
            "{errors} of {} operations are answered by an error, of {} B on average",
            row.count,
            amounts.payload() / errors
        );
        let mut saved = Amounts::ZERO;
        for account in Account::ALL.into_iter().filter(|account| account.is_payload()) {
            saved[account] = amounts[account];
        }
        let side = Side::Response;
        let parts = Account::ALL.into_iter().filter(|account| saved[*account] > 0);
        let parts = parts.map(|account| ByteEvidence {
            side,
            account,
            field: "answers with an error".to_owned(),
            bytes: saved[account],
        });
        Some(AdviceFinding {
            operations: errors,
            example,
            evidence: parts.collect(),
            remedies: REMEDIES.to_vec(),
            certainty: Certainty::AtMost,
            computed: "payload of all answers with an error".to_owned(),
            unknown: "which of the errors the application expects; what would be answered instead",
            ..AdviceFinding::new(self.name(), title, row.subject()).without(number, &[Amounts::ZERO, saved])
        })
    }
}
