//! Archives the agent's rows as Parquet files, which `overhead-export` writes.

use super::clock::RunningTime;
use super::config::ArchiveSettings;
use super::totals::{AgentBooks, ArchiveRows, NamedRows};
use anyhow::{Context, Result, bail, ensure};
use jiff::Timestamp;
use overhead_files::{OutputFolder, find_program};
use overhead_kernel::raised;
use overhead_reading::time::unix_ns;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Time that writing may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// A folder of Parquet files.
///
/// Rows are differences from the last ones taken. They wait in [`ArchiveRows`] until they are written.
pub struct AgentArchive {
    program: PathBuf,
    settings: ArchiveSettings,
    host: String,
    pub failures: u64,
}

impl AgentArchive {
    /// # Errors
    ///
    /// The folder is not writable, or overhead-export is not installed.
    pub fn start(settings: &ArchiveSettings, host: String) -> Result<Self> {
        let program = find_program("overhead-export").context(
            "the archive needs overhead-export, which is neither beside this program nor on the PATH: `make install` in a \
             checkout and the packages of `make dist` bring it",
        )?;
        let folder = &settings.folder;
        let fix =
            || format!("archive.folder: {} is not writable: choose another, or change its owner", folder.display());
        raised(|| try_writing(folder)).with_context(fix)?;
        Ok(Self { program, settings: settings.clone(), host, failures: 0 })
    }

    /// Takes rows from the books if they are due, or are the last, and no others wait. Returns whether any wait.
    pub fn take_rows(&self, books: &mut AgentBooks, is_last: bool) -> Result<bool> {
        let time = &books.archive.time;
        if books.archive.waiting.is_none() && (is_last || time.elapsed() >= self.settings.every) {
            let now_ns = unix_ns();
            let rows = books.rows(true, span_ns(time, now_ns));
            // The end names the file.
            let run = Timestamp::from_nanosecond(now_ns.into())?.strftime("agent-%Y%m%dT%H%M%S%.3fZ").to_string();
            let waiting = (!rows.is_empty()).then_some(NamedRows { run, rows });
            books.archive = ArchiveRows { waiting, time: RunningTime::default() };
            books.flows.mark_archived();
            books.compositions.clear_latest();
        }
        Ok(books.archive.waiting.is_some())
    }

    /// Writes the rows that wait. If that fails, they wait on.
    pub async fn write(&mut self, rows: &mut ArchiveRows) -> Result<()> {
        let Some(waiting) = &rows.waiting else { return Ok(()) };
        let written = tokio::time::timeout(PATIENCE, self.hand_over(waiting)).await;
        let written = written.unwrap_or_else(|_| bail!("it took more than {PATIENCE:?}"));
        self.failures += u64::from(written.is_err());
        written?;
        rows.waiting = None;
        Ok(())
    }

    async fn hand_over(&self, NamedRows { run, rows }: &NamedRows) -> Result<()> {
        let rows = serde_json::to_vec(rows)?;
        let mut command = Command::new(&self.program);
        command.args(["--agent-rows", "--by-day", "--force", "--host", &self.host, "--run", run, "-o"]);
        command.arg(&self.settings.folder).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = raised(|| command.kill_on_drop(true).spawn()).context("overhead-export cannot be started")?;
        let mut input = child.stdin.take().context("overhead-export has no input")?;
        // If it ended early, its own message has the reason.
        let _ = input.write_all(&rows).await;
        drop(input);
        let output = child.wait_with_output().await?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(())
    }
}

/// Returns a time that ends now. A step of the clock moves its start, so that its length is right.
pub fn span_ns(time: &RunningTime, now_ns: u64) -> [u64; 2] {
    let length = u64::try_from(time.elapsed().as_nanos()).unwrap_or(u64::MAX);
    [now_ns.saturating_sub(length), now_ns]
}

fn try_writing(folder: &Path) -> io::Result<()> {
    let folder = OutputFolder::below(folder, Path::new(""))?;
    let name = format!(".overhead-agent-{}", std::process::id());
    folder.create_temporary(&name)?;
    folder.remove(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_planted_link_is_not_followed_and_the_folder_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let (victim, folder) = (dir.path().join("victim"), dir.path().join("archive"));
        fs::write(&victim, "precious").unwrap();
        try_writing(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        symlink(&victim, folder.join(format!(".overhead-agent-{}", std::process::id()))).unwrap();
        try_writing(&folder).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }
}
