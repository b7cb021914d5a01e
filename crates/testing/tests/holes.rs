//! Recorded sessions with frames left out, in other orders, and repeated: nothing may be told of them that the whole session denies.
//!
//! The whole session tells which operation owns each byte of each frame. Of an edited one:
//!
//! - no operation has bytes of another's answer;
//! - no row has more bytes or operations than in the whole session;
//! - if the operations differ, the result is marked as partial.
//!
//! `OVERHEAD_HOLES=N` makes N edits of each session instead of a few, `OVERHEAD_HOLES_OF=NAME` only of sessions with this in their names, and
//! `OVERHEAD_HOLES_FILE=FILE` writes the last edited session that fails.

use crate::numbers::Numbers;
use overhead_capture::{FileSource, FrameSource, NextFrame};
use overhead_dissect::{Dissector, Selection, Totals};
use overhead_model::{Class, Frame, LinkType, Listener, Outcome, Protocol, System, Tally, Trace, exit};
use overhead_reading::Warnings;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Edits of each session in a usual run.
const EDITS: u64 = 20;
/// Frames of a session, from its start. What follows is more of the same.
const FRAMES: usize = 1_200;
/// Failures shown.
const SHOWN: usize = 60;

/// A frame and its number in the whole session.
#[derive(Clone, Debug)]
struct Stored {
    number: u64,
    time_ns: u64,
    link: LinkType,
    bytes: Vec<u8>,
    /// Position of the TCP header.
    tcp: usize,
    payload: usize,
    to_server: bool,
}

impl Stored {
    fn seq(&self) -> u32 {
        u32::from_be_bytes(self.bytes[self.tcp + 4..self.tcp + 8].try_into().unwrap())
    }

    fn has_syn(&self) -> bool {
        self.bytes[self.tcp + 13] & 2 != 0
    }

    fn flow(&self) -> [u16; 2] {
        let port = |at: usize| u16::from_be_bytes(self.bytes[at..at + 2].try_into().unwrap());
        let ports = [port(self.tcp), port(self.tcp + 2)];
        if self.to_server { ports } else { [ports[1], ports[0]] }
    }

    fn place(&self) -> ([u16; 2], bool, u32) {
        (self.flow(), self.to_server, self.seq())
    }

    /// Adds to the numbers of a direction, for a connection that went on unseen.
    fn advance(&mut self, [client, server]: [u32; 2], ns: u64) {
        let (own, other) = if self.to_server { (client, server) } else { (server, client) };
        for (at, by) in [(4, own), (8, other)] {
            let place = &mut self.bytes[self.tcp + at..self.tcp + at + 4];
            let number = u32::from_be_bytes((*place).try_into().unwrap()).wrapping_add(by);
            place.copy_from_slice(&number.to_be_bytes());
        }
        self.time_ns += ns;
    }
}

#[derive(Clone, Debug)]
struct Session {
    name: String,
    protocol: Protocol,
    selection: Selection,
    frames: Vec<Stored>,
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// Returns the recorded sessions without encryption, each whole and intact.
fn sessions() -> Vec<Session> {
    let mut found = Vec::new();
    for entry in fs::read_dir(fixtures()).unwrap() {
        let case = entry.unwrap().path();
        let (capture, Ok(args)) = (case.join("capture.pcap"), fs::read_to_string(case.join("args"))) else { continue };
        let option = |name: &str| args.split_whitespace().skip_while(|word| *word != name).nth(1);
        let Some(system) = option("--db").and_then(System::named).filter(|_| capture.exists()) else { continue };
        if option("--keylog").is_some() {
            continue;
        }
        let port = option("--port").map_or(system.port, |port| port.parse().unwrap());
        let selection = Selection { ports: vec![(port, vec![system.protocol])], ..Selection::default() };
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        let frames = frames(&capture, port);
        let session = Session { name, protocol: system.protocol, selection, frames };
        if session.frames.len() > 8 && session.tell(&session.frames).status == exit::COMPLETE {
            found.push(session);
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

/// Reads the frames of TCP over IPv4 and Ethernet with this port.
fn frames(capture: &Path, port: u16) -> Vec<Stored> {
    let mut source = FileSource::open(capture).unwrap();
    let mut frames = Vec::new();
    while let NextFrame::Frame(frame) = source.next_frame().unwrap() {
        let bytes = frame.bytes;
        let is_tcp =
            frame.link == LinkType::ETHERNET && bytes.get(12..14) == Some(&[8, 0]) && bytes.get(23) == Some(&6);
        if !is_tcp || frames.len() >= FRAMES {
            continue;
        }
        let tcp = 14 + usize::from(bytes[14] & 15) * 4;
        let end = 14 + usize::from(u16::from_be_bytes([bytes[16], bytes[17]]));
        let payload = end - tcp - usize::from(bytes[tcp + 12] >> 4) * 4;
        let to_server = bytes[tcp + 2..tcp + 4] == port.to_be_bytes();
        let number = frames.len() as u64 + 1;
        frames.push(Stored {
            number,
            time_ns: frame.time_ns,
            link: frame.link,
            bytes: bytes.to_vec(),
            tcp,
            payload,
            to_server,
        });
    }
    frames
}

/// An operation: what the dissection told of it.
#[derive(Clone, Debug, Default)]
struct Told {
    class: Option<Class>,
    name: String,
    outcome: Option<Outcome>,
    /// By side, the bytes it owns: frame and position in its payload.
    bytes: [Vec<(u64, u32)>; 2],
}

#[derive(Debug, Default)]
struct Record {
    connection: u64,
    operations: BTreeMap<(u64, u64), Told>,
    /// Bytes of each frame posted so far.
    posted: BTreeMap<u64, u32>,
    status: u8,
    warnings: Vec<String>,
}

impl Tally for Record {
    fn listener(&mut self) -> Option<&mut dyn Listener> {
        Some(self)
    }
}

impl Listener for Record {
    fn hear(&mut self, step: Trace<'_>) {
        let Self { connection, operations, posted, .. } = self;
        match step {
            Trace::Frame(facts) => *connection = facts.connection,
            Trace::Ending { connection: ended } => *connection = ended,
            Trace::Labelled { op: Some(op), class, name, .. } => {
                let told = operations.entry((*connection, op)).or_default();
                (told.class, told.name) = (Some(class), name.to_owned());
            }
            Trace::Closed { op: Some(op), operation } => {
                operations.entry((*connection, op)).or_default().outcome = Some(operation.outcome);
            }
            Trace::Posted { side, op, frame: Some(frame), len, in_order, .. } => {
                let from = posted.entry(frame).or_default();
                let start = *from;
                *from += len as u32;
                if let Some(op) = op.filter(|_| in_order) {
                    let told = operations.entry((*connection, op)).or_default();
                    told.bytes[side as usize].extend((start..start + len as u32).map(|at| (frame, at)));
                }
            }
            _ => {}
        }
    }
}

impl Session {
    fn tell(&self, frames: &[Stored]) -> Record {
        let mut dissector = Dissector::new(self.selection.clone(), Record::default());
        for Stored { time_ns, link, bytes, .. } in frames {
            let (time_ns, link, original_len) = (*time_ns, *link, bytes.len() as u32);
            dissector.frame(&Frame { time_ns, link, original_len, interface: 0, bytes });
        }
        let (mut record, totals): (Record, Totals) = dissector.finish();
        let mut warnings = Warnings::default();
        warnings.warn_of_totals(&totals);
        (record.warnings, record.status) = warnings.settle();
        record
    }
}

/// The owners of the bytes of a whole session.
struct Truth {
    frames: Vec<Stored>,
    owners: BTreeMap<(u64, u32), (u64, u64)>,
    record: Record,
}

impl Truth {
    fn of(session: &Session) -> Self {
        let record = session.tell(&session.frames);
        let mut owners = BTreeMap::new();
        for (key, told) in &record.operations {
            owners.extend(told.bytes.iter().flatten().map(|byte| (*byte, *key)));
        }
        Self { frames: session.frames.clone(), owners, record }
    }

    /// Returns whether a request was under way, or repeated later, where the start of a session is cut off.
    fn is_cut_within(&self, kept: &[Stored]) -> bool {
        let Some(first) = kept.first().map(|frame| frame.number) else { return true };
        let is_answered_later = |told: &Told| {
            let ends = [told.bytes[0].first(), told.bytes[1].last()].map(|byte| byte.map(|(frame, _)| *frame));
            matches!(ends, [Some(request), Some(response)] if (request..=response).contains(&first) && request < first)
        };
        let lost: BTreeSet<_> =
            self.frames.iter().take_while(|frame| frame.number < first).map(Stored::place).collect();
        self.record.operations.values().any(is_answered_later)
            || kept.iter().any(|frame| frame.payload > 0 && lost.contains(&frame.place()))
    }

    /// Returns whether frames with payload are missing between others of their connection.
    fn is_shown(&self, frames: &[Stored]) -> bool {
        let kept: BTreeSet<u64> = frames.iter().map(|frame| frame.number).collect();
        let mut ends = BTreeMap::new();
        for frame in frames.iter().filter(|frame| frame.number != u64::MAX) {
            ends.entry(frame.flow()).or_insert((frame.number, frame.number)).1 = frame.number;
        }
        let is_missing = |frame: &&Stored| frame.payload > 0 && !kept.contains(&frame.number);
        self.frames
            .iter()
            .filter(is_missing)
            .any(|frame| ends.get(&frame.flow()).is_some_and(|(first, last)| (*first..*last).contains(&frame.number)))
    }

    /// Compares an edited session, and returns what is wrong with it.
    fn check(&self, frames: &[Stored], edited: &Record) -> Vec<String> {
        let mut wrong = Vec::new();
        let of_frame = |(frame, at): (u64, u32)| self.owners.get(&(frames[frame as usize - 1].number, at)).copied();
        let mut sums = [BTreeMap::<&str, [usize; 3]>::new(), BTreeMap::new()];
        let mut differs = false;
        let mut answered = BTreeSet::new();
        for (sums, record) in sums.iter_mut().zip([edited, &self.record]) {
            for told in record.operations.values() {
                if told.class.is_none_or(|class| class == Class::Unmatched) {
                    continue;
                }
                let sum = sums.entry(told.name.as_str()).or_default();
                let [requests, responses] = [0, 1].map(|side| told.bytes[side].len());
                for (sum, more) in sum.iter_mut().zip([requests, responses, usize::from(requests > 0)]) {
                    *sum += more;
                }
            }
        }
        for told in edited.operations.values() {
            if told.class.is_none_or(|class| class == Class::Unmatched) {
                differs |= told.bytes.iter().any(|bytes| !bytes.is_empty());
                continue;
            }
            let [requests, responses] =
                [0, 1].map(|side| told.bytes[side].iter().filter_map(|byte| of_frame(*byte)).collect::<BTreeSet<_>>());
            answered.extend(requests.iter().copied());
            for op in &responses {
                let whose = &self.record.operations[op];
                if !requests.is_empty() && !requests.contains(op) && !whose.bytes[0].is_empty() {
                    let name = &whose.name;
                    wrong.push(format!("{} has bytes of the answer to {name} {}", told.name, op.1 & 0xff_ffff));
                }
            }
            let truth = requests.iter().chain(&responses).next().map(|op| &self.record.operations[op]);
            differs |= truth.is_none_or(|truth| truth.outcome != told.outcome || truth.name != told.name);
        }
        let [edited_sums, true_sums] = &sums;
        for (key, have) in edited_sums {
            let most = true_sums.get(key).copied().unwrap_or_default();
            // A name may be unknown if its statement was prepared in a lost frame.
            let is_named = true_sums.contains_key(key);
            if is_named && have.iter().zip(most).any(|(have, most)| *have > most) {
                wrong.push(format!("{key:?} has {have:?}, and {most:?} in the whole session"));
            }
        }
        differs |= edited_sums != true_sums;
        if differs && self.is_shown(frames) && edited.status != exit::PARTIAL {
            wrong.push(format!("status {} with {:?}", edited.status, edited.warnings));
        }
        wrong
    }
}

/// Edits a session; returns the kind of edit and the frames left.
fn edit(session: &Session, numbers: &mut Numbers) -> (&'static str, Vec<Stored>) {
    let mut frames = session.frames.clone();
    let (at, count) = (numbers.below(frames.len()), 1 + numbers.below(6));
    let drop = |frames: &mut Vec<Stored>, is_lost: &dyn Fn(&Stored) -> bool| {
        let mut left = count;
        let mut index = 0;
        frames.retain(|frame| {
            index += 1;
            let is_kept = index <= at || left == 0 || !is_lost(frame) || frame.has_syn();
            left -= usize::from(!is_kept);
            is_kept
        });
    };
    let kind = match numbers.below(10) {
        0 => {
            drop(&mut frames, &|frame| frame.to_server && frame.payload > 0);
            "requests dropped"
        }
        1 => {
            drop(&mut frames, &|frame| !frame.to_server && frame.payload > 0);
            "answers dropped"
        }
        2 => {
            drop(&mut frames, &|_| true);
            "frames dropped"
        }
        3 => {
            let flow = frames[at].flow();
            drop(&mut frames, &|frame| frame.flow() == flow);
            "frames of a connection dropped"
        }
        4 => {
            let lost = numbers.below(61) as u64;
            frames.retain(|frame| frame.has_syn() || frame.number % 61 != lost);
            "every 61st frame dropped"
        }
        5 => {
            frames.truncate(at.max(1));
            "end cut"
        }
        8 => {
            frames.drain(..at);
            "start cut"
        }
        6 => {
            keep_alive(&mut frames, at);
            "keep-alive"
        }
        7 => {
            pause(&mut frames, at, numbers);
            "pause"
        }
        _ => {
            drop(&mut frames, &|frame| frame.payload > 0);
            let at = numbers.below(frames.len());
            frames.drain(at..(at + count).min(frames.len())).for_each(std::mem::drop);
            "two holes"
        }
    };
    (kind, frames)
}

/// Repeats the last byte of a direction before a frame, as a keep-alive does.
fn keep_alive(frames: &mut Vec<Stored>, at: usize) {
    let Some(next) = frames.iter().skip(at).find(|frame| frame.payload > 0).cloned() else { return };
    let at = frames.iter().position(|frame| frame.number == next.number).unwrap();
    let mut probe = next;
    let header = probe.bytes.len() - probe.payload;
    probe.bytes.truncate(header + 1);
    let len = (probe.bytes.len() - 14) as u16;
    probe.bytes[16..18].copy_from_slice(&len.to_be_bytes());
    probe.bytes[probe.tcp + 13] = 0x10;
    let seq = probe.seq().wrapping_sub(1).to_be_bytes();
    probe.bytes[probe.tcp + 4..probe.tcp + 8].copy_from_slice(&seq);
    (probe.payload, probe.number) = (1, u64::MAX);
    frames.insert(at, probe);
}

/// Leaves out what connections sent for a day, before a request.
fn pause(frames: &mut Vec<Stored>, at: usize, numbers: &mut Numbers) {
    let mut by = BTreeMap::new();
    let mut jump = || (numbers.below(1 << 20) as u32) << 12;
    let is_request = |at: &usize| {
        let frame = &frames[*at];
        let is_same = |before: &Stored| before.payload > 0 && before.place() == frame.place();
        frame.to_server && frame.payload > 0 && !frames[..*at].iter().any(is_same)
    };
    let Some(first) = (at.max(1)..frames.len()).find(is_request) else { return };
    for frame in frames.iter_mut().skip(first) {
        let by = *by.entry(frame.flow()).or_insert_with(|| [jump(), jump()]);
        frame.advance(by, 86_400_000_000_000);
    }
    let seen: BTreeSet<[u16; 2]> =
        frames.iter().skip(first).filter(|frame| frame.has_syn()).map(Stored::flow).collect();
    // A new connection does not go on.
    if !seen.is_empty() {
        frames.truncate(first);
    }
}

/// Checks a session, edited in many ways. Returns the number of edits, and the failures by kind.
fn check(session: &Session, edits: u64) -> (u64, BTreeMap<&'static str, Vec<String>>) {
    let truth = Truth::of(session);
    let mut wrong: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for round in 0..edits {
        let mut numbers = Numbers(0x6f76_6572_6865_6164 ^ (round + 1) << 20 ^ session.frames.len() as u64);
        let (kind, frames) = edit(session, &mut numbers);
        let mut found = truth.check(&frames, &session.tell(&frames));
        if kind == "start cut" && truth.is_cut_within(&frames) {
            // Answers to requests under way at the start shift, up to where the client waits for all.
            found.clear();
        }
        if !found.is_empty() {
            if let Ok(file) = env::var("OVERHEAD_HOLES_FILE") {
                fs::write(file, pcap(&frames)).unwrap();
            }
            let more = wrong.entry(kind).or_default();
            more.push(format!("{} {round} ({kind}): {}", session.name, found[..found.len().min(3)].join("; ")));
        }
    }
    (edits, wrong)
}

/// Returns the frames as a file with nanoseconds.
fn pcap(frames: &[Stored]) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut file = words(&[0xa1b2_3c4d, 0x0004_0002, 0, 0, 1 << 18, 1]);
    for Stored { time_ns, bytes, .. } in frames {
        let len = bytes.len() as u32;
        file.extend(words(&[(time_ns / 1_000_000_000) as u32, (time_ns % 1_000_000_000) as u32, len, len]));
        file.extend(bytes);
    }
    file
}

#[test]
fn lost_frames_never_mislead() {
    let edits = env::var("OVERHEAD_HOLES").map_or(EDITS, |edits| edits.parse().unwrap());
    let only = env::var("OVERHEAD_HOLES_OF").unwrap_or_default();
    let sessions: Vec<Session> = sessions().into_iter().filter(|session| session.name.contains(&only)).collect();
    assert!(!only.is_empty() || sessions.len() > 20, "{} sessions", sessions.len());
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = sessions.iter().map(|session| scope.spawn(move || check(session, edits))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut said = String::new();
    let (mut all, mut failed) = (0, 0);
    let mut table: BTreeMap<(Protocol, &str), usize> = BTreeMap::new();
    for (session, (edits, wrong)) in sessions.iter().zip(&results) {
        all += edits;
        for (kind, found) in wrong {
            failed += found.len();
            *table.entry((session.protocol, kind)).or_default() += found.len();
            found
                .iter()
                .take(if only.is_empty() { 3 } else { SHOWN })
                .for_each(|line| writeln!(said, "{line}").unwrap());
        }
    }
    let said: Vec<&str> = said.lines().take(if only.is_empty() { SHOWN } else { 400 }).collect();
    assert!(failed == 0, "{failed} of {all} edits: {table:#?}\n{}", said.join("\n"));
}
