//! Estimates for the whole time of a run that captured only windows of it.

use super::Measured;
use crate::account::Account;
use crate::operation::Side;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The windows of a run that captured part of the time (`--sample`). All other values of the record cover only these
/// windows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Length of a window in nanoseconds.
    pub window_ns: u64,
    /// Length of a period in nanoseconds. Each has one window, at a random place.
    pub period_ns: u64,
    /// The seed of these places: the same seed gives the same places.
    pub seed: u64,
    /// Start of the first period, Unix nanoseconds.
    pub start_ns: u64,
    /// Windows, including those without frames and those cut by the end.
    pub windows: u64,
    /// Time from the start of the first period to the end, in nanoseconds.
    pub span_ns: u64,
    /// Time within windows, in nanoseconds.
    pub covered_ns: u64,
    /// `covered_ns` over `span_ns`.
    pub covered_share: f64,
    /// Operations cut by the end of a window. They count as unanswered, and no mean of `sampled` includes them.
    pub cut_operations: u64,
    /// Frames per second over the whole span.
    pub frames_per_second: Measured<Estimate>,
    /// Bytes on the wire per second over the whole span.
    pub wire_bytes_per_second: Measured<Estimate>,
    /// Frames in the whole span.
    #[serde(default = "Measured::<Estimate>::not_recorded")]
    pub frames: Measured<Estimate>,
    /// Bytes on the wire in the whole span.
    #[serde(default = "Measured::<Estimate>::not_recorded")]
    pub wire_bytes: Measured<Estimate>,
}

/// An estimate for the whole from a sample, with its error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// The estimate: a ratio of sums over windows.
    pub value: f64,
    /// Its standard error. Windows are treated as clusters, because operations in a window are not independent.
    pub standard_error: f64,
    /// Lower end of the 95% confidence interval, by Student's t; not below 0.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Estimate {
    /// Returns the estimate of `by` times the quantity.
    #[must_use]
    pub fn scaled(self, by: f64) -> Self {
        let Self { value, standard_error, low, high } = self;
        Self { value: value * by, standard_error: standard_error * by, low: low * by, high: high * by }
    }
}

/// Estimates for the operations of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RowEstimates {
    /// Windows with operations of the row.
    pub windows: u64,
    /// Operations in the whole span, estimated from those whose request started within a window.
    #[serde(default = "Measured::<Estimate>::not_recorded")]
    pub count: Measured<Estimate>,
    /// Operations per second over the whole span.
    pub per_second: Measured<Estimate>,
    /// Mean bytes on the wire of a request.
    pub request_wire_bytes: Measured<Estimate>,
    /// Mean bytes on the wire of a response.
    pub response_wire_bytes: Measured<Estimate>,
    /// Mean latency in nanoseconds.
    pub latency_ns: Measured<Estimate>,
    /// Share of operations answered by an error.
    pub error_share: Measured<Estimate>,
    /// Mean bytes by direction and account; accounts without bytes are omitted.
    #[serde(default)]
    pub accounts: Vec<AccountEstimate>,
}

/// Mean bytes of an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AccountEstimate {
    /// Direction.
    pub side: Side,
    /// The account.
    pub account: Account,
    /// Bytes per operation.
    pub bytes: Measured<Estimate>,
}
