//! The pcap format (draft-ietf-opsawg-pcap): a header of 24 bytes, then records.
//!
//! ```text
//! header: magic u32, major u16, minor u16, reserved u32, reserved u32, snaplen u32, FCS bits and link type u32
//! record: seconds u32, fraction u32, captured length u32, original length u32, the bytes
//! ```
//!
//! The magic number gives the byte order and the unit of the fraction. A. Kuznetsov's modified format has eight more
//! bytes in each record header.

use super::bytes::ByteOrder;
use super::window::InputWindow;
use super::{FileFacts, FileInterface, FrameRecord, ReadOutcome};
use crate::limits::MAX_FRAME_BYTES;
use overhead_model::frame::{Frame, LinkType};
use std::io;

pub(super) const HEADER_BYTES: usize = 24;
/// The magic number in file order, the byte order, nanoseconds per unit of the fraction, and the length of a record's
/// header.
pub(super) type LegacyMagic = ([u8; 4], ByteOrder, u64, usize);

pub(super) const MAGICS: [LegacyMagic; 5] = [
    ([0xd4, 0xc3, 0xb2, 0xa1], ByteOrder::Little, 1_000, USUAL_HEADER),
    ([0xa1, 0xb2, 0xc3, 0xd4], ByteOrder::Big, 1_000, USUAL_HEADER),
    ([0x4d, 0x3c, 0xb2, 0xa1], ByteOrder::Little, 1, USUAL_HEADER),
    ([0xa1, 0xb2, 0x3c, 0x4d], ByteOrder::Big, 1, USUAL_HEADER),
    ([0x34, 0xcd, 0xb2, 0xa1], ByteOrder::Little, 1_000, 24),
];
/// Earlier versions order a record's fields differently. Later ones do not exist, but some writers get this field's
/// byte order wrong, so larger values are accepted.
const FIRST_MAJOR: u16 = 2;
/// The bits above are reserved or describe the frame check sequence.
const LINK_TYPE_MASK: u32 = 0xffff;

/// The modified format's is longer.
const USUAL_HEADER: usize = 16;

pub(super) struct LegacyReader {
    order: ByteOrder,
    record_header: usize,
    /// Records have the usual header of four little-endian words.
    is_usual: bool,
    /// Nanoseconds per unit of the fraction.
    fraction_ns: u64,
    link: LinkType,
    pub(super) facts: FileFacts,
}

impl LegacyReader {
    /// Reads the header at the start of the window, which has this magic number, and moves past it.
    pub(super) fn open(
        window: &mut InputWindow,
        &(_, order, fraction_ns, record_header): &LegacyMagic,
    ) -> Result<Self, String> {
        let version = [4, 6].map(|at| order.u16(window.bytes(), at).unwrap_or_default());
        let [snaplen, link] = [16, 20].map(|at| order.u32(window.bytes(), at).unwrap_or_default());
        if version[0] < FIRST_MAJOR {
            return Err(format!("pcap version {}.{}", version[0], version[1]));
        }
        let link = LinkType((link & LINK_TYPE_MASK) as u16);
        window.consume(HEADER_BYTES);
        let facts = FileFacts { interfaces: vec![FileInterface { name: None, link, snaplen }], ..FileFacts::default() };
        let is_usual = record_header == USUAL_HEADER && order == ByteOrder::Little;
        Ok(Self { order, record_header, is_usual, fraction_ns, link, facts })
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
        if !window.need(self.record_header)? {
            return Ok(window.end(self.record_header as u64));
        }
        let field = |at| self.order.u32(window.bytes(), at).unwrap_or_default();
        let [seconds, fraction, captured, original_len] = [0, 4, 8, 12].map(field);
        if captured > MAX_FRAME_BYTES {
            return Ok(window.damaged(format!("a frame of {captured} bytes, where {MAX_FRAME_BYTES} is the limit")));
        }
        let data = self.record_header..self.record_header + captured as usize;
        if !window.need(data.end)? {
            return Ok(window.end(data.end as u64));
        }
        // At most 2^32 seconds and 2^32 microseconds: below 2^63.
        let time_ns = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * self.fraction_ns;
        let (link, record) = (self.link, data.end);
        Ok(ReadOutcome::Frame(FrameRecord { time_ns, link, interface: 0, original_len, data, record }))
    }
}
