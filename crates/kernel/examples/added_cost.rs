//! Measures the nanoseconds that programs add to a system call (getppid), for each of `CASES`. `taskset -c 1 cargo
//! run --release -p overhead-kernel --example added_cost [CALLS [ROUNDS]]`
//!
//! The clock is this thread's CPU time. Each round goes through all cases, so that slow moments affect them alike,
//! and the lowest of all rounds counts.

mod empty;

use overhead_kernel::{CounterOptions, CycleChoice, Error, KernelCounters, OwnCost, ProcessRole, ProcessSelection};
use overhead_model::record::Counters as Record;
use std::hint::black_box;
use std::time::Duration;

const ROUNDS: u32 = 10;
const CALLS: u32 = 1_000_000;
const AT_FIRST: Duration = Duration::from_millis(150);

#[derive(Clone, Copy, PartialEq)]
enum Case {
    Nothing,
    Empty,
    EmptyReturn,
    /// At the system call dispatcher, not the tracepoints.
    Return,
    EntryAndReturn,
    Others,
    Counted,
    Cycles,
    Timed,
}

const CASES: [(Case, &str); 9] = [
    (Case::Nothing, "no programs"),
    (Case::Empty, "two empty programs"),
    (Case::EmptyReturn, "an empty program at the return"),
    (Case::Return, "an empty fexit"),
    (Case::EntryAndReturn, "an empty fentry and fexit"),
    (Case::Others, "counting others"),
    (Case::Counted, "counted"),
    (Case::Cycles, "counted, cycles by TSC events"),
    (Case::Timed, "counted, own cost timed"),
];

struct Lowest {
    each: [f64; CASES.len()],
    /// By `bpf_stats`, minus the empty program's share.
    own: f64,
    /// By timing one call in sixteen.
    timed: f64,
}

fn main() -> Result<(), Error> {
    let mut lowest = Lowest { each: [f64::MAX; CASES.len()], own: f64::MAX, timed: f64::MAX };
    let mut numbers = std::env::args().skip(1).filter_map(|word| word.parse::<u32>().ok());
    let (calls, rounds) = (numbers.next().unwrap_or(CALLS), numbers.next().unwrap_or(ROUNDS));
    for _ in 0..rounds {
        for (at, (case, _)) in CASES.into_iter().enumerate() {
            match measure(case, calls, &mut lowest) {
                Ok(each) => lowest.each[at] = lowest.each[at].min(each),
                // Not every kernel has a traceable dispatcher.
                Err(error) if matches!(case, Case::Return | Case::EntryAndReturn) => {
                    println!("{}: absent: {error}", CASES[at].1);
                }
                Err(error) => return Err(error),
            }
        }
    }
    let [nothing, empty, ..] = lowest.each;
    let found = CASES.into_iter().zip(lowest.each).filter(|(_, each)| *each < f64::MAX);
    for ((_, name), each) in found {
        let (added, against) = (each - nothing, each - empty);
        println!("{name:30} {each:6.1} ns per call, {added:+6.1} ns; against two empty programs {against:+6.1} ns");
    }
    println!("by bpf_stats, net of its own clock: {:.1} ns per call", lowest.own);
    println!("of a counted call, {:.1} ns are seen by timing it", lowest.timed);
    Ok(())
}

fn measure(case: Case, calls: u32, lowest: &mut Lowest) -> Result<f64, Error> {
    let (_links, dispatcher) = match case {
        Case::Empty => (empty::attach(true)?, None),
        Case::EmptyReturn => (empty::attach(false)?, None),
        Case::Return | Case::EntryAndReturn => {
            let (links, function) = empty::attach_to_dispatcher(case == Case::EntryAndReturn)?;
            (links, Some(function))
        }
        _ => (Vec::new(), None),
    };
    let counted = matches!(case, Case::Others | Case::Counted | Case::Cycles | Case::Timed);
    let counters = counted.then(|| load(case)).transpose()?;
    let start = cpu_ns();
    for _ in 0..calls {
        // SAFETY: has no arguments and cannot fail.
        black_box(unsafe { libc::syscall(libc::SYS_getppid) });
    }
    let each = (cpu_ns() - start) as f64 / f64::from(calls);
    if let Some(function) = dispatcher {
        println!("{}: {function}", if case == Case::Return { "fexit" } else { "fentry and fexit" });
    }
    match (case, counters) {
        (Case::Counted, Some(mut counters)) => {
            lowest.timed = lowest.timed.min(timed(&counters.record_so_far()?).unwrap_or(f64::MAX));
        }
        (Case::Timed, Some(counters)) => {
            let own = counters.bpf_ns().value().map(|ns| *ns as f64 / f64::from(calls));
            lowest.own = lowest.own.min(own.unwrap_or(f64::MAX));
        }
        _ => {}
    }
    Ok(each)
}

/// Returns the part of a call that the sampled timing shows; the rest is outside its clock readings.
fn timed(record: &Record) -> Option<f64> {
    let call = record.server.value()?.syscalls.get("getppid")?;
    Some(*call.ns.value()? as f64 / call.count as f64)
}

fn cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one `timespec`, to `time`.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn load(case: Case) -> Result<KernelCounters, Error> {
    let mut options = CounterOptions::for_ports([]);
    options.server = ProcessSelection::Named("none was named".to_owned());
    options.client = options.server.clone();
    options.cycles = if case == Case::Cycles { CycleChoice::TscAsHardware } else { CycleChoice::Best };
    options.own_cost = if case == Case::Timed { OwnCost::Timed } else { OwnCost::Untimed };
    let mut counters = KernelCounters::load(&options)?;
    if case != Case::Others {
        counters.add_process(ProcessRole::Server, std::process::id())?;
    }
    counters.begin()?;
    // Until the entry program is no longer attached throughout.
    std::thread::sleep(AT_FIRST);
    Ok(counters)
}
