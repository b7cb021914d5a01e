//! Recorded sessions as other taps would have captured them: each figure is that of the session, or a note says why it may not be.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod common;

use common::{Book, Captured, dissect};
use overhead_capture::{FileSource, FrameSource, NextFrame};
use overhead_decode::Note;
use overhead_dissect::Selection;
use overhead_model::{LinkType, Protocol, Side};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

const SESSIONS: [(&str, u16, Protocol); 5] = [
    ("redis-session", 7379, Protocol::Resp),
    ("redis-lossy", 7379, Protocol::Resp),
    ("postgres-session", 7432, Protocol::Pgwire),
    ("mariadb-session", 7306, Protocol::Mysql),
    ("memcached-session", 7211, Protocol::Memcache),
];

/// A small generator of numbers (xorshift64*).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit.max(1)
    }
}

fn recorded(session: &str) -> Vec<Captured> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(session).join("capture.pcap");
    let mut source = FileSource::open(&path).unwrap();
    let mut frames = Vec::new();
    while let NextFrame::Frame(frame) = source.next_frame().unwrap() {
        frames.push(Captured {
            time_ns: frame.time_ns,
            link: frame.link,
            interface: 0,
            bytes: frame.bytes.to_vec(),
            original_len: frame.original_len,
        });
    }
    assert!(frames.len() > 20, "{session}: {} frames", frames.len());
    frames
}

fn of_port((_, port, protocol): (&str, u16, Protocol), frames: &[Captured]) -> Book {
    dissect(frames, &Selection { ports: vec![(port, vec![protocol])] })
}

/// What must not depend on the tap, without what only the headers of the link change.
fn figures(book: &Book) -> String {
    let rows =
        book.list.rows.iter().map(|row| (&row.name, row.operations.len(), Side::BOTH.map(|side| row.amounts(side))));
    format!("{:?} {:?} {:#?}", book.totals.tcp, book.totals.notes, rows.collect::<Vec<_>>())
}

fn counts(book: &Book) -> Vec<(&str, usize)> {
    book.list.rows.iter().map(|row| (row.name.as_str(), row.operations.len())).filter(|(_, count)| *count > 0).collect()
}

/// How a second tap saw the frames that a first one saw.
#[derive(Clone, Copy, Debug)]
struct SecondTap {
    offset_ns: u64,
    jitter_ns: u64,
    /// Copies missing of a thousand.
    lost: u64,
    is_routed: bool,
    vlan: Option<u8>,
}

impl SecondTap {
    fn seen(self, frames: &[Captured], dice: &mut Numbers) -> Vec<Captured> {
        let mut both = frames.to_vec();
        for frame in frames {
            if dice.below(1000) < self.lost {
                continue;
            }
            let mut copy = frame.clone();
            copy.time_ns += self.offset_ns + dice.below(self.jitter_ns + 1);
            if self.is_routed {
                copy.bytes[14 + 8] -= 1;
                copy.bytes[0] ^= 2;
            }
            if let Some(vlan) = self.vlan {
                copy.bytes.splice(12..12, [0x81, 0, 0, vlan]);
                copy.original_len += 4;
            }
            both.push(copy);
        }
        both.sort_by_key(|frame| frame.time_ns);
        both
    }
}

#[test]
fn what_a_tap_repeats_counts_once() {
    let mut dice = Numbers(0x7461_7073);
    let (mut variants, mut noted) = (0, 0);
    for session in SESSIONS {
        let frames = recorded(session.0);
        let once = of_port(session, &frames);
        for offset_ns in [0, 700, 3_000, 40_000, 2_000_000] {
            for (jitter_ns, lost) in [(0, 0), (900, 0), (offset_ns / 3, 20), (0, 60)] {
                for (is_routed, vlan) in [(false, None), (true, Some(7))] {
                    let tap = SecondTap { offset_ns, jitter_ns, lost, is_routed, vlan };
                    let book = of_port(session, &tap.seen(&frames, &mut dice));
                    let is_noted =
                        [Note::UnsteadyTap, Note::BothEnds].iter().any(|note| book.totals.notes.contains_key(note));
                    variants += 1;
                    noted += u32::from(is_noted);
                    if !is_noted {
                        assert_eq!(figures(&book), figures(&once), "{session:?} {tap:?}");
                    }
                }
            }
        }
    }
    assert_eq!(variants, 200);
    assert!(noted < 40, "{noted} of {variants} are in doubt");
}

/// The frames, with the server at another address and port.
fn translated(frames: &[Captured], server: u16, to: (Ipv4Addr, u16), index: u8) -> Vec<Captured> {
    let cooked = |frame: &Captured, bytes: &[u8], time_ns: u64, index: u8| {
        let head = [&bytes[12..14], &[0, 0, 0, 0, 0, index, 0, 1, 0, 6], &[0; 8]].concat();
        let bytes = [&head[..], &bytes[14..]].concat();
        Captured { time_ns, link: LinkType::LINUX_SLL2, original_len: bytes.len() as u32, bytes, ..frame.clone() }
    };
    let mut both = Vec::new();
    for frame in frames {
        let mut bytes = frame.bytes.clone();
        let is_to_server = u16::from_be_bytes([bytes[36], bytes[37]]) == server;
        let (address, port) = if is_to_server { (30, 36) } else { (26, 34) };
        bytes[address..address + 4].copy_from_slice(&to.0.octets());
        bytes[port..port + 2].copy_from_slice(&to.1.to_be_bytes());
        // Clients speak to the published address, which a request has first and a reply last.
        let (first, second) = if is_to_server { (&frame.bytes, &bytes) } else { (&bytes, &frame.bytes) };
        both.push(cooked(frame, first, frame.time_ns, index));
        both.push(cooked(frame, second, frame.time_ns + 2_000, index + 1));
    }
    both
}

#[test]
fn both_sides_of_a_translation_are_one_connection() {
    for session in SESSIONS {
        let frames = recorded(session.0);
        let all = translated(&frames, session.1, (Ipv4Addr::new(10, 9, 9, 9), session.1), 3);
        let once: Vec<_> = all.iter().step_by(2).cloned().collect();
        assert_eq!(once.len(), frames.len());
        for from in [0, 12, 24] {
            let single = of_port(session, &frames[from / 2..]);
            let book = of_port(session, &all[from..]);
            let server = SocketAddr::from(([10, 9, 9, 9], session.1));
            let is_named = |note: &Note| matches!(note, Note::Translated { to, .. } if *to == server);
            assert!(book.totals.notes.keys().any(is_named), "{session:?} {:?}", book.totals.notes);
            assert_eq!(
                book.totals.tcp.retransmitted_bytes, single.totals.tcp.retransmitted_bytes,
                "{session:?} from {from}"
            );
            assert_eq!(book.totals.tcp.connections, single.totals.tcp.connections, "{session:?} from {from}");
            assert_eq!(counts(&book), counts(&single), "{session:?} from {from}");
        }
    }
}
