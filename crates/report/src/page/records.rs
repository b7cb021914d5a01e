//! The records within a page, which give programs the data behind its charts.

use super::content::Record;
use crate::clean;
use crate::error::ReportError;
use crate::run::NamedRun;
use crate::sums::is_one_statement;
use overhead_model::outside::json_escaped;
use overhead_model::record::{OperationRow, StatementRow};
use overhead_model::{OTHER, Run};
use serde::Serialize;

/// Maximum lengths of a page's long lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub statements: usize,
    pub peers: usize,
    /// Expandable operations of a run, largest of each class.
    pub details: usize,
    /// Operation rows of a run, largest of each class.
    pub rows: usize,
    pub records: bool,
    pub chars: usize,
}

impl Shown {
    /// Limits from long to short; the page uses the first that makes it small enough.
    pub(super) const LEVELS: [Self; 8] = [
        Self { statements: 30, peers: 100, ..Self::ALL },
        Self { statements: 15, peers: 20, ..Self::ALL },
        Self { statements: 5, peers: 5, details: 8, ..Self::ALL },
        Self { statements: 1, peers: 0, details: 2, ..Self::ALL },
        Self { statements: 1, peers: 0, details: 0, ..Self::ALL },
        Self { statements: 1, peers: 0, details: 0, rows: 100, records: false, chars: 2_000 },
        Self { statements: 1, peers: 0, details: 0, rows: 20, records: false, chars: 400 },
        Self { statements: 1, peers: 0, details: 0, rows: 5, records: false, chars: 200 },
    ];

    /// No limits.
    const ALL: Self = Self {
        statements: usize::MAX,
        peers: usize::MAX,
        details: usize::MAX,
        rows: usize::MAX,
        records: true,
        chars: usize::MAX,
    };
}

/// Returns a record as JSON that is safe to embed in a page.
/// Fails with [`ReportError::Json`] if a number is not finite.
pub(crate) fn embedded(name: &str, kind: &'static str, record: &impl Serialize) -> Result<Record, ReportError> {
    // Escape characters that could end the element or start another.
    let json = json_escaped(&serde_json::to_string(record)?).replace('<', "\\u003c").replace('&', "\\u0026");
    Ok(Record { name: name.to_owned(), kind, json })
}

/// Shortens a run's long lists and keeps its sums.
pub(super) fn shortened(named: &NamedRun, shown: Shown) -> NamedRun {
    let mut run: Run = named.run.clone();
    for row in &mut run.operations {
        shorten_statements(row, shown.statements);
        cut(&mut row.name, shown);
        cut(&mut row.via, shown);
    }
    run.warnings.iter_mut().for_each(|warning| cut(warning, shown));
    if let Some(machine) = &mut run.environment {
        let commands = machine.workload.iter_mut().flat_map(|workload| &mut workload.command);
        // Limit all words of a command together, to the length of one name.
        let mut room = shown.chars;
        for word in machine.command_line.iter_mut().chain(commands) {
            *word = clean::shortened(word, room.max(1));
            room = room.saturating_sub(word.chars().count());
        }
    }
    let connections = run.connections.len();
    run.connections.truncate(shown.peers);
    run.connections_omitted += (connections - run.connections.len()) as u64;
    // Options of a terminal table do not apply to the page.
    (run.view, run.peers) = (None, None);
    NamedRun::new(named.name.clone(), run)
}

/// Shortens a text that exceeds the character limit.
fn cut(name: &mut String, shown: Shown) {
    if name.len() > shown.chars {
        *name = clean::shortened(name, shown.chars);
    }
}

fn shorten_statements(row: &mut OperationRow, most: usize) {
    let most = most.max(1);
    if row.statements.iter().filter(|statement| is_one_statement(&statement.text)).count() <= most {
        return;
    }
    let (mut kept, mut other) = (0, StatementRow { text: OTHER.to_owned(), ..StatementRow::default() });
    row.statements.retain(|statement| {
        let is_kept = kept < most && is_one_statement(&statement.text);
        if is_kept {
            kept += 1;
        } else {
            other.totals.add(statement);
        }
        is_kept
    });
    row.statements.push(other);
}
