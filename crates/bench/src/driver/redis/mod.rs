//! Redis and compatible servers, with the `redis` crate.
//!
//! A row is one value. `read` and `empty` are `GET`, `insert` is `SET`. A *pipeline* sends all its commands before it
//! reads the first reply. With several servers, a client connects to each, and the hash of a key chooses its server; a
//! pipeline is split among them. With `--multi-key on`, a pipeline is one `MGET` or `MSET` per server.

mod objects;

use super::store::key;
use super::{ConnectionLost, DatabaseDriver, DriverConnection, DriverOptions, wrong_row};
use crate::data::{self, InsertIds};
use crate::plan::BenchOp;
use crate::stats::Faults;
use crate::target::{BenchTarget, ServerEndpoint};
use anyhow::{Context, Result};
use objects::RedisShards;
use overhead_model::{Protocol, bail_usage};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo,
    RedisError, TlsCertificates, Value,
};

pub struct RedisDriver {
    target: BenchTarget,
    options: DriverOptions,
    database: i64,
}

impl DatabaseDriver for RedisDriver {
    type Connection = RedisConnections;
    type Objects = RedisShards;

    const PROTOCOL: Protocol = Protocol::Resp;
    const NAME: &'static str = "redis";
    const VERSION: &'static str = env!("DRIVER_REDIS");
    const TITLE: &'static str = "Redis";
    const OPTIONS: &'static [&'static str] = &["--resp", "--multi-key"];
    const INSERT_IDS: InsertIds = InsertIds::Ring;
    const SOCKETS: bool = true;

    fn new(target: BenchTarget, options: DriverOptions) -> Result<Self> {
        if target.tls.is_some() && target.servers.iter().any(|server| matches!(server, ServerEndpoint::Unix(_))) {
            bail_usage!("--tls: not supported on local sockets");
        }
        let database = match target.database.as_deref().map(str::parse) {
            None => 0,
            Some(Ok(number)) => number,
            Some(Err(_)) => bail_usage!("--database: use the number of a Redis database"),
        };
        Ok(Self { target, options, database })
    }

    async fn versions(&self) -> Result<Vec<Option<String>>> {
        let mut versions = Vec::new();
        for connection in &mut self.objects().await?.shards {
            let info = redis::cmd("INFO").arg("server").query_async::<String>(connection).await;
            versions.push(info.ok().as_deref().and_then(objects::version));
        }
        Ok(versions)
    }

    async fn objects(&self) -> Result<RedisShards> {
        // Connects to each server.
        let mut shards = Vec::new();
        for server in &self.target.servers {
            shards.push(self.open(server).await.with_context(|| format!("{server}: no connection"))?);
        }
        Ok(RedisShards { shards })
    }

    async fn connect(&self, _: &[BenchOp]) -> Result<RedisConnections> {
        let multi_key = self.options.multi_key == Some(true);
        Ok(RedisConnections { shards: self.objects().await?, payload: self.options.payload, multi_key })
    }
}

impl RedisDriver {
    async fn open(&self, server: &ServerEndpoint) -> Result<MultiplexedConnection> {
        let address = match (server, &self.target.tls) {
            (ServerEndpoint::Unix(path), _) => ConnectionAddr::Unix(path.clone()),
            (ServerEndpoint::Tcp { host, port }, None) => ConnectionAddr::Tcp(host.clone(), *port),
            (ServerEndpoint::Tcp { host, port }, Some(tls)) => {
                ConnectionAddr::TcpTls { host: host.clone(), port: *port, insecure: tls.insecure, tls_params: None }
            }
        };
        let mut login = RedisConnectionInfo::default().set_db(self.database);
        if self.options.resp == Some(3) {
            login = login.set_protocol(ProtocolVersion::RESP3);
        }
        if let Some(user) = &self.target.user {
            login = login.set_username(user);
        }
        if let Some(password) = &self.target.password {
            login = login.set_password(password);
        }
        let info = address.into_connection_info()?.set_redis_settings(login);
        let client = match &self.target.tls {
            Some(tls) if !tls.insecure => {
                let root_cert = tls.authorities()?;
                Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert })?
            }
            _ => Client::open(info)?,
        };
        // Silence is detected in `run`, for all databases.
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(Some(self.target.timeout)).set_response_timeout(None);
        Ok(client.get_multiplexed_async_connection_with_config(&config).await?)
    }
}

/// One client, connected to each server.
pub struct RedisConnections {
    shards: RedisShards,
    payload: usize,
    /// Send a pipeline as one command.
    multi_key: bool,
}

impl DriverConnection for RedisConnections {
    async fn run(&mut self, operation: BenchOp, ids: &[i64], faults: &mut Faults) -> Result<(), ConnectionLost> {
        if let [id] = *ids {
            let command = self.command(operation, id);
            match self.shards.connection_for(id).send_packed_command(&command).await {
                Ok(value) => self.check(operation, id, &value, faults),
                Err(error) => fail(&error, 1, faults)?,
            }
            return Ok(());
        }
        let answers = if self.multi_key {
            self.shards.multi_key(ids, |ids| self.command_of_many(operation, ids)).await
        } else {
            self.shards.pipeline(ids, |id| self.command(operation, id)).await
        };
        for (ids, values) in answers {
            match values {
                Ok(values) => {
                    for (&id, value) in ids.iter().zip(&values) {
                        self.check(operation, id, value, faults);
                    }
                }
                Err(error) => fail(&error, ids.len(), faults)?,
            }
        }
        Ok(())
    }

    async fn close(self) {}
}

impl RedisConnections {
    fn command(&self, operation: BenchOp, id: i64) -> Cmd {
        let key = key(id);
        if operation == BenchOp::Insert {
            let row = data::blob(id, self.payload);
            let mut command = Cmd::with_capacity(3, 3 + key.len() + row.len());
            command.arg("SET").arg(&key[..]).arg(row);
            return command;
        }
        let mut command = Cmd::with_capacity(2, 3 + key.len());
        command.arg("GET").arg(&key[..]);
        command
    }

    /// Returns one command for all rows.
    fn command_of_many(&self, operation: BenchOp, ids: &[i64]) -> Cmd {
        let mut command = redis::cmd(if operation == BenchOp::Insert { "MSET" } else { "MGET" });
        for &id in ids {
            command.arg(&key(id)[..]);
            if operation == BenchOp::Insert {
                command.arg(data::blob(id, self.payload));
            }
        }
        command
    }

    fn check(&self, operation: BenchOp, id: i64, value: &Value, faults: &mut Faults) {
        let right = match (operation, value) {
            (_, Value::ServerError(error)) => return faults.add(error),
            (BenchOp::Empty, Value::Nil) | (BenchOp::Insert, Value::Okay) => true,
            (BenchOp::Read, Value::BulkString(row)) => data::is_blob(row, id, self.payload),
            _ => false,
        };
        if !right {
            faults.add(wrong_row(operation, id));
        }
    }
}

/// Counts errors of the server; returns errors of the connection.
fn fail(error: &RedisError, count: usize, faults: &mut Faults) -> Result<(), ConnectionLost> {
    if error.is_unrecoverable_error() || error.is_io_error() || error.is_connection_dropped() {
        return Err(ConnectionLost::new(error));
    }
    faults.add_all(count, error);
    Ok(())
}
