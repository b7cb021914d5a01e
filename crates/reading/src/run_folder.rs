//! A run folder: the names of its files, and the notes in its packets.

use crate::schedule::Windows;
use overhead_capture::FileSource;
use overhead_model::record::{Run, Selected};
use std::fs::{self, File};
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

/// Returns the name of a folder, also of `.`.
pub fn folder_name(path: &Path) -> String {
    let absolute = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    absolute.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// Returns whether `path` is a record or a folder with one.
pub fn has_record(path: &Path) -> bool {
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
    let place = |input: &overhead_model::record::InputFile| {
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
pub struct PacketNotes {
    /// The choice of connections.
    pub asked: Selected,
    /// Present if the capture wrote several files.
    pub place: Option<SetPlace>,
    /// Present if the capture was sampled.
    pub windows: Option<Windows>,
}

pub fn noted(packets: &Path) -> Option<PacketNotes> {
    read_note(FileSource::open(packets).ok()?.comment()?)
}

/// Returns the place of a packet file within its set; `None` for a single file or a file from another tool.
pub fn set_place(source: &FileSource) -> Option<SetPlace> {
    read_note(source.comment()?)?.place
}

fn read_note(comment: &str) -> Option<PacketNotes> {
    let mut words = comment.strip_prefix(ASKED_FOR)?.split_whitespace();
    let mut noted = PacketNotes::default();
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
pub fn note(selected: &Selected, place: Option<&SetPlace>, windows: Option<&Windows>) -> String {
    let db = selected.db.iter().map(|db| format!(" --db {db}"));
    let ports = selected.ports.iter().map(|port| format!(" --port {port}"));
    let place = place.map(|SetPlace { set, part }| format!(" --set {set} --part {part}"));
    let windows = windows.map(|windows| format!(" --windows {}", windows.note()));
    std::iter::once(ASKED_FOR.to_owned()).chain(db).chain(ports).chain(place).chain(windows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let asked = Selected { db: vec!["redis".to_owned()], ports: vec![7, 8] };
        let place = SetPlace { set: "17-4711".to_owned(), part: 12 };
        for place in [None, Some(place)] {
            let windows = Windows::noted("1/2/3/4");
            let text = note(&asked, place.as_ref(), windows.as_ref());
            assert_eq!(read_note(&text), Some(PacketNotes { asked: asked.clone(), place, windows }), "{text}");
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
