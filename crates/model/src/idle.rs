//! Traffic of drivers and pools while their application does nothing.

use crate::{Class, enum_with};

enum_with! {
    /// Why an operation is sent without an application's request.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum IdlePurpose, name: &'static str {
        Heartbeat = "heartbeats",
        PoolCheck = "checks of pooled connections",
        Topology = "topology and events",
        Connecting = "new connections",
    }
}

/// Fewest seconds from which the rate of such traffic is computed.
const SHORTEST_SECONDS: f64 = 10.0;

/// Most operations that check connections, for each connection and second; a benchmark of `PING` has more.
const CHECKS_PER_SECOND: f64 = 2.0;

impl IdlePurpose {
    /// Returns why an operation with this name and statement was sent; `None` if an application may have asked for it. The statement is
    /// empty if it has none.
    pub fn find(class: Class, name: &str, statement: &str) -> Option<Self> {
        match class {
            Class::Setup => Some(Self::Connecting),
            Class::Background if is_heartbeat(name) => Some(Self::Heartbeat),
            Class::Background => Some(Self::Topology),
            Class::Workload if is_check(name, statement) => Some(Self::PoolCheck),
            Class::Workload | Class::Unmatched => None,
        }
    }
}

/// Returns whether no application did anything in a capture of so many seconds, which is long enough for a rate. `workload` is the purpose
/// of the operations of each row of the workload, and how many there are.
pub fn is_idle(seconds: f64, connections: u64, workload: impl IntoIterator<Item = (Option<IdlePurpose>, u64)>) -> bool {
    let most = CHECKS_PER_SECOND * seconds * connections.max(1) as f64;
    let checks = workload.into_iter().try_fold(0, |sum, (purpose, count)| purpose.map(|_| sum + count));
    seconds >= SHORTEST_SECONDS && checks.is_some_and(|checks: u64| checks as f64 <= most)
}

fn is_heartbeat(name: &str) -> bool {
    ["hello", "isMaster", "ismaster", "ping", "PING", "OPTIONS"].contains(&name)
}

fn is_check(name: &str, statement: &str) -> bool {
    if ["PING", "ping", "version", "mn", "bin noop", "bin version"].contains(&name) {
        return true;
    }
    let text = match statement.strip_prefix("/*").and_then(|text| text.split_once("*/")) {
        Some((_, text)) => text,
        None => statement,
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        [select, value] => select.eq_ignore_ascii_case("SELECT") && is_literal(value),
        [select, value, from, dual] => {
            select.eq_ignore_ascii_case("SELECT")
                && is_literal(value)
                && from.eq_ignore_ascii_case("FROM")
                && dual.eq_ignore_ascii_case("DUAL")
        }
        _ => false,
    }
}

fn is_literal(value: &str) -> bool {
    let value = value.trim_end_matches(';');
    value == "?" || value.strip_prefix('$').unwrap_or(value).parse::<u32>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_only_check_a_connection() {
        for text in ["SELECT ?", "select 1;", "SELECT $1", "/* ping */ SELECT 1", "SELECT ? FROM DUAL"] {
            assert_eq!(IdlePurpose::find(Class::Workload, "SELECT", text), Some(IdlePurpose::PoolCheck), "{text}");
        }
        for text in ["SELECT a", "SELECT ? FROM t", "SELECT now()", ""] {
            assert_eq!(IdlePurpose::find(Class::Workload, "SELECT", text), None, "{text}");
        }
    }

    #[test]
    fn a_benchmark_of_ping_is_work() {
        let checks = |count| [(Some(IdlePurpose::PoolCheck), count)];
        assert!(is_idle(10.0, 1, checks(20)));
        assert!(!is_idle(10.0, 50, checks(100_000)));
    }
}
