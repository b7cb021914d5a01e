//! Texts of prepared statements, in the form that `overhead analyze --statements` reads.

use overhead_model::outside::OutsideText;
use std::collections::BTreeSet;
use std::fmt;

/// Statements that clients have prepared, as the server lists them.
#[derive(Debug, Default)]
pub struct ListedStatements {
    /// Each name that a capture shows, and its text.
    texts: BTreeSet<(String, String)>,
    /// Reasons why others are not listed.
    pub remarks: BTreeSet<String>,
}

impl ListedStatements {
    pub fn add(&mut self, shown_as: String, text: &str) {
        self.texts.insert((shown_as, text.to_owned()));
    }

    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }
}

impl fmt::Display for ListedStatements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Outside literals, which a statement leaves out, white space is alike.
        let line = |line: &str| OutsideText(&line.replace(char::is_control, " ")).to_string();
        self.remarks.iter().try_for_each(|remark| writeln!(f, "# {}", line(remark)))?;
        self.texts.iter().try_for_each(|(shown_as, text)| {
            writeln!(f, "{shown_as}\t{}", text.split('\n').map(line).collect::<Vec<_>>().join("\n\t"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use overhead_protocols::GivenStatements;

    #[test]
    fn what_is_printed_can_be_read() {
        let mut list = ListedStatements::default();
        list.remarks.insert("1 more,\tby\na local socket".to_owned());
        list.add("ab".to_owned(), "SELECT 2");
        list.add("10.0.0.7:40000/12".to_owned(), "SELECT 1 -- one\r\n\tFROM t");
        let printed = "# 1 more, by a local socket\n10.0.0.7:40000/12\tSELECT 1 -- one \n\t FROM t\nab\tSELECT 2\n";
        assert_eq!(list.to_string(), printed);
        assert!(GivenStatements::parse(printed).is_ok());
    }
}
