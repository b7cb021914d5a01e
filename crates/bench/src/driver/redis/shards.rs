//! Connections to several servers that share the keys among them.

use super::keys;
use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisError, Value};

/// A connection to each server, in the order in which they were named.
pub struct Shards {
    pub shards: Vec<MultiplexedConnection>,
}

impl Shards {
    /// Returns the connection to the server that holds the row.
    pub fn of(&mut self, id: i64) -> &mut MultiplexedConnection {
        let shard = self.shard(id);
        &mut self.shards[shard]
    }

    fn shard(&self, id: i64) -> usize {
        if self.shards.len() == 1 { 0 } else { keys::shard(&keys::key(id), self.shards.len()) }
    }

    /// Returns the ids that each server holds; those without any are left out.
    pub fn divide(&self, ids: impl IntoIterator<Item = i64>) -> Vec<(usize, Vec<i64>)> {
        let mut parts = vec![Vec::new(); self.shards.len()];
        for id in ids {
            parts[self.shard(id)].push(id);
        }
        parts.into_iter().enumerate().filter(|(_, part)| !part.is_empty()).collect()
    }

    /// Sends one command for each id, all at once, and waits for all replies: for each server the ids and their replies.
    pub async fn pipeline(
        &self,
        ids: &[i64],
        command: impl Fn(i64) -> Cmd,
    ) -> Vec<(Vec<i64>, Result<Vec<Value>, RedisError>)> {
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
    /// Sends each server one command for all of its ids, and waits for all replies: for each server the ids, and the reply to each
    /// of them. What is one reply to all stands for each.
    pub async fn at_once(
        &self,
        ids: &[i64],
        command: impl Fn(&[i64]) -> Cmd,
    ) -> Vec<(Vec<i64>, Result<Vec<Value>, RedisError>)> {
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
