//! PostgreSQL and what speaks its protocol, by the crate `tokio-postgres`.
//!
//! A *pipeline* sends its queries one after the other without waiting for answers; each has a `Sync` of its own, so one
//! that fails does not take the others with it.
//!
//! | | `--prepared on` | `--prepared off` |
//! |---|---|---|
//! | `--binary on` | `Bind`, `Execute` of a statement prepared once | `Parse`, `Bind`, `Describe`, `Execute` each time |
//! | `--binary off` | `EXECUTE name(…)` as a simple query | the statement with its values as a simple query |
//!
//! `oltp-insert` is a simple query in every one of them, as in `sysbench`.

mod objects;
mod oltp;
mod statement;
mod tls;

use super::{Driver, Lost, Options, Session, wrong_row};
use crate::data::Inserts;
use crate::fault::Fault;
use crate::plan::Operation;
use crate::stats::Faults;
use crate::target::Target;
use anyhow::Result;
use futures_util::future::join_all;
use objects::Tables;
use overhead_model::Protocol;
use overhead_model::load::LoadSettings;
use statement::Statements;
use tls::Connector;
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, Error};

/// The user, and the user's database, where nothing else is said.
const SUPERUSER: &str = "postgres";

/// The driver.
pub struct Postgres {
    target: Target,
    options: Options,
    config: Config,
    connector: Connector,
}

impl Driver for Postgres {
    type Session = Connection;
    type Objects = Tables;

    const PROTOCOL: Protocol = Protocol::Pgwire;
    const NAME: &'static str = "tokio-postgres";
    const VERSION: &'static str = env!("DRIVER_TOKIO_POSTGRES");
    const INSERTS: Inserts = Inserts::Fresh;
    const OPERATIONS: &'static [Operation] = &Operation::ALL;

    fn new(target: Target, options: Options) -> Result<Self> {
        options.only("PostgreSQL", &["--prepared", "--binary"])?;
        let [server] = target.servers.as_slice() else {
            return Err(Fault::usage("--server: one is enough for PostgreSQL".to_owned()).into());
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
        let connector = Connector::new(target.tls.as_ref())?;
        Ok(Self { target, options, config, connector })
    }

    fn settings(&self) -> LoadSettings {
        LoadSettings {
            prepared: Some(self.options.prepared != Some(false)),
            binary: Some(self.options.binary != Some(false)),
            tls: self.target.tls.is_some(),
            threads: self.options.threads,
            ..LoadSettings::default()
        }
    }

    async fn versions(&self) -> Result<Vec<Option<String>>> {
        Ok(vec![objects::version(&self.open().await?.client).await?])
    }

    async fn objects(&self) -> Result<Tables> {
        Ok(Tables { client: self.open().await?.client, oltp: self.options.oltp })
    }

    async fn connect(&self, operations: &[Operation]) -> Result<Connection> {
        let Open { client, task } = self.open().await?;
        let statements = Statements::prepare(&client, &self.options, operations).await?;
        Ok(Connection { client, task, statements })
    }
}

/// A connection and the task that reads and writes it; the task gives the reason when it ends early.
struct Open {
    client: Client,
    task: JoinHandle<Option<Error>>,
}

impl Postgres {
    async fn open(&self) -> Result<Open> {
        let (client, connection) = self.config.connect(self.connector.clone()).await?;
        let task = tokio::spawn(async move { connection.await.err() });
        Ok(Open { client, task })
    }
}

/// One client.
pub struct Connection {
    client: Client,
    task: JoinHandle<Option<Error>>,
    statements: Statements,
}

impl Session for Connection {
    async fn run(&mut self, operation: Operation, ids: &[i64], faults: &mut Faults) -> Result<(), Lost> {
        if let [id] = *ids {
            let answer = self.statements.run(&self.client, operation, id).await;
            return self.take(operation, id, answer, faults).await;
        }
        let answers = join_all(ids.iter().map(|&id| self.statements.run(&self.client, operation, id))).await;
        for (&id, answer) in ids.iter().zip(answers) {
            self.take(operation, id, answer, faults).await?;
        }
        Ok(())
    }

    async fn close(self) {
        drop((self.statements, self.client));
        let _ = self.task.await;
    }
}

impl Connection {
    async fn take(
        &mut self,
        operation: Operation,
        id: i64,
        answer: Result<bool, Error>,
        faults: &mut Faults,
    ) -> Result<(), Lost> {
        match answer {
            Ok(true) => {}
            Ok(false) => faults.add(wrong_row(operation, id)),
            Err(error) if self.client.is_closed() => {
                // The task knows more than that the connection is closed.
                let reason = (&mut self.task).await.ok().flatten();
                return Err(Lost(text_of(reason.as_ref().unwrap_or(&error))));
            }
            Err(error) => faults.add(text_of(&error)),
        }
        Ok(())
    }
}

/// Returns the server's own words, where there are any.
fn text_of(error: &Error) -> String {
    use std::error::Error as _;
    match (error.as_db_error(), error.source()) {
        (Some(error), _) => error.to_string(),
        (None, Some(cause)) => format!("{error}: {cause}"),
        (None, None) => error.to_string(),
    }
}
