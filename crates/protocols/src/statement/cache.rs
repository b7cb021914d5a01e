//! Caches statements by their text.
//!
//! Keys ignore the digits of numbers if no digit can change the statement. The cache belongs to the thread because the
//! connections of a pool send the same texts. It affects speed only, never results.

use super::{NormalisedStatement, StatementDialect, normalise};
use overhead_decode::{FastMap, numbers};
use std::cell::RefCell;

/// Most texts in each generation, enough for an application.
const TEXTS: usize = 2 << 10;

/// Most bytes of text in each generation.
const BYTES: usize = 1 << 20;

const LONGEST: usize = 8 << 10;

thread_local! {
    static KNOWN: RefCell<StatementCache> = RefCell::default();
}

/// Two generations: when the young one is full, the old one is dropped and replaced by it.
#[derive(Default)]
struct StatementCache {
    young: FastMap<Box<[u8]>, NormalisedStatement>,
    old: FastMap<Box<[u8]>, NormalisedStatement>,
    /// Bytes of the young texts.
    bytes: usize,
    /// The current key, kept to reuse its memory.
    key: Vec<u8>,
}

/// Returns the statement of a text in SQL or CQL. `is_whole` if the text is complete; `verb` is called if it cannot be
/// tokenised.
pub(crate) fn normalise_cached(
    text: &[u8],
    is_whole: bool,
    dialect: StatementDialect,
    verb: impl FnOnce() -> String,
) -> NormalisedStatement {
    if text.len() > LONGEST || !is_whole {
        return normalise(text, is_whole, dialect, verb);
    }
    KNOWN.with_borrow_mut(|cache| {
        let mut key = std::mem::take(&mut cache.key);
        fill(&mut key, text, dialect);
        let found = match cache.get(&key) {
            Some(known) if known.has_free_numbers || numbers(text).next().is_none() => known,
            // The digits matter, and may differ from those in the cached text.
            Some(_) => normalise(text, true, dialect, verb),
            None => {
                let new = normalise(text, true, dialect, verb);
                cache.insert(key.clone().into(), new.clone());
                new
            }
        };
        cache.key = key;
        found
    })
}

impl StatementCache {
    fn get(&mut self, key: &[u8]) -> Option<NormalisedStatement> {
        if let Some(known) = self.young.get(key) {
            return Some(known.clone());
        }
        let (key, known) = self.old.remove_entry(key)?;
        self.insert(key, known.clone());
        Some(known)
    }

    fn insert(&mut self, key: Box<[u8]>, known: NormalisedStatement) {
        if self.young.len() >= TEXTS || self.bytes + key.len() > BYTES {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
        self.bytes += key.len();
        self.young.insert(key, known);
    }
}

/// Makes the cache key: the dialect, and the text with its numbers zeroed.
fn fill(key: &mut Vec<u8>, text: &[u8], dialect: StatementDialect) {
    key.clear();
    key.push(dialect as u8);
    key.extend_from_slice(text);
    for number in numbers(text) {
        if let Some(digits) = key.get_mut(number.start + 1..number.end + 1) {
            digits.fill(b'0');
        }
    }
}
