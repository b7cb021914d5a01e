//! The smallest parts of the protocol: what begins a message, targets, and values that say how long a body is.

use crate::limits::SNIFF;
use overhead_decode::Boundary;

/// Longest head of a message. Most servers take 8 to 64 KiB, that of Go 1 MiB; a request for thousands of keys has them in its target.
pub(super) const MAX_HEAD: usize = 1 << 20;

/// Most bytes of empty lines before a message. A server that passes over any does so over one or two.
pub(super) const MAX_EMPTY: usize = 256;

/// Longest line before a chunk, with its extensions, which nobody sends.
pub(super) const MAX_CHUNK_LINE: usize = 4 << 10;

/// Longest trailers, which are looked through with each piece that comes of them.
pub(super) const MAX_TRAILERS: usize = 16 << 10;

/// Longest method that is taken for one (RFC 9110 section 16.1.2 registers none longer than 17).
const MAX_METHOD: usize = 24;

/// Methods of RFC 9110 section 9.3 and RFC 5789: with these, the beginning of a long target is enough.
const METHODS: [&[u8]; 9] = [b"GET", b"POST", b"PUT", b"HEAD", b"DELETE", b"OPTIONS", b"PATCH", b"CONNECT", b"TRACE"];

/// What every message of HTTP/1 has in its first line.
const VERSION: &[u8] = b"HTTP/1.";

/// Whether `bytes`, of which so many are looked at as lie within a window, begin a request (section 3).
pub(super) fn begins_request(bytes: &[u8]) -> Boundary {
    let len = bytes.iter().take(MAX_METHOD + 1).take_while(|byte| is_method(**byte)).count();
    let (method, rest) = bytes.split_at(len);
    let Some((&space, target)) = rest.split_first() else {
        return if len <= MAX_METHOD { Boundary::More } else { Boundary::No };
    };
    let is_word = (3..=MAX_METHOD).contains(&len) && method.first().is_some_and(u8::is_ascii_uppercase);
    if space != b' ' || !is_word {
        return Boundary::No;
    }
    match target.iter().position(|byte| *byte == b'\n') {
        Some(end) => yes_or_no(target.get(..end).is_some_and(is_target_and_version)),
        // A space ends the target, and a version follows.
        None if target.contains(&b' ') => {
            let mut words = target.splitn(2, |byte| *byte == b' ');
            let [target, version] = [words.next(), words.next()].map(Option::unwrap_or_default);
            let is_version = version.starts_with(VERSION) || VERSION.starts_with(version);
            let is_target = !target.is_empty() && target.iter().all(|byte| is_of_target(*byte));
            if is_version && is_target { Boundary::More } else { Boundary::No }
        }
        None if !target.iter().all(|byte| is_of_target(*byte)) => Boundary::No,
        None if bytes.len() < SNIFF => Boundary::More,
        None => yes_or_no(METHODS.contains(&method) && (target.starts_with(b"/") || target.starts_with(b"http://"))),
    }
}

/// What follows the method in a request line without its end.
fn is_target_and_version(text: &[u8]) -> bool {
    let words: Vec<&[u8]> = text.strip_suffix(b"\r").unwrap_or(text).splitn(3, |byte| *byte == b' ').collect();
    let [target, version] = words[..] else { return false };
    let is_version = version.strip_prefix(VERSION).is_some_and(|minor| matches!(minor, [b'0'..=b'9']));
    is_version && !target.is_empty() && target.iter().all(|byte| is_of_target(*byte))
}

fn is_of_target(byte: u8) -> bool {
    byte > b' ' && byte != 0x7f
}

/// Whether `bytes` begin a response (section 4).
pub(super) fn begins_response(bytes: &[u8]) -> Boundary {
    let prefix = bytes.get(..VERSION.len()).unwrap_or(bytes);
    if !VERSION.starts_with(prefix) {
        return Boundary::No;
    }
    let is_due = |at: usize, byte: u8| match at {
        0 | 2..=4 => byte.is_ascii_digit(),
        1 => byte == b' ',
        _ => matches!(byte, b' ' | b'\r' | b'\n'),
    };
    let rest = bytes.get(prefix.len()..).unwrap_or_default();
    match rest.iter().take(6).enumerate().all(|(at, byte)| is_due(at, *byte)) {
        false => Boundary::No,
        true if rest.len() >= 6 => Boundary::Yes,
        true => Boundary::More,
    }
}

/// The status code of a response (section 4); 0 where it has none.
pub(super) fn status(head: &[u8]) -> u16 {
    let digits = head.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

fn yes_or_no(is: bool) -> Boundary {
    if is { Boundary::Yes } else { Boundary::No }
}

fn is_method(byte: u8) -> bool {
    byte.is_ascii_uppercase() || matches!(byte, b'-' | b'_')
}

/// Returns whether `bytes` can begin a request, whatever server is to refuse it: a token (RFC 9110 section 5.6.2), and a space.
pub(super) fn may_begin_request(bytes: &[u8]) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let len = bytes.iter().take(MAX_METHOD + 1).take_while(|byte| is_token(**byte)).count();
    (1..=MAX_METHOD).contains(&len) && bytes.get(len).is_none_or(|byte| *byte == b' ')
}

/// Returns whether `line` is a request of this protocol, though maybe a bad one: it ends in its name and a version.
pub(super) fn is_request_line(line: &[u8]) -> bool {
    let text = line.trim_ascii_end();
    let Some((words, &[b' ', b'H', b'T', b'T', b'P', b'/', major, b'.', minor])) = text.split_last_chunk() else {
        return false;
    };
    may_begin_request(line) && !words.is_empty() && major.is_ascii_digit() && minor.is_ascii_digit()
}

/// The first line of what a client of HTTP/2 begins with (RFC 9113 section 3.4).
pub(super) fn is_http2_preface(line: &[u8]) -> bool {
    line == b"PRI * HTTP/2.0\r\n"
}

/// Returns whether a server begins HTTP/2 here: a SETTINGS frame of stream 0 (RFC 9113 section 6.5), whose header is nine bytes.
pub(super) fn begins_http2(bytes: &[u8]) -> Boundary {
    match bytes.first_chunk() {
        Some(&[0, 0, len, 4, 0, 0, 0, 0, 0]) => yes_or_no(len.is_multiple_of(6)),
        None if bytes.starts_with(&[0, 0]) || bytes == [0] => Boundary::More,
        _ => Boundary::No,
    }
}

/// A target (section 3.2) in three parts: scheme and host, path, and what follows it from the question mark on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestTarget<'a> {
    pub origin: &'a [u8],
    pub path: &'a [u8],
    pub query: &'a [u8],
}

impl<'a> RequestTarget<'a> {
    /// Divides a target; what is no path and has none (`*`, a host and port) counts as one.
    pub fn of(target: &'a [u8]) -> Self {
        let (origin, rest) = target.split_at(origin_len(target));
        let path = rest.iter().position(|byte| *byte == b'?').unwrap_or(rest.len());
        let (path, query) = rest.split_at(path);
        Self { origin, path, query }
    }

    /// Returns how long the path is up to the end of its first segment.
    pub fn first_segment(&self) -> usize {
        let behind = self.path.iter().skip(1).position(|byte| *byte == b'/');
        behind.map_or(self.path.len(), |at| at + 1)
    }
}

/// How long scheme and host are in a target of absolute form (section 3.2.2); 0 in others.
fn origin_len(target: &[u8]) -> usize {
    if target.starts_with(b"/") {
        return 0;
    }
    let Some(scheme) = target.windows(3).position(|part| part == b"://") else { return 0 };
    let host = target.get(scheme + 3..).unwrap_or_default();
    scheme + 3 + host.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(host.len())
}

/// The one length that a value of Content-Length says (section 6.3, rule 5); `None` where it says none, or several.
pub(super) fn content_length(value: &[u8]) -> Option<u64> {
    let mut lengths = value.split(|byte| *byte == b',').map(|one| number(one.trim_ascii()));
    let first = lengths.next()??;
    lengths.all(|other| other == Some(first)).then_some(first)
}

fn number(digits: &[u8]) -> Option<u64> {
    let is_number = (1..=18).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

/// Returns how many characters the size has in the line before a chunk (section 7.1), and the size.
pub(super) fn chunk_line(line: &[u8]) -> Option<(usize, u64)> {
    let len = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let digits = std::str::from_utf8(line.get(..len)?).ok().filter(|_| len <= 15)?;
    let is_ended = line.get(len).is_none_or(|byte| matches!(byte, b';' | b' ' | b'\t' | b'\r' | b'\n'));
    Some((len, u64::from_str_radix(digits, 16).ok().filter(|_| is_ended)?))
}

/// Returns name and version of the first product that a value of Server or User-Agent names (RFC 9110 section 10.1.5).
pub(super) fn product(value: &[u8]) -> Option<String> {
    let first =
        value.split(|byte| matches!(byte, b' ' | b'\t' | b'(' | b';')).next().filter(|word| !word.is_empty())?;
    Some(String::from_utf8_lossy(first).replacen('/', " ", 1))
}
