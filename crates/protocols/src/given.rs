//! Texts of statements that were prepared before the capture, given by the user.

use crate::learned::{LearnedPart, LearnedStatements};
use crate::statement::{StatementDialect, StatementSummary};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// Texts by the statement's name or id as on the wire (a number, or hexadecimal digits), for all connections or one: `10.0.0.7:40000/12`.
#[derive(Clone, Debug, Default)]
pub struct GivenStatements {
    /// Absent if connections use the name for different texts.
    texts: Arc<HashMap<String, Option<String>>>,
    /// The ends of the connection, in either order.
    ends: Option<[SocketAddr; 2]>,
    /// Absent unless the capture is one of several.
    learned: Option<LearnedPart>,
}

/// Ends a text that was cut.
const CUT: char = '…';

impl GivenStatements {
    /// Reads one statement per line: its name or id, a tab, its text. A line that starts with a tab continues the text; one that starts
    /// with `#` and has no tab is a comment. Fails with the number of the first other line.
    pub fn parse(lines: &str) -> Result<Self, usize> {
        let mut listed: Vec<(String, String)> = Vec::new();
        let is_comment = |line: &str| line.starts_with('#') && !line.contains('\t');
        let lines = (1_usize..).zip(lines.lines()).filter(|(_, line)| !line.trim().is_empty() && !is_comment(line));
        for (number, line) in lines {
            let (name, text) = line.split_once('\t').ok_or(number)?;
            if name.is_empty() {
                let (_, begun) = listed.last_mut().ok_or(number)?;
                begun.extend(["\n", text]);
                continue;
            }
            let name = name.trim();
            let name = name.strip_prefix("0x").map_or_else(|| name.to_owned(), str::to_ascii_lowercase);
            listed.push((name, text.to_owned()));
        }
        let mut texts = HashMap::new();
        for (name, text) in listed {
            let given = texts.entry(name).or_insert_with(|| Some(text.clone()));
            if given.as_ref() != Some(&text) {
                *given = None;
            }
        }
        Ok(Self { texts: Arc::new(texts), ..Self::default() })
    }

    /// Returns the texts as one connection uses them.
    #[must_use]
    pub fn between(&self, ends: [SocketAddr; 2]) -> Self {
        Self { ends: Some(ends), ..self.clone() }
    }

    /// Returns the texts with those of statements whose preparation earlier captures in this network namespace saw. The capture adds to
    /// these.
    #[must_use]
    pub fn with_learned(&self, statements: Arc<LearnedStatements>, network_namespace: u32) -> Self {
        Self { learned: Some(LearnedPart { statements, network_namespace }), ..self.clone() }
    }

    /// Remembers a statement that is being prepared, for later captures.
    pub(crate) fn learn(&self, name: impl FnOnce() -> String, summary: &StatementSummary) {
        if let Some((learned, ends)) = self.learned.as_ref().zip(self.ends) {
            learned.learn(ends, &name(), summary);
        }
    }

    /// Forgets a statement that is closed.
    pub(crate) fn forget(&self, name: impl FnOnce() -> String) {
        if let Some((learned, ends)) = self.learned.as_ref().zip(self.ends) {
            learned.forget(ends, &name());
        }
    }

    /// Returns the names and ids that stand for several texts, in order. They are not used.
    pub fn ambiguous(&self) -> Vec<&str> {
        let several = self.texts.iter().filter(|(_, text)| text.is_none());
        let mut names: Vec<&str> = several.map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let mut ends = self.ends.into_iter().flatten().filter(|_| !self.texts.is_empty());
        let own = ends.find_map(|end| self.texts.get(&format!("{end}/{name}")));
        own.or_else(|| self.texts.get(name))?.as_deref()
    }

    /// Returns the summary of a statement that was prepared before the capture.
    pub(crate) fn summary(&self, name: &str, dialect: StatementDialect) -> StatementSummary {
        if let Some(learned) = self.learned.as_ref().zip(self.ends).and_then(|(learned, ends)| learned.find(ends, name))
        {
            return learned;
        }
        self.text(name).map_or_else(
            || StatementSummary::prepared_before(name, ""),
            |text| StatementSummary::new(text.as_bytes(), !text.ends_with(CUT), dialect, true).0,
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

    #[test]
    fn a_text_may_have_several_lines() {
        let given = GivenStatements::parse("# listed\na\tSELECT 1 -- one\n\tFROM t\n#b\tSELECT 2\n").unwrap();
        assert_eq!((given.text("a"), given.text("#b")), (Some("SELECT 1 -- one\nFROM t"), Some("SELECT 2")));
        assert_eq!(GivenStatements::parse("# listed\n\tFROM t").unwrap_err(), 2);
    }

    #[test]
    fn connections_have_texts_of_their_own() {
        let given = GivenStatements::parse("[::1]:40/7\tSELECT 1\n7\tSELECT 2\n").unwrap();
        let text = |client: &str| {
            let ends = [client, "[::1]:3306"].map(|end| end.parse().unwrap());
            given.between(ends).text("7").unwrap().to_owned()
        };
        assert_eq!([text("[::1]:40"), text("[::1]:41")], ["SELECT 1", "SELECT 2"]);
    }

    #[test]
    fn a_text_that_was_cut_stays_cut() {
        let given = GivenStatements::parse("7\tSELECT a FROM t WHERE b = 'hunter…").unwrap();
        let summary = given.summary("7", StatementDialect::Mysql);
        assert_eq!(summary.text.as_str(), "SELECT a FROM t WHERE b = …");
    }
}
