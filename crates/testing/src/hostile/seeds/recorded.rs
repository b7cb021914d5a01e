//! Seeds from the captures in `fixtures`.

use super::{LONGEST, raw_frame, stored_block};
use crate::hostile::conversation::{Conversation, Cut, Turn};
use overhead_capture::{FileSource, FrameSource, NextFrame, PcapngWriter, WriterOptions};
use overhead_dissect::{Dissector, Selection};
use overhead_model::{ConnectionSummary, Frame, LinkType, Listener, Protocol, System, Tally, Trace};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of pieces from one connection.
const PIECES: usize = 12;
/// Length of the Ethernet header in the captures.
const ETHERNET: usize = 14;

/// Returns the conversations in a protocol's recorded sessions, in pieces.
pub(super) fn conversations(fixtures: &Path, protocol: Protocol) -> Result<Vec<Vec<u8>>, String> {
    Ok(talks(fixtures, protocol)?.into_iter().flat_map(pieces).collect())
}

/// Returns the whole conversations in a protocol's recorded sessions.
pub(crate) fn talks(fixtures: &Path, protocol: Protocol) -> Result<Vec<Vec<Turn>>, String> {
    let mut found = Vec::new();
    for capture in captures(fixtures)? {
        let Some(port) = server_port(&capture.with_file_name("args"), protocol)? else { continue };
        let mut dissector =
            Dissector::new(Selection { ports: vec![(port, vec![protocol])], ..Selection::default() }, Talk::default());
        each_frame(&capture, |frame| dissector.frame(frame))?;
        let (talk, _) = dissector.finish();
        found.extend(talk.connections.into_values());
    }
    Ok(found)
}

/// Reads the port at which a fixture's server speaks `protocol` from its arguments; `None` if it speaks another.
fn server_port(args: &Path, protocol: Protocol) -> Result<Option<u16>, String> {
    let text = fs::read_to_string(args).map_err(|error| at(args, error))?;
    let of = |option: &str| text.split_whitespace().skip_while(|word| *word != option).nth(1);
    let system = of("--db").and_then(System::named).ok_or_else(|| at(args, "names no system"))?;
    let port = of("--port").map_or(Ok(system.port), str::parse).map_err(|error| at(args, error))?;
    Ok((system.protocol == protocol).then_some(port))
}

/// Returns the first frames of each session, as pcap, pcapng and compressed, and a few with other link types and
/// tunnels.
pub(super) fn files(fixtures: &Path) -> Result<Vec<Vec<u8>>, String> {
    let mut found = Vec::new();
    for capture in captures(fixtures)? {
        let mut pcap = fs::read(&capture).map_err(|error| at(&capture, error))?;
        pcap.truncate(LONGEST);
        let mut frames = Vec::new();
        each_frame(&capture, |frame| frames.push((frame.time_ns, frame.bytes.to_vec())))?;
        found.push(pcapng(LinkType::ETHERNET, &frames).map_err(|error| at(&capture, error))?);
        for (link, head) in envelopes() {
            let inside = |(time_ns, bytes): &(u64, Vec<u8>)| (*time_ns, envelope(&head, bytes));
            let frames: Vec<_> = frames.iter().map(inside).collect();
            found.push(pcapng(link, &frames).map_err(|error| at(&capture, error))?);
        }
        let sum = [crc32fast::hash(&pcap), pcap.len() as u32].map(u32::to_le_bytes).concat();
        found.push([&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3], stored_block(&pcap).as_slice(), &sum].concat());
        found.push(raw_frame(&pcap));
        found.push(pcap);
    }
    Ok(found)
}

/// Captures of all recorded sessions, sorted.
fn captures(fixtures: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(fixtures).map_err(|error| at(fixtures, error))?;
    let folders = entries.filter_map(Result::ok).map(|entry| entry.path());
    let mut captures: Vec<_> = folders.map(|folder| folder.join("capture.pcap")).filter(|path| path.exists()).collect();
    captures.sort();
    Ok(captures)
}

fn at(path: &Path, error: impl Display) -> String {
    format!("{}: {error}", path.display())
}

fn each_frame(capture: &Path, mut take: impl FnMut(&Frame<'_>)) -> Result<(), String> {
    let mut source = FileSource::open(capture).map_err(|error| at(capture, error))?;
    while let NextFrame::Frame(frame) = source.next_frame().map_err(|error| at(capture, error))? {
        take(&frame);
    }
    Ok(())
}

/// A tally that keeps the bytes of each connection.
#[derive(Debug, Default)]
struct Talk {
    at: u64,
    connections: BTreeMap<u64, Vec<Turn>>,
}

impl Tally for Talk {
    fn connection(&mut self, _: ConnectionSummary) {}

    fn listener(&mut self) -> Option<&mut dyn Listener> {
        Some(self)
    }
}

impl Listener for Talk {
    fn hear(&mut self, step: Trace<'_>) {
        match step {
            Trace::Frame(facts) => self.at = facts.connection,
            Trace::Bytes { side, bytes, .. } if !bytes.is_empty() => {
                self.connections.entry(self.at).or_default().push(Turn::Bytes(side, bytes.to_vec()));
            }
            _ => {}
        }
    }
}

/// Splits a conversation into pieces of at most [`LONGEST`] bytes, the first from its start, others from its middle.
fn pieces(turns: Vec<Turn>) -> Vec<Vec<u8>> {
    let cuts = [Cut::Half, Cut::Seven, Cut::Bytewise, Cut::Never];
    let mut pieces: Vec<Vec<Turn>> = Vec::new();
    let mut len = LONGEST as u64;
    for turn in turns {
        len += turn.len();
        match pieces.last_mut() {
            Some(piece) if len < LONGEST as u64 => piece.push(turn),
            _ => {
                len = turn.len();
                pieces.push(vec![turn]);
            }
        }
    }
    let short = pieces.into_iter().filter(|turns| turns.iter().map(Turn::len).sum::<u64>() <= LONGEST as u64);
    let numbered = short.take(PIECES).zip(cuts.iter().cycle()).enumerate();
    let encode = |(index, (turns, &cut))| {
        Conversation { mid_stream: index > 0, cut, segments: None, other_content: index as u8 & 3, turns }.encode()
    };
    numbered.map(encode).collect()
}

/// Writes the first frames as a short file.
fn pcapng(link: LinkType, frames: &[(u64, Vec<u8>)]) -> Result<Vec<u8>, overhead_capture::WriteError> {
    let mut writer = PcapngWriter::new("seed", Vec::new(), &WriterOptions::new(link))?;
    let mut len = 0;
    for (time_ns, bytes) in frames {
        len += bytes.len() + 32;
        if len > LONGEST {
            break;
        }
        let original_len = bytes.len() as u32;
        writer.write(&Frame { time_ns: *time_ns, link, original_len, interface: 0, bytes })?;
    }
    writer.finish(None)
}

/// Envelopes of an IPv4 packet: link headers, tags and tunnels.
fn envelopes() -> Vec<(LinkType, Vec<u8>)> {
    let ethernet = |kind: &[u8]| [&[2; 12], kind].concat();
    let ip = |protocol: u8, more: &[u8]| {
        let header = [0x45, 0, 0xff, 0xff, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        [ethernet(&[8, 0]).as_slice(), &header, more].concat()
    };
    let udp = |port: u16| [&[0x99, 0x99], &port.to_be_bytes()[..], &[0xff, 0xff, 0, 0]].concat();
    let inner = ethernet(&[8, 0]);
    vec![
        (LinkType::NULL, vec![2, 0, 0, 0]),
        (LinkType::LOOP, vec![0, 0, 0, 2]),
        (LinkType::RAW, Vec::new()),
        (LinkType::LINUX_SLL, [&[0, 0, 0, 1, 0, 6][..], &[0; 8], &[8, 0]].concat()),
        (LinkType::LINUX_SLL2, [&[8, 0, 0, 0, 0, 0, 0, 1, 0, 1, 4, 6][..], &[0; 8]].concat()),
        (LinkType::ETHERNET, ethernet(&[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9, 8, 0])),
        (LinkType::ETHERNET, ethernet(&[0x88, 0x47, 0, 1, 1, 64, 8, 0])),
        (LinkType::ETHERNET, ip(47, &[0x20, 0, 8, 0, 0, 0, 0, 5])),
        (LinkType::ETHERNET, ip(4, &[])),
        (LinkType::ETHERNET, ip(17, &[udp(4789), vec![8, 0, 0, 0, 0, 0, 5, 0], inner.clone()].concat())),
        (LinkType::ETHERNET, ip(17, &[udp(6081), vec![0, 0, 0x65, 0x58, 0, 0, 5, 0], inner].concat())),
    ]
}

/// Puts the packet of an Ethernet frame into another envelope, and adjusts outer lengths.
fn envelope(head: &[u8], frame: &[u8]) -> Vec<u8> {
    let packet = frame.get(ETHERNET..).unwrap_or_default();
    let mut bytes = [head, packet].concat();
    let all = bytes.len();
    for at in [ETHERNET + 2, ETHERNET + 24] {
        let fits = at + 2 <= head.len();
        if fits && let Some(place @ [0xff, 0xff]) = bytes.get_mut(at..at + 2) {
            let len = all - at + if at == ETHERNET + 2 { 2 } else { 4 };
            place.copy_from_slice(&(len as u16).to_be_bytes());
        }
    }
    bytes
}
