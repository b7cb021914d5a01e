//! The interface of a driver: open connections, run operations on them, make and remove the objects they use. `store`
//! implements the objects for all key-value stores.
//!
//! Each database has one module. Its first lines define a *pipeline* in its protocol.

use crate::data::InsertIds;
use crate::plan::BenchOp;
use crate::statements::ListedStatements;
use crate::stats::Faults;
use crate::target::BenchTarget;
use anyhow::Result;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use overhead_model::exit::StatusFault;
use overhead_model::load::LoadSettings;
use overhead_model::{Protocol, enum_with};
use std::fmt::Display;
use std::future::Future;

#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "memcached")]
pub mod memcached;
#[cfg(feature = "mongodb")]
pub mod mongodb;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "scylla")]
pub mod scylla;
#[cfg(any(feature = "http", feature = "memcached", feature = "redis"))]
mod store;

/// A client library and the server it connects to.
pub trait DatabaseDriver: Sized + Send + Sync + 'static {
    /// One client's connection, or one to each server if the client shards.
    type Connection: DriverConnection;
    /// Makes and removes the rows.
    type Objects: BenchObjects;

    const PROTOCOL: Protocol;
    /// Name of the driver's crate.
    const NAME: &'static str;
    const VERSION: &'static str;
    /// Its protocol or servers, as messages call them.
    const TITLE: &'static str;
    /// Options of the protocol.
    const OPTIONS: &'static [&'static str] = &[];
    /// A connection takes further requests before it has answered the first. Otherwise, only `--multi-key` sends several rows.
    const PIPELINES: bool = true;
    const INSERT_IDS: InsertIds;
    /// Accepts the path of a local socket.
    const SOCKETS: bool = false;
    const OPERATIONS: &'static [BenchOp] = &BenchOp::REFERENCE;

    /// Validates the settings, which are among [`Self::OPTIONS`]; sends nothing.
    fn new(target: BenchTarget, options: DriverOptions) -> Result<Self>;

    /// Returns the name and version of each server, in the order of the servers.
    fn versions(&self) -> impl Future<Output = Result<Vec<Option<String>>>> + Send;

    fn objects(&self) -> impl Future<Output = Result<Self::Objects>> + Send;

    /// Returns the statements that clients have prepared, as far as the server lists them.
    fn prepared_statements(&self) -> impl Future<Output = Result<ListedStatements>> + Send {
        let reason = format!("--list-statements: {} has no prepared statements", Self::TITLE);
        async { Err(StatusFault::usage(reason).into()) }
    }

    /// Connects one client and prepares it for these operations.
    fn connect(&self, operations: &[BenchOp]) -> impl Future<Output = Result<Self::Connection>> + Send;
}

pub trait DriverConnection: Send + 'static {
    /// Runs the operation on all ids together and waits for every answer. Counts errors and wrong rows in `faults`.
    fn run(
        &mut self,
        operation: BenchOp,
        ids: &[i64],
        faults: &mut Faults,
    ) -> impl Future<Output = Result<(), ConnectionLost>> + Send;

    /// Ends the session, if the protocol has a message for that.
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// The reason why a connection is gone.
#[derive(Debug)]
pub struct ConnectionLost(pub String);

impl ConnectionLost {
    pub fn new(error: impl Display) -> Self {
        Self(error.to_string())
    }
}

/// Settings of the protocol, and those of the workload, which other arguments have.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Protocol (defaults are the driver's)")]
pub struct DriverOptions {
    /// Rows to load.
    #[arg(skip)]
    pub rows: u64,
    /// Length of a row's text.
    #[arg(skip)]
    pub payload: usize,
    /// Also make and measure the `sysbench` table.
    #[arg(skip)]
    pub oltp: bool,
    /// The largest pipeline.
    #[arg(skip)]
    pub pipeline: u32,
    /// Client threads.
    #[arg(skip)]
    pub threads: u32,
    /// Prepare statements once per connection: postgres, mysql, CQL [default: on]
    #[arg(long, value_parser = on_off(), value_name = "on|off", hide_possible_values = true)]
    pub prepared: Option<bool>,
    /// Rows without the description of their columns: CQL [default: off]
    #[arg(long, value_parser = on_off(), value_name = "on|off", hide_possible_values = true)]
    pub skip_metadata: Option<bool>,
    /// Values in binary, not in text: postgres [default: on]
    #[arg(long, value_parser = on_off(), value_name = "on|off", hide_possible_values = true)]
    pub binary: Option<bool>,
    /// Version of the protocol: redis [default: 2]
    #[arg(long, value_name = "2|3", value_parser = clap::value_parser!(u8).range(2..=3))]
    pub resp: Option<u8>,
    /// A pipeline is one request of several rows: all but postgres [default: off]
    #[arg(long, value_parser = on_off(), value_name = "on|off", hide_possible_values = true)]
    pub multi_key: Option<bool>,
    /// lz4, snappy (CQL), snappy, zlib, zstd (mongodb), zlib (mysql) [default: none]
    #[arg(long, value_enum, value_name = "NAME", hide_possible_values = true)]
    pub compression: Option<DriverCompression>,
}

fn on_off() -> impl TypedValueParser<Value = bool> {
    PossibleValuesParser::new(["on", "off"]).map(|value| value == "on")
}

enum_with! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
    pub enum DriverCompression, name: &'static str {
        /// Messages as they are.
        None = "none",
        /// CQL.
        Lz4 = "lz4",
        /// CQL, MongoDB.
        Snappy = "snappy",
        /// MongoDB, `MySQL`.
        Zlib = "zlib",
        /// MongoDB.
        Zstd = "zstd",
    }
}

impl DriverOptions {
    /// Fails if an option is set that is not in `known`, the options of the protocol.
    pub fn allow_only(&self, protocol: &str, known: &[&str]) -> Result<()> {
        let set = [
            ("--prepared", self.prepared.is_some()),
            ("--skip-metadata", self.skip_metadata.is_some()),
            ("--binary", self.binary.is_some()),
            ("--resp", self.resp.is_some()),
            ("--multi-key", self.multi_key.is_some()),
            ("--compression", self.compression.is_some_and(|compression| compression != DriverCompression::None)),
        ];
        match set.iter().find(|(name, set)| *set && !known.contains(name)) {
            Some((name, _)) => Err(StatusFault::usage(format!("{name}: not an option of {protocol}")).into()),
            None => Ok(()),
        }
    }

    /// Returns the settings in `known` for the record, with the drivers' defaults.
    pub fn settings(&self, known: &[&str]) -> LoadSettings {
        let is_known = |option| known.contains(&option);
        let compression = || self.compression.unwrap_or(DriverCompression::None).name();
        LoadSettings {
            prepared: is_known("--prepared").then_some(self.prepared != Some(false)),
            skip_metadata: is_known("--skip-metadata").then_some(self.skip_metadata == Some(true)),
            binary: is_known("--binary").then_some(self.binary != Some(false)),
            resp: is_known("--resp").then_some(self.resp.unwrap_or(2)),
            multi_key: is_known("--multi-key").then_some(self.multi_key == Some(true)),
            compression: is_known("--compression").then(|| compression().to_owned()),
            ..LoadSettings::default()
        }
    }
}

/// Returns the message for a wrong, missing or unexpected row.
pub fn wrong_row(operation: BenchOp, id: i64) -> String {
    match operation {
        BenchOp::Empty => format!("a row with id {id} was found, and must not be there"),
        _ => format!(
            "the row with id {id} is not what must be there: were the rows made with the same --rows and --payload?"
        ),
    }
}

/// Benchmark objects on a separate connection.
pub trait BenchObjects: Send {
    /// Makes the objects and loads the rows. Replaces what this program made earlier. Fails, without changes, if other
    /// objects have these names.
    fn set_up(&mut self, rows: u64, payload: usize) -> impl Future<Output = Result<()>> + Send;

    /// Removes the rows inserted since [`set_up`](Self::set_up) loaded `rows` rows.
    fn remove_inserted(&mut self, rows: u64) -> impl Future<Output = Result<()>> + Send;

    /// Removes only what [`set_up`](Self::set_up) made. Returns whether there was anything.
    fn clean_up(&mut self) -> impl Future<Output = Result<bool>> + Send;
}
