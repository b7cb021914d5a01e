//! Primitives: size lines and the first block of a packet.

use overhead_decode::Malformed;

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
pub(super) fn next(bytes: &[u8]) -> Result<SsdbLine, Malformed> {
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
const FIRST_IS_KEY: [&[u8]; 81] = [
    b"set",
    b"setx",
    b"setnx",
    b"expire",
    b"ttl",
    b"get",
    b"getset",
    b"del",
    b"incr",
    b"decr",
    b"exists",
    b"getbit",
    b"setbit",
    b"bitcount",
    b"countbit",
    b"substr",
    b"strlen",
    b"getrange",
    b"append",
    b"hset",
    b"hget",
    b"hdel",
    b"hincr",
    b"hdecr",
    b"hexists",
    b"hsize",
    b"hkeys",
    b"hvals",
    b"hgetall",
    b"hscan",
    b"hrscan",
    b"hclear",
    b"hfix",
    b"multi_hset",
    b"multi_hget",
    b"multi_hdel",
    b"multi_hexists",
    b"zset",
    b"zget",
    b"zdel",
    b"zincr",
    b"zdecr",
    b"zexists",
    b"zsize",
    b"zkeys",
    b"zscan",
    b"zrscan",
    b"zrank",
    b"zrrank",
    b"zrange",
    b"zrrange",
    b"zclear",
    b"zfix",
    b"zcount",
    b"zsum",
    b"zavg",
    b"zremrangebyrank",
    b"zremrangebyscore",
    b"zpop_front",
    b"zpop_back",
    b"multi_zset",
    b"multi_zget",
    b"multi_zdel",
    b"multi_zexists",
    b"qpush",
    b"qpush_front",
    b"qpush_back",
    b"qpop",
    b"qpop_front",
    b"qpop_back",
    b"qsize",
    b"qclear",
    b"qfront",
    b"qback",
    b"qget",
    b"qset",
    b"qrange",
    b"qslice",
    b"qfix",
    b"qtrim_front",
    b"qtrim_back",
];

/// Returns whether a block of a request is a key; the command has place 0.
pub(super) fn is_key(name: &[u8], place: u32) -> bool {
    match name {
        b"multi_get" | b"multi_del" | b"multi_exists" => place > 0,
        b"multi_set" => place % 2 == 1,
        _ => place == 1 && FIRST_IS_KEY.contains(&name),
    }
}
