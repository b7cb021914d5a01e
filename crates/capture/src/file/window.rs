//! A stretch of the input in one piece, moving forward.

use super::input::Input;
use super::{Compression, CutReason, CutTail, Step};
use crate::limits::WINDOW_BYTES;
use std::io::{self, Read};
use std::sync::Arc;

/// The bytes from the current record on, as far as they were read.
pub(super) struct Window {
    input: Input,
    /// Where somebody else has it, too, it is left as it is: what comes next goes into another one.
    buffer: Arc<Vec<u8>>,
    /// Those that were left, to be used again once nobody has them.
    left: Vec<Arc<Vec<u8>>>,
    start: usize,
    end: usize,
    /// Position of `start` in the input.
    offset: u64,
    ended: bool,
    /// Why the decompressor gave up, if it did.
    failure: Option<String>,
}

impl Window {
    pub(super) fn new(input: Input) -> Self {
        let (buffer, left) = (Arc::new(vec![0; WINDOW_BYTES]), Vec::new());
        Self { input, buffer, left, start: 0, end: 0, offset: 0, ended: false, failure: None }
    }

    /// Returns the bytes that were read and not passed.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Returns the memory that these bytes lie in, which does not change for as long as somebody has it.
    pub(super) fn buffer(&self) -> &Arc<Vec<u8>> {
        &self.buffer
    }

    /// Position in the input of the first byte that it holds.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Why decompression failed, if it did.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Reads until the window holds `bytes`; false when the input ends before.
    pub(super) fn need(&mut self, bytes: usize) -> io::Result<bool> {
        if self.end - self.start >= bytes { Ok(true) } else { self.fill(bytes) }
    }

    #[cold]
    fn fill(&mut self, bytes: usize) -> io::Result<bool> {
        while self.end - self.start < bytes && !self.ended {
            if self.start == self.end || self.end == self.buffer.len() || Arc::get_mut(&mut self.buffer).is_none() {
                self.move_to_start();
            }
            if self.end == self.buffer.len()
                && let Some(buffer) = Arc::get_mut(&mut self.buffer)
            {
                // Full of data, and not enough: so the input really has that much.
                buffer.resize(buffer.len().saturating_mul(2), 0);
            }
            self.read_some()?;
        }
        Ok(self.end - self.start >= bytes)
    }

    /// Has what it holds at the start of a buffer that is its own.
    fn move_to_start(&mut self) {
        let held = self.start..self.end;
        if let Some(buffer) = Arc::get_mut(&mut self.buffer) {
            buffer.copy_within(held, 0);
        } else {
            let free = self.left.iter_mut().position(|buffer| Arc::get_mut(buffer).is_some());
            let mut next = free.map_or_else(Arc::default, |at| self.left.swap_remove(at));
            if let Some(buffer) = Arc::get_mut(&mut next) {
                buffer.resize(buffer.len().max(held.len()).max(WINDOW_BYTES), 0);
                let bytes = self.buffer.get(held).unwrap_or_default();
                if let Some(room) = buffer.get_mut(..bytes.len()) {
                    room.copy_from_slice(bytes);
                }
            }
            let before = std::mem::replace(&mut self.buffer, next);
            // One that was longer for a single record is not kept.
            if before.len() == WINDOW_BYTES {
                self.left.push(before);
            }
        }
        self.end -= self.start;
        self.start = 0;
    }

    fn read_some(&mut self) -> io::Result<()> {
        let free = Arc::get_mut(&mut self.buffer).and_then(|buffer| buffer.get_mut(self.end..)).unwrap_or_default();
        match self.input.reader.read(free) {
            Ok(0) => self.ended = true,
            Ok(bytes) => self.end += bytes.min(self.buffer.len() - self.end),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => self.fail(error)?,
        }
        Ok(())
    }

    /// A decompressor's own complaint ends the input; an error of the system is passed on.
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

    /// Moves past `bytes` that it holds.
    #[inline]
    pub(super) fn consume(&mut self, bytes: usize) {
        let bytes = bytes.min(self.end - self.start);
        self.start += bytes;
        self.offset += bytes as u64;
    }

    /// Moves past `bytes`, read or not; false when the input ends before.
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

    /// The end of the input, reached where a record of at least `wanted` bytes was to start.
    pub(super) fn end(&self, wanted: u64) -> Step {
        let bytes = self.bytes().len() as u64;
        let reason = match &self.failure {
            Some(why) => CutReason::Compression(why.clone()),
            None if bytes == 0 => return Step::End(None),
            None => CutReason::Incomplete { wanted },
        };
        Step::End(Some(CutTail { offset: self.offset, bytes: Some(bytes), reason }))
    }

    /// The end of what can be read, because the current record makes no sense.
    pub(super) fn damaged(&self, why: impl Into<String>) -> Step {
        Step::End(Some(CutTail { offset: self.offset, bytes: None, reason: CutReason::Damaged(why.into()) }))
    }
}

fn complaint(compression: Compression, error: &io::Error) -> String {
    let name = compression.name();
    if error.kind() == io::ErrorKind::UnexpectedEof {
        format!("the {name} stream breaks off")
    } else {
        format!("the {name} stream is damaged: {error}")
    }
}
