//! `overhead capture`: live traffic, and the kernel's work during the same window.
//!
//! [`args`] is the command line; [`plan`] is its checked form. [`session`] owns what runs: [`open`] starts it,
//! [`conclude`] makes the record. [`threads`] captures and writes frames, and [`dissecting`] dissects them.

mod announce;
mod args;
mod beside;
mod clock;
mod command;
mod conclude;
mod container;
mod cost;
mod counters;
mod descriptors;
mod dissecting;
mod environment;
mod family;
mod folder;
mod frames;
mod input;
mod live;
pub mod metrics;
mod only;
mod open;
mod plaintext;
mod plan;
mod progress;
mod queue;
mod rotation;
mod session;
mod signals;
mod streams;
mod threads;
mod warmup;
mod witness;

pub use args::CaptureArgs;
#[cfg(feature = "top")]
pub use args::byte_size;
pub use command::CommandOutput;
pub use container::{choose as choose_interface, containers_now};
pub use folder::{PRINTED, RunFolder, WrittenRun, by_time as folder_by_time};
#[cfg(feature = "top")]
pub use live::LivePlan;
pub use plan::CapturePlan;
pub use session::{CaptureSession, FinishedCapture};
pub use signals::CaptureSignals;
#[cfg(feature = "top")]
pub use threads::{CaptureLimits, CaptureThreads};

use crate::exit::bail_usage;
use crate::print;
use crate::sweep::SweepArgs;
use anyhow::{Result, bail};
use overhead_model::{exit, say};
use overhead_report::NamedRun;
use overhead_report::text::quoted;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Runtime;

impl CaptureArgs {
    /// Captures, then writes and prints the result.
    pub fn run(self) -> Result<u8> {
        if self.list_interfaces {
            return list(self.container.as_deref());
        }
        if self.runs.is_some_and(|runs| runs > 1) {
            return SweepArgs::repeated(self).run();
        }
        if self.project.model().is_some() && (self.write.is_some() || self.no_packets || self.counters.bpf_only) {
            bail_usage!(
                "--project and --physical read the packets of the run folder: leave -w, --no-packets and --bpf-only out"
            );
        }
        let rounds = self.measure_cost;
        let plan = self.plan()?;
        runtime()?.block_on(async {
            let mut signals = CaptureSignals::new()?;
            let plan = Arc::new(plan);
            let captured = async |signals: &mut CaptureSignals| {
                if let Some(rounds) = rounds {
                    return cost::measure(&plan, rounds, signals).await;
                }
                let folder = plan.make_folder()?.map(Arc::new);
                let publish = |plan: &CapturePlan, captured| plan.publish(captured);
                CaptureSession::run(&plan, folder, signals, CommandOutput::Shown, publish).await
            };
            plan.with_rows(&mut signals, captured).await
        })
    }
}

impl CapturePlan {
    /// Writes and prints the result. Prints it even if it cannot be written.
    fn publish(&self, captured: FinishedCapture) -> Result<u8> {
        let FinishedCapture { folder, run, end } = captured;
        let named = NamedRun::new(folder.as_ref().map_or_else(|| self.live.in_words(), |folder| folder.name()), run);
        let kept = folder.as_ref().filter(|_| !self.args.no_packets);
        let again = kept.map(|folder| quoted(&folder.path().display().to_string()));
        let written = folder.map(|folder| folder.write(&named.run)).transpose();
        print::warnings(&named, &self.args.output);
        if self.args.write.as_deref() != Some(Path::new("-")) {
            print::result(&named, &self.args.output, again.as_deref())?;
        }
        let mut status = named.run.exit;
        if let Some(WrittenRun { files, without_figures }) = written? {
            if let Some(reason) = without_figures {
                say!("overhead: warning: the record is written, but no figure: {reason}");
                status = status.max(exit::PARTIAL);
            }
            print::files(&files, &self.args.output);
        }
        Ok(end.failure().map_or(status, |code| u8::try_from(code).unwrap_or(u8::MAX)))
    }
}

/// Returns the asynchronous runtime of a capture.
pub fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// Waits for `future`, or forever if there is none.
pub async fn or_never<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

fn list(container: Option<&str>) -> Result<u8> {
    let interfaces = container::interfaces(container)?;
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
