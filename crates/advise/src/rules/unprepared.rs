//! Statements whose text is sent repeatedly.

use super::percent;
use crate::finding::{AdviceFinding, ByteEvidence, Certainty, Example, Remedy, add_sides, remedies};
use crate::limits;
use crate::rule::Rule;
use crate::seen::{SeenOperation, SeenRow, SeenTraffic};
use overhead_model::{Account, Amounts, Protocol, Side};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Minimum number of repetitions.
const REPEATED: u64 = 10;
/// Minimum saving in percent of the row's bytes.
const SHARE: f64 = 2.0;
/// Assumed length of a statement name if the capture has none: pgbench and pgjdbc use 3, psycopg 6.
const NAME: u64 = 4;
/// A CQL statement id with its length: an MD5 sum.
const CQL_ID: u64 = 18;

/// Digests of texts by connection.
#[derive(Default)]
pub struct UnpreparedStatements {
    known: HashSet<(u64, u64)>,
    rows: BTreeMap<usize, RepeatedTexts>,
    /// Occurrences by row and text.
    counts: HashMap<(usize, u64), u64>,
    /// PostgreSQL executions of prepared statements, and bytes of their names.
    prepared: (u64, u64),
}

#[derive(Default)]
struct RepeatedTexts {
    times: u64,
    saved: [Amounts; 2],
    /// Bytes of the ids that would replace the texts.
    ids: u64,
    example: Option<Example>,
    /// Parse messages: the saving is known to the byte.
    parses: bool,
}

const PGWIRE: &[Remedy] = remedies! {
    "psycopg 3": "prepare_threshold=0, or execute(…, prepare=True)",
    "pgbench": "--protocol=prepared",
    "pgjdbc": "prepareThreshold=1; preferQueryMode not simple",
    "pgx": "default_query_exec_mode=cache_statement (the default)",
};
const MYSQL: &[Remedy] = remedies! {
    "MySQL Connector/J": "useServerPrepStmts=true&cachePrepStmts=true",
    "MariaDB Connector/J": "useServerPrepStmts=true",
    "mysql2 (Node), mysql-connector-python": "connection.execute(); cursor(prepared=True)",
};
const CQL: &[Remedy] = remedies! {
    "CQL drivers": "session.prepare(…), once, and execute the prepared statement",
};

impl Rule for UnpreparedStatements {
    fn operation(&mut self, closed: &SeenOperation<'_>) {
        if closed.row.protocol == Protocol::Pgwire && closed.row.via == "prepared" {
            let (name, names) = closed.group(|_, path| path == "bind.statement name");
            self.prepared.0 += u64::from(names > 0);
            self.prepared.1 += name[Side::Request as usize].total();
        }
        let text = closed.operation.sides[0].amounts[Account::Query];
        if !closed.row.protocol.has_tables() || !closed.row.is_workload() || closed.row.via == "prepared" || text == 0 {
            return;
        }
        let Some(digest) = closed.statement_digest() else { return };
        let is_new = self.known.len() < limits::REMEMBERED && self.known.insert((closed.connection, digest));
        if self.counts.len() < limits::REMEMBERED {
            *self.counts.entry((closed.row.number, digest)).or_default() += 1;
        }
        if is_new || !self.known.contains(&(closed.connection, digest)) {
            return;
        }
        let row = self.rows.entry(closed.row.number).or_default();
        row.times += 1;
        row.example.get_or_insert(closed.example);
        let (parse, parses) = closed.group(|_, path| path.starts_with("parse.") || path.starts_with("parse complete."));
        if parses > 0 {
            row.parses = true;
            add_sides(&mut row.saved, &parse);
        } else {
            row.saved[0][Account::Query] += text;
            row.ids += if closed.row.protocol == Protocol::Cql { CQL_ID } else { 0 };
        }
    }

    fn row_finding(&self, _: &SeenTraffic, row: &SeenRow) -> Option<AdviceFinding> {
        let repeated = self.rows.get(&row.number)?;
        let saved: u64 = repeated.saved.iter().map(Amounts::total).sum();
        let (name, whose) = match self.prepared {
            (0, _) => (NAME, "assumed: drivers choose 2 to 20"),
            (count, bytes) => ((bytes + count / 2) / count, "the mean of those in this capture"),
        };
        let added = repeated.ids + if repeated.parses { repeated.times * name } else { 0 };
        if repeated.times < REPEATED || percent(saved.saturating_sub(added), row.wire()) < SHARE {
            return None;
        }
        let texts = self.counts.keys().filter(|(of, _)| *of == row.number).count();
        let title =
            format!("{} of {} statements repeat a text ({texts} different ones) in full", repeated.times, row.count);
        let remedies = match row.protocol {
            Protocol::Pgwire => PGWIRE.to_vec(),
            Protocol::Mysql => MYSQL.to_vec(),
            _ => CQL.to_vec(),
        };
        let evidence = ByteEvidence::from_amounts(&repeated.saved, "parse").map(|evidence| match evidence.account {
            Account::Query => ByteEvidence { field: "text of the statement".to_owned(), ..evidence },
            _ => evidence,
        });
        let mut finding = AdviceFinding {
            evidence: evidence.collect(),
            remedies,
            certainty: if repeated.parses { Certainty::Modelled } else { Certainty::AtMost },
            computed: if repeated.parses {
                format!(
                    "Parse and ParseComplete of all but the first on each connection, less a statement name of {name} bytes in each Bind ({whose})"
                )
            } else {
                "the text of all but the first on each connection; parameters, which take its literals' place, are not deducted".to_owned()
            },
            unknown: "PREPARE itself costs one round trip per statement and connection",
            ..AdviceFinding::new(title, row, repeated.times, repeated.example).without(row.number, &repeated.saved)
        };
        finding.change(row.number, Side::Request, Account::Metadata, added.cast_signed());
        Some(finding)
    }
}
