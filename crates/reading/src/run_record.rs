//! Turns dissected frames into the run record.

use crate::warnings::Warnings;
use overhead_dissect::{ENCRYPTED, Totals};
use overhead_model::record::{Counters, Environment, Observer, Source, Tool};
use overhead_model::{Measured, Run};
use overhead_report::{Aggregate, RunFacts, build_run};
use std::time::{Duration, Instant};

/// Facts about a run that the frames do not show.
pub struct Circumstances {
    /// Kind, inputs, selection and drops; [`run`] adds the totals of the frames.
    pub source: Source,
    /// Machine and command; `None` for files.
    pub environment: Option<Environment>,
    /// The kernel's counters of the window.
    pub counters: Measured<Counters>,
    /// Time spent in this tool's BPF programs, nanoseconds.
    pub bpf_ns: Measured<u64>,
    /// When this tool started to work on the run.
    pub started: Beginning,
}

/// The start of the work on a run, to measure what it costs.
#[derive(Clone, Copy, Debug)]
pub struct Beginning {
    time: Instant,
    own_cpu_ns: u64,
}

impl Beginning {
    /// Returns the current moment, excluding CPU time that this process spent on earlier runs.
    pub fn now() -> Self {
        Self { own_cpu_ns: own_cpu_ns().unwrap_or(0), ..Self::at_process_start() }
    }

    /// Returns the current moment, counting all CPU time of this process towards the run.
    pub fn at_process_start() -> Self {
        Self { time: Instant::now(), own_cpu_ns: 0 }
    }
}

/// Returns the record, including the exit status.
pub fn run(aggregate: &Aggregate, totals: &Totals, mut warnings: Warnings, facts: Circumstances) -> Run {
    // First, so that building the record does not count.
    let observer = observer(totals.frames, facts.bpf_ns, facts.started);
    let (operations, connections) = (aggregate.operations(), aggregate.connections());
    let encrypted = operations.iter().filter(|row| row.name == ENCRYPTED);
    let encrypted = encrypted.map(|row| row.request.wire_bytes.total + row.response.wire_bytes.total).sum();
    warnings.warn_of_encrypted(&connections, &facts.source.selection, [encrypted, totals.wire_bytes]);
    let source = Source {
        link_types: totals.link_types.iter().map(ToString::to_string).collect(),
        first_ns: totals.first_ns.unwrap_or(0),
        last_ns: totals.last_ns.unwrap_or(0),
        frames: totals.frames,
        wire_bytes: totals.wire_bytes,
        captured_bytes: totals.captured_bytes,
        truncated_frames: totals.truncated_frames,
        duplicate_frames: totals.duplicate_frames,
        malformed_frames: totals.malformed_frames,
        header_snapped_frames: totals.header_snapped_frames,
        ..facts.source
    };
    warnings.warn_of_unseen_statements(&operations);
    warnings.warn_of_load(&operations);
    warnings.warn_of_generator(&facts.counters);
    warnings.warn_of_translated_twins(&connections);
    let (warnings, exit) = warnings.settle();
    let mut run = build_run(
        aggregate,
        operations,
        connections,
        RunFacts {
            tool: Tool { name: "overhead".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() },
            environment: facts.environment,
            source,
            transport: totals.transport(),
            tcp: totals.tcp,
            other_bytes: totals.other,
            counters: facts.counters,
            observer,
            warnings,
            exit,
        },
    );
    if totals.had_two_clocks() {
        run.withhold_latencies("the two directions were captured by different clocks");
    }
    run
}

/// Returns what dissecting these frames has cost so far.
fn observer(frames: u64, bpf_ns: Measured<u64>, started: Beginning) -> Observer {
    let cpu_ns = own_cpu_ns().map_or_else(
        || Measured::unavailable("this system does not report the CPU time of a process"),
        |ns| Measured::Value(ns.saturating_sub(started.own_cpu_ns)),
    );
    Observer { cpu_ns, bpf_ns, frames_per_second: per_second(frames, started.time.elapsed()), watching: None }
}

/// Returns the CPU time of this process so far, if the system reports it.
#[cfg(unix)]
fn own_cpu_ns() -> Option<u64> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Some(u64::try_from(time.tv_sec).ok()? * 1_000_000_000 + u64::try_from(time.tv_nsec).ok()?)
}

#[cfg(not(unix))]
fn own_cpu_ns() -> Option<u64> {
    None
}

fn per_second(frames: u64, elapsed: Duration) -> Measured<u64> {
    if elapsed.is_zero() || frames == 0 {
        return Measured::unavailable("no frames");
    }
    Measured::Value((frames as f64 / elapsed.as_secs_f64()) as u64)
}
