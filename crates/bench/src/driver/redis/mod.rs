//! Redis and what speaks its protocol, by the crate `redis`.
//!
//! A row is one value of bytes. `read` and `empty` are `GET`, `insert` is `SET`. A *pipeline* is one: all its commands are
//! sent before the first reply is waited for. With several servers, a client has a connection to each, and the hash of a
//! key says which one holds it; a pipeline is divided among them. With `--multi-key on`, a pipeline is one `MGET` or `MSET` of
//! all its keys, for each server.

mod keys;
mod objects;
mod shards;

use super::{Driver, Lost, Options, Session, wrong_row};
use crate::data::{self, Inserts};
use crate::fault::Fault;
use crate::plan::Operation;
use crate::stats::Faults;
use crate::target::{Address, Target};
use anyhow::{Context, Result};
use overhead_model::Protocol;
use overhead_model::load::LoadSettings;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo,
    RedisError, TlsCertificates, Value,
};
use shards::Shards;

/// The driver.
pub struct Redis {
    target: Target,
    options: Options,
    database: i64,
}

impl Driver for Redis {
    type Session = Connections;
    type Objects = Shards;

    const PROTOCOL: Protocol = Protocol::Resp;
    const NAME: &'static str = "redis";
    const VERSION: &'static str = env!("DRIVER_REDIS");
    const INSERTS: Inserts = Inserts::Ring;
    const SOCKETS: bool = true;

    fn new(target: Target, options: Options) -> Result<Self> {
        options.only("Redis", &["--resp", "--multi-key"])?;
        if target.tls.is_some() && target.servers.iter().any(|server| matches!(server, Address::Unix(_))) {
            return Err(Fault::usage("--tls: a socket of this machine has none".to_owned()).into());
        }
        let database = match target.database.as_deref().map(str::parse) {
            None => 0,
            Some(Ok(number)) => number,
            Some(Err(_)) => return Err(Fault::usage("--database: Redis' databases have numbers".to_owned()).into()),
        };
        Ok(Self { target, options, database })
    }

    fn settings(&self) -> LoadSettings {
        LoadSettings {
            resp: Some(self.options.resp.unwrap_or(2)),
            multi_key: Some(self.options.multi_key == Some(true)),
            tls: self.target.tls.is_some(),
            threads: self.options.threads,
            ..LoadSettings::default()
        }
    }

    async fn versions(&self) -> Result<Vec<Option<String>>> {
        let mut versions = Vec::new();
        for connection in &mut self.open().await?.shards {
            let info = redis::cmd("INFO").arg("server").query_async::<String>(connection).await;
            versions.push(info.ok().as_deref().and_then(objects::version));
        }
        Ok(versions)
    }

    async fn objects(&self) -> Result<Shards> {
        self.open().await
    }

    async fn connect(&self, _: &[Operation]) -> Result<Connections> {
        let multi_key = self.options.multi_key == Some(true);
        Ok(Connections { shards: self.open().await?, payload: self.options.payload, multi_key })
    }
}

impl Redis {
    /// A connection to each server.
    async fn open(&self) -> Result<Shards> {
        let mut shards = Vec::new();
        for server in &self.target.servers {
            shards.push(self.open_one(server).await.with_context(|| format!("{server}: no connection"))?);
        }
        Ok(Shards { shards })
    }

    async fn open_one(&self, server: &Address) -> Result<MultiplexedConnection> {
        let address = match (server, &self.target.tls) {
            (Address::Unix(path), _) => ConnectionAddr::Unix(path.clone()),
            (Address::Tcp { host, port }, None) => ConnectionAddr::Tcp(host.clone(), *port),
            (Address::Tcp { host, port }, Some(tls)) => {
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
        // Who does not answer is noticed for all databases alike, where operations are counted.
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(Some(self.target.timeout)).set_response_timeout(None);
        Ok(client.get_multiplexed_async_connection_with_config(&config).await?)
    }
}

/// One client: a connection to each server.
pub struct Connections {
    shards: Shards,
    payload: usize,
    /// A pipeline is one command.
    multi_key: bool,
}

impl Session for Connections {
    async fn run(&mut self, operation: Operation, ids: &[i64], faults: &mut Faults) -> Result<(), Lost> {
        if let [id] = *ids {
            let command = self.command(operation, id);
            match self.shards.of(id).send_packed_command(&command).await {
                Ok(value) => self.check(operation, id, &value, faults),
                Err(error) => fail(&error, 1, faults)?,
            }
            return Ok(());
        }
        let answers = if self.multi_key {
            self.shards.at_once(ids, |ids| self.command_of_many(operation, ids)).await
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

impl Connections {
    fn command(&self, operation: Operation, id: i64) -> Cmd {
        let key = keys::key(id);
        if operation == Operation::Insert {
            let row = data::blob(id, self.payload);
            let mut command = Cmd::with_capacity(3, 3 + key.len() + row.len());
            command.arg("SET").arg(&key[..]).arg(row);
            return command;
        }
        let mut command = Cmd::with_capacity(2, 3 + key.len());
        command.arg("GET").arg(&key[..]);
        command
    }

    /// One command for all these rows.
    fn command_of_many(&self, operation: Operation, ids: &[i64]) -> Cmd {
        let mut command = redis::cmd(if operation == Operation::Insert { "MSET" } else { "MGET" });
        for &id in ids {
            command.arg(&keys::key(id)[..]);
            if operation == Operation::Insert {
                command.arg(data::blob(id, self.payload));
            }
        }
        command
    }

    fn check(&self, operation: Operation, id: i64, value: &Value, faults: &mut Faults) {
        let right = match (operation, value) {
            (_, Value::ServerError(error)) => return faults.add(error),
            (Operation::Empty, Value::Nil) | (Operation::Insert, Value::Okay) => true,
            (Operation::Read, Value::BulkString(row)) => {
                row.len() == 8 + data::VECTOR * 4 + self.payload && row[..8] == id.to_be_bytes()
            }
            _ => false,
        };
        if !right {
            faults.add(wrong_row(operation, id));
        }
    }
}

/// An error of the server is a fault; an error of the connection ends it.
fn fail(error: &RedisError, count: usize, faults: &mut Faults) -> Result<(), Lost> {
    if error.is_unrecoverable_error() || error.is_io_error() || error.is_connection_dropped() {
        return Err(Lost::new(error));
    }
    faults.add_all(count, error);
    Ok(())
}
