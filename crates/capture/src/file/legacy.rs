//! The pcap format (draft-ietf-opsawg-pcap): a header of 24 bytes, then records.
//!
//! ```text
//! header: magic u32, major u16, minor u16, reserved u32, reserved u32, snaplen u32, FCS bits and link type u32
//! record: seconds u32, fraction u32, captured length u32, original length u32, the bytes
//! ```
//!
//! The magic number gives the byte order and the unit of the fraction. A. Kuznetsov's modified format has eight more
//! bytes in each record header. pcap-parser decodes the fields.

use super::window::InputWindow;
use super::{FileFacts, FileInterface, FrameRecord, ReadOutcome};
use crate::limits::MAX_FRAME_BYTES;
use overhead_model::frame::{Frame, LinkType};
use pcap_parser::nom;
use pcap_parser::pcap::{parse_pcap_frame, parse_pcap_frame_be, parse_pcap_frame_modified, parse_pcap_header};
use pcap_parser::{LegacyPcapBlock, PcapError};
use std::io;

pub(super) const HEADER_BYTES: usize = 24;
/// In file order.
pub(super) const MAGICS: [[u8; 4]; 5] = [
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0x4d, 0x3c, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
    [0x34, 0xcd, 0xb2, 0xa1],
];
/// Earlier versions order a record's fields differently. There are no later ones, but some writers get this field's
/// byte order wrong, so larger values are accepted.
const FIRST_MAJOR: u16 = 2;
/// The bits above are reserved or describe the frame check sequence.
const LINK_TYPE_MASK: u32 = 0xffff;

/// The modified format's is longer.
const USUAL_HEADER: usize = 16;

type RecordResult<'a> = nom::IResult<&'a [u8], LegacyPcapBlock<'a>, PcapError<&'a [u8]>>;

pub(super) struct LegacyReader {
    parse: fn(&[u8]) -> RecordResult<'_>,
    record_header: usize,
    /// Records have the usual header of four little-endian words.
    is_usual: bool,
    /// Nanoseconds per unit of the fraction.
    fraction_ns: u64,
    link: LinkType,
    pub(super) facts: FileFacts,
}

pub(super) fn is_magic(head: &[u8]) -> bool {
    MAGICS.iter().any(|magic| head.starts_with(magic))
}

impl LegacyReader {
    /// Reads the header at the start of the window and moves past it.
    pub(super) fn open(window: &mut InputWindow) -> Result<Self, String> {
        let (_, header) = parse_pcap_header(window.bytes()).map_err(|error| error.to_string())?;
        if header.version_major < FIRST_MAJOR {
            return Err(format!("pcap version {}.{}", header.version_major, header.version_minor));
        }
        let (parse, record_header): (fn(&[u8]) -> RecordResult<'_>, _) = if header.is_modified_format() {
            (parse_pcap_frame_modified, 24)
        } else if header.is_bigendian() {
            (parse_pcap_frame_be, USUAL_HEADER)
        } else {
            (parse_pcap_frame, USUAL_HEADER)
        };
        let link = LinkType((header.network.0.cast_unsigned() & LINK_TYPE_MASK) as u16);
        let fraction_ns = if header.is_nanosecond_precision() { 1 } else { 1_000 };
        window.consume(HEADER_BYTES);
        let interfaces = vec![FileInterface { name: None, link, snaplen: header.snaplen }];
        let facts = FileFacts { interfaces, ..FileFacts::default() };
        let is_usual = record_header == USUAL_HEADER && !header.is_bigendian();
        Ok(Self { parse, record_header, is_usual, fraction_ns, link, facts })
    }

    /// Returns the first frame in `bytes` and the rest after it; `None` if the record is incomplete or unusual.
    #[inline]
    pub(super) fn buffered<'a>(&self, bytes: &'a [u8]) -> Option<(Frame<'a>, &'a [u8])> {
        let (header, behind) = bytes.split_first_chunk::<USUAL_HEADER>()?;
        let fields: &[[u8; 4]; 4] = header.as_chunks().0.first_chunk()?;
        let [seconds, fraction, captured, original_len] = fields.map(u32::from_le_bytes);
        if !self.is_usual || captured > MAX_FRAME_BYTES {
            return None;
        }
        let (bytes, rest) = behind.split_at_checked(captured as usize)?;
        let time_ns = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * self.fraction_ns;
        let (link, original_len) = (self.link, original_len.max(captured));
        Some((Frame { time_ns, link, original_len, interface: 0, bytes }, rest))
    }

    /// Reads the next record, whatever its header, or finds the end of the file.
    pub(super) fn step(&self, window: &mut InputWindow) -> io::Result<ReadOutcome> {
        loop {
            let have = window.bytes().len();
            let wanted = match (self.parse)(window.bytes()) {
                Ok((_, record)) if record.caplen <= MAX_FRAME_BYTES => {
                    return Ok(ReadOutcome::Frame(self.frame(&record)));
                }
                Ok((_, record)) => record.caplen as usize + self.record_header,
                Err(nom::Err::Incomplete(nom::Needed::Size(missing))) => have.saturating_add(missing.get()),
                Err(_) => return Ok(window.damaged("its header cannot be read")),
            };
            let limit = MAX_FRAME_BYTES as usize + self.record_header;
            if wanted > limit {
                let frame = wanted - self.record_header;
                return Ok(window.damaged(format!("a frame of {frame} bytes, where {MAX_FRAME_BYTES} is the limit")));
            }
            if !window.need(wanted)? {
                return Ok(window.end(wanted as u64));
            }
        }
    }

    fn frame(&self, record: &LegacyPcapBlock<'_>) -> FrameRecord {
        let data = self.record_header..self.record_header + record.caplen as usize;
        FrameRecord {
            // At most 2^32 seconds and 2^32 microseconds: below 2^63.
            time_ns: u64::from(record.ts_sec) * 1_000_000_000 + u64::from(record.ts_usec) * self.fraction_ns,
            link: self.link,
            interface: 0,
            original_len: record.origlen,
            record: data.end,
            data,
        }
    }
}
