//! What `CopyData` carries: rows of text or of CSV ([`rows`]), tuples ([`binary`]), or streaming replication (chapter 55.4),
//! which has one message in each:
//!
//! ```text
//! w  start u64 | end u64 | time u64 | WAL            k  end u64 | time u64 | reply u8
//! r  written u64 | flushed u64 | applied u64 | time u64 | reply u8        h  time u64 | xmin u32 | ...
//! ```
//!
//! The format is that of the statement, which the client has sent before its first data. The server's response says no
//! more than whether it is binary, and a client need not have waited for it.

mod binary;
mod rows;
mod statement;

pub(super) use statement::{CopyFormat, CopyTransfers, copies, may_copy};

use binary::{CopyBinaryReader, SIGNATURE};
use overhead_decode::{Cursor, Reader, Short};
use overhead_model::Account;
use rows::CopyRowReader;
use statement::CopyDialect;

/// How the data of one copy are read.
#[derive(Debug)]
pub(super) enum CopyReader {
    /// Nothing was read yet.
    Begin(Option<CopyFormat>),
    Rows(Box<CopyRowReader>),
    Binary(CopyBinaryReader),
    Replication,
    Opaque,
    /// Bytes were lost, and with them what the next ones are.
    Lost,
}

impl CopyReader {
    /// For a copy in `format`; without one it shows in the first bytes whether it is binary.
    pub fn new(format: Option<CopyFormat>) -> Self {
        Self::Begin(format)
    }

    /// For data of which nothing is known.
    pub fn stray() -> Self {
        Self::Opaque
    }

    /// The inside of one `CopyData`.
    pub fn data<R: Reader>(&mut self, c: &mut Cursor<'_, '_, '_, R>) -> Result<(), Short> {
        if let Self::Begin(format) = self {
            *self = Self::begin(format.take(), c.peek());
        }
        let read = match self {
            Self::Rows(rows) => rows.data(c),
            Self::Binary(binary) => binary.data(c),
            Self::Replication => replication(c),
            Self::Lost => Err(Short),
            Self::Begin(_) | Self::Opaque => {
                c.rest(Account::Data, "copy data");
                Ok(())
            }
        };
        if read.is_err() {
            self.lost();
        }
        read
    }

    fn begin(format: Option<CopyFormat>, bytes: &[u8]) -> Self {
        match format {
            Some(CopyFormat::Replication) => Self::Replication,
            Some(CopyFormat::Opaque) => Self::Opaque,
            Some(CopyFormat::Binary) => Self::Binary(CopyBinaryReader::default()),
            _ if bytes.starts_with(SIGNATURE) => Self::Binary(CopyBinaryReader::default()),
            Some(CopyFormat::Rows(dialect)) => Self::Rows(Box::new(CopyRowReader::new(dialect))),
            None => Self::Rows(Box::new(CopyRowReader::new(CopyDialect::text()))),
        }
    }

    /// Bytes of the stream were lost.
    pub fn lost(&mut self) {
        let resume_after_loss = match self {
            Self::Rows(rows) => rows.resume_after_loss(),
            Self::Binary(_) | Self::Begin(Some(CopyFormat::Binary)) => false,
            _ => true,
        };
        if !resume_after_loss {
            *self = Self::Lost;
        }
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
