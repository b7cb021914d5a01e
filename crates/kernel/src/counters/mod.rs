//! The counters of a run.

mod attribute;
mod shares;

use crate::background::BackgroundThread;
use crate::bpf::{CounterPrograms, SOCKET};
use crate::clock::monotonic_ns;
use crate::discover::{self, INSPECT_PRIVILEGES, PortOwners};
use crate::entry;
use crate::error::{Error, ports_in_words};
use crate::options::{CounterOptions, OwnCost, ProcessRole, ProcessSelection};
use crate::privilege;
use crate::sampling::{self, SliceExchange, WorkListener};
use crate::skeleton::types;
use crate::snapshot::{self, CounterSnapshot};
use crate::sums::CounterSum;
use crate::timing::TimedRuns;
use libbpf_rs::MapCore;
use overhead_model::privilege::remedy;
use overhead_model::record::Measured;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Rounds of searching for children born during the search. The BPF programs follow later ones.
const ROUNDS: u32 = 5;

/// Kernel counters of a server and a client.
///
/// A system call counts when it returns: one in progress at the window's beginning is included, one in progress at
/// its end is not. A call that never returns (`exit`) counts when its thread ends.
#[derive(Debug)]
pub struct KernelCounters {
    programs: CounterPrograms,
    options: CounterOptions,
    /// Ended processes, removed from the kernel's table.
    ended: Vec<(u32, types::process)>,
    /// Slots assigned here.
    given: RefCell<BTreeSet<u32>>,
    /// Slots of processes that the user named.
    explicit: BTreeSet<u32>,
    /// At loading, no process listened on the ports.
    pub awaiting: bool,
    /// At loading, an invisible process of another user listened on the ports.
    hidden: bool,
    /// Warnings about the last record.
    remarks: Vec<String>,
    start: Option<CounterSnapshot>,
    last: Option<CounterSnapshot>,
    own_start: OwnCostStart,
    /// Holds sampled work until its operations are known.
    exchange: Arc<SliceExchange>,
    sampler: Option<BackgroundThread>,
    /// Times system calls.
    entry: Option<BackgroundThread>,
}

/// Cost and missed events of our programs at the beginning of a window.
#[derive(Clone, Copy, Debug, Default)]
struct OwnCostStart {
    timed: TimedRuns,
    missed: u64,
    monotonic_ns: u64,
}

impl KernelCounters {
    /// Loads the programs, and finds and follows the processes of both roles. If nobody listens on the ports yet, a
    /// later listener is found then; see [`Self::awaiting`].
    ///
    /// # Errors
    ///
    /// [`Error::NoBtf`], [`Error::Permission`], [`Error::PidNamespace`], [`Error::Load`] or [`Error::Attach`] if this
    /// machine cannot count at all; [`Error::NoSuchProcess`] and its like if a selection matches nothing. If only
    /// some counters are missing, they are absent from the record, with reasons.
    pub fn load(options: &CounterOptions) -> Result<Self, Error> {
        let mut counters = Self {
            programs: CounterPrograms::start(options)?,
            options: options.clone(),
            ended: Vec::new(),
            given: RefCell::default(),
            explicit: BTreeSet::new(),
            awaiting: false,
            hidden: false,
            remarks: Vec::new(),
            start: None,
            last: None,
            own_start: OwnCostStart::default(),
            exchange: Arc::default(),
            sampler: None,
            entry: None,
        };
        let owners = counters.owners()?;
        counters.hidden = options.server == ProcessSelection::Ports && !owners.listening && owners.hidden;
        counters.awaiting = options.server == ProcessSelection::Ports && !owners.listening && !owners.hidden;
        counters.select(ProcessRole::Server, &options.server, &owners.servers)?;
        counters.select(ProcessRole::Client, &options.client, &owners.clients)?;
        Ok(counters)
    }

    fn owners(&self) -> Result<PortOwners, Error> {
        let options = &self.options;
        if ![&options.server, &options.client].contains(&&ProcessSelection::Ports) {
            return Ok(PortOwners::default());
        }
        discover::owners(&options.ports)
    }

    fn select(&mut self, role: ProcessRole, selection: &ProcessSelection, owners: &BTreeSet<u32>) -> Result<(), Error> {
        let pids = match selection {
            ProcessSelection::Ports => owners.clone(),
            ProcessSelection::Named(_) => return Ok(()),
            selection => selection.resolve()?,
        };
        let slots = self.follow(role, &pids, true)?;
        if !matches!(selection, ProcessSelection::Ports) {
            self.explicit.extend(slots);
        }
        Ok(())
    }

    /// Lets the BPF programs follow processes, their threads and descendants. Each family gets its own slot. `is_connected`: they do not
    /// wait to be started.
    fn follow(&self, role: ProcessRole, roots: &BTreeSet<u32>, is_connected: bool) -> Result<BTreeSet<u32>, Error> {
        let (mut known, mut slots) = (BTreeSet::new(), BTreeMap::new());
        for _ in 0..ROUNDS {
            let before = known.len();
            for (top, family) in discover::families(roots)? {
                let slot = *slots.entry(top).or_insert_with(|| self.new_slot(role));
                for pid in family {
                    if known.insert(pid) {
                        self.enlist(slot, pid, [pid == top, is_connected])?;
                    }
                }
            }
            if known.len() == before {
                break;
            }
            // Running the iterator gives existing threads their slot.
            snapshot::read_threads(&self.programs)?;
        }
        Ok(slots.into_values().collect())
    }

    fn enlist(&self, slot: u32, pid: u32, [founder, connected]: [bool; 2]) -> Result<(), Error> {
        // It has ended.
        let Some(name) = discover::comm(pid) else { return Ok(()) };
        let mut process = types::process { slot, alive: 1, since_ns: monotonic_ns(), ..types::process::default() };
        process.netns = discover::network_namespace(pid);
        (process.founder, process.connected) = (founder.into(), connected.into());
        let room = process.comm.len() - 1;
        for (place, byte) in process.comm.iter_mut().take(room).zip(name.bytes()) {
            *place = byte;
        }
        snapshot::enlist(&self.programs, pid, &process)?;
        Ok(())
    }

    /// Gives a process, its threads and descendants a role, unless they have one. Everything it does from now on
    /// counts, so it may be stopped or waiting before its `exec`.
    pub fn add_process(&mut self, role: ProcessRole, pid: u32) -> Result<(), Error> {
        if discover::comm(pid).is_none() {
            return Err(Error::NoSuchProcess(pid));
        }
        let slots = self.follow(role, &BTreeSet::from([pid]), false)?;
        self.explicit.extend(slots);
        Ok(())
    }

    /// Begins or restarts the window.
    pub fn begin(&mut self) -> Result<(), Error> {
        self.collect_ended();
        self.ended.clear();
        let timing = &self.programs.timing;
        self.own_start =
            OwnCostStart { timed: timing.timed()?, missed: timing.missed()?, monotonic_ns: monotonic_ns() };
        self.start = Some(CounterSnapshot::take(&self.programs, &self.slots())?);
        self.last = None;
        self.entry = None;
        if let Some(program) = &self.programs.entry {
            self.entry = Some(entry::start(program.try_clone()?, &self.programs.timing_windows)?);
        }
        self.sampler = None;
        if self.sampling().value().is_some() {
            self.exchange.begin();
            let programs = &self.programs;
            self.sampler =
                Some(sampling::start(&programs.sampling_windows, &programs.slices, Arc::clone(&self.exchange))?);
        }
        Ok(())
    }

    /// Returns what joins the sampled work of the window with operations, or why there is none.
    pub fn sampling(&self) -> Measured<WorkListener> {
        if !self.options.by_operation {
            return Measured::unavailable("not asked for (--sample-kernel)");
        }
        let listener = || WorkListener::new(Arc::clone(&self.exchange));
        self.programs.absence(&SOCKET).map_or_else(|| Ok(listener()), Err).into()
    }

    /// Returns all slots ever used.
    fn slots(&self) -> BTreeSet<u32> {
        let ended = self.ended.iter().flat_map(|(_, process)| [process.slot, process.slot_before]);
        let shared = ProcessRole::ALL.iter().map(|role| role.shared_slot());
        shared.chain(ended).chain(self.given.borrow().iter().copied()).collect()
    }

    /// Returns a free slot. The BPF programs assign those in the lower half.
    fn new_slot(&self, role: ProcessRole) -> u32 {
        let mut given = self.given.borrow_mut();
        let most = self.programs.totals.max_entries();
        let of_role = |slot: &u32| ProcessRole::from_slot(*slot) == Some(role);
        let next = (most / 2..most).filter(of_role).find(|slot| !given.contains(slot));
        let slot = next.unwrap_or(role.shared_slot());
        given.insert(slot);
        slot
    }

    fn hidden_server(&self) -> String {
        let (ports, remedy) = (ports_in_words(&self.options.ports), remedy(&privilege::missing(&INSPECT_PRIVILEGES)));
        format!("the process that listens on port {ports} belongs to another user and cannot be inspected: {remedy}")
    }

    fn no_process_reason(&self, role: ProcessRole) -> String {
        let ports = ports_in_words(&self.options.ports);
        match (role, self.selection(role)) {
            (_, ProcessSelection::Named(reason)) => reason.clone(),
            (ProcessRole::Server, ProcessSelection::Ports) if self.hidden => self.hidden_server(),
            (ProcessRole::Server, ProcessSelection::Ports) => format!(
                "no process on this host listened on port {ports} (a server that does not listen is named by --pid, --comm or --cgroup)"
            ),
            (ProcessRole::Client, ProcessSelection::Ports) if !privilege::missing(&INSPECT_PRIVILEGES).is_empty() => {
                let remedy = remedy(&privilege::missing(&INSPECT_PRIVILEGES));
                format!("no process that this user can see connected to port {ports}: {remedy}")
            }
            (ProcessRole::Client, ProcessSelection::Ports) => {
                format!("the client is not on this host: no process here connected to port {ports}")
            }
            _ => "the processes ended before the window started".to_owned(),
        }
    }

    fn selection(&self, role: ProcessRole) -> &ProcessSelection {
        match role {
            ProcessRole::Server => &self.options.server,
            ProcessRole::Client => &self.options.client,
        }
    }

    /// Moves ended processes from the kernel's table to `ended`, to make room.
    fn collect_ended(&mut self) {
        for (pid, process) in snapshot::processes(&self.programs).into_iter().filter(|(_, process)| process.alive == 0)
        {
            snapshot::forget(&self.programs, pid);
            self.ended.push((pid, process));
        }
    }

    /// Returns the network namespaces of all processes followed in the window; 0 if unknown.
    pub fn network_namespaces(&self) -> BTreeMap<u32, u32> {
        let live = self.last.iter().flat_map(|last| &last.processes);
        self.ended.iter().chain(live).map(|(pid, process)| (*pid, process.netns)).collect()
    }

    /// Returns the CPU time of our BPF programs since [`Self::begin`], over the whole machine, extrapolated if
    /// [`CounterOptions::own_cost`] samples it. The kernel's meter itself reads two clocks per run; its cost,
    /// measured on an empty program, is subtracted.
    pub fn bpf_ns(&self) -> Measured<u64> {
        if self.options.own_cost == OwnCost::Untimed {
            return Measured::unavailable(
                "timing the BPF programs was not asked for: it reads two clocks more at every event",
            );
        }
        if let Some(reason) = self.programs.timing.refused() {
            return Measured::unavailable(reason);
        }
        let timed = match self.programs.timing.timed() {
            Ok(timed) => timed,
            Err(error) => return Measured::unavailable(format!("the kernel did not report it: {error}")),
        };
        let timed = timed.since(&self.own_start.timed);
        let window_ns = monotonic_ns().saturating_sub(self.own_start.monotonic_ns);
        match (self.options.own_cost, timed.looked_ns) {
            (OwnCost::Timed, _) => Measured::Value(timed.net_ns()),
            (_, 0) => Measured::unavailable("the window was too short to time the BPF programs in it"),
            (_, looked_ns) => Measured::Value((timed.net_ns() as f64 * (window_ns as f64 / looked_ns as f64)) as u64),
        }
    }

    /// Returns warnings about the window, in whole sentences.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = joined(&self.remarks);
        let missed = self.programs.timing.missed().map_or(0, |now| now.saturating_sub(self.own_start.missed));
        if missed > 0 {
            warnings.push(format!("{missed} kernel events were not counted: a BPF program was running on their CPU"));
        }
        if let (Some(start), Some(last)) = (&self.start, &self.last) {
            let nameless = last.since(start, &last.slots.keys().copied().collect()).nameless;
            if nameless > 0 {
                warnings.push(format!("{nameless} processes were counted that are not in the list of processes"));
            }
        }
        warnings
    }
}

/// Returns a NUL-terminated name.
fn text(name: &[u8]) -> String {
    let bytes = name.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}

/// Joins a remark on the server with the same one on the client.
fn joined(remarks: &[String]) -> Vec<String> {
    let mut joined: Vec<String> = Vec::new();
    for remark in remarks {
        let said = remark.strip_prefix("client: ");
        let of_server = |other: &&mut String| other.strip_prefix("server: ").is_some_and(|of| Some(of) == said);
        match joined.iter_mut().find(of_server) {
            Some(server) => *server = format!("server and {remark}"),
            None => joined.push(remark.clone()),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_remark_on_both_ends_is_one() {
        let said = ["server: few", "server: many", "client: many", "client: none"].map(str::to_owned);
        assert_eq!(joined(&said), ["server: few", "server and client: many", "client: none"]);
    }
}
