//! The cost of watching a command, measured by running it with and without.

use super::Measured;
use crate::spread::Spread;
use serde::{Deserialize, Serialize};

/// The cost of capturing: the command ran in turns with and without the capture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchingCost {
    /// Pairs of runs.
    pub rounds: u64,
    /// Throughput under the capture as a share of that without, pair by pair; above 1 where the watched run was quicker.
    /// Absent where the command did not do the same work each time.
    pub throughput_share: Measured<Spread>,
    /// CPU nanoseconds of a workload operation that are there for the capture alone: those of command, server and this tool
    /// under it, less those of command and server without it. Includes what the tool takes to start and to make the record.
    pub cpu_ns_per_operation: Measured<Spread>,
    /// CPU nanoseconds of a workload operation without the capture: command and server.
    pub unwatched_cpu_ns_per_operation: Measured<Spread>,
}
