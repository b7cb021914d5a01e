//! `overhead sweep`: its arguments, over those of `capture`.

use crate::capture::CaptureArgs;
use crate::repeat;
use anyhow::Result;
use clap::Args;
use overhead_live::{SweepParameter, parse_parameter};

const EXAMPLES: &str = "\
Each round runs every combination once, in another order; a round to warm up comes before and is \
dropped. Each run is a run folder (DIR/P=10/run-1), with what the command printed in command.out \
and command.err. Runs that are there are not repeated: the same command continues where it ended.

Examples:
  overhead sweep --vary P=1,10,25 --db redis -o sweep -- redis-benchmark -t get -n 9000 -P {P}
  overhead report sweep-redis sweep-postgres --x depth --series system -o sweep-report";

/// Arguments of `sweep`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct SweepArgs {
    /// A parameter, in braces in the command, and its values; repeatable
    #[arg(long, value_name = "P=V1,V2,…", required = true, value_parser = parse_parameter)]
    pub vary: Vec<SweepParameter>,
    /// Warm-up runs of each combination, which are dropped
    #[arg(hide_short_help = true, long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(..=100))]
    pub warmup_runs: u32,
    #[command(flatten)]
    pub capture: CaptureArgs,
}

impl SweepArgs {
    /// Makes the missing runs, then prints the result.
    pub fn run(self) -> Result<u8> {
        let output = self.capture.output.clone();
        repeat::run(&self.capture.sweep_plan(self.vary, self.warmup_runs)?, &output)
    }
}
