//! The rows of the operations table, and what their cells have to know of the run.

use super::number::counted;
use crate::bounds::LowerBounds;
use crate::view::ranked_rows;
use overhead_model::record::{By, OperationRow, Price, ViewRow};
use overhead_model::{Account, Run};
use std::borrow::Cow;

/// The rows of a run as they are shown.
pub(crate) struct TableRows<'run> {
    pub run: &'run Run,
    pub rows: Cow<'run, [ViewRow]>,
    /// What they are of.
    pub by: By,
    pub price: Option<&'run Price>,
    /// They are of more than one protocol.
    pub several_protocols: bool,
    pub bounds: LowerBounds,
    /// That of all connections, where rows are of these.
    pub common_server: Option<String>,
}

impl<'run> TableRows<'run> {
    /// Returns those that were asked for, or else all.
    pub fn of(run: &'run Run) -> Self {
        let (rows, by, price) = match &run.view {
            Some(view) => (Cow::Borrowed(view.rows.as_slice()), view.by, view.price.as_ref()),
            None => (Cow::Owned(ranked_rows(run)), By::Name, None),
        };
        let several_protocols = run.operations.windows(2).any(|pair| pair[0].protocol != pair[1].protocol);
        let common_server = rows.iter().find_map(|row| row.server.clone()).filter(|server| {
            by == By::Connection && rows.iter().filter_map(|row| row.server.as_ref()).all(|other| other == server)
        });
        Self { run, rows, by, price, several_protocols, bounds: LowerBounds::of(run), common_server }
    }

    /// Returns whether some byte was not decoded.
    pub fn has_unknown(&self) -> bool {
        let unknown =
            |row: &OperationRow| row.request.accounts[Account::Unknown] + row.response.accounts[Account::Unknown];
        self.run.operations.iter().any(|row| unknown(row) > 0)
    }

    /// Returns what heads the names of rows.
    pub fn noun(&self) -> &'static str {
        match self.by {
            By::Name => "operation",
            by => by.name(),
        }
    }

    /// Returns whether the way of sending tells rows apart.
    pub fn has_via(&self) -> bool {
        matches!(self.by, By::Name | By::Statement)
    }

    /// Returns what heads the table.
    pub fn title(&self) -> &'static str {
        match self.by {
            By::Name => "Operations",
            By::Statement => "Statements",
            By::Connection => "Connections",
            By::Client => "Clients",
            By::Server => "Servers",
        }
    }

    /// Returns what a row is of, with its protocol where there are several.
    pub fn name_cell(&self, row: &ViewRow) -> String {
        let name = match (&row.client, &row.server) {
            _ if row.rows > 1 => format!("({})", counted(row.rows, "more row")),
            (None, None) => match &row.statement {
                // Of operations that are not told apart by statement, and of those without one.
                Some(statement) if statement.starts_with('(') => format!("{} {statement}", row.name),
                statement => statement.as_ref().unwrap_or(&row.name).clone(),
            },
            (Some(end), None) | (None, Some(end)) => end.clone(),
            (Some(client), Some(_)) if self.common_server.is_some() => client.clone(),
            (Some(client), Some(server)) => format!("{client} > {server}"),
        };
        if self.several_protocols && !row.protocol.is_empty() { format!("{} {name}", row.protocol) } else { name }
    }
}
