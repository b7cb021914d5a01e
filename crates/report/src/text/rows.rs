//! Rows of the operations table, with the run data that their cells need.

use super::number::counted;
use crate::bounds::LowerBounds;
use crate::view::ranked_rows;
use overhead_model::record::{By, OperationRow, Price, ViewRow};
use overhead_model::{Account, Run};
use std::borrow::Cow;

pub(crate) struct TableRows<'run> {
    pub run: &'run Run,
    pub rows: Cow<'run, [ViewRow]>,
    pub by: By,
    pub price: Option<&'run Price>,
    pub several_protocols: bool,
    pub bounds: LowerBounds,
    /// The server common to all connections, if rows are connections.
    pub common_server: Option<String>,
}

impl<'run> TableRows<'run> {
    /// Returns the requested rows, or all.
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

    /// Returns whether any byte was not decoded.
    pub fn has_unknown(&self) -> bool {
        let unknown =
            |row: &OperationRow| row.request.accounts[Account::Unknown] + row.response.accounts[Account::Unknown];
        self.run.operations.iter().any(|row| unknown(row) > 0)
    }

    /// Returns the header of the name column.
    pub fn noun(&self) -> &'static str {
        match self.by {
            By::Name => "operation",
            by => by.name(),
        }
    }

    /// Returns whether rows can differ by way of sending.
    pub fn has_via(&self) -> bool {
        matches!(self.by, By::Name | By::Statement)
    }

    pub fn title(&self) -> &'static str {
        match self.by {
            By::Name => "Operations",
            By::Statement => "Statements",
            By::Connection => "Connections",
            By::Client => "Clients",
            By::Server => "Servers",
        }
    }

    /// Returns a row's subject, with its protocol if there are several.
    pub fn name_cell(&self, row: &ViewRow) -> String {
        let name = match (&row.client, &row.server) {
            _ if row.rows > 1 => format!("({})", counted(row.rows, "more row")),
            (None, None) => match &row.statement {
                // A placeholder for several statements or for none.
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
