//! Two runs set against each other: which accounts make the difference per operation, which fields within them, and how
//! the work of the kernel differs.
//!
//! Everything is per operation, and a difference is the second run's figure minus the first's.

mod csv;
mod pairing;
mod render;
mod work;

pub use csv::csv;
pub(crate) use pairing::kind;
pub use render::{json, markdown, table};
pub use work::WorkDifference;

use crate::bounds::{LowerBounds, lower_bounds};
use crate::run::NamedRun;
use crate::summary::data_difference;
use overhead_model::record::{FieldRow, OperationRow, SideRow};
use overhead_model::{Account, Side};
use serde::Serialize;
use std::collections::BTreeMap;

/// Two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// What the runs are called.
    pub runs: [String; 2],
    /// Kinds of operations, side by side.
    pub pairs: Vec<KindPair>,
    /// Kinds of operations that the other run has nothing to set against.
    pub alone: [Vec<Subject>; 2],
    /// Work of server and client, for all workload operations of a run together.
    pub work: Vec<WorkDifference>,
    /// Why the byte figures of a run are lower bounds; absent where they are exact.
    pub lower_bounds: [Option<String>; 2],
    /// What to know before believing any of it, in whole sentences.
    pub remarks: Vec<String>,
}

/// A kind of operation of each run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindPair {
    /// What is compared.
    pub operations: [Subject; 2],
    /// Accounts that hold anything, largest difference first.
    pub accounts: Vec<AccountDifference>,
    /// Fields of the payload, by the same order of accounts; absent where a run has none recorded.
    pub fields: Option<Vec<FieldDifference>>,
    /// Which figures are lower bounds, by run.
    #[serde(skip)]
    bounds: [LowerBounds; 2],
}

/// A kind of operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Subject {
    /// Protocol name.
    pub protocol: String,
    /// Name.
    pub name: String,
    /// How it was sent; empty where there is only one way.
    pub via: String,
    /// Operations.
    pub count: u64,
    /// Bytes per operation, by side.
    pub wire: [f64; 2],
    /// TCP payload per operation, by side.
    pub payload: [f64; 2],
    /// Median latency in nanoseconds as the capture saw it; absent where none was seen.
    pub p50_ns: Option<u64>,
}

/// One account of one direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AccountDifference {
    /// Direction.
    pub side: Side,
    /// Account.
    pub account: Account,
    /// Bytes per operation, by run.
    pub bytes: [f64; 2],
    /// The second minus the first.
    pub difference: f64,
}

/// One field of one direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldDifference {
    /// Direction.
    pub side: Side,
    /// Where it is posted.
    pub account: Account,
    /// The field, as `explain` names it.
    pub field: String,
    /// Bytes per operation, by run; absent from a run that has no such field.
    pub bytes: [Option<f64>; 2],
    /// The second minus the first.
    pub difference: f64,
}

impl Subject {
    fn of(row: &OperationRow) -> Self {
        let per = |bytes: u64| per_sample(bytes, row);
        Self {
            protocol: row.protocol.clone(),
            name: row.name.clone(),
            via: row.via.clone(),
            count: row.count,
            wire: [&row.request, &row.response].map(|side| per(side.accounts.total())),
            payload: [&row.request, &row.response].map(|side| per(side.accounts.payload())),
            p50_ns: (row.latency_ns.count > 0).then_some(row.latency_ns.p50),
        }
    }

    /// `SELECT (prepared)`.
    pub fn label(&self) -> String {
        if self.via.is_empty() { self.name.clone() } else { format!("{} ({})", self.name, self.via) }
    }
}

/// Sets the second run against the first.
pub fn compare(first: &NamedRun, second: &NamedRun) -> Comparison {
    let (pairs, alone) = pairing::pairs(&first.run, &second.run);
    let mut remarks: Vec<String> = data_difference(&[first.clone(), second.clone()]).into_iter().collect();
    let lower_bounds = [first, second].map(|named| lower_bounds(&named.run));
    for (named, bound) in [first, second].into_iter().zip(&lower_bounds) {
        remarks
            .extend(bound.as_ref().map(|bound| format!("{}: {bound}; differences from it are not exact.", named.name)));
        remarks.extend(named.run.warnings.iter().map(|warning| format!("{}: {warning}", named.name)));
    }
    let bounds = [first, second].map(|named| LowerBounds::of(&named.run));
    Comparison {
        runs: [first.name.clone(), second.name.clone()],
        pairs: pairs.into_iter().map(|rows| KindPair { bounds, ..KindPair::of(rows) }).collect(),
        alone: alone.map(|rows| rows.into_iter().map(Subject::of).collect()),
        work: work::differences(&first.run, &second.run),
        lower_bounds,
        remarks,
    }
}

impl KindPair {
    /// Returns what sets one kind of operation apart from another.
    pub fn of(rows: [&OperationRow; 2]) -> Self {
        let mut accounts = accounts(rows);
        accounts.sort_by(|a, b| b.difference.abs().total_cmp(&a.difference.abs()));
        let fields = fields(rows).map(|mut fields| {
            let rank = |field: &FieldDifference| {
                accounts.iter().position(|a| (a.side, a.account) == (field.side, field.account))
            };
            fields.sort_by(|a, b| {
                (rank(a), b.difference.abs())
                    .partial_cmp(&(rank(b), a.difference.abs()))
                    .unwrap_or(a.field.cmp(&b.field))
            });
            fields
        });
        Self { operations: rows.map(Subject::of), accounts, fields, bounds: <[LowerBounds; 2]>::default() }
    }

    /// Bytes on the wire per operation, both directions, the second minus the first.
    pub fn difference(&self) -> f64 {
        let [first, second] = &self.operations;
        second.wire.iter().sum::<f64>() - first.wire.iter().sum::<f64>()
    }
}

fn sides(row: &OperationRow) -> [(Side, &SideRow); 2] {
    [(Side::Request, &row.request), (Side::Response, &row.response)]
}

/// Means are over operations and unsolicited messages, as in the tables of a run.
fn per_sample(bytes: u64, row: &OperationRow) -> f64 {
    bytes as f64 / row.samples().max(1) as f64
}

fn accounts(rows: [&OperationRow; 2]) -> Vec<AccountDifference> {
    let mut differences = Vec::new();
    for side in Side::BOTH {
        for account in Account::ALL {
            let bytes = rows.map(|row| per_sample(sides(row)[side as usize].1.accounts[account], row));
            if bytes.iter().any(|bytes| *bytes > 0.0) {
                differences.push(AccountDifference { side, account, bytes, difference: bytes[1] - bytes[0] });
            }
        }
    }
    differences
}

fn fields(rows: [&OperationRow; 2]) -> Option<Vec<FieldDifference>> {
    let mut found: BTreeMap<(Side, Account, &str), [Option<f64>; 2]> = BTreeMap::new();
    for (at, row) in rows.into_iter().enumerate() {
        for FieldRow { side, account, field, bytes } in row.fields.as_ref()? {
            found.entry((*side, *account, field)).or_default()[at] = Some(per_sample(*bytes, row));
        }
    }
    let difference = |((side, account, field), bytes): ((Side, Account, &str), [Option<f64>; 2])| FieldDifference {
        side,
        account,
        field: field.to_owned(),
        bytes,
        difference: bytes[1].unwrap_or(0.0) - bytes[0].unwrap_or(0.0),
    };
    Some(found.into_iter().map(difference).collect())
}

#[cfg(test)]
mod tests;
