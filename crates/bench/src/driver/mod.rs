//! What every driver can do, in one shape: open connections, run operations on them, make and remove the objects that
//! they work on. What stores of keys and values make and remove stands in `store`, once for all of them.
//!
//! A module here is all that a database needs. It states what a *pipeline* is in its protocol, in its first lines.

#[cfg(feature = "http")]
pub mod http;
#[cfg(any(feature = "http", feature = "memcached", feature = "redis"))]
mod keys;
#[cfg(feature = "memcached")]
pub mod memcached;
#[cfg(feature = "mongodb")]
pub mod mongodb;
#[cfg(feature = "mysql")]
pub mod mysql;
mod objects;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "scylla")]
pub mod scylla;
#[cfg(any(feature = "http", feature = "memcached", feature = "redis"))]
mod store;

use crate::data::Inserts;
use crate::plan::Operation;
use crate::stats::Faults;
use crate::target::Target;
use anyhow::Result;
pub use objects::Objects;
use overhead_model::Protocol;
use overhead_model::load::LoadSettings;
use std::fmt::Display;
use std::future::Future;

/// A client library, and a server that it is to talk to.
pub trait Driver: Sized + Send + Sync + 'static {
    /// One client's connection (to each server, where the client shards).
    type Session: Session;
    /// Whoever makes the rows and removes them.
    type Objects: Objects;

    /// The protocol it speaks.
    const PROTOCOL: Protocol;
    /// Name of the crate.
    const NAME: &'static str;
    /// Its version.
    const VERSION: &'static str;
    /// Whether rows can be inserted over rows.
    const INSERTS: Inserts;
    /// Whether it can connect to a socket of this machine that has a path.
    const SOCKETS: bool = false;
    /// What it can ask for.
    const OPERATIONS: &'static [Operation] = &Operation::REFERENCE;

    /// Takes the settings; nothing is sent yet. Fails on settings that the protocol does not have.
    fn new(target: Target, options: Options) -> Result<Self>;

    /// The settings as they are recorded.
    fn settings(&self) -> LoadSettings;

    /// What each server calls itself, in the order of the servers.
    fn versions(&self) -> impl Future<Output = Result<Vec<Option<String>>>> + Send;

    /// Connects whoever makes the rows and removes them.
    fn objects(&self) -> impl Future<Output = Result<Self::Objects>> + Send;

    /// Connects one client and prepares it for these operations.
    fn connect(&self, operations: &[Operation]) -> impl Future<Output = Result<Self::Session>> + Send;
}

/// One client.
pub trait Session: Send + 'static {
    /// Runs one operation on each id, together, and waits for all answers. Answers that are errors, or not what must be there,
    /// are counted in `faults`.
    fn run(
        &mut self,
        operation: Operation,
        ids: &[i64],
        faults: &mut Faults,
    ) -> impl Future<Output = Result<(), Lost>> + Send;

    /// Takes leave of the server, as far as the protocol has that.
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// The connection is gone, and why.
#[derive(Debug)]
pub struct Lost(pub String);

impl Lost {
    /// From what the driver said.
    pub fn new(error: impl Display) -> Self {
        Self(error.to_string())
    }
}

/// How operations are to be sent.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rows to load.
    pub rows: u64,
    /// Length of their text.
    pub payload: usize,
    /// Whether operations of `sysbench` are among those to be measured, and so its table among those to be made.
    pub oltp: bool,
    /// The most operations that are sent together.
    pub pipeline: u32,
    /// Statements are prepared once per connection; `None` for the default.
    pub prepared: Option<bool>,
    /// CQL: rows without the description of their columns.
    pub skip_metadata: Option<bool>,
    /// PostgreSQL: values in binary.
    pub binary: Option<bool>,
    /// RESP version.
    pub resp: Option<u8>,
    /// RESP: a pipeline is one command that names all keys.
    pub multi_key: Option<bool>,
    /// Compression of messages.
    pub compression: Option<Compression>,
    /// Threads of the client.
    pub threads: u32,
}

/// Compression of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Compression {
    /// Messages as they are.
    None,
    /// CQL.
    Lz4,
    /// CQL, MongoDB.
    Snappy,
    /// MongoDB, `MySQL`.
    Zlib,
    /// MongoDB.
    Zstd,
}

impl Compression {
    /// Its name on the command line and in the record.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
            Self::Snappy => "snappy",
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
        }
    }
}

impl Options {
    /// Fails where an option is set that the protocol does not have; `known` are those it has.
    pub fn only(&self, protocol: &str, known: &[&str]) -> Result<()> {
        let set = [
            ("--prepared", self.prepared.is_some()),
            ("--skip-metadata", self.skip_metadata.is_some()),
            ("--binary", self.binary.is_some()),
            ("--resp", self.resp.is_some()),
            ("--multi-key", self.multi_key.is_some()),
            ("--compression", self.compression.is_some_and(|compression| compression != Compression::None)),
        ];
        match set.iter().find(|(name, set)| *set && !known.contains(name)) {
            Some((name, _)) => Err(crate::fault::Fault::usage(format!("{name}: {protocol} has no such thing")).into()),
            None => Ok(()),
        }
    }
}

/// A row was read where none must be, or the other way round: the rows are not those of the workload.
pub fn wrong_row(operation: Operation, id: i64) -> String {
    match operation {
        Operation::Empty => format!("a row with id {id} was found, and must not be there"),
        _ => format!(
            "the row with id {id} is not what must be there: were the rows made with the same --rows and --payload?"
        ),
    }
}
