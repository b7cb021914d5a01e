//! `MySQL`, `MariaDB` and compatible servers, with the `mysql_async` crate.
//!
//! A connection has one request in flight. With `--multi-key on`, a *pipeline* is one request for several rows: a `SELECT` with
//! `IN`, or an `INSERT` of several rows, but for `oltp-range`.
//!
//! | `--prepared on` | `--prepared off` |
//! |---|---|
//! | `COM_STMT_EXECUTE` of a statement prepared once, values and rows in binary | `COM_QUERY`, values and rows as text |
//!
//! `oltp-insert` is always a `COM_QUERY`, as in `sysbench`. Without arrays, the vector is a `VARBINARY(64)`.
//! The driver queries two variables on each new connection. It does not log TLS keys.

mod objects;
mod statement;

use super::{ConnectionLost, DatabaseDriver, DriverCompression, DriverConnection, DriverOptions};
use crate::data::{InsertIds, NAMESPACE};
use crate::plan::BenchOp;
use crate::statements::ListedStatements;
use crate::stats::Faults;
use crate::target::BenchTarget;
use crate::tls::TlsTrust;
use anyhow::{Context, Result, ensure};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, SslOpts};
use objects::MysqlTables;
use overhead_model::{Protocol, bail_usage};
use statement::MysqlStatements;

/// Default user.
const SUPERUSER: &str = "root";

pub struct MysqlDriver {
    options: DriverOptions,
    database: String,
    /// Without a database.
    server: OptsBuilder,
}

impl DatabaseDriver for MysqlDriver {
    type Connection = MysqlConnection;
    type Objects = MysqlTables;

    const PROTOCOL: Protocol = Protocol::Mysql;
    const NAME: &'static str = "mysql_async";
    const VERSION: &'static str = env!("DRIVER_MYSQL_ASYNC");
    const TITLE: &'static str = "MySQL";
    const OPTIONS: &'static [&'static str] = &["--prepared", "--compression", "--multi-key"];
    const PIPELINES: bool = false;
    const INSERT_IDS: InsertIds = InsertIds::Fresh;
    const OPERATIONS: &'static [BenchOp] = &BenchOp::ALL;

    fn new(target: BenchTarget, options: DriverOptions) -> Result<Self> {
        if !matches!(options.compression, None | Some(DriverCompression::None | DriverCompression::Zlib)) {
            bail_usage!("--compression: the MySQL driver only supports zlib");
        }
        let [server] = target.servers.as_slice() else {
            bail_usage!("--server: the MySQL driver connects to one server");
        };
        let database = target.database.clone().unwrap_or_else(|| NAMESPACE.to_owned());
        if !database.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            bail_usage!("--database: use letters, digits and _");
        }
        let (host, port) = server.tcp()?;
        // The driver would switch to the server's local socket, which cannot be captured.
        let mut opts = OptsBuilder::default().ip_or_hostname(host).tcp_port(port).prefer_socket(false);
        opts = opts.user(Some(target.user.as_deref().unwrap_or(SUPERUSER))).pass(target.password.clone());
        if options.compression == Some(DriverCompression::Zlib) {
            opts = opts.compression(mysql_async::Compression::default());
        }
        if let Some(tls) = &target.tls {
            opts = opts.ssl_opts(ssl(tls)?);
        }
        Ok(Self { options, database, server: opts })
    }

    async fn versions(&self) -> Result<Vec<Option<String>>> {
        let mut connection = self.open(None).await?;
        if self.options.compression == Some(DriverCompression::Zlib) {
            // The driver silently skips compression that the server does not support.
            let status: Option<(String, String)> = connection.query_first("SHOW STATUS LIKE 'Compression'").await?;
            let is_on = status.is_some_and(|(_, value)| value.eq_ignore_ascii_case("on"));
            ensure!(is_on, "--compression zlib: the server does not offer it");
        }
        let version = connection.query_first::<String, _>("SELECT VERSION()").await?;
        connection.disconnect().await?;
        Ok(vec![version.map(|version| objects::version(&version))])
    }

    async fn objects(&self) -> Result<MysqlTables> {
        let connection = self.open(None).await?;
        Ok(MysqlTables { connection, database: self.database.clone(), oltp: self.options.oltp })
    }

    async fn prepared_statements(&self) -> Result<ListedStatements> {
        objects::list(self.open(None).await?).await
    }

    async fn connect(&self, operations: &[BenchOp]) -> Result<MysqlConnection> {
        if self.options.pipeline > 1 && operations.contains(&BenchOp::OltpRange) {
            bail_usage!("--pipeline: not supported by oltp-range");
        }
        let mut connection = self.open(Some(&self.database)).await?;
        let statements = MysqlStatements::prepare(&mut connection, &self.options, operations).await?;
        Ok(MysqlConnection { connection, statements })
    }
}

impl MysqlDriver {
    async fn open(&self, database: Option<&str>) -> Result<Conn> {
        Ok(Conn::new(Opts::from(self.server.clone().db_name(database))).await?)
    }
}

/// Returns the trust settings. Uses the system's authorities, not the list built into the driver.
fn ssl(tls: &TlsTrust) -> Result<SslOpts> {
    if tls.insecure {
        return Ok(SslOpts::default().with_danger_accept_invalid_certs(true));
    }
    let authorities = match tls.authorities()? {
        Some(pem) => vec![pem.into()],
        None => rustls_native_certs::load_native_certs().certs.iter().map(|der| der.to_vec().into()).collect(),
    };
    Ok(SslOpts::default().with_root_certs(authorities).with_disable_built_in_roots(true))
}

pub struct MysqlConnection {
    connection: Conn,
    statements: MysqlStatements,
}

impl DriverConnection for MysqlConnection {
    async fn run(&mut self, operation: BenchOp, ids: &[i64], faults: &mut Faults) -> Result<(), ConnectionLost> {
        let done = self.statements.run(&mut self.connection, operation, ids, faults).await;
        done.or_else(|error| match error {
            mysql_async::Error::Server(error) => {
                faults.add_all(ids.len(), error);
                Ok(())
            }
            error => Err(ConnectionLost::new(error)),
        })
    }

    async fn close(self) {
        let _ = self.connection.disconnect().await.context("the connection is gone");
    }
}
