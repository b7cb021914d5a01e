//! The cost of watching a command, measured by running it with and without the capture.

use super::Measured;
use crate::spread::Spread;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The cost of capturing. The command ran alternately with and without the capture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WatchingCost {
    /// Pairs of runs.
    pub rounds: u64,
    /// Throughput with the capture over throughput without it, for each pair of runs; above 1 if the captured run was
    /// faster. Unavailable if the command did not do the same work each time.
    pub throughput_share: Measured<Spread>,
    /// CPU nanoseconds per workload operation that the capture caused: those of command, server and this tool with it,
    /// minus those of command and server without it. Includes starting the tool and making the record.
    pub cpu_ns_per_operation: Measured<Spread>,
    /// CPU nanoseconds per workload operation without the capture: command and server.
    pub unwatched_cpu_ns_per_operation: Measured<Spread>,
}
