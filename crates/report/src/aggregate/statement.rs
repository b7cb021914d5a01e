//! Additive totals, kept only per statement, so that a row is the sum of its statements.

use super::row::Row;
use super::row_sums::RowSums;
use overhead_model::{Amounts, Class, Operation, Outcome, RowId, Side, SideTotals};

/// The sums over a row's operations with one statement, or with none.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    /// Empty if they have none.
    pub text: Box<str>,
    pub row: u32,
    pub id: RowId,
    sums: RowSums,
    /// The latest operations, not yet in the sums.
    alike: Alike,
}

/// A number of operations with equal outcome and totals: benchmarks repeat themselves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alike {
    pub sides: [SideTotals; 2],
    pub outcome: Outcome,
    pub times: u64,
    /// Their sum.
    round_trips: u64,
}

impl Alike {
    const NONE: Self = Self {
        sides: [SideTotals { frames: 0, amounts: Amounts::ZERO }; 2],
        outcome: Outcome::Ok,
        times: 0,
        round_trips: 0,
    };

    fn add_to(&self, sums: &mut RowSums, class: Class) {
        sums.add(class, &self.sides, self.outcome, self.times);
        sums.round_trips += self.round_trips;
    }
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
        Self { text: text.into(), row, id, sums: RowSums::default(), alike: Alike::NONE }
    }

    /// Adds latencies separately from their operations.
    #[inline]
    pub fn add_latency(&mut self, latency_ns: u64, times: u64) {
        self.sums.latency.record(latency_ns, times);
    }

    /// Adds closed operations of its row with equal results, without their latencies.
    #[inline]
    pub fn add_times(&mut self, operation: &Operation, times: u64, row: &mut Row) {
        if self.alike.outcome == operation.outcome && self.alike.sides == operation.sides {
            self.alike.times += times;
            self.alike.round_trips += u64::from(operation.round_trips) * times;
        } else {
            self.begin(operation, times, row);
        }
    }

    /// Starts a stretch of operations that differ from those before.
    fn begin(&mut self, operation: &Operation, times: u64, row: &mut Row) {
        self.alike.add_to(&mut self.sums, row.key.class);
        row.add_sizes(&self.alike);
        let round_trips = u64::from(operation.round_trips) * times;
        self.alike = Alike { sides: operation.sides, outcome: operation.outcome, times, round_trips };
    }

    /// Adds bytes of operations that closed earlier.
    pub fn add_late(&mut self, side: Side, totals: &SideTotals) {
        self.sums.add_late(side, totals);
    }

    /// Adds the sums of another statement, and its pending operations to its `row`.
    pub fn merge(&mut self, other: &Self, row: &mut Row) {
        self.sums.merge(&other.sums);
        other.alike.add_to(&mut self.sums, row.key.class);
        row.add_sizes(&other.alike);
    }

    /// Returns the sums over statements whose operations are of `class`.
    pub fn sums_of<'a>(statements: impl IntoIterator<Item = &'a Self>, class: Class) -> RowSums {
        let mut sums = RowSums::default();
        for statement in statements {
            sums.merge(&statement.sums);
            statement.alike.add_to(&mut sums, class);
        }
        sums
    }

    /// Returns the latest operations, which its row has not yet received.
    pub fn alike(&self) -> &Alike {
        &self.alike
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

    /// Returns whether the statement was ever used. Unused statements are not in the record.
    pub fn holds_something(&self) -> bool {
        self.alike.times > 0 || self.sums.count > 0 || self.sums.sides.iter().any(|side| *side != SideTotals::default())
    }
}
