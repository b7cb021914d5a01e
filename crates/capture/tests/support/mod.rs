//! Builds captures byte by byte, and collects a source's frames.

// Each test program uses only a part of this module.
#![allow(dead_code)]
// Test helpers fail by panicking.
#![allow(clippy::unwrap_used, clippy::panic)]

use overhead_capture::{FileEnd, FileSource, FrameSource, NextFrame, SourceError};
use overhead_model::Frame;
use std::io::Cursor;
use std::ops::ControlFlow;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Little,
    Big,
}

pub const BOTH: [Order; 2] = [Order::Little, Order::Big];

impl Order {
    pub fn u16(self, value: u16) -> Vec<u8> {
        match self {
            Self::Little => value.to_le_bytes().to_vec(),
            Self::Big => value.to_be_bytes().to_vec(),
        }
    }

    pub fn u32(self, value: u32) -> Vec<u8> {
        match self {
            Self::Little => value.to_le_bytes().to_vec(),
            Self::Big => value.to_be_bytes().to_vec(),
        }
    }

    pub fn u64(self, value: u64) -> Vec<u8> {
        match self {
            Self::Little => value.to_le_bytes().to_vec(),
            Self::Big => value.to_be_bytes().to_vec(),
        }
    }
}

pub const MICRO: u32 = 0xa1b2_c3d4;
pub const NANO: u32 = 0xa1b2_3c4d;
pub const MODIFIED: u32 = 0xa1b2_cd34;

pub fn pcap_header(order: Order, magic: u32, link: u32) -> Vec<u8> {
    [order.u32(magic), order.u16(2), order.u16(4), order.u32(0), order.u32(0), order.u32(262_144), order.u32(link)]
        .concat()
}

pub fn record(order: Order, seconds: u32, fraction: u32, original: u32, data: &[u8]) -> Vec<u8> {
    let head = [seconds, fraction, data.len() as u32, original];
    [head.iter().flat_map(|field| order.u32(*field)).collect(), data.to_vec()].concat()
}

pub fn block(order: Order, kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let length = order.u32(padded as u32 + 12);
    [order.u32(kind), length.clone(), body.to_vec(), vec![0; padded - body.len()], length].concat()
}

pub fn option(order: Order, code: u16, value: &[u8]) -> Vec<u8> {
    let padding = value.len().next_multiple_of(4) - value.len();
    [order.u16(code), order.u16(value.len() as u16), value.to_vec(), vec![0; padding]].concat()
}

pub fn section(order: Order) -> Vec<u8> {
    let body = [order.u32(0x1a2b_3c4d), order.u16(1), order.u16(0), order.u64(u64::MAX)].concat();
    block(order, 0x0a0d_0d0a, &body)
}

pub fn interface(order: Order, link: u16, snaplen: u32, options: &[Vec<u8>]) -> Vec<u8> {
    let body = [order.u16(link), order.u16(0), order.u32(snaplen), options.concat()].concat();
    block(order, 1, &body)
}

pub fn enhanced(order: Order, interface: u32, ticks: u64, original: u32, data: &[u8], options: &[Vec<u8>]) -> Vec<u8> {
    let head = [interface, (ticks >> 32) as u32, ticks as u32, data.len() as u32, original];
    let padding = vec![0; data.len().next_multiple_of(4) - data.len()];
    let head: Vec<u8> = head.iter().flat_map(|field| order.u32(*field)).collect();
    block(order, 6, &[head, data.to_vec(), padding, options.concat()].concat())
}

pub fn obsolete(order: Order, interface: u16, ticks: u64, original: u32, data: &[u8]) -> Vec<u8> {
    let head = [(ticks >> 32) as u32, ticks as u32, data.len() as u32, original];
    let head: Vec<u8> = head.iter().flat_map(|field| order.u32(*field)).collect();
    block(order, 2, &[order.u16(interface), order.u16(9), head, data.to_vec()].concat())
}

pub fn simple(order: Order, original: u32, data: &[u8]) -> Vec<u8> {
    block(order, 3, &[order.u32(original), data.to_vec()].concat())
}

pub fn statistics(order: Order, interface: u32, options: &[Vec<u8>]) -> Vec<u8> {
    block(order, 5, &[order.u32(interface), order.u64(0), options.concat()].concat())
}

/// A frame that outlives its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    pub time_ns: u64,
    pub link: u16,
    pub original_len: u32,
    pub interface: u32,
    pub bytes: Vec<u8>,
}

pub fn owned(time_ns: u64, link: u16, original_len: u32, interface: u32, bytes: &[u8]) -> Owned {
    Owned { time_ns, link, original_len, interface, bytes: bytes.to_vec() }
}

pub fn open(bytes: &[u8]) -> Result<FileSource, SourceError> {
    FileSource::from_reader("x.pcap", Cursor::new(bytes.to_vec()))
}

fn kept(frame: &Frame<'_>) -> Owned {
    owned(frame.time_ns, frame.link.0, frame.original_len, frame.interface, frame.bytes)
}

/// Returns all frames, buffered ones in batches, and how the input ended.
pub fn drain_buffered(mut source: FileSource) -> (Vec<Owned>, FileEnd) {
    let mut frames = Vec::new();
    while source.fill().unwrap() {
        let mut take = |frame: &Frame<'_>| {
            frames.push(kept(frame));
            // Breaking must lose nothing.
            if frames.len() % 3 == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        assert!(source.buffered_frames(&mut take).is_continue(), "nothing is passed over");
        if let NextFrame::Frame(frame) = source.next_frame().unwrap() {
            let _ = take(&frame);
        }
        while source.buffered_frames(&mut take).is_break() {}
    }
    (frames, source.end().unwrap().clone())
}

/// Returns all frames, read one by one, how the input ended, and the source.
pub fn drain(mut source: FileSource) -> (Vec<Owned>, FileEnd, FileSource) {
    let mut frames = Vec::new();
    loop {
        match source.next_frame().unwrap() {
            NextFrame::Frame(frame) => frames.push(kept(&frame)),
            NextFrame::Idle => panic!("a file is never idle"),
            NextFrame::End => break,
        }
    }
    assert!(matches!(source.next_frame(), Ok(NextFrame::End)), "the end is final");
    let end = source.end().unwrap().clone();
    (frames, end, source)
}

pub fn frames(bytes: &[u8]) -> Vec<Owned> {
    let (frames, end, _) = drain(open(bytes).unwrap());
    assert_eq!(end.cut, None);
    frames
}
