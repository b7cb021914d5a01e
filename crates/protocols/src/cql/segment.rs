//! Segments of version 5 (`native_protocol_v5.spec`, section 2, which calls them frames).
//!
//! ```text
//! plain:      length 17 bits | self-contained 1 | padding 6                        | CRC-24 | payload | CRC-32
//! compressed: length 17 bits | decompressed length 17 | self-contained 1 | padding 5 | CRC-24 | payload | CRC-32
//! ```
//!
//! All integers are little-endian. A self-contained segment holds whole messages; other segments each hold a part of
//! one long message. A decompressed length of 0 means an uncompressed payload.

/// Initial value and polynomial of the header's checksum.
const CRC24_INIT: u32 = 0x0087_5060;
const CRC24_POLYNOMIAL: u32 = 0x0197_4F0B;
/// Seed of the payload's checksum.
const CRC32_SEED: [u8; 4] = [0xFA, 0x2D, 0x55, 0xCA];
/// Bytes of the payload's checksum.
pub(super) const TRAILER: u64 = 4;

/// Each with the length of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentFormat {
    Plain = 6,
    Compressed = 8,
}

impl SegmentFormat {
    pub const fn header(self) -> usize {
        self as usize
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CqlSegment {
    pub format: SegmentFormat,
    /// Bytes of payload on the wire.
    pub wire: u64,
    /// Bytes of the decompressed payload.
    pub length: u64,
    pub packed: bool,
    pub self_contained: bool,
}

impl CqlSegment {
    /// Reads a header; `None` if bytes are missing or the checksum is wrong.
    pub fn read(bytes: &[u8], format: SegmentFormat) -> Option<Self> {
        let checked = format.header() - 3;
        let fields = bytes.get(..checked)?;
        let &[a, b, c] = bytes.get(checked..format.header())? else { return None };
        if crc24(fields) != u32::from_le_bytes([a, b, c, 0]) {
            return None;
        }
        let bits = fields.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte));
        let wire = bits & 0x1_FFFF;
        let (decompressed, flags) = match format {
            SegmentFormat::Plain => (0, bits >> 17),
            SegmentFormat::Compressed => (bits >> 17 & 0x1_FFFF, bits >> 34),
        };
        Some(Self {
            format,
            wire,
            length: if decompressed > 0 { decompressed } else { wire },
            packed: decompressed > 0,
            self_contained: flags & 1 != 0,
        })
    }

    pub const fn header(&self) -> u64 {
        self.format.header() as u64
    }

    pub const fn total(&self) -> u64 {
        self.header() + self.wire + TRAILER
    }
}

pub fn crc24(bytes: &[u8]) -> u32 {
    bytes.iter().fold(CRC24_INIT, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte) << 16, |crc, _| {
            let shifted = crc << 1;
            if shifted & 0x0100_0000 == 0 { shifted } else { shifted ^ CRC24_POLYNOMIAL }
        })
    })
}

/// Returns the checksum of a payload.
pub fn segment_checksum(payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&CRC32_SEED);
    hasher.update(payload);
    hasher.finalize()
}
