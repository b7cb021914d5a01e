//! Names of clients: those of the settings, or else of their processes.

use super::zones::ZoneMap;
use overhead_report::text::clean;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Names of processes that a label shows, of those that share an address.
const SHOWN: usize = 3;

/// Names for services, by network or process: `[names]` of the settings.
#[derive(Clone, Debug, Default)]
pub struct ServiceNames {
    networks: ZoneMap,
    /// By the process's name.
    processes: BTreeMap<String, String>,
}

impl ServiceNames {
    /// Reads the section. A key that looks like an address is a network; another is the name of a process.
    pub fn new(table: &BTreeMap<String, String>) -> Result<Self, String> {
        let is_network = |key: &str| {
            key.contains(['.', ':', '/']) && key.chars().all(|char| char.is_ascii_hexdigit() || ".:/".contains(char))
        };
        let (networks, processes) = table.clone().into_iter().partition(|(key, _)| is_network(key));
        let (networks, processes): (BTreeMap<_, _>, BTreeMap<String, String>) = (networks, processes);
        if let Some((key, _)) = table.iter().find(|(_, name)| name.is_empty()) {
            return Err(format!("[names], {key:?}: the name is empty: write a name, or remove the line"));
        }
        // The kernel keeps the first 15 bytes of a process's name.
        if let Some(long) = processes.keys().find(|process| process.len() > 15) {
            let kept: String = long.chars().take(15).collect();
            return Err(format!("[names], {long:?}: no process has a name of more than 15 bytes: write {kept:?}"));
        }
        Ok(Self { networks: ZoneMap::from_names(&networks)?, processes })
    }

    /// Returns the name of a client, of which these processes of this host are known; empty if it has none.
    pub fn name(&self, client: IpAddr, processes: Option<&BTreeSet<String>>) -> String {
        if let Some(name) = self.networks.zone(client) {
            return clean(name);
        }
        let named = |process: &String| self.processes.get(process).unwrap_or(process).clone();
        let names: BTreeSet<String> = processes.into_iter().flatten().map(named).collect();
        let mut shown: Vec<String> = names.iter().take(SHOWN).map(|name| clean(name)).collect();
        if names.len() > SHOWN {
            shown.push("…".to_owned());
        }
        shown.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(table: &[(&str, &str)]) -> Result<ServiceNames, String> {
        ServiceNames::new(&table.iter().map(|(key, name)| ((*key).to_owned(), (*name).to_owned())).collect())
    }

    #[test]
    fn networks_come_before_processes_and_these_are_shown_without_a_name_of_their_own() {
        let names =
            names(&[("10.0.0.0/8", "backend"), ("10.0.0.7", "orders"), ("2001:db8::/32", "six"), ("gunicorn", "shop")])
                .unwrap();
        let name = |client: &str, processes: &[&str]| {
            let processes = processes.iter().map(|process| (*process).to_owned()).collect();
            names.name(client.parse().unwrap(), Some(&processes))
        };
        assert_eq!(name("10.0.0.7", &["java"]), "orders");
        assert_eq!(name("10.0.0.8", &[]), "backend");
        assert_eq!(name("2001:db8::1", &[]), "six");
        assert_eq!(name("127.0.0.1", &["gunicorn"]), "shop");
        assert_eq!(name("127.0.0.1", &["psql", "gunicorn"]), "psql, shop");
        assert_eq!(name("127.0.0.1", &["a", "b", "c", "d\x1b"]), "a, b, c, …");
        assert_eq!(name("192.0.2.1", &[]), "");
        assert_eq!(names.name("192.0.2.1".parse().unwrap(), None), "");
    }

    #[test]
    fn mistakes_are_named() {
        let failure = |table: &[(&str, &str)]| names(table).unwrap_err();
        assert_eq!(
            failure(&[("10.0.0/8", "a")]),
            "[names], \"10.0.0/8\": invalid network 10.0.0/8: use 10.1.0.0/16, 2001:db8::/32 or one address"
        );
        assert_eq!(
            failure(&[("::1", "a"), ("0::1", "b")]),
            "[names], \"::1\": name a, but [names], \"0::1\", gives it name b: remove one"
        );
        assert_eq!(failure(&[("psql", "")]), "[names], \"psql\": the name is empty: write a name, or remove the line");
        let long =
            "[names], \"a-name-of-16-bytes\": no process has a name of more than 15 bytes: write \"a-name-of-16-by\"";
        assert_eq!(failure(&[("a-name-of-16-bytes", "a")]), long);
    }
}
