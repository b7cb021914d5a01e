//! The data set: a folder for each table, in these folders for host and run, and the files in them.

use crate::encode::{Form, Layout};
use crate::table::Field;
use anyhow::{Context, Error, Result, anyhow};
use overhead_files::open_lock;
use std::fmt::Write;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// The tables, in the order in which their files appear; who finds a run in the last one has all of it.
pub const TABLES: [&str; 4] = ["operations", "statements", "connections", "runs"];

/// Where the tables of one run go.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// The folder.
    pub root: PathBuf,
    /// Host that the capture is from.
    pub host: String,
    /// Name of the run.
    pub run: String,
    /// Operations lie in a folder for each day (UTC) on which they began.
    pub by_day: bool,
    /// Form of the files.
    pub form: Form,
}

impl Dataset {
    /// Returns the layout of a table.
    pub fn layout<B>(&self, table: &'static str, fields: Vec<Field<B>>) -> Result<Layout<B>> {
        Layout::new(table, fields, self.form, &self.host, &self.run)
    }

    /// Returns where the file of a table lies.
    pub fn table(&self, table: &str) -> PathBuf {
        self.root.join(table).join(self.partition()).join(self.file(0))
    }

    /// Returns where a file of the table `operations` lies, whose operations began at that time, or on that day.
    pub fn operations(&self, start_ns: u64, number: u32) -> PathBuf {
        let table = self.root.join("operations");
        let table = if self.by_day { table.join(format!("day={}", day(start_ns))) } else { table };
        table.join(self.partition()).join(self.file(number))
    }

    /// Returns whether it is the same run of the same host.
    pub fn is_like(&self, other: &Self) -> bool {
        (&self.host, &self.run) == (&other.host, &other.run)
    }

    fn partition(&self) -> PathBuf {
        PathBuf::from(format!("host={}", escaped(&self.host))).join(format!("run={}", escaped(&self.run)))
    }

    fn file(&self, number: u32) -> String {
        format!("part-{number:05}.{}", self.form.extension())
    }

    /// Keeps other exports of this run away, as long as what is returned lives.
    ///
    /// # Errors
    ///
    /// Another one is under way, or the folder cannot be written.
    pub fn lock(&self) -> Result<Lock> {
        let folder = self.root.join("runs").join(self.partition());
        fs::create_dir_all(&folder).map_err(cannot_write(&folder))?;
        let path = folder.join(LOCK);
        let file = open_lock(&path).map_err(cannot_write(&folder))?;
        // Where file systems have no locks, they do without.
        if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
            return Err(anyhow!(
                "run {} of host {} is being written by another export: wait until it has ended, or choose another name with --run",
                self.run,
                self.host
            ));
        }
        Ok(Lock { path, _file: file })
    }

    /// Returns the files that are there of this run, to be replaced: there may be some if `force` alone. Removes what exports that
    /// were killed have left.
    pub fn make_room(&self, force: bool) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for folder in TABLES.iter().flat_map(|table| self.folders(&self.root.join(table))) {
            let listed = fs::read_dir(&folder).with_context(|| format!("{} cannot be read", folder.display()))?;
            for path in listed.flatten().map(|entry| entry.path()) {
                if path.ends_with(LOCK) {
                    // Ours.
                } else if is_part(&path) {
                    remove_left(&path)?;
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

    /// Returns the folders of this run in that of a table.
    fn folders(&self, table: &Path) -> Vec<PathBuf> {
        let mut parents = vec![table.to_owned()];
        let days = fs::read_dir(table).into_iter().flatten().flatten().map(|entry| entry.path());
        parents.extend(
            days.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("day="))),
        );
        parents.iter().map(|parent| parent.join(self.partition())).filter(|folder| folder.exists()).collect()
    }
}

/// The file by which an export keeps others of the same run away.
const LOCK: &str = ".lock";

/// An export is under way. Ends when it is dropped.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    _file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        remove_folders(&self.path);
    }
}

/// Returns the name that a file has until it is whole.
pub fn part_of(place: &Path) -> PathBuf {
    let name = place.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    place.with_file_name(format!(".{name}.{}.part", std::process::id()))
}

/// Removes the folders of a file that is gone, as far as they are of a table and nothing else is in them.
pub fn remove_folders(file: &Path) {
    let folders = file.ancestors().skip(1).take_while(|folder| is_of_data_set(folder));
    folders.map_while(|folder| fs::remove_dir(folder).ok()).for_each(drop);
}

/// Returns what there is to say of a place that cannot be written.
pub fn cannot_write(path: &Path) -> impl Fn(std::io::Error) -> Error {
    move |error| anyhow!("{} cannot be written: {error}: choose another folder with -o, or make room", path.display())
}

/// Returns whether a folder is one of a table, or of what is in it.
fn is_of_data_set(folder: &Path) -> bool {
    let name = folder.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    name.contains('=') || TABLES.contains(&&*name)
}

fn is_part(path: &Path) -> bool {
    path.file_name()
        .map(|name| name.to_string_lossy())
        .is_some_and(|name| name.starts_with('.') && name.ends_with(".part"))
}

/// Removes a file that was never whole. While it is written, it is locked.
fn remove_left(part: &Path) -> Result<()> {
    if let Ok(file) = File::open(part)
        && matches!(file.try_lock(), Err(TryLockError::WouldBlock))
    {
        return Err(anyhow!(
            "{} is being written by another export of the same run: wait until it has ended",
            part.display()
        ));
    }
    fs::remove_file(part).with_context(|| format!("{} cannot be removed", part.display()))
}

/// Returns the day of a time, in UTC.
fn day(ns: u64) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(ns)).unwrap_or(jiff::Timestamp::MAX);
    time.to_string().chars().take_while(|letter| *letter != 'T').collect()
}

/// Returns a value as the name of a folder has it: what Hive and those who follow it would misread is `%` and two digits. Letters beyond
/// ASCII stay: Spark takes each `%` for a letter, others for a byte.
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
