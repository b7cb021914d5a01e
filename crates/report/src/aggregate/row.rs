//! One row of the aggregate.

use super::distribution::Values;
use super::rows::OTHER;
use overhead_model::record::{Distribution, Latency, OperationRow, SideRow};
use overhead_model::{Amounts, Class, Operation, Outcome, Protocol, RowId, RowKey, Side, SideTotals};

/// The sums over the operations of a kind.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub key: OwnedRowKey,
    /// Where it is found by number.
    pub id: RowId,
    sums: RowSums,
    latency: Values,
    /// The last operations, which are not in the sums yet.
    alike: Alike,
}

/// An owned [`RowKey`], in the order in which rows are kept when there are too many.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OwnedRowKey {
    pub class: Class,
    pub protocol: Protocol,
    pub name: Box<str>,
    pub via: &'static str,
}

/// What operations came to, but for their latencies.
#[derive(Clone, Debug, Default)]
struct RowSums {
    count: u64,
    errors: u64,
    unanswered: u64,
    no_reply: u64,
    unsolicited: u64,
    sides: [SideSums; 2],
}

#[derive(Clone, Debug, Default)]
struct SideSums {
    frames: u64,
    amounts: Amounts,
    wire: Values,
    payload: Values,
}

/// So many operations that ended alike and came to the same: a benchmark does the same again and again.
#[derive(Clone, Debug)]
struct Alike {
    sides: [SideTotals; 2],
    outcome: Outcome,
    times: u64,
}

impl OwnedRowKey {
    pub fn of(key: RowKey<'_>) -> Self {
        Self { class: key.class, protocol: key.protocol, name: key.name.into(), via: key.via }
    }

    #[inline]
    pub fn borrowed(&self) -> RowKey<'_> {
        RowKey { protocol: self.protocol, class: self.class, name: &self.name, via: self.via }
    }

    /// Returns whether it is this one.
    #[inline]
    pub fn is(&self, key: RowKey<'_>) -> bool {
        // A way of sending is nearly always the same text in the same place.
        let is_via = std::ptr::eq(self.via, key.via) || self.via == key.via;
        is_via && self.protocol == key.protocol && self.class == key.class && *self.name == *key.name
    }

    pub fn is_shared(key: RowKey<'_>) -> bool {
        key.name == OTHER && key.via.is_empty()
    }
}

impl Row {
    pub fn new(key: OwnedRowKey, id: RowId) -> Self {
        let alike = Alike { sides: [SideTotals::default(); 2], outcome: Outcome::Ok, times: 0 };
        Self { key, id, sums: RowSums::default(), latency: Values::default(), alike }
    }

    /// Takes in a closed operation.
    #[inline]
    pub fn add(&mut self, operation: &Operation) {
        if let Some(latency_ns) = operation.latency_ns {
            self.add_latency(latency_ns, 1);
        }
        self.add_times(operation, 1);
    }

    /// Takes in latencies apart from their operations.
    #[inline]
    pub fn add_latency(&mut self, latency_ns: u64, times: u64) {
        self.latency.record(latency_ns, times);
    }

    /// Takes in closed operations that came to the same, their latencies left out.
    #[inline]
    pub fn add_times(&mut self, operation: &Operation, times: u64) {
        if self.alike.outcome == operation.outcome && self.alike.sides == operation.sides {
            self.alike.times += times;
        } else {
            self.begin(operation, times);
        }
    }

    /// An operation that is not like the one before.
    fn begin(&mut self, operation: &Operation, times: u64) {
        self.sums.add(&self.alike, self.key.class);
        self.alike = Alike { sides: operation.sides, outcome: operation.outcome, times };
    }

    /// Takes in bytes of operations that have closed before.
    pub fn add_late(&mut self, side: Side, totals: &SideTotals) {
        self.sums.sides[side as usize].add(totals, 1);
    }

    pub fn merge(&mut self, other: &Self) {
        self.sums.merge(&other.sums);
        self.sums.add(&other.alike, other.key.class);
        self.latency.merge(&other.latency);
    }

    /// Operations, those without a request left out.
    pub fn count(&self) -> u64 {
        let Alike { outcome, times, .. } = self.alike;
        self.sums.count + if outcome == Outcome::Unsolicited { 0 } else { times }
    }

    /// Returns all bytes of one direction.
    pub fn amounts(&self, side: Side) -> Amounts {
        let mut amounts = self.sums.sides[side as usize].amounts;
        amounts.add_times(&self.alike.sides[side as usize].amounts, self.alike.times);
        amounts
    }

    /// False for a row that was asked for and never used: which ones these are may depend on the split into threads.
    pub fn holds_something(&self) -> bool {
        let used = |side: &SideSums| side.frames > 0 || side.amounts != Amounts::ZERO;
        self.alike.times > 0 || self.sums.count > 0 || self.sums.sides.iter().any(used)
    }

    pub fn to_record(&self) -> OperationRow {
        let mut sums = self.sums.clone();
        sums.add(&self.alike, self.key.class);
        let [request, response] = &sums.sides;
        // What was answered, or acknowledged, touches a frame.
        let missing = sums.unanswered.saturating_sub(sums.no_reply);
        let unseen = missing > 0 && response.frames == 0 && response.amounts == Amounts::ZERO;
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
            request: request.to_record(sums.count + sums.unsolicited),
            response: SideRow {
                unseen: unseen.then(|| "no frame of the server was captured".to_owned()),
                ..response.to_record(sums.count + sums.unsolicited)
            },
            latency_ns: latency(&self.latency),
            fields: None,
        }
    }
}

impl RowSums {
    /// Takes in operations of `class`.
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
            let silent = outcome == Outcome::NoReply;
            self.no_reply += of(silent);
            self.unanswered += of(silent || outcome == Outcome::Unanswered);
        }
        for (sums, totals) in self.sides.iter_mut().zip(sides) {
            sums.add(totals, times);
            sums.wire.record(totals.amounts.total(), times);
            sums.payload.record(totals.amounts.payload(), times);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.errors += other.errors;
        self.unanswered += other.unanswered;
        self.no_reply += other.no_reply;
        self.unsolicited += other.unsolicited;
        for (mine, theirs) in self.sides.iter_mut().zip(&other.sides) {
            mine.frames += theirs.frames;
            mine.amounts += theirs.amounts;
            mine.wire.merge(&theirs.wire);
            mine.payload.merge(&theirs.payload);
        }
    }
}

impl SideSums {
    fn add(&mut self, totals: &SideTotals, times: u64) {
        self.frames += totals.frames * times;
        self.amounts.add_times(&totals.amounts, times);
    }

    fn to_record(&self, count: u64) -> SideRow {
        SideRow {
            frames: self.frames,
            wire_bytes: distribution(&self.wire, self.amounts.total(), count),
            payload_bytes: distribution(&self.payload, self.amounts.payload(), count),
            accounts: self.amounts,
            unseen: None,
        }
    }
}

fn distribution(values: &Values, total: u64, count: u64) -> Distribution {
    let mean = if count == 0 { 0.0 } else { total as f64 / count as f64 };
    let [p50, p90, p99, p999] = values.quantiles([5_000, 9_000, 9_900, 9_990]);
    Distribution { total, mean, min: values.min(), p50, p90, p99, p999, max: values.max() }
}

fn latency(values: &Values) -> Latency {
    let [p50, p90, p99, p999, p9999] = values.quantiles([5_000, 9_000, 9_900, 9_990, 9_999]);
    let (count, mean) = (values.count(), values.mean());
    Latency { count, mean, min: values.min(), p50, p90, p99, p999, p9999, max: values.max() }
}
