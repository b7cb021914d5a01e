//! Names keys, and makes and removes rows in any key-value store.

use super::BenchObjects;
use crate::data::{MAX_ROWS, RING};
use anyhow::{Result, bail};
use std::future::Future;
use std::ops::Range;

/// A key-value store. A marker key identifies the others as ours; its value is the number of rows.
pub trait KeyValueStore: Send {
    /// Advice if other keys are in the way; empty if there is none.
    const ADVICE: &'static str = "";

    /// Returns the value of the marker, if it exists.
    fn marked(&mut self) -> impl Future<Output = Result<Option<u64>>> + Send;

    fn mark(&mut self, rows: u64) -> impl Future<Output = Result<()>> + Send;

    fn unmark(&mut self) -> impl Future<Output = Result<()>> + Send;

    fn load(&mut self, ids: &[i64], payload: usize) -> impl Future<Output = Result<()>> + Send;

    /// Returns how many of the rows exist.
    fn count(&mut self, ids: &[i64]) -> impl Future<Output = Result<u64>> + Send;

    /// Removes these rows. Returns how many existed.
    fn remove(&mut self, ids: &[i64]) -> impl Future<Output = Result<u64>> + Send;
}

/// Keys per request.
const CHUNK: u64 = 1_000;

/// Passes until no key is left. Only foreign clients keep inserting for longer.
const PASSES: u32 = 5;

/// Ids of inserted rows. An insert can be anywhere in the ring, which continues from the last run.
const INSERTED: Range<u64> = MAX_ROWS..MAX_ROWS + RING;

impl<S: KeyValueStore> BenchObjects for S {
    async fn set_up(&mut self, rows: u64, payload: usize) -> Result<()> {
        if !self.clean_up().await? {
            refuse_others(self, 0..rows).await?;
            refuse_others(self, INSERTED).await?;
        }
        self.mark(rows).await?;
        for ids in chunks(0..rows) {
            self.load(&ids, payload).await?;
        }
        Ok(())
    }

    async fn remove_inserted(&mut self, _: u64) -> Result<()> {
        remove(self, INSERTED).await.map(drop)
    }

    /// Repeats until no key is left: requests of interrupted clients may still arrive.
    async fn clean_up(&mut self) -> Result<bool> {
        let Some(rows) = self.marked().await? else { return Ok(false) };
        for _ in 0..PASSES {
            let loaded = remove(self, 0..rows.min(MAX_ROWS)).await?;
            if loaded + remove(self, INSERTED).await? == 0 {
                break;
            }
        }
        self.unmark().await?;
        Ok(true)
    }
}

async fn remove(store: &mut impl KeyValueStore, ids: Range<u64>) -> Result<u64> {
    let mut removed = 0;
    for ids in chunks(ids) {
        removed += store.remove(&ids).await?;
    }
    Ok(removed)
}

/// Fails if a key exists that we would overwrite.
async fn refuse_others<S: KeyValueStore>(store: &mut S, ids: Range<u64>) -> Result<()> {
    for ids in chunks(ids) {
        if store.count(&ids).await? > 0
            && let [first, .., last] | [first @ last] = ids.as_slice()
        {
            let [first, last] = [first, last].map(|id| String::from_utf8_lossy(&key(*id)).into_owned());
            bail!(
                "there are keys between {first} and {last} that this program has not made: nothing was changed{}",
                S::ADVICE
            );
        }
    }
    Ok(())
}

fn chunks(ids: Range<u64>) -> impl Iterator<Item = Vec<i64>> + Send {
    let end = ids.end;
    ids.step_by(CHUNK as usize).map(move |start| (start..(start + CHUNK).min(end)).map(u64::cast_signed).collect())
}

pub const LENGTH: usize = 6;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Place in [`DIGITS`] of the first digit, and number of digits, for each byte after the first.
const PLACES: [(u64, u64); LENGTH - 1] = [(0, 10), (10, 52), (0, 62), (0, 62), (0, 62)];

const _: () = assert!(MAX_ROWS + RING + 500_000 < 10 * 52 * 62_u64.pow(3), "an id does not fit into its key");

/// Marks all other keys as made by this program. Its value is the number of rows.
pub const MARKER: &str = "overhead-bench";

pub fn key(id: i64) -> [u8; LENGTH] {
    let mut key = *b"o0A000";
    let mut left = id as u64;
    for (digit, (first, base)) in key[1..].iter_mut().zip(PLACES).rev() {
        *digit = DIGITS[(first + left % base) as usize];
        left /= base;
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::collections::HashSet;

    /// An in-memory store that limits the keys per request.
    #[derive(Default)]
    struct Memory {
        rows: BTreeSet<i64>,
        marker: Option<u64>,
    }

    impl KeyValueStore for Memory {
        const ADVICE: &'static str = "; look elsewhere";

        async fn marked(&mut self) -> Result<Option<u64>> {
            Ok(self.marker)
        }

        async fn mark(&mut self, rows: u64) -> Result<()> {
            self.marker = Some(rows);
            Ok(())
        }

        async fn unmark(&mut self) -> Result<()> {
            self.marker = None;
            Ok(())
        }

        async fn load(&mut self, ids: &[i64], _: usize) -> Result<()> {
            assert!(ids.len() as u64 <= CHUNK);
            self.rows.extend(ids);
            Ok(())
        }

        async fn count(&mut self, ids: &[i64]) -> Result<u64> {
            Ok(ids.iter().filter(|id| self.rows.contains(id)).count() as u64)
        }

        async fn remove(&mut self, ids: &[i64]) -> Result<u64> {
            Ok(ids.iter().filter(|id| self.rows.remove(id)).count() as u64)
        }
    }

    fn now<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
    }

    #[test]
    fn chunks_cover_the_range() {
        let chunks: Vec<_> = chunks(5..2_500).collect();
        let ends: Vec<_> = chunks.iter().map(|ids| (ids[0], ids[ids.len() - 1])).collect();
        assert_eq!(ends, [(5, 1_004), (1_005, 2_004), (2_005, 2_499)]);
        assert_eq!(chunks.iter().map(Vec::len).sum::<usize>(), 2_495);
    }

    #[test]
    fn what_was_made_is_removed_and_nothing_else() {
        let mut store = Memory::default();
        let others = [2_000, (MAX_ROWS + RING).cast_signed()];
        store.rows.extend(others);
        now(store.set_up(1_500, 36)).unwrap();
        assert_eq!((store.marker, store.rows.len()), (Some(1_500), 1_502));
        store.rows.insert((MAX_ROWS + 7).cast_signed());
        now(store.remove_inserted(1_500)).unwrap();
        assert_eq!(store.rows.len(), 1_502);
        assert!(now(store.clean_up()).unwrap());
        assert_eq!((store.marker, store.rows), (None, BTreeSet::from(others)));
    }

    #[test]
    fn without_a_marker_nothing_is_touched() {
        let mut store = Memory { rows: BTreeSet::from([1_200]), marker: None };
        assert!(!now(store.clean_up()).unwrap());
        let error = now(store.set_up(1_500, 36)).unwrap_err().to_string();
        assert!(
            error.contains("between o0A0G8 and o0A0OB") && error.ends_with("nothing was changed; look elsewhere"),
            "{error}"
        );
        assert_eq!((store.marker, store.rows.len()), (None, 1));
    }

    #[test]
    fn keys_are_six_bytes_and_unique() {
        let last = (MAX_ROWS + RING + 499_999).cast_signed();
        let ids = (0..10_000).chain(last - 10_000..=last);
        let keys: HashSet<_> = ids.map(key).collect();
        assert_eq!(keys.len(), 20_001);
        assert!(keys.iter().all(|key| key[1].is_ascii_digit() && key[2].is_ascii_alphabetic()));
        assert_eq!((key(0), key(61)), (*b"o0A000", *b"o0A00z"));
    }
}
