//! The frames of a few connections, which can be changed before they are written.

use crate::hostile::packet::FrameHeaders;
use overhead_model::Side;

/// Maximum number of frames. A connection learns after 16 frames, so more would only repeat.
const FRAMES: usize = 120;
/// Maximum bytes of payload in all frames.
const BYTES: usize = 12 << 10;

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const PUSH: u8 = 8;
pub(crate) const ACK: u8 = 16;

/// A frame to be written.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub connection: usize,
    pub side: Side,
    pub headers: FrameHeaders,
    pub payload: Vec<u8>,
    /// Bytes at the end that were not captured.
    pub snapped: usize,
    /// Bytes after the packet.
    pub trailer: usize,
    /// Nanoseconds since the previous frame.
    pub gap_ns: i64,
}

/// A written frame.
#[derive(Debug)]
pub(crate) struct WrittenPacket {
    pub time_ns: u64,
    pub original_len: u32,
    pub bytes: Vec<u8>,
}

/// When a side acknowledges data in a separate frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acknowledge {
    Never,
    Responses,
    Both,
}

/// The state of a connection at its ends.
#[derive(Clone, Debug)]
pub(crate) struct ScriptedLink {
    pub headers: FrameHeaders,
    /// Next sequence numbers, by side.
    pub next: [u32; 2],
    pub acknowledge: Acknowledge,
    /// Maximum payload of a frame.
    pub segment: usize,
}

/// All frames so far.
#[derive(Debug)]
pub(crate) struct FrameList {
    pub links: Vec<ScriptedLink>,
    pub frames: Vec<Planned>,
    bytes: usize,
}

impl FrameList {
    pub fn new(links: Vec<ScriptedLink>) -> Self {
        Self { links, frames: Vec::new(), bytes: 0 }
    }

    /// Returns whether no more frames fit.
    pub fn is_full(&self) -> bool {
        self.frames.len() >= FRAMES || self.bytes >= BYTES
    }

    /// Adds a frame sent by `side`, and advances its sequence number.
    pub fn send(&mut self, connection: usize, side: Side, flags: u8, payload: &[u8]) {
        if self.is_full() {
            return;
        }
        let link = &mut self.links[connection];
        let (seq, ack) = (link.next[side as usize], link.next[side.other() as usize]);
        let ack = if flags & ACK == 0 { 0 } else { ack };
        let timestamps = link.headers.timestamps.map(|base| base.wrapping_add(self.frames.len() as u32));
        let headers = FrameHeaders { timestamps, seq, ack, flags, ..link.headers };
        let taken = payload.len() as u32 + u32::from(flags & (SYN | FIN) != 0);
        link.next[side as usize] = seq.wrapping_add(taken);
        self.add(Planned {
            connection,
            side,
            headers,
            payload: payload.to_vec(),
            snapped: 0,
            trailer: 0,
            gap_ns: 30_000,
        });
    }

    /// Adds a frame unchanged.
    pub fn add(&mut self, frame: Planned) {
        if !self.is_full() {
            self.bytes += frame.payload.len();
            self.frames.push(frame);
        }
    }

    /// Adds a handshake.
    pub fn open(&mut self, connection: usize) {
        self.send(connection, Side::Request, SYN, b"");
        self.send(connection, Side::Response, SYN | ACK, b"");
        self.send(connection, Side::Request, ACK, b"");
    }

    /// Sends bytes in as many frames as necessary.
    pub fn say(&mut self, connection: usize, side: Side, bytes: &[u8]) {
        let ScriptedLink { segment, acknowledge, .. } = self.links[connection];
        for part in bytes.chunks(segment) {
            self.send(connection, side, ACK | PUSH, part);
        }
        let is_due = match acknowledge {
            Acknowledge::Never => false,
            Acknowledge::Responses => side == Side::Response,
            Acknowledge::Both => true,
        };
        if is_due && !bytes.is_empty() {
            self.send(connection, side.other(), ACK, b"");
        }
    }

    /// Writes the frames.
    pub fn into_packets(self) -> Vec<WrittenPacket> {
        let mut time_ns = 1_i64 << 60;
        let write = |frame: Planned| {
            time_ns = time_ns.saturating_add(frame.gap_ns).max(0);
            let mut bytes = Vec::with_capacity(frame.payload.len() + 78);
            frame.headers.write(frame.side, frame.payload.len(), &mut bytes);
            bytes.extend(&frame.payload);
            bytes.resize(bytes.len() + frame.trailer, 0);
            let original_len = bytes.len() as u32;
            bytes.truncate(bytes.len() - frame.snapped.min(bytes.len()));
            WrittenPacket { time_ns: time_ns.cast_unsigned(), original_len, bytes }
        };
        self.frames.into_iter().map(write).collect()
    }
}
