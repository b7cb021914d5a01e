//! Reads pcap and pcapng files, plain or compressed, from front to back in bounded memory.
//!
//! Reading stops at the end or at the first unreadable record. Frames before that are delivered, and [`FileEnd::cut`]
//! describes the rest. Errors remain for inputs that yield nothing and for failing disks.

mod bytes;
mod clock;
mod input;
mod legacy;
mod pcapng;
mod secrets;
mod window;

pub use secrets::DecryptionSecrets;

use crate::{FrameSource, KernelStats, NextFrame, SourceError};
use input::CaptureInput;
use legacy::LegacyReader;
use overhead_model::frame::{Frame, LinkType};
use overhead_model::record::Measured;
use pcapng::PcapngReader;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::ops::Range;
use std::path::Path;
use window::InputWindow;

/// A capture file, or standard input.
pub struct FileSource {
    name: String,
    window: InputWindow,
    format: FormatReader,
    delivered: usize,
    /// Read but not delivered yet.
    next: Option<FrameRecord>,
    end: Option<FileEnd>,
}

/// Whether the file was read to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileEnd {
    /// `None` if the file was read to its end.
    pub cut: Option<CutTail>,
}

/// The unreadable rest of a file, from some record on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutTail {
    /// Start of the first unreadable record, in bytes of the decompressed data.
    pub offset: u64,
    /// Bytes from there to the end; `None` if the rest was not read.
    pub bytes: Option<u64>,
    /// The first problem found.
    pub reason: CutReason,
}

/// Why a [`CutTail`] cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CutReason {
    /// The input ends inside a record.
    Incomplete {
        /// Bytes the record needs, as far as known.
        wanted: u64,
    },
    /// The record contradicts itself, the format or the limits.
    Damaged(String),
    /// The compressed stream around the capture is cut or damaged.
    Compression(String),
}

impl fmt::Display for CutTail {
    /// Writes a phrase to follow the file's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.offset;
        match (&self.reason, self.bytes) {
            (CutReason::Incomplete { wanted }, Some(bytes)) => {
                write!(f, "is cut: of the record at byte {at}, {bytes} of {wanted} bytes are there")
            }
            (CutReason::Incomplete { wanted }, None) => {
                write!(f, "is cut: the record at byte {at} needs {wanted} bytes")
            }
            (CutReason::Damaged(why), _) => {
                write!(f, "is damaged at byte {at} ({why}): nothing from there on was read")
            }
            (CutReason::Compression(why), _) => write!(f, "is cut at byte {at} of its decompressed data ({why})"),
        }
    }
}

/// An interface described in a capture file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInterface {
    /// The option `if_name`; pcap files have none.
    pub name: Option<String>,
    /// Link type of its frames.
    pub link: LinkType,
    /// Longest captured frame in bytes; 0 if unknown.
    pub snaplen: u32,
}

/// Properties that a file has stated so far.
#[derive(Default)]
struct FileFacts {
    interfaces: Vec<FileInterface>,
    /// Latest drop count, by interface.
    drops: BTreeMap<usize, u64>,
    secrets: DecryptionSecrets,
    /// Comment of the first section.
    comment: Option<String>,
}

enum FormatReader {
    Legacy(LegacyReader),
    Pcapng(PcapngReader),
}

/// Result of a format reader. Positions are relative to the start of the window.
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
    /// Length of the whole record, consumed after delivery.
    record: usize,
}

impl FrameRecord {
    /// Returns the frame; `bytes` start with its record. An original length below the captured one is raised to it.
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
    /// [`SourceError`] if it does not exist, cannot be read, or is not a capture.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SourceError> {
        let path = path.as_ref();
        if path.as_os_str() == "-" {
            Self::from_input("standard input", CaptureInput::stdin()?)
        } else {
            Self::from_input(&path.to_string_lossy(), CaptureInput::open(path)?)
        }
    }

    /// Reads a capture from any reader, which errors call `name`.
    pub fn from_reader(name: &str, reader: impl Read + Send + 'static) -> Result<Self, SourceError> {
        Self::from_input(name, CaptureInput::new(name, Box::new(reader))?)
    }

    fn from_input(name: &str, input: CaptureInput) -> Result<Self, SourceError> {
        let mut window = InputWindow::new(input);
        let format = FormatReader::open(name, &mut window)?;
        let name = name.to_owned();
        Ok(Self { name, window, format, delivered: 0, next: None, end: None })
    }

    /// Returns the name in errors: the path, or `standard input`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the interfaces described so far, indexed by [`Frame::interface`]; pcap files have exactly one.
    pub fn interfaces(&self) -> &[FileInterface] {
        &self.format.facts().interfaces
    }

    /// Returns the packets dropped while the file was captured, by the pcapng interface statistics read so far.
    pub fn recorded_drops(&self) -> Option<u64> {
        let drops = &self.format.facts().drops;
        (!drops.is_empty()).then(|| drops.values().fold(0, |sum, drops| u64::saturating_add(sum, *drops)))
    }

    /// Returns the comment of the first section; pcap files have none.
    pub fn comment(&self) -> Option<&str> {
        self.format.facts().comment.as_deref()
    }

    /// Returns a handle to the file's TLS secrets; pcap files carry none.
    pub fn secrets(&self) -> DecryptionSecrets {
        self.format.facts().secrets.clone()
    }

    /// `None` until [`NextFrame::End`] was returned.
    pub fn end(&self) -> Option<&FileEnd> {
        self.end.as_ref()
    }

    /// Reads the next frame without delivering it. Returns false if there is none.
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

    /// Delivers buffered frames until `take` breaks. Anything else (a frame from [`FileSource::fill`], the end, an
    /// incomplete frame, another block) is left to [`FrameSource::next_frame`].
    #[inline]
    pub fn buffered_frames(&mut self, mut take: impl FnMut(&Frame<'_>) -> ControlFlow<()>) -> ControlFlow<()> {
        if self.next.is_some() {
            return ControlFlow::Continue(());
        }
        self.window.consume(std::mem::take(&mut self.delivered));
        let bytes = self.window.bytes();
        let (mut rest, mut flow) = (bytes, ControlFlow::Continue(()));
        while flow.is_continue()
            && let Some((frame, behind)) = self.format.buffered(rest)
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

impl FormatReader {
    /// Detects the format by its magic number and reads the header.
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
        let Some(magic) = legacy::MAGICS.iter().find(|(magic, ..)| window.bytes().starts_with(magic)) else {
            return Err(input::foreign(name, window.bytes()));
        };
        if !window.need(legacy::HEADER_BYTES).map_err(read)? {
            return Err(short_header(name, window));
        }
        match LegacyReader::open(window, magic) {
            Ok(reader) => Ok(Self::Legacy(reader)),
            Err(reason) => Err(SourceError::HeaderDamaged { input: name.to_owned(), reason }),
        }
    }

    fn facts(&self) -> &FileFacts {
        match self {
            Self::Legacy(reader) => &reader.facts,
            Self::Pcapng(reader) => &reader.facts,
        }
    }

    /// Returns the first frame in `bytes` and the rest after its record; `None` if that is incomplete.
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

fn short_header(name: &str, window: &InputWindow) -> SourceError {
    let (input, bytes) = (name.to_owned(), window.bytes().len() as u64);
    match window.failure.as_deref() {
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
