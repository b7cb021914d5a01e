//! Benchmark keys, and the request and answer formats of the store.

use super::{HttpConnection, lines};
use crate::data::blob;
use crate::driver::keys::{MARKER, key};
use crate::driver::store::KeyValueStore;
use anyhow::{Context, Result, ensure};
use reqwest::StatusCode;

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
