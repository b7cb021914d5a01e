//! Archives the agent's rows as Parquet files, which `overhead-export` writes.

use super::config::ArchiveSettings;
use super::totals::AgentBooks;
use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use overhead_files::{OutputFolder, find_program};
use overhead_kernel::raised;
use overhead_model::agent_rows::AgentRows;
use overhead_reading::time::unix_ns;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Time that writing may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// A folder of Parquet files.
///
/// Rows are differences from the last ones written. So if writing fails, no bytes are lost: the next rows include them, and cover
/// more time.
pub struct AgentArchive {
    program: PathBuf,
    settings: ArchiveSettings,
    host: String,
    /// Start time of the next rows.
    started: Instant,
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
        Ok(Self { program, settings: settings.clone(), host, started: Instant::now(), failures: 0 })
    }

    /// Returns whether the next rows are due.
    pub fn is_due(&self) -> bool {
        self.started.elapsed() >= self.settings.every
    }

    /// Writes the rows since the last ones.
    pub async fn write(&mut self, books: &mut AgentBooks) -> Result<()> {
        let (now, now_ns) = (Instant::now(), unix_ns());
        let rows = books.rows(true, span_ns(self.started, now_ns));
        if !rows.is_empty() {
            let written = tokio::time::timeout(PATIENCE, self.hand_over(&rows, now_ns)).await;
            let written = written.unwrap_or_else(|_| bail!("it took more than {PATIENCE:?}"));
            self.failures += u64::from(written.is_err());
            written?;
        }
        self.started = now;
        books.flows.mark_archived();
        books.compositions.clear_latest();
        Ok(())
    }

    async fn hand_over(&self, rows: &AgentRows, now_ns: u64) -> Result<()> {
        let rows = serde_json::to_vec(rows)?;
        // The end names the file: a start that is tried again may have one already.
        let time = Timestamp::from_nanosecond(now_ns.into())?.strftime("%Y%m%dT%H%M%S%.3fZ").to_string();
        let mut command = Command::new(&self.program);
        command.args(["--agent-rows", "--by-day", "--host", &self.host, "--run", &format!("agent-{time}"), "-o"]);
        command.arg(&self.settings.folder).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = raised(|| command.kill_on_drop(true).spawn()).context("overhead-export cannot be started")?;
        let mut input = child.stdin.take().context("overhead-export has no input")?;
        // If it ended early, its own message has the reason.
        let _ = input.write_all(&rows).await;
        drop(input);
        let output = child.wait_with_output().await?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    }
}

/// Returns a time that ends now. A step of the clock moves its start, so that its length is right.
pub fn span_ns(started: Instant, now_ns: u64) -> [u64; 2] {
    let length = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
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
