//! Subjects of a comparison or a check as the command line names them: one run, or a folder of runs.

use crate::choice::{ConnectionChoice, DecodePlan};
use crate::inputs::InputPlan;
use crate::keys::KeyReader;
use crate::projection::read_fields;
use crate::record::RecordPlan;
use crate::run_folder::{self, RECORD, folder_name, has_packets, has_record};
use crate::warnings::Warnings;
use anyhow::{Context, Result, bail};
use overhead_report::{NamedRun, RunGroup, load_named_run};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Record of a sweep whose runs lack their parameters.
const OLD_SWEEP: &str = "sweep.json";

/// Reads runs, and the fields of their messages if the packets are there.
#[derive(Debug)]
pub struct GroupReader {
    decode: DecodePlan,
    keys: KeyReader,
}

impl GroupReader {
    /// Reads the keys.
    pub fn new(decode: DecodePlan, warnings: &mut Warnings) -> Result<Self> {
        Ok(Self { keys: KeyReader::read(&decode.keys, warnings)?, decode })
    }

    /// Reads a run, or all runs of a folder as one subject.
    pub fn group(&self, path: &Path) -> Result<RunGroup> {
        let folders = run_folders(path);
        if folders.is_empty() {
            return Ok(RunGroup::single(self.run(path, true)?));
        }
        let runs = folders.iter().map(|folder| self.run(folder, true)).collect::<Result<_>>()?;
        Ok(RunGroup { name: folder_name(path), runs })
    }

    /// Returns the runs of a folder of runs; the path itself for any other.
    pub fn paths(path: &Path) -> Vec<PathBuf> {
        let folders = run_folders(path);
        if folders.is_empty() { vec![path.to_owned()] } else { folders }
    }

    /// Reads one run, under the path as it was given.
    pub fn named(&self, path: &Path, with_fields: bool) -> Result<NamedRun> {
        Ok(NamedRun { name: path.display().to_string(), ..self.run(path, with_fields)? })
    }

    /// Reads a record, or makes one from a capture.
    fn run(&self, path: &Path, with_fields: bool) -> Result<NamedRun> {
        let mut named = load(path, &self.decode)?;
        if with_fields {
            self.add_fields(path, &mut named)?;
        }
        Ok(named)
    }

    /// Reads the fields of a run without any from its packets, if they are there.
    fn add_fields(&self, path: &Path, named: &mut NamedRun) -> Result<()> {
        let packets = run_folder::packets(path, &named.run);
        if packets.is_empty() || named.run.operations.iter().any(|row| row.fields.is_some()) {
            return Ok(());
        }
        let connections = ConnectionChoice::from(run_folder::selected(&named.run));
        let input = InputPlan::whole(packets, connections, self.decode.keys.clone())?;
        read_fields(&mut named.run, &input, &self.keys)
            .with_context(|| format!("{}: its packets cannot be read for their fields", path.display()))
    }
}

/// Returns the runs below a folder, of a sweep too; the path itself for any other.
///
/// # Errors
///
/// The folder is a sweep of an earlier version.
pub fn runs_below(path: &Path) -> Result<Vec<PathBuf>> {
    check_sweep_version(path)?;
    let mut folders = run_folders(path);
    if folders.is_empty() && !is_run(path) {
        folders = subfolders(path).iter().flat_map(|folder| run_folders(folder)).collect();
    }
    Ok(if folders.is_empty() { vec![path.to_owned()] } else { folders })
}

/// Refuses the folder of a sweep that an earlier version made: its runs lack their parameters.
///
/// # Errors
///
/// The folder has a record of a sweep.
pub fn check_sweep_version(path: &Path) -> Result<()> {
    let folder = if path.ends_with(OLD_SWEEP) { path.parent().unwrap_or(path) } else { path };
    if folder.join(OLD_SWEEP).is_file() {
        bail!(
            "{} is a sweep of an earlier version, whose runs lack their parameters: repeat its `overhead sweep` command \
             with another -o",
            folder.display()
        );
    }
    Ok(())
}

/// Returns the folder that a run's sweep or repetitions are in: `sweep` for `sweep/P=1/run-1`; the path itself for others.
pub fn sweep_of(path: &Path) -> PathBuf {
    let whole = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let is_repetition = folder_name(&whole).strip_prefix("run-").is_some_and(|number| number.parse::<u32>().is_ok());
    let Some(folder) = whole.parent().filter(|_| is_repetition) else { return path.to_owned() };
    let is_point = folder_name(folder).contains('=');
    folder.parent().filter(|_| is_point).unwrap_or(folder).to_owned()
}

/// Loads a run for a comparison: its record, or the result of analyzing its packets.
pub fn load(path: &Path, decode: &DecodePlan) -> Result<NamedRun> {
    if has_record(path) || !path.exists() || (path.is_dir() && !has_packets(path)) {
        return Ok(load_named_run(path)?);
    }
    let input = InputPlan::open(vec![path.to_owned()], decode)?;
    let stem = path.file_stem().filter(|_| input.kept.is_none()).map(|stem| stem.to_string_lossy().into_owned());
    let name = stem.unwrap_or_else(|| input.name());
    Ok(NamedRun::new(name, RecordPlan::new(input).record()?))
}

/// Renames runs that have the same name after the nearest part of their paths that differs.
pub fn distinguish(names: &mut [&mut String], paths: &[PathBuf]) {
    let whole = |path: &PathBuf| fs::canonicalize(path).unwrap_or_else(|_| path.clone());
    let whole: Vec<PathBuf> = paths.iter().map(whole).collect();
    for at in 0..names.len().min(whole.len()) {
        let alike: Vec<usize> = (at..whole.len()).filter(|other| *names[*other] == *names[at]).collect();
        if alike.len() < 2 {
            continue;
        }
        let part = |at: usize, up: usize| {
            let part = whole[at].components().rev().nth(up)?.as_os_str();
            Some(part.to_string_lossy().into_owned())
        };
        let parts = |up: usize| alike.iter().map(|at| part(*at, up)).collect::<Option<Vec<String>>>();
        let differing = (0..).map_while(parts).find(|parts| parts.iter().collect::<BTreeSet<_>>().len() == parts.len());
        for (at, part) in alike.iter().zip(differing.unwrap_or_default()) {
            *names[*at] = part;
        }
    }
}

fn is_run(path: &Path) -> bool {
    path.join(RECORD).is_file() || has_packets(path)
}

/// Returns the run folders in a folder, `run-2` before `run-10`; none if it is a run itself.
fn run_folders(path: &Path) -> Vec<PathBuf> {
    if is_run(path) {
        return Vec::new();
    }
    subfolders(path).into_iter().filter(|path| is_run(path)).collect()
}

/// Returns what is in a folder, in the order of the numbers in its names.
fn subfolders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    folders.sort_by_cached_key(|path| numbered(&folder_name(path)));
    folders
}

/// Returns a name without the number it ends in, the number, and the name.
fn numbered(name: &str) -> (String, u64, String) {
    let stem = name.trim_end_matches(|last: char| last.is_ascii_digit());
    let number = name.get(stem.len()..).and_then(|digits| digits.parse().ok()).unwrap_or(0);
    (stem.to_owned(), number, name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_one_name_are_named_after_what_differs_in_their_paths() {
        let named = |paths: [&str; 3]| {
            let mut names = paths.map(|path| folder_name(Path::new(path)));
            distinguish(&mut names.each_mut(), &paths.map(PathBuf::from));
            names
        };
        assert_eq!(named(["/a/redis/1", "/a/postgres/1", "/a/other"]), ["redis", "postgres", "other"]);
        assert_eq!(named(["/a/x/1", "/b/x/1", "/c/x/1"]), ["a", "b", "c"]);
        assert_eq!(named(["/a/1", "/a/1", "/a/2"]), ["1", "1", "2"]);
    }

    #[test]
    fn runs_of_a_folder_are_in_the_order_of_their_numbers() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["run-10", "run-2", "run-1", "notes"] {
            fs::create_dir(dir.path().join(name)).unwrap();
            if name != "notes" {
                fs::write(dir.path().join(name).join(RECORD), "{}").unwrap();
            }
        }
        let names: Vec<String> = run_folders(dir.path()).iter().map(|path| folder_name(path)).collect();
        assert_eq!(names, ["run-1", "run-2", "run-10"]);
        assert!(run_folders(&dir.path().join("run-1")).is_empty());
    }
}
