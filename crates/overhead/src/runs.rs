//! Runs as input to verbs: run folders, records and captures.

use crate::analyze::RecordPlan;
use crate::caller;
use crate::cli::{DecodeArgs, Which};
use crate::exit::bail_usage;
use crate::inputs::InputPlan;
use crate::ledger::Circumstances;
use crate::sample::Windows;
use crate::warnings::Warnings;
use anyhow::{Context, Result, bail};
use overhead_capture::FileSource;
use overhead_files::OutputFolder;
use overhead_model::Measured;
use overhead_model::record::{Connection, Run, Selected, SourceKind};
use overhead_report::text::{counted, grouped};
use overhead_report::{NamedRun, load_named_run, load_run, text};
use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

pub const RECORD: &str = "run.json";
pub const PACKETS: &str = "packets.pcapng";
/// Name of the record until it is written. The file reserves its disk space before a capture begins.
pub const PART: &str = ".run.json.part";
/// Prefix and suffix of numbered packet files.
const ROTATED: (&str, &str) = ("packets-", ".pcapng");
/// Prefix of a packet file's comment; the options follow, as on the command line.
const ASKED_FOR: &str = "overhead capture";

/// A run whose packets are read again.
#[derive(Clone, Debug)]
pub struct KeptRun {
    folder: PathBuf,
    /// The packet files.
    pub packets: Vec<PathBuf>,
    /// The record of these packets; `None` if the capture was aborted.
    record: Option<Run>,
    /// The capture was still running when the packets were found.
    running: bool,
    /// The packets end before the recorded run does.
    is_cut: bool,
}

impl KeptRun {
    /// Opens a run folder, or the folder of a record; returns `None` for anything else.
    pub fn open(path: &Path) -> Result<Option<Self>> {
        if has_record(path) {
            let run = load_run(path)?;
            let mut packets = packets(path, &run);
            // When its disk is full, a capture names no file and leaves the packets written so far.
            let is_cut = packets.is_empty() && run.source.inputs.is_empty();
            if is_cut {
                packets = packets_in(path);
            }
            if packets.is_empty() {
                let path = path.display();
                bail_usage!(
                    "{path}: there are no packets to read again: name the capture itself, or see the record with `overhead report {path}`"
                );
            }
            let folder = if path.is_dir() { Some(path) } else { path.parent() };
            return Ok(Some(Self {
                folder: folder.unwrap_or(path).to_owned(),
                packets,
                record: Some(run),
                running: false,
                is_cut,
            }));
        }
        let packets = packets_in(path);
        Ok((!packets.is_empty()).then(|| {
            let lock = File::open(path).map(|folder| folder.try_lock());
            let running = matches!(lock, Ok(Err(TryLockError::WouldBlock)));
            Self { folder: path.to_owned(), packets, record: None, running, is_cut: false }
        }))
    }

    /// Returns when a sampled capture ended, in Unix nanoseconds; `None` if it was continuous.
    pub fn sample_end_ns(&self) -> Option<u64> {
        let sample = self.record.as_ref()?.sample.as_ref()?;
        Some(sample.start_ns + sample.span_ns)
    }

    /// Returns the record of the packets; `None` if the capture was aborted or is running.
    pub fn kept_record(&self) -> Option<&Run> {
        self.record.as_ref()
    }

    /// Returns whether the capture ended before it could write its record.
    pub fn is_aborted(&self) -> bool {
        self.record.is_none() && !self.running
    }

    /// Returns the user's choice of connections, or else the capture's.
    pub fn which(&self, asked: &Which) -> Which {
        if !asked.is_default() {
            return asked.clone();
        }
        let selected = match &self.record {
            Some(run) => selected(run),
            None => self.packets.first().and_then(|packets| noted(packets)).unwrap_or_default().asked,
        };
        Which { statements: asked.statements.clone(), ..Which::of(&selected) }
    }

    /// Adds the recorded facts about the run to `facts`. Counters cover the whole capture, so a part of it (`is_part`) has
    /// none.
    pub fn facts(&self, facts: Circumstances, is_part: bool, warnings: &mut Warnings) -> Circumstances {
        let Some(run) = self.record.clone() else { return unfinished(facts, self.running, warnings) };
        if run.source.kind == SourceKind::File {
            return facts;
        }
        warnings.dropped_of_record(run.source.kernel_drops.value().copied().unwrap_or_default());
        let rotation = run.source.rotation;
        let is_part = is_part || rotation.is_some_and(|rotation| rotation.deleted_files > 0);
        let mut inputs = facts.inputs;
        if self.is_cut {
            let kept: u64 = inputs.iter().map(|input| input.frames).sum();
            warnings.partial(format!(
                "writing packets failed before the run ended: {} of {} are kept; {} covers all",
                grouped(kept),
                counted(run.source.frames, "frame"),
                self.folder.join(RECORD).display()
            ));
        }
        for (input, before) in inputs.iter_mut().zip(run.source.inputs) {
            input.path = before.path;
        }
        let counters = if is_part || self.is_cut {
            Measured::unavailable("counters were taken over the whole capture, not over this part of it")
        } else {
            run.counters
        };
        let only_command = run.source.only_command;
        if let Some(only) = only_command {
            warnings.of_only_command(only);
        }
        let (kernel_drops, bpf_ns) = (run.source.kernel_drops, run.observer.bpf_ns);
        Circumstances {
            kind: SourceKind::Live,
            inputs,
            rotation,
            only_command,
            kernel_drops,
            environment: run.environment,
            counters,
            bpf_ns,
            ..facts
        }
    }

    /// Copies TCP's counters of the connections that have the same bytes as in the record.
    pub fn copy_tcp_counters(&self, run: &mut Run) {
        let Some(recorded) = &self.record else { return };
        let key = |row: &Connection| (row.client.clone(), row.server.clone(), row.wire_bytes);
        let recorded: HashMap<_, _> = recorded.connections.iter().map(|row| (key(row), &row.kernel)).collect();
        for row in &mut run.connections {
            if let Some(kernel) = recorded.get(&key(row)) {
                row.kernel = Measured::clone(kernel);
            }
        }
    }

    /// Writes the record into the folder, whole or not at all, and returns its path.
    pub fn write(&self, run: &Run) -> Result<PathBuf> {
        let path = self.folder.join(RECORD);
        if self.is_cut {
            bail!("{} is of the whole run, and the packets are of a part of it: it stays as it is", path.display());
        }
        let json = text::json(run)?;
        let folder = OutputFolder::open_or_make(&self.folder, 0o700, caller::owner())
            .with_context(|| format!("{} cannot be written", path.display()))?;
        if !folder.lock() {
            bail!(
                "{}: the capture into this folder is running, and writes its record itself: end it first",
                path.display()
            );
        }
        if self.record.is_none() && folder.holds(RECORD) {
            bail!("{}: the capture has written its record meanwhile", path.display());
        }
        // A capture that was killed leaves its reserved space behind.
        let written = folder.write(RECORD, json.as_bytes()).and_then(|path| folder.remove(PART).map(|()| path));
        written.with_context(|| format!("{} cannot be written", path.display()))
    }

    /// Returns the folder's name, which is also the run's.
    pub fn name(&self) -> String {
        folder_name(&self.folder)
    }
}

/// Returns the name of a folder, also of `.`.
pub fn folder_name(path: &Path) -> String {
    let absolute = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    absolute.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// Describes a capture without a record, which is still running or was aborted.
fn unfinished(facts: Circumstances, running: bool, warnings: &mut Warnings) -> Circumstances {
    let reason = if running { "the capture is still running" } else { "the capture was aborted" };
    warnings.partial(format!(
        "{reason}: this is the record of the packets that were kept, without counters, drops, machine and command"
    ));
    let why = || reason.to_owned();
    let (counters, bpf_ns) = (Measured::unavailable(why()), Measured::unavailable(why()));
    let mut inputs = facts.inputs;
    for input in &mut inputs {
        if let Some(name) = Path::new(&input.path).file_name() {
            input.path = name.to_string_lossy().into_owned();
        }
    }
    Circumstances {
        kind: SourceKind::Live,
        inputs,
        kernel_drops: Measured::unavailable(why()),
        counters,
        bpf_ns,
        ..facts
    }
}

/// Loads a run for a comparison: its record, or the result of analyzing its packets.
pub fn load(path: &Path, decode: &DecodeArgs) -> Result<NamedRun> {
    if has_record(path) || !path.exists() || (path.is_dir() && !has_packets(path)) {
        return Ok(load_named_run(path)?);
    }
    let input = InputPlan::open(vec![path.to_owned()], decode)?;
    let stem = path.file_stem().filter(|_| input.kept.is_none()).map(|stem| stem.to_string_lossy().into_owned());
    let name = stem.unwrap_or_else(|| input.name());
    Ok(NamedRun::new(name, RecordPlan::of(input).record()?))
}

/// Returns whether `path` is a record or a folder with one.
fn has_record(path: &Path) -> bool {
    if path.is_dir() {
        return path.join(RECORD).is_file();
    }
    is_json(path)
}

/// Returns whether `path` is a file that starts like JSON.
pub fn is_json(path: &Path) -> bool {
    // Reading a pipe here would lose its data.
    path.is_file() && begins_with_brace(path).unwrap_or(false)
}

/// Returns whether a file begins with a brace after optional white space, as records do and captures do not.
fn begins_with_brace(path: &Path) -> io::Result<bool> {
    let mut first = [0; 16];
    let len = File::open(path)?.read(&mut first)?;
    Ok(first.get(..len).is_some_and(|first| first.trim_ascii_start().first() == Some(&b'{')))
}

/// Returns the files that a record was made from, if all of them still exist.
pub fn packets(path: &Path, run: &Run) -> Vec<PathBuf> {
    let folder = if path.is_dir() { Some(path) } else { path.parent() };
    let place = |input: &overhead_model::record::Input| {
        let inside = folder.map(|folder| folder.join(&input.path));
        inside.filter(|path| path.is_file()).or_else(|| Some(PathBuf::from(&input.path)).filter(|path| path.is_file()))
    };
    run.source.inputs.iter().map(place).collect::<Option<_>>().unwrap_or_default()
}

/// Returns a record's choice of connections. For older records without one, derives it from their connections.
pub fn selected(run: &Run) -> Selected {
    let asked = run.source.selection.clone();
    if asked != Selected::default() {
        return asked;
    }
    let mut found = Selected::default();
    for connection in &run.connections {
        let Ok(server) = connection.server.parse::<SocketAddr>() else { continue };
        if !found.ports.contains(&server.port()) {
            found.ports.push(server.port());
        }
        if !found.db.contains(&connection.protocol) {
            found.db.push(connection.protocol.clone());
        }
    }
    // With several protocols, detection assigns the ports again.
    if found.db.len() > 1 { Selected { db: Vec::new(), ..found } } else { found }
}

pub fn has_packets(folder: &Path) -> bool {
    !packets_in(folder).is_empty()
}

/// Returns a capture's packet files in a folder, in order.
pub fn packets_in(folder: &Path) -> Vec<PathBuf> {
    let packets = folder.join(PACKETS);
    if packets.is_file() {
        return vec![packets];
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let numbered = entries.filter_map(|entry| Some((rotated_number(entry.file_name().to_str()?)?, entry.path())));
    let mut files: Vec<(u64, PathBuf)> = numbered.filter(|(_, path)| path.is_file()).collect();
    files.sort();
    files.into_iter().map(|(_, path)| path).collect()
}

/// Returns the name of a numbered packet file; numbers begin with 1.
#[cfg(feature = "live")]
pub fn rotated_name(number: u64) -> String {
    format!("{}{number:06}{}", ROTATED.0, ROTATED.1)
}

/// Returns the number of a numbered packet file; `None` for another name.
pub fn rotated_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(ROTATED.0)?.strip_suffix(ROTATED.1)?;
    digits.parse().ok().filter(|_| digits.len() >= 6 && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The place of a packet file within the set that one capture wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetPlace {
    /// Identifies the set: the same for all its files, different for other captures.
    pub set: String,
    /// The number of the file, from 1.
    pub part: u64,
}

/// Notes that a capture stores in its packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Noted {
    asked: Selected,
    /// Present if the capture wrote several files.
    place: Option<SetPlace>,
    /// Present if the capture was sampled.
    windows: Option<Windows>,
}

fn noted(packets: &Path) -> Option<Noted> {
    read_note(FileSource::open(packets).ok()?.comment()?)
}

/// Returns the place of a packet file within its set; `None` for a single file or a file from another tool.
pub fn set_place(source: &FileSource) -> Option<SetPlace> {
    read_note(source.comment()?)?.place
}

fn read_note(comment: &str) -> Option<Noted> {
    let mut words = comment.strip_prefix(ASKED_FOR)?.split_whitespace();
    let mut noted = Noted::default();
    let (mut set, mut part) = (None, None);
    while let (Some(option), Some(value)) = (words.next(), words.next()) {
        match option {
            "--db" => noted.asked.db.push(value.to_owned()),
            "--port" => noted.asked.ports.push(value.parse().ok()?),
            "--set" => set = Some(value.to_owned()),
            "--part" => part = Some(value.parse().ok()?),
            "--windows" => noted.windows = Some(Windows::noted(value)?),
            _ => return None,
        }
    }
    noted.place = set.zip(part).map(|(set, part)| SetPlace { set, part });
    Some(noted)
}

/// Returns the windows of a sampled capture; `None` if it was continuous.
pub fn windows(packets: &Path) -> Option<Windows> {
    noted(packets)?.windows
}

/// Returns the note for a packet file: the options, its place in a set, and the windows of a sampled capture.
#[cfg(feature = "live")]
pub fn note(selected: &Selected, place: Option<&SetPlace>, windows: Option<&Windows>) -> String {
    let db = selected.db.iter().map(|db| format!(" --db {db}"));
    let ports = selected.ports.iter().map(|port| format!(" --port {port}"));
    let place = place.map(|SetPlace { set, part }| format!(" --set {set} --part {part}"));
    let windows = windows.map(|windows| format!(" --windows {}", windows.note()));
    std::iter::once(ASKED_FOR.to_owned()).chain(db).chain(ports).chain(place).chain(windows).collect()
}

#[cfg(all(test, feature = "live"))]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let asked = Selected { db: vec!["redis".to_owned()], ports: vec![7, 8] };
        let place = SetPlace { set: "17-4711".to_owned(), part: 12 };
        for place in [None, Some(place)] {
            let windows = Windows::noted("1/2/3/4");
            let text = note(&asked, place.as_ref(), windows.as_ref());
            assert_eq!(read_note(&text), Some(Noted { asked: asked.clone(), place, windows }), "{text}");
        }
        assert_eq!(read_note("somebody's comment"), None);
    }

    #[test]
    fn files_of_a_rotation_are_told_by_their_names() {
        assert_eq!(
            [1, 12, 1_234_567].map(|number| rotated_number(&rotated_name(number))),
            [Some(1), Some(12), Some(1_234_567)]
        );
        for name in ["packets.pcapng", "packets-1.pcapng", "packets-00000x.pcapng", "packets-+00001.pcapng"] {
            assert_eq!(rotated_number(name), None, "{name}");
        }
    }
}
