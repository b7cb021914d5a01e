//! Prepared statements that are executed at most once.

use super::percent;
use crate::finding::{AdviceFinding, Certainty, Example, FindingSubject, Remedy, add_sides, remedies};
use crate::limits;
use crate::rule::Rule;
use crate::seen::{SeenField, SeenOperation, SeenRow, SeenTraffic};
use overhead_model::{Account, Amounts, Protocol, Side};
use std::collections::{BTreeMap, HashMap};

/// Minimum number of such statements.
const STATEMENTS: u64 = 10;
/// Minimum percentage of all prepared statements.
const SHARE: f64 = 20.0;

/// Prepared statements by name or id, until their connection ends.
#[derive(Default)]
pub struct PreparedOnce {
    /// By open operation.
    ids: HashMap<u64, StatementIds>,
    statements: HashMap<(u64, Vec<u8>), PreparedCost>,
    /// Statements whose name was reused.
    replaced: Vec<PreparedCost>,
}

#[derive(Default)]
struct StatementIds {
    prepares: Option<Vec<u8>>,
    executes: Option<Vec<u8>>,
}

#[derive(Clone)]
struct PreparedCost {
    row: usize,
    example: Example,
    amounts: [Amounts; 2],
    latency_ns: u64,
    uses: u64,
}

const REMEDIES: &[Remedy] = remedies! {
    "pgx": "default_query_exec_mode=exec or simple_protocol for such statements",
    "pgjdbc": "prepareThreshold above 1 (default 5), or 0 for never",
    "psycopg 3": "prepare_threshold (default 5), or prepare=False per statement",
    "MySQL Connector/J, go-sql-driver": "useServerPrepStmts=false; interpolateParams=true",
    "CQL drivers": "keep the prepared statement (one per session, not one per request), or execute it unprepared",
};

impl Rule for PreparedOnce {
    fn wants_field(&self, protocol: Protocol, path: &str) -> bool {
        match protocol {
            Protocol::Pgwire => matches!(path, "parse.statement name" | "bind.statement name"),
            Protocol::Cql | Protocol::Mysql => path.ends_with("statement id"),
            _ => false,
        }
    }

    fn field(&mut self, field: &SeenField<'_>) {
        let Some(bytes) = field.bytes.filter(|_| self.ids.len() < limits::REMEMBERED) else { return };
        let prepares = field.side == Side::Response || field.path.starts_with("parse.");
        let ids = self.ids.entry(field.operation).or_default();
        let which = if prepares { &mut ids.prepares } else { &mut ids.executes };
        *which = Some(bytes.to_vec());
    }

    fn operation(&mut self, closed: &SeenOperation<'_>) {
        let Some(StatementIds { prepares, executes }) = self.ids.remove(&closed.example.operation) else { return };
        // CQL ids are per server, others per connection.
        let space = if closed.row.protocol == Protocol::Cql { 0 } else { closed.connection };
        if let Some(id) = prepares.filter(|_| self.statements.len() < limits::REMEMBERED) {
            let statement = prepared(closed);
            match self.statements.get_mut(&(space, id.clone())) {
                // Prepared again under the same id: add the cost, keep the uses.
                Some(known) if closed.row.protocol == Protocol::Cql => {
                    add_sides(&mut known.amounts, &statement.amounts);
                    known.latency_ns += statement.latency_ns;
                }
                _ => self.replaced.extend(self.statements.insert((space, id), statement)),
            }
        }
        let is_use = closed.row.is_workload() || closed.row.protocol == Protocol::Cql;
        if let Some(known) = executes.filter(|_| is_use).and_then(|id| self.statements.get_mut(&(space, id))) {
            known.uses += 1;
        }
    }

    fn findings(&self, seen: &SeenTraffic) -> Vec<AdviceFinding> {
        let mut names: BTreeMap<_, (&SeenRow, Vec<&PreparedCost>)> = BTreeMap::new();
        for statement in self.statements.values().chain(&self.replaced) {
            let Some(row) = seen.rows.get(statement.row) else { continue };
            let name = (row.protocol.name(), row.class.name(), &row.name, row.via);
            names.entry(name).or_insert_with(|| (row, Vec::new())).1.push(statement);
        }
        names.values().filter_map(|(row, statements)| statements_finding(row, statements)).collect()
    }
}

/// Returns the cost of preparing: the operation, or only its Parse fields if it also executes.
fn prepared(closed: &SeenOperation<'_>) -> PreparedCost {
    let amounts = if closed.row.is_workload() {
        closed.group(|_, path| path.starts_with("parse.") || path.starts_with("parse complete.")).0
    } else {
        closed.operation.amounts()
    };
    let latency_ns = if closed.row.is_workload() { 0 } else { closed.operation.latency_ns.unwrap_or(0) };
    PreparedCost { row: closed.row.number, example: closed.example, amounts, latency_ns, uses: 0 }
}

/// Returns the finding about the prepared statements of one name, one of which is in `row`.
fn statements_finding(row: &SeenRow, prepared: &[&PreparedCost]) -> Option<AdviceFinding> {
    let once = || prepared.iter().filter(|statement| statement.uses <= 1);
    let (count, prepared) = (once().count() as u64, prepared.len() as u64);
    if count < STATEMENTS || percent(count, prepared) < SHARE {
        return None;
    }
    let never = once().filter(|statement| statement.uses == 0).count();
    let title = format!("{count} of {prepared} prepared statements are executed once at most ({never} never)");
    let waited_ns = once().map(|statement| statement.latency_ns).sum();
    let subject = FindingSubject { statement: String::new(), ..row.into() };
    let example = once().map(|statement| statement.example).min_by_key(|example| example.operation);
    let finding = AdviceFinding {
        remedies: REMEDIES.to_vec(),
        certainty: Certainty::AtMost,
        is_extra_time: true,
        computed: "the operations that prepared them, without the text, which an unprepared execution sends too"
            .to_owned(),
        unknown: "whether they are executed after the capture; what the parameters take in another form",
        ..AdviceFinding::new(title, subject, count, example).waiting(waited_ns)
    };
    Some(once().fold(finding, |finding, statement| {
        let mut amounts = statement.amounts;
        // The text is sent in any case.
        amounts[Side::Request as usize][Account::Query] = 0;
        finding.without(statement.row, &amounts)
    }))
}
