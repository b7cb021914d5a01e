//! Primitives: size lines and the first block of a packet.

use crate::words_by_length::WordsByLength;
use overhead_decode::{DecodeStep, Malformed};

/// Longest size line; servers close the connection beyond it (`Link::recv`).
const SIZE_LINE: usize = 19;

/// Longest block whose content is read, and waited for.
pub(super) const INSPECTED: u64 = 64;

/// The next line of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SsdbLine {
    /// A block of `size` bytes after a size line of `line` bytes.
    Block { size: u64, line: u64 },
    /// The empty line that ends the packet, and its length.
    End(u64),
    /// The line is incomplete.
    More,
}

/// Reads the line at the start of `bytes`. Fails if it is neither a size nor empty.
#[inline]
pub(super) fn next(bytes: &[u8]) -> DecodeStep<SsdbLine> {
    let Some(end) = bytes.iter().take(SIZE_LINE).position(|&byte| byte == b'\n') else {
        let digits = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let may_be = bytes.len() < SIZE_LINE && digits.iter().all(u8::is_ascii_digit);
        return if may_be { Ok(SsdbLine::More) } else { Err(Malformed("a size that is no number")) };
    };
    let line = bytes.get(..end).unwrap_or_default();
    let digits = line.strip_suffix(b"\r").unwrap_or(line);
    let len = end as u64 + 1;
    if digits.is_empty() {
        return Ok(SsdbLine::End(len));
    }
    if !digits.iter().all(u8::is_ascii_digit) {
        return Err(Malformed("a size that is no number"));
    }
    let size = digits.iter().try_fold(0_i32, |size, digit| size.checked_mul(10)?.checked_add(i32::from(digit - b'0')));
    let size = size.and_then(|size| u64::try_from(size).ok()).ok_or(Malformed("a size beyond what servers read"))?;
    Ok(SsdbLine::Block { size, line: len })
}

pub(super) fn is_status(text: &[u8]) -> bool {
    matches!(text, b"ok" | b"not_found" | b"error" | b"fail" | b"client_error" | b"noauth")
}

/// Returns whether a text may be a command's name.
pub(super) fn is_name(text: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    (2..=32).contains(&text.len()) && text.iter().all(is_part) && text.first().is_some_and(u8::is_ascii_alphabetic)
}

/// Commands whose first argument is a key, or the name of a map, a sorted set or a queue (`src/proc_*.cpp`).
const FIRST_IS_KEY: WordsByLength = WordsByLength(
    3,
    &[
        "set ttl get del",
        "setx incr decr hset hget hdel hfix zset zget zdel zfix zsum zavg qpop qget qset qfix",
        "setnx hincr hdecr hsize hkeys hvals hscan zincr zdecr zsize zkeys zscan zrank qpush qsize qback",
        "expire getset exists getbit setbit substr strlen append hrscan hclear zrscan zrrank zrange zclear zcount \
     qclear qfront qrange qslice",
        "hexists hgetall zexists zrrange",
        "bitcount countbit getrange",
        "zpop_back qpop_back",
        "multi_hset multi_hget multi_hdel zpop_front multi_zset multi_zget multi_zdel qpush_back qpop_front qtrim_back",
        "qpush_front qtrim_front",
        "",
        "multi_hexists multi_zexists",
        "",
        "zremrangebyrank",
        "zremrangebyscore",
    ],
);

/// Returns whether a block of a request is a key; the command has place 0.
pub(super) fn is_key(name: &[u8], place: u32) -> bool {
    match name {
        b"multi_get" | b"multi_del" | b"multi_exists" => place > 0,
        b"multi_set" => place % 2 == 1,
        _ => place == 1 && FIRST_IS_KEY.contains(name),
    }
}
