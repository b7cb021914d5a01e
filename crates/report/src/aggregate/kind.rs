//! What operations have come to at a moment, for those who look again later: what lies between two looks is their difference.

use super::distribution::Values;
use overhead_model::{Class, Protocol, SideTotals};

/// What tells operations apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KindKey {
    /// What the operations are for.
    pub class: Class,
    /// Their protocol.
    pub protocol: Protocol,
    /// The name with how it was sent, the statement, or the ends; as it came from the wire, for [`crate::text::clean`].
    pub label: String,
}

/// The operations of one kind so far.
#[derive(Clone, Debug, Default)]
pub struct KindSums {
    /// Operations, those without a request left out.
    pub count: u64,
    /// Those that were answered with an error.
    pub errors: u64,
    /// Frames of both directions.
    pub frames: u64,
    /// Bytes on the wire of requests.
    pub request_bytes: u64,
    /// Bytes on the wire of responses.
    pub response_bytes: u64,
    latency: Values,
}

/// Operations of one kind, and what they came to.
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

    /// Adds those of another kind.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.errors += other.errors;
        self.frames += other.frames;
        self.request_bytes += other.request_bytes;
        self.response_bytes += other.response_bytes;
        self.latency.merge(&other.latency);
    }

    /// Returns all bytes on the wire.
    pub fn bytes(&self) -> u64 {
        self.request_bytes + self.response_bytes
    }

    /// Returns the median and the 99th percentile of latencies in nanoseconds, nearest rank; `None` where there is no latency.
    pub fn latency_ns(&self) -> Option<[u64; 2]> {
        (self.latency.count() > 0).then(|| self.latency.quantiles([5_000, 9_900]))
    }

    /// Returns what was added since an earlier look. Where less is there than before, the kind was folded into another one and has
    /// begun anew: all of it is new then.
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
