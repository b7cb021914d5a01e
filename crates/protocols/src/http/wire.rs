//! Primitives: first lines, targets, and values that give the length of a body.

use crate::limits::SNIFF;
use overhead_decode::MessageBoundary;

/// Longest head. Most servers accept 8 to 64 KiB, Go 1 MiB; a request for thousands of keys carries them in its target.
pub(super) const MAX_HEAD: usize = 1 << 20;

/// Most bytes of empty lines before a message. Servers skip one or two lines at most.
pub(super) const MAX_EMPTY: usize = 256;

/// Longest chunk line, with extensions, which are rare.
pub(super) const MAX_CHUNK_LINE: usize = 4 << 10;

/// Longest trailers; they are searched again each time more bytes arrive.
pub(super) const MAX_TRAILERS: usize = 16 << 10;

/// Longest method (RFC 9110 section 16.1.2 registers none longer than 17).
const MAX_METHOD: usize = 24;

/// Methods of RFC 9110 section 9.3 and RFC 5789: one of them identifies a request whose target is too long to see.
const METHODS: [&[u8]; 9] = [b"GET", b"POST", b"PUT", b"HEAD", b"DELETE", b"OPTIONS", b"PATCH", b"CONNECT", b"TRACE"];

const VERSION: &[u8] = b"HTTP/1.";

/// Returns whether `bytes` start a request (section 3); only a limited window is inspected.
pub(super) fn begins_request(bytes: &[u8]) -> MessageBoundary {
    let len = bytes.iter().take(MAX_METHOD + 1).take_while(|byte| matches!(byte, b'A'..=b'Z' | b'-' | b'_')).count();
    let (method, rest) = bytes.split_at(len);
    let Some((&space, target)) = rest.split_first() else {
        return if len <= MAX_METHOD { MessageBoundary::More } else { MessageBoundary::No };
    };
    let is_word = (3..=MAX_METHOD).contains(&len) && method.first().is_some_and(u8::is_ascii_uppercase);
    if space != b' ' || !is_word {
        return MessageBoundary::No;
    }
    match target.iter().position(|byte| *byte == b'\n') {
        Some(end) => MessageBoundary::yes_if(target.get(..end).is_some_and(is_target_and_version)),
        // A space ends the target and a version follows, perhaps beyond what is inspected.
        None if target.contains(&b' ') => {
            let mut words = target.splitn(2, |byte| *byte == b' ');
            let [target, version] = [words.next(), words.next()].map(Option::unwrap_or_default);
            let is_version = version.starts_with(VERSION) || VERSION.starts_with(version);
            let is_target = !target.is_empty() && target.iter().all(|byte| is_of_target(*byte));
            let is_seen = version.starts_with(b"HTTP/") || METHODS.contains(&method);
            match is_version && is_target {
                true if bytes.len() < SNIFF => MessageBoundary::More,
                is_line => MessageBoundary::yes_if(is_line && is_seen),
            }
        }
        None if !target.iter().all(|byte| is_of_target(*byte)) => MessageBoundary::No,
        None if bytes.len() < SNIFF => MessageBoundary::More,
        None => MessageBoundary::yes_if(match method {
            b"CONNECT" => target.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~[]:".contains(byte)),
            _ => target.starts_with(b"/") || origin_len(target) > 0,
        }),
    }
}

/// Checks what follows the method of an incomplete request line.
fn is_target_and_version(text: &[u8]) -> bool {
    let words: Vec<&[u8]> = text.strip_suffix(b"\r").unwrap_or(text).splitn(3, |byte| *byte == b' ').collect();
    let [target, version] = words[..] else { return false };
    let is_version = version.strip_prefix(VERSION).is_some_and(|minor| matches!(minor, [b'0'..=b'9']));
    is_version && !target.is_empty() && target.iter().all(|byte| is_of_target(*byte))
}

fn is_of_target(byte: u8) -> bool {
    byte > b' ' && byte != 0x7f
}

/// Returns whether `bytes` start a response (section 4).
pub(super) fn begins_response(bytes: &[u8]) -> MessageBoundary {
    let prefix = bytes.get(..VERSION.len()).unwrap_or(bytes);
    if !VERSION.starts_with(prefix) {
        return MessageBoundary::No;
    }
    let is_due = |at: usize, byte: u8| match at {
        0 | 2..=4 => byte.is_ascii_digit(),
        1 => byte == b' ',
        _ => matches!(byte, b' ' | b'\r' | b'\n'),
    };
    let rest = bytes.get(prefix.len()..).unwrap_or_default();
    match rest.iter().take(6).enumerate().all(|(at, byte)| is_due(at, *byte)) {
        false => MessageBoundary::No,
        true if rest.len() >= 6 => MessageBoundary::Yes,
        true => MessageBoundary::More,
    }
}

/// Returns the status code of a response (section 4), or 0.
pub(super) fn status(head: &[u8]) -> u16 {
    let digits = head.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Returns whether `bytes` may start a request, valid or not: a token (RFC 9110 section 5.6.2) and a space.
pub(super) fn may_begin_request(bytes: &[u8]) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let len = bytes.iter().take(MAX_METHOD + 1).take_while(|byte| is_token(**byte)).count();
    (1..=MAX_METHOD).contains(&len) && bytes.get(len).is_none_or(|byte| *byte == b' ')
}

/// Returns whether `line` is an HTTP request, valid or not: it ends with the protocol's name and a version.
pub(super) fn is_request_line(line: &[u8]) -> bool {
    let text = line.trim_ascii_end();
    let Some((words, &[b' ', b'H', b'T', b'T', b'P', b'/', major, b'.', minor])) = text.split_last_chunk() else {
        return false;
    };
    may_begin_request(line) && !words.is_empty() && major.is_ascii_digit() && minor.is_ascii_digit()
}

/// Returns whether `bytes` start the HTTP/2 connection of a server: a SETTINGS frame of stream 0 (RFC 9113 section
/// 6.5), with a header of nine bytes.
pub(super) fn begins_http2(bytes: &[u8]) -> MessageBoundary {
    match bytes.first_chunk() {
        Some(&[0, 0, len, 4, 0, 0, 0, 0, 0]) => MessageBoundary::yes_if(len.is_multiple_of(6)),
        None if bytes.starts_with(&[0, 0]) || bytes == [0] => MessageBoundary::More,
        _ => MessageBoundary::No,
    }
}

/// A target (section 3.2): scheme and host, path, and the rest from the question mark on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestTarget<'a> {
    pub origin: &'a [u8],
    pub path: &'a [u8],
    pub query: &'a [u8],
}

impl<'a> RequestTarget<'a> {
    /// Splits a target. A target without a path (`*`, or a host and port) counts as one.
    pub fn new(target: &'a [u8]) -> Self {
        let (origin, rest) = target.split_at(origin_len(target));
        let path = rest.iter().position(|byte| *byte == b'?').unwrap_or(rest.len());
        let (path, query) = rest.split_at(path);
        Self { origin, path, query }
    }

    /// Returns the length of the path up to the end of its first segment.
    pub fn first_segment(&self) -> usize {
        let behind = self.path.iter().skip(1).position(|byte| *byte == b'/');
        behind.map_or(self.path.len(), |at| at + 1)
    }
}

/// Returns the length of scheme and host in a target in absolute form (section 3.2.2), or 0.
fn origin_len(target: &[u8]) -> usize {
    if target.starts_with(b"/") {
        return 0;
    }
    let Some(scheme) = target.windows(3).position(|part| part == b"://") else { return 0 };
    let host = target.get(scheme + 3..).unwrap_or_default();
    scheme + 3 + host.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(host.len())
}

/// Returns the length that a Content-Length states (section 6.3, rule 5); `None` if it states none or several.
pub(super) fn content_length(value: &[u8]) -> Option<u64> {
    let mut lengths = value.split(|byte| *byte == b',').map(|one| number(one.trim_ascii()));
    let first = lengths.next()??;
    lengths.all(|other| other == Some(first)).then_some(first)
}

fn number(digits: &[u8]) -> Option<u64> {
    let is_number = (1..=18).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

/// Returns the number of characters of the size in a chunk line (section 7.1), and the size.
pub(super) fn chunk_line(line: &[u8]) -> Option<(usize, u64)> {
    let len = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let digits = std::str::from_utf8(line.get(..len)?).ok().filter(|_| len <= 15)?;
    let is_ended = line.get(len).is_none_or(|byte| matches!(byte, b';' | b' ' | b'\t' | b'\r' | b'\n'));
    Some((len, u64::from_str_radix(digits, 16).ok().filter(|_| is_ended)?))
}

/// Returns name and version of the first product in a Server or User-Agent value (RFC 9110 section 10.1.5).
pub(super) fn product(value: &[u8]) -> Option<String> {
    let first =
        value.split(|byte| matches!(byte, b' ' | b'\t' | b'(' | b';')).next().filter(|word| !word.is_empty())?;
    Some(String::from_utf8_lossy(first).replacen('/', " ", 1))
}
