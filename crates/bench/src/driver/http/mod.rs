//! A key-value store over HTTP/1.1, with the `reqwest` crate.
//!
//! `read` and `empty` are `GET /get?key=K`, answered with the value or status 404; `insert` is `PUT /set?key=K` with
//! the value as the body. With `--multi-key on`, a *pipeline* is one request for several keys: `POST /mget` with one key per line, answered
//! with a line of the value's length (-1 if missing) and the value; or `POST /mset` with lines of key, length and
//! value. The lab's `httpkv` is such a store.

use super::store::{KeyValueStore, LENGTH, MARKER, key};
use super::{ConnectionLost, DatabaseDriver, DriverConnection, DriverOptions, wrong_row};
use crate::data::{self, InsertIds, blob};
use crate::plan::BenchOp;
use crate::stats::Faults;
use crate::target::BenchTarget;
use anyhow::{Context, Result, bail, ensure};
use overhead_model::Protocol;
use overhead_model::exit::StatusFault;
use reqwest::header::SERVER;
use reqwest::{Client, Response, StatusCode};

pub struct HttpDriver {
    target: BenchTarget,
    options: DriverOptions,
}

impl DatabaseDriver for HttpDriver {
    type Connection = HttpConnection;
    type Objects = HttpConnection;

    const PROTOCOL: Protocol = Protocol::Http;
    const NAME: &'static str = "reqwest";
    const VERSION: &'static str = env!("DRIVER_REQWEST");
    const TITLE: &'static str = "HTTP";
    const OPTIONS: &'static [&'static str] = &["--multi-key"];
    const PIPELINES: bool = false;
    const INSERT_IDS: InsertIds = InsertIds::Ring;

    fn new(target: BenchTarget, options: DriverOptions) -> Result<Self> {
        ensure!(target.servers.len() == 1, StatusFault::usage("--server: the HTTP driver connects to one server"));
        ensure!(target.database.is_none(), StatusFault::usage("--database: not supported over HTTP"));
        Ok(Self { target, options })
    }

    async fn versions(&self) -> Result<Vec<Option<String>>> {
        let answer = self.objects().await?.send_get("stats").await.context("no connection")?;
        let name = answer.headers().get(SERVER).and_then(|name| name.to_str().ok());
        Ok(vec![name.map(|name| name.replacen('/', " ", 1))])
    }

    async fn objects(&self) -> Result<HttpConnection> {
        let mut builder = Client::builder().no_proxy().http1_only().pool_max_idle_per_host(1);
        builder = builder.connect_timeout(self.target.timeout).tcp_nodelay(true);
        if let Some(tls) = &self.target.tls {
            builder = builder.tls_backend_preconfigured((*tls.config()?).clone());
        }
        let Some(server) = self.target.servers.first() else { bail!("no server") };
        let scheme = if self.target.tls.is_some() { "https" } else { "http" };
        Ok(HttpConnection {
            client: builder.build()?,
            base: format!("{scheme}://{server}"),
            login: self.target.user.clone().map(|user| (user, self.target.password.clone())),
            payload: self.options.payload,
        })
    }

    async fn connect(&self, _: &[BenchOp]) -> Result<HttpConnection> {
        let connection = self.objects().await?;
        connection.send_get("stats").await.context("no connection")?.bytes().await?;
        Ok(connection)
    }
}

/// A client limited to one connection.
pub struct HttpConnection {
    client: Client,
    /// Scheme, host and port.
    base: String,
    login: Option<(String, Option<String>)>,
    payload: usize,
}

impl DriverConnection for HttpConnection {
    async fn run(&mut self, operation: BenchOp, ids: &[i64], faults: &mut Faults) -> Result<(), ConnectionLost> {
        let done = match (operation, ids) {
            (BenchOp::Insert, [id]) => self.set(*id, faults).await,
            (BenchOp::Insert, _) => self.set_many(ids, faults).await,
            (_, [id]) => self.get(operation, *id, faults).await,
            _ => self.get_many(operation, ids, faults).await,
        };
        done.map_err(ConnectionLost::new)
    }

    async fn close(self) {}
}

impl HttpConnection {
    async fn send_get(&self, path: &str) -> Result<Response, reqwest::Error> {
        self.login(self.client.get(format!("{}/{path}", self.base))).send().await
    }

    /// Returns the status and body.
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

    async fn get(&self, operation: BenchOp, id: i64, faults: &mut Faults) -> Result<(), reqwest::Error> {
        let key = key(id);
        let answer = self.send_get(&format!("get?key={}", name(&key))).await?;
        let status = answer.status();
        let row = answer.bytes().await?;
        let is_right = match operation {
            BenchOp::Empty => status == StatusCode::NOT_FOUND,
            _ => status.is_success() && data::is_blob(&row, id, self.payload),
        };
        if !is_right && (status.is_success() || status == StatusCode::NOT_FOUND) {
            faults.add(wrong_row(operation, id));
        } else if !is_right {
            faults.add(status);
        }
        Ok(())
    }

    async fn get_many(&self, operation: BenchOp, ids: &[i64], faults: &mut Faults) -> Result<(), reqwest::Error> {
        let (status, body) = self.send_post("mget", lines(ids)).await?;
        if !status.is_success() {
            faults.add_all(ids.len(), status);
            return Ok(());
        }
        let mut rows = values(&body);
        for &id in ids {
            let is_right = match rows.next() {
                Some(Some(row)) => operation != BenchOp::Empty && data::is_blob(row, id, self.payload),
                Some(None) => operation == BenchOp::Empty,
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
        let answer = self.login(request).body(blob(id, self.payload)).send().await?;
        if !answer.status().is_success() {
            faults.add(answer.status());
        }
        answer.bytes().await.map(drop)
    }

    async fn set_many(&self, ids: &[i64], faults: &mut Faults) -> Result<(), reqwest::Error> {
        let (status, _) = self.send_post("mset", pairs(ids, self.payload)).await?;
        if !status.is_success() {
            faults.add_all(ids.len(), status);
        }
        Ok(())
    }
}

/// Returns a key as text: it only has ASCII letters and digits.
fn name(key: &[u8; LENGTH]) -> &str {
    std::str::from_utf8(key).unwrap_or_default()
}

/// Returns the keys, one per line.
fn lines(ids: &[i64]) -> Vec<u8> {
    ids.iter().flat_map(|&id| key(id).into_iter().chain(*b"\n")).collect()
}

impl KeyValueStore for HttpConnection {
    async fn marked(&mut self) -> Result<Option<u64>> {
        let answer = self.send_get(&format!("get?key={MARKER}")).await?;
        if answer.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let status = answer.status();
        let rows = succeeded((status, answer.bytes().await?.into()))?;
        let rows = String::from_utf8_lossy(&rows).parse();
        rows.map(Some).context("the key of the marker has another value")
    }

    async fn mark(&mut self, rows: u64) -> Result<()> {
        let marker = rows.to_string();
        let body = format!("{MARKER}\n{}\n{marker}\n", marker.len());
        succeeded(self.send_post("mset", body.into()).await?).map(drop)
    }

    async fn unmark(&mut self) -> Result<()> {
        succeeded(self.send_post("delete", MARKER.into()).await?).map(drop)
    }

    async fn load(&mut self, ids: &[i64], payload: usize) -> Result<()> {
        succeeded(self.send_post("mset", pairs(ids, payload)).await?).map(drop)
    }

    async fn count(&mut self, ids: &[i64]) -> Result<u64> {
        let found = succeeded(self.send_post("mget", lines(ids)).await?)?;
        Ok(values(&found).flatten().count() as u64)
    }

    async fn remove(&mut self, ids: &[i64]) -> Result<u64> {
        let answer = succeeded(self.send_post("delete", lines(ids)).await?)?;
        String::from_utf8_lossy(&answer).trim().parse().context("how many keys were removed")
    }
}

/// Returns the body, or an error for a failure status.
fn succeeded((status, body): (StatusCode, Vec<u8>)) -> Result<Vec<u8>> {
    ensure!(
        status.is_success(),
        "the server answers {status}: is it a key-value store with /get, /set, /mget, /mset and /delete?"
    );
    Ok(body)
}

/// Encodes rows for `/mset`: lines of key, length and value.
pub fn pairs(ids: &[i64], payload: usize) -> Vec<u8> {
    let pair = |&id: &i64| {
        let row = blob(id, payload);
        [key(id).as_slice(), format!("\n{}\n", row.len()).as_bytes(), &row, b"\n"].concat()
    };
    ids.iter().flat_map(pair).collect()
}

/// Decodes an answer of `/mget`: a line with the length, then the value; -1 for a missing one.
pub fn values(body: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    let mut left = body;
    std::iter::from_fn(move || {
        let end = left.iter().position(|byte| *byte == b'\n')?;
        let (line, rest) = (left.get(..end)?, left.get(end + 1..)?);
        if line == b"-1" {
            left = rest;
            return Some(None);
        }
        let len: usize = std::str::from_utf8(line).ok()?.parse().ok()?;
        let value = rest.get(..len)?;
        left = rest.get(len + 1..)?;
        Some(Some(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_are_sent() {
        let found: Vec<Option<&[u8]>> = values(b"3\na\nb\n-1\n0\n\n").collect();
        assert_eq!(found, [Some(&b"a\nb"[..]), None, Some(b"")]);
        assert_eq!(values(b"9\nshort\n").next(), None);
        assert_eq!(values(b"x\n").next(), None);
    }

    #[test]
    fn pairs_are_lines_of_key_length_and_value() {
        let body = pairs(&[1, 2], 36);
        assert!(body.starts_with(b"o0A001\n108\n") && body.ends_with(b"\n"));
        assert_eq!(body.len(), 2 * (6 + 5 + 108 + 1));
    }
}
