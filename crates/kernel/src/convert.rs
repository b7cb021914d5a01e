//! Converts differences of BPF maps to the run record.

use crate::bpf::{CounterPrograms, RETRANSMISSIONS, SOCKET, SWITCHES, WAKEUPS};
use crate::clock::tick_ns;
use crate::skeleton::types;
use crate::snapshot::SlotSums;
use crate::split::SplitEvidence;
use crate::sums::CounterSum;
use overhead_model::record::{ContextSwitches, CycleSource, Cycles, Measured, OnCpu, Role, Socket, Syscall};
use std::collections::BTreeMap;
use syscalls::Sysno;

pub(crate) struct CountedProcesses {
    pub(crate) pids: Vec<u32>,
    pub(crate) comms: Vec<String>,
}

pub(crate) struct RecordContext<'programs> {
    pub(crate) programs: &'programs CounterPrograms,
    pub(crate) ticks_per_ns: Option<f64>,
    pub(crate) ports_given: bool,
}

impl RecordContext<'_> {
    pub(crate) fn role(&self, family: CountedProcesses, sums: &SlotSums) -> Role {
        let on_cpu = evidence(sums).split();
        Role {
            pids: family.pids,
            comms: family.comms,
            containers: Vec::new(),
            syscalls: syscalls(sums),
            cycles: self.cycles(sums, &on_cpu),
            on_cpu_ns: Measured::Value(on_cpu),
            threads: 0,
            busiest_thread_ns: Measured::unavailable("threads are not looked at"),
            context_switches: Measured::Value(ContextSwitches {
                voluntary: sums.used.voluntary,
                involuntary: sums.used.involuntary,
            }),
            migrations: Measured::Value(sums.used.migrations),
            wakeups: self.measured(&WAKEUPS, sums.wakeups),
            socket: self.measured(&SOCKET, socket(&sums.socket)),
            retransmissions: self.retransmissions(sums.retransmissions),
            coverage: Measured::unavailable("not compared with a capture"),
            captured_share: Measured::unavailable("not compared with a capture"),
            withheld: None,
            since_connect: None,
        }
    }

    /// Returns the value unless one of its programs does not run.
    pub(crate) fn measured<T>(&self, programs: &[&str], value: T) -> Measured<T> {
        self.programs.absence(programs).map_or(Ok(value), Err).into()
    }

    fn retransmissions(&self, count: u64) -> Measured<u64> {
        if self.ports_given {
            self.measured(&RETRANSMISSIONS, count)
        } else {
            Measured::unavailable("retransmissions are counted by port, and no port was given")
        }
    }

    fn cycles(&self, sums: &SlotSums, on_cpu: &OnCpu) -> Measured<Cycles> {
        let reason = match (&self.programs.cycles, self.programs.absence(&SWITCHES)) {
            (Ok(_), None) => return Measured::Value(hardware(&sums.cycles)),
            (Ok(_), Some(reason)) => reason,
            (Err(reason), _) => reason.clone(),
        };
        let rate = self
            .ticks_per_ns
            .ok_or_else(|| format!("{reason}; and the window is too short for the rate of the time-stamp counter"));
        rate.map(|rate| reference(on_cpu, rate, reason)).into()
    }
}

fn reference(on_cpu: &OnCpu, rate: f64, reason: String) -> Cycles {
    let ticks = |ns: u64| (ns as f64 * rate).round() as u64;
    Cycles {
        user: ticks(on_cpu.user),
        kernel: ticks(on_cpu.kernel),
        source: CycleSource::Reference,
        reason: Some(reason),
        ticks_per_ns: Some(rate),
    }
}

/// Scales up cycles of a counter that was multiplexed with others, and gives the reason.
fn hardware(cycles: &types::cycle_use) -> Cycles {
    let mut reasons = Vec::new();
    let mut scale = 1.0;
    if cycles.running_ns > 0 && cycles.running_ns < cycles.enabled_ns {
        scale = cycles.enabled_ns as f64 / cycles.running_ns as f64;
        reasons.push(format!("the counter ran {:.0}% of the time; scaled", 100.0 / scale));
    }
    if cycles.missed > 0 {
        reasons.push(format!("excludes {} slices whose beginning was not seen", cycles.missed));
    }
    Cycles {
        user: (cycles.user as f64 * scale).round() as u64,
        kernel: (cycles.kernel as f64 * scale).round() as u64,
        source: CycleSource::Hardware,
        reason: (!reasons.is_empty()).then(|| reasons.join("; ")),
        ticks_per_ns: None,
    }
}

pub(crate) fn socket(used: &types::socket_use) -> Socket {
    Socket {
        send_calls: used.send_calls,
        send_bytes: used.send_bytes,
        recv_calls: used.recv_calls,
        recv_bytes: used.recv_bytes,
    }
}

fn evidence(sums: &SlotSums) -> SplitEvidence {
    SplitEvidence {
        cpu_ns: sums.used.cpu_ns,
        user_ns: sums.used.user_ns,
        system_ns: sums.used.system_ns,
        tick_ns: tick_ns(),
        calls: sums.all_calls().map(|call| call.count).sum(),
        timed: sums.all_calls().map(|call| call.timed).sum(),
        faults: sums.used.faults,
        calls_ns: sums.all_calls().filter_map(estimate_ns).sum(),
    }
}

/// Extrapolates the time of all calls of one number from the timed ones.
fn estimate_ns(call: &types::call) -> Option<u64> {
    let whole = u128::from(call.timed_ns) * u128::from(call.count);
    whole.checked_div(u128::from(call.timed)).map(|ns| ns as u64)
}

/// Merges 32-bit and native calls of the same name.
fn syscalls(sums: &SlotSums) -> BTreeMap<String, Syscall> {
    let last = sums.calls.len().saturating_sub(1);
    let native = sums.calls.iter().enumerate().map(|(number, call)| (syscall_name(number, last), call));
    let compat = sums.compat.iter().map(|(number, call)| (compat_name(*number), call));
    let mut named: BTreeMap<String, types::call> = BTreeMap::new();
    for (name, call) in native.chain(compat).filter(|(_, call)| call.count > 0) {
        named.entry(name).or_default().add(call);
    }
    let ns = |call: &types::call| estimate_ns(call).ok_or("none of these calls was timed").into();
    let syscall = |call: types::call| Syscall { count: call.count, errors: call.errors, ns: ns(&call) };
    named.into_iter().map(|(name, call)| (name, syscall(call))).collect()
}

pub(crate) fn syscall_name(number: usize, last: usize) -> String {
    match Sysno::new(number) {
        Some(known) => known.name().to_owned(),
        None if number == last => "other".to_owned(),
        None => format!("syscall_{number}"),
    }
}

#[cfg(target_arch = "x86_64")]
use syscalls::x86::Sysno as CompatSysno;

#[cfg(target_arch = "aarch64")]
use syscalls::arm::Sysno as CompatSysno;

fn compat_name(number: u32) -> String {
    CompatSysno::new(number as usize).map_or_else(|| format!("syscall32_{number}"), |known| known.name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_names_and_the_last_slot_is_for_the_rest() {
        let getppid = Sysno::getppid.id() as usize;
        assert_eq!(syscall_name(getppid, 511), "getppid");
        assert_eq!(syscall_name(510, 511), "syscall_510");
        assert_eq!(syscall_name(511, 511), "other");
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn calls_of_32_bit_programs_have_the_names_of_their_own_table() {
        // 64 is getppid there, and semget in the 64-bit table.
        assert_eq!((compat_name(64), syscall_name(64, 511)), ("getppid".to_owned(), "semget".to_owned()));
        assert_eq!(compat_name(9_999), "syscall32_9999");
    }

    #[test]
    fn a_call_of_both_tables_is_one() {
        let call = types::call { count: 2, ..types::call::default() };
        let mut sums = SlotSums::default();
        sums.calls.resize(512, types::call::default());
        sums.calls[Sysno::getppid.id() as usize] = call;
        sums.compat.insert(CompatSysno::getppid.id() as u32, call);
        let calls = syscalls(&sums);
        assert_eq!(calls.iter().map(|(name, call)| (name.as_str(), call.count)).collect::<Vec<_>>(), [("getppid", 4)]);
    }

    #[test]
    fn time_of_all_calls_is_that_of_the_timed_ones_scaled() {
        let call = types::call { count: 160, errors: 0, timed: 10, timed_ns: 5_000 };
        assert_eq!(estimate_ns(&call), Some(80_000));
        assert_eq!(estimate_ns(&types::call { timed: 0, ..call }), None);
    }

    #[test]
    fn a_shared_counter_is_scaled_and_marked() {
        let cycles = hardware(&types::cycle_use { user: 100, kernel: 50, enabled_ns: 200, running_ns: 100, missed: 0 });
        assert_eq!((cycles.user, cycles.kernel), (200, 100));
        assert!(cycles.reason.unwrap().contains("50%"));
    }

    #[test]
    fn a_counter_that_ran_all_the_time_has_no_reason() {
        let cycles = hardware(&types::cycle_use { user: 1, kernel: 2, enabled_ns: 9, running_ns: 9, missed: 0 });
        assert_eq!((cycles.user, cycles.kernel, cycles.reason), (1, 2, None));
    }

    #[test]
    fn reference_cycles_say_so() {
        let on_cpu = SplitEvidence { cpu_ns: 1_000, ..SplitEvidence::default() }.split();
        let cycles = reference(&on_cpu, 2.5, "no PMU".to_owned());
        assert_eq!((cycles.user, cycles.source, cycles.ticks_per_ns), (2_500, CycleSource::Reference, Some(2.5)));
    }
}
