//! The kernel's counters for the processes of both roles.

use super::{Container, Measured, WorkSample};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Kernel counters over the run's window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counters {
    /// Length of the window.
    pub window_ns: u64,
    /// The server's processes.
    pub server: Measured<Role>,
    /// The client's processes.
    pub client: Measured<Role>,
    /// `NET_RX`/`NET_TX` softirq time and count over the whole machine, where it was asked for.
    pub softirq: Measured<Softirq>,
    /// Where the captured connections are of several protocols: the counters of each. Empty otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protocols: Vec<ProtocolCounters>,
    /// How the work by operation was sampled.
    #[serde(default = "not_sampled")]
    pub by_operation: Measured<WorkSample>,
}

/// Of records from before there was any.
fn not_sampled() -> Measured<WorkSample> {
    Measured::unavailable("not recorded")
}

/// Counters of the processes of one role.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Role {
    /// Processes that were followed, in order of appearance.
    pub pids: Vec<u32>,
    /// Their command names, without repeats.
    pub comms: Vec<String>,
    /// The containers that these processes are in; empty where they are in none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<Container>,
    /// By system call name.
    pub syscalls: BTreeMap<String, Syscall>,
    /// CPU cycles.
    pub cycles: Measured<Cycles>,
    /// Time on a CPU.
    pub on_cpu_ns: Measured<OnCpu>,
    /// Times a thread left a CPU.
    pub context_switches: Measured<ContextSwitches>,
    /// Moves between CPUs.
    pub migrations: Measured<u64>,
    /// Times a thread was woken.
    pub wakeups: Measured<u64>,
    /// Socket layer, TCP only.
    pub socket: Measured<Socket>,
    /// Segments retransmitted by the kernel.
    pub retransmissions: Measured<u64>,
    /// Share of the bytes at the socket layer that the capture saw: payload of the role's captured connections, each byte
    /// once, over bytes sent and received. 1 in a clean run; less where frames were dropped, or where the processes also
    /// served connections that were not captured.
    #[serde(default = "not_compared")]
    pub coverage: Measured<f64>,
    /// Share of the captured payload that is of these processes' connections. 1 in a clean run; less where other connections
    /// of the run are of another host's processes, or of ones that were not followed.
    #[serde(default = "not_compared")]
    pub captured_share: Measured<f64>,
    /// Why these counters are not to be divided by the run's operations; absent where they may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
}

/// Of records from before there was a coverage.
fn not_compared() -> Measured<f64> {
    Measured::unavailable("not recorded")
}

/// Counters of the processes that one protocol's connections belong to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProtocolCounters {
    /// Protocol name, as that of an operation.
    pub protocol: String,
    /// Its servers' processes.
    pub server: Measured<Role>,
    /// Its clients' processes.
    pub client: Measured<Role>,
}

/// One system call of a [`Role`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Syscall {
    /// Calls that returned in the window, or that never return (`exit`).
    pub count: u64,
    /// Of these, those that returned an error.
    pub errors: u64,
    /// CPU time inside, waiting excluded, estimated from the sampled calls.
    pub ns: Measured<u64>,
}

/// CPU cycles and the unit they are in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cycles {
    /// In user mode.
    pub user: u64,
    /// In the kernel.
    pub kernel: u64,
    /// Real cycles, or time in another unit.
    pub source: CycleSource,
    /// Why the source is not `hardware`, or what is to be said of the hardware's counter (it was shared, and is scaled); else `null`.
    pub reason: Option<String>,
    /// Ticks per nanosecond on the CPU; `null` for `hardware`.
    pub ticks_per_ns: Option<f64>,
}

/// Unit of [`Cycles`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CycleSource {
    /// The CPU's cycle counter.
    Hardware,
    /// Time-stamp-counter ticks while on a CPU: a unit of time, not information beyond it.
    Reference,
}

/// Time on a CPU. `user + kernel` is the scheduler's own account; the split between them may be sampled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OnCpu {
    /// In user mode.
    pub user: u64,
    /// In the kernel.
    pub kernel: u64,
    /// How the split was made: `{"method": "sampled", "samples": n}` or the like.
    pub split: Split,
}

/// How user and kernel time were told apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Split {
    /// `sampled` (clock at 1 in n system calls), `all` (clock at each), or `scheduler` (the kernel's own utime/stime).
    pub method: String,
    /// System calls timed, or clock ticks counted.
    pub samples: u64,
}

/// Times a thread left a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContextSwitches {
    /// Because it had to wait.
    pub voluntary: u64,
    /// Because another was to run.
    pub involuntary: u64,
}

/// Calls and bytes at the socket layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Socket {
    /// Sends that took at least one byte.
    pub send_calls: u64,
    /// Bytes they took.
    pub send_bytes: u64,
    /// Receives that gave at least one byte.
    pub recv_calls: u64,
    /// Bytes they gave.
    pub recv_bytes: u64,
}

/// Network softirqs of the whole machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Softirq {
    /// `NET_RX` runs.
    pub rx_count: u64,
    /// Time in them.
    pub rx_ns: u64,
    /// `NET_TX` runs.
    pub tx_count: u64,
    /// Time in them.
    pub tx_ns: u64,
}
