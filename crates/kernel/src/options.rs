//! What to count, for whom.

use crate::discover::own_network_namespace;
use crate::skeleton::types;
use std::path::PathBuf;

/// Whose processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProcessRole {
    /// Those that serve the captured ports.
    Server,
    /// Those that connect to them.
    Client,
}

impl ProcessRole {
    /// Both, in the order in which tables are kept.
    pub(crate) const ALL: [Self; 2] = [Self::Server, Self::Client];

    /// The slot for families of this role that have none of their own. The role's other slots follow at every second number.
    pub(crate) fn shared_slot(self) -> u32 {
        match self {
            Self::Server => types::slot::SLOT_SERVERS.0,
            Self::Client => types::slot::SLOT_CLIENTS.0,
        }
    }

    /// Returns the role that a slot is for.
    pub(crate) fn of_slot(slot: u32) -> Option<Self> {
        (slot > 0).then_some(if slot % 2 == 1 { Self::Server } else { Self::Client })
    }
}

/// How the processes of a role are found. Their forks and threads, present and future, always belong to it too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessSelection {
    /// By the ports of [`CounterOptions::ports`]: of the server, who listens on one now or later; of the client, who is connected
    /// to one now or connects later. In all network namespaces: [`crate::KernelCounters::attribute`] tells those apart that have
    /// to do with what was captured.
    Ports,
    /// These processes.
    Pids(Vec<u32>),
    /// The processes of a control group and of those below it: a folder with a `cgroup.procs`.
    Cgroup(PathBuf),
    /// The processes of this command name.
    Comm(String),
    /// Only those that [`crate::KernelCounters::add_process`] names; while there are none, the role is absent for this reason.
    Named(String),
}

/// Where cycles are to come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CycleChoice {
    /// The CPU's counter where there is one, else the time-stamp counter.
    #[default]
    Best,
    /// The time-stamp counter: no work at context switches.
    Reference,
    /// The time-stamp counter through the machinery for the CPU's counter: for testing it where there is none.
    TscAsHardware,
}

/// What to count, for whom.
#[derive(Clone, Debug)]
pub struct CounterOptions {
    /// The captured ports. When there are any, only sockets on them are counted; without any, all TCP sockets of the roles.
    pub ports: Vec<u16>,
    /// Which sockets are counted.
    pub sockets: SocketKinds,
    /// Who the server is.
    pub server: ProcessSelection,
    /// Who the client is.
    pub client: ProcessSelection,
    /// Where cycles come from.
    pub cycles: CycleChoice,
    /// How [`crate::KernelCounters::bpf_ns`] is come by.
    pub own_cost: OwnCost,
    /// Time the network softirqs of the machine, which reads a clock twice for each of them.
    pub softirq: bool,
    /// Count children of this process as clients, from the `exec` by which they become another program.
    pub adopt_children: bool,
    /// Sample work by operation: [`crate::KernelCounters::sampling`].
    pub by_operation: bool,
    /// Number of the network namespace that is captured in: which of several loopbacks a captured connection is on.
    pub network_namespace: u32,
}

/// Sockets of which kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SocketKinds {
    /// Those of TCP, on the captured ports.
    #[default]
    Tcp,
    /// UNIX stream sockets.
    Unix,
    /// Both.
    Both,
}

/// How the programs' own cost is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OwnCost {
    /// Not at all.
    #[default]
    Untimed,
    /// By timing every run of them. That costs about 50 ns more per run, of every BPF program on the machine.
    Timed,
    /// By timing every run for a fortieth of the time, at regular intervals.
    Sampled,
}

impl CounterOptions {
    /// Server and client of these ports.
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
