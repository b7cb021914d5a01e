//! The keys of a benchmark: made, removed, and told from everybody else's by a marker.

use super::{Connection, lines};
use crate::data::{MAX_ROWS, RING, blob};
use crate::driver::keys::{MARKER, key};
use anyhow::{Context, Result, bail, ensure};
use reqwest::StatusCode;
use std::ops::Range;

/// Keys that one request names.
const CHUNK: u64 = 1_000;

/// How often keys are looked for while there still were some. Clients that write on and on are not ours.
const PASSES: u32 = 5;

/// Loads the rows, after what an earlier run has left is removed.
pub async fn set_up(server: &Connection, rows: u64, payload: usize) -> Result<()> {
    if !clean_up(server).await? {
        refuse_others(server, 0..rows).await?;
        refuse_others(server, MAX_ROWS..MAX_ROWS + RING).await?;
    }
    let marker = rows.to_string();
    let body = format!("{MARKER}\n{}\n{marker}\n", marker.len());
    succeeded(server.send_post("mset", body.into()).await?)?;
    for ids in chunks(0..rows) {
        succeeded(server.send_post("mset", pairs(&ids, payload)).await?)?;
    }
    Ok(())
}

/// Removes all keys that a marker says are ours; false where there is no marker. Goes on until there were none: what clients
/// had sent when they were interrupted may be carried out while keys are removed.
pub async fn clean_up(server: &Connection) -> Result<bool> {
    let answer = server.send_get(&format!("get?key={MARKER}")).await?;
    if answer.status() == StatusCode::NOT_FOUND {
        return Ok(false);
    }
    let status = answer.status();
    let rows = succeeded((status, answer.bytes().await?.into()))?;
    let rows: u64 = String::from_utf8_lossy(&rows).parse().context("the key of the marker has another value")?;
    for _ in 0..PASSES {
        let loaded = remove(server, 0..rows.min(MAX_ROWS)).await?;
        if loaded + remove(server, MAX_ROWS..MAX_ROWS + RING).await? == 0 {
            break;
        }
    }
    succeeded(server.send_post("delete", MARKER.into()).await?)?;
    Ok(true)
}

/// Removes the rows that were inserted. They can be anywhere in the ring: inserts go on in it where the last run ended.
pub async fn remove_inserted(server: &Connection) -> Result<()> {
    remove(server, MAX_ROWS..MAX_ROWS + RING).await.map(drop)
}

/// Removes the keys of these rows, and counts those that were there.
async fn remove(server: &Connection, ids: Range<u64>) -> Result<u64> {
    let mut removed = 0;
    for ids in chunks(ids) {
        let answer = succeeded(server.send_post("delete", lines(&ids)).await?)?;
        removed += String::from_utf8_lossy(&answer).trim().parse::<u64>().context("how many keys were removed")?;
    }
    Ok(removed)
}

/// Fails where a key exists that we would overwrite.
async fn refuse_others(server: &Connection, ids: Range<u64>) -> Result<()> {
    for ids in chunks(ids) {
        let found = succeeded(server.send_post("mget", lines(&ids)).await?)?;
        let other = ids.iter().zip(values(&found)).find(|(_, value)| value.is_some());
        if let Some((&id, _)) = other {
            let key = key(id);
            bail!(
                "there is a key {} that this program has not made: nothing was changed",
                String::from_utf8_lossy(&key)
            );
        }
    }
    Ok(())
}

/// The body of an answer, unless it is an error.
fn succeeded((status, body): (StatusCode, Vec<u8>)) -> Result<Vec<u8>> {
    ensure!(
        status.is_success(),
        "the server answers {status}: is it a key-value store with /get, /set, /mget, /mset and /delete?"
    );
    Ok(body)
}

/// Rows as `/mset` takes them: lines of key, length and value.
pub fn pairs(ids: &[i64], payload: usize) -> Vec<u8> {
    let pair = |&id: &i64| {
        let row = blob(id, payload);
        [key(id).as_slice(), format!("\n{}\n", row.len()).as_bytes(), &row, b"\n"].concat()
    };
    ids.iter().flat_map(pair).collect()
}

/// The values in an answer of `/mget`: a line with the length and the value, or -1 for none.
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

fn chunks(ids: Range<u64>) -> impl Iterator<Item = Vec<i64>> {
    let end = ids.end;
    ids.step_by(CHUNK as usize).map(move |start| (start..(start + CHUNK).min(end)).map(u64::cast_signed).collect())
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
        assert!(body.starts_with(b"ob0001\n108\n") && body.ends_with(b"\n"));
        assert_eq!(body.len(), 2 * (6 + 5 + 108 + 1));
    }
}
