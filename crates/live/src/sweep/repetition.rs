//! One of several runs of a command, captured into a separate folder together with the command's output.

use crate::{CapturePlan, CaptureSession, CommandOutput, FinishedCapture, PRINTED, RunFolder, redact};
use anyhow::Result;
use overhead_host::CaptureSignals;
use overhead_model::{Run, say};
use overhead_reading::run_folder::RECORD;
use overhead_report::bounded::read_text;
use overhead_report::{load_run, reported};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One planned run.
#[derive(Clone, Debug)]
pub struct Repetition {
    /// Its run folder.
    pub folder: PathBuf,
    /// Its name in messages and charts: its folder, relative to the sweep's.
    pub name: String,
    /// Program and arguments, without placeholders.
    pub command: Vec<String>,
    /// The values that distinguish it from the other runs.
    pub parameters: BTreeMap<String, String>,
    /// Whether to keep the run; a warm-up run is not kept.
    pub keep: bool,
}

/// A finished run.
#[derive(Clone, Debug)]
pub struct MadeRun {
    /// Its record.
    pub run: Run,
    /// Why it does not count: the command failed.
    pub failure: Option<String>,
}

impl Repetition {
    /// Returns the record of an earlier run of the same command, unless that failed.
    pub fn made_before(&self) -> Option<Run> {
        let run = load_run(self.folder.join(RECORD)).ok()?;
        let workload = run.environment.as_ref()?.workload.as_ref()?;
        let is_this =
            workload.command == redact::command_line(self.command.iter().cloned()) && run.parameters == self.parameters;
        let succeeded = workload.was_ended || workload.exit_code == Some(0);
        (is_this && succeeded).then_some(run)
    }

    /// Captures while the command runs, and replaces an earlier run in the folder. Returns `None`, and keeps nothing, if
    /// the user asks for the end.
    ///
    /// # Errors
    ///
    /// The capture cannot be made or written, or the user asks for the end a second time.
    pub async fn make(&self, plan: &CapturePlan, signals: &mut CaptureSignals) -> Result<Option<MadeRun>> {
        if signals.end.was_requested().await {
            return Ok(None);
        }
        let mut plan = plan.clone();
        plan.command.words.clone_from(&self.command);
        plan.quiet = true;
        plan.result.distribution = true;
        let folder = RunFolder::create(Some(&self.folder), "", true, plan.output.owner)?.named(&self.name);
        let printed = folder.create_printed().inspect_err(|_| folder.discard())?;
        let repetition = self.clone();
        let conclude = move |_: &CapturePlan, captured| repetition.conclude(captured);
        let (folder, output) = (Some(Arc::new(folder)), CommandOutput::Kept(printed));
        let plan = Arc::new(plan);
        plan.with_rows(signals, async |signals| CaptureSession::run(&plan, folder, signals, output, conclude).await)
            .await
    }

    /// Writes the run with its parameters and what the command reported, or removes its folder.
    fn conclude(&self, captured: FinishedCapture) -> Result<Option<MadeRun>> {
        let FinishedCapture { folder, mut run, end } = captured;
        let failed = end.failure().map(|code| failure(code, folder.as_deref().map(RunFolder::path)));
        run.parameters.clone_from(&self.parameters);
        if failed.is_none() {
            let bytes = read_text(&self.folder.join(PRINTED[0])).unwrap_or_default();
            run.reported = reported::read(&self.command, &String::from_utf8_lossy(&bytes));
        }
        if let Some(folder) = &folder {
            if end.was_asked() || !self.keep {
                folder.discard();
            } else if let Some(reason) = folder.write(&run)?.without_charts {
                say!("overhead: warning: {}: no chart: {reason}", folder.name);
            }
        }
        let made = MadeRun { run, failure: failed };
        Ok((!end.was_asked()).then_some(made))
    }
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
