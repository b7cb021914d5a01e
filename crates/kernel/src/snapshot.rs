//! One reading of all tables, and the difference of two.

use crate::bpf::Programs;
use crate::clock::Stamp;
use crate::cycles::CycleEvents;
use crate::error::Error;
use crate::options::Role;
use crate::skeleton::types;
use libbpf_rs::{Iter, MapCore, MapFlags, MapHandle};
use overhead_model::record::Softirq;
use std::io::Read;

/// Readings of the threads are repeated while threads end meanwhile, this often at most.
const ATTEMPTS: u32 = 8;

/// Types of `bpf/overhead.h`, which are nothing but numbers and arrays of numbers.
///
/// # Safety
///
/// Every bit pattern must be a value of the type.
unsafe trait Plain: Copy {}

// SAFETY: integers and arrays of integers; an enum of the header is a wrapped integer here.
unsafe impl Plain for types::totals {}
// SAFETY: as above.
unsafe impl Plain for types::cpu {}
// SAFETY: as above.
unsafe impl Plain for types::process {}
// SAFETY: as above.
unsafe impl Plain for types::reading {}

/// The value at the front of `bytes`; `None` when there are too few.
fn plain<T: Plain>(bytes: &[u8]) -> Option<T> {
    // SAFETY: the length was checked, the read need not be aligned, and any bytes are a `T`.
    (bytes.len() >= size_of::<T>()).then(|| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// The bytes of a value, for a table.
fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: the value is `size_of::<T>()` bytes long, and types of the header have no padding between their members.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// Sums of one role since the programs were loaded.
#[derive(Clone, Debug)]
pub(crate) struct RoleSums {
    pub(crate) calls: Vec<types::call>,
    pub(crate) used: types::usage,
    pub(crate) wakeups: u64,
    pub(crate) socket: types::socket_use,
    pub(crate) retransmissions: u64,
    pub(crate) cycles: types::cycle_use,
    pub(crate) nameless: u64,
    settlements: u64,
}

/// Everything at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) at: Stamp,
    pub(crate) roles: [RoleSums; 2],
    pub(crate) softirq: Softirq,
    pub(crate) threads: Vec<types::reading>,
}

impl Snapshot {
    /// Reads everything. Threads of processes that were given a role since get it here.
    pub(crate) fn take(programs: &Programs) -> Result<Self, Error> {
        let at = Stamp::now();
        let (mut roles, threads) = read_roles(programs)?;
        for reading in &threads {
            if let Some(role) = Role::of(reading.role) {
                add_usage(&mut roles[role.index()].used, &reading.used);
            }
        }
        let cpus: Vec<types::cpu> = per_cpu(&programs.cpus, 0)?;
        if let Ok(events) = &programs.cycles {
            add_running_cycles(&mut roles, &cpus, events)?;
        }
        Ok(Self { at, roles, softirq: softirq(&cpus), threads })
    }

    /// What happened to a role since an earlier reading.
    pub(crate) fn since(&self, start: &Self, role: Role) -> RoleSums {
        self.roles[role.index()].since(&start.roles[role.index()])
    }

    /// What happened to the machine since an earlier reading.
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

/// The sums of both roles without the live threads, and the live threads, of one moment.
fn read_roles(programs: &Programs) -> Result<([RoleSums; 2], Vec<types::reading>), Error> {
    let mut roles = [read_role(programs, Role::Server)?, read_role(programs, Role::Client)?];
    for _ in 1..ATTEMPTS {
        let threads = read_threads(programs)?;
        let again = [read_role(programs, Role::Server)?, read_role(programs, Role::Client)?];
        let same = roles.iter().zip(&again).all(|(before, after)| before.settlements == after.settlements);
        roles = again;
        if same {
            return Ok((roles, threads));
        }
    }
    Ok((roles, read_threads(programs)?))
}

fn read_role(programs: &Programs, role: Role) -> Result<RoleSums, Error> {
    let mut sums = RoleSums::none();
    for cpu in per_cpu::<types::totals>(&programs.totals, role.tag().0)? {
        sums.add(&cpu);
    }
    Ok(sums)
}

/// The live threads that have a role.
pub(crate) fn read_threads(programs: &Programs) -> Result<Vec<types::reading>, Error> {
    let mut bytes = Vec::new();
    Iter::new(&programs.threads)?.read_to_end(&mut bytes)?;
    Ok(bytes.chunks_exact(size_of::<types::reading>()).filter_map(plain).collect())
}

/// The copies that the CPUs have of one entry.
fn per_cpu<T: Plain>(table: &MapHandle, key: u32) -> Result<Vec<T>, Error> {
    let copies = table.lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY)?.unwrap_or_default();
    Ok(copies.iter().filter_map(|bytes| plain(bytes)).collect())
}

/// The processes that have or had a role, in order of appearance.
pub(crate) fn processes(programs: &Programs) -> Vec<(u32, types::process)> {
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

/// Gives a process a role, unless it has one.
pub(crate) fn enlist(programs: &Programs, pid: u32, process: &types::process) -> Result<bool, Error> {
    let known = programs.processes.lookup(&pid.to_ne_bytes(), MapFlags::ANY)?;
    if known.and_then(|bytes| plain::<types::process>(&bytes)).is_some_and(|known| known.alive != 0) {
        return Ok(false);
    }
    programs.processes.update(&pid.to_ne_bytes(), bytes_of(process), MapFlags::ANY)?;
    Ok(true)
}

/// Forgets a process that has ended.
pub(crate) fn forget(programs: &Programs, pid: u32) {
    // It may be gone, which is what was wanted.
    let _ = programs.processes.delete(&pid.to_ne_bytes());
}

impl RoleSums {
    fn none() -> Self {
        Self {
            calls: Vec::new(),
            used: types::usage::default(),
            wakeups: 0,
            socket: types::socket_use::default(),
            retransmissions: 0,
            cycles: types::cycle_use::default(),
            nameless: 0,
            settlements: 0,
        }
    }

    fn add(&mut self, cpu: &types::totals) {
        self.calls.resize(cpu.calls.len(), types::call::default());
        for (sum, call) in self.calls.iter_mut().zip(&cpu.calls) {
            sum.count += call.count;
            sum.errors += call.errors;
            sum.timed += call.timed;
            sum.timed_ns += call.timed_ns;
        }
        add_usage(&mut self.used, &cpu.ended);
        self.wakeups += cpu.wakeups;
        self.socket.send_calls += cpu.socket.send_calls;
        self.socket.send_bytes += cpu.socket.send_bytes;
        self.socket.recv_calls += cpu.socket.recv_calls;
        self.socket.recv_bytes += cpu.socket.recv_bytes;
        self.retransmissions += cpu.retransmissions;
        add_cycles(&mut self.cycles, &cpu.cycles);
        self.nameless += cpu.nameless;
        self.settlements += cpu.settlements;
    }

    fn since(&self, start: &Self) -> Self {
        let calls = self.calls.iter().zip(&start.calls).map(|(now, then)| call_since(now, then)).collect();
        Self {
            calls,
            used: usage_since(&self.used, &start.used),
            wakeups: self.wakeups.saturating_sub(start.wakeups),
            socket: types::socket_use {
                send_calls: self.socket.send_calls.saturating_sub(start.socket.send_calls),
                send_bytes: self.socket.send_bytes.saturating_sub(start.socket.send_bytes),
                recv_calls: self.socket.recv_calls.saturating_sub(start.socket.recv_calls),
                recv_bytes: self.socket.recv_bytes.saturating_sub(start.socket.recv_bytes),
            },
            retransmissions: self.retransmissions.saturating_sub(start.retransmissions),
            cycles: cycles_since(&self.cycles, &start.cycles),
            nameless: self.nameless.saturating_sub(start.nameless),
            settlements: self.settlements.saturating_sub(start.settlements),
        }
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

/// Adds the cycles of the slices that are not over.
fn add_running_cycles(roles: &mut [RoleSums; 2], cpus: &[types::cpu], events: &CycleEvents) -> Result<(), Error> {
    for (number, cpu) in cpus.iter().enumerate() {
        let Some(role) = Role::of(cpu.cycles_role).filter(|_| cpu.cycles_tid != 0) else { continue };
        let now = events.read(number as u32)?;
        add_cycles(&mut roles[role.index()].cycles, &cycles_since(&now, &cpu.cycles_from));
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
