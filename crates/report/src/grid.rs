//! Plain tables with aligned columns, split into blocks on narrow terminals.

use crate::clean::clean;
use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use serde::Serialize;

/// Terminal formatting. The caller decides on colour (`NO_COLOR`, `--color`, not a terminal).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Uses bold headings and red warnings.
    pub color: bool,
    /// Characters in a line. Tables show the columns that fit, or split into blocks if the names leave no room. `None` for no
    /// limit.
    pub width: Option<usize>,
    /// Characters in a line of prose; `None` to keep lines searchable for programs.
    pub prose: Option<usize>,
    /// Explains the columns of operations.
    pub legend: bool,
}

const GUTTER: usize = 2;

/// A column: header (lines separated by `\n`, unit included) and alignment. Words are left-aligned, numbers are not.
#[derive(Debug, Serialize)]
pub(crate) struct Column {
    pub header: String,
    pub left: bool,
}

impl Column {
    pub(crate) fn left(header: &str) -> Self {
        Self { header: header.to_owned(), left: true }
    }

    pub(crate) fn right(header: &str) -> Self {
        Self { header: header.to_owned(), left: false }
    }

    /// Returns the column with its header on one line, hyphenated words joined.
    pub(crate) fn on_one_line(&self) -> Self {
        let header = self.header.replace("-\n", "").replace('\n', " ");
        Self { header: header.trim().to_owned(), ..*self }
    }

    fn lines(&self) -> usize {
        self.header.lines().count()
    }

    fn width<'a>(&self, cells: impl Iterator<Item = &'a String>) -> usize {
        let header = self.header.lines().map(|line| line.chars().count());
        header.chain(cells.map(|cell| clean(cell).chars().count())).max().unwrap_or(0)
    }
}

/// Columns and rows; every block repeats the first `keys` columns.
pub(crate) struct Grid {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<String>>,
    pub keys: usize,
}

impl Grid {
    /// Makes a table with key columns on the left, and numbers aligned to the right.
    pub(crate) fn new(keys: &[&str], figures: &[&str], rows: Vec<Vec<String>>) -> Self {
        let columns =
            keys.iter().map(|key| Column::left(key)).chain(figures.iter().map(|figure| Column::right(figure)));
        Self { columns: columns.collect(), rows, keys: keys.len() }
    }

    /// Returns `None` if there are no rows.
    pub(crate) fn if_any(self) -> Option<Self> {
        (!self.rows.is_empty()).then_some(self)
    }

    /// Returns the width of the whole table in one block.
    pub(crate) fn width(&self) -> usize {
        self.widths().iter().map(|width| width + GUTTER).sum::<usize>().saturating_sub(GUTTER)
    }

    fn widths(&self) -> Vec<usize> {
        self.columns.iter().enumerate().map(|(at, c)| c.width(self.rows.iter().map(|r| &r[at]))).collect()
    }

    /// Renders the table with an empty line between blocks.
    pub(crate) fn render(&self, style: Style) -> String {
        let blocks: Vec<String> = self.blocks(style.width).iter().map(|block| self.block(block, style.color)).collect();
        blocks.join("\n")
    }

    /// Returns the column numbers of each block: as many as fit, and at least one in addition to the keys.
    fn blocks(&self, width: Option<usize>) -> Vec<Vec<usize>> {
        let widths = self.widths();
        let taken =
            |columns: &[usize]| columns.iter().map(|&at| widths[at] + GUTTER).sum::<usize>().saturating_sub(GUTTER);
        let keys: Vec<usize> = (0..self.keys).collect();
        let mut blocks = Vec::new();
        let mut block = keys.clone();
        for (at, wide) in widths.iter().enumerate().skip(self.keys) {
            let full = width.is_some_and(|width| taken(&block) + GUTTER + wide > width);
            if full && block.len() > keys.len() {
                blocks.push(std::mem::replace(&mut block, keys.clone()));
            }
            block.push(at);
        }
        blocks.push(block);
        blocks
    }

    fn block(&self, columns: &[usize], color: bool) -> String {
        let header_lines = columns.iter().map(|&at| self.columns[at].lines()).max().unwrap_or(0);
        let mut out = String::new();
        for (number, line) in self.laid_out(columns, header_lines).lines().enumerate() {
            let line = line.trim_end();
            out.push_str(&if number < header_lines && color { bold(line) } else { line.to_owned() });
            out.push('\n');
        }
        out
    }

    /// Lays out these columns, with headers aligned at the bottom.
    fn laid_out(&self, columns: &[usize], header_lines: usize) -> Table {
        let rule = LineStyle::none().fill('─').junction('─');
        let mut table = Table::new();
        table
            .load_style(TableStyle::new().header_separator(rule))
            .set_content_arrangement(ContentArrangement::Disabled);
        let header = |column: &Column| Cell::new("\n".repeat(header_lines - column.lines()) + &column.header);
        table.set_header(columns.iter().map(|&at| header(&self.columns[at])).collect::<Vec<_>>());
        for row in &self.rows {
            // A sum has no cells in some blocks; a heading has none in any.
            let says_something = columns.iter().any(|&at| at >= self.keys && !row[at].is_empty());
            let is_heading = row.iter().skip(self.keys).all(String::is_empty);
            if says_something || is_heading || columns.len() == self.keys {
                table.add_row(columns.iter().map(|&at| Cell::new(clean(&row[at]))).collect::<Vec<_>>());
            }
        }
        for (position, &at) in columns.iter().enumerate() {
            if let Some(column) = table.column_mut(position) {
                column.set_cell_alignment(if self.columns[at].left {
                    CellAlignment::Left
                } else {
                    CellAlignment::Right
                });
                // The rule below the header adds a space between columns.
                column.set_padding((0, if position + 1 < columns.len() { GUTTER as u16 - 1 } else { 0 }));
            }
        }
        table
    }
}

/// Wraps a sentence at `width` characters and indents the following lines; a longer word gets a whole line. Escapes quoted line
/// breaks.
pub fn wrapped(text: &str, width: Option<usize>) -> String {
    let text = clean(text);
    let Some(width) = width else { return text };
    let mut out = String::with_capacity(text.len() + 16);
    let mut taken = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if taken > 0 && taken + 1 + length > width {
            out.push_str("\n  ");
            taken = 2;
        } else if !out.is_empty() {
            out.push(' ');
            taken += 1;
        }
        out.push_str(word);
        taken += length;
    }
    out
}

pub(crate) fn bold(text: &str) -> String {
    format!("\x1b[1m{text}\x1b[0m")
}

/// Formats red terminal text for urgent messages.
pub(crate) fn alarming(text: &str) -> String {
    format!("\x1b[1;31m{text}\x1b[0m")
}
