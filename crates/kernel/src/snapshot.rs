//! Snapshots of all BPF maps, and their differences.

use crate::bpf::CounterPrograms;
use crate::clock::ClockStamp;
use crate::cycles::CycleEvents;
use crate::error::Error;
use crate::skeleton::types;
use libbpf_rs::{Iter, MapCore, MapFlags, MapHandle};
use overhead_model::record::Softirq;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

/// Threads are read again if one ends meanwhile, at most this often.
const ATTEMPTS: u32 = 8;

/// Types of the headers in `bpf/` that are made of integers only.
///
/// # Safety
///
/// Every bit pattern must be a valid value of the type.
pub(crate) unsafe trait Plain: Copy {}

macro_rules! plain_types {
    ($($type:ty),+ $(,)?) => {$(
        // SAFETY: integers and arrays of integers; the headers' enums are wrapped integers here.
        unsafe impl $crate::snapshot::Plain for $type {}
    )+};
}
pub(crate) use plain_types;

plain_types!(
    types::totals,
    types::cpu,
    types::process,
    types::reading,
    types::call,
    types::compat_key,
    types::connection_key,
    types::connection,
    types::slice,
    types::sampling_window,
    types::timing_window,
);

/// Reads a value from the start of `bytes`; `None` if there are too few.
pub(crate) fn plain<T: Plain>(bytes: &[u8]) -> Option<T> {
    // SAFETY: the length was checked, the read need not be aligned, and any bytes are a `T`.
    (bytes.len() >= size_of::<T>()).then(|| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

pub(crate) fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: the value is `size_of::<T>()` bytes long, and the header's types have no padding.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// Sums since the programs were loaded.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlotSums {
    pub(crate) calls: Vec<types::call>,
    /// Calls by 32-bit programs, by number.
    pub(crate) compat: BTreeMap<u32, types::call>,
    pub(crate) used: types::usage,
    pub(crate) wakeups: u64,
    pub(crate) socket: types::socket_use,
    pub(crate) elsewhere_bytes: u64,
    pub(crate) retransmissions: u64,
    pub(crate) cycles: types::cycle_use,
    pub(crate) nameless: u64,
    settlements: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct CounterSnapshot {
    pub(crate) at: ClockStamp,
    pub(crate) slots: BTreeMap<u32, SlotSums>,
    pub(crate) softirq: Softirq,
    pub(crate) threads: Vec<types::reading>,
    /// In order of appearance.
    pub(crate) processes: Vec<(u32, types::process)>,
}

impl CounterSnapshot {
    /// Reads `slots` and all known processes' slots. This also gives new processes' existing threads their slot.
    pub(crate) fn take(programs: &CounterPrograms, slots: &BTreeSet<u32>) -> Result<Self, Error> {
        let at = ClockStamp::now();
        let processes = processes(programs);
        let slots: BTreeSet<u32> =
            slots.iter().copied().chain(processes.iter().map(|(_, process)| process.slot)).collect();
        let (mut slots, threads) = read_slots(programs, &slots)?;
        for reading in &threads {
            add_usage(&mut slots.entry(reading.slot).or_default().used, &reading.used);
        }
        let cpus: Vec<types::cpu> = per_cpu(&programs.cpus, 0)?;
        if let Ok(events) = &programs.cycles {
            add_running_cycles(&mut slots, &cpus, events)?;
        }
        Ok(Self { at, slots, softirq: softirq(&cpus), threads, processes })
    }

    pub(crate) fn since(&self, start: &Self, slots: &BTreeSet<u32>) -> SlotSums {
        let (mut sums, none) = (SlotSums::default(), SlotSums::default());
        for slot in slots {
            let (now, then) = (self.slots.get(slot), start.slots.get(slot));
            sums.merge(&now.unwrap_or(&none).since(then.unwrap_or(&none)));
        }
        sums
    }

    /// Returns the machine's network softirqs since an earlier snapshot.
    pub(crate) fn softirq_since(&self, start: &Self) -> Softirq {
        let (now, then) = (&self.softirq, &start.softirq);
        Softirq {
            rx_count: now.rx_count.saturating_sub(then.rx_count),
            rx_ns: now.rx_ns.saturating_sub(then.rx_ns),
            tx_count: now.tx_count.saturating_sub(then.tx_count),
            tx_ns: now.tx_ns.saturating_sub(then.tx_ns),
        }
    }
}

type SlotTable = BTreeMap<u32, SlotSums>;

/// Reads the slots, which lack their live threads, and these threads, consistently.
fn read_slots(programs: &CounterPrograms, slots: &BTreeSet<u32>) -> Result<(SlotTable, Vec<types::reading>), Error> {
    let read =
        || slots.iter().map(|slot| Ok((*slot, read_slot(programs, *slot)?))).collect::<Result<SlotTable, Error>>();
    let mut before = read()?;
    let mut threads = read_threads(programs)?;
    for _ in 1..ATTEMPTS {
        let after = read()?;
        let same = before.values().zip(after.values()).all(|(before, after)| before.settlements == after.settlements);
        before = after;
        if same {
            break;
        }
        threads = read_threads(programs)?;
    }
    for (key, call) in compat_calls(programs)? {
        if let Some(sums) = before.get_mut(&key.slot) {
            add_call(sums.compat.entry(key.number).or_default(), &call);
        }
    }
    Ok((before, threads))
}

fn read_slot(programs: &CounterPrograms, slot: u32) -> Result<SlotSums, Error> {
    let mut sums = SlotSums::default();
    for cpu in per_cpu::<types::totals>(&programs.totals, slot)? {
        sums.add(&cpu);
    }
    Ok(sums)
}

/// Returns one entry per call and CPU.
fn compat_calls(programs: &CounterPrograms) -> Result<Vec<(types::compat_key, types::call)>, Error> {
    let mut calls = Vec::new();
    for key in programs.compat_calls.keys() {
        let copies = programs.compat_calls.lookup_percpu(&key, MapFlags::ANY)?.unwrap_or_default();
        if let Some(key) = plain::<types::compat_key>(&key) {
            calls.extend(copies.iter().filter_map(|bytes| Some((key, plain(bytes)?))));
        }
    }
    Ok(calls)
}

pub(crate) fn connections(programs: &CounterPrograms) -> Vec<(types::connection_key, types::connection)> {
    let table = &programs.connections;
    let owner = |key: &[u8]| plain(&table.lookup(key, MapFlags::ANY).ok()??);
    table.keys().filter_map(|key| Some((plain(&key)?, owner(&key)?))).collect()
}

/// Returns the live threads that have a slot.
pub(crate) fn read_threads(programs: &CounterPrograms) -> Result<Vec<types::reading>, Error> {
    let mut bytes = Vec::new();
    Iter::new(&programs.threads)?.read_to_end(&mut bytes)?;
    Ok(bytes.chunks_exact(size_of::<types::reading>()).filter_map(plain).collect())
}

/// Reads all CPUs' copies of an entry.
fn per_cpu<T: Plain>(table: &MapHandle, key: u32) -> Result<Vec<T>, Error> {
    let copies = table.lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY)?.unwrap_or_default();
    Ok(copies.iter().filter_map(|bytes| plain(bytes)).collect())
}

/// Returns all processes that have or had a slot, in order of appearance.
pub(crate) fn processes(programs: &CounterPrograms) -> Vec<(u32, types::process)> {
    let mut list: Vec<(u32, types::process)> = programs
        .processes
        .keys()
        .filter_map(|key| {
            let pid = u32::from_ne_bytes(key.as_slice().try_into().ok()?);
            let value = programs.processes.lookup(&key, MapFlags::ANY).ok()??;
            Some((pid, plain(&value)?))
        })
        .collect();
    list.sort_by_key(|(pid, process)| (process.since_ns, *pid));
    list
}

/// Gives a process a slot unless it has one.
pub(crate) fn enlist(programs: &CounterPrograms, pid: u32, process: &types::process) -> Result<bool, Error> {
    let known = programs.processes.lookup(&pid.to_ne_bytes(), MapFlags::ANY)?;
    if known.and_then(|bytes| plain::<types::process>(&bytes)).is_some_and(|known| known.alive != 0) {
        return Ok(false);
    }
    programs.processes.update(&pid.to_ne_bytes(), bytes_of(process), MapFlags::ANY)?;
    Ok(true)
}

pub(crate) fn forget(programs: &CounterPrograms, pid: u32) {
    // It may be gone already.
    let _ = programs.processes.delete(&pid.to_ne_bytes());
}

impl SlotSums {
    fn add(&mut self, cpu: &types::totals) {
        self.add_calls(&cpu.calls);
        add_usage(&mut self.used, &cpu.ended);
        self.wakeups += cpu.wakeups;
        add_socket(&mut self.socket, &cpu.socket);
        self.elsewhere_bytes += cpu.elsewhere_bytes;
        self.retransmissions += cpu.retransmissions;
        add_cycles(&mut self.cycles, &cpu.cycles);
        self.nameless += cpu.nameless;
        self.settlements += cpu.settlements;
    }

    fn add_calls(&mut self, calls: &[types::call]) {
        self.calls.resize(calls.len().max(self.calls.len()), types::call::default());
        self.calls.iter_mut().zip(calls).for_each(|(sum, call)| add_call(sum, call));
    }

    fn merge(&mut self, other: &Self) {
        self.add_calls(&other.calls);
        for (number, call) in &other.compat {
            add_call(self.compat.entry(*number).or_default(), call);
        }
        add_usage(&mut self.used, &other.used);
        self.wakeups += other.wakeups;
        add_socket(&mut self.socket, &other.socket);
        self.elsewhere_bytes += other.elsewhere_bytes;
        self.retransmissions += other.retransmissions;
        add_cycles(&mut self.cycles, &other.cycles);
        self.nameless += other.nameless;
    }

    fn since(&self, start: &Self) -> Self {
        let none = types::call::default();
        let then = start.calls.iter().chain(std::iter::repeat(&none));
        let calls = self.calls.iter().zip(then).map(|(now, then)| call_since(now, then)).collect();
        let compat = self.compat.iter();
        Self {
            calls,
            compat: compat.map(|(n, now)| (*n, call_since(now, start.compat.get(n).unwrap_or(&none)))).collect(),
            used: usage_since(&self.used, &start.used),
            wakeups: self.wakeups.saturating_sub(start.wakeups),
            socket: socket_since(&self.socket, &start.socket),
            elsewhere_bytes: self.elsewhere_bytes.saturating_sub(start.elsewhere_bytes),
            retransmissions: self.retransmissions.saturating_sub(start.retransmissions),
            cycles: cycles_since(&self.cycles, &start.cycles),
            nameless: self.nameless.saturating_sub(start.nameless),
            settlements: self.settlements.saturating_sub(start.settlements),
        }
    }

    /// Iterates over native and 32-bit calls.
    pub(crate) fn all_calls(&self) -> impl Iterator<Item = &types::call> {
        self.calls.iter().chain(self.compat.values())
    }

    pub(crate) fn socket_bytes(&self) -> u64 {
        self.socket.send_bytes + self.socket.recv_bytes
    }
}

pub(crate) fn add_call(sum: &mut types::call, call: &types::call) {
    sum.count += call.count;
    sum.errors += call.errors;
    sum.timed += call.timed;
    sum.timed_ns += call.timed_ns;
}

fn add_socket(sum: &mut types::socket_use, more: &types::socket_use) {
    sum.send_calls += more.send_calls;
    sum.send_bytes += more.send_bytes;
    sum.recv_calls += more.recv_calls;
    sum.recv_bytes += more.recv_bytes;
}

fn socket_since(now: &types::socket_use, then: &types::socket_use) -> types::socket_use {
    types::socket_use {
        send_calls: now.send_calls.saturating_sub(then.send_calls),
        send_bytes: now.send_bytes.saturating_sub(then.send_bytes),
        recv_calls: now.recv_calls.saturating_sub(then.recv_calls),
        recv_bytes: now.recv_bytes.saturating_sub(then.recv_bytes),
    }
}

fn call_since(now: &types::call, then: &types::call) -> types::call {
    types::call {
        count: now.count.saturating_sub(then.count),
        errors: now.errors.saturating_sub(then.errors),
        timed: now.timed.saturating_sub(then.timed),
        timed_ns: now.timed_ns.saturating_sub(then.timed_ns),
    }
}

fn add_usage(sum: &mut types::usage, more: &types::usage) {
    sum.cpu_ns += more.cpu_ns;
    sum.user_ns += more.user_ns;
    sum.system_ns += more.system_ns;
    sum.voluntary += more.voluntary;
    sum.involuntary += more.involuntary;
    sum.migrations += more.migrations;
    sum.faults += more.faults;
}

fn usage_since(now: &types::usage, then: &types::usage) -> types::usage {
    types::usage {
        cpu_ns: now.cpu_ns.saturating_sub(then.cpu_ns),
        user_ns: now.user_ns.saturating_sub(then.user_ns),
        system_ns: now.system_ns.saturating_sub(then.system_ns),
        voluntary: now.voluntary.saturating_sub(then.voluntary),
        involuntary: now.involuntary.saturating_sub(then.involuntary),
        migrations: now.migrations.saturating_sub(then.migrations),
        faults: now.faults.saturating_sub(then.faults),
    }
}

fn add_cycles(sum: &mut types::cycle_use, more: &types::cycle_use) {
    sum.user += more.user;
    sum.kernel += more.kernel;
    sum.enabled_ns += more.enabled_ns;
    sum.running_ns += more.running_ns;
    sum.missed += more.missed;
}

fn cycles_since(now: &types::cycle_use, then: &types::cycle_use) -> types::cycle_use {
    types::cycle_use {
        user: now.user.saturating_sub(then.user),
        kernel: now.kernel.saturating_sub(then.kernel),
        enabled_ns: now.enabled_ns.saturating_sub(then.enabled_ns),
        running_ns: now.running_ns.saturating_sub(then.running_ns),
        missed: now.missed.saturating_sub(then.missed),
    }
}

/// Adds the cycles since the last context switch of running threads.
fn add_running_cycles(slots: &mut SlotTable, cpus: &[types::cpu], events: &CycleEvents) -> Result<(), Error> {
    for (number, cpu) in cpus.iter().enumerate() {
        if cpu.cycles_tid != 0 && cpu.cycles_slot != 0 {
            let now = events.read(number as u32)?;
            let sums = slots.entry(cpu.cycles_slot).or_default();
            add_cycles(&mut sums.cycles, &cycles_since(&now, &cpu.cycles_from));
        }
    }
    Ok(())
}

fn softirq(cpus: &[types::cpu]) -> Softirq {
    cpus.iter().fold(Softirq::default(), |sum, cpu| Softirq {
        rx_count: sum.rx_count + cpu.rx_count,
        rx_ns: sum.rx_ns + cpu.rx_ns,
        tx_count: sum.tx_count + cpu.tx_count,
        tx_ns: sum.tx_ns + cpu.tx_ns,
    })
}
