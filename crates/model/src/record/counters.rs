//! The kernel's counters for the processes of both roles.

use super::{Container, Measured, WorkSample};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Kernel counters over the run's window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Counters {
    /// Length of the window.
    pub window_ns: u64,
    /// The server's processes.
    pub server: Measured<Role>,
    /// The client's processes.
    pub client: Measured<Role>,
    /// `NET_RX`/`NET_TX` softirq time and count over the whole machine, on request.
    pub softirq: Measured<Softirq>,
    /// The counters of each protocol, if the captured connections have several; empty otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protocols: Vec<ProtocolCounters>,
    /// How the work by operation was sampled.
    #[serde(default = "Measured::<WorkSample>::not_recorded")]
    pub by_operation: Measured<WorkSample>,
}

/// Counters of the processes of one role.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Role {
    /// Followed processes, in order of appearance.
    pub pids: Vec<u32>,
    /// Their command names, without duplicates.
    pub comms: Vec<String>,
    /// The containers of these processes; empty without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<Container>,
    /// System calls by name.
    pub syscalls: BTreeMap<String, Syscall>,
    /// CPU cycles.
    pub cycles: Measured<Cycles>,
    /// CPU time.
    pub on_cpu_ns: Measured<OnCpu>,
    /// Threads that these processes had in the window; 0 in records from before they were counted.
    #[serde(default)]
    pub threads: u64,
    /// CPU time of the thread that used most; an upper bound if threads ended in the window.
    #[serde(default = "Measured::<u64>::not_recorded")]
    pub busiest_thread_ns: Measured<u64>,
    /// Times a thread left a CPU.
    pub context_switches: Measured<ContextSwitches>,
    /// Moves between CPUs.
    pub migrations: Measured<u64>,
    /// Times a thread was woken.
    pub wakeups: Measured<u64>,
    /// Calls and bytes at the socket layer, TCP only.
    pub socket: Measured<Socket>,
    /// Segments retransmitted by the kernel.
    pub retransmissions: Measured<u64>,
    /// Share of the bytes at the socket layer that the capture saw: payload of the role's captured connections, each
    /// byte once, over bytes sent and received. 1 in a clean run; less if frames were dropped, or if the processes also
    /// served connections that were not captured.
    #[serde(default = "Measured::<f64>::not_recorded")]
    pub coverage: Measured<f64>,
    /// Share of the captured payload that belongs to connections of these processes. 1 in a clean run; less if
    /// connections of the run belong to processes of another host, or to processes that were not followed.
    #[serde(default = "Measured::<f64>::not_recorded")]
    pub captured_share: Measured<f64>,
    /// Why these counters must not be divided by the run's operations; absent if they may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
    /// Clients only: the same from each process's first connect to the server on, without the start of its program. Whatever is
    /// divided by operations uses this if it is available. Absent in records from before it was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_connect: Option<Measured<Box<Role>>>,
}

impl Role {
    /// Returns the counters to divide by operations.
    pub fn at_work(&self) -> &Self {
        self.since_connect.as_ref().and_then(Measured::value).map_or(self, |role| role)
    }
}

/// Counters of the processes with connections of one protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProtocolCounters {
    /// Protocol name, as in operations.
    pub protocol: String,
    /// Its servers' processes.
    pub server: Measured<Role>,
    /// Its clients' processes.
    pub client: Measured<Role>,
}

/// One system call of a [`Role`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Syscall {
    /// Calls that returned in the window, or that never return (`exit`).
    pub count: u64,
    /// Calls that returned an error.
    pub errors: u64,
    /// CPU time inside, excluding waiting, estimated from the sampled calls.
    pub ns: Measured<u64>,
}

/// CPU cycles and their unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cycles {
    /// In user mode.
    pub user: u64,
    /// In the kernel.
    pub kernel: u64,
    /// Real cycles, or time in another unit.
    pub source: CycleSource,
    /// Why the source is not `hardware`, or a limitation of the hardware counter (it was shared, and is scaled); else
    /// `null`.
    pub reason: Option<String>,
    /// Ticks per nanosecond on the CPU; `null` for `hardware`.
    pub ticks_per_ns: Option<f64>,
}

/// Unit of [`Cycles`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CycleSource {
    /// The CPU's cycle counter.
    Hardware,
    /// Ticks of the time-stamp counter while on a CPU: a unit of time, not of work.
    Reference,
}

/// CPU time. `user + kernel` is exact, from the scheduler; the split between them may be sampled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OnCpu {
    /// In user mode.
    pub user: u64,
    /// In the kernel.
    pub kernel: u64,
    /// How the split was made.
    pub split: Split,
}

/// How user and kernel time were separated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Split {
    /// `sampled` (clock at 1 in n system calls), `all` (clock at each), or `scheduler` (the kernel's own utime/stime).
    pub method: String,
    /// System calls timed, or clock ticks counted.
    pub samples: u64,
}

/// Times a thread left a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextSwitches {
    /// The thread had to wait.
    pub voluntary: u64,
    /// Another thread was scheduled.
    pub involuntary: u64,
}

/// Calls and bytes at the socket layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Socket {
    /// Sends that transferred at least one byte.
    pub send_calls: u64,
    /// Bytes sent.
    pub send_bytes: u64,
    /// Receives that transferred at least one byte.
    pub recv_calls: u64,
    /// Bytes received.
    pub recv_bytes: u64,
}

/// Network softirqs of the whole machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
