//! One run among several of a command: captured into a folder of its own, with what the command printed kept beside it.

use crate::capture::{CaptureArgs, Captured, CommandOutput, Folder, PRINTED, Signals, Written};
use crate::redact;
use crate::runs::RECORD;
use anyhow::Result;
use overhead_model::Run;
use overhead_report::bounded::read_text;
use overhead_report::load_run;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A run that is to be made.
#[derive(Clone, Debug)]
pub struct Repetition {
    /// Where it goes.
    pub folder: PathBuf,
    /// What it is called.
    pub name: String,
    /// The command.
    pub command: Vec<String>,
    /// Whether it is kept; a run that warms up is not.
    pub keep: bool,
}

/// How a run ended.
#[derive(Debug)]
pub enum RunEnd {
    /// It was measured.
    Done(Box<Run>),
    /// The command failed, in these words.
    Failed(String),
    /// Somebody asked for the end: what was measured of it is not kept.
    Interrupted,
}

impl Repetition {
    /// Returns the record of this run, where it was made before and the command did not fail.
    pub fn made_before(&self) -> Option<Run> {
        let run = load_run(self.folder.join(RECORD)).ok()?;
        let workload = run.environment.as_ref()?.workload.as_ref()?;
        let is_this = workload.command == redact::command_line(self.command.iter().cloned());
        let succeeded = workload.was_ended || workload.exit_code == Some(0);
        (is_this && succeeded).then_some(run)
    }

    /// Captures while the command runs. What is in the folder of a run before is replaced.
    ///
    /// # Errors
    ///
    /// What keeps a capture from being made or written, and a second demand to end.
    pub async fn make(&self, capture: &CaptureArgs, signals: &mut Signals) -> Result<RunEnd> {
        let mut capture = capture.clone();
        capture.command.clone_from(&self.command);
        capture.output.quiet = true;
        capture.distribution = true;
        let folder = Folder::create(Some(&self.folder), "", true, capture.owner())?.named(&self.name);
        let printed = folder.create_printed().inspect_err(|_| folder.discard())?;
        let keep = self.keep;
        let conclude = move |_: &CaptureArgs, captured| conclude(captured, keep);
        Arc::new(capture).session(signals, Some(Arc::new(folder)), CommandOutput::Kept(printed), conclude).await
    }

    /// Returns what the command has printed on its standard output; nothing where that is not kept.
    pub fn printed(&self) -> String {
        let bytes = read_text(&self.folder.join(PRINTED[0])).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Writes the run, or takes its folder away.
fn conclude(captured: Captured, keep: bool) -> Result<RunEnd> {
    let Captured { folder, run, ended, .. } = captured;
    let failed = ended.code.filter(|code| ended.by_itself && *code != 0);
    let said = failed.map(|code| failure(code, folder.as_deref().map(Folder::path)));
    if let Some(folder) = &folder {
        if ended.was_asked || !keep {
            folder.discard();
        } else {
            let Written { without_figures, .. } = folder.write(&run)?;
            if let Some(reason) = without_figures {
                overhead_model::say!("overhead: warning: {}: no figure: {reason}", folder.name());
            }
        }
    }
    Ok(match said {
        _ if ended.was_asked => RunEnd::Interrupted,
        Some(said) => RunEnd::Failed(said),
        None => RunEnd::Done(Box::new(run)),
    })
}

/// Returns the status of a command that failed, with the last line that it left behind.
fn failure(code: i32, folder: Option<&Path>) -> String {
    let last = |name: &&str| {
        let text = read_text(&folder?.join(name)).ok()?;
        let text = String::from_utf8_lossy(&text).into_owned();
        text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
    };
    let [stdout, stderr] = &PRINTED;
    let said = last(stderr).or_else(|| last(stdout)).map(|line| format!(": {line}")).unwrap_or_default();
    format!("the command ended with status {code}{said}")
}
