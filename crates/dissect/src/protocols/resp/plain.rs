//! What most commands and replies are: arrays of bulk strings, and one value, that lie in the frame at hand as a whole. They
//! are read at a stretch, and posted as the elements one by one would be. Anything else is left to these: a command or a
//! value that goes on in the next frame, is nested, or is not what it should be.

use super::decode::{INSPECTED, Resp};
use super::pair::Command;
use super::wire;
use crate::decode::{Malformed, Out, Posting, Reader};
use overhead_model::Account;

/// Arguments of a command that is read at a stretch.
const ARGUMENTS: usize = 8;
/// Longest text of a status or an integer.
const TEXT: usize = 64;

/// Postings of one command, a count and three of each argument, or of one value.
struct Sheet<const N: usize> {
    postings: [Posting; N],
    len: usize,
}

impl<const N: usize> Sheet<N> {
    #[inline]
    fn new() -> Self {
        Self { postings: [Posting { account: Account::Framing, field: "", len: 0 }; N], len: 0 }
    }

    #[inline]
    fn add(&mut self, account: Account, field: &'static str, len: usize) {
        if len > 0
            && let Some(place) = self.postings.get_mut(self.len)
        {
            *place = Posting { account, field, len: len as u64 };
            self.len += 1;
        }
    }

    #[inline]
    fn post<R: Reader>(&self, out: &mut Out<'_, R>) {
        out.post_all(self.postings.get(..self.len).unwrap_or_default());
    }
}

/// The number after a type byte, and the length of the line with both.
#[inline]
fn header(bytes: &[u8], kind: u8) -> Option<(usize, usize)> {
    let (first, rest) = bytes.split_first()?;
    if *first != kind {
        return None;
    }
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
type Arguments<'a> = [(usize, &'a [u8]); ARGUMENTS];

/// The command that `bytes` begin with: the length of its first line, its arguments and their number.
#[inline]
fn command<'a>(bytes: &'a [u8], arguments: &mut Arguments<'a>) -> Option<(usize, usize)> {
    let (count, first) = header(bytes, b'*')?;
    let mut rest = bytes.get(first..)?;
    if count == 0 {
        return None;
    }
    for place in arguments.get_mut(..count)? {
        *place = bulk(rest)?;
        rest = rest.get(place.0 + place.1.len() + 2..)?;
    }
    Some((first, count))
}

impl Resp {
    /// Decodes the command that `bytes` begin with, and gives its length; `None` where it is not plain, and nothing was done.
    #[inline]
    pub(super) fn plain_command<R: Reader>(
        &mut self,
        bytes: &[u8],
        out: &mut Out<'_, R>,
    ) -> Result<Option<usize>, Malformed> {
        let mut arguments: Arguments<'_> = [(0, &[]); ARGUMENTS];
        let Some((first, count)) = command(bytes, &mut arguments) else { return Ok(None) };
        let Self { request, pairing, .. } = self;
        request.command.begin(out.open(), count as u64);
        out.charge(request.command.op());
        let mut sheet = Sheet::<{ 1 + 3 * ARGUMENTS }>::new();
        sheet.add(Account::Framing, "argument count", first);
        let mut len = first;
        for (header, body) in arguments.iter().take(count) {
            let (account, field) = argument(&mut request.command, body, out);
            sheet.add(Account::Framing, "argument length", *header);
            sheet.add(account, field, body.len());
            sheet.add(Account::Framing, "CRLF", 2);
            len += header + body.len() + 2;
        }
        sheet.post(out);
        pairing.request(&request.command, out)?;
        Ok(Some(len))
    }

    /// Decodes the reply that `bytes` begin with, and gives its length; `None` where it is not plain, and nothing was done.
    #[inline]
    pub(super) fn plain_reply<R: Reader>(&mut self, bytes: &[u8], out: &mut Out<'_, R>) -> Option<usize> {
        let target = self.pairing.plain_target()?;
        let &kind = bytes.first()?;
        let mut sheet = Sheet::<3>::new();
        let len = match kind {
            b'+' | b'-' | b':' => {
                let line = bytes.get(..bytes.len().min(TEXT)).and_then(|near| {
                    let end = wire::line_feed(near)?;
                    near.get(..end)?.strip_suffix(b"\r")
                })?;
                sheet.add(Account::Framing, "type", 1);
                let (account, field) =
                    if kind == b':' { (target.leaves.integer, "integer") } else { (target.leaves.status, "text") };
                sheet.add(account, field, line.len() - 1);
                sheet.add(Account::Framing, "CRLF", 2);
                line.len() + 2
            }
            b'$' if bytes.starts_with(b"$-1\r\n") => {
                sheet.add(Account::Framing, "null", 5);
                5
            }
            b'$' => {
                let (header, body) = bulk(bytes)?;
                sheet.add(Account::Framing, "length", header);
                sheet.add(target.leaves.data, "value", body.len());
                sheet.add(Account::Framing, "CRLF", 2);
                header + body.len() + 2
            }
            _ => return None,
        };
        out.charge(target.op);
        sheet.post(out);
        self.pairing.reply(target, kind, out);
        Some(len)
    }
}

/// Account and field of the next argument, whose content is looked at where it matters.
#[inline]
fn argument<R: Reader>(command: &mut Command, body: &[u8], out: &mut Out<'_, R>) -> (Account, &'static str) {
    let word = (command.needs_content() && body.len() as u64 <= INSPECTED).then_some(body);
    let posted = command.argument(word);
    if let Some(word) = word {
        command.content(word, out);
    }
    posted
}
