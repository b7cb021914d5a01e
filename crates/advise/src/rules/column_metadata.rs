//! Column definitions repeated in every answer.

use super::percent;
use crate::finding::{AdviceFinding, Certainty, Remedy, remedies};
use crate::rule::Rule;
use crate::seen::{FieldGroup, SeenRow, SeenTraffic};
use overhead_model::{Account, Protocol, Side};

/// Minimum number of answers with definitions: each statement needs them once.
const ANSWERS: u64 = 10;
/// Minimum percentage of the row's bytes.
const SHARE: f64 = 1.0;

/// CQL 4 section 4.2.5.2 (`Skip_metadata`); `MySQL`'s optional result-set metadata and `MariaDB`'s cached metadata.
pub struct ColumnMetadata;

const CQL: &[Remedy] = remedies! {
    "gocql": "ClusterConfig.DisableSkipMetadata = false",
    "scylla (Rust)": "PreparedStatement::set_use_cached_result_metadata(true)",
    "others": "the Skip_metadata flag of EXECUTE (0x02); with protocol 5 it is safe after schema changes",
};

const MYSQL: &[Remedy] = remedies! {
    "MySQL 8, C API": "MYSQL_OPT_OPTIONAL_RESULTSET_METADATA, then SET resultset_metadata = NONE",
    "MariaDB 10.6, Connector/C 3.3, /J 3.1, /R2DBC":
        "prepared statements on the server (useServerPrepStmts=true): definitions are sent once",
    "MariaDB 10.6, other drivers": "capability MARIADB_CLIENT_CACHE_METADATA, with COM_STMT_EXECUTE",
};

const CQL_COMPUTED: &str =
    "the fields below `RESULT.metadata` without flags, column count and paging state, which stay";
const MYSQL_COMPUTED: &str =
    "the packets of column definitions of all answers; the first answer of each statement still needs them";

impl Rule for ColumnMetadata {
    fn row_finding(&self, seen: &SeenTraffic, row: &SeenRow) -> Option<AdviceFinding> {
        if !row.is_workload() {
            return None;
        }
        let (group, remedies, certainty, computed) = match row.protocol {
            Protocol::Cql if row.via == "prepared" => (cql_metadata(seen, row), CQL, Certainty::Exact, CQL_COMPUTED),
            Protocol::Mysql => (mysql_metadata(seen, row), MYSQL, Certainty::Modelled, MYSQL_COMPUTED),
            _ => return None,
        };
        if group.operations < ANSWERS || percent(group.bytes(), row.wire()) < SHARE {
            return None;
        }
        let title = format!(
            "{:.0}% of the answers repeat the definitions of their columns",
            percent(group.operations, row.count)
        );
        Some(AdviceFinding {
            remedies: remedies.to_vec(),
            certainty,
            computed: computed.to_owned(),
            unknown: "an answer that becomes short enough for fewer frames would save their headers too",
            evidence: group.evidence.clone(),
            ..AdviceFinding::new(title, row, group.operations, group.example).without(row.number, &group.amounts)
        })
    }
}

fn cql_metadata(seen: &SeenTraffic, row: &SeenRow) -> FieldGroup {
    seen.group(row, |side, path| {
        let Some((_, field)) = path.split_once("RESULT.metadata.") else { return false };
        let stays = matches!(field, "flags" | "column count" | "paging state" | "metadata id");
        side == Side::Response && !path.contains("bind markers") && !stays
    })
}

/// Each definition is a packet, with a header of four bytes (`Protocol::ColumnDefinition41`).
fn mysql_metadata(seen: &SeenTraffic, row: &SeenRow) -> FieldGroup {
    let mut group = seen.group(row, |side, path| side == Side::Response && path.starts_with("column."));
    let columns = seen.times(row, Side::Response, "column.type");
    group.amounts[Side::Response as usize][Account::Framing] += 4 * columns;
    group
}
