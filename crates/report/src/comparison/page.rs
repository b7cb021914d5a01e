//! Markdown, piece by piece.

use crate::text::grid::Column;
use crate::text::markdown::github_table;
use crate::text::number::bytes_label;

/// A document that grows.
#[derive(Debug, Default)]
pub(super) struct MarkdownPage(String);

impl MarkdownPage {
    pub(super) fn heading(&mut self, level: usize, text: &str) {
        self.0.extend(["#".repeat(level).as_str(), " ", text, "\n\n"]);
    }

    pub(super) fn paragraph(&mut self, text: &str) {
        self.0.extend([text, "\n\n"]);
    }

    pub(super) fn list(&mut self, items: &[String]) {
        for item in items {
            self.0.extend(["- ", item, "\n"]);
        }
        self.0.push('\n');
    }

    /// A table; the first `keys` columns are words.
    pub(super) fn table(&mut self, columns: &[&str], keys: usize, rows: &[Vec<String>]) {
        let column = |(at, name): (usize, &&str)| if at < keys { Column::left(name) } else { Column::right(name) };
        let columns: Vec<Column> = columns.iter().enumerate().map(column).collect();
        self.0.push_str(&github_table(&columns, rows));
        self.0.push('\n');
    }

    /// A figure, which lies beside the document, and what it shows for those who do not see it.
    pub(super) fn figure(&mut self, name: &str, shows: &str) {
        self.0.extend(["![", shows, "](figures/", name, ".svg)\n\n"]);
    }

    pub(super) fn code(&mut self, lines: &str) {
        self.0.extend(["```\n", lines, "\n```\n\n"]);
    }

    pub(super) fn finish(self) -> String {
        self.0.trim_end().to_owned() + "\n"
    }
}

/// Bytes per operation.
pub(super) fn bytes(value: f64) -> String {
    bytes_label(value)
}

/// Bytes per operation with their sign: `+33`, `−7.5`, `0`.
pub(super) fn signed_bytes(value: f64) -> String {
    let text = bytes_label(value.abs());
    match value {
        _ if text.bytes().all(|byte| !byte.is_ascii_digit() || byte == b'0') => text,
        value if value < 0.0 => format!("−{text}"),
        _ => format!("+{text}"),
    }
}
