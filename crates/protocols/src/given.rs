//! Texts of statements that were prepared before the capture, given by the user.

use crate::statement::{StatementDialect, StatementSummary};
use std::collections::HashMap;
use std::sync::Arc;

/// Texts by the statement's name or id as on the wire: a number, or hexadecimal digits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenStatements(Arc<HashMap<String, GivenText>>);

#[derive(Debug, PartialEq, Eq)]
enum GivenText {
    Only(String),
    /// Connections use the name for different texts.
    Several,
}

impl GivenStatements {
    /// Reads one statement per line: its name or id, a tab, its text. Fails with the number of the first line that has no tab.
    pub fn parse(lines: &str) -> Result<Self, usize> {
        let mut texts = HashMap::new();
        for (number, line) in (1_usize..).zip(lines.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            let (name, text) = line.split_once('\t').ok_or(number)?;
            let name = name.trim();
            let name = name.strip_prefix("0x").map_or_else(|| name.to_owned(), str::to_ascii_lowercase);
            texts
                .entry(name)
                .and_modify(|given| {
                    if !matches!(given, GivenText::Only(first) if first == text) {
                        *given = GivenText::Several;
                    }
                })
                .or_insert_with(|| GivenText::Only(text.to_owned()));
        }
        Ok(Self(Arc::new(texts)))
    }

    /// Returns the names and ids that stand for several texts, in order. They are not used.
    pub fn ambiguous(&self) -> Vec<&str> {
        let several = self.0.iter().filter(|(_, text)| **text == GivenText::Several);
        let mut names: Vec<&str> = several.map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.0.get(name)? {
            GivenText::Only(text) => Some(text),
            GivenText::Several => None,
        }
    }

    /// Returns the summary of a statement that was prepared before the capture.
    pub(crate) fn summary(&self, name: &str, dialect: StatementDialect) -> StatementSummary {
        self.text(name).map_or_else(
            || StatementSummary::prepared_before(name, ""),
            |text| StatementSummary::of(text.as_bytes(), true, dialect, true).0,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_two_texts_is_not_used() {
        let given =
            GivenStatements::parse("S_1\tSELECT 1\n\n7\tSELECT 2\n7\tSELECT 3\nS_1\tSELECT 1\n0xAB\tTRUNCATE t\n")
                .unwrap();
        assert_eq!(
            (given.text("S_1"), given.text("7"), given.text("ab")),
            (Some("SELECT 1"), None, Some("TRUNCATE t"))
        );
        assert_eq!(given.ambiguous(), ["7"]);
        assert_eq!(GivenStatements::parse("a\tSELECT 1\nSELECT 2").unwrap_err(), 2);
    }
}
