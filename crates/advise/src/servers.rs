//! Which settings the servers of a capture have.

use crate::finding::Remedy;
use std::collections::BTreeSet;

/// Servers whose settings differ although they speak the same protocol.
const TOLD_APART: [&str; 2] = ["MySQL", "MariaDB"];

/// Returns whether one of the servers has a setting. Its place starts with a server's name and perhaps the first version that has it,
/// such as `MySQL 8.0.18`; a driver's setting, such as that of `MySQL Connector/J`, exists with any server. Servers are as they name
/// themselves, such as `MariaDB 10.11.6-MariaDB`; with none, any setting may exist.
pub fn has_setting(servers: &BTreeSet<String>, remedy: &Remedy) -> bool {
    let place = remedy.at.split([',', '(']).next().unwrap_or_default().trim();
    let Some((name, rest)) = TOLD_APART.iter().find_map(|name| Some((*name, place.strip_prefix(name)?))) else {
        return true;
    };
    let since = version(rest);
    if !rest.is_empty() && since.is_empty() {
        return true;
    }
    let mut told = servers.iter().filter(|server| TOLD_APART.iter().any(|name| server.starts_with(name))).peekable();
    if told.peek().is_none() {
        return true;
    }
    let others = remedy.at.split(", ").filter(|other| TOLD_APART.contains(other)).collect::<Vec<_>>();
    told.any(|server| {
        let is_named = |name: &str| server.strip_prefix(name).is_some_and(|found| version(found) >= since);
        is_named(name) || others.iter().any(|other| is_named(other))
    })
}

/// Returns the numbers of a version at the start of a text, such as `8.0.18`; empty without one.
fn version(text: &str) -> Vec<u32> {
    let digits = text.trim_start().split(|character: char| !character.is_ascii_digit() && character != '.');
    digits.take(1).flat_map(|version| version.split('.')).map_while(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(server: &str, at: &'static str) -> bool {
        has_setting(&BTreeSet::from([server.to_owned()]), &Remedy { at, setting: "" })
    }

    #[test]
    fn settings_are_those_of_the_server_and_its_version() {
        let mariadb = "MariaDB 10.11.19-MariaDB-0+deb12u1";
        assert!(has(mariadb, "MariaDB") && has(mariadb, "MariaDB 10.6") && has(mariadb, "MySQL, MariaDB"));
        assert!(!has(mariadb, "MariaDB 11.4") && !has(mariadb, "MySQL 8.0.18") && !has(mariadb, "MySQL"));
        assert!(has("MySQL 9.7.4-2", "MySQL 8.0.18") && !has("MySQL 5.5.62", "MySQL 8.0.18"));
        assert!(has(mariadb, "MySQL Connector/J, go-sql-driver") && has(mariadb, "PostgreSQL"));
        assert!(has("PostgreSQL 15.20", "MySQL 8.0.18"), "nothing is known of its server");
        assert!(has_setting(&BTreeSet::new(), &Remedy { at: "MariaDB", setting: "" }));
    }
}
