//! `overhead doctor`: what this machine can measure, and what would enable the rest.

mod listing;

use crate::print;
use anyhow::Result;
use overhead_capture::live::{LiveOptions, LiveSource};
use overhead_kernel::raised;
use overhead_model::exit::{COMPLETE, FAILED, PARTIAL};
use std::fmt::Write;

/// Tries every measurement and prints a line for each, then the databases that could be captured. Returns the status of a run
/// on this machine: 0 if it would be complete, 3 if something would be missing, 1 if it would have neither packets nor
/// counters.
pub fn run() -> Result<u8> {
    raised(look)
}

fn look() -> Result<u8> {
    let mut out = String::new();
    let mut missing = 0_u32;
    let mut line = |name: &str, outcome: Result<(), String>| {
        missing += u32::from(outcome.is_err());
        let _ = match outcome {
            Ok(()) => writeln!(out, "yes  {name}"),
            Err(reason) => writeln!(out, "no   {name}: {reason}"),
        };
    };
    let packets = LiveSource::open(&LiveOptions::new("lo")).map(drop).map_err(|error| error.to_string());
    let (has_packets, mut has_counters) = (packets.is_ok(), true);
    line("capturing packets on lo", packets);
    for capability in overhead_kernel::doctor() {
        has_counters &= !capability.is_all_counters() || capability.outcome.is_ok();
        line(capability.name, capability.outcome.map_err(|absence| format!("{}; {}", absence.reason, absence.remedy)));
    }
    out += &listing::listing(has_counters);
    print::verbatim(&out)?;
    Ok(match (has_packets || has_counters, missing) {
        (false, _) => FAILED,
        (true, 0) => COMPLETE,
        (true, _) => PARTIAL,
    })
}
