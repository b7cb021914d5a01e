//! Texts that were seen before need not be read again.
//!
//! Texts are told apart by all their bytes but the digits of numbers: where no digit can change the statement, they do not count.
//! What is kept belongs to the thread, not to a connection, for those of a pool send the same texts. It changes no result, only how
//! soon there is one.

use super::{NormalisedStatement, StatementDialect, normalise};
use overhead_decode::{FastMap, numbers};
use std::cell::RefCell;

/// Texts that are young or old together, at most: those of an application.
const TEXTS: usize = 2 << 10;

/// Bytes that the young or old texts may have together.
const BYTES: usize = 1 << 20;

/// Longest text that is kept.
const LONGEST: usize = 8 << 10;

thread_local! {
    static KNOWN: RefCell<StatementCache> = RefCell::default();
}

/// Texts with their statements. When there are enough young ones, the old ones are forgotten and the young grow old.
#[derive(Default)]
struct StatementCache {
    young: FastMap<Box<[u8]>, NormalisedStatement>,
    old: FastMap<Box<[u8]>, NormalisedStatement>,
    /// Bytes of the young texts.
    bytes: usize,
    /// The key that is looked for; kept for its memory.
    key: Vec<u8>,
}

/// Returns the statement of a text in SQL or CQL. `is_whole` where nothing of it is missing; `verb` is asked for where the text
/// cannot be cut into tokens.
pub(crate) fn of(
    text: &[u8],
    is_whole: bool,
    dialect: StatementDialect,
    verb: impl FnOnce() -> String,
) -> NormalisedStatement {
    if text.len() > LONGEST || !is_whole {
        return normalise(text, is_whole, dialect, verb);
    }
    KNOWN.with_borrow_mut(|known| known.statement(text, dialect, verb))
}

impl StatementCache {
    fn statement(
        &mut self,
        text: &[u8],
        dialect: StatementDialect,
        verb: impl FnOnce() -> String,
    ) -> NormalisedStatement {
        let mut key = std::mem::take(&mut self.key);
        fill(&mut key, text, dialect);
        let found = match self.get(&key) {
            Some(known) if known.has_free_numbers || !has_numbers(text) => known,
            // Its digits count, and those of the text that is known may be others.
            Some(_) => normalise(text, true, dialect, verb),
            None => {
                let new = normalise(text, true, dialect, verb);
                self.insert(key.clone().into(), new.clone());
                new
            }
        };
        self.key = key;
        found
    }

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

/// Makes the key of a text: the language, and the text with zeros for the digits of its numbers.
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

fn has_numbers(text: &[u8]) -> bool {
    numbers(text).next().is_some()
}
