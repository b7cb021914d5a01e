//! Snapshots of all BPF maps, and their differences.

use crate::bpf::CounterPrograms;
use crate::clock::ClockStamp;
use crate::cycles::CycleEvents;
use crate::error::Error;
use crate::object::{Plain, bytes_of, lookup, plain, plain_types};
use crate::skeleton::types;
use crate::sums::{CounterSum, counter_sums};
use libbpf_rs::{Iter, MapCore, MapFlags, MapHandle};
use overhead_model::record::Softirq;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

/// Threads are read again if one ends meanwhile, at most this often.
const ATTEMPTS: u32 = 8;

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
    pub(crate) threads: u64,
    /// Of these, threads that had another of the slots before.
    pub(crate) moved: u64,
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
        let slots: BTreeSet<u32> = slots
            .iter()
            .copied()
            .chain(processes.iter().flat_map(|(_, process)| [process.slot, process.slot_before]))
            .filter(|slot| *slot != 0)
            .collect();
        let (mut slots, threads) = read_slots(programs, &slots)?;
        for reading in &threads {
            slots.entry(reading.slot).or_default().used.add(&reading.used);
        }
        let cpus: Vec<types::cpu> = per_cpu(&programs.cpus, 0)?;
        if let Ok(events) = &programs.cycles {
            add_running_cycles(&mut slots, &cpus, events)?;
        }
        Ok(Self { at, slots, softirq: softirq(&cpus), threads, processes })
    }

    /// Returns the CPU time of each live thread of some slots, nanoseconds.
    pub(crate) fn thread_cpu_ns(&self, slots: &BTreeSet<u32>) -> BTreeMap<u32, u64> {
        let threads = self.threads.iter().filter(|reading| slots.contains(&reading.slot));
        threads.map(|reading| (reading.tid, reading.used.cpu_ns)).collect()
    }

    pub(crate) fn since(&self, start: &Self, slots: &BTreeSet<u32>) -> SlotSums {
        let (mut sums, none) = (SlotSums::default(), SlotSums::default());
        for slot in slots {
            let (now, then) = (self.slots.get(slot), start.slots.get(slot));
            sums.add(&now.unwrap_or(&none).since(then.unwrap_or(&none)));
        }
        sums
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
            sums.compat.entry(key.number).or_default().add(&call);
        }
    }
    Ok((before, threads))
}

fn read_slot(programs: &CounterPrograms, slot: u32) -> Result<SlotSums, Error> {
    let mut sums = SlotSums::default();
    for cpu in per_cpu::<types::totals>(&programs.totals, slot)? {
        sums.add_totals(&cpu);
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
    table.keys().filter_map(|key| Some((plain(&key)?, lookup(table, &key).ok()??))).collect()
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
            Some((pid, lookup(&programs.processes, &key).ok()??))
        })
        .collect();
    list.sort_by_key(|(pid, process)| (process.since_ns, *pid));
    list
}

/// Gives a process a slot unless it has one.
pub(crate) fn enlist(programs: &CounterPrograms, pid: u32, process: &types::process) -> Result<bool, Error> {
    let known: Option<types::process> = lookup(&programs.processes, &pid.to_ne_bytes())?;
    if known.is_some_and(|known| known.alive != 0) {
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
    /// Adds one CPU's sums.
    fn add_totals(&mut self, cpu: &types::totals) {
        self.add(&Self {
            calls: cpu.calls.to_vec(),
            compat: BTreeMap::new(),
            used: cpu.ended,
            wakeups: cpu.wakeups,
            socket: cpu.socket,
            elsewhere_bytes: cpu.elsewhere_bytes,
            retransmissions: cpu.retransmissions,
            cycles: cpu.cycles,
            nameless: cpu.nameless,
            threads: cpu.threads,
            moved: cpu.moved,
            settlements: cpu.settlements,
        });
    }

    /// Iterates over native and 32-bit calls.
    pub(crate) fn all_calls(&self) -> impl Iterator<Item = &types::call> {
        self.calls.iter().chain(self.compat.values())
    }

    pub(crate) fn socket_bytes(&self) -> u64 {
        self.socket.send_bytes + self.socket.recv_bytes
    }
}

counter_sums! {
    SlotSums {
        calls, compat, used, wakeups, socket, elsewhere_bytes, retransmissions, cycles, nameless, threads, moved, settlements,
    }
}

/// Adds the cycles since the last context switch of running threads.
fn add_running_cycles(slots: &mut SlotTable, cpus: &[types::cpu], events: &CycleEvents) -> Result<(), Error> {
    for (number, cpu) in cpus.iter().enumerate() {
        if cpu.cycles_tid != 0 && cpu.cycles_slot != 0 {
            let now = events.read(number as u32)?;
            slots.entry(cpu.cycles_slot).or_default().cycles.add(&now.since(&cpu.cycles_from));
        }
    }
    Ok(())
}

fn softirq(cpus: &[types::cpu]) -> Softirq {
    let mut sum = Softirq::default();
    for &types::cpu { rx_count, rx_ns, tx_count, tx_ns, .. } in cpus {
        sum.add(&Softirq { rx_count, rx_ns, tx_count, tx_ns });
    }
    sum
}
