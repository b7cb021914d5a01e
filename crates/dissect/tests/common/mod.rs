//! TCP conversations frame by frame, and a tally that remembers everything.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use etherparse::PacketBuilder;
use overhead_dissect::{Dissector, Selection, Totals};
use overhead_model::{
    Amounts, Class, ConnectionSummary, Frame, LinkType, Operation, Protocol, RowId, RowKey, Side, SideTotals, Tally,
};

/// A captured frame that owns its bytes.
#[derive(Clone, Debug)]
pub struct Captured {
    pub time_ns: u64,
    pub link: LinkType,
    pub interface: u32,
    pub bytes: Vec<u8>,
    pub original_len: u32,
}

impl Captured {
    /// A whole Ethernet frame.
    pub fn ethernet(time_ns: u64, bytes: Vec<u8>) -> Self {
        Self { time_ns, link: LinkType::ETHERNET, interface: 0, original_len: bytes.len() as u32, bytes }
    }
}

/// One end's next sequence number and port.
#[derive(Clone, Copy, Debug)]
struct End {
    port: u16,
    seq: u32,
}

/// Writes the frames of one connection, 1 µs apart, Ethernet and IPv4 without options: 54 bytes of headers.
#[derive(Clone, Debug)]
pub struct Talk {
    ends: [End; 2],
    pub frames: Vec<Captured>,
}

pub const HEADERS: u64 = 54;

impl Talk {
    /// A connection to the usual Redis port.
    pub fn new() -> Self {
        Self::starting_at(1000, 5000)
    }

    /// A connection with these initial sequence numbers.
    pub fn starting_at(client: u32, server: u32) -> Self {
        Self { ends: [End { port: 40_000, seq: client }, End { port: 6379, seq: server }], frames: Vec::new() }
    }

    fn push(&mut self, side: Side, seq: u32, payload: &[u8], flags: &str) {
        let (from, to) = (self.ends[side as usize], self.ends[side.other() as usize]);
        let address = |side: Side| [10, 0, 0, 1 + side as u8];
        let mut builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
            .ipv4(address(side), address(side.other()), 64)
            .tcp(from.port, to.port, seq, 65_000);
        for flag in flags.chars() {
            builder = match flag {
                'S' => builder.syn(),
                'A' => builder.ack(to.seq),
                'F' => builder.fin(),
                'R' => builder.rst(),
                _ => builder.psh(),
            };
        }
        let mut bytes = Vec::new();
        builder.write(&mut bytes, payload).unwrap();
        let time_ns = 1_000 * (self.frames.len() as u64 + 1);
        self.frames.push(Captured::ethernet(time_ns, bytes));
    }

    /// SYN, SYN-ACK, ACK.
    pub fn handshake(mut self) -> Self {
        self.push(Side::Request, self.ends[0].seq, &[], "S");
        self.ends[0].seq = self.ends[0].seq.wrapping_add(1);
        self.push(Side::Response, self.ends[1].seq, &[], "SA");
        self.ends[1].seq = self.ends[1].seq.wrapping_add(1);
        self.ack(Side::Request)
    }

    /// A segment with payload, in order.
    pub fn send(mut self, side: Side, payload: &[u8]) -> Self {
        self.push(side, self.ends[side as usize].seq, payload, "AP");
        self.ends[side as usize].seq = self.ends[side as usize].seq.wrapping_add(payload.len() as u32);
        self
    }

    /// Bytes that were sent in a frame that the capture missed.
    pub fn miss(mut self, side: Side, len: u32) -> Self {
        self.ends[side as usize].seq = self.ends[side as usize].seq.wrapping_add(len);
        self
    }

    /// A segment `back` bytes before the next sequence number, which does not move.
    pub fn again(mut self, side: Side, back: u32, payload: &[u8]) -> Self {
        self.push(side, self.ends[side as usize].seq.wrapping_sub(back), payload, "A");
        self
    }

    /// A pure acknowledgment of all that was sent.
    pub fn ack(mut self, side: Side) -> Self {
        self.push(side, self.ends[side as usize].seq, &[], "A");
        self
    }

    /// FIN, FIN, ACK.
    pub fn close(mut self) -> Self {
        for side in Side::BOTH {
            self.push(side, self.ends[side as usize].seq, &[], "FA");
            self.ends[side as usize].seq = self.ends[side as usize].seq.wrapping_add(1);
        }
        self.ack(Side::Request)
    }

    /// A segment with these flags (`SAFRP`) at the next sequence number, which moves on by all that it takes.
    pub fn segment(mut self, side: Side, flags: &str, payload: &[u8]) -> Self {
        self.push(side, self.ends[side as usize].seq, payload, flags);
        let taken = payload.len() + flags.matches(['S', 'F']).count();
        self.ends[side as usize].seq = self.ends[side as usize].seq.wrapping_add(taken as u32);
        self
    }

    /// Has the last frame announce this window.
    pub fn window(mut self, window: u16) -> Self {
        self.frames.last_mut().unwrap().bytes[48..50].copy_from_slice(&window.to_be_bytes());
        self
    }

    /// Has the last frame, without payload, report the `len` bytes before what it acknowledges as a duplicate (RFC 2883).
    pub fn duplicate(mut self, len: u32) -> Self {
        let frame = self.frames.last_mut().unwrap();
        let right = u32::from_be_bytes(*frame.bytes[42..].first_chunk().unwrap());
        frame.bytes.extend([1, 1, 5, 10]);
        frame.bytes.extend([right.wrapping_sub(len).to_be_bytes(), right.to_be_bytes()].concat());
        frame.original_len += 12;
        (frame.bytes[17], frame.bytes[46]) = (52, 8 << 4);
        self
    }

    /// Sets the next sequence number.
    pub fn seek(mut self, side: Side, seq: u32) -> Self {
        self.ends[side as usize].seq = seq;
        self
    }

    /// Leaves out all frames that this side sent.
    pub fn without(mut self, side: Side) -> Self {
        self.frames.retain(|frame| frame.bytes[29] != 1 + side as u8);
        self
    }

    /// Cuts all frames to `len` captured bytes.
    pub fn snapped(mut self, len: usize) -> Self {
        self.frames.iter_mut().for_each(|frame| frame.bytes.truncate(len));
        self
    }

    pub fn swap(mut self, a: usize, b: usize) -> Self {
        let (first, second) = (self.frames[a].bytes.clone(), self.frames[b].bytes.clone());
        (self.frames[a].original_len, self.frames[b].original_len) = (second.len() as u32, first.len() as u32);
        (self.frames[a].bytes, self.frames[b].bytes) = (second, first);
        self
    }

    /// Dissects the frames and checks that everything adds up.
    pub fn dissect(&self) -> Book {
        dissect(&self.frames, &Selection { ports: vec![(6379, vec![Protocol::Resp])], ..Selection::default() })
    }
}

/// A row of the tally.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    pub protocol: Option<Protocol>,
    pub class: Option<Class>,
    pub name: String,
    pub via: &'static str,
    pub operations: Vec<Operation>,
    pub late: [SideTotals; 2],
}

impl Row {
    /// All bytes of a side, late ones included.
    pub fn amounts(&self, side: Side) -> Amounts {
        let mut sum = self.late[side as usize].amounts;
        self.operations.iter().for_each(|operation| sum += operation.sides[side as usize].amounts);
        sum
    }
}

/// A tally that keeps every operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    pub rows: Vec<Row>,
    pub connections: Vec<ConnectionSummary>,
}

/// The same, told of every field, though it does nothing with them.
#[derive(Debug, Default)]
struct Listening(List);

impl Tally for Listening {
    fn row(&mut self, key: RowKey<'_>) -> RowId {
        self.0.row(key)
    }
    fn operation(&mut self, row: RowId, operation: &Operation) {
        self.0.operation(row, operation);
    }
    fn late(&mut self, row: RowId, side: Side, totals: &SideTotals) {
        self.0.late(row, side, totals);
    }
    fn connection(&mut self, summary: ConnectionSummary) {
        self.0.connection(summary);
    }
}

impl Tally for List {
    fn row(&mut self, key: RowKey<'_>) -> RowId {
        let same = |row: &Row| {
            (row.protocol, row.class, row.name.as_str(), row.via)
                == (Some(key.protocol), Some(key.class), key.name, key.via)
        };
        let index = self.rows.iter().position(same).unwrap_or_else(|| {
            let (protocol, class) = (Some(key.protocol), Some(key.class));
            self.rows.push(Row { protocol, class, name: key.name.to_owned(), via: key.via, ..Row::default() });
            self.rows.len() - 1
        });
        RowId(index as u64)
    }

    fn operation(&mut self, row: RowId, operation: &Operation) {
        self.rows[row.0 as usize].operations.push(*operation);
    }

    fn late(&mut self, row: RowId, side: Side, totals: &SideTotals) {
        let late = &mut self.rows[row.0 as usize].late[side as usize];
        late.frames += totals.frames;
        late.amounts += totals.amounts;
    }

    fn connection(&mut self, summary: ConnectionSummary) {
        self.connections.push(summary);
    }
}

/// A dissected capture.
#[derive(Clone, Debug)]
pub struct Book {
    pub list: List,
    pub totals: Totals,
}

impl Book {
    /// The row of this name.
    pub fn row(&self, name: &str) -> &Row {
        self.find(name).unwrap_or_else(|| panic!("no row {name} in {:#?}", self.names()))
    }

    pub fn find(&self, name: &str) -> Option<&Row> {
        self.list
            .rows
            .iter()
            .find(|row| row.name == name && (!row.operations.is_empty() || row.late != [SideTotals::default(); 2]))
    }

    pub fn names(&self) -> Vec<&str> {
        self.list.rows.iter().map(|row| row.name.as_str()).collect()
    }
}

fn dissect_for<T: Tally>(tally: T, frames: &[Captured], selection: &Selection, bytes: Option<usize>) -> (T, Totals) {
    let mut dissector = Dissector::new(selection.clone(), tally);
    if let Some(bytes) = bytes {
        dissector = dissector.within(bytes);
    }
    for frame in frames {
        dissector.frame(&Frame {
            time_ns: frame.time_ns,
            link: frame.link,
            original_len: frame.original_len,
            interface: frame.interface,
            bytes: &frame.bytes,
        });
    }
    dissector.finish()
}

/// Dissects frames and checks the rules that hold for any input.
pub fn dissect(frames: &[Captured], selection: &Selection) -> Book {
    dissect_within(frames, selection, None)
}

/// The same, with a limit on what connections hold.
pub fn dissect_within(frames: &[Captured], selection: &Selection, bytes: Option<usize>) -> Book {
    let (list, totals) = dissect_for(List::default(), frames, selection, bytes);
    let (Listening(listened), _) = dissect_for(Listening::default(), frames, selection, bytes);
    assert_eq!(listened, list, "fields one by one, and added up on their way");
    let sum = |of: fn(&Amounts) -> u64| -> u64 {
        list.rows.iter().flat_map(|row| Side::BOTH.map(|side| of(&row.amounts(side)))).sum()
    };
    assert_eq!(sum(Amounts::total) + totals.other, totals.wire_bytes, "the ledger balances");
    assert_eq!(sum(Amounts::payload) + totals.tcp.retransmitted_bytes, totals.tcp.payload_bytes, "payload adds up");
    Book { list, totals }
}
