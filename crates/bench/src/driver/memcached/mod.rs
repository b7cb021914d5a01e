//! memcached's text protocol, with the `async-memcached` crate.
//!
//! A row is one value. `read` and `empty` are `get`, `insert` is `set`. With `--multi-key on`, a *pipeline* is one `get` of
//! several keys, or several `set`s sent before the first answer is read.

use super::store::{KeyValueStore, LENGTH, MARKER, key};
use super::{ConnectionLost, DatabaseDriver, DriverConnection, DriverOptions, wrong_row};
use crate::data::{self, InsertIds, blob};
use crate::plan::BenchOp;
use crate::stats::Faults;
use crate::target::{BenchTarget, ServerEndpoint};
use anyhow::{Context, Result, bail};
use async_memcached::{AsciiProtocol, Client, Error, Status};
use overhead_model::Protocol;
use overhead_model::exit::StatusFault;

pub struct MemcachedDriver {
    target: BenchTarget,
    options: DriverOptions,
}

impl DatabaseDriver for MemcachedDriver {
    type Connection = MemcachedConnection;
    type Objects = Client;

    const PROTOCOL: Protocol = Protocol::Memcache;
    const NAME: &'static str = "async-memcached";
    const VERSION: &'static str = env!("DRIVER_ASYNC_MEMCACHED");
    const TITLE: &'static str = "memcached";
    const OPTIONS: &'static [&'static str] = &["--multi-key"];
    const PIPELINES: bool = false;
    const INSERT_IDS: InsertIds = InsertIds::Ring;
    const SOCKETS: bool = true;

    fn new(target: BenchTarget, options: DriverOptions) -> Result<Self> {
        let unknown = [
            ("--server: the memcached driver connects to one server", target.servers.len() > 1),
            ("--database: not supported by memcached", target.database.is_some()),
            ("--tls: not supported by the memcached driver", target.tls.is_some()),
            ("--user: not supported by the memcached driver", target.user.is_some() || target.password.is_some()),
        ];
        match unknown.iter().find(|(_, is_set)| *is_set) {
            Some((name, _)) => Err(StatusFault::usage((*name).to_owned()).into()),
            None => Ok(Self { target, options }),
        }
    }

    async fn versions(&self) -> Result<Vec<Option<String>>> {
        let version = self.objects().await?.version().await?;
        let version = version.trim().trim_start_matches("VERSION ");
        Ok(vec![Some(format!("memcached {version}"))])
    }

    async fn objects(&self) -> Result<Client> {
        let Some(server) = self.target.servers.first() else { bail!("no server") };
        let connected = tokio::time::timeout(self.target.timeout, greet(url_of(server)?)).await;
        let client = match connected {
            Ok(Ok(client)) => Ok(client),
            // The driver's own message hides the cause.
            Ok(Err(Error::Connect(error) | Error::Io(error))) => Err(error.into()),
            Ok(Err(error)) => Err(error.into()),
            Err(late) => Err(anyhow::Error::from(late)),
        };
        client.with_context(|| format!("{server}: no connection"))
    }

    async fn connect(&self, _: &[BenchOp]) -> Result<MemcachedConnection> {
        Ok(MemcachedConnection { client: self.objects().await?, payload: self.options.payload })
    }
}

/// Returns the URL that the driver expects.
fn url_of(server: &ServerEndpoint) -> Result<String> {
    let url = match server {
        ServerEndpoint::Tcp { .. } => format!("tcp://{server}"),
        ServerEndpoint::Unix(path) => {
            let path = std::path::absolute(path)?;
            let file = url::Url::from_file_path(&path).ok().map(|url| url.path().to_owned());
            // The driver does not decode escapes in the URL.
            let plain = file.filter(|plain| Some(plain.as_str()) == path.to_str());
            let refused = || {
                StatusFault::usage(format!(
                    "--server {server}: invalid path for this driver: use letters, digits, `.`, `_` and `-`"
                ))
            };
            format!("unix://{}", plain.ok_or_else(refused)?)
        }
    };
    Ok(url)
}

/// Connects and requests the version, to check that the server answers.
async fn greet(server: String) -> Result<Client, Error> {
    let mut client = Client::new(server).await?;
    client.version().await?;
    Ok(client)
}

/// A client with one connection.
pub struct MemcachedConnection {
    client: Client,
    payload: usize,
}

impl DriverConnection for MemcachedConnection {
    async fn run(&mut self, operation: BenchOp, ids: &[i64], faults: &mut Faults) -> Result<(), ConnectionLost> {
        let done = match (operation, ids) {
            (BenchOp::Insert, _) => self.set(ids, faults).await,
            (_, [id]) => self.get(operation, *id, faults).await,
            _ => self.get_many(operation, ids, faults).await,
        };
        done.or_else(|error| fail(&error, ids.len(), faults))
    }

    async fn close(self) {}
}

impl MemcachedConnection {
    async fn get(&mut self, operation: BenchOp, id: i64, faults: &mut Faults) -> Result<(), Error> {
        let value = found(self.client.get(key(id)).await)?;
        let row = value.as_ref().and_then(|value| value.data.as_deref());
        self.check(operation, id, row, faults);
        Ok(())
    }

    async fn get_many(&mut self, operation: BenchOp, ids: &[i64], faults: &mut Faults) -> Result<(), Error> {
        let keys: Vec<_> = ids.iter().map(|&id| key(id)).collect();
        let found = found(self.client.get_multi(keys).await)?;
        // Values arrive in the order of their keys; missing ones are left out.
        let mut found = found.iter().peekable();
        for &id in ids {
            let value = found.next_if(|value| value.key == key(id));
            self.check(operation, id, value.and_then(|value| value.data.as_deref()), faults);
        }
        Ok(())
    }

    async fn set(&mut self, ids: &[i64], faults: &mut Faults) -> Result<(), Error> {
        let rows: Vec<([u8; LENGTH], Vec<u8>)> = ids.iter().map(|&id| (key(id), blob(id, self.payload))).collect();
        let pairs: Vec<_> = rows.iter().map(|(key, row)| (*key, row.as_slice())).collect();
        if let [(key, row)] = pairs[..] {
            return self.client.set(key, row, None, None).await;
        }
        for refused in self.client.set_multi(&pairs, None, None).await?.into_values().filter_map(Result::err) {
            faults.add(refused);
        }
        Ok(())
    }

    fn check(&self, operation: BenchOp, id: i64, row: Option<&[u8]>, faults: &mut Faults) {
        let is_right = match (operation, row) {
            (BenchOp::Empty, None) => true,
            (BenchOp::Read, Some(row)) => data::is_blob(row, id, self.payload),
            _ => false,
        };
        if !is_right {
            faults.add(wrong_row(operation, id));
        }
    }
}

/// Turns "not found", an error in the driver, into an empty result.
fn found<T: Default>(answer: Result<T, Error>) -> Result<T, Error> {
    match answer {
        Err(Error::Protocol(Status::NotFound)) => Ok(T::default()),
        answer => answer,
    }
}

/// Counts errors of the server; returns errors of the connection.
fn fail(error: &Error, count: usize, faults: &mut Faults) -> Result<(), ConnectionLost> {
    match error {
        Error::Protocol(status) => {
            faults.add_all(count, status);
            Ok(())
        }
        _ => Err(ConnectionLost::new(error)),
    }
}

impl KeyValueStore for Client {
    async fn marked(&mut self) -> Result<Option<u64>> {
        let Some(marker) = found(self.get(MARKER).await)? else { return Ok(None) };
        let rows = String::from_utf8_lossy(&marker.data.unwrap_or_default()).parse();
        rows.map(Some).context("the key of the marker has another value")
    }

    async fn mark(&mut self, rows: u64) -> Result<()> {
        Ok(self.set(MARKER, rows, None, None).await?)
    }

    async fn unmark(&mut self) -> Result<()> {
        Ok(self.delete(MARKER).await?)
    }

    async fn load(&mut self, ids: &[i64], payload: usize) -> Result<()> {
        let rows: Vec<_> = ids.iter().map(|&id| (key(id), blob(id, payload))).collect();
        let pairs: Vec<_> = rows.iter().map(|(key, row)| (*key, row.as_slice())).collect();
        let stored = self.set_multi(&pairs, None, None).await?;
        stored.into_values().collect::<Result<(), _>>().context("a row could not be stored")
    }

    async fn count(&mut self, ids: &[i64]) -> Result<u64> {
        Ok(existing_keys(self, ids).await?.len() as u64)
    }

    async fn remove(&mut self, ids: &[i64]) -> Result<u64> {
        let keys = existing_keys(self, ids).await?;
        if !keys.is_empty() {
            self.delete_multi_no_reply(&keys).await?;
            // An answer to a later request shows that the server has processed the deletes.
            self.version().await?;
        }
        Ok(keys.len() as u64)
    }
}

/// Returns the keys of the existing rows.
async fn existing_keys(client: &mut Client, ids: &[i64]) -> Result<Vec<Vec<u8>>> {
    let keys: Vec<_> = ids.iter().map(|&id| key(id)).collect();
    let values = found(client.get_multi(keys).await)?;
    Ok(values.into_iter().map(|value| value.key).collect())
}
