//! memcached, by the crate `async-memcached`, in its text protocol.
//!
//! A row is one value of bytes. `read` and `empty` are `get`, `insert` is `set`. A *pipeline* is one `get` of several keys, or
//! several `set`s that are sent before the first answer is waited for.

mod objects;

use super::keys::{LENGTH, key};
use super::{Driver, Lost, Options, Session, wrong_row};
use crate::data::{self, Inserts};
use crate::fault::Fault;
use crate::plan::Operation;
use crate::stats::Faults;
use crate::target::{Address, Target};
use anyhow::{Context, Result, bail};
use async_memcached::{AsciiProtocol, Client, Error, Status};
use overhead_model::Protocol;
use overhead_model::load::LoadSettings;

/// The driver.
pub struct Memcached {
    target: Target,
    options: Options,
}

impl Driver for Memcached {
    type Session = Connection;
    type Objects = Client;

    const PROTOCOL: Protocol = Protocol::Memcache;
    const NAME: &'static str = "async-memcached";
    const VERSION: &'static str = env!("DRIVER_ASYNC_MEMCACHED");
    const INSERTS: Inserts = Inserts::Ring;
    const SOCKETS: bool = true;

    fn new(target: Target, options: Options) -> Result<Self> {
        options.only("memcached", &[])?;
        let unknown = [
            ("--server: one server of memcached", target.servers.len() > 1),
            ("--database: memcached has none", target.database.is_some()),
            ("--tls: this driver of memcached has none", target.tls.is_some()),
            ("--user: this driver of memcached has none", target.user.is_some() || target.password.is_some()),
        ];
        match unknown.iter().find(|(_, is_set)| *is_set) {
            Some((name, _)) => Err(Fault::usage((*name).to_owned()).into()),
            None => Ok(Self { target, options }),
        }
    }

    fn settings(&self) -> LoadSettings {
        LoadSettings { threads: self.options.threads, ..LoadSettings::default() }
    }

    async fn versions(&self) -> Result<Vec<Option<String>>> {
        let version = self.open().await?.version().await?;
        let version = version.trim().trim_start_matches("VERSION ");
        Ok(vec![Some(format!("memcached {version}"))])
    }

    async fn objects(&self) -> Result<Client> {
        self.open().await
    }

    async fn connect(&self, _: &[Operation]) -> Result<Connection> {
        Ok(Connection { client: self.open().await?, payload: self.options.payload })
    }
}

impl Memcached {
    async fn open(&self) -> Result<Client> {
        let Some(server) = self.target.servers.first() else { bail!("no server") };
        let connected = tokio::time::timeout(self.target.timeout, greet(url_of(server)?)).await;
        let client = match connected {
            Ok(Ok(client)) => Ok(client),
            // What the driver makes of it hides why.
            Ok(Err(Error::Connect(error) | Error::Io(error))) => Err(error.into()),
            Ok(Err(error)) => Err(error.into()),
            Err(late) => Err(anyhow::Error::from(late)),
        };
        client.with_context(|| format!("{server}: no connection"))
    }
}

/// Returns where a server is, as the driver wants it.
fn url_of(server: &Address) -> Result<String> {
    let url = match server {
        Address::Tcp { .. } => format!("tcp://{server}"),
        Address::Unix(path) => {
            let path = std::path::absolute(path)?;
            let file = url::Url::from_file_path(&path).ok().map(|url| url.path().to_owned());
            // The driver does not undo the encoding of what a URL cannot hold.
            let plain = file.filter(|plain| Some(plain.as_str()) == path.to_str());
            let refused = || {
                Fault::usage(format!(
                    "--server {server}: this driver takes no such path; use letters, digits, `.`, `_` and `-`"
                ))
            };
            format!("unix://{}", plain.ok_or_else(refused)?)
        }
    };
    Ok(url)
}

/// Connects, and asks for the version: a server that is there answers.
async fn greet(server: String) -> Result<Client, Error> {
    let mut client = Client::new(server).await?;
    client.version().await?;
    Ok(client)
}

/// One client, and with it one connection.
pub struct Connection {
    client: Client,
    payload: usize,
}

impl Session for Connection {
    async fn run(&mut self, operation: Operation, ids: &[i64], faults: &mut Faults) -> Result<(), Lost> {
        let done = match (operation, ids) {
            (Operation::Insert, _) => self.set(ids, faults).await,
            (_, [id]) => self.get(operation, *id, faults).await,
            _ => self.get_many(operation, ids, faults).await,
        };
        done.or_else(|error| fail(&error, ids.len(), faults))
    }

    async fn close(self) {}
}

impl Connection {
    async fn get(&mut self, operation: Operation, id: i64, faults: &mut Faults) -> Result<(), Error> {
        let value = found(self.client.get(key(id)).await)?;
        let row = value.as_ref().and_then(|value| value.data.as_deref());
        self.check(operation, id, row, faults);
        Ok(())
    }

    async fn get_many(&mut self, operation: Operation, ids: &[i64], faults: &mut Faults) -> Result<(), Error> {
        let keys: Vec<_> = ids.iter().map(|&id| key(id)).collect();
        let found = found(self.client.get_multi(keys).await)?;
        // Values come in the order of their keys; what is not there is left out.
        let mut found = found.iter().peekable();
        for &id in ids {
            let value = found.next_if(|value| value.key == key(id));
            self.check(operation, id, value.and_then(|value| value.data.as_deref()), faults);
        }
        Ok(())
    }

    async fn set(&mut self, ids: &[i64], faults: &mut Faults) -> Result<(), Error> {
        let rows: Vec<([u8; LENGTH], Vec<u8>)> =
            ids.iter().map(|&id| (key(id), data::blob(id, self.payload))).collect();
        let pairs: Vec<_> = rows.iter().map(|(key, row)| (*key, row.as_slice())).collect();
        if let [(key, row)] = pairs[..] {
            return self.client.set(key, row, None, None).await;
        }
        for refused in self.client.set_multi(&pairs, None, None).await?.into_values().filter_map(Result::err) {
            faults.add(refused);
        }
        Ok(())
    }

    fn check(&self, operation: Operation, id: i64, row: Option<&[u8]>, faults: &mut Faults) {
        let is_right = match (operation, row) {
            (Operation::Empty, None) => true,
            (Operation::Read, Some(row)) => {
                row.len() == 8 + data::VECTOR * 4 + self.payload && row.starts_with(&id.to_be_bytes())
            }
            _ => false,
        };
        if !is_right {
            faults.add(wrong_row(operation, id));
        }
    }
}

/// What was found; the driver takes it for an error where nothing was.
fn found<T: Default>(answer: Result<T, Error>) -> Result<T, Error> {
    match answer {
        Err(Error::Protocol(Status::NotFound)) => Ok(T::default()),
        answer => answer,
    }
}

/// An error of the server is a fault; an error of the connection ends it.
fn fail(error: &Error, count: usize, faults: &mut Faults) -> Result<(), Lost> {
    match error {
        Error::Protocol(status) => {
            faults.add_all(count, status);
            Ok(())
        }
        _ => Err(Lost::new(error)),
    }
}
