//! The run folder: made before anything is measured, so that an unwritable place is known of before the benchmark ran.

use anyhow::{Context, Result, bail};
use overhead_model::Run;
use overhead_report::{NamedRun, text, write_report};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Name of the record.
const RECORD: &str = "run.json";
/// Name of the packets.
pub const PACKETS: &str = "packets.pcapng";

/// A folder for one run.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// It was not there before.
    new: bool,
}

impl Folder {
    /// Makes the folder. A run that is there already is kept unless `force` is set.
    pub fn create(path: Option<&Path>, db: &str, force: bool) -> Result<Self> {
        let path = path.map_or_else(|| default_path(db), Path::to_owned);
        if path.join(RECORD).exists() && !force {
            bail!(
                "{} holds a run already: choose another folder with -o, or overwrite it with --force",
                path.display()
            );
        }
        let remedy = || format!("the run folder {} cannot be written: choose another with -o", path.display());
        let new = !path.exists();
        fs::create_dir_all(&path).with_context(remedy)?;
        // What is there of before would be taken for this run's if this run keeps no packets or does not come to its end.
        for name in [RECORD, PACKETS] {
            match fs::remove_file(path.join(name)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error).with_context(remedy),
                _ => {}
            }
        }
        Ok(Self { path, new })
    }

    /// Where packets go.
    pub fn packets(&self) -> PathBuf {
        self.path.join(PACKETS)
    }

    /// Takes a folder away that nothing was measured for.
    pub fn discard(&self) {
        // What is not empty holds something of somebody's, and stays.
        let _ = fs::remove_file(self.packets());
        if self.new {
            let _ = fs::remove_dir(&self.path);
        }
    }

    /// The folder's name, which names the run.
    pub fn name(&self) -> String {
        self.path
            .file_name()
            .map_or_else(|| self.path.display().to_string(), |name| name.to_string_lossy().into_owned())
    }

    /// Writes record and figures, and gives the files.
    pub fn write(&self, run: &Run) -> Result<Vec<PathBuf>> {
        let record = self.path.join(RECORD);
        fs::write(&record, text::json(run)?).with_context(|| format!("{} cannot be written", record.display()))?;
        let mut files = vec![record];
        files.extend(write_report(&[NamedRun::new(self.name(), run.clone())], &self.path)?);
        Ok(files)
    }
}

/// `runs/20261121-104512-redis`, in UTC.
fn default_path(db: &str) -> PathBuf {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    PathBuf::from("runs").join(format!("{}-{db}", timestamp(seconds)))
}

/// Unix seconds as a name that sorts by time.
fn timestamp(seconds: u64) -> String {
    let time = jiff::Timestamp::from_second(seconds.cast_signed()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    time.strftime("%Y%m%d-%H%M%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_names_sort_by_time() {
        assert_eq!(timestamp(1_795_259_112), "20261121-110512");
    }

    #[test]
    fn an_existing_run_is_kept_unless_forced() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(RECORD), "{}").unwrap();
        fs::write(dir.path().join(PACKETS), "").unwrap();
        let refused = Folder::create(Some(dir.path()), "redis", false).unwrap_err().to_string();
        assert!(refused.contains("--force"), "{refused}");
        Folder::create(Some(dir.path()), "redis", true).unwrap();
        assert!(!dir.path().join(RECORD).exists() && !dir.path().join(PACKETS).exists());
    }

    #[test]
    fn an_unwritable_place_is_named_with_a_remedy() {
        let error = format!("{:#}", Folder::create(Some(Path::new("/proc/nowhere")), "redis", false).unwrap_err());
        assert!(error.contains("/proc/nowhere") && error.contains("-o"), "{error}");
    }
}
