//! The rows of the reference workload: what is in them, and which ids there are.
//!
//! A row is `(id BIGINT, vector INT[16], payload TEXT)`: 8 + 64 + 36 bytes by default. All of it follows from the id, so
//! that every client, and every later process, knows what a row must hold.

use crate::plan::Operation;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Numbers in the vector of a row.
pub const VECTOR: usize = 16;

/// Length of the text that a row has by default: that of a UUID.
pub const PAYLOAD: usize = 36;

/// Ids of rows that are loaded before a measurement are below this.
pub const MAX_ROWS: u64 = 13_000_000;

/// Where databases are overwritten by inserts of a known key (Redis), inserts go round in this many keys.
pub const RING: u64 = 1_000_000;

/// Ids that never exist, for `empty`, start here and are this many.
const MISSING: u64 = MAX_ROWS + RING;
const MISSING_IDS: u64 = 500_000;

/// The names of everything that is created: a keyspace, schema or database, and three tables or collections in it.
/// Their lengths are those of the reference measurement, because some protocols repeat names in every message.
pub const NAMESPACE: &str = "ohb";
/// The rows that are read.
pub const ROWS_TABLE: &str = "vectors";
/// A table without rows, for `empty`.
pub const EMPTY_TABLE: &str = "vempty";
/// Where rows are inserted.
pub const INSERT_TABLE: &str = "vins";
/// All of them.
pub const TABLES: [&str; 3] = [ROWS_TABLE, EMPTY_TABLE, INSERT_TABLE];
/// The comment by which an object is known to be made by this program.
pub const MARK: &str = "made by overhead bench";

/// Returns the vector of a row.
pub fn vector(id: i64) -> [i32; VECTOR] {
    let mut number = (id as u32).wrapping_mul(0x9E37_79B9);
    std::array::from_fn(|_| {
        number = number.wrapping_add(0x9E37);
        number.cast_signed()
    })
}

/// Returns the text of a row, `length` bytes of the id in hexadecimal with dashes, over and over.
pub fn payload(id: i64, length: usize) -> String {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let digit = |at: usize| match at % PAYLOAD {
        8 | 13 | 18 | 23 => '-',
        place => char::from(HEX[(id >> (place * 4 % 64)) as usize & 15]),
    };
    (0..length).map(digit).collect()
}

/// Returns the row as one value, for a store that has no columns.
pub fn blob(id: i64, payload_length: usize) -> Vec<u8> {
    let mut blob = Vec::with_capacity(8 + VECTOR * 4 + payload_length);
    blob.extend_from_slice(&id.to_be_bytes());
    for number in vector(id) {
        blob.extend_from_slice(&number.to_be_bytes());
    }
    blob.extend_from_slice(payload(id, payload_length).as_bytes());
    blob
}

/// Where the ids of inserted rows come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserts {
    /// Every row has an id of its own, also over several processes.
    Fresh,
    /// Ids come again after [`RING`] rows.
    Ring,
}

/// Chooses ids; shared by all clients.
#[derive(Debug)]
pub struct Ids {
    rows: u64,
    inserts: Inserts,
    first_insert: u64,
    inserted: AtomicU64,
}

impl Ids {
    /// Ids for a table of `rows` rows.
    pub fn new(rows: u64, inserts: Inserts) -> Self {
        // Microseconds since 1970 are ids that no earlier process has used, and none of the loaded rows has.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let first_insert = match inserts {
            Inserts::Fresh => now.as_micros() as u64,
            Inserts::Ring => MAX_ROWS,
        };
        Self { rows, inserts, first_insert, inserted: AtomicU64::new(0) }
    }

    /// Returns the row that an operation is to work on.
    #[inline]
    pub fn choose(&self, operation: Operation, random: &mut Random) -> i64 {
        match operation {
            Operation::Empty => Self::missing(random),
            Operation::Read | Operation::OltpPoint | Operation::OltpRange => self.existing(random),
            Operation::Insert | Operation::OltpInsert => self.fresh(),
        }
    }

    /// Returns a row that is there; each with the same probability.
    fn existing(&self, random: &mut Random) -> i64 {
        random.below(self.rows).cast_signed()
    }

    /// Returns a row that is not there.
    fn missing(random: &mut Random) -> i64 {
        (MISSING + random.below(MISSING_IDS)).cast_signed()
    }

    /// Returns the next row to insert.
    fn fresh(&self) -> i64 {
        let nth = self.inserted.fetch_add(1, Ordering::Relaxed);
        let nth = if self.inserts == Inserts::Ring { nth % RING } else { nth };
        (self.first_insert + nth).cast_signed()
    }
}

/// A small, fast generator of numbers (xorshift64*), one for each client.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Returns a generator; different seeds give different sequences.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Returns the next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_108_bytes_and_follows_from_its_id() {
        assert_eq!(blob(7, PAYLOAD).len(), 108);
        assert_eq!(blob(7, PAYLOAD), blob(7, PAYLOAD));
        assert_ne!(blob(7, PAYLOAD), blob(8, PAYLOAD));
        assert_eq!(blob(7, PAYLOAD)[..8], [0, 0, 0, 0, 0, 0, 0, 7]);
    }

    #[test]
    fn texts_have_the_length_that_was_asked_for() {
        for length in [0, 1, 35, 36, 37, 1000] {
            assert_eq!(payload(i64::MAX, length).len(), length);
        }
        assert_eq!(payload(0x1872e, PAYLOAD), "e2781000-0000-00e2-8100-00000000e278");
    }

    #[test]
    fn the_three_kinds_of_ids_never_meet() {
        let mut random = Random::new(1);
        for inserts in [Inserts::Fresh, Inserts::Ring] {
            let ids = Ids::new(MAX_ROWS, inserts);
            for _ in 0..1000 {
                let (there, missing, fresh) = (ids.existing(&mut random), Ids::missing(&mut random), ids.fresh());
                assert!((0..MAX_ROWS).contains(&there.cast_unsigned()));
                assert!((MISSING..MISSING + MISSING_IDS).contains(&missing.cast_unsigned()));
                let fresh = fresh.cast_unsigned();
                assert!(fresh >= MAX_ROWS && !(MISSING..MISSING + MISSING_IDS).contains(&fresh));
            }
        }
    }

    #[test]
    fn the_ring_comes_round() {
        let ids = Ids::new(1, Inserts::Ring);
        let first = ids.fresh();
        ids.inserted.store(RING, Ordering::Relaxed);
        assert_eq!(ids.fresh(), first);
    }

    #[test]
    fn random_numbers_reach_all_rows_evenly() {
        let mut counts = [0_u32; 10];
        let mut random = Random::new(42);
        for _ in 0..10_000 {
            counts[random.below(10) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
