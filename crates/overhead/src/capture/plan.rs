//! The plan of a capture: its arguments, checked once, and the choices that follow from them.

use super::args::{CaptureArgs, CounterArgs, ServerArgs};
use super::container::{ContainerPlace, containers_now};
use super::descriptors::InheritedFiles;
use super::folder::RunFolder;
use super::live::LivePlan;
use super::only::{self, CommandFilter};
use super::streams::UnixSockets;
use crate::caller::{self, User};
use crate::cli::Which;
use crate::databases::{self, Database};
use crate::exit::bail_usage;
use crate::privileges::raised;
use anyhow::{Result, anyhow};
use overhead_files::FileOwner;
use overhead_kernel::{OpenedConnections, ProcessSelection, own_network_namespace};
use overhead_model::{Protocol, System, say};
use overhead_report::text::counted;

/// The checked arguments of a capture, and the choices that follow from them.
#[derive(Clone, Debug)]
pub struct CapturePlan {
    pub args: CaptureArgs,
    /// The choice of connections, as stored in records.
    pub which: Which,
    /// The interface. It has no ports if only UNIX sockets are captured.
    pub live: LivePlan,
    /// Whether packets of the interface are captured or counted.
    pub has_interface: bool,
    /// Whether UNIX sockets of the selected servers are captured too: the user named a server, but no place to capture.
    finds_sockets: bool,
    /// The server's processes, including those of a container.
    pub server_processes: ProcessSelection,
    /// Owner of the written files.
    pub owner: Option<FileOwner>,
    /// User who runs the command; `None` for the current one.
    pub user: Option<User>,
}

impl CaptureArgs {
    /// Checks the arguments before anything is created, as far as possible, and finds the container.
    pub fn plan(self) -> Result<CapturePlan> {
        // This must come before anything is opened.
        InheritedFiles::note();
        self.output.check()?;
        let user = User::choose(self.user.as_deref(), self.as_root)?;
        self.rotation.check(self.write.as_deref())?;
        let model = self.project.model();
        self.check_readings(model.is_some())?;
        let mut which = self.decode.which.clone();
        let is_elsewhere = self.iface.is_some() || self.container.is_some() || self.filter.is_some();
        let CounterArgs { bpf_only, sample_kernel, .. } = self.counters;
        let is_of_packets =
            bpf_only || sample_kernel || self.only_command || self.tls_plaintext.is_some() || model.is_some();
        let finds_sockets = self.unix.is_empty() && !is_elsewhere && !is_of_packets && !which.selected().db.is_empty();
        let has_interface = self.unix.is_empty() || self.iface.is_some();
        let (mut live, elsewhere) =
            LivePlan::find(self.iface.clone(), self.container.as_deref(), &mut which, !bpf_only)?;
        if let Some(place) = live.place.as_ref().filter(|_| !self.output.quiet) {
            let name = place.container.argument();
            for (other, count) in elsewhere {
                let connections = counted(count, "connection");
                say!("overhead: container {name} has {connections} on {other} too: `-i {other}` captures these");
            }
        }
        if has_interface {
            live.found().filter(|_| !self.output.quiet).for_each(|found| say!("overhead: {found}"));
        } else {
            live.ports.clear();
        }
        (live.filter, live.snaplen, live.buffer) = (self.filter.clone(), self.snaplen, self.buffer);
        Ok(CapturePlan {
            server_processes: self.server.processes(live.place.as_ref()),
            owner: if self.as_root { None } else { caller::owner() },
            args: self,
            which,
            live,
            has_interface,
            finds_sockets,
            user,
        })
    }

    /// Rejects figures that need another reading of the packets if not all packets are kept.
    fn check_readings(&self, has_model: bool) -> Result<()> {
        let is_read_again = self.fields || has_model;
        if self.sample.cycle.is_some() && (is_read_again || self.limits.warmup.is_some() || self.counters.bpf_only) {
            bail_usage!(
                "--sample captures a part of the time, which --fields, --project, --physical, --warmup and --bpf-only do not know of: leave it or them out"
            );
        }
        if self.rotation.is_ring() && is_read_again {
            bail_usage!(
                "--fields, --project and --physical read all packets again, and -W deletes some: leave it or them out"
            );
        }
        if has_model && !self.unix.is_empty() {
            bail_usage!(
                "--project and --physical model a link, and UNIX sockets have none: leave them out, or capture TCP"
            );
        }
        Ok(())
    }
}

impl ServerArgs {
    fn processes(&self, place: Option<&ContainerPlace>) -> ProcessSelection {
        let of_container = place.map(|place| &*place.servers);
        match (&*self.pid, &self.cgroup, &self.comm, of_container) {
            ([_, ..], _, _, _) => ProcessSelection::Pids(self.pid.clone()),
            (_, Some(path), _, _) => ProcessSelection::Cgroup(path.clone()),
            (_, _, Some(name), _) => ProcessSelection::Comm(name.clone()),
            (_, _, _, Some(servers @ [_, ..])) => ProcessSelection::Pids(servers.to_vec()),
            _ => ProcessSelection::Ports,
        }
    }
}

impl CapturePlan {
    /// Prints a message unless the user asked for quiet.
    pub fn say(&self, text: &str) {
        if !self.args.output.quiet {
            say!("overhead: {text}");
        }
    }

    /// Makes the run folder, unless only packets are written.
    pub fn make_folder(&self) -> Result<Option<RunFolder>> {
        if self.args.write.is_some() {
            return Ok(None);
        }
        RunFolder::create(self.args.folder.as_deref(), self.db_name(), self.args.force, self.owner).map(Some)
    }

    /// Returns the first name given with `--db`, for names of folders.
    pub fn db_name(&self) -> &str {
        self.which.db.first().map_or("auto", String::as_str)
    }

    /// Returns the systems that are known, of the servers on a port or of a protocol.
    pub fn known_systems(&self) -> Result<Vec<(Option<u16>, System)>> {
        let of_server = |server: &Database| {
            let system = server.system;
            server.ports().into_iter().map(move |port| (Some(port), system))
        };
        let named = self.which.systems()?.into_iter().map(|system| (None, system));
        Ok(self.live.servers.iter().flat_map(of_server).chain(named).collect())
    }

    /// Starts to note who opens connections, if only the command's count.
    pub fn command_filter(&self) -> Result<Option<CommandFilter>> {
        if !self.args.only_command {
            return Ok(None);
        }
        if let Some(caution) = only::caution(&self.args.command) {
            say!("overhead: {caution}");
        }
        let netns = self.live.namespace().map_or_else(own_network_namespace, |namespace| namespace.number() as u32);
        let opened = raised(|| OpenedConnections::start(&self.live.ports, netns));
        Ok(Some(CommandFilter::new(opened.map_err(|error| anyhow!("--only-command needs the kernel: {error}"))?)))
    }

    /// Returns the current UNIX sockets to capture; `None` if only packets are captured.
    pub fn sockets(&self) -> Result<Option<UnixSockets>> {
        let selection = &self.live.selection;
        if !self.args.unix.is_empty() {
            let sockets = UnixSockets::find(&self.args.unix, selection, &self.args.server.pid)?;
            return Ok(Some(UnixSockets { are_beside: self.has_interface, ..sockets }));
        }
        if !self.finds_sockets {
            return Ok(None);
        }
        let Ok(databases) = databases::listening(&containers_now()) else { return Ok(None) };
        let protocols: Vec<Protocol> = selection.ports.iter().flat_map(|(_, protocols)| protocols).copied().collect();
        let is_named = !self.which.port.is_empty() && self.live.servers.is_empty();
        Ok(UnixSockets::beside(&databases, &protocols, &self.live.ports, is_named, own_network_namespace()))
    }
}
