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
    bytes: &'a [u8],
    len: u64,
    pos: u64,
    out: &'o mut Out<'r, R>,
}

impl<'a, 'o, 'r, R: Reader> Cursor<'a, 'o, 'r, R> {
    /// A cursor over the first `len` bytes of `input`, which must be available.
    pub fn new(input: Input<'a>, len: u64, out: &'o mut Out<'r, R>) -> Self {
        let len = len.min(input.available());
        let captured = input.bytes.len().min(usize::try_from(len).unwrap_or(usize::MAX));
        Self { bytes: input.bytes.get(..captured).unwrap_or_default(), len, pos: 0, out }
    }

    /// Where operations are opened, charged, labelled and closed.
    pub fn out(&mut self) -> &mut Out<'r, R> {
        self.out
    }

    /// Bytes of the message not yet posted.
    pub fn remaining(&self) -> u64 {
        self.len - self.pos
    }

    /// Bytes posted so far.
    pub fn position(&self) -> u64 {
        self.pos
    }

    /// Returns the captured bytes not yet posted.
    pub fn peek(&self) -> &'a [u8] {
        usize::try_from(self.pos).ok().and_then(|pos| self.bytes.get(pos..)).unwrap_or_default()
    }

    /// Posts `n` bytes without reading them; they need not have been captured.
    ///
    /// # Errors
    ///
    /// [`Short`] where the message has fewer left; nothing is posted then.
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
    pub fn skip_free(&mut self, n: u64, account: Account, field: &'static str, free: Free) -> Result<(), Short> {
        if n > self.remaining() {
            return Err(Short);
        }
        self.pos += n;
        self.out.post_free(account, field, n, free);
        Ok(())
    }

    /// Posts `n` bytes and gives as many of them as were captured (all, unless the message was snapped).
    ///
    /// # Errors
    ///
    /// [`Short`] where the message has fewer left; nothing is posted then.
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
    pub fn take(&mut self, n: u64, account: Account, field: &'static str) -> Result<&'a [u8], Short> {
        let here = self.peek();
        let taken = usize::try_from(n).ok().and_then(|n| here.get(..n)).ok_or(Short)?;
        self.skip(n, account, field)?;
        Ok(taken)
    }

    /// Posts and gives a fixed number of bytes; the integers below are made of it.
    ///
    /// # Errors
    ///
    /// As [`Cursor::take`].
    pub fn array<const N: usize>(&mut self, account: Account, field: &'static str) -> Result<[u8; N], Short> {
        self.take(N as u64, account, field)?.try_into().map_err(|_| Short)
    }

    /// One byte.
    ///
    /// # Errors
    ///
    /// As [`Cursor::take`].
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
