//! Compressed bytes, replaced by as many that decompress to the same fields with other content.
//!
//! LZ4 and Snappy have bytes of the original in the clear, each of which comes to one or more places: they are replaced where they
//! lie, where none of these places is to stay. DEFLATE and Zstandard are compressed anew: filler that repeats itself takes no more
//! room than what it replaces, and what is left over is filled with blocks and frames that say nothing.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// Attempts to compress to a length.
const LEVELS: [i32; 6] = [9, 6, 5, 4, 2, 1];
const ZSTD_LEVELS: [i32; 8] = [19, 15, 12, 9, 6, 3, 1, -1];
/// Lengths tried on both sides of the one that is nearly right.
const NEAR: usize = 64;
/// Blocks that are ended before their time, at most.
const INTERRUPTIONS: usize = 12;
/// An empty stored block, and one behind an empty block of fixed codes; the last block (RFC 1951 section 3.2).
const EMPTY: [u8; 5] = [0, 0, 0, 0xff, 0xff];
const EMPTY_LONGER: [u8; 6] = [2, 0, 0, 0, 0xff, 0xff];
const LAST: [u8; 2] = [3, 0];
/// The magic number of a Zstandard frame, and of one that is skipped (RFC 8878 section 3.1).
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const SKIPPED: [u8; 4] = [0x50, 0x2a, 0x4d, 0x18];

/// Bytes as they are compressed, and what they come to.
#[derive(Debug)]
pub enum Packed {
    /// By the place of each byte of the content, where it comes from.
    Literals(Vec<usize>),
    /// DEFLATE in a zlib frame.
    Zlib,
    /// Zstandard.
    Zstd,
}

/// Decompresses bytes to a content of this length; `None` where they are in no format that is known.
pub fn unpack(wire: &[u8], len: usize) -> Option<(Packed, Vec<u8>)> {
    if wire.starts_with(&ZSTD) {
        let content = zstd::bulk::decompress(wire, len).ok().filter(|content| content.len() == len)?;
        return Some((Packed::Zstd, content));
    }
    if let Some(content) = zlib(wire, len) {
        return Some((Packed::Zlib, content));
    }
    let sources = lz4(wire, len).or_else(|| snappy(wire, len))?;
    let content = sources.iter().map(|source| wire.get(*source).copied().unwrap_or_default()).collect();
    Some((Packed::Literals(sources), content))
}

fn zlib(wire: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut content = Vec::with_capacity(len + 1);
    let status = Decompress::new(true).decompress_vec(wire, &mut content, FlushDecompress::Finish);
    (matches!(status, Ok(Status::StreamEnd)) && content.len() == len).then_some(content)
}

impl Packed {
    /// Returns as many bytes as `wire` has that come to `content` but for what cannot be; `None` where that cannot be had. `stays` says
    /// which bytes of the content are to stay. Instead of `content`, so many bytes of the end as it takes may be of `plain`, which has
    /// the same length and repeats itself.
    pub fn pack(&self, wire: &[u8], content: &[u8], plain: &[u8], stays: &[bool]) -> Option<Vec<u8>> {
        match self {
            Self::Literals(sources) => Some(with_literals(wire, sources, content, stays)),
            Self::Zlib => anew(zlib_of, LEVELS, (content, plain), wire.len())
                .or_else(|| interrupted(plain, wire.len()))
                .or_else(|| filled_up(plain, wire.len())),
            Self::Zstd => anew(zstd_of, ZSTD_LEVELS, (content, plain), wire.len())
                .or_else(|| marked(plain, wire.len()))
                .or_else(|| zstandard(plain, wire.len())),
        }
    }
}

/// Compresses to so many bytes: the more of the content repeats itself, the fewer.
fn anew<const N: usize>(
    compress: impl Fn(&[u8], i32) -> Option<Vec<u8>>,
    levels: [i32; N],
    (content, plain): (&[u8], &[u8]),
    len: usize,
) -> Option<Vec<u8>> {
    let mixed = |level: i32, count: usize| {
        let parts = [content.get(..count).unwrap_or_default(), plain.get(count..).unwrap_or_default()];
        compress(&parts.concat(), level)
    };
    for level in levels {
        let (mut fits, mut exceeds) = (0, content.len() + 1);
        while fits + 1 < exceeds {
            let middle = usize::midpoint(fits, exceeds);
            if mixed(level, middle)?.len() <= len { fits = middle } else { exceeds = middle }
        }
        let near = fits.saturating_sub(NEAR)..(fits + NEAR).min(content.len() + 1);
        let packed = near.filter_map(|count| mixed(level, count)).find(|packed| packed.len() == len);
        if packed.is_some() {
            return packed;
        }
    }
    None
}

fn zlib_of(content: &[u8], level: i32) -> Option<Vec<u8>> {
    let mut packed = Vec::with_capacity(content.len() + 1024);
    let mut state = Compress::new(Compression::new(level.cast_unsigned()), true);
    let status = state.compress_vec(content, &mut packed, FlushCompress::Finish);
    matches!(status, Ok(Status::StreamEnd)).then_some(packed)
}

/// Compresses to so many bytes: each block that ends before its time adds some.
fn interrupted(content: &[u8], len: usize) -> Option<Vec<u8>> {
    let attempts = LEVELS.iter().flat_map(|level| (1..=INTERRUPTIONS).map(move |count| (*level, count)));
    let attempts = attempts.flat_map(|(level, count)| (1..=count).map(move |size| (level, count, size)));
    let mut packed = attempts.filter_map(|(level, count, size)| in_pieces(content, level, count, size));
    packed.find(|packed| packed.len() == len)
}

/// Compresses `count` pieces of a size, each into blocks of its own, and then the rest.
fn in_pieces(content: &[u8], level: i32, count: usize, size: usize) -> Option<Vec<u8>> {
    let mut packed = Vec::with_capacity(content.len() + 1024);
    let mut state = Compress::new(Compression::new(level.cast_unsigned()), true);
    let mut rest = content;
    for _ in 0..count {
        let (piece, behind) = rest.split_at_checked(size)?;
        state.compress_vec(piece, &mut packed, FlushCompress::Partial).ok()?;
        rest = behind;
    }
    let status = state.compress_vec(rest, &mut packed, FlushCompress::Finish);
    let is_same = || zlib(&packed, content.len()).as_deref() == Some(content);
    (matches!(status, Ok(Status::StreamEnd)) && is_same()).then_some(packed)
}

/// Compresses to so many bytes: with a checksum or without, with the length of the content or without.
fn marked(content: &[u8], len: usize) -> Option<Vec<u8>> {
    let flags = [(true, true), (true, false), (false, false)];
    let attempts = ZSTD_LEVELS.iter().flat_map(|level| flags.map(|flags| (*level, flags)));
    let mut packed = attempts.filter_map(|(level, (has_sum, has_length))| {
        let mut state = zstd::bulk::Compressor::new(level).ok()?;
        state.set_parameter(zstd::zstd_safe::CParameter::ChecksumFlag(has_sum)).ok()?;
        state.set_parameter(zstd::zstd_safe::CParameter::ContentSizeFlag(has_length)).ok()?;
        state.compress(content).ok()
    });
    packed.find(|packed| packed.len() == len)
}

fn zstd_of(content: &[u8], level: i32) -> Option<Vec<u8>> {
    zstd::bulk::compress(content, level).ok()
}

fn with_literals(wire: &[u8], sources: &[usize], content: &[u8], stays: &[bool]) -> Vec<u8> {
    let mut packed = wire.to_vec();
    let mut is_settled = vec![false; wire.len()];
    let places = || sources.iter().zip(content).zip(stays);
    for ((&source, _), _) in places().filter(|(_, stays)| **stays) {
        if let Some(settled) = is_settled.get_mut(source) {
            *settled = true;
        }
    }
    for ((&source, &byte), _) in places() {
        if let (Some(settled @ false), Some(place)) = (is_settled.get_mut(source), packed.get_mut(source)) {
            (*settled, *place) = (true, byte);
        }
    }
    packed
}

/// Compresses to so many bytes: empty blocks fill up what is left.
fn filled_up(content: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut packed = Vec::with_capacity(content.len() + 1024);
    let mut state = Compress::new(Compression::best(), true);
    state.compress_vec(content, &mut packed, FlushCompress::Sync).ok()?;
    let sum = adler(content);
    // All that follows: blocks that say nothing, the last one, and the checksum.
    let left = len.checked_sub(packed.len() + LAST.len() + 4)?;
    let longer = left % EMPTY.len();
    let shorter = left.checked_sub(longer * EMPTY_LONGER.len())? / EMPTY.len();
    for _ in 0..shorter {
        packed.extend(EMPTY);
    }
    for _ in 0..longer {
        packed.extend(EMPTY_LONGER);
    }
    packed.extend(LAST);
    packed.extend(sum.to_be_bytes());
    (zlib(&packed, content.len()).as_deref() == Some(content)).then_some(packed)
}

/// The checksum of zlib (RFC 1950 section 8.2).
fn adler(bytes: &[u8]) -> u32 {
    let sum = |(a, b): (u32, u32), byte: &u8| {
        let a = (a + u32::from(*byte)) % 65_521;
        (a, (b + a) % 65_521)
    };
    let (a, b) = bytes.iter().fold((1, 0), sum);
    b << 16 | a
}

/// Compresses to so many bytes: a frame that is skipped fills up what is left, which takes eight at least.
fn zstandard(content: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut packed = zstd_of(content, 19)?;
    let left = len.checked_sub(packed.len())?;
    if left > 0 {
        let skipped = u32::try_from(left.checked_sub(8)?).ok()?;
        packed.extend(SKIPPED);
        packed.extend(skipped.to_le_bytes());
        packed.resize(len, 0);
    }
    (zstd::bulk::decompress(&packed, content.len()).ok().as_deref() == Some(content)).then_some(packed)
}

/// Which byte of an LZ4 block each byte of its content comes from (LZ4 Block Format Description).
fn lz4(wire: &[u8], len: usize) -> Option<Vec<usize>> {
    let mut sources = Vec::with_capacity(len);
    let mut at = 0;
    let long = |at: &mut usize, short: u8| {
        let mut len = usize::from(short);
        let mut goes_on = short == 15;
        while goes_on {
            let byte = *wire.get(*at)?;
            *at += 1;
            len += usize::from(byte);
            goes_on = byte == 255;
        }
        Some(len)
    };
    while at < wire.len() {
        let token = *wire.get(at)?;
        at += 1;
        let literals = long(&mut at, token >> 4)?;
        if at + literals > wire.len() || sources.len() + literals > len {
            return None;
        }
        sources.extend(at..at + literals);
        at += literals;
        if at == wire.len() {
            break;
        }
        let offset = usize::from(u16::from_le_bytes(*wire.get(at..)?.first_chunk()?));
        at += 2;
        let copied = long(&mut at, token & 15)? + 4;
        repeat(&mut sources, offset, copied, len)?;
    }
    (sources.len() == len).then_some(sources)
}

/// The same of Snappy's raw format behind its length (`format_description.txt` of its source).
fn snappy(wire: &[u8], len: usize) -> Option<Vec<usize>> {
    let mut sources = Vec::with_capacity(len);
    let mut at = 0;
    let number = |at: usize, bytes: usize| {
        let bytes = wire.get(at..at + bytes)?;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    };
    while at < wire.len() {
        let tag = *wire.get(at)?;
        at += 1;
        let high = usize::from(tag >> 2);
        let (offset, copied) = match tag & 3 {
            0 => {
                let further = high.saturating_sub(59);
                let literals = if further > 0 { number(at, further)? } else { high } + 1;
                at += further;
                if at + literals > wire.len() || sources.len() + literals > len {
                    return None;
                }
                sources.extend(at..at + literals);
                at += literals;
                continue;
            }
            1 => (usize::from(tag >> 5) << 8 | number(at, 1)?, (high & 7) + 4),
            2 => (number(at, 2)?, high + 1),
            _ => (number(at, 4)?, high + 1),
        };
        at += [0, 1, 2, 4].get(usize::from(tag & 3)).copied().unwrap_or_default();
        repeat(&mut sources, offset, copied, len)?;
    }
    (sources.len() == len).then_some(sources)
}

fn repeat(sources: &mut Vec<usize>, offset: usize, count: usize, len: usize) -> Option<()> {
    let start = sources.len().checked_sub(offset).filter(|_| offset > 0)?;
    if sources.len() + count > len {
        return None;
    }
    for at in start..start + count {
        sources.push(*sources.get(at)?);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CONTENT: &[u8] =
        b"ABCD secret secret secret secret 0123456789 secret secret EFGH secret secret secret IJKL 0123456789";

    /// The content with other words, one that repeats itself, and which bytes stay.
    fn replaced(content: &[u8]) -> (Vec<u8>, Vec<u8>, Vec<bool>) {
        let stays: Vec<bool> = content.iter().map(|byte| !byte.is_ascii_lowercase()).collect();
        let other = |by: fn(usize) -> u8| {
            let other = |(at, byte): (usize, &u8)| if byte.is_ascii_lowercase() { by(at) } else { *byte };
            content.iter().enumerate().map(other).collect()
        };
        (other(|at| b'a' + (at * at * 7 % 26) as u8), other(|_| b'x'), stays)
    }

    /// Returns whether there are other bytes, which are checked then.
    fn is_replaced(wire: &[u8], content: &[u8]) -> bool {
        let (packed, unpacked) = unpack(wire, content.len()).unwrap();
        assert_eq!(unpacked, content);
        let (other, plain, stays) = replaced(content);
        let Some(anew) = packed.pack(wire, &other, &plain, &stays) else { return false };
        assert_eq!(anew.len(), wire.len());
        let (_, unpacked) = unpack(&anew, content.len()).unwrap();
        assert!(unpacked.iter().zip(content).zip(stays).all(|((is, was), stays)| is == was || !stays));
        assert!(!unpacked.windows(6).any(|window| window == b"secret"));
        true
    }

    #[test]
    fn literals_are_replaced_where_they_lie() {
        assert!(is_replaced(&lz4_flex::block::compress(CONTENT), CONTENT));
        let snappy = snap::raw::Encoder::new().compress_vec(CONTENT).unwrap();
        assert!(is_replaced(&snappy[1..], CONTENT));
    }

    #[test]
    fn what_is_compressed_anew_has_as_many_bytes_as_a_rule() {
        let contents: Vec<Vec<u8>> = (1..=40).map(|times| CONTENT.repeat(times)).collect();
        for (compress, least) in [(zlib_of as fn(&[u8], i32) -> Option<Vec<u8>>, 36), (zstd_of, 32)] {
            let replaced =
                contents.iter().filter(|content| is_replaced(&compress(content, 6).unwrap(), content)).count();
            assert!(replaced >= least, "{replaced}");
        }
    }

    proptest! {
        #[test]
        fn literals_are_found_in_whatever_was_compressed(content in "[a-c]{0,20}[A-Z]{1,400}[a-c]{0,300}") {
            let content = content.as_bytes();
            for wire in [lz4_flex::block::compress(content), {
                let snappy = snap::raw::Encoder::new().compress_vec(content).unwrap();
                let length = snappy.iter().take_while(|byte| **byte & 0x80 != 0).count() + 1;
                snappy[length..].to_vec()
            }] {
                let (packed, unpacked) = unpack(&wire, content.len()).unwrap();
                prop_assert!(matches!(packed, Packed::Literals(_)));
                prop_assert_eq!(&unpacked, content);
            }
        }
    }
}
