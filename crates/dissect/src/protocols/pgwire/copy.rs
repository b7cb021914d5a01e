//! What `CopyData` carries.
//!
//! Text and CSV rows are data as they are: their delimiters are the statement's, not the protocol's. The binary format
//! (PostgreSQL manual, COPY, "Binary Format") is a stream that is cut into messages anywhere:
//!
//! ```text
//! "PGCOPY\n\xff\r\n\0" | flags u32 | extension length u32 | extension | tuples | -1 i16
//! tuple: fields i16 | (length i32, value)*
//! ```
//!
//! Streaming replication (chapter 55.4) has one message in each:
//!
//! ```text
//! w  start u64 | end u64 | time u64 | WAL            k  end u64 | time u64 | reply u8
//! r  written u64 | flushed u64 | applied u64 | time u64 | reply u8        h  time u64 | xmin u32 | ...
//! ```

use crate::decode::{Cursor, Note, Reader, Short};
use overhead_model::Account;

const SIGNATURE: u64 = 11;

/// How the data of the copy at hand are to be read.
#[derive(Debug, Default)]
pub(super) enum Copy {
    #[default]
    Text,
    Binary(Binary),
    Replication,
}

impl Copy {
    /// By the format code of the copy response.
    pub fn of_format(format: u8) -> Self {
        if format == 1 { Self::Binary(Binary::default()) } else { Self::Text }
    }

    /// The inside of one `CopyData`.
    pub fn data<R: Reader>(&mut self, c: &mut Cursor<'_, '_, '_, R>) -> Result<(), Short> {
        match self {
            Self::Text => c.rest(Account::Data, "copy data"),
            Self::Binary(binary) => binary.data(c)?,
            Self::Replication => replication(c)?,
        }
        Ok(())
    }
}

fn replication<R: Reader>(c: &mut Cursor<'_, '_, '_, R>) -> Result<(), Short> {
    match c.u8(Account::Framing, "replication message type")? {
        b'w' => {
            c.skip(16, Account::Metadata, "log position")?;
            c.skip(8, Account::Metadata, "time")?;
            c.rest(Account::Data, "log data");
        }
        _ => c.rest(Account::Metadata, "replication status"),
    }
    Ok(())
}

/// Where in a binary stream we are.
#[derive(Debug, Default)]
pub(super) struct Binary {
    next: Next,
    /// Bytes of the field at hand that were passed.
    passed: u64,
    /// Their value, where it is a number.
    value: u32,
}

#[derive(Clone, Copy, Debug, Default)]
enum Next {
    #[default]
    Signature,
    Flags,
    ExtensionLength,
    Extension(u32),
    Fields,
    Length(u16),
    Value(u32, u16),
    /// Behind the end, or structure was lost.
    Loose,
}

impl Binary {
    fn data<R: Reader>(&mut self, c: &mut Cursor<'_, '_, '_, R>) -> Result<(), Short> {
        while c.remaining() > 0 {
            if let Err(short) = self.field(c) {
                self.next = Next::Loose;
                return Err(short);
            }
        }
        Ok(())
    }

    /// One field, or as much of it as there is.
    fn field<R: Reader>(&mut self, c: &mut Cursor<'_, '_, '_, R>) -> Result<(), Short> {
        match self.next {
            Next::Signature => self.bytes(c, SIGNATURE, Account::Framing, "copy signature", Next::Flags)?,
            Next::Flags => self.bytes(c, 4, Account::Metadata, "copy flags", Next::ExtensionLength)?,
            Next::ExtensionLength => {
                if let Some(length) = self.number(c, 4, "extension length")? {
                    self.next = if length == 0 { Next::Fields } else { Next::Extension(length) };
                }
            }
            Next::Extension(length) => {
                self.bytes(c, u64::from(length), Account::Metadata, "extension", Next::Fields)?;
            }
            Next::Fields => {
                if let Some(fields) = self.number(c, 2, "field count")? {
                    self.next = match fields as u16 {
                        0 => Next::Fields,
                        u16::MAX => Next::Loose,
                        fields => Next::Length(fields),
                    };
                }
            }
            Next::Length(fields) => {
                if let Some(length) = self.number(c, 4, "value length")? {
                    self.next = match length {
                        0 | u32::MAX => Self::after(fields),
                        length => Next::Value(length, fields),
                    };
                    if length != u32::MAX {
                        c.out().note(Note::UntypedValue);
                    }
                }
            }
            Next::Value(length, fields) => {
                self.bytes(c, u64::from(length), Account::Data, "value", Self::after(fields))?;
            }
            Next::Loose => c.rest(Account::Data, "copy data"),
        }
        Ok(())
    }

    /// What follows one of `fields` values.
    fn after(fields: u16) -> Next {
        if fields > 1 { Next::Length(fields - 1) } else { Next::Fields }
    }

    /// Passes over a field of `len` bytes; `next` comes after it.
    fn bytes<R: Reader>(
        &mut self,
        c: &mut Cursor<'_, '_, '_, R>,
        len: u64,
        account: Account,
        field: &'static str,
        next: Next,
    ) -> Result<(), Short> {
        let here = (len - self.passed).min(c.remaining());
        c.skip(here, account, field)?;
        self.passed += here;
        if self.passed == len {
            self.passed = 0;
            self.next = next;
        }
        Ok(())
    }

    /// Reads a number of `len` bytes, once it is complete.
    fn number<R: Reader>(
        &mut self,
        c: &mut Cursor<'_, '_, '_, R>,
        len: u64,
        field: &'static str,
    ) -> Result<Option<u32>, Short> {
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
