//! The kernel's work by operation, sampled.

use super::Measured;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Work of the kernel for the operations of a row, at both ends. It is sampled: see [`OperationWork::sampled`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OperationKernel {
    /// Of the server's processes.
    pub server: Measured<OperationWork>,
    /// Of the client's processes.
    pub client: Measured<OperationWork>,
}

/// System calls and time on a CPU per operation, of the processes of one end. A thread's work is charged to the socket that it
/// touched last, and with it to the operations whose bytes it read or wrote there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OperationWork {
    /// Operations that the figures are from: those of the sampled windows; at least 100.
    pub sampled: u64,
    /// Operations of the row or the statement.
    pub of: u64,
    /// Time on a CPU; unavailable, with the reason, where the sampled time cannot be made to agree with what was counted.
    pub time: Measured<OperationTime>,
    /// System calls per operation by name, of its own.
    pub syscalls: BTreeMap<String, f64>,
    /// System calls of the loop itself per operation by name: waiting for sockets, and what follows until one is touched. The
    /// operations that are read in a round of the loop have equal shares of it; of a round without, all of the thread.
    pub shared_syscalls: BTreeMap<String, f64>,
    /// Part of its own time, from 0 to 1, that was divided equally between operations of several kinds, since one call read or
    /// wrote bytes of all of them (pipelining).
    pub divided: f64,
}

/// Time on a CPU per operation, in nanoseconds, as the scheduler accounts it. What sampling adds to each system call is subtracted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OperationTime {
    /// Of its own.
    pub on_cpu_ns: f64,
    /// Of that, in system calls.
    pub in_calls_ns: f64,
    /// Of the loop itself, likewise shared.
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

/// How the work by operation was sampled, and what it adds up to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkSample {
    /// Windows of time in which work was sampled.
    pub windows: u64,
    /// Their length, all together.
    pub window_ns: u64,
    /// Slices of threads' work that began in them: from one touch of a socket to the next.
    pub slices: u64,
    /// Slices that were lost because the buffer for them was full.
    pub dropped: u64,
    /// Of the server's processes.
    pub server: Measured<SampledRole>,
    /// Of the client's processes.
    pub client: Measured<SampledRole>,
}

/// The sampled work of one role, and how it compares with all that was counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledRole {
    /// Operations sampled.
    pub operations: u64,
    /// Time on a CPU in the slices, in nanoseconds, each weighted by 10 ms over the length of its window.
    pub on_cpu_ns: SampledSums,
    /// System calls in the slices, weighted likewise.
    pub syscalls: SampledSums,
    /// What sampling added to each system call, in nanoseconds, as the sampled time shows by how far it goes beyond what was counted over
    /// the whole run: subtracted from the figures. From 0 to 500.
    pub added_ns: Measured<f64>,
    /// What the sampled time was multiplied by then, so that it comes to no more than was counted (a ratio estimator, from 0.9 to
    /// 1). System calls are not scaled.
    pub scale: Measured<f64>,
    /// Part of the sampled calls that moved bytes whose operation is not known, from 0 to 1. There are no figures where it is
    /// more than 0.03.
    pub unknown: f64,
    /// Time on a CPU of the whole run that the figures per operation, times the operations, leave over; less than 0 where they
    /// come to more.
    pub rest_ns: Measured<i64>,
    /// System calls of the whole run that are left over in the same way.
    pub rest_syscalls: Measured<i64>,
}

/// What became of a sampled quantity. The three are all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledSums {
    /// Charged to operations.
    pub operations: u64,
    /// Of the loop itself, shared between the operations of its rounds.
    pub shared: u64,
    /// Charged to nothing: for other sockets, or bytes of no operation that was heard of in the window.
    pub unattributed: u64,
}
