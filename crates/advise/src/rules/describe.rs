//! Columns described again with every execution.

use super::percent;
use crate::finding::{AdviceFinding, Certainty, Remedy, remedies};
use crate::rule::Rule;
use crate::seen::{SeenRow, SeenTraffic};
use overhead_model::{Protocol, Side};

/// Minimum number of executions with Describe.
const EXECUTIONS: u64 = 10;
/// Minimum percentage of the row's bytes.
const SHARE: f64 = 1.0;

/// PostgreSQL's Describe and `RowDescription` (PostgreSQL documentation, section 55.2.3).
pub struct RepeatedDescribe;

const REMEDIES: &[Remedy] = remedies! {
    "pgjdbc": "prepareThreshold=1 (default 5): named statements are described once",
    "asyncpg, tokio-postgres, Npgsql":
        "prepared statements (connection.prepare, Client::prepare, NpgsqlCommand.Prepare): they are executed without Describe",
    "pgx 5.9 and later": "default_query_exec_mode=cache_statement (the default) instead of cache_describe, describe_exec or exec",
    "libpq, and psycopg and pgbench with it": "PQsendQueryPrepared always describes; this cannot be turned off",
};

impl Rule for RepeatedDescribe {
    fn row_finding(&self, seen: &SeenTraffic, row: &SeenRow) -> Option<AdviceFinding> {
        let asked = seen.group(row, |side, path| side == Side::Request && path.starts_with("describe."));
        if !row.is_workload() || row.protocol != Protocol::Pgwire || asked.operations < EXECUTIONS {
            return None;
        }
        let group = seen.group(row, is_description);
        if percent(group.bytes(), row.wire()) < SHARE {
            return None;
        }
        let title =
            format!("{:.0}% of the executions ask for their columns again", percent(asked.operations, row.count));
        Some(AdviceFinding {
            remedies: REMEDIES.to_vec(),
            certainty: Certainty::Exact,
            computed:
                "the operations' Describe messages and their answers: RowDescription, ParameterDescription and NoData"
                    .to_owned(),
            unknown: "each statement must be described once, unless a separate PREPARE does so",
            evidence: group.evidence.clone(),
            ..AdviceFinding::new(title, row, asked.operations, asked.example).without(row.number, &group.amounts)
        })
    }
}

fn is_description(side: Side, path: &str) -> bool {
    match side {
        Side::Request => path.starts_with("describe."),
        Side::Response => {
            ["row description.", "parameter description.", "no data."].iter().any(|group| path.starts_with(group))
        }
    }
}
