//! What drivers and pools send while their application does nothing.

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
pub const SHORTEST_IDLE_SECONDS: f64 = 10.0;

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

/// Returns whether so many operations that only check connections are no work of an application.
pub fn are_checks_rare(checks: u64, connections: u64, seconds: f64) -> bool {
    checks as f64 <= CHECKS_PER_SECOND * seconds * connections.max(1) as f64
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
        assert!(are_checks_rare(20, 1, 10.0));
        assert!(!are_checks_rare(100_000, 50, 10.0));
    }
}
