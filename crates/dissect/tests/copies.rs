//! Recorded sessions as other taps would have captured them: each figure is that of the session, or a note says why it may not be.

use crate::common::{Book, Captured, dissect};
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

fn port_book((_, port, protocol): (&str, u16, Protocol), frames: &[Captured]) -> Book {
    dissect(frames, &Selection { ports: vec![(port, vec![protocol])], ..Selection::default() })
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
        let once = port_book(session, &frames);
        for offset_ns in [0, 700, 3_000, 40_000, 2_000_000] {
            for (jitter_ns, lost) in [(0, 0), (900, 0), (offset_ns / 3, 20), (0, 60)] {
                for (is_routed, vlan) in [(false, None), (true, Some(7))] {
                    let tap = SecondTap { offset_ns, jitter_ns, lost, is_routed, vlan };
                    let book = port_book(session, &tap.seen(&frames, &mut dice));
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

/// How a router translates the addresses between a client and a server.
#[derive(Clone, Copy, Debug)]
struct Router {
    /// Where clients find the server.
    published: (Ipv4Addr, u16),
    /// Where the server is.
    server: (Ipv4Addr, u16),
    /// Where the server sees its clients, if that is translated too.
    masqueraded: Option<Ipv4Addr>,
}

impl Router {
    /// The frames as `any` sees them on both sides, in the order in which they pass. `port` is the server's in `frames`.
    fn seen(self, frames: &[Captured], port: u16) -> Vec<Captured> {
        let cooked = |frame: &Captured, bytes: &[u8], time_ns: u64, index: u8| {
            let head = [&bytes[12..14], &[0, 0, 0, 0, 0, index, 0, 1, 0, 6], &[0; 8]].concat();
            let bytes = [&head[..], &bytes[14..]].concat();
            Captured { time_ns, link: LinkType::LINUX_SLL2, original_len: bytes.len() as u32, bytes, ..frame.clone() }
        };
        let mut both = Vec::new();
        for frame in frames {
            let is_to_server = u16::from_be_bytes([frame.bytes[36], frame.bytes[37]]) == port;
            // Where the server's address and port are, and the client's address.
            let (server, server_port, client) = if is_to_server { (30, 36, 26) } else { (26, 34, 30) };
            let side = |(address, port): (Ipv4Addr, u16), masqueraded: Option<Ipv4Addr>| {
                let mut bytes = frame.bytes.clone();
                bytes[server..server + 4].copy_from_slice(&address.octets());
                bytes[server_port..server_port + 2].copy_from_slice(&port.to_be_bytes());
                if let Some(address) = masqueraded {
                    bytes[client..client + 4].copy_from_slice(&address.octets());
                }
                bytes
            };
            let sides = [side(self.published, None), side(self.server, self.masqueraded)];
            let [first, second] = if is_to_server { [0, 1] } else { [1, 0] };
            both.push(cooked(frame, &sides[first], frame.time_ns, first as u8 + 3));
            both.push(cooked(frame, &sides[second], frame.time_ns + 2_000, second as u8 + 3));
        }
        both
    }
}

const PUBLISHED: Ipv4Addr = Ipv4Addr::new(10, 7, 7, 7);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 9, 9, 9);
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 9, 9, 1);

#[test]
fn both_sides_of_a_translation_are_one_connection() {
    for session in SESSIONS {
        let (name, port, _) = session;
        let frames = recorded(name);
        // The selection has the server's own port.
        for (published, masqueraded) in [(port, None), (port, Some(ROUTER)), (port + 9, None), (port + 9, Some(ROUTER))]
        {
            let router = Router { published: (PUBLISHED, published), server: (SERVER, port), masqueraded };
            let all = router.seen(&frames, port);
            for from in [0, 12, 24] {
                let single = port_book(session, &frames[from / 2..]);
                let book = port_book(session, &all[from..]);
                let is_named = |note: &Note| matches!(note, Note::Translated { from, to } if *from == SocketAddr::from((PUBLISHED, published)) && *to == SocketAddr::from((SERVER, port)));
                assert!(book.totals.notes.keys().any(is_named), "{name} {router:?} {:?}", book.totals.notes);
                let tcp = |book: &Book| (book.totals.tcp.retransmitted_bytes, book.totals.tcp.connections);
                assert_eq!(tcp(&book), tcp(&single), "{name} {router:?} from {from}");
                assert_eq!(counts(&book), counts(&single), "{name} {router:?} from {from}");
            }
        }
    }
}

#[test]
fn a_port_that_is_used_again_may_lead_to_another_server() {
    let session = SESSIONS[0];
    let (name, port, _) = session;
    let frames = recorded(name);
    let later = |frames: &[Captured], by: u8| -> Vec<Captured> {
        let later = |frame: &Captured| {
            let mut frame = frame.clone();
            frame.time_ns += u64::from(by) * 10_000_000_000;
            // Other sequence numbers.
            for at in [38, 42] {
                frame.bytes[at] ^= by;
            }
            frame
        };
        frames.iter().map(later).collect()
    };
    let servers = [SERVER, Ipv4Addr::new(10, 9, 9, 10), SERVER];
    let all = (1..).zip(servers).flat_map(|(turn, server)| {
        let router = Router { published: (PUBLISHED, port), server: (server, port), masqueraded: None };
        router.seen(&later(&frames, turn), port)
    });
    let (book, once) = (port_book(session, &all.collect::<Vec<_>>()), port_book(session, &frames));
    assert_eq!(book.totals.tcp.connections, 3 * once.totals.tcp.connections);
    let thrice: Vec<_> = counts(&once).into_iter().map(|(name, count)| (name, 3 * count)).collect();
    assert_eq!(counts(&book), thrice);
    let to = |server: Ipv4Addr| Note::Translated { from: (PUBLISHED, port).into(), to: (server, port).into() };
    let connections = once.totals.tcp.connections;
    assert_eq!(book.totals.notes.get(&to(SERVER)), Some(&(2 * connections)), "{:?}", book.totals.notes);
    assert_eq!(book.totals.notes.get(&to(servers[1])), Some(&connections));
}

/// The frames as two taps saw them, one for each direction: the clock of the server's is ahead by `skew_ns`.
fn by_two_clocks(frames: &[Captured], port: u16, skew_ns: i64) -> Vec<Captured> {
    let mut skewed = frames.to_vec();
    for frame in &mut skewed {
        if u16::from_be_bytes([frame.bytes[34], frame.bytes[35]]) == port {
            frame.time_ns = frame.time_ns.wrapping_add_signed(skew_ns);
        }
    }
    skewed.sort_by_key(|frame| frame.time_ns);
    skewed
}

#[test]
fn the_order_of_two_clocks_is_restored() {
    for session in SESSIONS {
        let (name, port, _) = session;
        let frames = recorded(name);
        for skew_ns in [-400_000_000, -5_000_000, -60_000, 60_000, 5_000_000, 400_000_000] {
            let book = port_book(session, &by_two_clocks(&frames, port, skew_ns));
            let late = |note| book.totals.notes.get(&note).copied().unwrap_or_default();
            assert!(late(Note::CapturedLate) > 0, "{name} by {skew_ns}: {:?}", book.totals.notes);
            assert_eq!(late(Note::CapturedTooLate), 0, "{name} by {skew_ns}");
            assert!(book.totals.had_two_clocks());
            assert_eq!(counts(&book), counts(&port_book(session, &frames)), "{name} by {skew_ns}");
        }
    }
}

#[test]
fn copies_may_have_earlier_times() {
    for session in SESSIONS {
        let frames = recorded(session.0);
        let before = |frame: &Captured| Captured { time_ns: frame.time_ns - 700, ..frame.clone() };
        let twice: Vec<_> = frames.iter().flat_map(|frame| [frame.clone(), before(frame)]).collect();
        let (book, once) = (port_book(session, &twice), port_book(session, &frames));
        assert_eq!(book.totals.duplicate_frames, frames.len() as u64, "{session:?}");
        assert_eq!(figures(&book), figures(&once), "{session:?}");
    }
}

#[test]
fn interfaces_at_both_ends_of_a_path_are_named() {
    // What the way takes, by how much the server's clock is ahead, and whether it is named.
    let ways = [(2_000, 0, false), (2_000, 30_000_000, false), (30_000, 0, true), (30_000_000, -30_000_000, true)];
    for (session, (way_ns, ahead_ns, is_named)) in SESSIONS.iter().flat_map(|session| ways.map(|way| (session, way))) {
        let mut both = Vec::new();
        for (frame, at) in recorded(session.0).iter().zip(1_u64..) {
            let is_to_server = u16::from_be_bytes([frame.bytes[36], frame.bytes[37]]) == session.1;
            let seen = |interface, later_ns| {
                let time_ns = (at * 90_000_000).wrapping_add_signed(later_ns);
                let mut seen = Captured { time_ns, interface, ..frame.clone() };
                // The client is another host.
                seen.bytes[if is_to_server { 29 } else { 33 }] += 1;
                seen
            };
            let [client_ns, server_ns] = if is_to_server { [0, way_ns] } else { [way_ns, 0] };
            both.extend([seen(0, client_ns), seen(1, server_ns + ahead_ns)]);
        }
        both.sort_by_key(|frame| frame.time_ns);
        let (book, once) = (port_book(*session, &both), port_book(*session, &recorded(session.0)));
        assert_eq!(book.totals.duplicate_frames * 2, book.totals.frames, "{session:?} {way_ns} {ahead_ns}");
        assert_eq!(counts(&book), counts(&once), "{session:?} {way_ns} {ahead_ns}");
        assert_eq!(book.totals.notes.contains_key(&Note::BothEnds), is_named, "{session:?} {way_ns} {ahead_ns}");
    }
}
