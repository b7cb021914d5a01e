//! Contents of `CopyData`: rows of text or CSV ([`rows`]), tuples ([`binary`]), or streaming replication (chapter 55.4)
//! with one message in each:
//!
//! ```text
//! w  start u64 | end u64 | time u64 | WAL            k  end u64 | time u64 | reply u8
//! r  written u64 | flushed u64 | applied u64 | time u64 | reply u8        h  time u64 | xmin u32 | ...
//! ```
//!
//! The client's statement determines the format. The server's response only states whether it is binary, and a client
//! need not wait for it.

mod binary;
mod rows;
mod statement;

pub(super) use statement::{CopyFormat, CopyTransfers, copies, may_copy};

use binary::{CopyBinaryReader, SIGNATURE};
use overhead_decode::{Cursor, FieldRead, Reader, Short};
use overhead_model::Account;
use rows::CopyRowReader;
use statement::CopyDialect;

#[derive(Debug)]
pub(super) enum CopyReader {
    /// Without a format, the first bytes show whether the data is binary.
    Begin(Option<CopyFormat>),
    Rows(Box<CopyRowReader>),
    Binary(CopyBinaryReader),
    Replication,
    /// Also used for data of unknown copies.
    Opaque,
    /// Bytes were lost, so the position in the stream is unknown.
    Lost,
}

impl CopyReader {
    pub fn data<R: Reader>(&mut self, c: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
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

fn replication<R: Reader>(c: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
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
