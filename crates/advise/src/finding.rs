//! What could be saved, and how it is known.

use overhead_model::{Account, Amounts, Side};
use serde::Serialize;

/// An operation to look at, with `overhead explain FILE --op N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Example {
    /// Its number in the capture, from 1, as `explain` counts.
    pub operation: u64,
    /// The first frame with its payload; of the connection, where it has none.
    pub frame: u64,
}

/// Which operations a finding is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Subject {
    /// Name of the protocol.
    pub protocol: &'static str,
    /// Their class.
    pub class: &'static str,
    /// Their name.
    pub name: String,
    /// The way they were sent; empty where there is one way.
    pub via: String,
}

/// Bytes that show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// Direction.
    pub side: Side,
    /// Account.
    pub account: Account,
    /// Field, groups first; what was counted, where it is no field.
    pub field: String,
    /// Bytes, of all operations.
    pub bytes: u64,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// The driver, server or system that has the setting.
    pub at: &'static str,
    /// The setting, and what to set it to.
    pub setting: &'static str,
}

/// How far a saving can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// Every byte is known: the same session with the remedy has exactly these fewer. `--what-if` recomputes the ledger.
    Exact,
    /// By a model that the finding states; `--what-if` recomputes the ledger by it.
    Modelled,
    /// At most this: what part of it is needed cannot be seen.
    AtMost,
}

/// Bytes of a row that would be gone, or come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The number of the row.
    pub row: usize,
    /// Direction.
    pub side: Side,
    /// Account.
    pub account: Account,
    /// What is added; negative where bytes go.
    pub bytes: i64,
}

/// Bytes and time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Saving {
    /// Bytes of the whole run; negative where it would cost some.
    pub bytes: i64,
    /// The same per operation concerned.
    pub bytes_per_operation: f64,
    /// In percent of the bytes on the wire of all selected connections.
    pub percent_of_wire: f64,
    /// Time of waiting, of the whole run, nanoseconds; `None` where it is not known.
    pub ns: Option<u64>,
    /// The same per operation concerned, in milliseconds.
    pub ms_per_operation: Option<f64>,
    /// In percent of the time that the application waited for answers; of this time too, where it is not part of that.
    pub percent_of_waiting: Option<f64>,
}

/// Something that could be saved.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The rule's name, as `--what-if` takes it.
    pub rule: &'static str,
    /// What was found, in one sentence.
    pub title: String,
    /// Where.
    pub subject: Subject,
    /// How many operations are concerned.
    pub operations: u64,
    /// One of them.
    pub example: Option<Example>,
    /// What shows it.
    pub evidence: Vec<Evidence>,
    /// What to do.
    pub remedies: Vec<Remedy>,
    /// What it would save.
    pub saving: Saving,
    /// How far that can be relied on.
    pub certainty: Certainty,
    /// How it was computed.
    pub computed: String,
    /// What is not known.
    pub unknown: &'static str,
    /// The time is not part of what was waited for answers: it is that of preparing and connecting.
    #[serde(skip)]
    pub is_beside: bool,
    /// What would become of the ledger.
    #[serde(skip)]
    pub changes: Vec<Change>,
}

impl Finding {
    /// Returns a finding about the operations of a row, without evidence and saving.
    pub fn new(rule: &'static str, title: impl Into<String>, subject: Subject) -> Self {
        Self {
            rule,
            title: title.into(),
            subject,
            operations: 0,
            example: None,
            evidence: Vec::new(),
            remedies: Vec::new(),
            saving: Saving::default(),
            certainty: Certainty::AtMost,
            computed: String::new(),
            unknown: "",
            is_beside: false,
            changes: Vec::new(),
        }
    }

    /// Takes these bytes away from a row.
    #[must_use]
    pub fn without(mut self, row: usize, amounts: &[Amounts; 2]) -> Self {
        for side in Side::BOTH {
            for account in Account::ALL {
                self.change(row, side, account, -amounts[side as usize][account].cast_signed());
            }
        }
        self
    }

    /// Adds a change.
    pub fn change(&mut self, row: usize, side: Side, account: Account, bytes: i64) {
        if bytes != 0 {
            self.changes.push(Change { row, side, account, bytes });
        }
    }

    /// Returns the bytes that its changes take away.
    pub fn bytes(&self) -> i64 {
        -self.changes.iter().map(|change| change.bytes).sum::<i64>()
    }

    /// Works the saving out of its changes and of `ns`, the time that is saved.
    pub fn settle(&mut self, wire: u64, waited_ns: u64) {
        let bytes = self.bytes();
        let each = self.operations.max(1) as f64;
        let percent = |part: f64, of: u64| if of == 0 { 0.0 } else { 100.0 * part / of as f64 };
        self.saving.bytes = bytes;
        self.saving.bytes_per_operation = bytes as f64 / each;
        self.saving.percent_of_wire = percent(bytes as f64, wire);
        self.saving.ms_per_operation = self.saving.ns.map(|ns| ns as f64 / each / 1e6);
        self.saving.percent_of_waiting =
            self.saving.ns.map(|ns| percent(ns as f64, waited_ns + if self.is_beside { ns } else { 0 }));
    }

    /// Returns by what findings are sorted: the larger of both shares.
    pub fn weight(&self) -> f64 {
        self.saving.percent_of_wire.max(self.saving.percent_of_waiting.unwrap_or(0.0))
    }
}
