//! Compressed bodies (section 5).

use super::pair::CqlCompression;
use overhead_decode::Codec;

/// A compressed body after the length of its content.
pub(super) struct CompressedBody<'a> {
    pub codec: Codec,
    pub block: &'a [u8],
    /// Bytes of the decompressed body.
    pub size: usize,
    /// Bytes of the length field.
    pub preamble: u64,
}

impl<'a> CompressedBody<'a> {
    pub fn read(compression: CqlCompression, body: &'a [u8]) -> Option<Self> {
        match compression {
            CqlCompression::Lz4 => Self::lz4(body),
            // LZ4's big-endian length starts with 0 for bodies below 16 MiB; Snappy's variable-length integer does so
            // only for empty bodies.
            CqlCompression::NotSeen if body.len() > 4 && body.first() == Some(&0) => Self::lz4(body),
            CqlCompression::Snappy | CqlCompression::NotSeen => Self::snappy(body),
            CqlCompression::None => None,
        }
    }

    fn lz4(body: &'a [u8]) -> Option<Self> {
        let (length, block) = body.split_first_chunk()?;
        Some(Self { codec: Codec::Lz4, block, size: u32::from_be_bytes(*length) as usize, preamble: 4 })
    }

    fn snappy(block: &'a [u8]) -> Option<Self> {
        let size = snap::raw::decompress_len(block).ok()?;
        let preamble = block.iter().take_while(|&&byte| byte & 0x80 != 0).count() as u64 + 1;
        Some(Self { codec: Codec::Snappy, block, size, preamble })
    }
}
