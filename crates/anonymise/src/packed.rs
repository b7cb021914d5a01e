//! Replaces compressed bytes with as many others that decompress to the same fields with other content.
//!
//! LZ4 and Snappy contain literal bytes, each used in one or more places. These are replaced in place, unless one of the
//! places must stay. DEFLATE and Zstandard are compressed again: repetitive filler takes less room, and empty blocks fill
//! the rest. If that does not produce the exact length, DEFLATE codes are replaced in place with codes of the same length.

use crate::deflate::{Deflated, repeat, wanted};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// Levels to try.
const LEVELS: [i32; 6] = [9, 6, 5, 4, 2, 1];
const ZSTD_LEVELS: [i32; 8] = [19, 15, 12, 9, 6, 3, 1, -1];
/// Lengths tried on either side of an almost exact one.
const NEAR: usize = 64;
/// Longest content that may be compressed hundreds of times to reach a length.
const SHORT: usize = 16 << 10;
/// Longest content that is compressed more than once: one attempt takes a tenth of a second.
const LONG: usize = 1 << 20;
/// Resolution of the search for the largest share of original content.
const SHARES: usize = 64;
/// Longest content that is compressed again, which takes several times its memory.
const LONGEST: usize = 16 << 20;
/// Expansion above which long content is almost empty and not worth the work.
const HARDLY_ANYTHING: usize = 128;
/// Bytes of zlib's header (RFC 1950 section 2.2).
const ZLIB_HEADER: usize = 2;
/// Shortest run of original bytes that must not remain.
const WORD: usize = 6;
/// An empty stored block; one after an empty block of fixed codes; the last block (RFC 1951 section 3.2).
const EMPTY: [u8; 5] = [0, 0, 0, 0xff, 0xff];
const EMPTY_LONGER: [u8; 6] = [2, 0, 0, 0, 0xff, 0xff];
const LAST: [u8; 2] = [3, 0];
/// The magic number of a Zstandard frame, and the length of an empty block, which is all zeros (RFC 8878 section 3.1.1).
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const ZSTD_EMPTY: usize = 3;

#[derive(Debug)]
pub enum Packed {
    /// For each byte of the content, its position in the compressed bytes.
    Literals(Vec<u32>),
    /// DEFLATE in a zlib frame.
    Zlib,
    Zstd,
}

/// Decompresses bytes to `len` bytes; `None` if the format is unknown or the content too long.
pub fn unpack(wire: &[u8], len: usize) -> Option<(Packed, Vec<u8>)> {
    if len > LONGEST || len > LONG && len / HARDLY_ANYTHING > wire.len() {
        return None;
    }
    if wire.starts_with(&ZSTD) {
        let content = zstd::bulk::decompress(wire, len).ok().filter(|content| content.len() == len)?;
        return Some((Packed::Zstd, content));
    }
    if let Some(content) = inflated(wire, len, true) {
        return Some((Packed::Zlib, content));
    }
    let sources = lz4(wire, len).or_else(|| snappy(wire, len))?;
    let content = sources.iter().map(|source| wire.get(*source as usize).copied().unwrap_or_default()).collect();
    Some((Packed::Literals(sources), content))
}

/// Decompresses DEFLATE, with zlib's header and checksum or without.
fn inflated(wire: &[u8], len: usize, is_zlib: bool) -> Option<Vec<u8>> {
    let mut content = Vec::with_capacity(len + 1);
    let status = Decompress::new(is_zlib).decompress_vec(wire, &mut content, FlushDecompress::Finish);
    (matches!(status, Ok(Status::StreamEnd)) && content.len() == len).then_some(content)
}

impl Packed {
    /// Returns as many bytes as `wire` has that decompress to almost `content`, or `None`. Bytes marked in `stays` stay.
    /// The end of the content may be taken from `plain` instead, which has the same length and is repetitive.
    pub fn pack(&self, wire: &[u8], content: &[u8], plain: &[u8], stays: &[bool]) -> Option<Vec<u8>> {
        let mixed = Mixed { content, plain, len: wire.len() };
        match self {
            Self::Literals(sources) => Some(with_literals(wire, sources, content, stays)),
            Self::Zlib => mixed
                .most(filled_up)
                .or_else(|| mixed.exact(zlib_of, LEVELS))
                .or_else(|| code_by_code(wire, content, stays)),
            Self::Zstd => mixed.most(zstd_filled_up).or_else(|| mixed.exact(zstd_of, ZSTD_LEVELS)),
        }
    }
}

/// Content to be compressed to a length; the larger the repetitive part, the smaller the result.
struct Mixed<'a> {
    content: &'a [u8],
    plain: &'a [u8],
    len: usize,
}

impl Mixed<'_> {
    /// Returns the first `count` bytes of the content, followed by repetitive filler.
    fn with(&self, count: usize) -> Vec<u8> {
        [self.content.get(..count).unwrap_or_default(), self.plain.get(count..).unwrap_or_default()].concat()
    }

    /// Compresses as much of the content as fits. `fill` pads its result to a length, if it can.
    fn most(&self, fill: impl Fn(&[u8], usize) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
        let mut packed = fill(self.plain, self.len)?;
        let (mut fits, mut exceeds) = (0, self.content.len() + 1);
        while self.content.len() <= LONG && exceeds - fits > self.content.len() / SHARES + 1 {
            let middle = usize::midpoint(fits, exceeds);
            match fill(&self.with(middle), self.len) {
                Some(more) => (packed, fits) = (more, middle),
                None => exceeds = middle,
            }
        }
        Some(packed)
    }

    /// Compresses short content to an exact length by trying levels and shares of the content.
    fn exact<const N: usize>(&self, pack: impl Fn(&[u8], i32) -> Option<Vec<u8>>, levels: [i32; N]) -> Option<Vec<u8>> {
        levels.into_iter().filter(|_| self.content.len() <= SHORT).find_map(|level| {
            let (mut fits, mut exceeds) = (0, self.content.len() + 1);
            while fits + 1 < exceeds {
                let middle = usize::midpoint(fits, exceeds);
                let len = pack(&self.with(middle), level)?.len();
                if len <= self.len { fits = middle } else { exceeds = middle }
            }
            let near = fits.saturating_sub(NEAR)..(fits + NEAR).min(self.content.len() + 1);
            let mut packed = near.rev().filter_map(|count| pack(&self.with(count), level));
            packed.find(|packed| packed.len() == self.len)
        })
    }
}

fn zlib_of(content: &[u8], level: i32) -> Option<Vec<u8>> {
    let mut packed = Vec::with_capacity(content.len() + 1024);
    let mut state = Compress::new(Compression::new(level.cast_unsigned()), true);
    let status = state.compress_vec(content, &mut packed, FlushCompress::Finish);
    matches!(status, Ok(Status::StreamEnd)).then_some(packed)
}

fn zstd_of(content: &[u8], level: i32) -> Option<Vec<u8>> {
    zstd::bulk::compress(content, level).ok()
}

fn with_literals(wire: &[u8], sources: &[u32], content: &[u8], stays: &[bool]) -> Vec<u8> {
    let wanted = wanted(sources, content, stays, wire.len());
    wire.iter().zip(wanted).map(|(byte, wanted)| wanted.unwrap_or(*byte)).collect()
}

/// Compresses to an exact length, padded with empty blocks.
fn filled_up(content: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut packed = Vec::with_capacity(content.len() + 1024);
    let mut state = Compress::new(Compression::best(), true);
    state.compress_vec(content, &mut packed, FlushCompress::Sync).ok()?;
    let sum = adler2::adler32_slice(content);
    // The remaining bytes: empty blocks, the last block, and the checksum.
    let left = len.checked_sub(packed.len() + LAST.len() + 4)?;
    let longer = left % EMPTY.len();
    let shorter = left.checked_sub(longer * EMPTY_LONGER.len())? / EMPTY.len();
    packed.extend(EMPTY.repeat(shorter));
    packed.extend(EMPTY_LONGER.repeat(longer));
    packed.extend(LAST);
    packed.extend(sum.to_be_bytes());
    (inflated(&packed, content.len(), true).as_deref() == Some(content)).then_some(packed)
}

/// Replaces literals with bytes whose codes are as long. `None` if words of the original would remain.
fn code_by_code(wire: &[u8], content: &[u8], stays: &[bool]) -> Option<Vec<u8>> {
    let original = inflated(wire, content.len(), true)?;
    let mut packed = Deflated::parse(wire, content.len())?.with(wire, content, stays);
    let anew = inflated(packed.get(ZLIB_HEADER..)?, content.len(), false)?;
    let sum = adler2::adler32_slice(&anew);
    packed.last_chunk_mut::<4>()?.copy_from_slice(&sum.to_be_bytes());
    let is_left = |at: usize| {
        let bytes = [&original, &anew].map(|bytes| bytes.get(at..at + WORD).unwrap_or_default());
        let is_to_go = stays.get(at..at + WORD).is_some_and(|stays| stays.iter().all(|stays| !stays));
        bytes[0] == bytes[1] && is_to_go && bytes[0].iter().any(u8::is_ascii_alphanumeric)
    };
    (0..content.len().saturating_sub(WORD - 1)).all(|at| !is_left(at)).then_some(packed)
}

/// Compresses to an exact length, padded with a longer header and empty blocks (RFC 8878 section 3.1.1).
fn zstd_filled_up(content: &[u8], len: usize) -> Option<Vec<u8>> {
    let frame = zstd_of(content, if content.len() <= LONG { ZSTD_LEVELS[1] } else { ZSTD_LEVELS[5] })?;
    let descriptor = *frame.get(ZSTD.len())?;
    let is_single = descriptor >> 5 & 1 == 1;
    let size_of_length = match descriptor >> 6 {
        0 => usize::from(is_single),
        flag => 1 << flag,
    };
    let blocks = frame.get(ZSTD.len() + 1 + usize::from(!is_single) + size_of_length..)?;
    let mut headers = zstd_headers(content.len()).into_iter();
    headers.find_map(|header| {
        let left = len.checked_sub(ZSTD.len() + header.len() + blocks.len())?;
        let empty = vec![0; left];
        (left % ZSTD_EMPTY == 0).then(|| [ZSTD.as_slice(), &header, &empty, blocks].concat())
    })
}

/// Returns the possible frame headers for `content` bytes, after the magic number: with or without a window, and with
/// content sizes of different width.
fn zstd_headers(content: usize) -> Vec<Vec<u8>> {
    let window = (content.max(1 << 10).next_power_of_two().trailing_zeros() as u8 - 10) << 3;
    let mut headers = vec![vec![0, window]];
    for (flag, least) in [(0, 0), (1, 256), (2, 0), (3, 0)] {
        let Some(value) = content.checked_sub(least) else { continue };
        let bytes = value.to_le_bytes();
        let (length, rest) = bytes.split_at(if flag == 0 { 1 } else { 1 << flag });
        // Two-byte sizes start at 256 (table "Frame_Content_Size_flag").
        if rest.iter().any(|byte| *byte != 0) {
            continue;
        }
        headers.push([[flag << 6 | 1 << 5].as_slice(), length].concat());
        if flag > 0 {
            headers.push([[flag << 6, window].as_slice(), length].concat());
        }
    }
    headers
}

/// Returns the position in an LZ4 block of each byte of its content (LZ4 Block Format Description).
fn lz4(wire: &[u8], len: usize) -> Option<Vec<u32>> {
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
        literal(&mut sources, &mut at, literals, (wire.len(), len))?;
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

/// Does the same for Snappy's raw format after its length (`format_description.txt` in its source).
fn snappy(wire: &[u8], len: usize) -> Option<Vec<u32>> {
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
                literal(&mut sources, &mut at, literals, (wire.len(), len))?;
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

/// Appends a run of literals, of which the bytes and the content have so many.
fn literal(sources: &mut Vec<u32>, at: &mut usize, count: usize, (bytes, len): (usize, usize)) -> Option<()> {
    let run = (*at + count <= bytes && sources.len() + count <= len).then_some(*at..*at + count)?;
    *at = run.end;
    sources.extend(run.map(|at| at as u32));
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CONTENT: &[u8] =
        b"ABCD secret secret secret secret 0123456789 secret secret EFGH secret secret secret IJKL 0123456789";

    /// Returns the content with other words, with repetitive filler, and the bytes that stay.
    fn replaced(content: &[u8]) -> (Vec<u8>, Vec<u8>, Vec<bool>) {
        let stays: Vec<bool> = content.iter().map(|byte| !byte.is_ascii_lowercase()).collect();
        let other = |by: fn(usize) -> u8| {
            let other = |(at, byte): (usize, &u8)| if byte.is_ascii_lowercase() { by(at) } else { *byte };
            content.iter().enumerate().map(other).collect()
        };
        (other(|at| b'a' + (at * at * 7 % 26) as u8), other(|_| b'x'), stays)
    }

    /// Returns whether a replacement was found, and checks it.
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
        for (compress, least) in [(zlib_of as fn(&[u8], i32) -> Option<Vec<u8>>, 40), (zstd_of, 40)] {
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
