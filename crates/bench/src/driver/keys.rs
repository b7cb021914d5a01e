//! Key names of six bytes, as in the reference measurement: `o`, a decimal digit, a letter and three base-62 digits. A digit between
//! letters makes a token, so all keys have the same pattern, and operations with them are one statement.

use crate::data::{MAX_ROWS, RING};

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
    use std::collections::HashSet;

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
