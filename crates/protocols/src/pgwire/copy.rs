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

pub(super) use statement::{Copies, Format, copies, may_copy};

use binary::{Binary, SIGNATURE};
use overhead_decode::{Cursor, Reader, Short};
use overhead_model::Account;
use rows::Rows;
use statement::Dialect;

/// How the data of one copy are read.
#[derive(Debug)]
pub(super) enum Copy {
    /// Nothing was read yet.
    Begin(Option<Format>),
    Rows(Box<Rows>),
    Binary(Binary),
    Replication,
    Opaque,
    /// Bytes were lost, and with them what the next ones are.
    Lost,
}

impl Copy {
    /// For a copy in `format`; without one it shows in the first bytes whether it is binary.
    pub fn new(format: Option<Format>) -> Self {
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

    fn begin(format: Option<Format>, bytes: &[u8]) -> Self {
        match format {
            Some(Format::Replication) => Self::Replication,
            Some(Format::Opaque) => Self::Opaque,
            Some(Format::Binary) => Self::Binary(Binary::default()),
            _ if bytes.starts_with(SIGNATURE) => Self::Binary(Binary::default()),
            Some(Format::Rows(dialect)) => Self::Rows(Box::new(Rows::new(dialect))),
            None => Self::Rows(Box::new(Rows::new(Dialect::text()))),
        }
    }

    /// Bytes of the stream were lost.
    pub fn lost(&mut self) {
        let goes_on = match self {
            Self::Rows(rows) => rows.goes_on(),
            Self::Binary(_) | Self::Begin(Some(Format::Binary)) => false,
            _ => true,
        };
        if !goes_on {
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
