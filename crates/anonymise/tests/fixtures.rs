//! Copies all recorded sessions and checks byte counts, user data and checksums.

use overhead_anonymise::{Anonymiser, FillerKey};
use overhead_capture::{FileSource, FrameSource};
use overhead_dissect::explain::{ByteVisibility, ConnectionStates, UnpostedStream};
use overhead_dissect::packet::{self, Packet};
use overhead_dissect::{Dissector, Selection, Totals};
use overhead_model::frame::OwnedFrame;
use overhead_model::{
    Account, ConnectionSummary, LinkType, Listener, Operation, RowId, RowKey, Side, StreamPiece, System, Tally, Trace,
};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

/// Rows by name and via: operations by outcome, and bytes by side and account.
type Rows = BTreeMap<(String, String), (u64, Vec<u64>)>;

/// Collects the totals of a record and the bytes posted to `data`.
#[derive(Default)]
struct Sums {
    names: Vec<(String, String)>,
    rows: Rows,
    statements: BTreeMap<String, u64>,
    connections: Vec<String>,
}

impl Tally for Sums {
    fn row(&mut self, key: RowKey<'_>) -> RowId {
        let RowKey { protocol, class, name, via, statement } = key;
        let name = if protocol.name() == "http" { "" } else { name };
        *self.statements.entry(format!("{class:?} {statement}")).or_default() += 1;
        self.names.push((name.to_owned(), format!("{protocol:?} {class:?} {via}")));
        RowId(self.names.len() as u64 - 1)
    }
    fn operation(&mut self, row: RowId, operation: &Operation) {
        let (name, rest) = &self.names[row.0 as usize];
        let key = (name.clone(), format!("{rest} {:?}", operation.outcome));
        let (count, amounts) = self.rows.entry(key).or_default();
        *count += 1;
        let all = operation
            .sides
            .iter()
            .flat_map(|side| std::iter::once(side.frames).chain(side.amounts.iter().map(|(_, bytes)| bytes)));
        let all: Vec<u64> = all.collect();
        amounts.resize(all.len(), 0);
        amounts.iter_mut().zip(all).for_each(|(sum, bytes)| *sum += bytes);
    }
    fn connection(&mut self, summary: ConnectionSummary) {
        let ConnectionSummary { protocol, server_software, operations, .. } = summary;
        // CQL servers report it in a row of a table.
        let server_software = server_software.filter(|_| protocol.name() != "cql");
        self.connections.push(format!("{protocol:?} {server_software:?} {operations}"));
        self.connections.sort();
    }
}

fn frames(path: &Path) -> Vec<OwnedFrame> {
    let mut source = FileSource::open(path).unwrap();
    let mut frames = Vec::new();
    while let Some(frame) = source.next_frame().unwrap().frame() {
        frames.push(OwnedFrame::new(&frame));
    }
    frames
}

fn dissect(frames: &[OwnedFrame], selection: &Selection) -> (Sums, Totals) {
    let mut dissector = Dissector::new(selection.clone(), Sums::default());
    for frame in frames {
        dissector.frame(&frame.frame());
    }
    dissector.finish()
}

fn copy(frames: &[OwnedFrame], selection: &Selection) -> Vec<OwnedFrame> {
    let mut copy = Anonymiser::new(selection, FillerKey(*b"a key for tests."), tempfile::tempfile().unwrap());
    for frame in frames {
        copy.frame(&frame.frame()).unwrap();
    }
    let mut copied = copy.finish().unwrap();
    let mut frames = Vec::new();
    while let Some(frame) = copied.next_frame().unwrap() {
        frames.push(OwnedFrame::new(&frame));
    }
    frames
}

/// Windows of six letters and digits of `data`, and of everything else.
#[derive(Default)]
struct Windows {
    turns: ConnectionStates<[Fields; 2]>,
    data: HashSet<[u8; 6]>,
    others: HashSet<[u8; 6]>,
}

#[derive(Default)]
struct Fields {
    stream: UnpostedStream,
    len: u64,
}

impl Windows {
    fn field(&mut self, side: Side, account: Account) {
        let fields = &mut self.turns.kept()[side as usize];
        let mut bytes = Vec::new();
        fields.stream.take(std::mem::take(&mut fields.len), |_, run| {
            if run.seen == ByteVisibility::Captured {
                bytes.extend(run.bytes);
            }
        });
        let windows = bytes.windows(6).filter(|window| window.iter().all(u8::is_ascii_alphanumeric));
        let windows = windows.map(|window| <[u8; 6]>::try_from(window).unwrap());
        if account == Account::Data { self.data.extend(windows) } else { self.others.extend(windows) }
    }
}

impl Tally for Windows {
    fn connection(&mut self, _: ConnectionSummary) {}
    fn listener(&mut self) -> Option<&mut dyn Listener> {
        Some(self)
    }
}

impl Listener for Windows {
    fn hear(&mut self, step: Trace<'_>) {
        match step {
            Trace::Frame(facts) => self.turns.turn(facts.connection, false),
            Trace::Ending { connection } => self.turns.turn(connection, true),
            Trace::Swapped => self.turns.kept().swap(0, 1),
            Trace::Bytes { side, bytes, opaque } => self.turns.kept()[side as usize].stream.push(bytes, opaque),
            Trace::Field { side, len, .. } => self.turns.kept()[side as usize].len = len,
            Trace::Posted { side, account, in_order: true, .. } => self.field(side, account),
            _ => {}
        }
    }
}

/// Protocol words that appear in place of user data.
const WORDS: [&str; 10] = [
    "punsubscribe",
    "psubscribe",
    "sunsubscribe",
    "ssubscribe",
    "pmessage",
    "server",
    "version",
    "standalone",
    "master",
    "modules",
];

#[test]
fn no_six_letters_or_digits_of_user_data_are_in_a_copy() {
    let mut survivors = Vec::new();
    let mut windows_seen = 0;
    for (path, selection) in cases() {
        let original = frames(&path);
        let mut dissector = Dissector::new(selection.clone(), Windows::default());
        for frame in &original {
            dissector.frame(&frame.frame());
        }
        let (Windows { data, others, .. }, _) = dissector.finish();
        windows_seen += data.len();
        let copied = copy(&original, &selection);
        let mut found: Vec<String> = Vec::new();
        for frame in &copied {
            for window in frame.frame().bytes.windows(6) {
                let window = <[u8; 6]>::try_from(window).unwrap();
                let is_word = || WORDS.iter().any(|word| word.as_bytes().windows(6).any(|part| part == window));
                if data.contains(&window) && !others.contains(&window) && !is_word() {
                    found.push(String::from_utf8_lossy(&window).into_owned());
                }
            }
        }
        found.sort();
        found.dedup();
        if !found.is_empty() {
            survivors.push(format!("{}: {found:?}", path.display()));
        }
    }
    assert!(windows_seen > 5_000, "{windows_seen}");
    assert!(survivors.is_empty(), "{}", survivors.join("\n"));
}

/// Returns the captures and their selections.
fn cases() -> Vec<(PathBuf, Selection)> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let mut cases = Vec::new();
    for case in std::fs::read_dir(fixtures).unwrap() {
        let case = case.unwrap().path();
        let Some(capture) =
            ["capture.pcap", "capture.pcapng"].map(|name| case.join(name)).into_iter().find(|path| path.is_file())
        else {
            continue;
        };
        let args = std::fs::read_to_string(case.join("args")).unwrap();
        let words: Vec<&str> = args.split_whitespace().collect();
        let after = |option: &str| words.iter().position(|word| *word == option).map(|at| words[at + 1]);
        let protocol = System::named(after("--db").unwrap()).unwrap().protocol;
        // Streams without frames use the usual port.
        let port = after("--port").map_or(protocol.ports()[0], |port| port.parse().unwrap());
        cases.push((capture, Selection { ports: vec![(port, vec![protocol])], ..Selection::default() }));
    }
    cases.sort_by(|a, b| a.0.cmp(&b.0));
    cases
}

/// Words of six or more letters and digits that may stay: protocol words and names of software. Before adding one, check
/// that it is not user data.
const PUBLIC: &str = include_str!("public_words.txt");

/// Adds runs of six or more letters and digits that two frames have at the same position, after the TCP header or in a
/// piece of a stream.
fn add_common(original: &OwnedFrame, copy: &OwnedFrame, found: &mut BTreeMap<String, usize>) {
    let (original, copy) = (original.frame(), copy.frame());
    let payload = match packet::parse(&original) {
        _ if StreamPiece::read(original.bytes).is_some() => 0,
        Packet::Tcp(segment) => segment.payload.as_ptr() as usize - original.bytes.as_ptr() as usize,
        _ => return,
    };
    let pairs: Vec<_> = original.bytes.iter().zip(copy.bytes).skip(payload).collect();
    for run in pairs.chunk_by(|a, b| is_common(*a) == is_common(*b)) {
        if run.len() >= 6 && is_common(run[0]) {
            *found.entry(run.iter().map(|(byte, _)| **byte as char).collect()).or_default() += 1;
        }
    }
}

fn is_common((was, is): (&u8, &u8)) -> bool {
    was == is && was.is_ascii_alphanumeric()
}

#[test]
fn only_public_words_stay_in_any_account() {
    let public: HashSet<&str> = PUBLIC.lines().filter(|line| !line.starts_with('#')).collect();
    let mut known = BTreeMap::new();
    let mut unknown = Vec::new();
    for (path, selection) in cases() {
        let original = frames(&path);
        let mut found = BTreeMap::new();
        for (original, copy) in original.iter().zip(copy(&original, &selection)) {
            add_common(original, &copy, &mut found);
        }
        let name = path.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
        for (word, count) in found {
            // A type or length byte next to it may be a letter, too.
            let (but_first, but_last) = (&word[1..], &word[..word.len() - 1]);
            match [word.as_str(), but_first, but_last].into_iter().find(|word| public.contains(word)) {
                Some(public) => *known.entry(public.to_owned()).or_insert(0) += count,
                None => unknown.push(format!("{name}: {word}")),
            }
        }
    }
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
    let unused: Vec<_> = public.iter().filter(|word| !known.contains_key(**word)).collect();
    assert!(unused.is_empty(), "no longer in any copy: {unused:?}");
}

/// Returns the rows without names that the other record lacks: names that are not commands differ in the copy.
fn known(rows: &Rows, others: &Rows) -> Rows {
    let mut known = Rows::new();
    for ((name, rest), (more, amounts)) in rows {
        let name = if others.keys().any(|(of, _)| of == name) { name.clone() } else { String::new() };
        let (count, sums) = known.entry((name, rest.clone())).or_default();
        *count += more;
        sums.resize(amounts.len(), 0);
        sums.iter_mut().zip(amounts).for_each(|(sum, bytes)| *sum += bytes);
    }
    known
}

/// Zstandard that cannot be compressed to the same length: replaced as a whole, and unknown in the copy.
const OTHER_LENGTH: &str = "mysql-zstd";

#[test]
fn copies_of_recorded_sessions_have_the_same_figures() {
    let mut differ = Vec::new();
    for (path, selection) in cases() {
        let original = frames(&path);
        let copied = copy(&original, &selection);
        assert_eq!(original.len(), copied.len());
        let ((a, a_totals), (b, b_totals)) = (dissect(&original, &selection), dissect(&copied, &selection));
        if path.parent().unwrap().ends_with(OTHER_LENGTH) {
            continue;
        }
        let name = path.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
        let (a_rows, b_rows) = (known(&a.rows, &b.rows), known(&b.rows, &a.rows));
        for (row, amounts) in &a_rows {
            if b_rows.get(row) != Some(amounts) {
                differ.push(format!("{name}: {row:?}: {amounts:?} became {:?}", b_rows.get(row)));
            }
        }
        for (row, amounts) in b_rows.iter().filter(|(row, _)| !a_rows.contains_key(*row)) {
            differ.push(format!("{name}: new: {row:?}: {amounts:?}"));
        }
        if a.connections != b.connections {
            differ.push(format!("{name}: {:?} became {:?}", a.connections, b.connections));
        }
        if a.statements.len() != b.statements.len() {
            let gone: Vec<_> = a.statements.keys().collect();
            differ.push(format!("{name}: statements: {gone:?} became {:?}", b.statements.keys()));
        }
        let figures = |totals: &Totals| format!("{:?} {} {}", totals.tcp, totals.other, totals.duplicate_frames);
        if figures(&a_totals) != figures(&b_totals) {
            differ.push(format!("{name}: {:?} became {:?}", figures(&a_totals), figures(&b_totals)));
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

#[test]
fn every_field_has_a_rule() {
    for (path, selection) in cases() {
        let mut dissector = Dissector::new(selection, crate::fields::Fields::default());
        for frame in frames(&path) {
            dissector.frame(&frame.frame());
        }
        let unknown: Vec<_> = dissector.finish().0.unknown().collect();
        assert!(unknown.is_empty(), "{}: {}", path.display(), unknown.join("\n"));
    }
}

#[test]
fn checksums_of_copies_are_right() {
    for (path, selection) in cases() {
        for kept in copy(&frames(&path), &selection) {
            let frame = kept.frame();
            // Ethernet and IPv4 without options, as on loopback. The sum over everything including the checksum is 0.
            let ip = &frame.bytes[14..];
            if frame.link != LinkType::ETHERNET || ip[0] != 0x45 || ip[9] != 6 {
                continue;
            }
            let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
            assert_eq!(sum(&[&ip[..20]]), 0, "{}", path.display());
            let len = (total as u16 - 20).to_be_bytes();
            assert_eq!(sum(&[&ip[12..20], &[0, 6], &len, &ip[20..total]]), 0, "{}", path.display());
        }
    }
}

/// The Internet checksum (RFC 1071).
fn sum(parts: &[&[u8]]) -> u16 {
    let bytes = parts.concat();
    let words = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
    let sum = words.fold(0, |sum: u32, word| ((sum + word) & 0xffff) + ((sum + word) >> 16));
    !(sum as u16)
}
