//! `MySQL`, `MariaDB` and what speaks their protocol, by the crate `mysql_async`.
//!
//! The driver has one request in flight per connection, so a *pipeline* is one request for several rows: a `SELECT` by `IN`, or an
//! `INSERT` of several rows. `oltp-range` has no pipeline.
//!
//! | `--prepared on` | `--prepared off` |
//! |---|---|
//! | `COM_STMT_EXECUTE` of a statement prepared once, values and rows in binary | `COM_QUERY`, values and rows as text |
//!
//! `oltp-insert` is a `COM_QUERY` in both, as in `sysbench`. The vector of a row is a `VARBINARY(64)`, as there are no arrays. The
//! driver asks each connection for two variables at its start. It writes no log of TLS keys.

mod objects;
mod statement;
mod text;

use super::{Compression, Driver, Lost, Options, Session};
use crate::data::{Inserts, NAMESPACE};
use crate::fault::Fault;
use crate::plan::Operation;
use crate::stats::Faults;
use crate::target::Target;
use crate::tls::Tls;
use anyhow::{Context, Result, ensure};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, SslOpts};
use objects::Tables;
use overhead_model::Protocol;
use overhead_model::load::LoadSettings;
use statement::Statements;

/// The user where nothing else is said.
const SUPERUSER: &str = "root";

/// The driver.
pub struct Mysql {
    options: Options,
    database: String,
    /// Without a database.
    server: OptsBuilder,
    tls: bool,
}

impl Driver for Mysql {
    type Session = Connection;
    type Objects = Tables;

    const PROTOCOL: Protocol = Protocol::Mysql;
    const NAME: &'static str = "mysql_async";
    const VERSION: &'static str = env!("DRIVER_MYSQL_ASYNC");
    const INSERTS: Inserts = Inserts::Fresh;
    const OPERATIONS: &'static [Operation] = &Operation::ALL;

    fn new(target: Target, options: Options) -> Result<Self> {
        options.only("MySQL", &["--prepared", "--compression"])?;
        if !matches!(options.compression, None | Some(Compression::None | Compression::Zlib)) {
            return Err(Fault::usage("--compression: this driver of MySQL has zlib".to_owned()).into());
        }
        let [server] = target.servers.as_slice() else {
            return Err(Fault::usage("--server: one is enough for MySQL".to_owned()).into());
        };
        let database = target.database.clone().unwrap_or_else(|| NAMESPACE.to_owned());
        if !database.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err(Fault::usage("--database: letters, digits and _".to_owned()).into());
        }
        let (host, port) = server.tcp()?;
        // It would change to the server's socket, where nothing is captured.
        let mut opts = OptsBuilder::default().ip_or_hostname(host).tcp_port(port).prefer_socket(false);
        opts = opts.user(Some(target.user.as_deref().unwrap_or(SUPERUSER))).pass(target.password.clone());
        if options.compression == Some(Compression::Zlib) {
            opts = opts.compression(mysql_async::Compression::default());
        }
        if let Some(tls) = &target.tls {
            opts = opts.ssl_opts(ssl(tls)?);
        }
        Ok(Self { options, database, server: opts, tls: target.tls.is_some() })
    }

    fn settings(&self) -> LoadSettings {
        LoadSettings {
            prepared: Some(self.options.prepared != Some(false)),
            compression: Some(self.options.compression.unwrap_or(Compression::None).name().to_owned()),
            tls: self.tls,
            threads: self.options.threads,
            ..LoadSettings::default()
        }
    }

    async fn versions(&self) -> Result<Vec<Option<String>>> {
        let mut connection = self.open(None).await?;
        if self.options.compression == Some(Compression::Zlib) {
            // A server that does not know it is silently sent packets as they are.
            let status: Option<(String, String)> = connection.query_first("SHOW STATUS LIKE 'Compression'").await?;
            let is_on = status.is_some_and(|(_, value)| value.eq_ignore_ascii_case("on"));
            ensure!(is_on, "--compression zlib: the server does not offer it");
        }
        let version = connection.query_first::<String, _>("SELECT VERSION()").await?;
        connection.disconnect().await?;
        Ok(vec![version.map(|version| objects::version(&version))])
    }

    async fn objects(&self) -> Result<Tables> {
        let connection = self.open(None).await?;
        Ok(Tables { connection, database: self.database.clone(), oltp: self.options.oltp })
    }

    async fn connect(&self, operations: &[Operation]) -> Result<Connection> {
        if self.options.pipeline > 1 && operations.contains(&Operation::OltpRange) {
            return Err(Fault::usage("--pipeline: oltp-range has none".to_owned()).into());
        }
        let mut connection = self.open(Some(&self.database)).await?;
        let statements = Statements::prepare(&mut connection, &self.options, operations).await?;
        Ok(Connection { connection, statements })
    }
}

impl Mysql {
    async fn open(&self, database: Option<&str>) -> Result<Conn> {
        Ok(Conn::new(Opts::from(self.server.clone().db_name(database))).await?)
    }
}

/// What the driver is to trust: its own authorities are those of a list in it, not those of the system.
fn ssl(tls: &Tls) -> Result<SslOpts> {
    if tls.insecure {
        return Ok(SslOpts::default().with_danger_accept_invalid_certs(true));
    }
    let authorities = match tls.authorities()? {
        Some(pem) => vec![pem.into()],
        None => rustls_native_certs::load_native_certs().certs.iter().map(|der| der.to_vec().into()).collect(),
    };
    Ok(SslOpts::default().with_root_certs(authorities).with_disable_built_in_roots(true))
}

/// One client.
pub struct Connection {
    connection: Conn,
    statements: Statements,
}

impl Session for Connection {
    async fn run(&mut self, operation: Operation, ids: &[i64], faults: &mut Faults) -> Result<(), Lost> {
        let done = self.statements.run(&mut self.connection, operation, ids, faults).await;
        done.or_else(|error| match error {
            mysql_async::Error::Server(error) => {
                faults.add_all(ids.len(), error);
                Ok(())
            }
            error => Err(Lost::new(error)),
        })
    }

    async fn close(self) {
        let _ = self.connection.disconnect().await.context("the connection is gone");
    }
}
