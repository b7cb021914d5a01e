//! Statements that are prepared again and again.

use super::percent;
use crate::finding::{AdviceFinding, Certainty, FindingSubject, Remedy, remedies};
use crate::rule::Rule;
use crate::seen::{SeenRow, SeenTraffic};
use overhead_model::{Account, Amounts, Class, Protocol, Side};

/// Minimum number of preparations.
const PREPARATIONS: u64 = 10;
/// Executions for each preparation from which preparing pays.
const EXECUTIONS: u64 = 10;
/// Minimum percentage of the bytes on the wire.
const SHARE: f64 = 2.0;

/// Preparations by protocol, against executions.
pub struct PreparedAnew;

const REMEDIES: &[Remedy] = remedies! {
    "pg8000": "connection.prepare() once for each statement, then its run()",
    "pgjdbc": "prepareThreshold=5 and preparedStatementCacheQueries=256 (the defaults); one connection, not one per statement",
    "pgbouncer 1.21 and later": "max_prepared_statements=200 in transaction mode",
    "psycopg 3, asyncpg": "prepare_threshold=5; statement_cache_size=100",
    "MySQL Connector/J, MariaDB Connector/J": "useServerPrepStmts=true with cachePrepStmts=true",
    "CQL drivers": "prepare once per session, and keep the prepared statement",
};

impl Rule for PreparedAnew {
    fn findings(&self, seen: &SeenTraffic) -> Vec<AdviceFinding> {
        [Protocol::Pgwire, Protocol::Mysql, Protocol::Cql].into_iter().filter_map(|of| finding(seen, of)).collect()
    }
}

/// Returns whether a row prepares, describes or closes statements.
fn manages(row: &SeenRow) -> bool {
    row.class == Class::Setup && matches!(&*row.name, "PREPARE" | "DESCRIBE" | "CLOSE")
}

fn finding(seen: &SeenTraffic, protocol: Protocol) -> Option<AdviceFinding> {
    let of_protocol = || seen.rows.iter().filter(|row| row.protocol == protocol);
    let managing = || of_protocol().filter(|row| manages(row));
    let prepared: u64 = managing().filter(|row| row.name == "PREPARE").map(|row| row.count).sum();
    let executing = || of_protocol().filter(|row| row.is_workload() && matches!(row.via, "prepared" | "extended"));
    let executed: u64 = executing().map(|row| row.count).sum();
    let statements = executing().count() as u64;
    let bytes: u64 = managing().map(SeenRow::wire).sum();
    let again = prepared.saturating_sub(statements);
    if again < PREPARATIONS || prepared.saturating_mul(EXECUTIONS) <= executed || percent(bytes, seen.wire()) < SHARE {
        return None;
    }
    let plural = if statements == 1 { "" } else { "s" };
    let title = format!("{prepared} preparations for {executed} executions of {statements} statement{plural}");
    let subject = FindingSubject {
        protocol: protocol.name(),
        class: Class::Setup.name(),
        name: "PREPARE".to_owned(),
        ..FindingSubject::default()
    };
    let share = |total: u64| (u128::from(total) * u128::from(again) / u128::from(prepared)) as u64;
    let waited_ns = managing().map(|row| share(row.latency_ns.0)).sum();
    let example = managing().filter_map(|row| row.example).min_by_key(|example| example.operation);
    let finding = AdviceFinding {
        remedies: REMEDIES.to_vec(),
        certainty: Certainty::AtMost,
        is_extra_time: true,
        computed: "the operations that prepare, describe and close, except one preparation for each statement"
            .to_owned(),
        unknown: "how many connections the statements need; what a statement's first preparation costs",
        ..AdviceFinding::new(title, subject, executed, example).waiting(waited_ns)
    };
    Some(managing().fold(finding, |finding, row| {
        let mut amounts = <[Amounts; 2]>::default();
        for side in Side::BOTH {
            for account in Account::ALL {
                amounts[side as usize][account] = share(row.amounts[side as usize][account]);
            }
        }
        finding.without(row.number, &amounts)
    }))
}
