//! Loads and attaches the BPF programs. Optional ones may be missing.

use crate::cycles::CycleEvents;
use crate::discover::check_pid_namespace;
use crate::entry;
use crate::error::Error;
use crate::object::{has_tracepoint, kernel_types, port_set, tracepoint_arguments};
use crate::options::{CounterOptions, ProcessSelection, SocketKinds};
use crate::skeleton::{OpenOverheadSkel, OverheadSkel, OverheadSkelBuilder, types};
use crate::timing::OwnCostTimer;
use libbpf_rs::btf::Btf;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, MapHandle};
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use syscalls::Sysno;

/// Programs needed for each optional counter.
pub(crate) const SOCKET: [&str; 2] = ["sock_send_length", "sock_recv_length"];
pub(crate) const WAKEUPS: [&str; 1] = ["sched_wakeup"];
pub(crate) const RETRANSMISSIONS: [&str; 1] = ["tcp_retransmit_skb"];
pub(crate) const SOFTIRQ: [&str; 2] = ["softirq_entry", "softirq_exit"];
pub(crate) const SWITCHES: [&str; 1] = ["sched_switch"];
/// An iterator: read, not attached to a tracepoint.
const ITERATOR: &str = "read_threads";
/// Programs that all counters need. They are named after their tracepoints.
const REQUIRED: [&str; 6] = [SWITCH, ENTRY, "sys_exit", "task_newtask", "sched_process_exit", ITERATOR];
/// Attached first, because the others need it to know whose thread runs.
const SWITCH: &str = "sched_switch";
/// Attached and detached by [`entry`].
const ENTRY: &str = "sys_enter";

/// Run manually to measure the overhead of timing a program.
const EMPTY: &str = "empty";
/// System calls by which an event loop waits for any of its sockets.
const WAITS: &[Sysno] = &[
    #[cfg(target_arch = "x86_64")]
    Sysno::epoll_wait,
    #[cfg(target_arch = "x86_64")]
    Sysno::poll,
    #[cfg(target_arch = "x86_64")]
    Sysno::select,
    Sysno::epoll_pwait,
    Sysno::epoll_pwait2,
    Sysno::ppoll,
    Sysno::pselect6,
    Sysno::io_uring_enter,
];
/// Memory for the slots of all CPUs, and bounds on their number.
const SLOT_BYTES: usize = 32 << 20;
const MIN_SLOTS: usize = 16;
const MAX_SLOTS: usize = 128;

/// Running programs and their maps. Dropping it detaches everything.
#[derive(Debug)]
pub(crate) struct CounterPrograms {
    pub(crate) threads: Link,
    pub(crate) totals: MapHandle,
    pub(crate) cpus: MapHandle,
    pub(crate) processes: MapHandle,
    pub(crate) compat_calls: MapHandle,
    pub(crate) connections: MapHandle,
    pub(crate) sampling_windows: MapHandle,
    pub(crate) slices: MapHandle,
    pub(crate) cycles: Result<CycleEvents, String>,
    /// Kept open because the kernel removes the events from the map when this file is closed.
    _cycle_events: MapHandle,
    /// Optional programs that do not run, and why.
    missing: BTreeMap<String, String>,
    pub(crate) timing: OwnCostTimer,
    /// The program at the entry to system calls; absent if it stays attached.
    pub(crate) entry: Option<OwnedFd>,
    /// Tells it which calls to time.
    pub(crate) timing_windows: MapHandle,
    _links: Vec<Link>,
}

impl CounterPrograms {
    /// Loads and attaches everything this kernel supports.
    pub(crate) fn start(options: &CounterOptions) -> Result<Self, Error> {
        // Stops libbpf from printing to standard error; its errors say what matters.
        libbpf_rs::set_print(None);
        check_pid_namespace()?;
        let btf = kernel_types()?;
        let cycles = CycleEvents::open(options.cycles);
        let mut missing = BTreeMap::new();
        match Self::attempt(options, &btf, cycles, &mut missing, None) {
            // The kernel refuses the whole object for one program: retry without the optional ones.
            Err(Error::Load(reason)) => {
                let cycles = Err(format!("the programs for it are refused by the kernel: {reason}"));
                Self::attempt(options, &btf, cycles, &mut missing, Some(&reason))
            }
            outcome => outcome,
        }
    }

    fn attempt(
        options: &CounterOptions,
        btf: &Btf<'_>,
        cycles: Result<CycleEvents, String>,
        missing: &mut BTreeMap<String, String>,
        refused: Option<&str>,
    ) -> Result<Self, Error> {
        let mut place = MaybeUninit::uninit();
        let mut open = OverheadSkelBuilder::default().open(&mut place).map_err(|error| Error::loading(&error))?;
        configure(&mut open, options, btf, cycles.is_ok());
        for mut program in open.open_object_mut().progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            if let Some(reason) = absence(&name, options, btf, refused) {
                program.set_autoload(false);
                missing.insert(name, reason);
            }
        }
        open.maps.totals.set_max_entries(slots() as u32).map_err(|error| Error::loading(&error))?;
        let mut skeleton = open.load().map_err(|error| Error::loading(&error))?;
        Self::attach(&mut skeleton, options, cycles, std::mem::take(missing))
    }

    fn attach(
        skeleton: &mut OverheadSkel<'_>,
        options: &CounterOptions,
        cycles: Result<CycleEvents, String>,
        mut missing: BTreeMap<String, String>,
    ) -> Result<Self, Error> {
        let cycle_events = MapHandle::try_from(&skeleton.maps.cycle_events)?;
        let cycles = install(cycles, &cycle_events);
        let mut links = Vec::new();
        let mut descriptors = Vec::new();
        let (mut threads, mut empty, mut entry) = (None, None, None);
        let mut programs: Vec<_> = skeleton
            .object_mut()
            .progs_mut()
            .map(|program| (program.name().to_string_lossy().into_owned(), program))
            .filter(|(name, _)| !missing.contains_key(name))
            .collect();
        programs.sort_by_key(|(name, _)| name != SWITCH);
        for (name, program) in programs {
            let descriptor = program.as_fd().try_clone_to_owned()?;
            if name == EMPTY {
                empty = Some(descriptor);
                continue;
            }
            match program.attach() {
                Ok(link) if name == ITERATOR => threads = Some(link),
                // Attached as a test only: the window thread attaches it again.
                Ok(_) if name == ENTRY && !options.by_operation => entry = Some(descriptor.try_clone()?),
                Ok(link) => links.push(link),
                Err(error) if REQUIRED.contains(&name.as_str()) => {
                    return Err(Error::Attach { program: name, reason: format!("{error:#}") });
                }
                Err(error) => {
                    missing.insert(name, format!("cannot be attached: {error:#}"));
                    continue;
                }
            }
            descriptors.push(descriptor);
        }
        let timing_windows = MapHandle::try_from(&skeleton.maps.timing_windows)?;
        entry::set(&timing_windows, &entry::THROUGHOUT)?;
        Ok(Self {
            threads: threads.ok_or_else(|| Error::Load(format!("{ITERATOR} is not among the programs")))?,
            totals: MapHandle::try_from(&skeleton.maps.totals)?,
            cpus: MapHandle::try_from(&skeleton.maps.cpus)?,
            processes: MapHandle::try_from(&skeleton.maps.processes)?,
            compat_calls: MapHandle::try_from(&skeleton.maps.compat_calls)?,
            connections: MapHandle::try_from(&skeleton.maps.connections)?,
            sampling_windows: MapHandle::try_from(&skeleton.maps.sampling_windows)?,
            slices: MapHandle::try_from(&skeleton.maps.slices)?,
            cycles,
            _cycle_events: cycle_events,
            missing,
            timing: OwnCostTimer::start(descriptors, empty, options.own_cost),
            entry,
            timing_windows,
            _links: links,
        })
    }

    /// Returns why one of the programs does not run; `None` if all do.
    pub(crate) fn absence(&self, programs: &[&str]) -> Option<String> {
        programs.iter().find_map(|program| Some(format!("tracepoint {program} {}", self.missing.get(*program)?)))
    }
}

fn configure(open: &mut OpenOverheadSkel<'_>, options: &CounterOptions, btf: &Btf<'_>, hardware: bool) {
    let Some(constants) = open.maps.rodata_data.as_deref_mut() else { return };
    constants.port_set = port_set(&options.ports);
    constants.find_servers = (options.server == ProcessSelection::Ports).into();
    constants.find_clients = (options.client == ProcessSelection::Ports).into();
    constants.only_port_set = (!options.ports.is_empty()).into();
    constants.counts_tcp = (options.sockets != SocketKinds::Unix).into();
    constants.counts_unix = (options.sockets != SocketKinds::Tcp).into();
    constants.own_tgid = std::process::id();
    constants.adopt_children = options.adopt_children.into();
    constants.kernel_slots = (slots() / 2) as u32;
    constants.retransmit_has_error = (tracepoint_arguments(btf, "tcp_retransmit_skb") > 2).into();
    constants.sample_slices = options.by_operation.into();
    for wait in WAITS {
        if let Some(byte) = constants.wait_set.get_mut(wait.id().cast_unsigned() as usize >> 3) {
            *byte |= 1 << (wait.id() & 7);
        }
    }
    if hardware {
        constants.cycle_mode = types::cycle_mode::CYCLES_SPLIT;
    }
}

/// Returns the number of families counted separately: fewer on machines with many CPUs, which each have a copy.
fn slots() -> usize {
    let cpus = libbpf_rs::num_possible_cpus().unwrap_or(1).max(1);
    (SLOT_BYTES / (size_of::<types::totals>() * cpus)).clamp(MIN_SLOTS, MAX_SLOTS)
}

/// Returns why an optional program is not loaded.
fn absence(name: &str, options: &CounterOptions, btf: &Btf<'_>, refused: Option<&str>) -> Option<String> {
    if REQUIRED.contains(&name) || name == EMPTY {
        return None;
    }
    if SOFTIRQ.contains(&name) && !options.softirq {
        return Some("was not asked for (--softirq)".to_owned());
    }
    if !has_tracepoint(btf, name) {
        return Some("does not exist in this kernel".to_owned());
    }
    refused.map(|reason| format!("cannot be used: {reason}"))
}

fn install(cycles: Result<CycleEvents, String>, table: &MapHandle) -> Result<CycleEvents, String> {
    let events = cycles?;
    events.install(table).map_err(|error| format!("perf events cannot be given to BPF: {error:#}"))?;
    Ok(events)
}
