//! Checks that bytes begin a message, for captures that start within a connection and for resuming after a loss.
//!
//! A type and a length prove little. So the body is checked too, up to [`limits::BOUNDARY_WINDOW`], or the next header
//! if there is no body.

use super::wire::{self, HEADER};
use crate::limits::BOUNDARY_WINDOW;
use overhead_decode::{DecodeStep, Malformed, MessageBoundary};

/// Longer messages are not accepted as a boundary.
const PLAUSIBLE: u64 = 1 << 20;

pub fn request_boundary(bytes: &[u8]) -> MessageBoundary {
    if bytes.first() == Some(&0) {
        return startup(bytes);
    }
    PgMessageProbe::new(bytes, wire::request_header).map_or_else(|known| known, |probe| verdict(request(probe)))
}

pub fn response_boundary(bytes: &[u8]) -> MessageBoundary {
    PgMessageProbe::new(bytes, wire::response_header).map_or_else(|known| known, |probe| verdict(response(probe)))
}

fn verdict(read: Result<(), MessageBoundary>) -> MessageBoundary {
    read.err().unwrap_or(MessageBoundary::Yes)
}

fn startup(bytes: &[u8]) -> MessageBoundary {
    match wire::startup_header(bytes) {
        Ok(None) => MessageBoundary::More,
        Ok(Some((wire::SSL_REQUEST | wire::GSSENC_REQUEST, 8) | (wire::CANCEL_REQUEST, 16..=268))) => {
            MessageBoundary::Yes
        }
        Ok(Some((version, 9..))) if version >> 16 == 3 => match bytes.get(8) {
            None => MessageBoundary::More,
            Some(0 | b'a'..=b'z' | b'_') => MessageBoundary::Yes,
            Some(_) => MessageBoundary::No,
        },
        Ok(Some(_)) | Err(Malformed(_)) => MessageBoundary::No,
    }
}

fn request(mut probe: PgMessageProbe<'_>) -> Result<(), MessageBoundary> {
    match probe.kind {
        b'Q' | b'f' => {
            probe.text()?;
            probe.end()
        }
        b'P' => {
            probe.text()?;
            probe.text()?;
            let count = probe.number(2)?;
            probe.leaves(4 * u64::from(count))
        }
        b'B' => {
            probe.text()?;
            probe.text()?;
            let count = probe.number(2)?;
            for _ in 0..count {
                probe.check(|probe| probe.number(2), |code| code <= 1)?;
            }
            let count = probe.number(2)?;
            for _ in 0..count {
                probe.cell()?;
            }
            Ok(())
        }
        b'D' | b'C' => {
            probe.check(PgMessageProbe::byte, |what| matches!(what, b'S' | b'P'))?;
            probe.text()?;
            probe.end()
        }
        b'E' => {
            probe.text()?;
            probe.leaves(4)
        }
        b'S' | b'H' | b'c' => probe.followed(wire::request_header),
        b'd' => {
            probe.pass_all()?;
            probe.followed(wire::request_header)
        }
        _ => Err(MessageBoundary::No),
    }
}

fn response(mut probe: PgMessageProbe<'_>) -> Result<(), MessageBoundary> {
    match probe.kind {
        b'Z' => {
            probe.check(PgMessageProbe::byte, |status| matches!(status, b'I' | b'T' | b'E'))?;
            probe.end()
        }
        b'C' => {
            probe.peek(|first| first.is_ascii_uppercase())?;
            probe.text()?;
            probe.end()
        }
        b'T' => {
            probe.check(|probe| probe.number(2), |count| (1..=1664).contains(&count))?;
            probe.text()?;
            for _ in 0..8 {
                probe.number(2)?;
            }
            probe.check(|probe| probe.number(2), |code| code <= 1)?;
            Ok(())
        }
        b'D' => {
            let count = probe.check(|probe| probe.number(2), |count| count <= 1664)?;
            if probe.total < HEADER + 2 + 4 * u64::from(count) {
                return Err(MessageBoundary::No);
            }
            for _ in 0..count {
                probe.cell()?;
            }
            probe.followed_in_sight(wire::response_header)
        }
        b'1' | b'2' | b'3' | b'n' | b's' | b'I' | b'c' => probe.followed(wire::response_header),
        b'K' | b'd' => {
            probe.pass_all()?;
            probe.followed(wire::response_header)
        }
        b't' => {
            let count = probe.number(2)?;
            probe.leaves(4 * u64::from(count))?;
            probe.pos = probe.total;
            probe.followed_in_sight(wire::response_header)
        }
        b'G' | b'H' | b'W' => {
            probe.check(PgMessageProbe::byte, |format| format <= 1)?;
            let count = probe.number(2)?;
            probe.leaves(2 * u64::from(count))
        }
        _ => named_response(probe),
    }
}

fn named_response(mut probe: PgMessageProbe<'_>) -> Result<(), MessageBoundary> {
    match probe.kind {
        b'E' | b'N' => {
            probe.check(PgMessageProbe::byte, |code| code == b'S')?;
            probe.peek(|first| first.is_ascii_uppercase() || first >= 128)?;
            probe.text()?;
            probe.check(PgMessageProbe::byte, |code| matches!(code, b'V' | b'C')).map(|_| ())
        }
        b'S' => {
            probe.peek(|first| first.is_ascii_alphabetic())?;
            probe.text()?;
            probe.text()?;
            probe.end()
        }
        b'A' => {
            probe.number(4)?;
            probe.peek(|first| first > b' ')?;
            probe.text()?;
            probe.text()?;
            probe.followed_in_sight(wire::response_header)
        }
        b'R' => probe.authentication(),
        _ => Err(MessageBoundary::No),
    }
}

/// Checks one message. Its errors are verdicts: `No`, `More`, or `Yes` for nothing wrong up to the end of the window.
struct PgMessageProbe<'a> {
    bytes: &'a [u8],
    kind: u8,
    total: u64,
    pos: u64,
}

type PgHeaderReader = fn(&[u8]) -> DecodeStep<Option<(u8, u64)>>;

impl<'a> PgMessageProbe<'a> {
    fn new(bytes: &'a [u8], header: PgHeaderReader) -> Result<Self, MessageBoundary> {
        match header(bytes) {
            Err(_) | Ok(Some((_, PLAUSIBLE..))) => Err(MessageBoundary::No),
            Ok(None) => Err(MessageBoundary::More),
            Ok(Some((kind, total))) => {
                Ok(Self { bytes: bytes.get(..BOUNDARY_WINDOW).unwrap_or(bytes), kind, total, pos: HEADER })
            }
        }
    }

    fn here(&self) -> Result<u8, MessageBoundary> {
        let at = usize::try_from(self.pos).unwrap_or(usize::MAX);
        match self.bytes.get(at) {
            _ if self.pos >= self.total => Err(MessageBoundary::No),
            Some(byte) => Ok(*byte),
            None if at >= BOUNDARY_WINDOW => Err(MessageBoundary::Yes),
            None => Err(MessageBoundary::More),
        }
    }

    fn byte(&mut self) -> Result<u8, MessageBoundary> {
        let byte = self.here()?;
        self.pos += 1;
        Ok(byte)
    }

    fn number(&mut self, len: usize) -> Result<u32, MessageBoundary> {
        let mut number = 0;
        for _ in 0..len {
            number = number << 8 | u32::from(self.byte()?);
        }
        Ok(number)
    }

    fn check<T: Copy>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, MessageBoundary>,
        is_right: impl FnOnce(T) -> bool,
    ) -> Result<T, MessageBoundary> {
        let value = read(self)?;
        if is_right(value) { Ok(value) } else { Err(MessageBoundary::No) }
    }

    fn peek(&mut self, is_right: impl FnOnce(u8) -> bool) -> Result<(), MessageBoundary> {
        if is_right(self.here()?) { Ok(()) } else { Err(MessageBoundary::No) }
    }

    fn text(&mut self) -> Result<(), MessageBoundary> {
        loop {
            match self.byte()? {
                0 => return Ok(()),
                b'\t' | b'\n' | b'\r' | 32..=126 | 128.. => {}
                _ => return Err(MessageBoundary::No),
            }
        }
    }

    fn cell(&mut self) -> Result<(), MessageBoundary> {
        let len = self.number(4)?;
        if len == u32::MAX {
            return Ok(());
        }
        self.pos += u64::from(len);
        if self.pos > self.total {
            return Err(MessageBoundary::No);
        }
        Ok(())
    }

    fn pass_all(&mut self) -> Result<(), MessageBoundary> {
        self.pos = self.total;
        let proves = self.total + HEADER <= BOUNDARY_WINDOW as u64;
        if proves { Ok(()) } else { Err(MessageBoundary::No) }
    }

    fn leaves(&self, n: u64) -> Result<(), MessageBoundary> {
        if self.total - self.pos == n { Ok(()) } else { Err(MessageBoundary::No) }
    }

    fn end(&self) -> Result<(), MessageBoundary> {
        self.leaves(0)
    }

    fn authentication(&mut self) -> Result<(), MessageBoundary> {
        match (self.number(4)?, self.total) {
            (0, 9) => self.followed(wire::response_header),
            (2 | 3 | 6 | 7 | 9, 9) | (5, 13) | (8 | 10..=12, 10..) => Ok(()),
            _ => Err(MessageBoundary::No),
        }
    }

    /// Checks that the message ends here, and the next header if it lies within the window.
    fn followed_in_sight(&self, header: PgHeaderReader) -> Result<(), MessageBoundary> {
        self.end()?;
        if self.pos + HEADER > BOUNDARY_WINDOW as u64 {
            return Ok(());
        }
        self.followed(header)
    }

    /// Checks that the message ends here and that another header follows.
    fn followed(&self, header: PgHeaderReader) -> Result<(), MessageBoundary> {
        self.end()?;
        let next = usize::try_from(self.pos).ok().and_then(|at| self.bytes.get(at..));
        match header(next.unwrap_or_default()) {
            Err(_) => Err(MessageBoundary::No),
            Ok(None) => Err(MessageBoundary::More),
            Ok(Some(_)) => Ok(()),
        }
    }
}
