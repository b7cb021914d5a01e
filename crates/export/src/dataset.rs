//! Paths of a data set: a folder per table, with subfolders for host and run.

use crate::encode::{DatasetFormat, TableLayout};
use crate::table::ExportField;
use anyhow::{Context, Error, Result, anyhow};
use overhead_files::OutputFolder;
use std::fmt::Write;
use std::fs::{self, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// In the order their files appear: a run listed in the last table is complete.
pub const TABLES: [&str; 6] = ["agent_flows", "agent_statements", "operations", "statements", "connections", "runs"];

/// Location of the tables of a run.
#[derive(Clone, Debug)]
pub struct Dataset {
    pub root: PathBuf,
    pub host: String,
    pub run: String,
    /// Put operations into a folder per day (UTC) of their start.
    pub by_day: bool,
    pub form: DatasetFormat,
}

impl Dataset {
    pub fn layout<B>(&self, table: &'static str, fields: Vec<ExportField<B>>) -> Result<TableLayout<B>> {
        TableLayout::new(table, fields, self.form, &self.host, &self.run)
    }

    pub fn table(&self, table: &str) -> PathBuf {
        self.root.join(table).join(self.partition()).join(self.file(0))
    }

    /// Returns the path of a file of a table for the day of `start_ns`.
    pub fn daily(&self, table: &str, start_ns: u64, number: u32) -> PathBuf {
        let table = self.root.join(table);
        let table = if self.by_day { table.join(format!("day={}", day(start_ns))) } else { table };
        table.join(self.partition()).join(self.file(number))
    }

    pub fn is_same_run(&self, other: &Self) -> bool {
        (&self.host, &self.run) == (&other.host, &other.run)
    }

    fn partition(&self) -> PathBuf {
        PathBuf::from(format!("host={}", escaped(&self.host))).join(format!("run={}", escaped(&self.run)))
    }

    fn file(&self, number: u32) -> String {
        format!("part-{number:05}.{}", self.form.extension())
    }

    /// Prevents other exports of this run while the result lives.
    ///
    /// # Errors
    ///
    /// Another export is running, or the folder is not writable.
    pub fn lock(&self) -> Result<DatasetLock> {
        let path = self.table("runs");
        let (folder, _) = folder(&self.root, &path).map_err(cannot_write(&path))?;
        if !folder.lock() {
            return Err(anyhow!(
                "run {} of host {} is being written by another export: wait until it has ended, or choose another name with --run",
                self.run,
                self.host
            ));
        }
        Ok(DatasetLock { path, _folder: folder })
    }

    /// Returns the existing files of this run; fails if there are any, unless forced. Removes leftovers of killed exports.
    pub fn existing_files(&self, force: bool) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for folder in TABLES.iter().flat_map(|table| self.folders(&self.root.join(table))) {
            let listed = fs::read_dir(&folder).with_context(|| format!("{} cannot be read", folder.display()))?;
            for path in listed.flatten().map(|entry| entry.path()) {
                if is_part(&path) {
                    self.remove_stale_part(&path)?;
                } else {
                    files.push(path);
                }
            }
        }
        match files.first() {
            Some(file) if !force => Err(anyhow!(
                "{} exists: run {} of host {} was exported before: choose another folder with -o, another name with --run, or --force to replace it",
                file.display(),
                self.run,
                self.host
            )),
            _ => Ok(files),
        }
    }

    /// Removes an incomplete file. Fails if its writer still has it locked.
    fn remove_stale_part(&self, part: &Path) -> Result<()> {
        let removed = folder(&self.root, part).and_then(|(folder, name)| {
            if folder.open(&name).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock))) {
                return Err(io::Error::other("another export of the same run writes it: wait until it has ended"));
            }
            folder.remove(&name)
        });
        removed.with_context(|| format!("{} cannot be removed", part.display()))
    }

    /// Returns this run's folders in a table.
    fn folders(&self, table: &Path) -> Vec<PathBuf> {
        let mut parents = vec![table.to_owned()];
        let days = fs::read_dir(table).into_iter().flatten().flatten().map(|entry| entry.path());
        parents.extend(
            days.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("day="))),
        );
        parents.iter().map(|parent| parent.join(self.partition())).filter(|folder| folder.exists()).collect()
    }
}

/// Opens the folder of a file in a data set, or creates it, and returns the file's name. Follows no link below `root`.
pub fn folder(root: &Path, file: &Path) -> io::Result<(OutputFolder, String)> {
    let folder =
        file.parent().and_then(|folder| folder.strip_prefix(root).ok()).ok_or(io::ErrorKind::InvalidFilename)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok((OutputFolder::below(root, folder)?, name))
}

/// Held while an export runs.
#[derive(Debug)]
pub struct DatasetLock {
    path: PathBuf,
    _folder: OutputFolder,
}

impl Drop for DatasetLock {
    fn drop(&mut self) {
        remove_folders(&self.path);
    }
}

/// Returns the name of an incomplete file.
pub fn temporary_name(name: &str) -> String {
    format!(".{name}.{}.part", std::process::id())
}

/// Removes the empty parent folders of a deleted file, up to its table.
pub fn remove_folders(file: &Path) {
    let folders = file.ancestors().skip(1).take_while(|folder| is_of_data_set(folder));
    folders.map_while(|folder| fs::remove_dir(folder).ok()).for_each(drop);
}

pub fn cannot_write(path: &Path) -> impl Fn(io::Error) -> Error {
    move |error| anyhow!("{} cannot be written: {error}: choose another folder with -o, or make room", path.display())
}

/// Returns whether the folder is a table or a partition.
fn is_of_data_set(folder: &Path) -> bool {
    let name = folder.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    name.contains('=') || TABLES.contains(&&*name)
}

fn is_part(path: &Path) -> bool {
    path.file_name()
        .map(|name| name.to_string_lossy())
        .is_some_and(|name| name.starts_with('.') && name.ends_with(".part"))
}

/// Returns the UTC date.
fn day(ns: u64) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(ns)).unwrap_or(jiff::Timestamp::MAX);
    time.to_string().chars().take_while(|letter| *letter != 'T').collect()
}

/// Returns a value as a folder name. Percent-encodes ASCII characters that Hive and compatible readers would misread.
/// Other characters stay: Spark decodes each escape as a character, other readers as a byte.
fn escaped(value: &str) -> String {
    let mut escaped = String::new();
    for letter in value.chars() {
        match letter {
            'A'..='Z' | 'a'..='z' | '0'..='9' | '-' | '_' | '.' => escaped.push(letter),
            _ if letter.is_ascii() => _ = write!(escaped, "%{:02X}", u32::from(letter)),
            _ => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_named_as_hive_does() {
        assert_eq!(escaped("db-1.example"), "db-1.example");
        assert_eq!(escaped("../a b=c%"), "..%2Fa%20b%3Dc%25");
        assert_eq!(escaped("m\u{fc}nchen:1"), "m\u{fc}nchen%3A1");
    }

    #[test]
    fn days_are_those_of_utc() {
        assert_eq!(day(0), "1970-01-01");
        assert_eq!(day(1_700_000_000_000_000_000), "2023-11-14");
        assert_eq!(day(1_700_006_399_999_999_999), "2023-11-14");
        assert_eq!(day(1_700_006_400_000_000_000), "2023-11-15");
    }
}
