//! A read buffer that moves through the input.

use super::input::{CaptureInput, FileCompression};
use super::{CutReason, CutTail, ReadOutcome};
use crate::limits::WINDOW_BYTES;
use std::io::{self, Read};

/// Holds the bytes from the current record on, as far as they were read.
pub(super) struct InputWindow {
    input: CaptureInput,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Position of `start` in the input.
    pub(super) offset: u64,
    ended: bool,
    /// Why the decompressor failed, if it did.
    pub(super) failure: Option<String>,
}

impl InputWindow {
    pub(super) fn new(input: CaptureInput) -> Self {
        Self { input, buffer: vec![0; WINDOW_BYTES], start: 0, end: 0, offset: 0, ended: false, failure: None }
    }

    /// Returns the bytes that were read but not consumed.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Reads until the window holds `bytes`. Returns false if the input ends before.
    pub(super) fn need(&mut self, bytes: usize) -> io::Result<bool> {
        if self.end - self.start >= bytes { Ok(true) } else { self.fill(bytes) }
    }

    #[cold]
    fn fill(&mut self, bytes: usize) -> io::Result<bool> {
        while self.end - self.start < bytes && !self.ended {
            if self.start == self.end || self.end == self.buffer.len() {
                self.buffer.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            }
            if self.end == self.buffer.len() {
                // The buffer is full and not enough, so the input really is that long.
                self.buffer.resize(self.buffer.len().saturating_mul(2), 0);
            }
            self.read_some()?;
        }
        Ok(self.end - self.start >= bytes)
    }

    fn read_some(&mut self) -> io::Result<()> {
        let free = self.buffer.get_mut(self.end..).unwrap_or_default();
        match self.input.reader.read(free) {
            Ok(0) => self.ended = true,
            Ok(bytes) => self.end += bytes.min(self.buffer.len() - self.end),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => self.fail(error)?,
        }
        Ok(())
    }

    /// Ends the input at a decompressor's error; passes on a system error.
    fn fail(&mut self, error: io::Error) -> io::Result<()> {
        match self.input.compression {
            Some(compression) if error.raw_os_error().is_none() => {
                self.ended = true;
                self.failure = Some(complaint(compression, &error));
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Moves past `bytes` in the window.
    #[inline]
    pub(super) fn consume(&mut self, bytes: usize) {
        let bytes = bytes.min(self.end - self.start);
        self.start += bytes;
        self.offset += bytes as u64;
    }

    /// Moves past `bytes`, read or not. Returns false if the input ends before.
    pub(super) fn skip(&mut self, mut bytes: u64) -> io::Result<bool> {
        while bytes > 0 {
            if !self.need(1)? {
                return Ok(false);
            }
            let step = bytes.min((self.end - self.start) as u64);
            self.consume(step as usize);
            bytes -= step;
        }
        Ok(true)
    }

    /// Returns the end of the input, reached before a record of at least `wanted` bytes.
    pub(super) fn end(&self, wanted: u64) -> ReadOutcome {
        let bytes = self.bytes().len() as u64;
        let reason = match &self.failure {
            Some(why) => CutReason::Compression(why.clone()),
            None if bytes == 0 => return ReadOutcome::End(None),
            None => CutReason::Incomplete { wanted },
        };
        ReadOutcome::End(Some(CutTail { offset: self.offset, bytes: Some(bytes), reason }))
    }

    /// Returns the end at the current record, which is invalid.
    pub(super) fn damaged(&self, why: impl Into<String>) -> ReadOutcome {
        ReadOutcome::End(Some(CutTail { offset: self.offset, bytes: None, reason: CutReason::Damaged(why.into()) }))
    }
}

fn complaint(compression: FileCompression, error: &io::Error) -> String {
    let name = compression.name();
    if error.kind() == io::ErrorKind::UnexpectedEof {
        format!("the {name} stream breaks off")
    } else {
        format!("the {name} stream is damaged: {error}")
    }
}
