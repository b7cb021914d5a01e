//! PostgreSQL and compatible servers, with the `tokio-postgres` crate.
//!
//! A *pipeline* sends its queries without waiting for answers. Each ends with its own `Sync`, so a failure does not
//! affect the others.
//!
//! | | `--prepared on` | `--prepared off` |
//! |---|---|---|
//! | `--binary on` | `Bind`, `Execute` of a statement prepared once | `Parse`, `Bind`, `Describe`, `Execute` each time |
//! | `--binary off` | `EXECUTE name(…)` as a simple query | the statement with its values as a simple query |
//!
//! `oltp-insert` is always a simple query, as in `sysbench`.

mod objects;
mod oltp;
mod statement;
mod tls;

use super::{ConnectionLost, DatabaseDriver, DriverConnection, DriverOptions, wrong_row};
use crate::data::InsertIds;
use crate::plan::BenchOp;
use crate::statements::ListedStatements;
use crate::stats::Faults;
use crate::target::BenchTarget;
use anyhow::Result;
use futures_util::future::join_all;
use objects::PostgresTables;
use overhead_model::{Protocol, bail_usage};
use statement::PostgresStatements;
use tls::MakeRustlsConnect;
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, Error};

/// Default user and database.
const SUPERUSER: &str = "postgres";

pub struct PostgresDriver {
    options: DriverOptions,
    config: Config,
    connector: MakeRustlsConnect,
}

impl DatabaseDriver for PostgresDriver {
    type Connection = PostgresConnection;
    type Objects = PostgresTables;

    const PROTOCOL: Protocol = Protocol::Pgwire;
    const NAME: &'static str = "tokio-postgres";
    const VERSION: &'static str = env!("DRIVER_TOKIO_POSTGRES");
    const TITLE: &'static str = "PostgreSQL";
    const OPTIONS: &'static [&'static str] = &["--prepared", "--binary"];
    const INSERT_IDS: InsertIds = InsertIds::Fresh;
    const OPERATIONS: &'static [BenchOp] = &BenchOp::ALL;

    fn new(target: BenchTarget, options: DriverOptions) -> Result<Self> {
        let [server] = target.servers.as_slice() else {
            bail_usage!("--server: the PostgreSQL driver connects to one server");
        };
        let user = target.user.as_deref().unwrap_or(SUPERUSER);
        let mut config = Config::new();
        let (host, port) = server.tcp()?;
        config.host(host).port(port).user(user).connect_timeout(target.timeout);
        config.dbname(target.database.as_deref().unwrap_or(user));
        if let Some(password) = &target.password {
            config.password(password);
        }
        config.ssl_mode(if target.tls.is_some() { SslMode::Require } else { SslMode::Disable });
        let connector = MakeRustlsConnect::new(target.tls.as_ref())?;
        Ok(Self { options, config, connector })
    }

    async fn versions(&self) -> Result<Vec<Option<String>>> {
        Ok(vec![objects::version(&self.open().await?.0).await?])
    }

    async fn objects(&self) -> Result<PostgresTables> {
        Ok(PostgresTables { client: self.open().await?.0, oltp: self.options.oltp })
    }

    async fn prepared_statements(&self) -> Result<ListedStatements> {
        bail_usage!(
            "--list-statements: PostgreSQL shows a session its own prepared statements only: take names and texts from your application or its driver's log, and write them into the file of --statements, one per line, with a tab between them"
        )
    }

    async fn connect(&self, operations: &[BenchOp]) -> Result<PostgresConnection> {
        let (client, task) = self.open().await?;
        let statements = PostgresStatements::prepare(&client, &self.options, operations).await?;
        Ok(PostgresConnection { client, task, statements })
    }
}

impl PostgresDriver {
    /// Connects, and spawns the task that drives the connection. The task returns why it ended early.
    async fn open(&self) -> Result<(Client, JoinHandle<Option<Error>>)> {
        let (client, connection) = self.config.connect(self.connector.clone()).await?;
        Ok((client, tokio::spawn(async move { connection.await.err() })))
    }
}

pub struct PostgresConnection {
    client: Client,
    task: JoinHandle<Option<Error>>,
    statements: PostgresStatements,
}

impl DriverConnection for PostgresConnection {
    async fn run(&mut self, operation: BenchOp, ids: &[i64], faults: &mut Faults) -> Result<(), ConnectionLost> {
        if let [id] = *ids {
            let answer = self.statements.run(&self.client, operation, id).await;
            return self.check(operation, id, answer, faults).await;
        }
        let answers = join_all(ids.iter().map(|&id| self.statements.run(&self.client, operation, id))).await;
        for (&id, answer) in ids.iter().zip(answers) {
            self.check(operation, id, answer, faults).await?;
        }
        Ok(())
    }

    async fn close(self) {
        drop((self.statements, self.client));
        let _ = self.task.await;
    }
}

impl PostgresConnection {
    async fn check(
        &mut self,
        operation: BenchOp,
        id: i64,
        answer: Result<bool, Error>,
        faults: &mut Faults,
    ) -> Result<(), ConnectionLost> {
        match answer {
            Ok(true) => {}
            Ok(false) => faults.add(wrong_row(operation, id)),
            Err(error) if self.client.is_closed() => {
                // The task has the reason why the connection closed.
                let reason = (&mut self.task).await.ok().flatten();
                return Err(ConnectionLost(text_of(reason.as_ref().unwrap_or(&error))));
            }
            Err(error) => faults.add(text_of(&error)),
        }
        Ok(())
    }
}

/// Returns the server's message, if there is one.
fn text_of(error: &Error) -> String {
    use std::error::Error as _;
    match (error.as_db_error(), error.source()) {
        (Some(error), _) => error.to_string(),
        (None, Some(cause)) => format!("{error}: {cause}"),
        (None, None) => error.to_string(),
    }
}
