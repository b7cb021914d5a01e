//! A key-value store over HTTP/1.1, by the crate `reqwest`.
//!
//! `read` and `empty` are `GET /get?key=K`, to which the value or status 404 is the answer; `insert` is `PUT /set?key=K` with the
//! value as its body. A *pipeline* is one request for several keys: `POST /mget` with a key a line, answered by each value's length
//! in a line and the value in another, or a line with -1; or `POST /mset` with lines of key, length and value. The lab's `httpkv` is
//! such a store.
//!
//! Each client has one connection.

mod objects;

use super::keys::{LENGTH, key};
use super::{Driver, Lost, Options, Session, wrong_row};
use crate::data::{self, Inserts};
use crate::fault::Fault;
use crate::plan::Operation;
use crate::stats::Faults;
use crate::target::Target;
use anyhow::{Context, Result, bail};
use overhead_model::Protocol;
use overhead_model::load::LoadSettings;
use reqwest::header::SERVER;
use reqwest::{Client, Response, StatusCode};

/// The driver.
pub struct Http {
    target: Target,
    options: Options,
}

impl Driver for Http {
    type Session = Connection;
    type Objects = Connection;

    const PROTOCOL: Protocol = Protocol::Http;
    const NAME: &'static str = "reqwest";
    const VERSION: &'static str = env!("DRIVER_REQWEST");
    const INSERTS: Inserts = Inserts::Ring;

    fn new(target: Target, options: Options) -> Result<Self> {
        options.only("HTTP", &[])?;
        if target.servers.len() > 1 {
            return Err(Fault::usage("--server: one server of a store over HTTP".to_owned()).into());
        }
        if target.database.is_some() {
            return Err(Fault::usage("--database: a store over HTTP has none".to_owned()).into());
        }
        Ok(Self { target, options })
    }

    fn settings(&self) -> LoadSettings {
        LoadSettings { tls: self.target.tls.is_some(), threads: self.options.threads, ..LoadSettings::default() }
    }

    async fn versions(&self) -> Result<Vec<Option<String>>> {
        let answer = self.open()?.send_get("stats").await.context("no connection")?;
        let name = answer.headers().get(SERVER).and_then(|name| name.to_str().ok());
        Ok(vec![name.map(|name| name.replacen('/', " ", 1))])
    }

    async fn objects(&self) -> Result<Connection> {
        self.open()
    }

    async fn connect(&self, _: &[Operation]) -> Result<Connection> {
        let connection = self.open()?;
        connection.send_get("stats").await.context("no connection")?.bytes().await?;
        Ok(connection)
    }
}

impl Http {
    fn open(&self) -> Result<Connection> {
        let mut builder = Client::builder().no_proxy().http1_only().pool_max_idle_per_host(1);
        builder = builder.connect_timeout(self.target.timeout).tcp_nodelay(true);
        if let Some(tls) = &self.target.tls {
            builder = builder.tls_backend_preconfigured((*tls.config()?).clone());
        }
        let Some(server) = self.target.servers.first() else { bail!("no server") };
        let scheme = if self.target.tls.is_some() { "https" } else { "http" };
        Ok(Connection {
            client: builder.build()?,
            base: format!("{scheme}://{server}"),
            login: self.target.user.clone().map(|user| (user, self.target.password.clone())),
            payload: self.options.payload,
        })
    }
}

/// One client, and with it one connection.
pub struct Connection {
    client: Client,
    /// Scheme, host and port.
    base: String,
    login: Option<(String, Option<String>)>,
    payload: usize,
}

impl Session for Connection {
    async fn run(&mut self, operation: Operation, ids: &[i64], faults: &mut Faults) -> Result<(), Lost> {
        let done = match (operation, ids) {
            (Operation::Insert, [id]) => self.set(*id, faults).await,
            (Operation::Insert, _) => self.set_many(ids, faults).await,
            (_, [id]) => self.get(operation, *id, faults).await,
            _ => self.get_many(operation, ids, faults).await,
        };
        done.map_err(Lost::new)
    }

    async fn close(self) {}
}

impl Connection {
    /// Asks by `GET`.
    async fn send_get(&self, path: &str) -> Result<Response, reqwest::Error> {
        self.login(self.client.get(format!("{}/{path}", self.base))).send().await
    }

    /// Asks by `POST`, of which the answer is a body.
    async fn send_post(&self, path: &str, body: Vec<u8>) -> Result<(StatusCode, Vec<u8>), reqwest::Error> {
        let answer = self.login(self.client.post(format!("{}/{path}", self.base))).body(body).send().await?;
        Ok((answer.status(), answer.bytes().await?.into()))
    }

    fn login(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        match &self.login {
            Some((user, password)) => request.basic_auth(user, password.as_ref()),
            None => request,
        }
    }

    async fn get(&self, operation: Operation, id: i64, faults: &mut Faults) -> Result<(), reqwest::Error> {
        let key = key(id);
        let answer = self.send_get(&format!("get?key={}", name(&key))).await?;
        let status = answer.status();
        let row = answer.bytes().await?;
        let is_right = match operation {
            Operation::Empty => status == StatusCode::NOT_FOUND,
            _ => status.is_success() && self.is_row(id, &row),
        };
        if !is_right && (status.is_success() || status == StatusCode::NOT_FOUND) {
            faults.add(wrong_row(operation, id));
        } else if !is_right {
            faults.add(status);
        }
        Ok(())
    }

    async fn get_many(&self, operation: Operation, ids: &[i64], faults: &mut Faults) -> Result<(), reqwest::Error> {
        let (status, body) = self.send_post("mget", lines(ids)).await?;
        if !status.is_success() {
            faults.add_all(ids.len(), status);
            return Ok(());
        }
        let mut rows = objects::values(&body);
        for &id in ids {
            let is_right = match rows.next() {
                Some(Some(row)) => operation != Operation::Empty && self.is_row(id, row),
                Some(None) => operation == Operation::Empty,
                None => false,
            };
            if !is_right {
                faults.add(wrong_row(operation, id));
            }
        }
        Ok(())
    }

    async fn set(&self, id: i64, faults: &mut Faults) -> Result<(), reqwest::Error> {
        let key = key(id);
        let request = self.client.put(format!("{}/set?key={}", self.base, name(&key)));
        let answer = self.login(request).body(data::blob(id, self.payload)).send().await?;
        if !answer.status().is_success() {
            faults.add(answer.status());
        }
        answer.bytes().await.map(drop)
    }

    async fn set_many(&self, ids: &[i64], faults: &mut Faults) -> Result<(), reqwest::Error> {
        let (status, _) = self.send_post("mset", objects::pairs(ids, self.payload)).await?;
        if !status.is_success() {
            faults.add_all(ids.len(), status);
        }
        Ok(())
    }

    fn is_row(&self, id: i64, row: &[u8]) -> bool {
        row.len() == 8 + data::VECTOR * 4 + self.payload && row.starts_with(&id.to_be_bytes())
    }
}

/// A key as text: it is made of letters and digits.
fn name(key: &[u8; LENGTH]) -> &str {
    std::str::from_utf8(key).unwrap_or_default()
}

/// The keys of these rows, one a line.
fn lines(ids: &[i64]) -> Vec<u8> {
    ids.iter().flat_map(|&id| key(id).into_iter().chain(*b"\n")).collect()
}
