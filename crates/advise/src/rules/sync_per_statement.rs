//! A Sync after each statement of a batch.

use super::percent;
use crate::finding::{AdviceFinding, Certainty, FoundOperations, Remedy, remedies};
use crate::rule::Rule;
use crate::seen::{ClosedConnection, SeenField, SeenOperation, SeenRow, SeenTraffic};
use overhead_model::{Account, Amounts, Protocol};
use std::collections::{BTreeMap, HashMap};

/// Minimum number of needless Syncs.
const STATEMENTS: u64 = 10;
/// Minimum percentage of the row.
const SHARE: f64 = 10.0;

/// Consecutive statements of one row in a transaction.
#[derive(Default)]
pub struct SyncPerStatement {
    /// By operation: whether it ended inside a transaction block.
    status: HashMap<u64, bool>,
    /// By connection: row of the last statement in a transaction.
    last: HashMap<u64, usize>,
    rows: BTreeMap<usize, FoundOperations>,
}

const REMEDIES: &[Remedy] = remedies! {
    "libpq": "PQenterPipelineMode, and PQpipelineSync once per batch",
    "psycopg 3": "with connection.pipeline(), or executemany()",
    "pgjdbc": "addBatch and executeBatch; reWriteBatchedInserts=true",
    "pgx, Npgsql": "pgx.Batch with SendBatch; NpgsqlBatch",
};

impl Rule for SyncPerStatement {
    fn wants_field(&self, protocol: Protocol, path: &str) -> bool {
        protocol == Protocol::Pgwire && path == "ready for query.transaction status"
    }

    fn field(&mut self, field: &SeenField<'_>) {
        self.status.insert(field.operation, field.bytes == Some(b"T"));
    }

    fn operation(&mut self, closed: &SeenOperation<'_>) {
        let in_transaction = self.status.remove(&closed.example.operation);
        if closed.row.protocol != Protocol::Pgwire {
            return;
        }
        let repeats = self.last.get(&closed.connection) == Some(&closed.row.number);
        if in_transaction != Some(true) || !closed.row.is_workload() || closed.row.via == "simple" {
            self.last.remove(&closed.connection);
            return;
        }
        self.last.insert(closed.connection, closed.row.number);
        if repeats {
            self.rows.entry(closed.row.number).or_default().add(1, closed.round_trip_ns, closed.example);
        }
    }

    fn connection(&mut self, connection: &ClosedConnection<'_>) {
        self.last.remove(&connection.number);
    }

    fn row_finding(&self, seen: &SeenTraffic, row: &SeenRow) -> Option<AdviceFinding> {
        let FoundOperations { times, ns, example, .. } = *self.rows.get(&row.number)?;
        if times < STATEMENTS || percent(times, row.count) < SHARE {
            return None;
        }
        let title = format!("{times} statements of one kind follow another in a transaction, each with its own Sync");
        let (request, mut response) =
            (Amounts::new(Account::Framing, 5 * times), Amounts::new(Account::Framing, 5 * times));
        response[Account::Status] = times;
        Some(AdviceFinding {
            evidence: seen.group(row, |_, path| path.starts_with("sync.") || path.starts_with("ready for query.")).evidence,
            remedies: REMEDIES.to_vec(),
            certainty: Certainty::AtMost,
            computed: "Sync (5 B) and ReadyForQuery (6 B) of each but the first in a row; the time is a round trip for each, at most the connection's shortest latency".to_owned(),
            unknown: "whether a statement needs the answer to the one before; the frames that fall away with a batch are left to the rule `pipelining`",
            ..AdviceFinding::new(title, row, times, example).without(row.number, &[request, response]).waiting(ns)
        })
    }
}
