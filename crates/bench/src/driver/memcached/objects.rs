//! The keys of a benchmark: made, removed, and told from everybody else's by a marker.

use super::found;
use crate::data::{MAX_ROWS, RING, blob};
use crate::driver::keys::{MARKER, key};
use anyhow::{Context, Result, bail};
use async_memcached::{AsciiProtocol, Client};
use std::ops::Range;

/// Keys that one request names.
const CHUNK: u64 = 1_000;

/// How often keys are looked for while there still were some. Clients that write on and on are not ours.
const PASSES: u32 = 5;

/// Loads the rows, after what an earlier run has left is removed.
pub async fn set_up(client: &mut Client, rows: u64, payload: usize) -> Result<()> {
    if !clean_up(client).await? {
        refuse_others(client, 0..rows).await?;
        refuse_others(client, MAX_ROWS..MAX_ROWS + RING).await?;
    }
    client.set(MARKER, rows, None, None).await?;
    for ids in chunks(0..rows) {
        let rows: Vec<_> = ids.iter().map(|&id| (key(id), blob(id, payload))).collect();
        let pairs: Vec<_> = rows.iter().map(|(key, row)| (*key, row.as_slice())).collect();
        let stored = client.set_multi(&pairs, None, None).await?;
        stored.into_values().collect::<Result<(), _>>().context("a row could not be stored")?;
    }
    Ok(())
}

/// Removes all keys that a marker says are ours; false where there is no marker. Goes on until there were none: what clients
/// had sent when they were interrupted may be carried out while keys are removed.
pub async fn clean_up(client: &mut Client) -> Result<bool> {
    let Some(marker) = found(client.get(MARKER).await)? else { return Ok(false) };
    let rows = String::from_utf8_lossy(&marker.data.unwrap_or_default()).parse::<u64>();
    let rows = rows.context("the key of the marker has another value")?;
    for _ in 0..PASSES {
        let loaded = remove(client, 0..rows.min(MAX_ROWS)).await?;
        if loaded + remove(client, MAX_ROWS..MAX_ROWS + RING).await? == 0 {
            break;
        }
    }
    client.delete(MARKER).await?;
    Ok(true)
}

/// Removes the rows that were inserted. They can be anywhere in the ring: inserts go on in it where the last run ended.
pub async fn remove_inserted(client: &mut Client) -> Result<()> {
    remove(client, MAX_ROWS..MAX_ROWS + RING).await.map(drop)
}

/// Removes the keys of these rows, and counts those that were there.
async fn remove(client: &mut Client, ids: Range<u64>) -> Result<usize> {
    let mut removed = 0;
    for ids in chunks(ids) {
        let keys = those_there(client, &ids).await?;
        if !keys.is_empty() {
            client.delete_multi_no_reply(&keys).await?;
        }
        removed += keys.len();
    }
    // What is answered after it says that all of it was carried out.
    client.version().await?;
    Ok(removed)
}

/// Fails where a key exists that we would overwrite.
async fn refuse_others(client: &mut Client, ids: Range<u64>) -> Result<()> {
    for ids in chunks(ids) {
        if let Some(key) = those_there(client, &ids).await?.first() {
            let key = String::from_utf8_lossy(key);
            bail!("there is a key {key} that this program has not made: nothing was changed");
        }
    }
    Ok(())
}

/// The keys of these rows that are there.
async fn those_there(client: &mut Client, ids: &[i64]) -> Result<Vec<Vec<u8>>> {
    let keys: Vec<_> = ids.iter().map(|&id| key(id)).collect();
    let values = found(client.get_multi(keys).await)?;
    Ok(values.into_iter().map(|value| value.key).collect())
}

fn chunks(ids: Range<u64>) -> impl Iterator<Item = Vec<i64>> {
    let end = ids.end;
    ids.step_by(CHUNK as usize).map(move |start| (start..(start + CHUNK).min(end)).map(u64::cast_signed).collect())
}
