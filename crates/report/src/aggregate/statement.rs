//! Additive figures, kept only per statement, so that a row is the sum of its statements.

use super::distribution::Values;
use super::kind::KindSums;
use super::row::Row;
use overhead_model::record::{Latency, StatementRow, StatementSide};
use overhead_model::{Amounts, Class, Measured, Operation, Outcome, RowId, Side, SideTotals};

/// The sums over a row's operations with one statement, or with none.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    /// Empty if they have none.
    pub text: Box<str>,
    pub row: u32,
    pub id: RowId,
    sums: Sums,
    latency: Values,
    /// The latest operations, not yet in the sums.
    alike: Alike,
}

/// Totals of operations, without their latencies.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    pub count: u64,
    pub errors: u64,
    pub unanswered: u64,
    pub no_reply: u64,
    pub unsolicited: u64,
    pub sides: [SideTotals; 2],
}

/// A number of operations with equal outcome and totals: benchmarks repeat themselves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alike {
    pub sides: [SideTotals; 2],
    pub outcome: Outcome,
    pub times: u64,
}

impl Alike {
    const NONE: Self =
        Self { sides: [SideTotals { frames: 0, amounts: Amounts::ZERO }; 2], outcome: Outcome::Ok, times: 0 };
}

/// The row of an unused place.
const NO_ROW: u32 = u32::MAX;

impl Statement {
    /// Fills an unused place. No id leads to it.
    pub fn none() -> Self {
        Self::new("", NO_ROW, RowId(u64::MAX))
    }

    pub fn is_in_use(&self) -> bool {
        self.row != NO_ROW
    }

    pub fn new(text: &str, row: u32, id: RowId) -> Self {
        Self { text: text.into(), row, id, sums: Sums::default(), latency: Values::default(), alike: Alike::NONE }
    }

    /// Adds latencies separately from their operations.
    #[inline]
    pub fn add_latency(&mut self, latency_ns: u64, times: u64) {
        self.latency.record(latency_ns, times);
    }

    /// Adds closed operations of its row with equal results, without their latencies.
    #[inline]
    pub fn add_times(&mut self, operation: &Operation, times: u64, row: &mut Row) {
        if self.alike.outcome == operation.outcome && self.alike.sides == operation.sides {
            self.alike.times += times;
        } else {
            self.begin(operation, times, row);
        }
    }

    /// Starts a stretch of operations that differ from those before.
    fn begin(&mut self, operation: &Operation, times: u64, row: &mut Row) {
        self.sums.add(&self.alike, row.key.class);
        row.add_sizes(&self.alike);
        self.alike = Alike { sides: operation.sides, outcome: operation.outcome, times };
    }

    /// Adds bytes of operations that closed earlier.
    pub fn add_late(&mut self, side: Side, totals: &SideTotals) {
        add_side(&mut self.sums.sides[side as usize], totals, 1);
    }

    /// Adds the sums of another statement, and its pending operations to its `row`.
    pub fn merge(&mut self, other: &Self, row: &mut Row) {
        self.sums.merge(&other.sums);
        self.sums.add(&other.alike, row.key.class);
        row.add_sizes(&other.alike);
        self.latency.merge(&other.latency);
    }

    /// Returns all sums over operations of `class`.
    pub fn sums(&self, class: Class) -> Sums {
        let mut sums = self.sums.clone();
        sums.add(&self.alike, class);
        sums
    }

    /// Returns the totals of operations of `class` so far.
    pub fn kind_sums(&self, class: Class) -> KindSums {
        let sums = self.sums(class);
        KindSums::of(sums.count, sums.errors, &sums.sides, &self.latency)
    }

    /// Returns the latest operations, which its row has not yet received.
    pub fn alike(&self) -> &Alike {
        &self.alike
    }

    pub fn latency(&self) -> &Values {
        &self.latency
    }

    /// Returns the number of operations, except those without a request.
    pub fn count(&self) -> u64 {
        let Alike { outcome, times, .. } = self.alike;
        self.sums.count + if outcome == Outcome::Unsolicited { 0 } else { times }
    }

    pub fn amounts(&self, side: Side) -> Amounts {
        let mut amounts = self.sums.sides[side as usize].amounts;
        amounts.add_times(&self.alike.sides[side as usize].amounts, self.alike.times);
        amounts
    }

    pub fn bytes(&self) -> u64 {
        Side::BOTH.map(|side| self.amounts(side).total()).iter().sum()
    }

    /// Returns whether the statement was ever used; which statements stay unused can depend on the split into threads.
    pub fn holds_something(&self) -> bool {
        self.alike.times > 0 || self.sums.count > 0 || self.sums.sides.iter().any(|side| *side != SideTotals::default())
    }
}

impl Sums {
    fn add(&mut self, alike: &Alike, class: Class) {
        let Alike { ref sides, outcome, times } = *alike;
        if times == 0 {
            return;
        }
        let of = |counts: bool| if counts { times } else { 0 };
        let unsolicited = outcome == Outcome::Unsolicited;
        self.unsolicited += of(unsolicited);
        self.count += of(!unsolicited);
        self.errors += of(outcome == Outcome::Error);
        // A stretch of class `unmatched` is no request.
        if class != Class::Unmatched {
            self.no_reply += of(outcome == Outcome::NoReply);
            self.unanswered += of(outcome == Outcome::Unanswered);
        }
        for (sums, totals) in self.sides.iter_mut().zip(sides) {
            add_side(sums, totals, times);
        }
    }

    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.errors += other.errors;
        self.unanswered += other.unanswered;
        self.no_reply += other.no_reply;
        self.unsolicited += other.unsolicited;
        for (mine, theirs) in self.sides.iter_mut().zip(&other.sides) {
            add_side(mine, theirs, 1);
        }
    }

    /// Converts the sums to a statement of the record.
    pub fn to_record(&self, text: &str, latency: &Values) -> StatementRow {
        let [request, response] = self.sides.each_ref().map(|side| StatementSide {
            frames: side.frames,
            wire_bytes: side.amounts.total(),
            payload_bytes: side.amounts.payload(),
            accounts: side.amounts,
        });
        let &Self { count, errors, unanswered, no_reply, unsolicited, .. } = self;
        let (text, latency_ns) = (text.to_owned(), latency_of(latency));
        StatementRow {
            text,
            count,
            errors,
            unanswered,
            no_reply,
            unsolicited,
            request,
            response,
            latency_ns: Measured::Value(latency_ns),
            fields: None,
            kernel: None,
        }
    }
}

fn add_side(sums: &mut SideTotals, totals: &SideTotals, times: u64) {
    sums.frames += totals.frames * times;
    sums.amounts.add_times(&totals.amounts, times);
}

/// Converts latencies to their form in the record.
pub(super) fn latency_of(values: &Values) -> Latency {
    let [p50, p90, p99, p999, p9999] = values.quantiles([5_000, 9_000, 9_900, 9_990, 9_999]);
    let (count, mean) = (values.count(), values.mean());
    Latency { count, mean, min: values.min(), p50, p90, p99, p999, p9999, max: values.max() }
}
