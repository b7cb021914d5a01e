//! A file that is written sequentially and allows replacing earlier bytes.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// Bytes kept in memory: most replacements are close to the end.
const TAIL: usize = 8 << 20;

#[derive(Debug)]
pub struct Spool {
    file: File,
    /// Bytes already in the file.
    written: u64,
    /// Bytes after these.
    tail: Vec<u8>,
}

impl Spool {
    /// Takes a file that is empty and readable.
    pub fn new(file: File) -> Self {
        Self { file, written: 0, tail: Vec::new() }
    }

    pub fn len(&self) -> u64 {
        self.written + self.tail.len() as u64
    }

    pub fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.tail.extend_from_slice(bytes);
        if self.tail.len() > 2 * TAIL {
            self.write_out(self.tail.len() - TAIL)?;
        }
        Ok(())
    }

    fn write_out(&mut self, len: usize) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.written))?;
        self.file.write_all(self.tail.get(..len).unwrap_or_default())?;
        self.tail.drain(..len);
        self.written += len as u64;
        Ok(())
    }

    /// Replaces existing bytes at an offset.
    pub fn replace(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let before = usize::try_from(self.written.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes.len());
        let (in_file, in_tail) = bytes.split_at(before);
        if !in_file.is_empty() {
            self.file.seek(SeekFrom::Start(at))?;
            self.file.write_all(in_file)?;
        }
        let from = usize::try_from(at.saturating_sub(self.written)).unwrap_or(usize::MAX);
        if let Some(place) = self.tail.get_mut(from..from.saturating_add(in_tail.len())) {
            place.copy_from_slice(in_tail);
        }
        Ok(())
    }

    /// Reads existing bytes at an offset.
    pub fn read(&mut self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        let before = usize::try_from(self.written.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes.len());
        let (in_file, in_tail) = bytes.split_at_mut(before);
        if !in_file.is_empty() {
            self.file.seek(SeekFrom::Start(at))?;
            self.file.read_exact(in_file)?;
        }
        let from = usize::try_from(at.saturating_sub(self.written)).unwrap_or(usize::MAX);
        if let Some(place) = self.tail.get(from..from.saturating_add(in_tail.len())) {
            in_tail.copy_from_slice(place);
        }
        Ok(())
    }

    /// Writes everything and returns the file at its start.
    pub fn finish(mut self) -> io::Result<File> {
        self.write_out(self.tail.len())?;
        self.file.seek(SeekFrom::Start(0))?;
        Ok(self.file)
    }
}
