//! The bytes of a capture file or pipe, decompressed if its first bytes say so.

use crate::SourceError;
use flate2::bufread::MultiGzDecoder;
use lz4_flex::frame::FrameDecoder;
use overhead_model::enum_with;
use std::fs::File;
use std::io::{self, BufReader, Cursor, IsTerminal, Read};
use std::path::Path;

pub(super) const MAGIC_BYTES: usize = 4;
/// The longest known magic is 8 bytes.
const SNIFF_BYTES: usize = 8;
const COMPRESSED_READ_BYTES: usize = 128 << 10;

type BoxedReader = Box<dyn Read + Send>;

enum_with! {
    /// Compression around a capture.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum FileCompression, name: &'static str {
        /// RFC 1952, any number of members.
        Gzip = "gzip",
        /// RFC 8878, any number of frames.
        Zstd = "zstd",
        /// LZ4 frame format, any number of frames.
        Lz4 = "lz4",
    }
}

impl FileCompression {
    fn detect(head: &[u8]) -> Option<Self> {
        match head {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd),
            [0x04, 0x22, 0x4d, 0x18, ..] => Some(Self::Lz4),
            _ => None,
        }
    }
}

pub(super) struct CaptureInput {
    pub(super) reader: BoxedReader,
    pub(super) compression: Option<FileCompression>,
}

impl CaptureInput {
    pub(super) fn open(path: &Path) -> Result<Self, SourceError> {
        let name = path.to_string_lossy();
        let file = File::open(path).map_err(|source| open_error(&name, source))?;
        let directory = file.metadata().map_err(|source| open_error(&name, source))?.is_dir();
        if directory { Err(SourceError::Directory(name.into_owned())) } else { Self::new(&name, Box::new(file)) }
    }

    pub(super) fn stdin() -> Result<Self, SourceError> {
        let stdin = io::stdin();
        if stdin.is_terminal() { Err(SourceError::Terminal) } else { Self::new("standard input", Box::new(stdin)) }
    }

    /// Detects compression by the first bytes.
    pub(super) fn new(name: &str, mut reader: BoxedReader) -> Result<Self, SourceError> {
        let failed = |source| SourceError::Read { input: name.to_owned(), source };
        let mut head = Vec::with_capacity(SNIFF_BYTES);
        reader.by_ref().take(SNIFF_BYTES as u64).read_to_end(&mut head).map_err(failed)?;
        if head.is_empty() {
            return Err(SourceError::Empty(name.to_owned()));
        }
        let compression = FileCompression::detect(&head);
        let whole: BoxedReader = Box::new(Cursor::new(head).chain(reader));
        let reader = decompress(compression, whole).map_err(failed)?;
        Ok(Self { reader, compression })
    }
}

fn decompress(compression: Option<FileCompression>, raw: BoxedReader) -> io::Result<BoxedReader> {
    let Some(compression) = compression else { return Ok(raw) };
    let buffered = BufReader::with_capacity(COMPRESSED_READ_BYTES, raw);
    Ok(match compression {
        FileCompression::Gzip => Box::new(MultiGzDecoder::new(buffered)),
        FileCompression::Zstd => Box::new(zstd::Decoder::with_buffer(buffered)?),
        FileCompression::Lz4 => Box::new(Lz4Frames::new(buffered)),
    })
}

/// Reads all frames of an LZ4 input. The decoder returns 0 at the end of each frame, but also if the input ends
/// between two blocks. The number of bytes consumed tells them apart.
struct Lz4Frames<R: Read> {
    decoder: FrameDecoder<CountingReader<R>>,
    /// There was data since the last end mark.
    in_frame: bool,
}

/// The end mark of a frame.
const LZ4_END_BYTES: u64 = 4;
/// Magic, descriptor and end mark.
const LZ4_EMPTY_FRAME_BYTES: u64 = 11;

impl<R: Read> Lz4Frames<R> {
    fn new(reader: R) -> Self {
        Self { decoder: FrameDecoder::new(CountingReader { reader, bytes: 0 }), in_frame: false }
    }
}

impl<R: Read> Read for Lz4Frames<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let before = self.decoder.get_ref().bytes;
            let bytes = self.decoder.read(buf)?;
            if bytes > 0 {
                self.in_frame = true;
                return Ok(bytes);
            }
            let taken = self.decoder.get_ref().bytes - before;
            let least = if self.in_frame { LZ4_END_BYTES } else { LZ4_EMPTY_FRAME_BYTES };
            match taken {
                0 if !self.in_frame => return Ok(0),
                taken if taken < least => return Err(io::ErrorKind::UnexpectedEof.into()),
                _ => self.in_frame = false,
            }
        }
    }
}

struct CountingReader<R> {
    reader: R,
    bytes: u64,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let bytes = self.reader.read(buf)?;
        self.bytes += bytes as u64;
        Ok(bytes)
    }
}

fn open_error(name: &str, source: io::Error) -> SourceError {
    let input = name.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound => SourceError::Missing(input),
        io::ErrorKind::PermissionDenied => SourceError::Denied(input),
        _ => SourceError::Read { input, source },
    }
}

const EDITCAP: &str = "convert it with `editcap -F pcapng`";

/// Files that people mistake for captures, by their first bytes.
const FOREIGN: [(&[u8], &str, &str); 10] = [
    (b"\xfd7zX", "xz-compressed", "decompress it first, as in `xz -dc FILE | overhead analyze -`"),
    (b"BZh", "bzip2-compressed", "decompress it first, as in `bzip2 -dc FILE | overhead analyze -`"),
    (b"PK\x03\x04", "a zip archive", "unpack it and name the captures in it"),
    (b"snoop\0\0\0", "a snoop capture", EDITCAP),
    (b"RTSS", "a Network Monitor 1 capture", EDITCAP),
    (b"GMBU", "a Network Monitor 2 capture", EDITCAP),
    (b"TRSNIFF ", "a Sniffer capture", EDITCAP),
    (b"\xa1\xb2\x34\xcd", "a big-endian capture of the modified pcap format", EDITCAP),
    (b"\x1c\x00\x01\xac", "an IXIA variant of pcap", EDITCAP),
    (b"\xac\x01\x00\x1c", "an IXIA variant of pcap", EDITCAP),
];

/// Returns the error for an unknown magic number.
pub(super) fn foreign(name: &str, head: &[u8]) -> SourceError {
    let input = name.to_owned();
    match FOREIGN.iter().find(|(magic, ..)| head.starts_with(magic)) {
        Some(&(_, format, remedy)) => SourceError::Foreign { input, format, remedy },
        None if head.is_empty() => SourceError::HeaderCut { input, bytes: 0 },
        None => {
            let start = head.iter().take(MAGIC_BYTES).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
            SourceError::NotACapture { input, start }
        }
    }
}

/// Returns whether these bytes may be the start of a header.
pub(super) fn may_be_header(head: &[u8]) -> bool {
    let mut magics = super::legacy::MAGICS.iter().map(|(magic, ..)| magic).chain([&super::pcapng::MAGIC]);
    magics.any(|magic| head.iter().zip(magic).all(|(a, b)| a == b))
}
