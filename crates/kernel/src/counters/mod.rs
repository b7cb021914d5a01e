//! The counters of a run, from loading to the last reading.

mod attribute;

use crate::background::BackgroundThread;
use crate::bpf::CounterPrograms;
use crate::clock::{ClockWindow, monotonic_ns};
use crate::convert::SOCKET;
use crate::discover::{self, PortOwners, TO_SEE};
use crate::entry;
use crate::error::{Error, ports_in_words};
use crate::options::{CounterOptions, OwnCost, ProcessRole, ProcessSelection};
use crate::privilege;
use crate::sampling::{SliceExchange, SliceSampler, WorkSampling};
use crate::skeleton::types;
use crate::snapshot::{self, CounterSnapshot};
use crate::timing::TimedRuns;
use libbpf_rs::MapCore;
use overhead_model::privilege::remedy;
use overhead_model::record::Measured;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Searches for children born during the search end after this many rounds; the kernel follows from then on.
const ROUNDS: u32 = 5;

/// Kernel counters of a server and a client.
///
/// A system call is counted when it returns, so one that a thread was waiting in when the window began counts, and one
/// it is waiting in when the window ends does not; a call that never returns (`exit`) counts when its thread ends.
#[derive(Debug)]
pub struct KernelCounters {
    programs: CounterPrograms,
    options: CounterOptions,
    /// Processes that have ended and were taken from the kernel's table.
    ended: Vec<(u32, types::process)>,
    /// Slots handed out here.
    given: RefCell<BTreeSet<u32>>,
    /// Slots of processes that the user named.
    explicit: BTreeSet<u32>,
    /// Nobody listened on the ports when the programs were loaded.
    awaiting: bool,
    /// Somebody listened on the ports as the programs were loaded, and this user may not see who.
    hidden: bool,
    /// What is to be said of the last record.
    remarks: Vec<String>,
    start: Option<CounterSnapshot>,
    last: Option<CounterSnapshot>,
    /// What our own programs had cost at the beginning.
    own_start: OwnCostStart,
    /// Where sampled work waits for the operations that it was for.
    exchange: Arc<SliceExchange>,
    sampler: Option<SliceSampler>,
    /// Times system calls.
    entry: Option<BackgroundThread>,
}

/// The programs' own cost, and the events they had missed, when a window began.
#[derive(Clone, Copy, Debug, Default)]
struct OwnCostStart {
    timed: TimedRuns,
    missed: u64,
    monotonic_ns: u64,
}

impl KernelCounters {
    /// Loads the programs, finds the processes of both roles, and follows them from here on.
    ///
    /// # Errors
    ///
    /// [`Error::NoBtf`], [`Error::Permission`], [`Error::PidNamespace`], [`Error::Load`] or [`Error::Attach`] when this
    /// machine cannot count at all; [`Error::NoSuchProcess`] and its like when a selection is of nobody. What is partly
    /// possible is no error: the figure is absent from the record, with the reason. Where nobody listens on the ports yet,
    /// who does later is found then; [`Self::is_awaiting`] says so.
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

    /// Returns whether nobody listened on the ports as the programs were loaded: a server is found when it does.
    pub fn is_awaiting(&self) -> bool {
        self.awaiting
    }

    fn select(&mut self, role: ProcessRole, selection: &ProcessSelection, owners: &BTreeSet<u32>) -> Result<(), Error> {
        let pids = match selection {
            ProcessSelection::Ports => owners.clone(),
            ProcessSelection::Named(_) => return Ok(()),
            selection => discover::selected(selection)?,
        };
        let slots = self.follow(role, &pids)?;
        if !matches!(selection, ProcessSelection::Ports) {
            self.explicit.extend(slots);
        }
        Ok(())
    }

    /// Gives processes, their threads and their descendants a role, each family a slot of its own, and lets the kernel follow
    /// them.
    fn follow(&self, role: ProcessRole, roots: &BTreeSet<u32>) -> Result<BTreeSet<u32>, Error> {
        let (mut known, mut slots) = (BTreeSet::new(), BTreeMap::new());
        for _ in 0..ROUNDS {
            let before = known.len();
            for (top, family) in discover::families(roots)? {
                let slot = *slots.entry(top).or_insert_with(|| self.new_slot(role));
                for pid in family {
                    if known.insert(pid) {
                        self.enlist(slot, pid, pid == top)?;
                    }
                }
            }
            if known.len() == before {
                break;
            }
            // The iterator gives the slot to threads that are there already.
            snapshot::read_threads(&self.programs)?;
        }
        Ok(slots.into_values().collect())
    }

    fn enlist(&self, slot: u32, pid: u32, founder: bool) -> Result<(), Error> {
        // One that has ended meanwhile has nothing left to count.
        let Some(name) = discover::comm(pid) else { return Ok(()) };
        let mut process = types::process { slot, alive: 1, since_ns: monotonic_ns(), ..types::process::default() };
        process.netns = discover::network_namespace(pid);
        process.founder = founder.into();
        let room = process.comm.len() - 1;
        for (place, byte) in process.comm.iter_mut().take(room).zip(name.bytes()) {
            *place = byte;
        }
        snapshot::enlist(&self.programs, pid, &process)?;
        Ok(())
    }

    /// Gives a process, its threads and descendants a role, now and in future. A process that has a role keeps it.
    ///
    /// The process may be one that is stopped or waits before its `exec`: all it does from here on is counted.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchProcess`] when there is none of this number.
    pub fn add_process(&mut self, role: ProcessRole, pid: u32) -> Result<(), Error> {
        if discover::comm(pid).is_none() {
            return Err(Error::NoSuchProcess(pid));
        }
        let slots = self.follow(role, &BTreeSet::from([pid]))?;
        self.explicit.extend(slots);
        Ok(())
    }

    /// Begins the window, or begins it anew. Returns its beginning in Unix nanoseconds.
    ///
    /// # Errors
    ///
    /// [`Error::Tables`] when the kernel's tables cannot be read.
    pub fn begin(&mut self) -> Result<u64, Error> {
        self.collect_ended();
        self.ended.clear();
        let timing = &self.programs.timing;
        self.own_start =
            OwnCostStart { timed: timing.timed()?, missed: timing.missed()?, monotonic_ns: monotonic_ns() };
        let start = CounterSnapshot::take(&self.programs, &self.slots())?;
        let window = start.at.since(&start.at);
        self.start = Some(start);
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
                Some(SliceSampler::start(&programs.sampling_windows, &programs.slices, Arc::clone(&self.exchange))?);
        }
        Ok(window.start_unix_ns)
    }

    /// Returns where work that is sampled from [`Self::begin`] to [`Self::mark_end`] is joined with operations, or the reason why none is.
    pub fn sampling(&self) -> Measured<WorkSampling> {
        if !self.options.by_operation {
            return Measured::unavailable("not asked for (--sample-kernel)");
        }
        match self.programs.absence(&SOCKET) {
            Some(reason) => Measured::unavailable(reason),
            None => Measured::Value(WorkSampling::new(Arc::clone(&self.exchange))),
        }
    }

    /// Returns the slots that were ever in use.
    fn slots(&self) -> BTreeSet<u32> {
        let ended = self.ended.iter().map(|(_, process)| process.slot);
        let shared = ProcessRole::ALL.iter().map(|role| role.shared_slot());
        shared.chain(ended).chain(self.given.borrow().iter().copied()).collect()
    }

    /// Returns a slot for a family found here: the kernel side hands out those of the lower half.
    fn new_slot(&self, role: ProcessRole) -> u32 {
        let mut given = self.given.borrow_mut();
        let most = self.programs.totals.max_entries();
        let of_role = |slot: &u32| ProcessRole::of_slot(*slot) == Some(role);
        let next = (most / 2..most).filter(of_role).find(|slot| !given.contains(slot));
        let slot = next.unwrap_or(role.shared_slot());
        given.insert(slot);
        slot
    }

    /// Returns what to say of a server that is another user's.
    fn hidden_server(&self) -> String {
        let (ports, remedy) = (ports_in_words(&self.options.ports), remedy(&privilege::missing(&TO_SEE)));
        format!("the process that listens on port {ports} is of another user and cannot be seen: {remedy}")
    }

    fn no_process_reason(&self, role: ProcessRole) -> String {
        let ports = ports_in_words(&self.options.ports);
        match (role, self.selection(role)) {
            (_, ProcessSelection::Named(reason)) => reason.clone(),
            (ProcessRole::Server, ProcessSelection::Ports) if self.hidden => self.hidden_server(),
            (ProcessRole::Server, ProcessSelection::Ports) => format!(
                "no process on this host listened on port {ports} (a server that does not listen is named by --pid, --comm or --cgroup)"
            ),
            (ProcessRole::Client, ProcessSelection::Ports) if !privilege::missing(&TO_SEE).is_empty() => {
                let remedy = remedy(&privilege::missing(&TO_SEE));
                format!("no process that this user can see connected to port {ports}: {remedy}")
            }
            (ProcessRole::Client, ProcessSelection::Ports) => {
                format!("the client is not on this host: no process here connected to port {ports}")
            }
            _ => "the processes had ended when the window began".to_owned(),
        }
    }

    fn selection(&self, role: ProcessRole) -> &ProcessSelection {
        match role {
            ProcessRole::Server => &self.options.server,
            ProcessRole::Client => &self.options.client,
        }
    }

    /// Makes room in the kernel's table: processes that have ended are remembered here.
    fn collect_ended(&mut self) {
        for (pid, process) in snapshot::processes(&self.programs).into_iter().filter(|(_, process)| process.alive == 0)
        {
            snapshot::forget(&self.programs, pid);
            self.ended.push((pid, process));
        }
    }

    /// Returns the window from [`Self::begin`] to the last reading.
    pub fn window(&self) -> Option<ClockWindow> {
        Some(self.last.as_ref()?.at.since(&self.start.as_ref()?.at))
    }

    /// Returns the processes of both roles that were followed in the window, ended ones too, each with the number of its network namespace; 0
    /// where that was not seen.
    pub fn network_namespaces(&self) -> BTreeMap<u32, u32> {
        let live = self.last.iter().flat_map(|last| &last.processes);
        self.ended.iter().chain(live).map(|(pid, process)| (*pid, process.netns)).collect()
    }

    /// Time in our own programs since [`Self::begin`], over all processes of the machine: what was timed of it, as
    /// [`CounterOptions::own_cost`] says, and the same rate for the rest. The kernel's meter reads two clocks for each run of a
    /// program; what it shows of an empty program at the same time is taken off.
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
            Err(error) => return Measured::unavailable(format!("the kernel does not tell: {error}")),
        };
        let timed = timed.since(&self.own_start.timed);
        let window_ns = monotonic_ns().saturating_sub(self.own_start.monotonic_ns);
        match (self.options.own_cost, timed.looked_ns) {
            (OwnCost::Timed, _) => Measured::Value(timed.net_ns()),
            (_, 0) => Measured::unavailable("the window was too short to time the BPF programs in it"),
            (_, looked_ns) => Measured::Value((timed.net_ns() as f64 * (window_ns as f64 / looked_ns as f64)) as u64),
        }
    }

    /// Warnings about what was counted since [`Self::begin`], in whole sentences.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.remarks.clone();
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

/// A name as the kernel has it: up to the first NUL.
fn text(name: &[u8]) -> String {
    let bytes = name.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}
