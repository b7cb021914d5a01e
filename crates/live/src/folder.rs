//! The folder of one run. It is made before anything is measured, so that an unwritable place is found before the
//! benchmark runs.

use anyhow::{Context, Result, bail, ensure};
use overhead_files::{FileOwner, OutputFolder, ReservedFile};
use overhead_model::Run;
use overhead_model::record::InputFile;
use overhead_reading::run_folder::{PACKETS, PART, RECORD, packets_in, rotated_number};
use overhead_report::{NamedRun, REPORT_FILES, text, write_report};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Space reserved for the record. A record of thousands of operations needs this much; the charts come after it.
const RESERVED_BYTES: u64 = 4 << 20;
/// Maximum number of folder names tried when runs start in the same second.
const NAMES: u32 = 1000;

/// Files of the command's standard output and standard error, if they are kept.
pub const PRINTED: [&str; 2] = ["command.out", "command.err"];

/// The open folder of one run. No other capture can use it.
#[derive(Debug)]
pub struct RunFolder {
    place: OutputFolder,
    /// The name of the run: the given name, or else the folder's.
    pub name: String,
    /// Space reserved for the record, until the record is written.
    reserved: Mutex<Option<ReservedFile>>,
}

/// The result of writing a run.
#[derive(Debug)]
pub struct WrittenRun {
    /// The written files, the record first.
    pub files: Vec<PathBuf>,
    /// Why the charts were not written; `None` if they were.
    pub without_charts: Option<String>,
}

impl RunFolder {
    /// Makes the folder, accessible only to its owner. Keeps existing files unless `force` is set.
    pub fn create(path: Option<&Path>, db: &str, force: bool, owner: Option<FileOwner>) -> Result<Self> {
        let Some(path) = path else { return Self::new(by_time(db, owner)?) };
        let place = OutputFolder::open_or_make(path, 0o700, owner).map_err(|error| unwritable(path, &error))?;
        if !place.lock() {
            bail!("{} is another capture's, which is running: choose another folder with -o", path.display());
        }
        // Files of an earlier run could be mistaken for this run's, if this run keeps no packets or is aborted.
        for name in run_files().map(str::to_owned).chain(rotated(path)).filter(|name| place.holds(name)) {
            let name = name.as_str();
            ensure!(force, occupied(path, name));
            place.remove(name).map_err(|error| unwritable(&path.join(name), &error))?;
        }
        Self::new(place)
    }

    fn new(place: OutputFolder) -> Result<Self> {
        ensure!(place.lock(), "{} was taken by another capture at the same moment: try again", place.path().display());
        let name = place.path().file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_else(|| place.path().display().to_string());
        let folder = Self { place, name, reserved: Mutex::default() };
        match folder.place.reserve(PART, RESERVED_BYTES) {
            Ok(reserved) => *folder.reserved.lock().unwrap_or_else(PoisonError::into_inner) = Some(reserved),
            Err(error) => {
                folder.discard();
                return Err(unwritable(folder.path(), &error));
            }
        }
        Ok(folder)
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// Returns the packet files.
    pub fn packets(&self) -> Vec<PathBuf> {
        packets_in(self.path())
    }

    /// Creates a packet file, accessible only to its owner.
    pub fn create_packets(&self, name: &str) -> io::Result<File> {
        self.place.create(name, 0o600)
    }

    /// Removes a packet file.
    pub fn remove_packets(&self, name: &str) {
        let _ = self.place.remove(name);
    }

    /// Removes the packets, so that another run of the command can write its own.
    pub fn forget_packets(&self) {
        self.remove_packets(PACKETS);
        for name in rotated(self.path()) {
            self.remove_packets(&name);
        }
    }

    /// Returns whether the folder has packets from which a record can be made.
    pub fn has_packets(&self) -> bool {
        !self.packets().is_empty()
    }

    /// Removes missing packet files from the list, and returns a warning about them.
    pub fn lost_packets(&self, files: &mut Vec<InputFile>) -> Option<String> {
        let lost: Vec<InputFile> = files.extract_if(.., |file| !self.place.holds(&file.path)).collect();
        if !lost.is_empty() && self.place.is_gone() {
            let what =
                "the run folder was deleted while the capture ran, and the packets with it: the record is in a new one";
            return Some(what.to_owned());
        }
        let first = lost.first()?.path.as_str();
        let which = match lost.len() {
            1 => format!("{first} was"),
            files => format!("{first} and {} more were", files - 1),
        };
        Some(format!("{which} deleted while the capture ran: these packets of the run cannot be read again"))
    }

    /// Creates files for the command's output, accessible only to their owner.
    pub fn create_printed(&self) -> Result<[File; 2]> {
        let create =
            |name: &str| self.place.create(name, 0o600).map_err(|error| unwritable(&self.path().join(name), &error));
        Ok([create(PRINTED[0])?, create(PRINTED[1])?])
    }

    /// Removes a folder in which nothing was measured.
    pub fn discard(&self) {
        // A folder with other files in it remains.
        self.forget_packets();
        for name in [PART].into_iter().chain(PRINTED) {
            let _ = self.place.remove(name);
        }
        if self.place.is_new {
            let _ = std::fs::remove_dir(self.path());
        }
    }

    /// Ends an aborted run but keeps its packets. Returns a message about them.
    pub fn abandon(&self) -> String {
        let _ = self.place.remove(PART);
        let path = self.path().display();
        if self.place.holds(RECORD) {
            return format!("the record is written, and charts may be missing: `overhead report {path}` draws them");
        }
        if !self.has_packets() {
            self.discard();
            return "nothing was kept".to_owned();
        }
        format!(
            "the record and the counters are lost; `overhead analyze {path}` makes a record of the packets that were kept"
        )
    }

    /// Names the run differently from its folder.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// Writes record and charts, into a new folder if this one was deleted. The record is written completely even if
    /// the charts cannot be.
    pub fn write(&self, run: &Run) -> Result<WrittenRun> {
        let json = text::json(run)?;
        let reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner).take();
        let remade = self.place.is_gone().then(|| numbered(self.path(), self.place.owner)).transpose()?;
        let place = remade.as_ref().unwrap_or(&self.place);
        let record = match reserved.filter(|_| place.holds(PART)) {
            Some(reserved) => place.write_reserved(reserved, RECORD, json.as_bytes()),
            None => place.write(RECORD, json.as_bytes()),
        };
        let record = record.with_context(|| {
            let hint = self.abandon();
            format!("{} cannot be written: {hint}", place.path().join(RECORD).display())
        })?;
        let mut written = WrittenRun { files: vec![record], without_charts: None };
        match write_report(&[NamedRun::new(self.name.clone(), run.clone())], place) {
            Ok(files) => written.files.extend(files),
            Err(error) => written.without_charts = Some(error.to_string()),
        }
        Ok(written)
    }
}

/// Returns the names of all files of a run, its record first.
fn run_files() -> impl Iterator<Item = &'static str> {
    [RECORD, PACKETS, PART].into_iter().chain(PRINTED).chain(REPORT_FILES)
}

/// Returns the names of the rotated packet files in a folder.
fn rotated(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| rotated_number(name).is_some()).collect()
}

fn occupied(path: &Path, name: &str) -> String {
    let holds = match name {
        RECORD => "a run already".to_owned(),
        name if is_packets(name) || name == PART => format!("{name} of an unfinished run"),
        name => format!("a file {name} already"),
    };
    let keep = if is_packets(name) {
        format!(" (`overhead analyze {}` makes the record of it)", path.display())
    } else {
        String::new()
    };
    let path = path.display();
    format!("{path} holds {holds}{keep}: choose another folder with -o, or overwrite it with --force")
}

fn is_packets(name: &str) -> bool {
    name == PACKETS || rotated_number(name).is_some()
}

fn unwritable(path: &Path, error: &io::Error) -> anyhow::Error {
    let is_link = std::fs::symlink_metadata(path).is_ok_and(|it| it.is_symlink());
    let reason = if is_link { "it is a symbolic link".to_owned() } else { error.to_string() };
    anyhow::anyhow!("the run folder {} cannot be written ({reason}): choose another with -o", path.display())
}

/// Makes a folder such as `runs/20261121-104512-redis`, in UTC. Further folders of the same second get a number.
pub fn by_time(db: &str, owner: Option<FileOwner>) -> Result<OutputFolder> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let name = format!("{}-{db}", timestamp(seconds));
    numbered(&Path::new("runs").join(name), owner)
}

fn numbered(path: &Path, owner: Option<FileOwner>) -> Result<OutputFolder> {
    let mut candidate = path.to_owned();
    for number in 2..NAMES {
        match OutputFolder::make(&candidate, 0o700, owner) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                candidate = PathBuf::from(format!("{}-{number}", path.display()));
            }
            made => return made.map_err(|error| unwritable(&candidate, &error)),
        }
    }
    bail!("{} and many folders with its name and a number exist already: choose another folder with -o", path.display())
}

/// Formats Unix seconds as a name that sorts by time.
fn timestamp(seconds: u64) -> String {
    let time = jiff::Timestamp::from_second(seconds.cast_signed()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    time.strftime("%Y%m%d-%H%M%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn create(path: &Path, force: bool) -> Result<RunFolder> {
        RunFolder::create(Some(path), "redis", force, None)
    }

    #[test]
    fn default_names_sort_by_time() {
        assert_eq!(timestamp(1_795_259_112), "20261121-110512");
    }

    #[test]
    fn two_runs_of_one_second_have_folders_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("runs/20261121-110512-redis");
        let names: Vec<PathBuf> = (0..3).map(|_| numbered(&path, None).unwrap().path().to_owned()).collect();
        let name = |suffix: &str| PathBuf::from(format!("{}{suffix}", path.display()));
        assert_eq!(names, [name(""), name("-2"), name("-3")]);
    }

    // Each try has its own folder: a process that another test has just forked can keep the previous one locked for a moment.
    #[test]
    fn whatever_is_there_is_kept_unless_forced() {
        for name in run_files().chain(["packets-000007.pcapng"]) {
            let [kept, dir] = [(); 2].map(|()| tempfile::tempdir().unwrap());
            for dir in [&kept, &dir] {
                fs::write(dir.path().join(name), "somebody's").unwrap();
            }
            let refused = create(kept.path(), false).unwrap_err().to_string();
            assert!(refused.contains("--force"), "{refused}");
            assert_eq!(fs::read_to_string(kept.path().join(name)).unwrap(), "somebody's");
            let folder = create(dir.path(), true).unwrap();
            assert!(name == PART || !dir.path().join(name).exists(), "{name}");
            folder.discard();
            assert!(dir.path().exists(), "a folder of somebody's stays");
        }
    }

    #[test]
    fn a_folder_is_of_one_capture_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let first = create(&path, false).unwrap();
        let refused = create(&path, true).unwrap_err().to_string();
        assert!(refused.contains("another capture's"), "{refused}");
        first.discard();
        assert!(!path.exists());
    }

    #[test]
    fn folder_and_packets_are_for_their_owners_eyes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let folder = create(&path, false).unwrap();
        folder.create_packets(PACKETS).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&path.join(PACKETS))), (0o700, 0o600));
        assert!(folder.abandon().contains(&format!("overhead analyze {}", path.display())));
        assert!(!path.join(PART).exists() && folder.has_packets());
    }

    #[test]
    fn packets_that_were_deleted_are_missed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let folder = create(&path, false).unwrap();
        folder.create_packets(PACKETS).unwrap();
        let written = || vec![InputFile { path: PACKETS.to_owned(), frames: 1, wire_bytes: 60 }];
        let mut files = written();
        assert_eq!((folder.lost_packets(&mut files), files), (None, written()));
        fs::remove_file(path.join(PACKETS)).unwrap();
        let mut files = written();
        assert!(folder.lost_packets(&mut files).unwrap().starts_with("packets.pcapng was deleted"));
        assert!(files.is_empty());
        fs::remove_dir_all(&path).unwrap();
        assert!(folder.lost_packets(&mut written()).unwrap().starts_with("the run folder was deleted"));
    }

    #[test]
    fn a_link_that_leads_nowhere_is_something_that_is_there() {
        let [refused, replaced] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        for dir in [&refused, &replaced] {
            symlink("/nowhere/at/all", dir.path().join(PACKETS)).unwrap();
        }
        assert!(create(refused.path(), false).is_err());
        create(replaced.path(), true).unwrap().create_packets(PACKETS).unwrap();
        assert!(fs::symlink_metadata(replaced.path().join(PACKETS)).unwrap().is_file());
    }

    #[test]
    fn an_unwritable_place_is_named_with_a_remedy() {
        let error = format!("{:#}", create(Path::new("/proc/nowhere"), false).unwrap_err());
        assert!(error.contains("/proc/nowhere") && error.contains("-o"), "{error}");
    }
}
