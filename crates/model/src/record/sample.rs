//! Estimates for the whole time of a run that captured only windows of it.

use super::Measured;
use crate::account::Account;
use crate::operation::Side;
use serde::{Deserialize, Serialize};

/// The windows of a run that captured a part of the time (`--sample`). All other figures of the record are of what was
/// seen in them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sample {
    /// Length of a window in nanoseconds.
    pub window_ns: u64,
    /// Length of a period in nanoseconds. Each has one window, at a place chosen by chance.
    pub period_ns: u64,
    /// What the places were drawn from: the same seed gives the same places.
    pub seed: u64,
    /// When the first period began, Unix nanoseconds.
    pub start_ns: u64,
    /// Windows, those without frames and those that the end has cut included.
    pub windows: u64,
    /// From the beginning of the first period to the end, in nanoseconds.
    pub span_ns: u64,
    /// Of this, the time within windows.
    pub covered_ns: u64,
    /// `covered_ns` over `span_ns`.
    pub covered_share: f64,
    /// Operations that a window's end has cut: they count as unanswered, and are in no mean of `sampled`.
    pub cut_operations: u64,
    /// Frames in a second of the whole span.
    pub frames_per_second: Measured<Estimate>,
    /// Bytes on the wire in a second of the whole span.
    pub wire_bytes_per_second: Measured<Estimate>,
}

/// An estimate for the whole from a sample, with its error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Estimate {
    /// The estimate: a ratio of sums over windows.
    pub value: f64,
    /// Its standard error: windows are clusters, whose operations are not independent of one another.
    pub standard_error: f64,
    /// Lower end of the 95% confidence interval, by Student's t; not below 0.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Estimates for the operations of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RowEstimates {
    /// Windows that the row was seen in.
    pub windows: u64,
    /// Operations in a second of the whole span: those whose request began within a window.
    pub per_second: Measured<Estimate>,
    /// Mean bytes on the wire of a request.
    pub request_wire_bytes: Measured<Estimate>,
    /// Mean bytes on the wire of a response.
    pub response_wire_bytes: Measured<Estimate>,
    /// Mean latency in nanoseconds.
    pub latency_ns: Measured<Estimate>,
    /// Share of operations that were answered by an error.
    pub error_share: Measured<Estimate>,
    /// Mean bytes by direction and account, of those that have any.
    #[serde(default)]
    pub accounts: Vec<AccountEstimate>,
}

/// Mean bytes of an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AccountEstimate {
    /// Direction.
    pub side: Side,
    /// Where the bytes are posted.
    pub account: Account,
    /// Bytes of an operation.
    pub bytes: Measured<Estimate>,
}
