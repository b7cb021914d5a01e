//! Compressed bodies (section 5).

use super::pair::CqlCompression;
use overhead_decode::Codec;

/// Returns the codec of a compressed body, its content, the bytes of the decompressed content, and those of the length field.
pub(super) fn parts(compression: CqlCompression, body: &[u8]) -> Option<(Codec, &[u8], usize, u64)> {
    match compression {
        CqlCompression::Lz4 => lz4(body),
        // LZ4's big-endian length starts with 0 for bodies below 16 MiB; Snappy's variable-length integer does so only
        // for empty bodies.
        CqlCompression::NotSeen if body.len() > 4 && body.first() == Some(&0) => lz4(body),
        CqlCompression::Snappy | CqlCompression::NotSeen => {
            let size = snap::raw::decompress_len(body).ok()?;
            let preamble = body.iter().take_while(|&&byte| byte & 0x80 != 0).count() as u64 + 1;
            Some((Codec::Snappy, body, size, preamble))
        }
        CqlCompression::None => None,
    }
}

fn lz4(body: &[u8]) -> Option<(Codec, &[u8], usize, u64)> {
    let (length, block) = body.split_first_chunk()?;
    Some((Codec::Lz4, block, u32::from_be_bytes(*length) as usize, 4))
}
