//! Cassandra, ScyllaDB and other CQL servers, with the `scylla` crate.
//!
//! A *pipeline* is concurrent requests on one connection, each on its own stream. With `--multi-key on`, a pipeline of inserts is
//! one `UNLOGGED BATCH`.
//!
//! Each client has a session with one connection per node. The driver adds a control connection per session, which is
//! idle except for queries at its start and a heartbeat every 30 s.

mod objects;
mod statement;

use super::{ConnectionLost, DatabaseDriver, DriverCompression, DriverConnection, DriverOptions};
use crate::data::InsertIds;
use crate::plan::BenchOp;
use crate::statements::ListedStatements;
use crate::stats::Faults;
use crate::target::BenchTarget;
use anyhow::{Context, Result};
use objects::ScyllaTables;
use overhead_model::{Protocol, bail_usage};
use scylla::client::PoolSize;
use scylla::client::session::Session as Connected;
use scylla::client::session_builder::SessionBuilder;
use statement::ScyllaStatements;
use std::num::NonZeroUsize;

pub struct ScyllaDriver {
    target: BenchTarget,
    options: DriverOptions,
    keyspace: String,
}

impl DatabaseDriver for ScyllaDriver {
    type Connection = ScyllaConnection;
    type Objects = ScyllaTables;

    const PROTOCOL: Protocol = Protocol::Cql;
    const NAME: &'static str = "scylla";
    const VERSION: &'static str = env!("DRIVER_SCYLLA");
    const TITLE: &'static str = "CQL";
    const OPTIONS: &'static [&'static str] = &["--prepared", "--skip-metadata", "--compression", "--multi-key"];
    const INSERT_IDS: InsertIds = InsertIds::Fresh;

    fn new(target: BenchTarget, options: DriverOptions) -> Result<Self> {
        if matches!(options.compression, Some(DriverCompression::Zlib | DriverCompression::Zstd)) {
            bail_usage!("--compression: CQL supports lz4 and snappy");
        }
        if options.prepared == Some(false) && options.skip_metadata == Some(true) {
            bail_usage!("--skip-metadata: only with prepared statements");
        }
        let keyspace = target.database.clone().unwrap_or_else(|| crate::data::NAMESPACE.to_owned());
        if !keyspace.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            bail_usage!("--keyspace: use letters, digits and _");
        }
        Ok(Self { target, options, keyspace })
    }

    async fn versions(&self) -> Result<Vec<Option<String>>> {
        // The contact points belong to one cluster; the driver does not say which node answered.
        let version = objects::version(&self.open().await?).await?;
        Ok(vec![version; self.target.servers.len()])
    }

    async fn objects(&self) -> Result<ScyllaTables> {
        Ok(ScyllaTables { session: self.open().await?, keyspace: self.keyspace.clone() })
    }

    async fn prepared_statements(&self) -> Result<ListedStatements> {
        objects::list(&self.open().await?).await
    }

    async fn connect(&self, operations: &[BenchOp]) -> Result<ScyllaConnection> {
        let session = self.open().await?;
        let statements = ScyllaStatements::prepare(&session, &self.options, &self.keyspace, operations).await?;
        Ok(ScyllaConnection { session, statements })
    }
}

impl ScyllaDriver {
    async fn open(&self) -> Result<Connected> {
        let mut builder = SessionBuilder::new()
            .known_nodes(self.target.servers.iter().map(ToString::to_string))
            .pool_size(PoolSize::PerHost(NonZeroUsize::MIN))
            .connection_timeout(self.target.timeout)
            .keyspaces_to_fetch([&self.keyspace]);
        builder = builder.compression(match self.options.compression {
            Some(DriverCompression::Lz4) => Some(scylla::client::Compression::Lz4),
            Some(DriverCompression::Snappy) => Some(scylla::client::Compression::Snappy),
            _ => None,
        });
        if let Some(user) = &self.target.user {
            builder = builder.user(user, self.target.password.clone().unwrap_or_default());
        }
        if let Some(tls) = &self.target.tls {
            builder = builder.tls_context(Some(tls.config()?));
        }
        builder.build().await.context("no connection")
    }
}

pub struct ScyllaConnection {
    session: Connected,
    statements: ScyllaStatements,
}

impl DriverConnection for ScyllaConnection {
    async fn run(&mut self, operation: BenchOp, ids: &[i64], faults: &mut Faults) -> Result<(), ConnectionLost> {
        self.statements.run(&self.session, operation, ids, faults).await
    }

    async fn close(self) {}
}
