//! Writes copies of captures.

use anyhow::{Context, Result};
use overhead_capture::{PcapngWriter, WriterOptions};
use overhead_files::FileOwner;
use overhead_model::{Frame, LinkType};
use std::io::Write;
use std::path::Path;

/// A copy as pcapng, readable by others, with one interface for each interface of the original frames. It is created with its first
/// frame.
pub struct CopyWriter<'a> {
    out: &'a Path,
    interfaces: Vec<(u32, LinkType)>,
    writer: Option<PcapngWriter<Box<dyn Write + Send>>>,
}

impl<'a> CopyWriter<'a> {
    /// Returns a copy that does not exist yet.
    pub fn new(out: &'a Path) -> Self {
        Self { out, interfaces: Vec::new(), writer: None }
    }

    /// Writes a frame with these comments.
    pub fn write(&mut self, frame: &Frame<'_>, comments: &[String]) -> Result<()> {
        let options = WriterOptions::new(frame.link);
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => self.writer.insert(created(self.out, &options)?),
        };
        let from = (frame.interface, frame.link);
        let known = self.interfaces.iter().position(|known| *known == from);
        if known.is_none() {
            // The file starts with its first interface.
            if !self.interfaces.is_empty() {
                writer.add_interface(&options)?;
            }
            self.interfaces.push(from);
        }
        let interface = known.unwrap_or(self.interfaces.len() - 1);
        Ok(writer.write_with(&Frame { interface: interface as u32, ..*frame }, comments)?)
    }

    /// Ends the file, and returns the number of its frames.
    pub fn finish(self) -> Result<u64> {
        let mut writer = match self.writer {
            Some(writer) => writer,
            None => created(self.out, &WriterOptions::new(LinkType::ETHERNET))?,
        };
        writer.flush()?;
        let written = writer.frames();
        writer.finish(None)?;
        Ok(written)
    }
}

/// Returns why a copy cannot be written.
pub fn unwritable(out: &Path) -> String {
    format!("{}: the copy cannot be written there: make room or choose another place", out.display())
}

fn created(out: &Path, options: &WriterOptions) -> Result<PcapngWriter<Box<dyn Write + Send>>> {
    let (name, file) =
        overhead_files::open_named_or_stdout(out, 0o666, FileOwner::sudo_caller()).with_context(|| unwritable(out))?;
    Ok(PcapngWriter::new(&name, file, options)?)
}
