//! The plan of a capture: the decisions that are made before anything is opened.

use super::container::LivePlan;
use super::folder::RunFolder;
use super::only::{self, CommandFilter};
use super::rotation::RotationPlan;
use super::streams::UnixSockets;
use crate::User;
use anyhow::{Result, anyhow};
use overhead_dissect::LinkModel;
use overhead_files::FileOwner;
use overhead_host::databases::{self, Database};
use overhead_kernel::{OpenedConnections, ProcessSelection, TlsProcesses, own_network_namespace, raised};
use overhead_model::record::{By, WorkUnits};
use overhead_model::{Protocol, System, say};
use overhead_reading::{ConnectionChoice, DissectPlan, KeyFiles, SamplePlan};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a capture takes, counts, keeps and reports.
#[derive(Clone, Debug)]
pub struct CapturePlan {
    /// The choice of connections, as stored in records.
    pub connections: ConnectionChoice,
    /// Key logs that decrypt TLS.
    pub keys: KeyFiles,
    /// How frames are dissected.
    pub dissect: DissectPlan,
    /// The interface. It has no ports if only UNIX sockets are captured.
    pub live: LivePlan,
    /// Whether packets of the interface are captured or counted.
    pub has_interface: bool,
    /// The UNIX sockets to capture.
    pub sockets: SocketPlan,
    /// Processes whose TLS secrets are taken; `None` for none.
    pub tls: Option<TlsProcesses>,
    /// Whether the keys of TLS connections are written into the packet file.
    pub with_keys: bool,
    /// What becomes of the packets.
    pub packets: PacketUse,
    /// When a packet file ends, and how many are kept.
    pub rotation: RotationPlan,
    /// Where files are written.
    pub output: OutputPlan,
    /// The command that runs during the capture.
    pub command: CommandPlan,
    /// What ends the capture.
    pub limits: LimitPlan,
    /// Windows of time to capture.
    pub sample: SamplePlan,
    /// What the kernel counts.
    pub counters: CounterPlan,
    /// What the record has.
    pub result: ResultPlan,
    /// Address of the metrics for Prometheus; `None` to serve none.
    pub metrics: Option<SocketAddr>,
    /// Rounds that measure what the capture costs the command; `None` to capture once.
    pub cost_rounds: Option<u32>,
    /// Whether messages and the status line are left out.
    pub quiet: bool,
}

/// The UNIX sockets to capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketPlan {
    Nothing,
    /// Those of the selected servers, if there are any, in addition to the interface.
    OfServers,
    /// Paths, abstract names, or `auto` for those of known servers.
    Named(Vec<String>),
}

impl SocketPlan {
    /// Returns the sockets that the user named.
    pub fn names(&self) -> &[String] {
        if let Self::Named(names) = self { names } else { &[] }
    }
}

/// What becomes of the packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PacketUse {
    /// They are written to the run folder.
    Kept,
    /// They are dissected and not written.
    Dissected,
    /// They are written to this file, or `-` for standard output. There is no run folder.
    Written(PathBuf),
    /// None are captured: only the kernel counts.
    NotCaptured,
}

/// Where files are written.
#[derive(Clone, Debug, Default)]
pub struct OutputPlan {
    /// The run folder, or the folder of a sweep; `None` for one named by time.
    pub folder: Option<PathBuf>,
    /// Whether existing files are overwritten.
    pub force: bool,
    /// Owner of the files; `None` for the current user.
    pub owner: Option<FileOwner>,
}

/// The command that runs during the capture.
#[derive(Clone, Debug, Default)]
pub struct CommandPlan {
    /// Program and arguments; empty for no command.
    pub words: Vec<String>,
    /// User who runs it; `None` for the current one.
    pub user: Option<User>,
    /// Whether only connections that it opens are captured.
    pub is_alone: bool,
}

/// What ends the capture, besides the command and the user, and what it leaves out at its start.
#[derive(Clone, Copy, Debug, Default)]
pub struct LimitPlan {
    /// Captured frames.
    pub frames: Option<u64>,
    /// Workload operations.
    pub operations: Option<u64>,
    /// Time after the warm-up.
    pub duration: Option<Duration>,
    /// Time after the first frame within which nothing counts.
    pub warmup: Option<Duration>,
}

/// What the kernel counts.
#[derive(Clone, Debug)]
pub struct CounterPlan {
    /// Whether anything is counted.
    pub is_on: bool,
    /// Whether network softirqs of the whole machine are timed.
    pub softirq: bool,
    /// Whether system calls and CPU time are sampled by operation.
    pub by_operation: bool,
    /// The server's processes, including those of a container.
    pub server: ProcessSelection,
    /// Processes that the user named as the server.
    pub named_pids: Vec<u32>,
}

/// What the record has.
#[derive(Clone, Debug, Default)]
pub struct ResultPlan {
    /// The grain of its rows.
    pub by: By,
    /// Whether each row has its distribution of latencies.
    pub distribution: bool,
    /// Whether the packets are read again for the fields of messages.
    pub fields: bool,
    /// A link to model from the packets; `None` for no model.
    pub model: Option<LinkModel>,
    /// Round-trip times to model.
    pub round_trip_times: Vec<Duration>,
    /// The caller's units of work.
    pub work: Option<WorkUnits>,
}

impl CapturePlan {
    /// Prints a message unless the user asked for quiet.
    pub fn say(&self, text: &str) {
        if !self.quiet {
            say!("overhead: {text}");
        }
    }

    /// Returns whether packets or streams are captured, and not only counted.
    pub fn captures(&self) -> bool {
        self.packets != PacketUse::NotCaptured
    }

    /// Returns the file for the packets; `None` with a run folder.
    pub fn packet_file(&self) -> Option<&Path> {
        if let PacketUse::Written(path) = &self.packets { Some(path) } else { None }
    }

    /// Makes the run folder, unless only packets are written.
    pub fn make_folder(&self) -> Result<Option<RunFolder>> {
        if self.packet_file().is_some() {
            return Ok(None);
        }
        let OutputPlan { folder, force, owner } = &self.output;
        RunFolder::create(folder.as_deref(), self.db_name(), *force, *owner).map(Some)
    }

    /// Returns the first name given with `--db`, for names of folders.
    pub fn db_name(&self) -> &str {
        self.connections.selected.db.first().map_or("auto", String::as_str)
    }

    /// Returns the systems that are known, of the servers on a port or of a protocol.
    pub fn known_systems(&self) -> Result<Vec<(Option<u16>, System)>> {
        let of_server = |server: &Database| {
            let system = server.system;
            server.ports().into_iter().map(move |port| (Some(port), system))
        };
        let named = self.connections.systems()?.into_iter().map(|system| (None, system));
        Ok(self.live.servers.iter().flat_map(of_server).chain(named).collect())
    }

    /// Starts to note who opens connections, if only the command's count.
    pub fn command_filter(&self) -> Result<Option<CommandFilter>> {
        if !self.command.is_alone {
            return Ok(None);
        }
        if let Some(caution) = only::caution(&self.command.words) {
            say!("overhead: {caution}");
        }
        let netns = self.live.namespace().map_or_else(own_network_namespace, |namespace| namespace.number as u32);
        let opened = raised(|| OpenedConnections::start(&self.live.ports, netns));
        Ok(Some(CommandFilter::new(opened.map_err(|error| anyhow!("--only-command needs the kernel: {error}"))?)))
    }

    /// Returns the current UNIX sockets to capture; `None` if only packets are captured.
    pub fn find_sockets(&self) -> Result<Option<UnixSockets>> {
        let selection = &self.live.selection;
        match &self.sockets {
            SocketPlan::Nothing => return Ok(None),
            SocketPlan::OfServers => {}
            SocketPlan::Named(names) => {
                let sockets = UnixSockets::find(names, selection, &self.counters.named_pids)?;
                return Ok(Some(UnixSockets { are_beside: self.has_interface, ..sockets }));
            }
        }
        let Ok(databases) = databases::listening(&databases::containers_now()) else { return Ok(None) };
        let protocols: Vec<Protocol> = selection.ports.iter().flat_map(|(_, protocols)| protocols).copied().collect();
        let is_named = !self.connections.selected.ports.is_empty() && self.live.servers.is_empty();
        Ok(UnixSockets::beside(&databases, &protocols, &self.live.ports, is_named, own_network_namespace()))
    }
}
