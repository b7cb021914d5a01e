//! One of several runs of a command, captured into a separate folder together with the command's output.

use crate::{CapturePlan, CaptureSession, CommandOutput, FinishedCapture, PRINTED, RunFolder, redact};
use anyhow::Result;
use overhead_host::CaptureSignals;
use overhead_model::{Run, say};
use overhead_reading::run_folder::RECORD;
use overhead_report::bounded::read_text;
use overhead_report::load_run;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One planned run.
#[derive(Clone, Debug)]
pub struct Repetition {
    /// Its run folder.
    pub folder: PathBuf,
    /// Its name in messages and in the record's charts.
    pub name: String,
    /// Program and arguments, without placeholders.
    pub command: Vec<String>,
    /// Whether to keep the run; a warm-up run is not kept.
    pub keep: bool,
}

/// The record of a run, or why it does not count: the command failed.
pub type CountedRun = Result<Run, String>;

impl Repetition {
    /// Returns the record of an earlier run of the same command, unless that failed.
    pub fn made_before(&self) -> Option<Run> {
        let run = load_run(self.folder.join(RECORD)).ok()?;
        let workload = run.environment.as_ref()?.workload.as_ref()?;
        let is_this = workload.command == redact::command_line(self.command.iter().cloned());
        let succeeded = workload.was_ended || workload.exit_code == Some(0);
        (is_this && succeeded).then_some(run)
    }

    /// Captures while the command runs, and replaces an earlier run in the folder. Returns `None`, and keeps nothing, if
    /// the user asks for the end.
    ///
    /// # Errors
    ///
    /// The capture cannot be made or written, or the user asks for the end a second time.
    pub async fn make(&self, plan: &CapturePlan, signals: &mut CaptureSignals) -> Result<Option<CountedRun>> {
        if signals.end.was_requested().await {
            return Ok(None);
        }
        let mut plan = plan.clone();
        plan.command.words.clone_from(&self.command);
        plan.quiet = true;
        plan.result.distribution = true;
        let folder = RunFolder::create(Some(&self.folder), "", true, plan.output.owner)?.named(&self.name);
        let printed = folder.create_printed().inspect_err(|_| folder.discard())?;
        let keep = self.keep;
        let conclude = move |_: &CapturePlan, captured| conclude(captured, keep);
        let (folder, output) = (Some(Arc::new(folder)), CommandOutput::Kept(printed));
        let plan = Arc::new(plan);
        plan.with_rows(signals, async |signals| CaptureSession::run(&plan, folder, signals, output, conclude).await)
            .await
    }

    /// Returns the command's standard output; empty if it was not kept.
    pub fn printed(&self) -> String {
        let bytes = read_text(&self.folder.join(PRINTED[0])).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Writes the run, or removes its folder.
fn conclude(captured: FinishedCapture, keep: bool) -> Result<Option<CountedRun>> {
    let FinishedCapture { folder, run, end } = captured;
    let failed = end.failure().map(|code| failure(code, folder.as_deref().map(RunFolder::path)));
    if let Some(folder) = &folder {
        if end.was_asked() || !keep {
            folder.discard();
        } else if let Some(reason) = folder.write(&run)?.without_charts {
            say!("overhead: warning: {}: no chart: {reason}", folder.name());
        }
    }
    Ok((!end.was_asked()).then(|| failed.map_or(Ok(run), Err)))
}

/// Returns a message with the failed command's status and the last line of its output.
fn failure(code: i32, folder: Option<&Path>) -> String {
    let last = |name: &&str| {
        let text = read_text(&folder?.join(name)).ok()?;
        let text = String::from_utf8_lossy(&text).into_owned();
        text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
    };
    let [stdout, stderr] = &PRINTED;
    let line = last(stderr).or_else(|| last(stdout)).map(|line| format!(": {line}")).unwrap_or_default();
    format!("the command ended with status {code}{line}")
}
