//! Reads one length-delimited message field by field and posts each field as it is read.

#![expect(clippy::inline_always, reason = "posting a field is a few instructions, and every field is posted")]

use super::{Field, Free, Input, Note, OperationShares, Out, Reader};
use crate::near;
use overhead_model::{Account, Amounts};

/// The message, or its captured part, ends before the field does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message ends within a field")]
pub struct Short;

/// The result of reading a field.
pub type FieldRead<T = ()> = Result<T, Short>;

/// A position in a message of known length. Every advance posts bytes; [`Cursor::finish`] posts the rest.
pub struct Cursor<'a, 'o, 'r, R: Reader> {
    bytes: &'a [u8],
    len: u64,
    pos: u64,
    out: &'o mut Out<'r, R>,
}

#[allow(clippy::missing_errors_doc, reason = "the only error is that the message is too short")]
impl<'a, 'o, 'r, R: Reader> Cursor<'a, 'o, 'r, R> {
    /// Covers the first `len` bytes of `input`, which must be available.
    #[inline]
    pub fn new(input: Input<'a>, len: u64, out: &'o mut Out<'r, R>) -> Self {
        let len = len.min(input.available());
        let captured = input.bytes.len().min(usize::try_from(len).unwrap_or(usize::MAX));
        Self { bytes: input.bytes.get(..captured).unwrap_or_default(), len, pos: 0, out }
    }

    #[inline]
    pub fn out(&mut self) -> &mut Out<'r, R> {
        self.out
    }

    /// Returns how many bytes of the message are left to post.
    #[inline]
    pub fn remaining(&self) -> u64 {
        self.len - self.pos
    }

    /// Returns how many bytes of the message were posted.
    #[inline]
    pub fn position(&self) -> u64 {
        self.pos
    }

    /// Returns the captured bytes that are not posted yet.
    #[inline]
    pub fn peek(&self) -> &'a [u8] {
        usize::try_from(self.pos).ok().and_then(|pos| self.bytes.get(pos..)).unwrap_or_default()
    }

    /// Posts `n` bytes without reading them. They need not have been captured. Posts nothing if the message has fewer left.
    #[inline]
    pub fn skip(&mut self, n: u64, account: Account, field: &'static str) -> FieldRead {
        if n > self.remaining() {
            return Err(Short);
        }
        self.pos += n;
        self.out.post(account, field, n);
        Ok(())
    }

    /// Like [`Cursor::skip`], for bytes that may vary: see [`Out::post_free`].
    #[inline]
    pub fn skip_free(&mut self, n: u64, account: Account, field: &'static str, free: Free) -> FieldRead {
        if n > self.remaining() {
            return Err(Short);
        }
        self.pos += n;
        self.out.post_free(account, field, n, free);
        Ok(())
    }

    /// Posts fields in order, like [`Cursor::skip`], up to the first one that does not fit.
    #[inline(always)]
    pub fn skip_all<const N: usize>(&mut self, fields: [Field; N]) -> FieldRead {
        let len: u64 = fields.iter().map(|(_, _, len)| len).sum();
        if len > self.remaining() {
            return fields.into_iter().try_for_each(|(account, field, len)| self.skip(len, account, field));
        }
        self.pos += len;
        self.out.post_all(fields);
        Ok(())
    }

    /// Like [`Cursor::skip_all`] for a length and its content, which may vary.
    #[inline(always)]
    pub fn skip_and_free(&mut self, before: Field, free: Field, how: Free) -> FieldRead {
        if before.2 + free.2 <= self.remaining() {
            self.out.free(before.2, free.2, how);
        }
        self.skip_all([before, free])
    }

    /// Posts `n` bytes and returns the captured ones: all of them, unless the message was snapped.
    #[inline]
    pub fn text(&mut self, n: u64, account: Account, field: &'static str) -> FieldRead<&'a [u8]> {
        let here = self.peek();
        self.skip(n, account, field)?;
        Ok(usize::try_from(n).ok().and_then(|n| here.get(..n)).unwrap_or(here))
    }

    /// Posts `n` bytes and returns them. Posts nothing if fewer are left or captured.
    #[inline]
    pub fn take(&mut self, n: u64, account: Account, field: &'static str) -> FieldRead<&'a [u8]> {
        let taken = usize::try_from(n).ok().and_then(|n| self.peek().get(..n)).ok_or(Short)?;
        self.pos += n;
        self.out.post(account, field, n);
        Ok(taken)
    }

    /// Posts and returns a fixed number of bytes.
    #[inline(always)]
    pub fn array<const N: usize>(&mut self, account: Account, field: &'static str) -> FieldRead<[u8; N]> {
        let taken = self.peek().first_chunk().ok_or(Short)?;
        self.pos += N as u64;
        self.out.post(account, field, N as u64);
        Ok(*taken)
    }

    /// Posts a byte and returns its value.
    #[inline(always)]
    pub fn u8(&mut self, account: Account, field: &'static str) -> FieldRead<u8> {
        self.array(account, field).map(|[byte]| byte)
    }

    /// Posts a big-endian integer and returns its value.
    #[inline(always)]
    pub fn u16_be(&mut self, account: Account, field: &'static str) -> FieldRead<u16> {
        self.array(account, field).map(u16::from_be_bytes)
    }

    /// Posts a big-endian integer and returns its value.
    #[inline(always)]
    pub fn u32_be(&mut self, account: Account, field: &'static str) -> FieldRead<u32> {
        self.array(account, field).map(u32::from_be_bytes)
    }

    /// Posts a big-endian integer and returns its value.
    #[inline(always)]
    pub fn i32_be(&mut self, account: Account, field: &'static str) -> FieldRead<i32> {
        self.array(account, field).map(i32::from_be_bytes)
    }

    /// Posts a little-endian integer and returns its value.
    #[inline(always)]
    pub fn u32_le(&mut self, account: Account, field: &'static str) -> FieldRead<u32> {
        self.array(account, field).map(u32::from_le_bytes)
    }

    /// Posts the text up to a NUL to `account` and the NUL to `framing`. Posts nothing if no NUL was captured.
    pub fn c_string(&mut self, account: Account, field: &'static str) -> FieldRead<&'a [u8]> {
        let here = self.peek();
        let len = near::find(0, here).ok_or(Short)?;
        self.skip_all([(account, field, len as u64), (Account::Framing, "terminator", 1)])?;
        Ok(here.get(..len).unwrap_or_default())
    }

    /// Posts all bytes that are left as one field.
    pub fn rest(&mut self, account: Account, field: &'static str) {
        let left = self.remaining();
        self.pos = self.len;
        self.out.post(account, field, left);
    }

    /// Posts the rest, which decompresses to `amounts`: see [`OperationShares::post`].
    pub fn rest_pro_rata(&mut self, amounts: &Amounts, shares: &mut OperationShares, field: &'static str) {
        let left = self.remaining();
        self.pos = self.len;
        shares.post(amounts, left, field, self.out);
    }

    /// Posts the rest to `unknown`, with a note.
    pub fn finish(mut self) {
        if self.remaining() > 0 {
            self.out.note(Note::UndecodedMessage);
            self.rest(Account::Unknown, "undecoded");
        }
    }
}
