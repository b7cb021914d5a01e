//! The rows of the reference workload and their ids.
//!
//! A row is `(id BIGINT, vector INT[16], payload TEXT)`: 8 + 64 + 36 bytes by default. The id determines its content,
//! so every client and every later process can check a row.

use crate::plan::BenchOp;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

pub const VECTOR: usize = 16;

/// Default length of a row's text: a UUID.
pub const PAYLOAD: usize = 36;

/// Ids of preloaded rows are below this.
pub const MAX_ROWS: u64 = 13_000_000;

/// Number of keys that inserts cycle through in databases that overwrite existing keys, such as Redis.
pub const RING: u64 = 1_000_000;

/// First id for `empty`, and how many there are. These rows never exist.
const MISSING: u64 = MAX_ROWS + RING;
const MISSING_IDS: u64 = 500_000;

/// Keyspace, schema or database. This name and the table names are as long as in the reference measurement: some
/// protocols repeat them in every message.
pub const NAMESPACE: &str = "ohb";
pub const ROWS_TABLE: &str = "vectors";
/// Stays empty, for `empty`.
pub const EMPTY_TABLE: &str = "vempty";
pub const INSERT_TABLE: &str = "vins";
pub const TABLES: [&str; 3] = [ROWS_TABLE, EMPTY_TABLE, INSERT_TABLE];
/// Comment that marks an object as made by this program.
pub const MARK: &str = "made by overhead bench";

pub fn vector(id: i64) -> [i32; VECTOR] {
    let mut number = (id as u32).wrapping_mul(0x9E37_79B9);
    std::array::from_fn(|_| {
        number = number.wrapping_add(0x9E37);
        number.cast_signed()
    })
}

/// Returns the text of a row: the id in hexadecimal with dashes, repeated to `length` bytes.
pub fn payload(id: i64, length: usize) -> String {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let digit = |at: usize| match at % PAYLOAD {
        8 | 13 | 18 | 23 => '-',
        place => char::from(HEX[(id >> (place * 4 % 64)) as usize & 15]),
    };
    (0..length).map(digit).collect()
}

/// Returns the row as one value, for stores without columns.
pub fn blob(id: i64, payload_length: usize) -> Vec<u8> {
    let mut blob = Vec::with_capacity(8 + VECTOR * 4 + payload_length);
    blob.extend_from_slice(&id.to_be_bytes());
    for number in vector(id) {
        blob.extend_from_slice(&number.to_be_bytes());
    }
    blob.extend_from_slice(payload(id, payload_length).as_bytes());
    blob
}

/// Returns whether this is the [`blob`] of the row, by its length and id.
pub fn is_blob(row: &[u8], id: i64, payload_length: usize) -> bool {
    row.len() == 8 + VECTOR * 4 + payload_length && row.starts_with(&id.to_be_bytes())
}

/// Source of the ids of inserted rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertIds {
    /// Unique, across processes too.
    Fresh,
    /// Repeat after [`RING`] rows.
    Ring,
}

/// Chooses row ids. Shared by all clients.
#[derive(Debug)]
pub struct IdSource {
    rows: u64,
    inserts: InsertIds,
    first_insert: u64,
    inserted: AtomicU64,
}

impl IdSource {
    pub fn new(rows: u64, inserts: InsertIds) -> Self {
        // Microseconds since 1970: unused by earlier processes and above the preloaded rows.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let first_insert = match inserts {
            InsertIds::Fresh => now.as_micros() as u64,
            InsertIds::Ring => MAX_ROWS,
        };
        Self { rows, inserts, first_insert, inserted: AtomicU64::new(0) }
    }

    #[inline]
    pub fn choose(&self, operation: BenchOp, random: &mut XorshiftRng) -> i64 {
        match operation {
            BenchOp::Empty => Self::missing(random),
            BenchOp::Read | BenchOp::OltpPoint | BenchOp::OltpRange => self.existing(random),
            BenchOp::Insert | BenchOp::OltpInsert => self.fresh(),
        }
    }

    /// Returns a preloaded row; all are equally likely.
    fn existing(&self, random: &mut XorshiftRng) -> i64 {
        random.below(self.rows).cast_signed()
    }

    fn missing(random: &mut XorshiftRng) -> i64 {
        (MISSING + random.below(MISSING_IDS)).cast_signed()
    }

    fn fresh(&self) -> i64 {
        let nth = self.inserted.fetch_add(1, Ordering::Relaxed);
        let nth = if self.inserts == InsertIds::Ring { nth % RING } else { nth };
        (self.first_insert + nth).cast_signed()
    }
}

/// A xorshift64* generator, one per client.
#[derive(Clone, Debug)]
pub struct XorshiftRng(u64);

impl XorshiftRng {
    /// Different seeds give different sequences.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Returns a number below `limit`, which is not 0.
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
        let mut random = XorshiftRng::new(1);
        for inserts in [InsertIds::Fresh, InsertIds::Ring] {
            let ids = IdSource::new(MAX_ROWS, inserts);
            for _ in 0..1000 {
                let (there, missing, fresh) = (ids.existing(&mut random), IdSource::missing(&mut random), ids.fresh());
                assert!((0..MAX_ROWS).contains(&there.cast_unsigned()));
                assert!((MISSING..MISSING + MISSING_IDS).contains(&missing.cast_unsigned()));
                let fresh = fresh.cast_unsigned();
                assert!(fresh >= MAX_ROWS && !(MISSING..MISSING + MISSING_IDS).contains(&fresh));
            }
        }
    }

    #[test]
    fn the_ring_comes_round() {
        let ids = IdSource::new(1, InsertIds::Ring);
        let first = ids.fresh();
        ids.inserted.store(RING, Ordering::Relaxed);
        assert_eq!(ids.fresh(), first);
    }

    #[test]
    fn random_numbers_reach_all_rows_evenly() {
        let mut counts = [0_u32; 10];
        let mut random = XorshiftRng::new(42);
        for _ in 0..10_000 {
            counts[random.below(10) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
