//! Arguments of `sweep`.

use super::parameter::{self, parameter};
use crate::capture::CaptureArgs;
use crate::exit::StatusFault;
use anyhow::Result;
use clap::Args;
use overhead_model::sweep::SweepParameter;

const EXAMPLES: &str = "\
Each round runs every combination once, in another order; a round to warm up comes before and is
dropped. Each run is a run folder (DIR/P=10/run-1), with what the command printed in command.out
and command.err. Runs that are there are not repeated: the same command goes on where it ended.

Examples:
  overhead sweep --vary P=1,10,25 --db redis -o sweep -- redis-benchmark -t get -n 9000 -P {P}
  overhead report sweep -o sweep-report";

/// Arguments of `sweep`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct SweepArgs {
    /// A parameter, which stands in braces in the command, and its values; repeatable: all combinations are run
    #[arg(long, value_name = "P=V1,V2,…", required = true, value_parser = parameter)]
    pub vary: Vec<SweepParameter>,
    /// Runs of each combination before these, made like them and dropped
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(..=100))]
    pub warmup_runs: u32,
    #[command(flatten)]
    pub capture: CaptureArgs,
}

/// Runs of each combination, where nobody says how many.
const RUNS: u32 = 5;

impl SweepArgs {
    /// Returns a sweep that varies nothing: the same command again, as often as `--runs` says, from the first time on.
    pub fn repeated(capture: CaptureArgs) -> Self {
        Self { vary: Vec::new(), warmup_runs: 0, capture }
    }

    /// Returns how many runs there are to be of each combination.
    pub fn runs(&self) -> u32 {
        self.capture.runs.unwrap_or(RUNS)
    }

    /// Checks what was asked for, before anything is made.
    pub fn check(&self) -> Result<()> {
        let usage = |message: &str| Err(StatusFault::usage(message.to_owned()).into());
        let capture = &self.capture;
        if capture.command.is_empty() {
            return usage("sweep runs a command: give it after --, with the parameters in braces ({P})");
        }
        if capture.list_interfaces || capture.write.is_some() {
            return usage("-D and -w are for a single capture: of several runs, each has a run folder");
        }
        if !capture.output.columns.is_empty() || capture.output.rows.view().is_some() {
            return usage(
                "columns, order and price of rows are for the table of one run: see those of one of several with \
                 `overhead analyze`; csv and json have every figure of all",
            );
        }
        if !self.vary.is_empty() {
            parameter::check(&self.vary, &capture.command)?;
        }
        capture.output.check()?;
        capture.check()
    }

    /// Returns the options that decide what is measured, as on a command line.
    pub fn settings(&self) -> Vec<String> {
        let capture = &self.capture;
        let path = |path: &std::path::PathBuf| path.display().to_string();
        let time = |time: std::time::Duration| format!("{}s", time.as_secs_f64());
        let valued = [
            ("--iface", Some(capture.interface().to_owned())),
            ("--container", capture.container.clone()),
            ("--filter", capture.filter.clone()),
            ("--cgroup", capture.cgroup.as_ref().map(path)),
            ("--comm", capture.comm.clone()),
            ("--user", capture.user.clone()),
            ("--count", capture.count.map(|count| count.to_string())),
            ("--duration", capture.duration.map(time)),
            ("--warmup", capture.warmup.map(time)),
            ("--ops", capture.ops.map(|count| count.to_string())),
            ("--snaplen", (capture.snaplen > 0).then(|| capture.snaplen.to_string())),
        ];
        let flags = [
            ("--as-root", capture.as_root),
            ("--no-bpf", capture.no_bpf),
            ("--bpf-only", capture.bpf_only),
            ("--softirq", capture.softirq),
            ("--fields", capture.fields),
            ("--no-statements", capture.no_statements),
        ];
        let selected = capture.which.selected();
        let valued = valued.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?)));
        let db = selected.db.iter().map(|db| format!("--db={db}"));
        let ports = selected.ports.iter().map(|port| format!("--port={port}"));
        let flags = flags.into_iter().filter(|(_, on)| *on).map(|(name, _)| name.to_owned());
        valued.chain(db).chain(ports).chain(flags).collect()
    }
}
