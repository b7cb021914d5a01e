//! Writes frames as pcapng (draft-ietf-opsawg-pcapng): one section, an interface or two, nanoseconds, little-endian.
//!
//! ```text
//! section header: 0x0a0d0d0a, length, 0x1a2b3c4d, 1, 0, -1, options, length
//! interface:      1, length, link type u16, 0 u16, snaplen u32, options, length
//! packet:         6, length, interface u32, time high u32, time low u32, captured u32, original u32, data, length
//! statistics:     5, length, interface u32, time high u32, time low u32, options, length
//! option:         code u16, length u16, value, padded to four bytes
//! ```

use overhead_model::frame::{Frame, LinkType};
use std::io::{self, BufWriter, Write};

const BUFFER_BYTES: usize = 256 << 10;
/// Keeps texts well below the 16-bit option length.
const MAX_TEXT_BYTES: usize = 4096;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE_DESCRIPTION: u32 = 1;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;
const DECRYPTION_SECRETS: u32 = 10;
/// The type of a TLS key log.
const TLS_KEY_LOG: u32 = 0x544c_534b;

const COMMENT: u16 = 1;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const IF_FILTER: u16 = 11;
const ISB_STARTTIME: u16 = 2;
const ISB_ENDTIME: u16 = 3;
const ISB_IFRECV: u16 = 4;
const ISB_IFDROP: u16 = 5;
const ISB_OSDROP: u16 = 7;
const ISB_USRDELIV: u16 = 8;

/// Why a capture file cannot take a frame.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The folder is missing or not writable.
    #[error("{output} cannot be created ({source}): choose a folder that exists and may be written to")]
    Create {
        /// As the user named it, here and in the other variants.
        output: String,
        source: io::Error,
    },
    /// Also a pipe whose reader is gone: see [`WriteError::is_broken_pipe`].
    #[error("{output} cannot be written ({source}): make room there or choose another place")]
    Write { output: String, source: io::Error },
    /// The file declares interfaces at its start, for one or two link types.
    #[error("{output} holds {expected} frames and cannot take one of {link}: write each link type to its own file")]
    LinkType {
        output: String,
        /// The file's link type.
        expected: LinkType,
        /// The frame's link type.
        link: LinkType,
    },
    /// Longer than the `snaplen` that the file declares, or than readers accept.
    #[error("{output} cannot take a frame of {bytes} bytes: capture with a snap length, as in `-s 262144`")]
    TooLong {
        output: String,
        /// Captured length of the frame.
        bytes: usize,
    },
}

impl WriteError {
    /// Returns whether the reader of a pipe went away, which is not an error for a command-line tool.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Write { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// The header of a capture file. Empty strings are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterOptions {
    /// Link type of all frames except those of `beside`.
    pub link: LinkType,
    /// Link type and name of a second interface, if any.
    pub beside: Option<(LinkType, String)>,
    /// Free text (`opt_comment`).
    pub comment: String,
    /// As in `eth0`.
    pub interface: String,
    /// Longest captured frame, in bytes; 0 for no limit.
    pub snaplen: u32,
    /// The expression, as in `man pcap-filter`.
    pub filter: String,
    /// The program and its version.
    pub application: String,
    /// Bytes reserved before the frames for a TLS key log, a multiple of 4; 0 for none. They hold a comment.
    pub key_log_bytes: u32,
}

impl WriterOptions {
    /// Returns a header with only a link type and this program's name and version.
    pub fn new(link: LinkType) -> Self {
        Self {
            link,
            beside: None,
            comment: String::new(),
            interface: String::new(),
            snaplen: 0,
            filter: String::new(),
            application: concat!("overhead ", env!("CARGO_PKG_VERSION")).to_owned(),
            key_log_bytes: 0,
        }
    }
}

/// Writes frames as a pcapng file with one section.
pub struct PcapngWriter<W: Write> {
    output: String,
    writer: BufWriter<W>,
    /// By interface.
    links: Vec<LinkType>,
    frames: u64,
    bytes: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    /// Offset of the reserved key log; 0 for none.
    key_log: u64,
}

impl<W: Write> PcapngWriter<W> {
    /// Writes the header; `output` is the file's name in errors.
    pub fn new(output: &str, writer: W, options: &WriterOptions) -> Result<Self, WriteError> {
        let writer = BufWriter::with_capacity(BUFFER_BYTES, writer);
        let output = output.to_owned();
        let links = std::iter::once(options.link).chain(options.beside.as_ref().map(|(link, _)| *link)).collect();
        let mut this = Self { output, writer, links, frames: 0, bytes: 0, first_ns: None, last_ns: 0, key_log: 0 };
        this.put(&section_header(options))?;
        this.put(&interface_description(options))?;
        if let Some((link, name)) = &options.beside {
            let second = WriterOptions { interface: name.clone(), ..WriterOptions::new(*link) };
            this.put(&interface_description(&second))?;
        }
        if options.key_log_bytes > 0 {
            let (bytes, length) = (options.key_log_bytes, options.key_log_bytes + 20);
            this.put([DECRYPTION_SECRETS, length, TLS_KEY_LOG, bytes].map(u32::to_le_bytes).as_flattened())?;
            this.key_log = this.bytes;
            this.put(&padded_key_log("", bytes as usize))?;
            this.put(&length.to_le_bytes())?;
        }
        Ok(this)
    }

    /// Adds an interface. The first one, number 0, is already there.
    pub fn add_interface(&mut self, options: &WriterOptions) -> Result<(), WriteError> {
        self.links.push(options.link);
        self.put(&interface_description(options))
    }

    /// Writes a frame, on its own interface if the link type matches, else on the first interface of its link type.
    ///
    /// # Errors
    ///
    /// [`WriteError::LinkType`] if no interface matches, [`WriteError::TooLong`], [`WriteError::Write`].
    pub fn write(&mut self, frame: &Frame<'_>) -> Result<(), WriteError> {
        self.write_with(frame, &[])
    }

    /// Writes a frame with comments (`opt_comment`), of which the first 4,096 bytes each are kept.
    pub fn write_with(&mut self, frame: &Frame<'_>, comments: &[String]) -> Result<(), WriteError> {
        let named = frame.interface as usize;
        let is_named = self.links.get(named) == Some(&frame.link);
        let first = || self.links.iter().position(|link| *link == frame.link);
        let Some(interface) = is_named.then_some(named).or_else(first) else {
            let expected = self.links.first().copied().unwrap_or(frame.link);
            return Err(WriteError::LinkType { output: self.output.clone(), expected, link: frame.link });
        };
        let bytes = frame.bytes.len();
        let captured = u32::try_from(bytes).ok().filter(|bytes| *bytes <= crate::limits::MAX_FRAME_BYTES);
        let captured = captured.ok_or_else(|| WriteError::TooLong { output: self.output.clone(), bytes })?;
        let padding = captured.wrapping_neg() % 4;
        let mut options = Vec::new();
        for comment in comments {
            text(&mut options, COMMENT, comment);
        }
        if !options.is_empty() {
            options.extend([0; 4]);
        }
        let length = 32 + captured + padding + options.len() as u32;
        let fields = [
            ENHANCED_PACKET,
            length,
            interface as u32,
            (frame.time_ns >> 32) as u32,
            frame.time_ns as u32,
            captured,
            frame.original_len.max(captured),
        ];
        let mut head = [0; 28];
        for (place, field) in head.chunks_exact_mut(4).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        self.put(&head)?;
        self.put(frame.bytes)?;
        self.put([0; 3].get(..padding as usize).unwrap_or_default())?;
        self.put(&options)?;
        self.put(&length.to_le_bytes())?;
        self.frames += 1;
        self.first_ns.get_or_insert(frame.time_ns);
        self.last_ns = self.last_ns.max(frame.time_ns);
        Ok(())
    }

    /// Returns the number of frames written so far.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Returns the bytes of the file so far, including buffered ones.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the offset of the reserved key log.
    pub fn key_log(&self) -> u64 {
        self.key_log
    }

    /// Flushes, so that a reader of a pipe sees everything written.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        self.writer.flush().map_err(|source| WriteError::Write { output: self.output.clone(), source })
    }

    /// Ends without writing anything more, not even what is buffered, because another file has taken its place.
    pub fn abandon(self) {
        drop(self.writer.into_parts());
    }

    /// Ends the file with the interface statistics, if known, and returns the writer.
    pub fn finish(mut self, kernel: Option<&crate::KernelStats>) -> Result<W, WriteError> {
        let statistics = self.statistics(kernel);
        self.put(&statistics)?;
        self.flush()?;
        let output = self.output;
        self.writer.into_inner().map_err(|error| WriteError::Write { output, source: error.into_error() })
    }

    fn statistics(&self, kernel: Option<&crate::KernelStats>) -> Vec<u8> {
        let mut body = 0_u32.to_le_bytes().to_vec();
        body.extend(time(self.last_ns));
        if let Some(first_ns) = self.first_ns {
            option(&mut body, ISB_STARTTIME, &time(first_ns));
            option(&mut body, ISB_ENDTIME, &time(self.last_ns));
        }
        if let Some(kernel) = kernel {
            option(&mut body, ISB_IFRECV, &kernel.received.to_le_bytes());
            option(&mut body, ISB_IFDROP, &kernel.interface_dropped.to_le_bytes());
            option(&mut body, ISB_OSDROP, &kernel.dropped.to_le_bytes());
        }
        option(&mut body, ISB_USRDELIV, &self.frames.to_le_bytes());
        block(INTERFACE_STATISTICS, body)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.bytes += bytes.len() as u64;
        self.writer.write_all(bytes).map_err(|source| WriteError::Write { output: self.output.clone(), source })
    }
}

/// Returns a key log of this length: the text, as far as whole lines fit, and a comment.
pub fn padded_key_log(text: &str, bytes: usize) -> Vec<u8> {
    let room = text.as_bytes().get(..bytes.saturating_sub(2)).unwrap_or(text.as_bytes());
    let whole = room.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut log = [room.get(..whole).unwrap_or_default(), b"#"].concat();
    log.resize(bytes.saturating_sub(1), b' ');
    log.push(b'\n');
    log
}

fn section_header(options: &WriterOptions) -> Vec<u8> {
    let mut body = BYTE_ORDER.to_le_bytes().to_vec();
    body.extend(1_u16.to_le_bytes());
    body.extend(0_u16.to_le_bytes());
    // Length of the section: not known in advance.
    body.extend((-1_i64).to_le_bytes());
    text(&mut body, COMMENT, &options.comment);
    text(&mut body, SHB_USERAPPL, &options.application);
    block(SECTION_HEADER, body)
}

fn interface_description(options: &WriterOptions) -> Vec<u8> {
    let mut body = options.link.0.to_le_bytes().to_vec();
    body.extend([0, 0]);
    body.extend(options.snaplen.to_le_bytes());
    text(&mut body, IF_NAME, &options.interface);
    option(&mut body, IF_TSRESOL, &[9]);
    if !options.filter.is_empty() {
        // The first byte means that a filter string follows, not bytecode.
        option(&mut body, IF_FILTER, &[&[0], clipped(&options.filter)].concat());
    }
    block(INTERFACE_DESCRIPTION, body)
}

/// Returns a time stamp as two words, high one first, each in the section's byte order.
fn time(ns: u64) -> [u8; 8] {
    ns.rotate_left(32).to_le_bytes()
}

fn clipped(value: &str) -> &[u8] {
    value.get(..value.floor_char_boundary(MAX_TEXT_BYTES)).unwrap_or_default().as_bytes()
}

fn text(body: &mut Vec<u8>, code: u16, value: &str) {
    if !value.is_empty() {
        option(body, code, clipped(value));
    }
}

/// `value` must not exceed [`MAX_TEXT_BYTES`] + 1.
fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// Adds the end-of-options mark, and type and lengths around the body.
fn block(kind: u32, mut body: Vec<u8>) -> Vec<u8> {
    body.extend([0; 4]);
    let length = (body.len() as u32 + 12).to_le_bytes();
    [&kind.to_le_bytes()[..], &length, &body, &length].concat()
}
