//! The status line of a running capture, on standard error.

use super::dissecting::{CaptureProgress, SoFar};
use super::threads::CaptureThreads;
use indicatif::{ProgressBar, ProgressStyle};
use overhead_model::{Class, Measured, record, say};
use overhead_report::text::grouped;
use std::time::Instant;

/// A line that is rewritten in place on a terminal, and not shown elsewhere.
pub struct StatusLine {
    bar: ProgressBar,
    before: (Instant, CaptureProgress),
}

impl StatusLine {
    /// Returns a status line, hidden if `quiet`.
    pub fn new(quiet: bool) -> Self {
        let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed_precise} {msg}") {
            bar.set_style(style);
        }
        Self { bar, before: (Instant::now(), CaptureProgress::default()) }
    }

    /// Shows the progress of the capture.
    pub fn update(&mut self, threads: Option<&CaptureThreads>) {
        self.bar.tick();
        let Some(threads) = threads else { return };
        let now = threads.progress();
        let (at, before) = self.before;
        let seconds = at.elapsed().as_secs_f64();
        if now.frames == before.frames || seconds < 0.2 {
            return;
        }
        let rate = |now: u64, before: u64| grouped(((now - before) as f64 / seconds) as u64);
        self.bar.set_message(format!(
            "{} frames/s, {} op/s, {}",
            rate(now.frames, before.frames),
            rate(now.operations, before.operations),
            totals(&now)
        ));
        self.before = (Instant::now(), now);
    }

    /// Removes the line from the screen.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// Formats totals, such as `100,000 operations, 223.0 bytes each, 0 frames dropped`.
fn totals(now: &CaptureProgress) -> String {
    let mean = if now.operations == 0 { 0.0 } else { now.operation_bytes as f64 / now.operations as f64 };
    format!("{} operations, {mean:.1} bytes each, {} frames dropped", grouped(now.operations), grouped(now.dropped))
}

/// Answers SIGUSR1 with the current values and counters.
pub fn print(so_far: Option<&SoFar>, counters: &Measured<record::Counters>) {
    if let Some(SoFar { progress: now, operations, .. }) = so_far {
        say!("{} frames, {} bytes; {}", grouped(now.frames), grouped(now.wire_bytes), totals(now));
        for row in operations.iter().filter(|row| row.class == Class::Workload) {
            let bytes = row.request.accounts.total() + row.response.accounts.total();
            let mean = bytes as f64 / row.count.max(1) as f64;
            say!("{}: {} operations, {mean:.1} bytes each", row.name, grouped(row.count));
        }
    }
    let counters = match counters {
        Measured::Value(counters) => counters,
        Measured::Unavailable { unavailable } => return say!("counters: {unavailable}"),
    };
    for (role, measured) in [("server", &counters.server), ("client", &counters.client)] {
        match measured {
            Measured::Unavailable { unavailable } => say!("{role}: {unavailable}"),
            Measured::Value(measured) => {
                let calls: u64 = measured.syscalls.values().map(|call| call.count).sum();
                let cpu = measured.on_cpu_ns.value().map_or(0, |time| time.user + time.kernel);
                say!("{role}: {} system calls, {} µs on CPU", grouped(calls), grouped(cpu / 1000));
            }
        }
    }
}
