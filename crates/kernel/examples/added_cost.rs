//! Added nanoseconds per system call, for a loop of getppid in this process: without counting, as a process of no role,
//! as the server, and with the programs' own cost measured too. `cargo run --release -p overhead-kernel --example added_cost`
//!
//! The figures are the lowest of several rounds, each round going through all cases, so that a slow moment of the machine
//! falls on all alike.

use overhead_kernel::{Counters, CycleChoice, Options, OwnCost, Role, Selection};
use overhead_model::record::Counters as Record;
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 10;
const CALLS: u32 = 1_000_000;

fn main() -> Result<(), overhead_kernel::Error> {
    let mut lowest = [f64::MAX; 5];
    for _ in 0..ROUNDS {
        for (case, low) in lowest.iter_mut().enumerate() {
            *low = low.min(measure(case)?);
        }
    }
    let names =
        ["no counting", "counting others", "counted", "counted, cycles by TSC events", "counted, own cost timed"];
    for (name, low) in names.iter().zip(lowest) {
        println!("{name:30} {low:6.1} ns per call, {:+6.1} ns", low - lowest[0]);
    }
    Ok(())
}

fn measure(case: usize) -> Result<f64, overhead_kernel::Error> {
    let counters = (case > 0).then(|| load(case)).transpose()?;
    let start = Instant::now();
    for _ in 0..CALLS {
        // SAFETY: has no arguments and cannot fail.
        black_box(unsafe { libc::syscall(libc::SYS_getppid) });
    }
    let each = start.elapsed().as_nanos() as f64 / f64::from(CALLS);
    match (case, counters) {
        (2, Some(mut counters)) => print_timed(&counters.finish()?),
        (4, Some(counters)) => {
            if let Some(run_ns) = counters.bpf_ns().value() {
                println!(
                    "by bpf_stats, {:.1} ns per call, their own clocks included",
                    *run_ns as f64 / f64::from(CALLS)
                );
            }
        }
        _ => {}
    }
    Ok(each)
}

/// What timing the sampled calls shows of one: the rest of its time is before and after the clock is read.
fn print_timed(record: &Record) {
    let call = record.server.value().and_then(|server| server.syscalls.get("getppid"));
    if let Some((count, ns)) = call.and_then(|call| Some((call.count, *call.ns.value()?))) {
        println!("of a counted call, {:.1} ns are seen by timing it", ns as f64 / count as f64);
    }
}

fn load(case: usize) -> Result<Counters, overhead_kernel::Error> {
    let mut options = Options::for_ports([]);
    options.server = Selection::Named("none was named".to_owned());
    options.client = options.server.clone();
    options.cycles = if case == 3 { CycleChoice::TscAsHardware } else { CycleChoice::Best };
    options.own_cost = if case == 4 { OwnCost::Timed } else { OwnCost::Untimed };
    let mut counters = Counters::load(&options)?;
    if case > 1 {
        counters.add_process(Role::Server, std::process::id())?;
    }
    counters.begin()?;
    Ok(counters)
}
