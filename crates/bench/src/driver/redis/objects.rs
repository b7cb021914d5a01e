//! Benchmark keys, with a marker on each server.

use super::keys::{self, MARKER};
use super::shards::RedisShards;
use crate::data::blob;
use crate::driver::store::KeyValueStore;
use anyhow::{Result, ensure};
use redis::{Cmd, Value};

impl KeyValueStore for RedisShards {
    const ADVICE: &'static str = "; use another database with --database N";

    async fn marked(&mut self) -> Result<Option<u64>> {
        let mut rows = None;
        for connection in &mut self.shards {
            rows = rows.max(redis::cmd("GET").arg(MARKER).query_async::<Option<u64>>(connection).await?);
        }
        Ok(rows)
    }

    async fn mark(&mut self, rows: u64) -> Result<()> {
        for connection in &mut self.shards {
            redis::cmd("SET").arg(MARKER).arg(rows).exec_async(connection).await?;
        }
        Ok(())
    }

    async fn unmark(&mut self) -> Result<()> {
        for connection in &mut self.shards {
            redis::cmd("DEL").arg(MARKER).exec_async(connection).await?;
        }
        Ok(())
    }

    async fn load(&mut self, ids: &[i64], payload: usize) -> Result<()> {
        let set = |id| Cmd::new().arg("SET").arg(&keys::key(id)[..]).arg(blob(id, payload)).clone();
        for (_, values) in self.pipeline(ids, set).await {
            let failed = values?.into_iter().find(|value| *value != Value::Okay);
            ensure!(failed.is_none(), "a row could not be stored: {failed:?}");
        }
        Ok(())
    }

    async fn count(&mut self, ids: &[i64]) -> Result<u64> {
        sum(self, "EXISTS", ids).await
    }

    async fn remove(&mut self, ids: &[i64]) -> Result<u64> {
        sum(self, "DEL", ids).await
    }
}

/// Returns the sum of `command` over these keys on all servers.
async fn sum(shards: &mut RedisShards, command: &str, ids: &[i64]) -> Result<u64> {
    let mut sum = 0;
    for (shard, ids) in shards.divide(ids.iter().copied()) {
        let mut command = redis::cmd(command);
        for id in ids {
            command.arg(&keys::key(id)[..]);
        }
        sum += command.query_async::<u64>(&mut shards.shards[shard]).await?;
    }
    Ok(sum)
}

/// Returns the server's name and version from `INFO server`.
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
}
