//! What most commands and replies are: arrays of bulk strings, and one value, that lie in the frame at hand as a whole. They
//! are read at a stretch, and posted as the elements one by one would be. Anything else is left to these: a command or a
//! value that goes on in the next frame, is nested, or is not what it should be.

use super::command::{Command, Field};
use super::decode::{INSPECTED, Resp};
use super::pair::Target;
use arrayvec::ArrayVec;
use overhead_decode::near;
use overhead_decode::{Free, Malformed, Out, Reader};
use overhead_model::Account;

/// Arguments of a command that is read at a stretch.
const ARGUMENTS: usize = 8;
/// Longest text of a status or an integer.
const TEXT: usize = 64;

/// The number after a type byte, and the length of the line with both.
#[inline]
fn header(bytes: &[u8], kind: u8) -> Option<(usize, usize)> {
    let (&first, rest) = bytes.split_first()?;
    if first != kind {
        return None;
    }
    let value = |digit: &u8| usize::from(digit - b'0');
    match rest {
        [a @ b'0'..=b'9', b'\r', b'\n', ..] => Some((value(a), 4)),
        [a @ b'0'..=b'9', b @ b'0'..=b'9', b'\r', b'\n', ..] => Some((10 * value(a) + value(b), 5)),
        _ => long_header(rest),
    }
}

/// The same for numbers of more digits.
fn long_header(rest: &[u8]) -> Option<(usize, usize)> {
    let mut number = 0;
    for (digits, &byte) in rest.iter().take(8).enumerate() {
        match byte {
            b'0'..=b'9' => number = number * 10 + usize::from(byte - b'0'),
            b'\r' if digits > 0 && rest.get(digits + 1) == Some(&b'\n') => return Some((number, digits + 3)),
            _ => return None,
        }
    }
    None
}

/// The bulk string that `bytes` begin with: its header's length and its body.
#[inline]
fn bulk(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (len, header) = header(bytes, b'$')?;
    let body = bytes.get(header..)?;
    (body.get(len..len + 2)? == b"\r\n").then(|| (header, body.get(..len).unwrap_or_default()))
}

/// Where the arguments of a command are: the length of each header, and each body.
type Arguments<'a> = ArrayVec<(usize, &'a [u8]), ARGUMENTS>;

/// The arguments of the command that `bytes` begin with; gives the length of its first line.
#[inline]
fn command<'a>(bytes: &'a [u8], arguments: &mut Arguments<'a>) -> Option<usize> {
    let (count, first) = header(bytes, b'*')?;
    let mut rest = bytes.get(first..)?;
    if count == 0 || count > ARGUMENTS {
        return None;
    }
    for _ in 0..count {
        let (header, body) = bulk(rest)?;
        rest = rest.get(header + body.len() + 2..)?;
        arguments.try_push((header, body)).ok()?;
    }
    Some(first)
}

impl Resp {
    /// Decodes the command that `bytes` begin with, and gives its length; `None` where it is not plain, and nothing was done.
    #[inline]
    pub(super) fn plain_command<R: Reader>(
        &mut self,
        bytes: &[u8],
        out: &mut Out<'_, R>,
    ) -> Result<Option<usize>, Malformed> {
        let mut arguments = Arguments::new();
        let Some(first) = command(bytes, &mut arguments) else { return Ok(None) };
        let Self { request, pairing, .. } = self;
        request.command.begin(out.open(), arguments.len() as u64);
        let word = arguments.first().map_or(&[][..], |(_, body)| body);
        let places = request.command.places(word);
        out.charge(request.command.op);
        out.post(Account::Framing, "argument count", first as u64);
        let mut len = first;
        for (place, (header, body)) in arguments.iter().enumerate() {
            let field = match places {
                Some(places) => places.argument(place),
                None => argument(&mut request.command, body, out),
            };
            out.post(Account::Framing, "argument length", *header as u64);
            field.post(body.len() as u64, out);
            out.post(Account::Framing, "CRLF", 2);
            len += header + body.len() + 2;
        }
        pairing.request(&request.command, out)?;
        Ok(Some(len))
    }

    /// Decodes the reply that `bytes` begin with, and gives its length; `None` where it is not plain, and nothing was done.
    #[inline]
    pub(super) fn plain_reply<R: Reader>(&mut self, bytes: &[u8], out: &mut Out<'_, R>) -> Option<usize> {
        let target = self.pairing.plain_target()?;
        let &kind = bytes.first()?;
        let Target { op, leaves, .. } = target;
        let len = match kind {
            b'+' | b'-' | b':' => {
                let line = bytes.get(..bytes.len().min(TEXT)).and_then(|start| {
                    let end = near::find(b'\n', start)?;
                    start.get(..end)?.strip_suffix(b"\r")
                })?;
                let len = line.len() as u64 - 1;
                out.charge(op);
                out.post(Account::Framing, "type", 1);
                if kind == b':' {
                    out.post_free(leaves.integer, "integer", len, Free::Digits);
                } else {
                    out.post(leaves.status, "text", len);
                }
                out.post(Account::Framing, "CRLF", 2);
                line.len() + 2
            }
            b'$' if bytes.starts_with(b"$-1\r\n") => {
                out.charge(op);
                out.post(Account::Framing, "null", 5);
                5
            }
            b'$' => {
                let (header, body) = bulk(bytes)?;
                out.charge(op);
                out.post(Account::Framing, "length", header as u64);
                out.post_free(leaves.data, "value", body.len() as u64, Free::Any);
                out.post(Account::Framing, "CRLF", 2);
                header + body.len() + 2
            }
            _ => return None,
        };
        self.pairing.reply(target, kind, out);
        Some(len)
    }
}

/// Returns what the next argument is, whose content is looked at where it matters.
#[inline]
fn argument<R: Reader>(command: &mut Command, body: &[u8], out: &mut Out<'_, R>) -> Field {
    let word = (command.needs_content() && body.len() as u64 <= INSPECTED).then_some(body);
    let field = command.argument(word);
    if let Some(word) = word {
        command.content(word, out);
    }
    field
}
