//! Cassandra, ScyllaDB and what speaks CQL, by the crate `scylla`.
//!
//! A *pipeline* of reads is requests in flight on one connection, each with a stream of its own; a pipeline of inserts is
//! one `UNLOGGED BATCH`.
//!
//! Each client has a session of its own with one connection to each node. The driver adds a control connection per
//! session, which is idle but for the questions at its start and the heartbeat every 30 s.

mod objects;
mod statement;

use super::{Compression, Driver, Lost, Options, Session};
use crate::data::Inserts;
use crate::fault::Fault;
use crate::plan::Operation;
use crate::stats::Faults;
use crate::target::Target;
use anyhow::{Context, Result};
use objects::Tables;
use overhead_model::Protocol;
use overhead_model::load::LoadSettings;
use scylla::client::PoolSize;
use scylla::client::session::Session as Connected;
use scylla::client::session_builder::SessionBuilder;
use statement::Statements;
use std::num::NonZeroUsize;

/// The driver.
pub struct Scylla {
    target: Target,
    options: Options,
    keyspace: String,
}

impl Driver for Scylla {
    type Session = Client;
    type Objects = Tables;

    const PROTOCOL: Protocol = Protocol::Cql;
    const NAME: &'static str = "scylla";
    const VERSION: &'static str = env!("DRIVER_SCYLLA");
    const INSERTS: Inserts = Inserts::Fresh;

    fn new(target: Target, options: Options) -> Result<Self> {
        options.only("CQL", &["--prepared", "--skip-metadata", "--compression"])?;
        if matches!(options.compression, Some(Compression::Zlib | Compression::Zstd)) {
            return Err(Fault::usage("--compression: CQL has lz4 and snappy".to_owned()).into());
        }
        if options.prepared == Some(false) && options.skip_metadata == Some(true) {
            return Err(Fault::usage("--skip-metadata: only with prepared statements".to_owned()).into());
        }
        let keyspace = target.database.clone().unwrap_or_else(|| crate::data::NAMESPACE.to_owned());
        if !keyspace.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err(Fault::usage("--keyspace: letters, digits and _".to_owned()).into());
        }
        Ok(Self { target, options, keyspace })
    }

    fn settings(&self) -> LoadSettings {
        LoadSettings {
            prepared: Some(self.options.prepared != Some(false)),
            skip_metadata: Some(self.options.skip_metadata == Some(true)),
            compression: Some(self.options.compression.unwrap_or(Compression::None).name().to_owned()),
            tls: self.target.tls.is_some(),
            threads: self.options.threads,
            ..LoadSettings::default()
        }
    }

    async fn versions(&self) -> Result<Vec<Option<String>>> {
        // The contact points are nodes of one cluster; the driver does not say which of them has answered.
        let version = objects::version(&self.open().await?).await?;
        Ok(vec![version; self.target.servers.len()])
    }

    async fn objects(&self) -> Result<Tables> {
        Ok(Tables { session: self.open().await?, keyspace: self.keyspace.clone() })
    }

    async fn connect(&self, operations: &[Operation]) -> Result<Client> {
        let session = self.open().await?;
        let statements = Statements::prepare(&session, &self.options, &self.keyspace, operations).await?;
        Ok(Client { session, statements })
    }
}

impl Scylla {
    async fn open(&self) -> Result<Connected> {
        let mut builder = SessionBuilder::new()
            .known_nodes(self.target.servers.iter().map(ToString::to_string))
            .pool_size(PoolSize::PerHost(NonZeroUsize::MIN))
            .connection_timeout(self.target.timeout)
            .keyspaces_to_fetch([&self.keyspace]);
        builder = builder.compression(match self.options.compression {
            Some(Compression::Lz4) => Some(scylla::client::Compression::Lz4),
            Some(Compression::Snappy) => Some(scylla::client::Compression::Snappy),
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

/// One client.
pub struct Client {
    session: Connected,
    statements: Statements,
}

impl Session for Client {
    async fn run(&mut self, operation: Operation, ids: &[i64], faults: &mut Faults) -> Result<(), Lost> {
        self.statements.run(&self.session, operation, ids, faults).await
    }

    async fn close(self) {}
}
