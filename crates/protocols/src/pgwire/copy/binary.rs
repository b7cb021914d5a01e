//! Binary format of a copy (PostgreSQL manual, COPY, "Binary Format"). Messages split the stream anywhere:
//!
//! ```text
//! "PGCOPY\n\xff\r\n\0" | flags u32 | extension length u32 | extension | tuples | -1 i16
//! tuple: fields i16 | (length i32, value)*
//! ```
//!
//! Types are not included.

use super::super::hidden;
use overhead_decode::{Cursor, FieldRead, Note, Reader, Short};
use overhead_model::Account;

pub(super) const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

/// Position in a binary stream.
#[derive(Debug, Default)]
pub(in super::super) struct CopyBinaryReader {
    next: CopyField,
    /// Bytes of the current field already read.
    passed: u64,
    /// The number read so far.
    value: u32,
}

#[derive(Clone, Copy, Debug, Default)]
enum CopyField {
    #[default]
    Signature,
    Flags,
    ExtensionLength,
    Extension(u32),
    Fields,
    Length(u16),
    Value(u32, u16),
    /// After the end.
    Loose,
}

impl CopyBinaryReader {
    pub fn data<R: Reader>(&mut self, c: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
        while c.remaining() > 0 {
            self.field(c)?;
        }
        Ok(())
    }

    /// Reads one field, or the available part.
    fn field<R: Reader>(&mut self, c: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
        match self.next {
            CopyField::Signature => {
                let passed = usize::try_from(self.passed).unwrap_or(usize::MAX);
                let mut expected = SIGNATURE.iter().skip(passed).zip(c.peek());
                if !expected.all(|(expected, byte)| expected == byte) {
                    return Err(Short);
                }
                self.bytes(c, SIGNATURE.len() as u64, Account::Framing, "copy signature", CopyField::Flags)?;
            }
            CopyField::Flags => self.bytes(c, 4, Account::Metadata, "copy flags", CopyField::ExtensionLength)?,
            CopyField::ExtensionLength => {
                if let Some(length) = self.number(c, 4, "extension length")? {
                    self.next = if length == 0 { CopyField::Fields } else { CopyField::Extension(length) };
                }
            }
            CopyField::Extension(length) => {
                self.bytes(c, u64::from(length), Account::Metadata, "extension", CopyField::Fields)?;
            }
            CopyField::Fields => {
                if let Some(fields) = self.number(c, 2, "field count")? {
                    self.next = match fields as u16 {
                        0 => CopyField::Fields,
                        u16::MAX => CopyField::Loose,
                        fields => CopyField::Length(fields),
                    };
                }
            }
            CopyField::Length(fields) => {
                if let Some(length) = self.number(c, 4, "value length")? {
                    self.next = match length {
                        0 | u32::MAX => Self::after(fields),
                        length => CopyField::Value(length, fields),
                    };
                    if length != u32::MAX && hidden::may_be_structured(c.peek(), u64::from(length), true) {
                        c.out().note(Note::UntypedValue);
                    }
                }
            }
            CopyField::Value(length, fields) => {
                self.bytes(c, u64::from(length), Account::Data, "value", Self::after(fields))?;
            }
            CopyField::Loose => c.rest(Account::Data, "copy data"),
        }
        Ok(())
    }

    /// Returns the field after one of `fields` values.
    fn after(fields: u16) -> CopyField {
        if fields > 1 { CopyField::Length(fields - 1) } else { CopyField::Fields }
    }

    /// Skips a field of `len` bytes, followed by `next`.
    fn bytes<R: Reader>(
        &mut self,
        c: &mut Cursor<'_, '_, '_, R>,
        len: u64,
        account: Account,
        field: &'static str,
        next: CopyField,
    ) -> FieldRead {
        let here = (len - self.passed).min(c.remaining());
        c.skip(here, account, field)?;
        self.passed += here;
        if self.passed == len {
            self.passed = 0;
            self.next = next;
        }
        Ok(())
    }

    /// Returns a number of `len` bytes once it is complete.
    fn number<R: Reader>(
        &mut self,
        c: &mut Cursor<'_, '_, '_, R>,
        len: u64,
        field: &'static str,
    ) -> FieldRead<Option<u32>> {
        let here = (len - self.passed).min(c.remaining());
        for byte in c.take(here, Account::Framing, field)? {
            self.value = self.value << 8 | u32::from(*byte);
        }
        self.passed += here;
        if self.passed < len {
            return Ok(None);
        }
        self.passed = 0;
        Ok(Some(std::mem::take(&mut self.value)))
    }
}
