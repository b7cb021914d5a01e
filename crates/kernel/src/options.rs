//! Options: the processes to count, and the counters.

use crate::discover::{comm, in_cgroup, own_network_namespace, pids_named};
use crate::error::Error;
use crate::skeleton::types;
use overhead_model::enum_with;
use std::collections::BTreeSet;
use std::path::PathBuf;

enum_with! {
    /// The side of the captured connections that a process is on.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum ProcessRole, name: &'static str {
        /// Serves the captured ports.
        Server = "server",
        /// Connects to them.
        Client = "client",
    }
}

impl ProcessRole {
    /// Returns the role's slot for families without one. Its other slots are every second number from there.
    pub(crate) fn shared_slot(self) -> u32 {
        match self {
            Self::Server => types::slot::SLOT_SERVERS.0,
            Self::Client => types::slot::SLOT_CLIENTS.0,
        }
    }

    pub(crate) fn from_slot(slot: u32) -> Option<Self> {
        (slot > 0).then_some(if slot % 2 == 1 { Self::Server } else { Self::Client })
    }
}

/// How to find the processes of a role. Their threads and forks, present and future, belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessSelection {
    /// By [`CounterOptions::ports`], now or later and in all network namespaces: servers listen on one, clients are
    /// connected to one. [`crate::KernelCounters::attribute`] selects those with captured connections.
    Ports,
    /// Process numbers of the host; each must exist.
    Pids(Vec<u32>),
    /// The control group with this folder (it has a `cgroup.procs`), and its descendants.
    Cgroup(PathBuf),
    /// All processes with this command name, 15 bytes at most.
    Comm(String),
    /// Only processes given to [`crate::KernelCounters::add_process`]. Without one, this is why the role is absent.
    Named(String),
}

impl ProcessSelection {
    /// Returns the selected processes; none of a selection by ports or names.
    pub(crate) fn resolve(&self) -> Result<BTreeSet<u32>, Error> {
        match self {
            Self::Ports | Self::Named(_) => Ok(BTreeSet::new()),
            Self::Pids(pids) => match pids.iter().find(|pid| comm(**pid).is_none()) {
                Some(pid) => Err(Error::NoSuchProcess(*pid)),
                None => Ok(pids.iter().copied().collect()),
            },
            Self::Cgroup(path) => in_cgroup(path),
            Self::Comm(name) => pids_named(name),
        }
    }
}

/// The clock that counts CPU cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CycleChoice {
    /// The CPU's counter if there is one, else the time-stamp counter.
    #[default]
    Best,
    /// The time-stamp counter: no work at context switches.
    Reference,
    /// The time-stamp counter read like the CPU's counter, for tests without a PMU.
    TscAsHardware,
}

/// The processes to follow and the counters to keep.
#[derive(Clone, Debug)]
pub struct CounterOptions {
    /// The captured ports. If there are any, only sockets on them are counted; else all TCP sockets of the roles.
    pub ports: Vec<u16>,
    pub sockets: SocketKinds,
    pub server: ProcessSelection,
    pub client: ProcessSelection,
    /// Without a PMU, the record gives the reason.
    pub cycles: CycleChoice,
    /// How to measure [`crate::KernelCounters::bpf_ns`].
    pub own_cost: OwnCost,
    /// Time the machine's network softirqs. Reads a clock twice per softirq.
    pub softirq: bool,
    /// Count this process's children as clients, from their `exec`.
    pub adopt_children: bool,
    /// Sample work by operation: [`crate::KernelCounters::sampling`].
    pub by_operation: bool,
    /// The captured network namespace: tells which loopback a connection is on.
    pub network_namespace: u32,
}

/// The sockets whose calls and bytes are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SocketKinds {
    /// TCP, on the captured ports.
    #[default]
    Tcp,
    /// UNIX stream sockets.
    Unix,
    Both,
}

/// How to measure the programs' own cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OwnCost {
    #[default]
    Untimed,
    /// Time every run. Costs about 50 ns more per run of every BPF program on the machine.
    Timed,
    /// Time every run for a fortieth of the time, at regular intervals.
    Sampled,
}

impl CounterOptions {
    /// Returns options that count all TCP clients and servers of these ports, with the default counters.
    pub fn for_ports(ports: impl Into<Vec<u16>>) -> Self {
        Self {
            ports: ports.into(),
            sockets: SocketKinds::Tcp,
            server: ProcessSelection::Ports,
            client: ProcessSelection::Ports,
            cycles: CycleChoice::Best,
            own_cost: OwnCost::Untimed,
            softirq: false,
            adopt_children: false,
            by_operation: false,
            network_namespace: own_network_namespace(),
        }
    }
}
