//! Capture files: pcap and pcapng, plain or compressed, read front to back in bounded memory.
//!
//! A file is read until its end or until the first record that cannot be read. Frames before that point are delivered;
//! what is wrong with the rest is a value ([`FileEnd::cut`]), for the frames are worth having all the same. Errors are
//! left for inputs that yield nothing and for failing disks.

mod bytes;
mod clock;
mod input;
mod legacy;
mod pcapng;
mod secrets;
mod window;

pub use input::FileCompression;
pub use secrets::DecryptionSecrets;

use crate::{FrameSource, KernelStats, NextFrame, SourceError};
use input::CaptureInput;
use legacy::LegacyReader;
use overhead_model::frame::{Frame, LinkType};
use overhead_model::record::Measured;
use pcapng::PcapngReader;
use std::fmt;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::ops::Range;
use std::path::Path;
use window::InputWindow;

/// A capture file, or standard input.
pub struct FileSource {
    name: String,
    compression: Option<FileCompression>,
    window: InputWindow,
    format: FormatReader,
    delivered: usize,
    /// The frame that was read last, as long as it is not delivered.
    next: Option<FrameRecord>,
    end: Option<FileEnd>,
}

/// Container format of a capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureFormat {
    /// The tcpdump format, micro- or nanosecond, either byte order.
    Pcap,
    /// The block format of Wireshark.
    Pcapng,
}

/// How a file ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileEnd {
    /// What is missing at the end; `None` when the file was read to its end.
    pub cut: Option<CutTail>,
}

/// The part of a file, from some record to its end, that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutTail {
    /// Where the first unreadable record starts, in bytes from the start (of the decompressed data).
    pub offset: u64,
    /// Bytes from there to the end of the input; `None` when the rest was not looked at.
    pub bytes: Option<u64>,
    /// Why the record cannot be read.
    pub reason: CutReason,
}

/// Why a [`CutTail`] cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CutReason {
    /// The input ends inside a record.
    Incomplete {
        /// Bytes the record needs, as far as that can be told from what is there.
        wanted: u64,
    },
    /// The record contradicts itself, the format or the limits.
    Damaged(String),
    /// The compressed stream around the capture is cut or damaged.
    Compression(String),
}

impl fmt::Display for CutTail {
    /// A phrase to follow the name of the file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.reason, self.bytes) {
            (CutReason::Incomplete { wanted }, Some(bytes)) => {
                write!(f, "is cut: of the record at byte {}, {bytes} of {wanted} bytes are there", self.offset)
            }
            (CutReason::Incomplete { wanted }, None) => {
                write!(f, "is cut: the record at byte {} needs {wanted} bytes", self.offset)
            }
            (CutReason::Damaged(why), _) => {
                write!(f, "is damaged at byte {} ({why}): nothing from there on was read", self.offset)
            }
            (CutReason::Compression(why), _) => {
                write!(f, "is cut at byte {} of its decompressed data ({why})", self.offset)
            }
        }
    }
}

/// An interface that a capture file describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInterface {
    /// Its name, where the file has one.
    pub name: Option<String>,
    /// Its link type.
    pub link: LinkType,
    /// Frames were cut to this many bytes; 0 where the file does not say.
    pub snaplen: u32,
}

enum FormatReader {
    Legacy(LegacyReader),
    Pcapng(PcapngReader),
}

/// What a format reader found next. Positions are relative to the start of the window.
enum ReadOutcome {
    Frame(FrameRecord),
    End(Option<CutTail>),
}

/// A frame in the window.
struct FrameRecord {
    time_ns: u64,
    link: LinkType,
    interface: u32,
    original_len: u32,
    data: Range<usize>,
    /// Length of the whole record, to be consumed once the frame was delivered.
    record: usize,
}

impl FrameRecord {
    /// Returns the frame, of the bytes from the record on. One that was recorded as longer than it was is as long as what
    /// was captured of it.
    #[inline]
    fn frame(self, bytes: &[u8]) -> Frame<'_> {
        let Self { time_ns, link, interface, original_len, data, .. } = self;
        let bytes = bytes.get(data).unwrap_or_default();
        Frame { time_ns, link, original_len: original_len.max(bytes.len() as u32), interface, bytes }
    }
}

impl FileSource {
    /// Opens a file, or standard input for `-`, and reads its header.
    ///
    /// # Errors
    ///
    /// [`SourceError`] when there is no such file, it cannot be read, or is no capture.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SourceError> {
        let path = path.as_ref();
        if path.as_os_str() == "-" {
            Self::from_input("standard input", CaptureInput::stdin()?)
        } else {
            Self::from_input(&path.to_string_lossy(), CaptureInput::open(path)?)
        }
    }

    /// Reads a capture from any reader; `name` is what errors call it.
    ///
    /// # Errors
    ///
    /// As [`FileSource::open`].
    pub fn from_reader(name: &str, reader: impl Read + Send + 'static) -> Result<Self, SourceError> {
        Self::from_input(name, CaptureInput::new(name, Box::new(reader))?)
    }

    fn from_input(name: &str, input: CaptureInput) -> Result<Self, SourceError> {
        let compression = input.compression;
        let mut window = InputWindow::new(input);
        let format = FormatReader::open(name, &mut window)?;
        let name = name.to_owned();
        Ok(Self { name, compression, window, format, delivered: 0, next: None, end: None })
    }

    /// Returns what errors call this input: its path, or `standard input`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its container format.
    pub fn format(&self) -> CaptureFormat {
        match self.format {
            FormatReader::Legacy(_) => CaptureFormat::Pcap,
            FormatReader::Pcapng(_) => CaptureFormat::Pcapng,
        }
    }

    /// Its compression, if any.
    pub fn compression(&self) -> Option<FileCompression> {
        self.compression
    }

    /// Returns the interfaces described so far, in the order of [`Frame::interface`]; pcap files have exactly one.
    pub fn interfaces(&self) -> &[FileInterface] {
        match &self.format {
            FormatReader::Legacy(reader) => reader.interfaces(),
            FormatReader::Pcapng(reader) => reader.interfaces(),
        }
    }

    /// Packets dropped while the file was captured, where it says so (pcapng interface statistics read so far).
    pub fn recorded_drops(&self) -> Option<u64> {
        match &self.format {
            FormatReader::Legacy(_) => None,
            FormatReader::Pcapng(reader) => reader.recorded_drops(),
        }
    }

    /// Returns what the first section of the file says of itself; pcap files say nothing.
    pub fn comment(&self) -> Option<&str> {
        match &self.format {
            FormatReader::Legacy(_) => None,
            FormatReader::Pcapng(reader) => reader.comment(),
        }
    }

    /// Returns where the secrets of TLS come out that the file carries; pcap files carry none.
    pub fn secrets(&self) -> DecryptionSecrets {
        match &self.format {
            FormatReader::Legacy(_) => DecryptionSecrets::default(),
            FormatReader::Pcapng(reader) => reader.secrets(),
        }
    }

    /// How the file ended; `None` until [`NextFrame::End`] was returned.
    pub fn end(&self) -> Option<&FileEnd> {
        self.end.as_ref()
    }

    /// Bytes delivered or skipped so far (of the decompressed data).
    pub fn position_bytes(&self) -> u64 {
        self.window.offset() + self.delivered as u64
    }

    /// Reads on, as far as it takes, to the next frame; false where there is none. What is delivered next is that frame.
    ///
    /// # Errors
    ///
    /// As [`FrameSource::next_frame`].
    pub fn fill(&mut self) -> Result<bool, SourceError> {
        if self.end.is_some() || self.next.is_some() {
            return Ok(self.next.is_some());
        }
        self.window.consume(std::mem::take(&mut self.delivered));
        match self.format.step(&mut self.window) {
            Ok(ReadOutcome::Frame(at)) => self.next = Some(at),
            Ok(ReadOutcome::End(cut)) => self.end = Some(FileEnd { cut }),
            Err(source) => return Err(SourceError::Read { input: self.name.clone(), source }),
        }
        Ok(self.next.is_some())
    }

    /// Delivers the frames that are in the buffer, in order, until `take` breaks off. What is not one of these - the end, a
    /// frame that has to be read first, a block of another kind - is for [`FileSource::fill`].
    #[inline]
    pub fn buffered_frames(&mut self, mut take: impl FnMut(&Frame<'_>) -> ControlFlow<()>) -> ControlFlow<()> {
        self.window.consume(std::mem::take(&mut self.delivered));
        let bytes = self.window.bytes();
        let mut next = self.next.take().map(|at| {
            let behind = bytes.get(at.record..).unwrap_or_default();
            (at.frame(bytes), behind)
        });
        let (mut rest, mut flow) = (bytes, ControlFlow::Continue(()));
        while flow.is_continue()
            && let Some((frame, behind)) = next.take().or_else(|| self.format.buffered(rest))
        {
            rest = behind;
            flow = take(&frame);
        }
        let passed = bytes.len() - rest.len();
        self.window.consume(passed);
        flow
    }
}

impl FrameSource for FileSource {
    fn next_frame(&mut self) -> Result<NextFrame<'_>, SourceError> {
        self.fill()?;
        let Some(at) = self.next.take() else { return Ok(NextFrame::End) };
        self.delivered = at.record;
        Ok(NextFrame::Frame(at.frame(self.window.bytes())))
    }

    fn kernel(&mut self) -> Measured<KernelStats> {
        Measured::unavailable("offline")
    }
}

impl fmt::Debug for FileSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSource")
            .field("name", &self.name)
            .field("format", &self.format())
            .field("compression", &self.compression)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

impl FormatReader {
    /// Tells the format by its magic number and reads the header.
    fn open(name: &str, window: &mut InputWindow) -> Result<Self, SourceError> {
        let read = |source| SourceError::Read { input: name.to_owned(), source };
        if !window.need(input::MAGIC_BYTES).map_err(read)? {
            return Err(short_header(name, window));
        }
        if window.bytes().starts_with(&pcapng::MAGIC) {
            let mut reader = PcapngReader::default();
            let cut = reader.open(window).map_err(read)?;
            return cut.map_or(Ok(Self::Pcapng(reader)), |cut| Err(bad_header(name, window, &cut)));
        }
        if !legacy::is_magic(window.bytes()) {
            return Err(input::foreign(name, window.bytes()));
        }
        if !window.need(legacy::HEADER_BYTES).map_err(read)? {
            return Err(short_header(name, window));
        }
        match LegacyReader::open(window) {
            Ok(reader) => Ok(Self::Legacy(reader)),
            Err(reason) => Err(SourceError::HeaderDamaged { input: name.to_owned(), reason }),
        }
    }

    /// Returns the frame at the beginning of these bytes, and what is behind its record, where they hold all of it.
    #[inline]
    fn buffered<'a>(&mut self, bytes: &'a [u8]) -> Option<(Frame<'a>, &'a [u8])> {
        match self {
            Self::Legacy(reader) => reader.buffered(bytes),
            Self::Pcapng(reader) => reader.buffered(bytes),
        }
    }

    fn step(&mut self, window: &mut InputWindow) -> io::Result<ReadOutcome> {
        match self {
            Self::Legacy(reader) => reader.step(window),
            Self::Pcapng(reader) => reader.step(window),
        }
    }
}

/// Returns the error for an input that ends inside its header.
fn short_header(name: &str, window: &InputWindow) -> SourceError {
    let (input, bytes) = (name.to_owned(), window.bytes().len() as u64);
    match window.failure() {
        Some(reason) => SourceError::HeaderDamaged { input, reason: reason.to_owned() },
        None if input::may_be_header(window.bytes()) => SourceError::HeaderCut { input, bytes },
        None => input::foreign(name, window.bytes()),
    }
}

fn bad_header(name: &str, window: &InputWindow, cut: &CutTail) -> SourceError {
    match &cut.reason {
        CutReason::Incomplete { .. } | CutReason::Compression(_) => short_header(name, window),
        CutReason::Damaged(reason) => SourceError::HeaderDamaged { input: name.to_owned(), reason: reason.clone() },
    }
}
