//! The keys of a benchmark: made, removed, and told from everybody else's by a marker on each server.

use super::keys::{self, MARKER};
use super::shards::Shards;
use crate::data::{MAX_ROWS, RING, blob};
use anyhow::{Result, bail, ensure};
use redis::{Cmd, Value};
use std::ops::Range;

/// Keys that one command or one pipeline names.
const CHUNK: u64 = 1_000;

/// How often keys are looked for while there still were some. Clients that write on and on are not ours.
const PASSES: u32 = 5;

/// Loads the rows, after what an earlier run has left is removed.
pub async fn set_up(shards: &mut Shards, rows: u64, payload: usize) -> Result<()> {
    if !clean_up(shards).await? {
        refuse_others(shards, 0..rows).await?;
        refuse_others(shards, MAX_ROWS..MAX_ROWS + RING).await?;
    }
    for connection in &mut shards.shards {
        redis::cmd("SET").arg(MARKER).arg(rows).exec_async(connection).await?;
    }
    for chunk in chunks(0..rows) {
        let ids: Vec<i64> = chunk.map(u64::cast_signed).collect();
        let set = |id| Cmd::new().arg("SET").arg(&keys::key(id)[..]).arg(blob(id, payload)).clone();
        for (_, values) in shards.pipeline(&ids, set).await {
            let failed = values?.into_iter().find(|value| *value != Value::Okay);
            ensure!(failed.is_none(), "a row could not be stored: {failed:?}");
        }
    }
    Ok(())
}

/// Removes all keys that a marker says are ours; false where there is no marker. Goes on until there were none: what clients
/// had sent when they were interrupted may be carried out while keys are removed.
pub async fn clean_up(shards: &mut Shards) -> Result<bool> {
    let mut rows = None;
    for connection in &mut shards.shards {
        rows = rows.max(redis::cmd("GET").arg(MARKER).query_async::<Option<u64>>(connection).await?);
    }
    let Some(rows) = rows else { return Ok(false) };
    for _ in 0..PASSES {
        let loaded = remove(shards, 0..rows.min(MAX_ROWS)).await?;
        if loaded + remove(shards, MAX_ROWS..MAX_ROWS + RING).await? == 0 {
            break;
        }
    }
    for connection in &mut shards.shards {
        redis::cmd("DEL").arg(MARKER).exec_async(connection).await?;
    }
    Ok(true)
}

/// Removes the rows that were inserted. They can be anywhere in the ring: inserts go on in it where the last run ended.
pub async fn remove_inserted(shards: &mut Shards) -> Result<()> {
    remove(shards, MAX_ROWS..MAX_ROWS + RING).await.map(drop)
}

/// Removes the keys of these rows, and counts those that were there.
async fn remove(shards: &mut Shards, ids: Range<u64>) -> Result<u64> {
    let mut removed = 0;
    for chunk in chunks(ids) {
        removed += count(shards, "DEL", chunk).await?;
    }
    Ok(removed)
}

/// Fails where a key exists that we would overwrite.
async fn refuse_others(shards: &mut Shards, ids: Range<u64>) -> Result<()> {
    for chunk in chunks(ids) {
        let (first, last) = (keys::key(chunk.start.cast_signed()), keys::key(chunk.end.cast_signed() - 1));
        if count(shards, "EXISTS", chunk).await? > 0 {
            let (first, last) = (String::from_utf8_lossy(&first), String::from_utf8_lossy(&last));
            bail!(
                "there are keys between {first} and {last} that this program has not made: nothing was changed; use \
                 another database with --database N"
            );
        }
    }
    Ok(())
}

/// What `command` counts over these keys, on all servers.
async fn count(shards: &mut Shards, command: &str, ids: Range<u64>) -> Result<u64> {
    let mut sum = 0;
    for (shard, ids) in shards.divide(ids.map(u64::cast_signed)) {
        let mut command = redis::cmd(command);
        for id in ids {
            command.arg(&keys::key(id)[..]);
        }
        sum += command.query_async::<u64>(&mut shards.shards[shard]).await?;
    }
    Ok(sum)
}

fn chunks(ids: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let end = ids.end;
    ids.step_by(CHUNK as usize).map(move |start| start..(start + CHUNK).min(end))
}

/// Name and version of the server, out of what `INFO server` says.
pub fn version(info: &str) -> Option<String> {
    let names = [("valkey_version", "Valkey"), ("dragonfly_version", "Dragonfly"), ("redis_version", "Redis")];
    names.into_iter().find_map(|(field, name)| {
        let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
        Some(format!("{name} {}", value.trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fork_is_told_from_the_version_it_claims() {
        assert_eq!(version("# Server\r\nredis_version:7.0.15\r\n").as_deref(), Some("Redis 7.0.15"));
        let valkey = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n";
        assert_eq!(version(valkey).as_deref(), Some("Valkey 8.0.1"));
        assert_eq!(version("# Server"), None);
    }

    #[test]
    fn chunks_cover_the_range() {
        let chunks: Vec<_> = chunks(5..2_500).collect();
        assert_eq!(chunks, [5..1_005, 1_005..2_005, 2_005..2_500]);
    }
}
