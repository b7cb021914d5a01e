//! Text values that are shorter in binary.

use super::percent;
use crate::finding::{AdviceFinding, ByteEvidence, Certainty, Example, Remedy, remedies};
use crate::rule::Rule;
use crate::seen::{SeenField, SeenOperation, SeenRow, SeenTraffic};
use overhead_model::{Account, Protocol, Side};
use std::collections::{BTreeMap, HashMap};

/// Minimum number of values.
const VALUES: u64 = 10;
/// Minimum saving in percent of the row's bytes.
const SHARE: f64 = 2.0;
/// PostgreSQL's limit of columns (`MaxTupleAttributeNumber`).
const COLUMNS: usize = 1664;

/// PostgreSQL's text format; sums over all types of an answer.
#[derive(Default)]
pub struct TextFormat {
    open: HashMap<u64, DescribedAnswer>,
    rows: BTreeMap<usize, TextValues>,
}

/// Columns of an answer, and the position in its current row.
#[derive(Default)]
struct DescribedAnswer {
    columns: Vec<DescribedColumn>,
    formats: usize,
    at: usize,
    /// Values, and the bytes that binary saves.
    by_type: BTreeMap<u32, (u64, i64)>,
}

struct DescribedColumn {
    oid: u32,
    is_text: bool,
}

#[derive(Default)]
struct TextValues {
    operations: u64,
    by_type: BTreeMap<u32, (u64, i64)>,
    example: Option<Example>,
}

const REMEDIES: &[Remedy] = remedies! {
    "psycopg 3": "connection.cursor(binary=True), execute(…, binary=True)",
    "libpq": "PQexecParams and PQexecPrepared with resultFormat 1",
    "pgjdbc": "binaryTransfer=true (the default) with prepareThreshold=1, binaryTransferEnable for further types",
    "pgx, asyncpg, Npgsql, tokio-postgres": "the extended protocol: they ask for binary there as they are (pgx: not simple_protocol)",
};

impl Rule for TextFormat {
    fn wants_field(&self, protocol: Protocol, path: &str) -> bool {
        let is_description = |field| matches!(field, "column.type" | "column.format code" | "column count");
        let is_wanted = path.strip_prefix("row description.").is_some_and(is_description)
            || matches!(path, "row.column count" | "row.value length");
        protocol == Protocol::Pgwire && is_wanted
    }

    fn field(&mut self, field: &SeenField<'_>) {
        let answer = self.open.entry(field.operation).or_default();
        match field.path {
            "row description.column count" => (answer.columns, answer.formats) = (Vec::new(), 0),
            "row description.column.type" => {
                let oid = field.bytes.and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes);
                if answer.columns.len() < COLUMNS {
                    answer.columns.push(DescribedColumn { oid, is_text: false });
                }
            }
            "row description.column.format code" => {
                if let Some(column) = answer.columns.get_mut(answer.formats) {
                    column.is_text = field.bytes == Some(&[0, 0]);
                }
                answer.formats += 1;
            }
            "row.column count" => answer.at = 0,
            _ => {
                let len = field.bytes.and_then(|bytes| bytes.try_into().ok()).map_or(-1, i32::from_be_bytes);
                answer.add_value(i64::from(len));
            }
        }
    }

    fn operation(&mut self, closed: &SeenOperation<'_>) {
        let Some(answer) = self.open.remove(&closed.example.operation) else { return };
        if answer.by_type.is_empty() || !closed.row.is_workload() {
            return;
        }
        let row = self.rows.entry(closed.row.number).or_default();
        row.operations += 1;
        row.example.get_or_insert(closed.example);
        for (oid, (values, saved)) in answer.by_type {
            let sum = row.by_type.entry(oid).or_default();
            sum.0 += values;
            sum.1 += saved;
        }
    }

    fn row_finding(&self, _: &SeenTraffic, row: &SeenRow) -> Option<AdviceFinding> {
        let values = self.rows.get(&row.number)?;
        let count: u64 = values.by_type.values().map(|(count, _)| count).sum();
        let less: i64 = values.by_type.values().map(|(_, saved)| saved).sum();
        let saved = u64::try_from(less).ok()?;
        if count < VALUES || percent(saved, row.wire()) < SHARE {
            return None;
        }
        let title = format!("{count} values come in text that take {saved} B less in binary");
        let evidence =
            values.by_type.iter().filter(|(_, (_, saved))| *saved > 0).map(|(oid, (count, saved))| ByteEvidence {
                side: Side::Response,
                account: Account::Data,
                field: format!("{count} values of type {}", type_name(*oid)),
                bytes: saved.unsigned_abs(),
            });
        let mut finding = AdviceFinding {
            evidence: evidence.collect(),
            remedies: REMEDIES.to_vec(),
            certainty: Certainty::Exact,
            computed: "lengths in text less lengths in binary of all values of bool, integers, floats, dates, times, uuid and bytea in answers that describe their columns; small integers, which binary makes longer, are deducted".to_owned(),
            unknown: "parameters, numeric, arrays, and answers whose columns were described elsewhere; simple queries (`via` simple) only support text",
            ..AdviceFinding::new(title, row, values.operations, values.example)
        };
        finding.change(row.number, Side::Response, Account::Data, -less);
        Some(finding)
    }
}

impl DescribedAnswer {
    /// Adds the next value of the row; a length of −1 is NULL.
    fn add_value(&mut self, len: i64) {
        let column = self.columns.get(self.at);
        self.at += 1;
        let Some(DescribedColumn { oid, is_text: true }) = column else { return };
        let Some(binary) = binary_len(*oid, len).filter(|_| len >= 0) else { return };
        let sum = self.by_type.entry(*oid).or_default();
        sum.0 += 1;
        sum.1 += len - binary;
    }
}

/// Types whose text length determines the binary length: number, name and fixed size.
const TYPES: [(u32, &str, i64); 12] = [
    (16, "bool", 1),
    (21, "int2", 2),
    (23, "int4", 4),
    (26, "oid", 4),
    (700, "float4", 4),
    (1082, "date", 4),
    (20, "int8", 8),
    (701, "float8", 8),
    (1114, "timestamp", 8),
    (1184, "timestamptz", 8),
    (1083, "time", 8),
    (2950, "uuid", 16),
];
/// Its text is in hex, after two characters.
const BYTEA: u32 = 17;

fn binary_len(oid: u32, text: i64) -> Option<i64> {
    let fixed = TYPES.iter().find(|(known, ..)| *known == oid).map(|(_, _, len)| *len);
    fixed.or_else(|| (oid == BYTEA).then_some((text - 2) / 2))
}

fn type_name(oid: u32) -> &'static str {
    TYPES.iter().find(|(known, ..)| *known == oid).map_or("bytea", |(_, name, _)| name)
}
