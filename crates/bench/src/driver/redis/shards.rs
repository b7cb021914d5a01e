//! Connections to servers that share the keys.

use super::keys;
use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisError, Value};

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
        if self.shards.len() == 1 { 0 } else { keys::shard(&keys::key(id), self.shards.len()) }
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
