//! Totals of operations; the difference of two snapshots covers the time between them.

use super::distribution::Values;
use overhead_model::record::{Latency, RowTotals};
use overhead_model::{Class, Measured, Outcome, Protocol, Side, SideTotals, add_fields};

/// Key that separates operations.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KindKey {
    /// Class of the operations.
    pub class: Class,
    /// Protocol of their connections.
    pub protocol: Protocol,
    /// Name and way of sending, statement, or ends; raw wire text that needs [`crate::clean::clean`].
    pub label: String,
}

/// Operations of one kind and their totals.
pub type OperationKind = (KindKey, RowSums);

/// Totals of a row's operations, whatever the row is of: a name, a statement, a connection, a client or a server.
#[derive(Clone, Debug, Default)]
pub struct RowSums {
    /// Operations, except those without a request.
    pub count: u64,
    /// Operations answered by an error.
    pub errors: u64,
    /// Operations without a complete answer although one was due.
    pub unanswered: u64,
    /// Operations that needed no answer.
    pub no_reply: u64,
    /// Messages that the server sent unsolicited.
    pub unsolicited: u64,
    /// Times that a client waited for its server before it sent a part of them.
    pub round_trips: u64,
    /// By [`Side`].
    pub sides: [SideTotals; 2],
    pub(super) latency: Values,
}

impl RowSums {
    /// Adds operations of `class` with equal results, without their latencies.
    pub(super) fn add(&mut self, class: Class, sides: &[SideTotals; 2], outcome: Outcome, times: u64) {
        if times == 0 {
            return;
        }
        let of = |counts: bool| if counts { times } else { 0 };
        let unsolicited = outcome == Outcome::Unsolicited;
        self.unsolicited += of(unsolicited);
        self.count += of(!unsolicited);
        self.errors += of(outcome == Outcome::Error);
        // A stretch of class `unmatched` is not a request.
        if class != Class::Unmatched {
            self.no_reply += of(outcome == Outcome::NoReply);
            self.unanswered += of(outcome == Outcome::Unanswered);
        }
        for (sums, totals) in self.sides.iter_mut().zip(sides) {
            sums.add_times(totals, times);
        }
    }

    /// Adds bytes of operations that closed earlier.
    pub(super) fn add_late(&mut self, side: Side, totals: &SideTotals) {
        self.sides[side as usize].add_times(totals, 1);
    }

    /// Adds the totals of other operations.
    pub fn merge(&mut self, other: &Self) {
        add_fields!(self, other => count, errors, unanswered, no_reply, unsolicited, round_trips);
        for (mine, theirs) in self.sides.iter_mut().zip(&other.sides) {
            mine.add_times(theirs, 1);
        }
        self.latency.merge(&other.latency);
    }

    /// Returns the bytes on the wire in both directions.
    pub fn bytes(&self) -> u64 {
        self.sides.iter().map(|side| side.amounts.total()).sum()
    }

    /// Returns the median and 99th percentile latency in nanoseconds (nearest rank), or `None` without latencies.
    pub fn latency_ns(&self) -> Option<[u64; 2]> {
        (self.latency.count() > 0).then(|| self.latency.quantiles([5_000, 9_900]))
    }

    /// Returns the additions since an earlier snapshot. If totals have shrunk, the row was folded into another and restarted,
    /// so all of it is new.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        if self.count < earlier.count || self.bytes() < earlier.bytes() {
            return self.clone();
        }
        let mut sides = self.sides;
        for (side, before) in sides.iter_mut().zip(&earlier.sides) {
            side.frames = side.frames.saturating_sub(before.frames);
            side.amounts = side.amounts.since(&before.amounts);
        }
        Self {
            count: self.count - earlier.count,
            errors: self.errors.saturating_sub(earlier.errors),
            unanswered: self.unanswered.saturating_sub(earlier.unanswered),
            no_reply: self.no_reply.saturating_sub(earlier.no_reply),
            unsolicited: self.unsolicited.saturating_sub(earlier.unsolicited),
            round_trips: self.round_trips.saturating_sub(earlier.round_trips),
            sides,
            latency: self.latency.since(&earlier.latency),
        }
    }

    /// Converts the latencies to their form in the record.
    pub(super) fn latency_of_record(&self) -> Measured<Latency> {
        let values = &self.latency;
        let [p50, p90, p99, p999, p9999] = values.quantiles([5_000, 9_000, 9_900, 9_990, 9_999]);
        let (count, mean) = (values.count(), values.mean());
        Measured::Value(Latency { count, mean, min: values.min(), p50, p90, p99, p999, p9999, max: values.max() })
    }

    /// Converts the sums to their form in the record.
    pub(super) fn to_record(&self) -> RowTotals {
        let [request, response] = self.sides.map(Into::into);
        let &Self { count, errors, unanswered, no_reply, unsolicited, .. } = self;
        let latency_ns = self.latency_of_record();
        let round_trips = Measured::Value(self.round_trips);
        RowTotals { count, unsolicited, errors, unanswered, no_reply, round_trips, request, response, latency_ns }
    }
}
