//! Rows of the operations table, with the run data that their cells need.

use crate::bounds::LowerBounds;
use crate::clean::{clean, middle_cut};
use crate::number::counted;
use crate::view::ranked_rows;
use overhead_model::record::{BillingPeriod, By, OperationRow, Price, ViewRow};
use overhead_model::{Account, Protocol, Run};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Characters of a statement below the table, if lines have no limit.
const LONGEST_TEXT: usize = 240;

pub(crate) struct TableRows<'run> {
    pub run: &'run Run,
    pub rows: Cow<'run, [ViewRow]>,
    pub by: By,
    pub price: Option<&'run Price>,
    pub several_protocols: bool,
    pub bounds: LowerBounds,
    /// Names a statement by its verb and its first table.
    pub has_short_names: bool,
    /// The server common to all connections, if rows are connections.
    pub common_server: Option<String>,
}

impl<'run> TableRows<'run> {
    /// Returns the requested rows, or all.
    pub fn new(run: &'run Run) -> Self {
        let (rows, by, price) = match &run.view {
            Some(view) => (Cow::Borrowed(view.rows.as_slice()), view.by, view.price.as_ref()),
            None => (Cow::Owned(ranked_rows(run)), By::Name, None),
        };
        let several_protocols = run.operations.windows(2).any(|pair| pair[0].protocol != pair[1].protocol);
        let common_server = rows.iter().find_map(|row| row.server.clone()).filter(|server| {
            by == By::Connection && rows.iter().filter_map(|row| row.server.as_ref()).all(|other| other == server)
        });
        let (bounds, has_short_names) = (LowerBounds::new(run), false);
        Self { run, rows, by, price, several_protocols, bounds, has_short_names, common_server }
    }

    /// Returns whether a row fulfils the condition.
    pub fn any(&self, condition: fn(&ViewRow) -> bool) -> bool {
        self.rows.iter().any(condition)
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

    /// Returns the time that costs are for; `None` without a price.
    pub fn period(&self) -> Option<BillingPeriod> {
        self.price.map(|price| price.per)
    }

    /// Returns whether statements have numbers, and each class except the workload is one row.
    pub fn is_compact(&self) -> bool {
        self.rows.iter().any(|row| row.number.is_some())
    }

    /// Returns whether ways of sending have rows of their own, and so numbers come again.
    pub fn has_ways(&self) -> bool {
        let numbers: Vec<u64> = self.rows.iter().filter_map(|row| row.number).collect();
        numbers.iter().collect::<BTreeSet<_>>().len() < numbers.len()
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

    /// Returns the texts of statements that have the same short name, each in a line of at most `width` characters.
    pub fn texts(&self, width: Option<usize>) -> Vec<String> {
        let numbered = || self.rows.iter().filter_map(|row| Some((row.number?, self.name_cell(row), row)));
        let is_shared = |name: &str| numbered().filter(|(_, other, _)| other == name).count() > 1;
        let text = |(number, name, row): (u64, String, &ViewRow)| {
            let text = row.statement.as_ref().filter(|_| self.has_short_names && is_shared(&name))?;
            Some(middle_cut(&format!("#{number}: {}", clean(text)), width.unwrap_or(LONGEST_TEXT)))
        };
        numbered().filter_map(text).collect()
    }

    /// Returns a row's subject, with its protocol if there are several.
    pub fn name_cell(&self, row: &ViewRow) -> String {
        let name = match (&row.client, &row.server) {
            _ if row.rows > 1 => format!("({})", counted(row.rows, "more row")),
            (None, None) => match &row.statement {
                Some(statement) if self.has_short_names => statement_name(&row.protocol, &row.name, statement),
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

/// Returns a name such as `SELECT customer` or `find orders`; `EXECUTE 7` if only the id is known, `GET (other)` for a
/// placeholder; or the statement if it names no table, or the name if it is empty.
pub fn statement_name(protocol: &str, name: &str, statement: &str) -> String {
    if statement.is_empty() {
        return name.to_owned();
    }
    if statement.starts_with('(') {
        let id = statement.strip_suffix(')').and_then(|text| text.split_once(" before the capture: "));
        return format!("{name} {}", id.map_or(statement, |(_, id)| id));
    }
    if !Protocol::named(protocol).is_some_and(Protocol::has_tables) {
        return statement.split(" {").next().unwrap_or(statement).to_owned();
    }
    let words: Vec<&str> = statement.split([' ', '(', ')', ',', ';']).filter(|word| !word.is_empty()).collect();
    let is_one_of = |word: &str, of: &[&str]| of.iter().any(|known| known.eq_ignore_ascii_case(word));
    let is_before = |word: &str| is_one_of(word, &["FROM", "INTO", "UPDATE", "TABLE", "ONLY", "EXISTS"]);
    let is_name = |word: &str| !is_before(word) && !is_one_of(word, &["IF", "NOT", "SELECT"]);
    let table = words.windows(2).find(|pair| is_before(pair[0]) && is_name(pair[1]));
    table.map_or_else(|| statement.to_owned(), |pair| format!("{name} {}", pair[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_name_is_a_verb_and_a_table() {
        for (name, statement, wanted) in [
            ("SELECT", "SELECT a FROM (SELECT b FROM orders) x", "SELECT orders"),
            ("CREATE", "CREATE TABLE IF NOT EXISTS k.things(id int)", "CREATE k.things"),
            ("LOAD", "load data local infile ? INTO TABLE f", "LOAD f"),
            ("UPDATE", "UPDATE only t SET a = ?", "UPDATE t"),
            ("SELECT", "SELECT ? / ?", "SELECT ? / ?"),
            ("EXECUTE", "(prepared before the capture: S_1)", "EXECUTE S_1"),
            ("SELECT", "(other)", "SELECT (other)"),
        ] {
            assert_eq!(statement_name("pgwire", name, statement), wanted);
        }
        assert_eq!(statement_name("resp", "SET", "SET from b"), "SET from b");
        assert_eq!(statement_name("mongo", "find", "find orders {a: ?}"), "find orders");
    }
}
