//! Describes each operation in a sentence, at the frame that starts it.

use super::number::{BegunOperation, Numbering};
use crate::limits;
use overhead_model::{Account, Amounts, Class, Listener, Operation, Outcome, OutsideText, Side, Tally, Trace};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

/// Collects a note for each operation of a capture.
#[derive(Debug)]
pub struct OperationNotes<'a> {
    numbering: Numbering,
    open: HashMap<(u64, Option<u64>), OpenNote>,
    /// By the number of their frame, in the order of the operations.
    pub notes: BTreeMap<u64, Vec<String>>,
    bytes: usize,
    /// Operations without a note, because the others take up the memory: see [`limits::NOTES_BYTES`].
    pub omitted: u64,
    findings: &'a dyn Findings,
}

/// What is known of the operations of a name and statement, such as advice.
pub trait Findings: std::fmt::Debug {
    /// Returns names of findings, separated by commas; empty if there are none.
    fn about(&self, class: Class, name: &str, statement: &str) -> String;
}

#[derive(Debug, Default)]
struct OpenNote {
    number: u64,
    first_frame: Option<u64>,
    class: Option<Class>,
    /// Name, way of sending and statement, as one text.
    label: String,
    findings: String,
}

impl<'a> OperationNotes<'a> {
    /// Returns a reading whose notes have these findings.
    pub fn new(findings: &'a dyn Findings) -> Self {
        Self {
            numbering: Numbering::default(),
            open: HashMap::new(),
            notes: BTreeMap::new(),
            bytes: 0,
            omitted: 0,
            findings,
        }
    }

    fn touch(&mut self, op: Option<u64>, frame: u64) {
        if let Some(open) = self.open.get_mut(&(self.numbering.connection(), op)) {
            open.first_frame.get_or_insert(frame);
        }
    }

    fn close(&mut self, op: Option<u64>, operation: &Operation) {
        let Some(open) = self.open.remove(&(self.numbering.connection(), op)) else { return };
        let Some(frame) = open.first_frame else { return };
        let note = sentence(&open, operation);
        if self.bytes + note.len() > limits::NOTES_BYTES {
            self.omitted += 1;
            return;
        }
        self.bytes += note.len();
        self.notes.entry(frame).or_default().push(note);
    }
}

/// Returns a note such as `#12 SELECT a FROM t (simple): 251 B, request 120 (link 14, ip 20, …), response 131 (…), 1 RT, 42.0 µs`.
fn sentence(open: &OpenNote, operation: &Operation) -> String {
    let [request, response] = operation.amounts();
    let mut note = format!("#{} {}", open.number, OutsideText(open.label.trim_end()));
    if let Some(class) = open.class.filter(|class| *class != Class::Workload) {
        let _ = write!(note, " [{}]", class.name());
    }
    let _ = write!(note, ": {} B", request.total() + response.total());
    for (side, amounts) in Side::BOTH.into_iter().zip([request, response]).filter(|(_, amounts)| amounts.total() > 0) {
        let _ = write!(note, ", {} {} ({})", side.name(), amounts.total(), accounts(&amounts));
    }
    if operation.round_trips > 0 {
        let _ = write!(note, ", {} RT", operation.round_trips);
    }
    if let Some(ns) = operation.latency_ns {
        let _ = write!(note, ", {:.1} µs", ns as f64 / 1e3);
    }
    if operation.outcome != Outcome::Ok {
        let _ = write!(note, ", {}", operation.outcome.name());
    }
    if !open.findings.is_empty() {
        let _ = write!(note, ", finding: {}", open.findings);
    }
    note
}

fn accounts(amounts: &Amounts) -> String {
    let used = Account::ALL.into_iter().filter(|account| amounts[*account] > 0);
    used.map(|account| format!("{} {}", account.name(), amounts[account])).collect::<Vec<_>>().join(", ")
}

impl super::CaptureReading for OperationNotes<'_> {}

impl Tally for OperationNotes<'_> {
    fn listener(&mut self) -> Option<&mut dyn Listener> {
        Some(self)
    }
}

impl Listener for OperationNotes<'_> {
    fn hear(&mut self, step: Trace<'_>) {
        if let Some(BegunOperation { number, op }) = self.numbering.hear(&step) {
            let note = OpenNote { number, ..OpenNote::default() };
            self.open.insert((self.numbering.connection(), op), note);
        }
        match step {
            Trace::Posted { op, frame: Some(frame), .. } | Trace::Charged { op, frame, .. } => self.touch(op, frame),
            Trace::Labelled { op, class, name, via, statement, .. } => {
                if let Some(open) = self.open.get_mut(&(self.numbering.connection(), op)) {
                    open.class = Some(class);
                    let via = if via.is_empty() { String::new() } else { format!(" ({via})") };
                    open.label = match statement.strip_prefix(name) {
                        // Most statements start with the name of the operation.
                        Some(rest) => format!("{name}{rest}{via}"),
                        None => format!("{name} {statement}{via}"),
                    };
                    open.findings = self.findings.about(class, name, statement);
                }
            }
            Trace::Closed { op, operation } => self.close(op, operation),
            _ => {}
        }
    }
}
