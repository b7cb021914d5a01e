//! Checks that bytes start a message, for captures that start within a connection and for resuming after a loss.
//!
//! A type and a length prove little. So the body is checked too, up to [`limits::BOUNDARY_WINDOW`], or the next header
//! if there is no body.

use super::wire::{self, HEADER};
use crate::limits::BOUNDARY_WINDOW;
use overhead_decode::{DecodeStep, Malformed, MessageBoundary};
use std::ops::RangeInclusive;

/// Longer messages are not accepted as a boundary.
const PLAUSIBLE: u64 = 1 << 20;

pub fn request_boundary(bytes: &[u8]) -> MessageBoundary {
    if bytes.first() == Some(&0) {
        return startup(bytes);
    }
    PgMessageProbe::new(bytes, wire::request_header).and_then(request).err().unwrap_or(MessageBoundary::Yes)
}

pub fn response_boundary(bytes: &[u8]) -> MessageBoundary {
    PgMessageProbe::new(bytes, wire::response_header).and_then(response).err().unwrap_or(MessageBoundary::Yes)
}

fn startup(bytes: &[u8]) -> MessageBoundary {
    match wire::startup_header(bytes) {
        Ok(None) => MessageBoundary::More,
        Ok(Some((wire::SSL_REQUEST | wire::GSSENC_REQUEST, 8) | (wire::CANCEL_REQUEST, 16..=268))) => {
            MessageBoundary::Yes
        }
        Ok(Some((version, total @ 9..))) if version >> 16 == 3 => match bytes.get(8) {
            None => MessageBoundary::More,
            // The end of the parameters, so there are none.
            Some(0) => MessageBoundary::yes_if(total == 9),
            Some(b'a'..=b'z' | b'_') => MessageBoundary::Yes,
            Some(_) => MessageBoundary::No,
        },
        Ok(Some(_)) | Err(Malformed(_)) => MessageBoundary::No,
    }
}

fn request(mut probe: PgMessageProbe<'_>) -> PgProbed {
    match probe.kind {
        b'Q' | b'f' => probe.text()?.end(),
        b'P' => probe.text()?.text()?.counted(4),
        b'B' => {
            for _ in 0..probe.text()?.text()?.number(2)? {
                probe.count(0..=1)?;
            }
            for _ in 0..probe.number(2)? {
                probe.cell()?;
            }
            Ok(())
        }
        b'D' | b'C' => probe.one_of(b"SP")?.text()?.end(),
        b'E' => probe.text()?.leaves(4),
        b'S' | b'H' | b'c' => probe.followed(),
        b'd' => probe.pass_all()?.followed(),
        _ => Err(MessageBoundary::No),
    }
}

fn response(mut probe: PgMessageProbe<'_>) -> PgProbed {
    match probe.kind {
        b'Z' => probe.one_of(b"ITE")?.end(),
        b'C' => probe.peek(|first| first.is_ascii_uppercase())?.text()?.end(),
        b'T' => {
            probe.count(1..=1664)?;
            probe.text()?;
            for _ in 0..8 {
                probe.number(2)?;
            }
            probe.count(0..=1).map(drop)
        }
        b'D' => {
            let count = probe.count(0..=1664)?;
            if probe.total < HEADER + 2 + 4 * u64::from(count) {
                return Err(MessageBoundary::No);
            }
            for _ in 0..count {
                probe.cell()?;
            }
            probe.followed_in_sight()
        }
        b'1' | b'2' | b'3' | b'n' | b's' | b'I' | b'c' => probe.followed(),
        b'K' | b'd' => probe.pass_all()?.followed(),
        b't' => {
            probe.counted(4)?;
            probe.pos = probe.total;
            probe.followed_in_sight()
        }
        b'G' | b'H' | b'W' => probe.one_of(&[0, 1])?.counted(2),
        b'E' | b'N' => {
            let text = probe.one_of(b"S")?.peek(|first| first.is_ascii_uppercase() || first >= 128)?;
            text.text()?.one_of(b"VC").map(drop)
        }
        b'S' => probe.peek(|first| first.is_ascii_alphabetic())?.text()?.text()?.end(),
        b'A' => {
            probe.number(4)?;
            probe.peek(|first| first > b' ')?.text()?.text()?.followed_in_sight()
        }
        b'R' => match (probe.number(4)?, probe.total) {
            (0, 9) => probe.followed(),
            (2 | 3 | 6 | 7 | 9, 9) | (5, 13) | (8 | 10..=12, 10..) => Ok(()),
            _ => Err(MessageBoundary::No),
        },
        _ => Err(MessageBoundary::No),
    }
}

/// What is left to check. Its errors are verdicts: `No`, `More`, or `Yes` for nothing wrong up to the end of the window.
type PgProbed<T = ()> = Result<T, MessageBoundary>;

/// Checks one message.
struct PgMessageProbe<'a> {
    bytes: &'a [u8],
    header: PgHeaderReader,
    kind: u8,
    total: u64,
    pos: u64,
}

type PgHeaderReader = fn(&[u8]) -> DecodeStep<Option<(u8, u64)>>;

impl<'a> PgMessageProbe<'a> {
    fn new(bytes: &'a [u8], header: PgHeaderReader) -> PgProbed<Self> {
        match header(bytes) {
            Err(_) | Ok(Some((_, PLAUSIBLE..))) => Err(MessageBoundary::No),
            Ok(None) => Err(MessageBoundary::More),
            Ok(Some((kind, total))) => {
                Ok(Self { bytes: bytes.get(..BOUNDARY_WINDOW).unwrap_or(bytes), header, kind, total, pos: HEADER })
            }
        }
    }

    fn here(&self) -> PgProbed<u8> {
        let at = usize::try_from(self.pos).unwrap_or(usize::MAX);
        match self.bytes.get(at) {
            _ if self.pos >= self.total => Err(MessageBoundary::No),
            Some(byte) => Ok(*byte),
            None if at >= BOUNDARY_WINDOW => Err(MessageBoundary::Yes),
            None => Err(MessageBoundary::More),
        }
    }

    fn byte(&mut self) -> PgProbed<u8> {
        let byte = self.here()?;
        self.pos += 1;
        Ok(byte)
    }

    fn number(&mut self, len: usize) -> PgProbed<u32> {
        let mut number = 0;
        for _ in 0..len {
            number = number << 8 | u32::from(self.byte()?);
        }
        Ok(number)
    }

    /// Reads a number of two bytes within bounds.
    fn count(&mut self, bounds: RangeInclusive<u32>) -> PgProbed<u32> {
        let count = self.number(2)?;
        if bounds.contains(&count) { Ok(count) } else { Err(MessageBoundary::No) }
    }

    /// Reads a count of elements of `size` bytes, which end the message.
    fn counted(&mut self, size: u64) -> PgProbed {
        let count = self.number(2)?;
        self.leaves(size * u64::from(count))
    }

    fn one_of(&mut self, choice: &[u8]) -> PgProbed<&mut Self> {
        if choice.contains(&self.byte()?) { Ok(self) } else { Err(MessageBoundary::No) }
    }

    fn peek(&mut self, is_right: impl FnOnce(u8) -> bool) -> PgProbed<&mut Self> {
        if is_right(self.here()?) { Ok(self) } else { Err(MessageBoundary::No) }
    }

    fn text(&mut self) -> PgProbed<&mut Self> {
        loop {
            match self.byte()? {
                0 => return Ok(self),
                b'\t' | b'\n' | b'\r' | 32..=126 | 128.. => {}
                _ => return Err(MessageBoundary::No),
            }
        }
    }

    fn cell(&mut self) -> PgProbed {
        let len = self.number(4)?;
        if len == u32::MAX {
            return Ok(());
        }
        self.pos += u64::from(len);
        if self.pos > self.total { Err(MessageBoundary::No) } else { Ok(()) }
    }

    fn pass_all(&mut self) -> PgProbed<&mut Self> {
        self.pos = self.total;
        let proves = self.total + HEADER <= BOUNDARY_WINDOW as u64;
        if proves { Ok(self) } else { Err(MessageBoundary::No) }
    }

    fn leaves(&self, n: u64) -> PgProbed {
        if self.total - self.pos == n { Ok(()) } else { Err(MessageBoundary::No) }
    }

    fn end(&self) -> PgProbed {
        self.leaves(0)
    }

    /// Checks that the message ends here, and the next header if it lies within the window.
    fn followed_in_sight(&self) -> PgProbed {
        self.end()?;
        if self.pos + HEADER > BOUNDARY_WINDOW as u64 { Ok(()) } else { self.followed() }
    }

    /// Checks that the message ends here and that another header follows.
    fn followed(&self) -> PgProbed {
        self.end()?;
        let next = usize::try_from(self.pos).ok().and_then(|at| self.bytes.get(at..));
        match (self.header)(next.unwrap_or_default()) {
            Err(_) => Err(MessageBoundary::No),
            Ok(None) => Err(MessageBoundary::More),
            Ok(Some(_)) => Ok(()),
        }
    }
}
