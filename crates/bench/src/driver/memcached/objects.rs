//! Benchmark keys in memcached.

use super::found;
use crate::data::blob;
use crate::driver::keys::{MARKER, key};
use crate::driver::store::KeyValueStore;
use anyhow::{Context, Result};
use async_memcached::{AsciiProtocol, Client};

impl KeyValueStore for Client {
    async fn marked(&mut self) -> Result<Option<u64>> {
        let Some(marker) = found(self.get(MARKER).await)? else { return Ok(None) };
        let rows = String::from_utf8_lossy(&marker.data.unwrap_or_default()).parse();
        rows.map(Some).context("the key of the marker has another value")
    }

    async fn mark(&mut self, rows: u64) -> Result<()> {
        Ok(self.set(MARKER, rows, None, None).await?)
    }

    async fn unmark(&mut self) -> Result<()> {
        Ok(self.delete(MARKER).await?)
    }

    async fn load(&mut self, ids: &[i64], payload: usize) -> Result<()> {
        let rows: Vec<_> = ids.iter().map(|&id| (key(id), blob(id, payload))).collect();
        let pairs: Vec<_> = rows.iter().map(|(key, row)| (*key, row.as_slice())).collect();
        let stored = self.set_multi(&pairs, None, None).await?;
        stored.into_values().collect::<Result<(), _>>().context("a row could not be stored")
    }

    async fn count(&mut self, ids: &[i64]) -> Result<u64> {
        Ok(existing_keys(self, ids).await?.len() as u64)
    }

    async fn remove(&mut self, ids: &[i64]) -> Result<u64> {
        let keys = existing_keys(self, ids).await?;
        if !keys.is_empty() {
            self.delete_multi_no_reply(&keys).await?;
            // An answer to a later request shows that the server has processed the deletes.
            self.version().await?;
        }
        Ok(keys.len() as u64)
    }
}

/// Returns the keys of the existing rows.
async fn existing_keys(client: &mut Client, ids: &[i64]) -> Result<Vec<Vec<u8>>> {
    let keys: Vec<_> = ids.iter().map(|&id| key(id)).collect();
    let values = found(client.get_multi(keys).await)?;
    Ok(values.into_iter().map(|value| value.key).collect())
}
