//! Parses heads and trailers, and posts their bytes.

use super::wire::{self, RequestTarget};
use crate::pattern;
use httparse::{Error, Header, ParserConfig, Status};
use overhead_decode::{DecodeStep, Free, Malformed, Note, Out, Reader, near};
use overhead_model::Account::{self, Data, Framing, Metadata, Query, Unknown};
use overhead_model::Side;
use std::mem::MaybeUninit;

/// Header fields that httparse has room for without allocation.
const FEW: usize = 64;

/// Header fields that determine the body's length and what follows the message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HeadFields {
    pub content: Option<DecodeStep<u64>>,
    /// There is a Transfer-Encoding, which overrides Content-Length (section 6.3, rule 3).
    pub is_coded: bool,
    pub is_chunked: bool,
    /// The protocol to upgrade to (RFC 9110 section 7.8).
    pub upgrade: Option<&'static str>,
    /// The client waits for `100 Continue` before it sends the body, if at all (RFC 9110 section 10.1.1).
    pub waits: bool,
}

/// The methods that affect how a response is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpMethod {
    Head,
    /// A successful response turns the connection into a tunnel.
    Connect,
    Other,
}

/// Returns the end of the head at the start of `bytes`, after its empty line, searching from `from` on.
pub fn end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += 1 + near::find(b'\n', bytes.get(at..)?)?;
        match bytes.get(at..)? {
            [b'\n', ..] => return Some(at + 1),
            [b'\r', b'\n', ..] => return Some(at + 2),
            _ => {}
        }
    }
}

const CONFLICT: Malformed = Malformed("a Content-Length that is no length, or several that differ");

/// How to post a head, and where its results go.
pub(super) struct HeadOptions<'n> {
    /// Bytes to post; fewer than the head if an empty line was appended to complete it.
    pub len: usize,
    /// Whether the software on this side is known: it is reported once.
    pub knows_software: &'n mut bool,
    pub name: &'n mut String,
    pub statement: &'n mut String,
}

/// Posts the head of a request and returns its fields. A malformed head is posted to `unknown`.
pub fn request<R: Reader>(
    head: &[u8],
    heading: &mut HeadOptions<'_>,
    out: &mut Out<'_, R>,
) -> Option<(HttpMethod, HeadFields)> {
    let mut config = ParserConfig::default();
    config.ignore_invalid_headers_in_requests(true);
    let mut few = [const { MaybeUninit::uninit() }; FEW];
    let mut many = Vec::new();
    let mut request = httparse::Request::new(&mut []);
    let mut parsed = config.parse_request_with_uninit_headers(&mut request, head, &mut few);
    if parsed == Err(Error::TooManyHeaders) {
        many.resize(lines(head), MaybeUninit::uninit());
        parsed = config.parse_request_with_uninit_headers(&mut request, head, &mut many);
    }
    let (Ok(Status::Complete(_)), Some(method), Some(target)) = (parsed, request.method, request.path) else {
        if let Some(head) = with_plain_target(head) {
            return self::request(&head, heading, out);
        }
        undecoded(heading.len, out);
        return None;
    };
    let has_statement = out.wants_statements();
    let mut parts = HeadCursor::new(head, heading.len, out);
    parts.take(method.as_bytes(), Query, "method");
    let target = RequestTarget::new(target.as_bytes());
    post_target(target, &mut parts);
    parts.take(version(head), Framing, "version");
    let lengths = fields(request.headers, Side::Request, heading.knows_software, &mut parts);
    parts.finish();
    name(method, target, heading.name);
    heading.statement.clear();
    if has_statement {
        write_statement(method, target.path, heading.statement);
    }
    let method = match method {
        "HEAD" => HttpMethod::Head,
        "CONNECT" => HttpMethod::Connect,
        _ => HttpMethod::Other,
    };
    Some((method, lengths))
}

/// Posts the head of a response, up to `len` bytes, and returns its fields. A malformed head is posted to `unknown`.
pub fn response<R: Reader>(
    head: &[u8],
    len: usize,
    knows_software: &mut bool,
    out: &mut Out<'_, R>,
) -> Option<HeadFields> {
    let mut config = ParserConfig::default();
    config
        .ignore_invalid_headers_in_responses(true)
        .allow_spaces_after_header_name_in_responses(true)
        .allow_obsolete_multiline_headers_in_responses(true);
    let mut few = [const { MaybeUninit::uninit() }; FEW];
    let mut many = Vec::new();
    let mut response = httparse::Response::new(&mut []);
    let mut parsed = config.parse_response_with_uninit_headers(&mut response, head, &mut few);
    if parsed == Err(Error::TooManyHeaders) {
        many.resize(lines(head), MaybeUninit::uninit());
        parsed = config.parse_response_with_uninit_headers(&mut response, head, &mut many);
    }
    let Ok(Status::Complete(_)) = parsed else {
        undecoded(len, out);
        return None;
    };
    let line = first_line(head);
    let mut parts = HeadCursor::new(head, len, out);
    parts.take(line.get(..8).unwrap_or_default(), Framing, "version");
    parts.take(line.get(9..12).unwrap_or_default(), Account::Status, "status code");
    parts.take(line.get(13..).unwrap_or_default(), Account::Status, "reason");
    let lengths = fields(response.headers, Side::Response, knows_software, &mut parts);
    parts.finish();
    Some(lengths)
}

/// Posts the fields behind the last chunk (section 7.1.2), and the empty line that ends them.
pub fn trailers<R: Reader>(bytes: &[u8], out: &mut Out<'_, R>) {
    let mut headers = vec![httparse::EMPTY_HEADER; lines(bytes)];
    let Ok(Status::Complete((_, headers))) = httparse::parse_headers(bytes, &mut headers) else {
        return undecoded(bytes.len(), out);
    };
    let mut parts = HeadCursor::new(bytes, bytes.len(), out);
    fields(headers, Side::Request, &mut true, &mut parts);
    parts.finish();
}

/// Replaces bytes beyond ASCII in the target by underscores: servers accept them although the specification does not.
/// Returns `None` if there are none.
fn with_plain_target(head: &[u8]) -> Option<Vec<u8>> {
    let start = head.len() - head.trim_ascii_start().len();
    let line = first_line(head);
    let from = near::find(b' ', line)? + 1;
    let to = line.iter().rposition(|byte| *byte == b' ').filter(|to| *to > from)?;
    if line.get(from..to)?.is_ascii() {
        return None;
    }
    let mut plain = head.to_vec();
    plain.get_mut(start + from..start + to)?.iter_mut().filter(|byte| !byte.is_ascii()).for_each(|byte| *byte = b'_');
    Some(plain)
}

fn undecoded<R: Reader>(len: usize, out: &mut Out<'_, R>) {
    out.note(Note::UndecodedMessage);
    out.post(Unknown, "undecoded", len as u64);
}

fn lines(head: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', head).count()
}

fn first_line(head: &[u8]) -> &[u8] {
    let head = head.trim_ascii_start();
    let line = near::find(b'\n', head).and_then(|end| head.get(..end)).unwrap_or_default();
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn version(head: &[u8]) -> &[u8] {
    first_line(head).last_chunk::<8>().map_or(&[], |version| version.as_slice())
}

/// Returns the method if it looks like one.
fn shown_method(method: &str) -> &str {
    if pattern::is_command(method) { method } else { "(unknown)" }
}

/// Writes the operation's name: the method, and the path up to its second slash, with tokens masked.
fn name(method: &str, target: RequestTarget<'_>, name: &mut String) {
    let segment = target.path.get(..target.first_segment()).unwrap_or_default();
    name.clear();
    name.push_str(shown_method(method));
    name.push(' ');
    name.push_str(&pattern::segment_pattern(if segment.is_empty() { b"/" } else { segment }));
}

/// Writes the method and the pattern of the path. The query part is user data and left out.
fn write_statement(method: &str, path: &[u8], statement: &mut String) {
    statement.push_str(shown_method(method));
    statement.push(' ');
    if path.is_empty() {
        statement.push('/');
    }
    pattern::push(path, statement);
}

fn post_target<R: Reader>(target: RequestTarget<'_>, parts: &mut HeadCursor<'_, '_, '_, R>) {
    let (named, further) = target.path.split_at(target.first_segment());
    parts.take(target.origin, Metadata, "scheme and host");
    parts.take(named, Query, "path");
    parts.take_free(further, Query, "path");
    let mut rest = target.query;
    while let Some(first) = rest.first() {
        let is_delimiter = |byte: &u8| matches!(byte, b'?' | b'&' | b'=');
        let (here, account) = if is_delimiter(first) { (1, Framing) } else { (0, Data) };
        let len = rest.iter().skip(here).position(is_delimiter).map_or(rest.len(), |at| at + here);
        let (part, behind) = rest.split_at(if here == 1 { 1 } else { len });
        match account {
            Framing => parts.take(part, account, "query delimiter"),
            _ => parts.take_free(part, account, "query"),
        }
        rest = behind;
    }
}

fn fields<R: Reader>(
    headers: &[Header<'_>],
    side: Side,
    knows_software: &mut bool,
    parts: &mut HeadCursor<'_, '_, '_, R>,
) -> HeadFields {
    let mut lengths = HeadFields::default();
    let software = if side == Side::Request { "user-agent" } else { "server" };
    for Header { name, value } in headers {
        parts.take(name.as_bytes(), Metadata, "header name");
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        match name.len() {
            14 if is("content-length") => {
                lengths.read_length(value);
                parts.take(value, Framing, "content length");
                continue;
            }
            17 if is("transfer-encoding") => lengths.read_coding(value),
            7 if is("upgrade") => lengths.upgrade = Some(protocol(value)),
            6 if is("expect") => lengths.waits |= value.trim_ascii().eq_ignore_ascii_case(b"100-continue"),
            6 | 10 if !*knows_software && is(software) => {
                if let Some(product) = wire::product(value) {
                    parts.out.software(side, &product);
                    *knows_software = true;
                }
            }
            _ => {
                parts.take_free(value, Metadata, "header value");
                continue;
            }
        }
        parts.take(value, Metadata, "header value");
    }
    lengths
}

impl HeadFields {
    fn read_length(&mut self, value: &[u8]) {
        let said = wire::content_length(value).ok_or(CONFLICT);
        let agrees = self.content.is_none_or(|before| before == said);
        self.content = Some(if agrees { said } else { Err(CONFLICT) });
    }

    fn read_coding(&mut self, value: &[u8]) {
        let last = value.rsplit(|byte| *byte == b',').next().unwrap_or_default().trim_ascii();
        // Treated as absent (RFC 2616 section 3.6).
        if !last.eq_ignore_ascii_case(b"identity") {
            self.is_coded = true;
            self.is_chunked = last.eq_ignore_ascii_case(b"chunked");
        }
    }
}

/// Returns the display name of the protocol to upgrade to (RFC 9110 section 7.8).
fn protocol(value: &[u8]) -> &'static str {
    let value = value.trim_ascii();
    let is = |name: &[u8]| value.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    if is(b"websocket") {
        "WebSocket"
    } else if is(b"h2c") {
        "HTTP/2"
    } else {
        "another protocol"
    }
}

/// Posts a head part by part, with the delimiters between them.
struct HeadCursor<'a, 'o, 'r, R: Reader> {
    head: &'a [u8],
    at: usize,
    len: usize,
    out: &'o mut Out<'r, R>,
}

impl<'a, 'o, 'r, R: Reader> HeadCursor<'a, 'o, 'r, R> {
    fn new(head: &'a [u8], len: usize, out: &'o mut Out<'r, R>) -> Self {
        Self { head, at: 0, len, out }
    }

    fn take(&mut self, part: &[u8], account: Account, field: &'static str) {
        if !part.is_empty() {
            self.between(self.place(part));
            self.out.post(account, field, part.len() as u64);
            self.at += part.len();
        }
    }

    /// Posts a part that is only searched for delimiters.
    fn take_free(&mut self, part: &[u8], account: Account, field: &'static str) {
        if !part.is_empty() {
            self.between(self.place(part));
            self.out.post_free(account, field, part.len() as u64, Free::Digits);
            self.at += part.len();
        }
    }

    fn place(&self, part: &[u8]) -> usize {
        part.as_ptr().addr().saturating_sub(self.head.as_ptr().addr()).clamp(self.at, self.len)
    }

    /// Posts everything before `at`: colons, spaces, line ends, and lines that are not fields.
    fn between(&mut self, at: usize) {
        let between = self.head.get(self.at..at).unwrap_or_default();
        let is_text = |byte: &u8| !b" \t\r\n:".contains(byte);
        let from = between.iter().position(is_text).unwrap_or(between.len());
        let to = between.iter().rposition(is_text).map_or(from, |last| last + 1);
        self.out.post(Framing, "delimiter", from as u64);
        self.out.post(Metadata, "not a header", (to - from) as u64);
        self.out.post(Framing, "delimiter", (between.len() - to) as u64);
        self.at = at;
    }

    fn finish(mut self) {
        self.between(self.len);
    }
}
