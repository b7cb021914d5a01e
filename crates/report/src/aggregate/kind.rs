//! Snapshots of operation totals; the difference of two snapshots covers the time between them.

use super::distribution::Values;
use overhead_model::{Class, Protocol, SideTotals};

/// Key that separates operations.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KindKey {
    pub class: Class,
    pub protocol: Protocol,
    /// Name and way of sending, statement, or ends; raw wire text that needs [`crate::text::clean`].
    pub label: String,
}

/// The operations of one kind so far.
#[derive(Clone, Debug, Default)]
pub struct KindSums {
    /// Operations, except those without a request.
    pub count: u64,
    pub errors: u64,
    pub frames: u64,
    pub request_bytes: u64,
    pub response_bytes: u64,
    latency: Values,
}

/// Operations of one kind and their totals.
pub type OperationKind = (KindKey, KindSums);

impl KindSums {
    pub(super) fn of(count: u64, errors: u64, sides: &[SideTotals; 2], latency: &Values) -> Self {
        let [request, response] = sides;
        Self {
            count,
            errors,
            frames: request.frames + response.frames,
            request_bytes: request.amounts.total(),
            response_bytes: response.amounts.total(),
            latency: latency.clone(),
        }
    }

    /// Adds the totals of another kind.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.errors += other.errors;
        self.frames += other.frames;
        self.request_bytes += other.request_bytes;
        self.response_bytes += other.response_bytes;
        self.latency.merge(&other.latency);
    }

    pub fn bytes(&self) -> u64 {
        self.request_bytes + self.response_bytes
    }

    /// Returns the median and 99th percentile latency in nanoseconds (nearest rank), or `None` without latencies.
    pub fn latency_ns(&self) -> Option<[u64; 2]> {
        (self.latency.count() > 0).then(|| self.latency.quantiles([5_000, 9_900]))
    }

    /// Returns the additions since an earlier snapshot. If totals have shrunk, the kind was folded into another and restarted,
    /// so all of it is new.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        if self.count < earlier.count || self.bytes() < earlier.bytes() {
            return self.clone();
        }
        Self {
            count: self.count - earlier.count,
            errors: self.errors.saturating_sub(earlier.errors),
            frames: self.frames.saturating_sub(earlier.frames),
            request_bytes: self.request_bytes.saturating_sub(earlier.request_bytes),
            response_bytes: self.response_bytes.saturating_sub(earlier.response_bytes),
            latency: self.latency.since(&earlier.latency),
        }
    }
}
