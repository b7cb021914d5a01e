//! Compressed bodies (section 5) and segments.

use super::pair::CqlCompression;
use overhead_decode::Expansion;
use overhead_decode::{Codec, Note};

/// Decompresses `body` into `to` and returns the size of the length field in front.
pub(super) fn body(compression: CqlCompression, body: &[u8], to: &mut Vec<u8>, expansion: &Expansion) -> Option<u64> {
    match compression {
        CqlCompression::Lz4 => lz4(body, to, expansion),
        // LZ4's big-endian length begins with 0 for bodies below 16 MiB; Snappy's variable-length integer does so only
        // for empty bodies.
        CqlCompression::NotSeen if body.len() > 4 && body.first() == Some(&0) => lz4(body, to, expansion),
        CqlCompression::Snappy | CqlCompression::NotSeen => snappy(body, to, expansion),
        CqlCompression::None | CqlCompression::Other => None,
    }
}

/// Returns the limit that prevented decompression of `body`, if any.
pub(super) fn refusal_note(compression: CqlCompression, body: &[u8]) -> Option<Note> {
    match compression {
        CqlCompression::Lz4 => {
            let (length, block) = body.split_first_chunk()?;
            Codec::Lz4.refusal(block.len(), u32::from_be_bytes(*length) as usize)
        }
        CqlCompression::Snappy => Codec::Snappy.refusal(body.len(), snap::raw::decompress_len(body).ok()?),
        CqlCompression::NotSeen | CqlCompression::None | CqlCompression::Other => None,
    }
}

fn lz4(body: &[u8], to: &mut Vec<u8>, expansion: &Expansion) -> Option<u64> {
    let (length, block) = body.split_first_chunk()?;
    block_into(block, u32::from_be_bytes(*length) as usize, to, expansion)?;
    Some(4)
}

pub(super) fn block_into(block: &[u8], length: usize, to: &mut Vec<u8>, expansion: &Expansion) -> Option<()> {
    if Codec::Lz4.refusal(block.len(), length).is_some() {
        return None;
    }
    to.clear();
    expansion.allows(block.len(), length).then_some(())?;
    to.resize(length, 0);
    (lz4_flex::block::decompress_into(block, to).ok()? == length).then_some(())
}

fn snappy(body: &[u8], to: &mut Vec<u8>, expansion: &Expansion) -> Option<u64> {
    let length = snap::raw::decompress_len(body).ok()?;
    if Codec::Snappy.refusal(body.len(), length).is_some() {
        return None;
    }
    expansion.allows(body.len(), length).then_some(())?;
    to.clear();
    to.resize(length, 0);
    (snap::raw::Decoder::new().decompress(body, to).ok()? == length).then_some(())?;
    let preamble = body.iter().take_while(|&&byte| byte & 0x80 != 0).count() + 1;
    Some(preamble as u64)
}
