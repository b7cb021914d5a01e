//! Arbitrary bytes as TCP segments.
//!
//! The first byte says how connections are selected; each six that follow are a frame:
//!
//! ```text
//! what:  bit 0 side, bit 1 which of two connections, bits 2-3 content, bit 4 snapped, bit 5 trailer,
//!        bit 6 no IP length, bit 7 IPv6
//! flags: as in the TCP header
//! seq:   distance from what this side sends next; beyond ±100, in steps of 2^24
//! ack:   distance from what the other side sends next, likewise
//! len:   of the payload; from 240, in steps of 100
//! time:  since the frame before, in µs; from 250, in steps of 20 s
//! ```

use crate::hostile::packet::FrameHeaders;
use crate::hostile::sum::{Sum, settle};
use overhead_dissect::{Dissector, Selection};
use overhead_model::{Frame, LinkType, Protocol, Side};

const STREAMS: [&[u8]; 2] = [b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n", b"$5\r\nvalue\r\n"];

/// Dissects the frames that `input` describes.
pub(crate) fn run(input: &[u8]) {
    let (&options, records) = input.split_first().unwrap_or((&0, &[]));
    let mut dissector = Dissector::new(selection(options), Sum::default());
    let mut wire = Wire::new(options);
    let mut frames = 0;
    for record in records.chunks_exact(6) {
        if let &[what, flags, seq, ack, len, time] = record {
            dissector.frame(&wire.frame(what, flags, (seq, ack), len, time));
            frames += 1;
        }
    }
    assert_eq!(settle(dissector).frames, frames, "frames written and frames counted");
}

fn selection(options: u8) -> Selection {
    match options & 3 {
        0 => Selection::default(),
        1 => Selection { ports: vec![(6379, vec![Protocol::Resp])], ..Selection::default() },
        2 => Selection {
            ports: vec![(40_000, Protocol::ALL.to_vec()), (6379, vec![Protocol::Pgwire])],
            ..Selection::default()
        },
        _ => Selection { ports: vec![(1, vec![Protocol::Resp])], ..Selection::default() },
    }
}

/// Data that two connections have sent so far, and the current frame.
struct Wire {
    ports: [u16; 2],
    next: [[u32; 2]; 2],
    time_ns: u64,
    bytes: Vec<u8>,
}

impl Wire {
    fn new(options: u8) -> Self {
        // Sequence numbers that soon wrap around, and an unknown port.
        let next = if options & 4 == 0 { [[0; 2]; 2] } else { [[u32::MAX - 40; 2]; 2] };
        let ports = if options & 8 == 0 { [40_000, 6379] } else { [40_000, 7000] };
        Self { ports, next, time_ns: 1 << 60, bytes: Vec::new() }
    }

    fn frame(&mut self, what: u8, flags: u8, (seq, ack): (u8, u8), len: u8, time: u8) -> Frame<'_> {
        let (side, connection) = (usize::from(what & 1), usize::from(what >> 1 & 1));
        let sent = &mut self.next[connection];
        let numbers = (sent[side].wrapping_add(distance(seq)), sent[1 - side].wrapping_add(distance(ack)));
        let len = if len < 240 { u32::from(len) } else { u32::from(len - 239) * 100 };
        if seq == 0 {
            sent[side] = numbers.0.wrapping_add(len).wrapping_add(u32::from(flags & 2 != 0) + u32::from(flags & 1));
        }
        self.time_ns += if time < 250 { u64::from(time) * 1_000 } else { u64::from(time - 249) * 20_000_000_000 };
        self.headers(what, flags, numbers, len as usize);
        self.payload(what, numbers.0, len as usize);
        let original_len = self.bytes.len() as u32;
        if what & 16 != 0 {
            self.bytes.truncate(self.bytes.len() - len as usize / 3);
        }
        Frame { time_ns: self.time_ns, link: LinkType::ETHERNET, original_len, interface: 0, bytes: &self.bytes }
    }

    fn headers(&mut self, what: u8, flags: u8, (seq, ack): (u32, u32), len: usize) {
        let side = if what & 1 == 0 { Side::Request } else { Side::Response };
        let (ipv6, no_length) = (what & 128 != 0, what & 64 != 0);
        let about = FrameHeaders {
            connection: what >> 1 & 1,
            ports: self.ports,
            ipv6,
            no_length,
            seq,
            ack,
            flags,
            window: 0xffff,
            ..FrameHeaders::default()
        };
        about.write(side, len, &mut self.bytes);
    }

    /// Appends `len` bytes from `position` of a repeating stream, of an inconsistent one, or zeros; then a trailer.
    fn payload(&mut self, what: u8, position: u32, len: usize) {
        let stream = STREAMS[usize::from(what & 1)];
        let end = self.bytes.len() + len;
        match what >> 2 & 3 {
            0 | 1 => {
                let from = position as usize % stream.len();
                self.bytes.extend(&stream[from..]);
                while self.bytes.len() < end {
                    self.bytes.extend(stream);
                }
                self.bytes.truncate(end);
            }
            2 => self.bytes.extend(stream.iter().rev().cycle().take(len)),
            _ => self.bytes.resize(end, 0),
        }
        if what & 32 != 0 {
            self.bytes.extend([0; 6]);
        }
    }
}

fn distance(byte: u8) -> u32 {
    let steps = i32::from(byte.cast_signed());
    let distance = if steps.abs() <= 100 { steps } else { steps << 24 };
    distance.cast_unsigned()
}
