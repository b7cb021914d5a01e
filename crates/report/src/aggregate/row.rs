//! A row of the aggregate: data common to its statements.

use super::distribution::Values;
use super::statement::{Alike, Statement};
use super::within::within;
use crate::limits::STATEMENTS_SHOWN;
use overhead_model::record::{Distribution, OperationRow, SideRow, StatementRow};
use overhead_model::{Class, Measured, OTHER, Protocol, RowKey, SideTotals};
use std::cmp::Reverse;

/// Operations of a kind and their size distributions. Its statements hold the additive totals.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub key: OwnedRowKey,
    sizes: [Sizes; 2],
    pub statements: Vec<u32>,
    /// Place of the statement that collects undifferentiated operations, if any.
    pub other: Option<u32>,
}

/// An owned [`RowKey`] without a statement, ordered by priority if there are too many rows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OwnedRowKey {
    pub class: Class,
    pub protocol: Protocol,
    pub name: Box<str>,
    pub via: &'static str,
}

/// Bytes in one direction of operations.
#[derive(Clone, Debug, Default)]
struct Sizes {
    wire: Values,
    payload: Values,
}

impl OwnedRowKey {
    pub fn new(key: RowKey<'_>) -> Self {
        Self { class: key.class, protocol: key.protocol, name: key.name.into(), via: key.via }
    }

    #[inline]
    pub fn borrowed(&self) -> RowKey<'_> {
        self.with_statement("")
    }

    #[inline]
    pub fn with_statement<'a>(&'a self, statement: &'a str) -> RowKey<'a> {
        RowKey { protocol: self.protocol, class: self.class, name: &self.name, via: self.via, statement }
    }

    /// Returns whether a key belongs to this row, whatever its statement.
    #[inline]
    pub fn is(&self, key: RowKey<'_>) -> bool {
        // Equal ways of sending nearly always share one static text.
        let is_via = std::ptr::eq(self.via, key.via) || self.via == key.via;
        is_via && self.protocol == key.protocol && self.class == key.class && *self.name == *key.name
    }

    pub fn is_shared(key: RowKey<'_>) -> bool {
        key.name == OTHER && key.via.is_empty()
    }
}

impl Row {
    pub fn new(key: OwnedRowKey) -> Self {
        Self { key, sizes: <[Sizes; 2]>::default(), statements: Vec::new(), other: None }
    }

    pub fn add_sizes(&mut self, alike: &Alike) {
        if alike.times > 0 {
            for (sizes, SideTotals { amounts, .. }) in self.sizes.iter_mut().zip(&alike.sides) {
                sizes.wire.record(amounts.total(), alike.times);
                sizes.payload.record(amounts.payload(), alike.times);
            }
        }
    }

    /// Adds the sizes that another row has received.
    pub fn merge_sizes(&mut self, other: &Self) {
        for (mine, theirs) in self.sizes.iter_mut().zip(&other.sizes) {
            mine.wire.merge(&theirs.wire);
            mine.payload.merge(&theirs.payload);
        }
    }

    /// Returns the row of the record with its own statements and, on request, its latency distribution.
    pub fn to_record(&self, statements: &[&Statement], distributions: bool) -> OperationRow {
        let mut whole = self.clone();
        for statement in statements {
            whole.add_sizes(statement.alike());
        }
        let sums = Statement::sums_of(statements.iter().copied(), self.key.class);
        // An answered or acknowledged message touches a frame.
        let [request, response] = &sums.sides;
        let unseen = sums.unanswered > 0 && *response == SideTotals::default();
        let samples = sums.count + sums.unsolicited;
        let [of_request, of_response] = &whole.sizes;
        OperationRow {
            protocol: self.key.protocol.name().to_owned(),
            class: self.key.class,
            name: self.key.name.to_string(),
            via: self.key.via.to_owned(),
            count: sums.count,
            errors: sums.errors,
            unanswered: sums.unanswered,
            no_reply: sums.no_reply,
            unsolicited: sums.unsolicited,
            round_trips: Measured::Value(sums.round_trips),
            request: of_request.to_record(request, samples),
            response: SideRow {
                unseen: unseen.then(|| "no frame of the server was captured".to_owned()),
                ..of_response.to_record(response, samples)
            },
            latency_ns: sums.latency_of_record(),
            sampled: None,
            latency_within: (distributions && sums.latency.count() > 0).then(|| within(&sums.latency)),
            statements: self.statements_of(statements),
            fields: None,
            kernel: None,
        }
    }

    /// Returns the record's statements: the largest and a sum of the rest, or nothing if no operation has one.
    fn statements_of(&self, statements: &[&Statement]) -> Vec<StatementRow> {
        if statements.iter().all(|statement| statement.text.is_empty()) {
            return Vec::new();
        }
        let (mut own, mut beyond): (Vec<_>, Vec<_>) =
            statements.iter().copied().partition(|statement| *statement.text != *OTHER);
        own.sort_unstable_by(|one, two| (Reverse(one.bytes()), &one.text).cmp(&(Reverse(two.bytes()), &two.text)));
        beyond.extend(own.split_off(STATEMENTS_SHOWN.min(own.len())));
        let class = self.key.class;
        let record = |text: &str, statements: &[&Statement]| StatementRow {
            text: if text.is_empty() { NONE } else { text }.to_owned(),
            totals: Statement::sums_of(statements.iter().copied(), class).to_record(),
            ..StatementRow::default()
        };
        let mut rows: Vec<_> = own.iter().map(|statement| record(&statement.text, &[*statement])).collect();
        rows.extend((!beyond.is_empty()).then(|| record(OTHER, &beyond)));
        rows
    }
}

/// Placeholder for operations without a statement in a row that has statements.
const NONE: &str = "(none)";

impl Sizes {
    fn to_record(&self, totals: &SideTotals, count: u64) -> SideRow {
        let SideTotals { frames, amounts } = *totals;
        SideRow {
            frames,
            wire_bytes: distribution(&self.wire, amounts.total(), count),
            payload_bytes: distribution(&self.payload, amounts.payload(), count),
            accounts: amounts,
            unseen: None,
        }
    }
}

fn distribution(values: &Values, total: u64, count: u64) -> Distribution {
    let mean = if count == 0 { 0.0 } else { total as f64 / count as f64 };
    let [p50, p90, p99, p999] = values.quantiles([5_000, 9_000, 9_900, 9_990]);
    Distribution { total, mean, min: values.min(), p50, p90, p99, p999, max: values.max() }
}
