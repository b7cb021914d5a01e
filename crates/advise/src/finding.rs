//! Findings and their savings.

use overhead_model::{Account, Amounts, Side};
use schemars::JsonSchema;
use serde::Serialize;

/// An operation to show with `overhead explain FILE --op N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Example {
    /// Number in the capture, from 1, as in `explain`.
    pub operation: u64,
    /// First frame with its payload, or of the connection if it has none.
    pub frame: u64,
}

/// The operations a finding is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FindingSubject {
    pub protocol: &'static str,
    pub class: &'static str,
    pub name: String,
    /// How they were sent; empty if there is only one way.
    pub via: String,
    /// Without literals; empty if there is none, or if the finding is about several.
    pub statement: String,
}

/// Bytes that support a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ByteEvidence {
    pub side: Side,
    pub account: Account,
    /// Field with its groups, or a description of the counted bytes.
    pub field: String,
    /// Total of all operations.
    pub bytes: u64,
}

impl ByteEvidence {
    /// Returns the amounts that are not zero.
    pub fn from_amounts<'a>(amounts: &'a [Amounts; 2], field: &'a str) -> impl Iterator<Item = Self> + use<'a> {
        let all = Side::BOTH.into_iter().flat_map(|side| Account::ALL.map(|account| (side, account)));
        let all = all.map(|(side, account)| (side, account, amounts[side as usize][account]));
        let some = all.filter(|(_, _, bytes)| *bytes > 0);
        some.map(|(side, account, bytes)| Self { side, account, field: field.to_owned(), bytes })
    }
}

/// A setting to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Remedy {
    /// Driver, server or system with the setting.
    pub at: &'static str,
    /// Name and recommended value.
    pub setting: &'static str,
}

/// Remedies as lines of the form `"place": "setting",`.
macro_rules! remedies {
    ($($at:literal: $setting:literal,)*) => { &[$($crate::finding::Remedy { at: $at, setting: $setting }),*] };
}
pub(crate) use remedies;

/// How reliable a saving is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// The same session would have exactly these bytes fewer. `--what-if` recomputes the ledger.
    Exact,
    /// Based on a model that the finding states. `--what-if` uses the same model.
    Modelled,
    /// An upper bound: some of it may be needed.
    #[default]
    AtMost,
}

/// Adds the bytes of both sides.
pub fn add_sides(sum: &mut [Amounts; 2], more: &[Amounts; 2]) {
    sum.iter_mut().zip(more).for_each(|(sum, side)| *sum += *side);
}

/// A change to one amount of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerChange {
    /// Row number.
    pub row: usize,
    pub side: Side,
    pub account: Account,
    /// Negative if bytes are saved.
    pub bytes: i64,
}

/// Operations that a rule found in a row.
#[derive(Clone, Copy, Debug, Default)]
pub struct FoundOperations {
    /// Number of operations.
    pub times: u64,
    /// Time that was waited.
    pub ns: u64,
    /// By side.
    pub amounts: [Amounts; 2],
    pub example: Option<Example>,
}

impl FoundOperations {
    pub fn add(&mut self, times: u64, ns: u64, example: Example) {
        self.times += times;
        self.ns += ns;
        self.example.get_or_insert(example);
    }
}

/// What following the advice would save.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Saving {
    /// Total of the run; negative if it costs bytes.
    pub bytes: i64,
    /// Mean over the affected operations.
    pub bytes_per_operation: f64,
    /// Share of the bytes of all selected connections.
    pub percent_of_wire: f64,
    /// Waiting time of the run; `None` if unknown.
    pub ns: Option<u64>,
    /// Mean over the affected operations.
    pub ms_per_operation: Option<f64>,
    /// Of the application's waiting time, with that of all findings with [`AdviceFinding::is_extra_time`]. What a larger finding already
    /// saves does not count again, so all shares add up to 100 at most.
    pub percent_of_waiting: Option<f64>,
    /// Price of the saved bytes in the billing period, at the rate of the capture; absent without a price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

/// An avoidable cost, with its evidence and its remedies.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct AdviceFinding {
    /// As in `--what-if`.
    pub rule: &'static str,
    /// One sentence.
    pub title: String,
    pub subject: FindingSubject,
    /// Number of affected operations.
    pub operations: u64,
    pub example: Option<Example>,
    /// The avoidable bytes.
    pub evidence: Vec<ByteEvidence>,
    pub remedies: Vec<Remedy>,
    pub saving: Saving,
    pub certainty: Certainty,
    /// How the saving was computed, as a phrase.
    pub computed: String,
    /// Facts that the capture cannot show.
    pub unknown: &'static str,
    /// The saved time is not part of the answers' latency, such as time to prepare or connect.
    #[serde(skip)]
    pub is_extra_time: bool,
    /// Changes to the ledger.
    #[serde(skip)]
    pub changes: Vec<LedgerChange>,
}

impl AdviceFinding {
    /// The observer adds the name of the rule.
    pub fn new(title: String, of: impl Into<FindingSubject>, operations: u64, example: Option<Example>) -> Self {
        Self { title, subject: of.into(), operations, example, ..Self::default() }
    }

    /// Subtracts these bytes from a row.
    #[must_use]
    pub fn without(mut self, row: usize, amounts: &[Amounts; 2]) -> Self {
        for side in Side::BOTH {
            for account in Account::ALL {
                self.change(row, side, account, -amounts[side as usize][account].cast_signed());
            }
        }
        self
    }

    /// Subtracts these bytes from a row, with themselves as evidence.
    #[must_use]
    pub fn saving(mut self, row: usize, amounts: &[Amounts; 2], field: &str) -> Self {
        self.evidence = ByteEvidence::from_amounts(amounts, field).collect();
        self.without(row, amounts)
    }

    /// Sets the waiting time of the run that is saved.
    #[must_use]
    pub fn waiting(mut self, ns: u64) -> Self {
        self.saving.ns = Some(ns);
        self
    }

    /// Changes an account of a row by `bytes`, which are negative if saved.
    pub fn change(&mut self, row: usize, side: Side, account: Account, bytes: i64) {
        if bytes != 0 {
            self.changes.push(LedgerChange { row, side, account, bytes });
        }
    }

    /// Returns the total bytes saved.
    pub fn bytes(&self) -> i64 {
        -self.changes.iter().map(|change| change.bytes).sum::<i64>()
    }

    /// Computes the saving from the changes and from `saving.ns`. `waited_ns` is all waiting time.
    pub fn settle(&mut self, wire: u64, waited_ns: u64) {
        let bytes = self.bytes();
        let each = self.operations.max(1) as f64;
        let percent = |part: f64, of: u64| if of == 0 { 0.0 } else { 100.0 * part / of as f64 };
        self.saving.bytes = bytes;
        self.saving.bytes_per_operation = bytes as f64 / each;
        self.saving.percent_of_wire = percent(bytes as f64, wire);
        self.saving.ms_per_operation = self.saving.ns.map(|ns| ns as f64 / each / 1e6);
        self.saving.percent_of_waiting = self.saving.ns.map(|ns| percent(ns as f64, waited_ns));
    }

    /// Returns the sort key: the larger of both shares.
    pub fn weight(&self) -> f64 {
        self.saving.percent_of_wire.max(self.saving.percent_of_waiting.unwrap_or(0.0))
    }
}
