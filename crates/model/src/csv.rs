//! Tables as RFC 4180 text: of runs, loads and comparisons.
//!
//! Names come from the wire and from users, so harmful characters are escaped. Spreadsheets run a cell that starts with
//! `=`, `+`, `-` or `@` as a formula, so such text gets a leading apostrophe. Numbers are written unchanged.

use crate::outside::OutsideText;
use crate::record::Measured;
use std::borrow::Borrow;
use std::fmt::{Display, Write};
use std::net::Ipv6Addr;

/// A cell as RFC 4180 has it.
#[derive(Clone, Debug)]
pub struct CsvCell(String);

impl CsvCell {
    pub fn text(text: &str) -> Self {
        Self(quoted(&harmless(text)))
    }

    /// Returns the cell of a number or a boolean.
    pub fn number(number: impl Display) -> Self {
        Self(number.to_string())
    }

    /// Returns the cell of a number; empty if there is none.
    pub fn maybe(number: Option<impl Display>) -> Self {
        Self(number.map(|number| number.to_string()).unwrap_or_default())
    }
}

/// The name of a column, and its cell in a row.
pub type CsvColumn<T> = (&'static str, fn(&T) -> CsvCell);

/// Returns a table of uniform rows as RFC 4180 text with a header line.
pub fn csv<T>(columns: &[CsvColumn<T>], rows: impl IntoIterator<Item = impl Borrow<T>>) -> String {
    let header = line(columns.iter().map(|(name, _)| (*name).to_owned()));
    let lines = rows.into_iter().map(|row| line(columns.iter().map(|(_, cell)| cell(row.borrow()).0)));
    std::iter::once(header).chain(lines).collect()
}

/// A table that grows by rows. Unset cells are empty.
#[derive(Clone, Debug)]
pub struct Csv {
    columns: Vec<String>,
    text: String,
    row: Vec<String>,
    absent: Vec<String>,
}

impl Csv {
    pub fn new<C: Into<String>>(columns: impl IntoIterator<Item = C>) -> Self {
        let columns: Vec<String> = columns.into_iter().map(Into::into).collect();
        let text = line(columns.iter().map(|column| quoted(&harmless(column))));
        Self { columns, text, row: Vec::new(), absent: Vec::new() }
    }

    /// Starts a row, whose cells are set next.
    pub fn row(&mut self) -> &mut Self {
        self.end_row();
        self.row = vec![String::new(); self.columns.len()];
        self
    }

    fn end_row(&mut self) {
        let absent = std::mem::take(&mut self.absent);
        if !absent.is_empty() {
            self.text(ABSENT, &absent.join("; "));
        }
        let row = std::mem::take(&mut self.row);
        if !row.is_empty() {
            self.text.push_str(&line(row.into_iter()));
        }
    }

    /// Returns the table, header first, with a line feed after each line.
    pub fn finish(mut self) -> String {
        self.end_row();
        self.text
    }

    pub fn text(&mut self, column: &str, text: &str) -> &mut Self {
        self.set(column, quoted(&harmless(text)))
    }

    /// Sets a number or a boolean.
    pub fn number(&mut self, column: &str, number: impl Display) -> &mut Self {
        self.set(column, number.to_string())
    }

    /// Sets numbers, in columns whose names have a prefix.
    pub fn numbers<'c, N: Display>(
        &mut self,
        prefix: &str,
        numbers: impl IntoIterator<Item = (&'c str, N)>,
    ) -> &mut Self {
        numbers.into_iter().fold(self, |row, (column, number)| row.number(&format!("{prefix}{column}"), number))
    }

    /// Sets a number, if there is one.
    pub fn maybe(&mut self, column: &str, number: Option<impl Display>) -> &mut Self {
        match number {
            Some(number) => self.number(column, number),
            None => self,
        }
    }

    /// Sets a measured number. Without one, [`ABSENT`] has the reason.
    pub fn measured(&mut self, column: &str, measured: &Measured<impl Display>) -> &mut Self {
        let number = self.value(column, measured);
        self.maybe(column, number)
    }

    /// Returns a measured quantity. Without one, [`ABSENT`] of the row has its name and the reason.
    pub fn value<'m, T>(&mut self, name: &str, measured: &'m Measured<T>) -> Option<&'m T> {
        self.absent.extend(measured.reason().map(|reason| format!("{name}: {reason}")));
        measured.value()
    }

    fn set(&mut self, column: &str, cell: String) -> &mut Self {
        let at = self.columns.iter().position(|known| known == column);
        debug_assert!(at.is_some(), "no column {column}");
        if let Some(slot) = at.and_then(|at| self.row.get_mut(at)) {
            *slot = cell;
        }
        self
    }
}

/// The column that says why cells of its row are empty.
pub const ABSENT: &str = "unavailable";

fn line(cells: impl Iterator<Item = String>) -> String {
    let mut line = String::new();
    for (position, cell) in cells.enumerate() {
        let comma = if position > 0 { "," } else { "" };
        let _ = write!(line, "{comma}{cell}");
    }
    line.push('\n');
    line
}

/// Escapes text so that no terminal, spreadsheet or CI runner interprets it.
pub fn harmless(text: &str) -> String {
    const BEGIN: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];
    let is_command = text.trim_start().starts_with("::") && text.parse::<Ipv6Addr>().is_err();
    let mark = if is_command || text.starts_with(BEGIN) { "'" } else { "" };
    format!("{mark}{}", OutsideText(text))
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r', ';', '\t']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_cells_of_the_header() {
        let mut table = Csv::new(["name", "count", "share"]);
        table.row().text("name", "a \"b\", c").number("count", -3);
        table.row().maybe("count", None::<u64>).maybe("share", Some(0.5));
        assert_eq!(table.finish(), "name,count,share\n\"a \"\"b\"\", c\",-3,\n,,0.5\n");
    }

    #[test]
    fn text_is_never_a_formula() {
        for text in ["=1+1", "+1", "-1", "@SUM(A1)", "＝1", "::error::x", " ::error::x"] {
            let mut table = Csv::new(["name"]);
            table.row().text("name", text);
            let text = table.finish();
            let cell = text.lines().nth(1).unwrap().trim_start_matches('"');
            assert!(cell.starts_with('\''), "{text:?}");
        }
        assert_eq!(["::1", "\t=1", "\n::x\u{9b}"].map(harmless), ["::1", "\\t=1", "'\\n::x\\u{9b}"]);
    }
}
