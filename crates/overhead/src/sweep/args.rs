//! Arguments of `sweep`.

use super::parameter::{self, parameter};
use crate::capture::{CaptureArgs, CapturePlan};
use crate::exit::bail_usage;
use anyhow::Result;
use clap::Args;
use overhead_model::sweep::SweepParameter;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Each round runs every combination once, in another order; a round to warm up comes before and is \
dropped. Each run is a run folder (DIR/P=10/run-1), with what the command printed in command.out \
and command.err. Runs that are there are not repeated: the same command continues where it ended.

Examples:
  overhead sweep --vary P=1,10,25 --db redis -o sweep -- redis-benchmark -t get -n 9000 -P {P}
  overhead report sweep -o sweep-report";

/// Arguments of `sweep`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct SweepArgs {
    /// A parameter, in braces in the command, and its values; repeatable
    #[arg(long, value_name = "P=V1,V2,…", required = true, value_parser = parameter)]
    pub vary: Vec<SweepParameter>,
    /// Warm-up runs of each combination, which are dropped
    #[arg(hide_short_help = true, long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(..=100))]
    pub warmup_runs: u32,
    #[command(flatten)]
    pub capture: CaptureArgs,
}

/// Default number of runs of each combination.
const RUNS: u32 = 5;

impl SweepArgs {
    /// Returns a sweep without parameters, which repeats the command `--runs` times.
    pub fn repeated(capture: CaptureArgs) -> Self {
        Self { vary: Vec::new(), warmup_runs: 0, capture }
    }

    /// Checks the options before anything is created.
    pub fn plan(self) -> Result<SweepPlan> {
        let args = &self.capture;
        if args.command.is_empty() {
            bail_usage!("sweep runs a command: give it after --, with the parameters in braces ({{P}})");
        }
        if args.list_interfaces || args.write.is_some() {
            bail_usage!("-D and -w are for a single capture: of several runs, each has a run folder");
        }
        if !args.output.columns.is_empty() || !args.output.rows.is_default() {
            bail_usage!(
                "columns, order and price of rows are for the table of one run: see those of one of several with \
                 `overhead analyze`; csv and json have every figure of all"
            );
        }
        if !self.vary.is_empty() {
            parameter::check(&self.vary, &args.command)?;
        }
        let runs = args.runs.unwrap_or(RUNS);
        let capture = self.capture.plan()?;
        let settings = settings(&capture);
        Ok(SweepPlan { vary: self.vary, warmup_runs: self.warmup_runs, runs, settings, capture })
    }
}

/// The checked arguments of a sweep.
#[derive(Debug)]
pub struct SweepPlan {
    pub vary: Vec<SweepParameter>,
    /// Warm-up runs of each combination, which do not count.
    pub warmup_runs: u32,
    /// Runs of each combination.
    pub runs: u32,
    /// The options that affect the measurement, as on a command line.
    pub settings: Vec<String>,
    pub capture: CapturePlan,
}

fn settings(plan: &CapturePlan) -> Vec<String> {
    let args = &plan.args;
    let (limits, counters) = (&args.limits, &args.counters);
    let path = |path: &PathBuf| path.display().to_string();
    let time = |time: Duration| format!("{}s", time.as_secs_f64());
    let valued = [
        ("--iface", Some(plan.live.interface.clone())),
        ("--container", args.container.clone()),
        ("--filter", args.filter.clone()),
        ("--cgroup", args.server.cgroup.as_ref().map(path)),
        ("--comm", args.server.comm.clone()),
        ("--user", args.user.clone()),
        ("--count", limits.count.map(|count| count.to_string())),
        ("--duration", limits.duration.map(time)),
        ("--warmup", limits.warmup.map(time)),
        ("--ops", limits.ops.map(|count| count.to_string())),
        ("--snaplen", (args.snaplen > 0).then(|| args.snaplen.to_string())),
    ];
    let flags = [
        ("--as-root", args.as_root),
        ("--no-bpf", counters.no_bpf),
        ("--bpf-only", counters.bpf_only),
        ("--softirq", counters.softirq),
        ("--fields", args.fields),
        ("--no-statements", args.dissect.no_statements),
    ];
    let selected = plan.which.selected();
    let valued = valued.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?)));
    let db = selected.db.iter().map(|db| format!("--db={db}"));
    let ports = selected.ports.iter().map(|port| format!("--port={port}"));
    let flags = flags.into_iter().filter(|(_, on)| *on).map(|(name, _)| name.to_owned());
    valued.chain(db).chain(ports).chain(flags).collect()
}
