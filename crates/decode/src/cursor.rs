//! Reading one length-delimited message field by field, each field posted as it is read.

#![expect(clippy::inline_always, reason = "posting a field is a few instructions, and every field is posted")]

use super::{Field, Free, Input, Note, Out, Reader, Shares};
use crate::near;
use overhead_model::{Account, Amounts};

/// The message ends, or its captured part does, before the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message ends within a field")]
pub struct Short;

/// A position in a message of known length. Every advance is a posting; [`Cursor::finish`] posts what is left.
pub struct Cursor<'a, 'o, 'r, R: Reader> {
    bytes: &'a [u8],
    len: u64,
    pos: u64,
    out: &'o mut Out<'r, R>,
}

impl<'a, 'o, 'r, R: Reader> Cursor<'a, 'o, 'r, R> {
    /// A cursor over the first `len` bytes of `input`, which must be available.
    #[inline]
    pub fn new(input: Input<'a>, len: u64, out: &'o mut Out<'r, R>) -> Self {
        let len = len.min(input.available());
        let captured = input.bytes.len().min(usize::try_from(len).unwrap_or(usize::MAX));
        Self { bytes: input.bytes.get(..captured).unwrap_or_default(), len, pos: 0, out }
    }

    /// Where operations are opened, charged, labelled and closed.
    #[inline]
    pub fn out(&mut self) -> &mut Out<'r, R> {
        self.out
    }

    /// Bytes of the message not yet posted.
    #[inline]
    pub fn remaining(&self) -> u64 {
        self.len - self.pos
    }

    /// Bytes posted so far.
    #[inline]
    pub fn position(&self) -> u64 {
        self.pos
    }

    /// Returns the captured bytes not yet posted.
    #[inline]
    pub fn peek(&self) -> &'a [u8] {
        usize::try_from(self.pos).ok().and_then(|pos| self.bytes.get(pos..)).unwrap_or_default()
    }

    /// Posts `n` bytes without reading them; they need not have been captured.
    ///
    /// # Errors
    ///
    /// [`Short`] where the message has fewer left; nothing is posted then.
    #[inline]
    pub fn skip(&mut self, n: u64, account: Account, field: &'static str) -> Result<(), Short> {
        if n > self.remaining() {
            return Err(Short);
        }
        self.pos += n;
        self.out.post(account, field, n);
        Ok(())
    }

    /// As [`Cursor::skip`], of bytes that are free to differ: see [`Out::post_free`].
    ///
    /// # Errors
    ///
    /// As [`Cursor::skip`].
    #[inline]
    pub fn skip_free(&mut self, n: u64, account: Account, field: &'static str, free: Free) -> Result<(), Short> {
        if n > self.remaining() {
            return Err(Short);
        }
        self.pos += n;
        self.out.post_free(account, field, n, free);
        Ok(())
    }

    /// Posts fields one after the other, as [`Cursor::skip`] would.
    ///
    /// # Errors
    ///
    /// [`Short`] where the message has fewer bytes left; those before the first field that does not fit are posted.
    #[inline(always)]
    pub fn skip_all<const N: usize>(&mut self, fields: [Field; N]) -> Result<(), Short> {
        let len: u64 = fields.iter().map(|(_, _, len)| len).sum();
        if len > self.remaining() {
            return fields.into_iter().try_for_each(|(account, field, len)| self.skip(len, account, field));
        }
        self.pos += len;
        self.out.post_all(fields);
        Ok(())
    }

    /// As [`Cursor::skip_all`], of two fields, of which the second one is free to differ: a length, and what has it.
    ///
    /// # Errors
    ///
    /// As [`Cursor::skip_all`].
    #[inline(always)]
    pub fn skip_and_free(&mut self, before: Field, free: Field, how: Free) -> Result<(), Short> {
        if before.2 + free.2 <= self.remaining() {
            self.out.free(before.2, free.2, how);
        }
        self.skip_all([before, free])
    }

    /// Posts `n` bytes and gives as many of them as were captured (all, unless the message was snapped).
    ///
    /// # Errors
    ///
    /// [`Short`] where the message has fewer left; nothing is posted then.
    #[inline]
    pub fn text(&mut self, n: u64, account: Account, field: &'static str) -> Result<&'a [u8], Short> {
        let here = self.peek();
        self.skip(n, account, field)?;
        Ok(usize::try_from(n).ok().and_then(|n| here.get(..n)).unwrap_or(here))
    }

    /// Posts `n` bytes and gives them.
    ///
    /// # Errors
    ///
    /// [`Short`] where fewer are left or captured; nothing is posted then.
    #[inline]
    pub fn take(&mut self, n: u64, account: Account, field: &'static str) -> Result<&'a [u8], Short> {
        let taken = usize::try_from(n).ok().and_then(|n| self.peek().get(..n)).ok_or(Short)?;
        self.pos += n;
        self.out.post(account, field, n);
        Ok(taken)
    }

    /// Posts and gives a fixed number of bytes; the integers below are made of it.
    ///
    /// # Errors
    ///
    /// As [`Cursor::take`].
    #[inline(always)]
    pub fn array<const N: usize>(&mut self, account: Account, field: &'static str) -> Result<[u8; N], Short> {
        let taken = self.peek().first_chunk().ok_or(Short)?;
        self.pos += N as u64;
        self.out.post(account, field, N as u64);
        Ok(*taken)
    }

    /// One byte.
    ///
    /// # Errors
    ///
    /// As [`Cursor::take`].
    #[inline(always)]
    pub fn u8(&mut self, account: Account, field: &'static str) -> Result<u8, Short> {
        self.array(account, field).map(|[byte]| byte)
    }

    /// Two bytes, big-endian.
    ///
    /// # Errors
    ///
    /// As [`Cursor::take`].
    #[inline(always)]
    pub fn u16_be(&mut self, account: Account, field: &'static str) -> Result<u16, Short> {
        self.array(account, field).map(u16::from_be_bytes)
    }

    /// Four bytes, big-endian.
    ///
    /// # Errors
    ///
    /// As [`Cursor::take`].
    #[inline(always)]
    pub fn u32_be(&mut self, account: Account, field: &'static str) -> Result<u32, Short> {
        self.array(account, field).map(u32::from_be_bytes)
    }

    /// Four bytes, big-endian, signed.
    ///
    /// # Errors
    ///
    /// As [`Cursor::take`].
    #[inline(always)]
    pub fn i32_be(&mut self, account: Account, field: &'static str) -> Result<i32, Short> {
        self.array(account, field).map(i32::from_be_bytes)
    }

    /// Four bytes, little-endian.
    ///
    /// # Errors
    ///
    /// As [`Cursor::take`].
    #[inline(always)]
    pub fn u32_le(&mut self, account: Account, field: &'static str) -> Result<u32, Short> {
        self.array(account, field).map(u32::from_le_bytes)
    }

    /// The text up to a NUL, posted to `account`, and the NUL, posted to `framing`.
    ///
    /// # Errors
    ///
    /// [`Short`] where no NUL was captured; nothing is posted then.
    pub fn c_string(&mut self, account: Account, field: &'static str) -> Result<&'a [u8], Short> {
        let here = self.peek();
        let len = near::find(0, here).ok_or(Short)?;
        self.skip_all([(account, field, len as u64), (Account::Framing, "terminator", 1)])?;
        Ok(here.get(..len).unwrap_or_default())
    }

    /// Posts all that is left.
    pub fn rest(&mut self, account: Account, field: &'static str) {
        let left = self.remaining();
        self.pos = self.len;
        self.out.post(account, field, left);
    }

    /// Posts all that is left, which decompresses to `amounts`: see [`Shares::post`].
    pub fn rest_pro_rata(&mut self, amounts: &Amounts, shares: &mut Shares, field: &'static str) {
        let left = self.remaining();
        self.pos = self.len;
        shares.post(amounts, left, field, self.out);
    }

    /// Ends the message: what was not posted by now goes to `unknown`, and a note says so.
    pub fn finish(mut self) {
        if self.remaining() > 0 {
            self.out.note(Note::UndecodedMessage);
            self.rest(Account::Unknown, "undecoded");
        }
    }
}
