//! The records within a page: what its figures are made of, for programs.

use super::content::Record;
use crate::error::ReportError;
use crate::run::NamedRun;
use overhead_model::Run;
use overhead_model::record::{OperationRow, StatementRow, StatementSide};
use serde::Serialize;

/// How many entries the long lists of a page have at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    /// Statements of an operation.
    pub statements: usize,
    /// Connections of a run.
    pub peers: usize,
    /// Operations of a run that unfold, the largest of each class.
    pub details: usize,
}

impl Shown {
    /// From the longest lists to the shortest: the first that make a page small enough are taken.
    pub(super) const LEVELS: [Self; 5] = [
        Self { statements: 30, peers: 100, details: usize::MAX },
        Self { statements: 15, peers: 20, details: usize::MAX },
        Self { statements: 5, peers: 5, details: 8 },
        Self { statements: 1, peers: 0, details: 2 },
        Self { statements: 1, peers: 0, details: 0 },
    ];
}

/// Name of what statements and peers beyond the shown are added up in, as in the record.
const OTHER: &str = "(other)";

/// Returns a record as JSON that may stand within a page.
///
/// # Errors
///
/// [`ReportError::Json`] when a number is not finite.
pub(crate) fn embedded(name: &str, kind: &'static str, record: &impl Serialize) -> Result<Record, ReportError> {
    // Nothing in it ends the element, or begins another.
    let json = serde_json::to_string(record)?.replace('<', "\\u003c").replace('&', "\\u0026");
    Ok(Record { name: name.to_owned(), kind, json })
}

/// Returns a run with its long lists shortened; sums stay.
pub(super) fn shortened(named: &NamedRun, shown: Shown) -> NamedRun {
    let mut run: Run = named.run.clone();
    for row in &mut run.operations {
        shorten_statements(row, shown.statements);
    }
    let connections = run.connections.len();
    run.connections.truncate(shown.peers);
    run.connections_omitted += (connections - run.connections.len()) as u64;
    // What was asked of a table on a terminal is not what the page shows.
    (run.view, run.peers) = (None, None);
    NamedRun::new(named.name.clone(), run)
}

fn shorten_statements(row: &mut OperationRow, most: usize) {
    let is_other = |statement: &StatementRow| statement.text.starts_with('(');
    let named = row.statements.iter().filter(|statement| !is_other(statement)).count();
    if named <= most.max(1) {
        return;
    }
    let (mut kept, mut rest) = (Vec::new(), Vec::new());
    for statement in row.statements.drain(..) {
        if kept.len() < most.max(1) && !is_other(&statement) { kept.push(statement) } else { rest.push(statement) }
    }
    let first = StatementRow { text: OTHER.to_owned(), ..StatementRow::default() };
    kept.push(rest.iter().fold(first, added));
    row.statements = kept;
}

/// Returns the sums of two; how long they took together is not known.
fn added(sum: StatementRow, other: &StatementRow) -> StatementRow {
    StatementRow {
        count: sum.count + other.count,
        errors: sum.errors + other.errors,
        unanswered: sum.unanswered + other.unanswered,
        no_reply: sum.no_reply + other.no_reply,
        unsolicited: sum.unsolicited + other.unsolicited,
        request: added_side(sum.request, &other.request),
        response: added_side(sum.response, &other.response),
        ..sum
    }
}

fn added_side(mut sum: StatementSide, other: &StatementSide) -> StatementSide {
    sum.frames += other.frames;
    sum.wire_bytes += other.wire_bytes;
    sum.payload_bytes += other.payload_bytes;
    sum.accounts += other.accounts;
    sum
}
