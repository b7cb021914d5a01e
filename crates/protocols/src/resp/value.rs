//! One RESP value of any type and nesting, consumed piece by piece.

use super::wire::{self, BulkString, MAX_BULK, MAX_COUNT};
use crate::limits;
use overhead_decode::{DecodeStep, Free, Input, Malformed, MaybeStep, Out, Reader, Step, near};
use overhead_model::Account;

/// Longest body whose content is read, and waited for.
const INSPECTED: u64 = 4096;

/// Accounts of the leaves, depending on the command. All other leaves are data.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeafAccounts {
    pub status: Account,
    pub integer: Account,
    /// The content of leaves does not matter.
    pub free: bool,
}

#[derive(Debug, Default)]
pub(super) struct RespValue {
    /// Open aggregates, innermost last.
    stack: Vec<OpenAggregate>,
    body: Option<BulkBody>,
    /// In a simple string or error longer than a line that is waited for; the account of its text.
    text: Option<Account>,
    /// In a streamed string.
    chunks: bool,
    /// Type byte of the outermost value, once read.
    pub kind: u8,
    /// Bytes of the current line known to hold no LF.
    scanned: usize,
}

#[derive(Clone, Copy, Debug)]
struct OpenAggregate {
    kind: u8,
    /// Elements left; `None` in a streamed aggregate.
    left: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct BulkBody {
    /// Length of the tag before a verbatim string (`txt:`).
    tag: u8,
    left: u64,
    /// Short enough to be waited for if an observer wants it.
    is_moderate: bool,
    account: Account,
    /// Its content does not matter.
    free: bool,
}

/// Called with type byte and text of every leaf of moderate size.
pub(super) type LeafListener<'i> = &'i mut dyn FnMut(u8, &[u8]);

struct LeafObserver<'i> {
    leaves: LeafAccounts,
    wanted: bool,
    observe: LeafListener<'i>,
}

impl RespValue {
    pub fn reset(&mut self) {
        self.stack.clear();
        (self.body, self.text) = (None, None);
        self.chunks = false;
        self.kind = 0;
        self.scanned = 0;
    }

    /// Consumes as much of the value as `input` contains, and returns the step to stop with if it is incomplete. `inspect` sees
    /// every leaf of moderate size.
    pub fn run<R: Reader>(
        &mut self,
        input: &mut Input<'_>,
        leaves: LeafAccounts,
        inspect: Option<LeafListener<'_>>,
        out: &mut Out<'_, R>,
    ) -> MaybeStep {
        let mut unobserved = |_, _: &[u8]| {};
        let mut observer =
            LeafObserver { leaves, wanted: inspect.is_some(), observe: inspect.unwrap_or(&mut unobserved) };
        loop {
            if let Some(body) = self.body {
                if let Some(step) = self.run_body(body, input, &mut observer, out)? {
                    return Ok(Some(step));
                }
            } else if let Some(account) = self.text {
                if let Some(step) = self.run_text(account, input, out)? {
                    return Ok(Some(step));
                }
            } else if let Some(bulk) = BulkString::read(input.bytes).filter(|_| !self.chunks) {
                self.whole_bulk(bulk, &mut observer, out);
                input.bytes = bulk.rest;
            } else {
                let line = match wire::line(input.bytes, self.scanned) {
                    Err(_) if self.begin_text(input, leaves, out) => continue,
                    line => line?,
                };
                let Some(line) = line else {
                    self.scanned = input.bytes.len();
                    return input.await_more("a header line that was not captured").map(Some);
                };
                self.scanned = 0;
                let complete = self.header(line, &mut observer, out)?;
                input.advance(line.len() as u64 + 2);
                if !complete {
                    continue;
                }
            }
            if self.element_done() {
                return Ok(None);
            }
        }
    }

    /// Starts a simple string or error without an end in sight, and returns true, if there is one.
    #[cold]
    fn begin_text<R: Reader>(&mut self, input: &mut Input<'_>, leaves: LeafAccounts, out: &mut Out<'_, R>) -> bool {
        let Some(&kind @ (b'+' | b'-')) = input.bytes.first() else { return false };
        if self.chunks || near::find(b'\n', input.bytes).is_some() {
            return false;
        }
        if self.kind == 0 {
            self.kind = kind;
        }
        out.post(Account::Framing, "type", 1);
        input.advance(1);
        (self.text, self.scanned) = (Some(leaves.status), 0);
        true
    }

    /// Posts part of such a text; returns the step to stop with if more is needed.
    #[cold]
    fn run_text<R: Reader>(&mut self, account: Account, input: &mut Input<'_>, out: &mut Out<'_, R>) -> MaybeStep {
        let end = near::find(b'\n', input.bytes);
        let text = input.bytes.get(..end.unwrap_or(input.bytes.len())).unwrap_or_default();
        let before = text.strip_suffix(b"\r");
        out.post(account, "text", before.unwrap_or(text).len() as u64);
        input.advance(before.unwrap_or(text).len() as u64);
        match (end, before) {
            (Some(_), Some(_)) => {
                out.post(Account::Framing, "CRLF", 2);
                input.advance(2);
                self.text = None;
                Ok(None)
            }
            (Some(_), None) => Err(Malformed("a line that ends in LF alone")),
            (None, _) => input.await_more("the end of a text that was not captured").map(Some),
        }
    }

    #[inline]
    fn whole_bulk<R: Reader>(&mut self, bulk: BulkString<'_>, observer: &mut LeafObserver<'_>, out: &mut Out<'_, R>) {
        let (BulkString { header, body, .. }, leaves) = (bulk, observer.leaves);
        if self.kind == 0 {
            self.kind = b'$';
        }
        self.scanned = 0;
        if observer.wanted && !body.is_empty() && body.len() as u64 <= INSPECTED {
            (observer.observe)(b'$', body);
        }
        let (header, len) = (header as u64, body.len() as u64);
        if leaves.free {
            out.free(header, len, Free::Any);
        }
        let (length, end) = ((Account::Framing, "length", header), (Account::Framing, "CRLF", 2));
        out.post_all([length, (Account::Data, "value", len), end]);
    }

    /// Posts part of the body of a bulk string; returns the step to stop with if more is needed.
    fn run_body<R: Reader>(
        &mut self,
        body: BulkBody,
        input: &mut Input<'_>,
        observer: &mut LeafObserver<'_>,
        out: &mut Out<'_, R>,
    ) -> MaybeStep {
        if body.tag > 0 {
            let tag = u64::from(body.tag);
            if input.available() < tag {
                return Ok(Some(Step::Need(tag)));
            }
            out.post(Account::Framing, "string type", tag);
            input.advance(tag);
        }
        let body = BulkBody { tag: 0, ..body };
        self.body = Some(body);
        if body.left > 0 {
            if observer.wanted && body.is_moderate {
                if input.available() < body.left {
                    return Ok(Some(Step::Need(body.left)));
                }
                (observer.observe)(b'$', input.bytes.get(..body.left as usize).unwrap_or_default());
            }
            let taken = body.left.min(input.available());
            out.post_maybe_free(body.account, "value", taken, body.free.then_some(Free::Any));
            input.advance(taken);
            self.body = Some(BulkBody { left: body.left - taken, ..body });
            if taken < body.left {
                return Ok(Some(Step::More));
            }
        }
        if input.available() < 2 {
            return Ok(Some(Step::Need(2)));
        }
        end_of_bulk(input, out)?;
        self.body = None;
        Ok(None)
    }

    /// Posts a header line; returns true if it is a complete value.
    fn header<R: Reader>(
        &mut self,
        line: &[u8],
        observer: &mut LeafObserver<'_>,
        out: &mut Out<'_, R>,
    ) -> DecodeStep<bool> {
        let leaves = observer.leaves;
        let Some((&kind, rest)) = line.split_first() else { return Err(Malformed("an empty line")) };
        if self.kind == 0 {
            self.kind = kind;
        }
        if self.chunks && kind != b';' {
            return Err(Malformed("a streamed string with something else in it"));
        }
        let complete = match kind {
            b'+' | b'-' => scalar(rest, leaves.status, "text", false, out),
            b':' => {
                (observer.observe)(kind, rest);
                scalar(rest, leaves.integer, "integer", leaves.free, out)
            }
            b',' | b'(' | b'#' => {
                (observer.observe)(kind, rest);
                scalar(rest, Account::Data, "value", leaves.free, out)
            }
            b'_' => scalar(rest, Account::Framing, "null", false, out),
            b'$' | b'=' | b'!' | b';' => self.bulk(kind, rest, leaves, out)?,
            b'*' | b'~' | b'%' | b'>' | b'|' => self.aggregate(kind, rest, out)?,
            b'.' if self.stack.last().is_some_and(|open| open.left.is_none()) => {
                out.post(Account::Framing, "end of stream", line.len() as u64 + 2);
                self.stack.pop();
                true
            }
            _ => return Err(Malformed("a type byte that RESP does not have")),
        };
        Ok(complete)
    }

    fn bulk<R: Reader>(
        &mut self,
        kind: u8,
        rest: &[u8],
        leaves: LeafAccounts,
        out: &mut Out<'_, R>,
    ) -> DecodeStep<bool> {
        let account = if kind == b'!' { leaves.status } else { Account::Data };
        let header = rest.len() as u64 + 3;
        if rest == b"?" && kind == b'$' {
            self.chunks = true;
            out.post(Account::Framing, "streamed string", header);
            return Ok(false);
        }
        let len = match wire::number(rest) {
            Some(-1) if kind == b'$' => {
                out.post(Account::Framing, "null", header);
                return Ok(true);
            }
            Some(len) if u64::try_from(len).is_ok_and(|len| len <= MAX_BULK) => len as u64,
            _ => return Err(Malformed("the length of a string")),
        };
        out.post(Account::Framing, "length", header);
        if kind == b';' && len == 0 {
            self.chunks = false;
            return Ok(true);
        }
        let tag = if kind == b'=' { len.min(4) } else { 0 };
        let left = len - tag;
        let free = leaves.free && kind != b'!';
        self.body = Some(BulkBody { tag: tag as u8, left, is_moderate: left <= INSPECTED, account, free });
        Ok(false)
    }

    fn aggregate<R: Reader>(&mut self, kind: u8, rest: &[u8], out: &mut Out<'_, R>) -> DecodeStep<bool> {
        let header = rest.len() as u64 + 3;
        let left = if rest == b"?" {
            None
        } else {
            match wire::number(rest) {
                Some(-1) if kind == b'*' => {
                    out.post(Account::Framing, "null", header);
                    return Ok(true);
                }
                Some(count) if u64::try_from(count).is_ok_and(|count| count <= MAX_COUNT) => {
                    let pairs = if matches!(kind, b'%' | b'|') { 2 } else { 1 };
                    Some(count as u64 * pairs)
                }
                _ => return Err(Malformed("the count of an aggregate")),
            }
        };
        if self.stack.len() >= limits::NESTING {
            return Err(Malformed("aggregates nested too deeply"));
        }
        out.post(Account::Framing, "count", header);
        if left == Some(0) {
            if kind == b'|' && self.stack.is_empty() {
                self.kind = 0;
            }
            return Ok(kind != b'|');
        }
        self.stack.push(OpenAggregate { kind, left });
        Ok(false)
    }

    /// Ends an element; returns true if the whole value is complete.
    fn element_done(&mut self) -> bool {
        if self.chunks || self.body.is_some() || self.text.is_some() {
            return false;
        }
        loop {
            let Some(open) = self.stack.last_mut() else { return true };
            match &mut open.left {
                None => return false,
                Some(left) => {
                    *left -= 1;
                    if *left > 0 {
                        return false;
                    }
                }
            }
            let closed = self.stack.pop();
            // An attribute is not an element: the value it describes follows.
            if closed.is_some_and(|closed| closed.kind == b'|') {
                if self.stack.is_empty() {
                    self.kind = 0;
                }
                return false;
            }
        }
    }
}

pub fn end_of_bulk<R: Reader>(input: &mut Input<'_>, out: &mut Out<'_, R>) -> DecodeStep<()> {
    let seen = input.bytes.get(..2).unwrap_or(input.bytes);
    if !b"\r\n".starts_with(seen) {
        return Err(Malformed("a string that is longer than its length"));
    }
    out.post(Account::Framing, "CRLF", 2);
    input.advance(2);
    Ok(())
}

/// Posts a scalar line: type byte, text, CRLF. If the text is `free`, only digits may vary, as other bytes could end
/// the line.
#[inline]
fn scalar<R: Reader>(text: &[u8], account: Account, field: &'static str, free: bool, out: &mut Out<'_, R>) -> bool {
    let len = text.len() as u64;
    if free {
        out.free(1, len, Free::Digits);
    }
    out.post_all([(Account::Framing, "type", 1), (account, field, len), (Account::Framing, "CRLF", 2)]);
    true
}
