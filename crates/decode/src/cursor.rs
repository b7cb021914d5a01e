//! Reading one length-delimited message field by field, each field posted as it is read.

use super::{Free, Input, Note, Out, Reader, Shares};
use crate::near;
use overhead_model::{Account, Amounts};

/// The message ends, or its captured part does, before the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message ends within a field")]
pub struct Short;

/// A position in a message of known length. Every advance is a posting; [`Cursor::finish`] posts what is left.
pub struct Cursor<'a, 'o, 'r, R: Reader> {
    /// Captured bytes not yet posted.
    bytes: &'a [u8],
    /// Bytes not yet posted, and all.
    left: u64,
    len: u64,
    out: &'o mut Out<'r, R>,
}

impl<'a, 'o, 'r, R: Reader> Cursor<'a, 'o, 'r, R> {
    /// A cursor over the first `len` bytes of `input`, which must be available.
    #[inline]
    pub fn new(input: Input<'a>, len: u64, out: &'o mut Out<'r, R>) -> Self {
        let len = len.min(input.available());
        let captured = input.bytes.len().min(usize::try_from(len).unwrap_or(usize::MAX));
        Self { bytes: input.bytes.get(..captured).unwrap_or_default(), left: len, len, out }
    }

    /// Where operations are opened, charged, labelled and closed.
    #[inline]
    pub fn out(&mut self) -> &mut Out<'r, R> {
        self.out
    }

    /// Bytes of the message not yet posted.
    #[inline]
    pub fn remaining(&self) -> u64 {
        self.left
    }

    /// Bytes posted so far.
    #[inline]
    pub fn position(&self) -> u64 {
        self.len - self.left
    }

    /// Returns the captured bytes not yet posted.
    #[inline]
    pub fn peek(&self) -> &'a [u8] {
        self.bytes
    }

    /// Moves past `n` bytes, and gives as many of them as were captured.
    #[inline]
    fn advance(&mut self, n: u64) -> Result<&'a [u8], Short> {
        if n > self.left {
            return Err(Short);
        }
        self.left -= n;
        let captured = usize::try_from(n).unwrap_or(usize::MAX).min(self.bytes.len());
        let (passed, rest) = self.bytes.split_at_checked(captured).unwrap_or_default();
        self.bytes = rest;
        Ok(passed)
    }

    /// Posts `n` bytes without reading them; they need not have been captured.
    ///
    /// # Errors
    ///
    /// [`Short`] where the message has fewer left; nothing is posted then.
    #[inline]
    pub fn skip(&mut self, n: u64, account: Account, field: &'static str) -> Result<(), Short> {
        self.text(n, account, field).map(drop)
    }

    /// As [`Cursor::skip`], of bytes that are free to differ: see [`Out::post_free`].
    ///
    /// # Errors
    ///
    /// As [`Cursor::skip`].
    #[inline]
    pub fn skip_free(&mut self, n: u64, account: Account, field: &'static str, free: Free) -> Result<(), Short> {
        self.advance(n)?;
        self.out.post_free(account, field, n, free);
        Ok(())
    }

    /// Posts `n` bytes and gives as many of them as were captured (all, unless the message was snapped).
    ///
    /// # Errors
    ///
    /// [`Short`] where the message has fewer left; nothing is posted then.
    #[inline]
    pub fn text(&mut self, n: u64, account: Account, field: &'static str) -> Result<&'a [u8], Short> {
        let text = self.advance(n)?;
        self.out.post(account, field, n);
        Ok(text)
    }

    /// Posts `n` bytes and gives them.
    ///
    /// # Errors
    ///
    /// [`Short`] where fewer are left or captured; nothing is posted then.
    #[inline]
    pub fn take(&mut self, n: u64, account: Account, field: &'static str) -> Result<&'a [u8], Short> {
        let (taken, rest) =
            usize::try_from(n).ok().and_then(|n| self.bytes.split_at_checked(n)).ok_or(Short)?;
        self.bytes = rest;
        self.left -= n;
        self.out.post(account, field, n);
        Ok(taken)
    }

    /// Posts and gives a fixed number of bytes; the integers below are made of it.
    ///
    /// # Errors
    ///
    /// As [`Cursor::take`].
    #[inline]
    pub fn array<const N: usize>(&mut self, account: Account, field: &'static str) -> Result<[u8; N], Short> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(Short)?;
        self.bytes = rest;
        self.left -= N as u64;
        self.out.post(account, field, N as u64);
        Ok(*taken)
    }

    /// One byte.
    ///
    /// # Errors
    ///
    /// As [`Cursor::take`].
    #[inline]
    pub fn u8(&mut self, account: Account, field: &'static str) -> Result<u8, Short> {
        self.array(account, field).map(|[byte]| byte)
    }

    /// Two bytes, big-endian.
    ///
    /// # Errors
    ///
    /// As [`Cursor::take`].
    pub fn u16_be(&mut self, account: Account, field: &'static str) -> Result<u16, Short> {
        self.array(account, field).map(u16::from_be_bytes)
    }

    /// Four bytes, big-endian.
    ///
    /// # Errors
    ///
    /// As [`Cursor::take`].
    pub fn u32_be(&mut self, account: Account, field: &'static str) -> Result<u32, Short> {
        self.array(account, field).map(u32::from_be_bytes)
    }

    /// Four bytes, big-endian, signed.
    ///
    /// # Errors
    ///
    /// As [`Cursor::take`].
    pub fn i32_be(&mut self, account: Account, field: &'static str) -> Result<i32, Short> {
        self.array(account, field).map(i32::from_be_bytes)
    }

    /// Four bytes, little-endian.
    ///
    /// # Errors
    ///
    /// As [`Cursor::take`].
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
        let text = self.take(len as u64, account, field)?;
        self.skip(1, Account::Framing, "terminator")?;
        Ok(text)
    }

    /// Posts all that is left.
    pub fn rest(&mut self, account: Account, field: &'static str) {
        let left = self.remaining();
        (self.bytes, self.left) = (&[], 0);
        self.out.post(account, field, left);
    }

    /// Posts all that is left, which decompresses to `amounts`: see [`Shares::post`].
    pub fn rest_pro_rata(&mut self, amounts: &Amounts, shares: &mut Shares, field: &'static str) {
        let left = self.remaining();
        (self.bytes, self.left) = (&[], 0);
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
