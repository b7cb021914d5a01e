//! `overhead capture`: runs the plan of its arguments, and prints the result.

mod args;

pub use args::{CaptureArgs, byte_size};

use crate::options::Output;
use crate::{print, repeat};
use anyhow::{Result, bail};
use overhead_live::{CapturePlan, FinishedCapture, PacketUse, WrittenRun, interfaces};
use overhead_model::{exit, say};
use overhead_report::NamedRun;
use overhead_report::text::quoted;
use std::fmt::Write as _;
use std::path::Path;

impl CaptureArgs {
    /// Captures, then writes and prints the result.
    pub fn run(self) -> Result<u8> {
        if self.list_interfaces {
            return list(self.container.as_deref());
        }
        let output = self.output.clone();
        if self.runs.is_some_and(|runs| runs > 1) {
            return repeat::run(&self.sweep_plan(Vec::new(), 0)?, &output);
        }
        self.plan()?.run(move |plan, captured| publish(plan, &output, captured))
    }
}

/// Writes and prints the result. Prints it even if it cannot be written.
fn publish(plan: &CapturePlan, output: &Output, captured: FinishedCapture) -> Result<u8> {
    let FinishedCapture { folder, run, end } = captured;
    let named = NamedRun::new(folder.as_ref().map_or_else(|| plan.live.in_words(), |folder| folder.name.clone()), run);
    let kept = folder.as_ref().filter(|_| plan.packets != PacketUse::Dissected);
    let again = kept.map(|folder| quoted(&folder.path().display().to_string()));
    let written = folder.map(|folder| folder.write(&named.run)).transpose();
    print::warnings(&named, output);
    if plan.packet_file() != Some(Path::new("-")) {
        print::result(&named, output, again.as_deref())?;
    } else if output.format.is_for_screens() && !output.quiet {
        // The result with the warnings is not printed.
        print::warn(&named.run.warnings);
    }
    let mut status = named.run.exit;
    if let Some(WrittenRun { files, without_charts }) = written? {
        if let Some(reason) = without_charts {
            say!("overhead: warning: the record is written, but no chart: {reason}");
            status = status.max(exit::PARTIAL);
        }
        print::files(&files, output);
    }
    Ok(end.failure().map_or(status, |code| u8::try_from(code).unwrap_or(u8::MAX)))
}

fn list(container: Option<&str>) -> Result<u8> {
    let interfaces = interfaces(container)?;
    if interfaces.is_empty() {
        bail!("you may not capture on any interface: run with sudo");
    }
    let mut out = String::new();
    for interface in interfaces {
        let flags: Vec<&str> = interface.flags.iter().map(|flag| flag.name()).collect();
        let addresses: Vec<String> = interface.addresses.iter().map(ToString::to_string).collect();
        let _ = writeln!(out, "{:<16} {:<24} {}", interface.name, flags.join(","), addresses.join(" "));
    }
    print::verbatim(&out)?;
    Ok(exit::COMPLETE)
}
