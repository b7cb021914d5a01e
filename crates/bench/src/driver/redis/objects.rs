//! Connections to servers that share the keys, and the benchmark's keys there, with a marker on each server.

use crate::data::blob;
use crate::driver::store::{KeyValueStore, MARKER, key};
use anyhow::{Result, ensure};
use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisError, Value};

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
        let set = |id| Cmd::new().arg("SET").arg(&key(id)[..]).arg(blob(id, payload)).clone();
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
            command.arg(&key(id)[..]);
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

/// The ids that were sent to a server, and its replies.
type ShardReplies = (Vec<i64>, Result<Vec<Value>, RedisError>);

/// One connection per server, in command-line order.
pub struct RedisShards {
    pub shards: Vec<MultiplexedConnection>,
}

impl RedisShards {
    pub fn connection_for(&mut self, id: i64) -> &mut MultiplexedConnection {
        let shard = self.shard(id);
        &mut self.shards[shard]
    }

    fn shard(&self, id: i64) -> usize {
        if self.shards.len() == 1 { 0 } else { shard(&key(id), self.shards.len()) }
    }

    /// Groups the ids by server; leaves out servers without any.
    pub fn divide(&self, ids: impl IntoIterator<Item = i64>) -> Vec<(usize, Vec<i64>)> {
        let mut parts = vec![Vec::new(); self.shards.len()];
        for id in ids {
            parts[self.shard(id)].push(id);
        }
        parts.into_iter().enumerate().filter(|(_, part)| !part.is_empty()).collect()
    }

    /// Sends one command per id, all at once. Returns ids and replies by server.
    pub async fn pipeline(&self, ids: &[i64], command: impl Fn(i64) -> Cmd) -> Vec<ShardReplies> {
        let parts = self.divide(ids.iter().copied()).into_iter().map(|(shard, ids)| {
            let mut pipeline = Pipeline::with_capacity(ids.len());
            for &id in &ids {
                pipeline.add_command(command(id));
            }
            let mut connection = self.shards[shard].clone();
            async move {
                let values = connection.send_packed_commands(&pipeline, 0, ids.len()).await;
                (ids, values)
            }
        });
        join_all(parts).await
    }
    /// Sends each server one command for all its ids. Returns ids and replies by server; a single reply is repeated for
    /// each id.
    pub async fn multi_key(&self, ids: &[i64], command: impl Fn(&[i64]) -> Cmd) -> Vec<ShardReplies> {
        let parts = self.divide(ids.iter().copied()).into_iter().map(|(shard, ids)| {
            let command = command(&ids);
            let mut connection = self.shards[shard].clone();
            async move {
                let values = match connection.send_packed_command(&command).await {
                    Ok(Value::Array(values)) if values.len() == ids.len() => Ok(values),
                    Ok(value) => Ok(vec![value; ids.len()]),
                    Err(error) => Err(error),
                };
                (ids, values)
            }
        });
        join_all(parts).await
    }
}

/// Returns the server of a key: CRC-16 (XMODEM, as in Redis Cluster) modulo the number of servers.
pub fn shard(key: &[u8], shards: usize) -> usize {
    let crc = key.iter().fold(0_u16, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 })
    });
    usize::from(crc) % shards
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
    fn the_hash_is_that_of_redis_cluster() {
        // Redis Cluster specification, appendix A.
        assert_eq!(shard(b"123456789", 65_536), 0x31C3);
    }

    #[test]
    fn shards_share_evenly() {
        let mut counts = [0; 4];
        for id in 0..10_000 {
            counts[shard(&key(id), 4)] += 1;
        }
        assert!(counts.iter().all(|count| (2_200..2_800).contains(count)), "{counts:?}");
    }
}
