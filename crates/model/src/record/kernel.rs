//! The kernel's work by operation, sampled.

use super::Measured;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The kernel's work for the operations of a row, at both ends. It is sampled: see [`OperationWork::sampled`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperationKernel {
    /// Work of the server's processes.
    pub server: Measured<OperationWork>,
    /// Work of the client's processes.
    pub client: Measured<OperationWork>,
}

/// System calls and CPU time per operation, of the processes of one end. A thread's work is charged to the socket that
/// it touched last, and so to the operations whose bytes it read or wrote there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperationWork {
    /// Operations in the sampled windows, over which the values are means; at least 100.
    pub sampled: u64,
    /// Operations of the row or the statement.
    pub of: u64,
    /// CPU time; unavailable, with the reason, if the sampled time does not fit the counted time.
    pub time: Measured<OperationTime>,
    /// System calls of the operation itself, by name, per operation.
    pub syscalls: BTreeMap<String, f64>,
    /// System calls of the event loop per operation, by name: those that wait for sockets, and those before a round of the
    /// loop reads its first socket. The calls of a round are divided equally between the operations read in it; those of
    /// rounds without operations, between all operations of the thread.
    pub shared_syscalls: BTreeMap<String, f64>,
    /// Share of the operation's own time, from 0 to 1, that was divided equally between operations of several kinds,
    /// because one call read or wrote bytes of all of them (pipelining).
    pub divided: f64,
}

/// CPU time per operation, in nanoseconds, as the scheduler counts it. The time that sampling adds to each system call
/// is subtracted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperationTime {
    /// Time of the operation itself.
    pub on_cpu_ns: f64,
    /// Part of that time spent in system calls.
    pub in_calls_ns: f64,
    /// Share of the event loop's time, divided like its system calls.
    pub shared_ns: f64,
}

impl OperationTime {
    /// Returns the total, including the loop's share.
    pub fn total_ns(&self) -> f64 {
        self.on_cpu_ns + self.shared_ns
    }
}

impl OperationWork {
    /// Returns all system calls per operation, including the loop's share.
    pub fn calls(&self) -> f64 {
        self.syscalls.values().chain(self.shared_syscalls.values()).sum()
    }
}

/// How the work by operation was sampled, and its totals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkSample {
    /// Windows of time in which work was sampled.
    pub windows: u64,
    /// Their total length.
    pub window_ns: u64,
    /// Slices of threads' work that started in them: from one touch of a socket to the next.
    pub slices: u64,
    /// Slices lost because their buffer was full.
    pub dropped: u64,
    /// Sampled work of the server's processes.
    pub server: Measured<SampledRole>,
    /// Sampled work of the client's processes.
    pub client: Measured<SampledRole>,
}

/// The sampled work of one role, compared with the counted work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SampledRole {
    /// Operations sampled.
    pub operations: u64,
    /// CPU time in the slices, in nanoseconds, each weighted by 10 ms over the length of its window.
    pub on_cpu_ns: SampledSums,
    /// System calls in the slices, with the same weights.
    pub syscalls: SampledSums,
    /// Nanoseconds that sampling added to each system call, from 0 to 500: estimated from the excess of the
    /// sampled time over the counted time of the whole run, and subtracted from the sampled time.
    pub added_ns: Measured<f64>,
    /// Factor applied to the sampled time after that, so that it does not exceed the counted time (a ratio estimator,
    /// from 0.9 to 1). System calls are not scaled.
    pub scale: Measured<f64>,
    /// Share of the sampled calls that moved bytes of unknown operations, from 0 to 1. Above 0.03, the work by
    /// operation is unavailable.
    pub unknown: f64,
    /// CPU time of the whole run minus the time per operation times the operations; negative if that product is
    /// larger.
    pub rest_ns: Measured<i64>,
    /// System calls of the whole run minus those of all operations, in the same way.
    pub rest_syscalls: Measured<i64>,
}

/// What a sampled quantity was charged to. The three parts are all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SampledSums {
    /// Operations.
    pub operations: u64,
    /// The event loop, shared between the operations of its rounds.
    pub shared: u64,
    /// Nothing: other sockets, or bytes without a known operation in the window.
    pub unattributed: u64,
}
