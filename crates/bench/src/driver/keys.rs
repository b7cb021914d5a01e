//! Key names: the prefix `ob` and four base-62 digits, six bytes as in the reference measurement.

use crate::data::{MAX_ROWS, RING};

pub const LENGTH: usize = 6;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

const _: () = assert!(MAX_ROWS + RING + 500_000 < 62_u64.pow(4), "an id does not fit into its key");

/// Marks all other keys as made by this program. Its value is the number of rows.
pub const MARKER: &str = "overhead-bench";

pub fn key(id: i64) -> [u8; LENGTH] {
    let mut key = *b"ob0000";
    let mut left = id as u64;
    for digit in key[2..].iter_mut().rev() {
        *digit = DIGITS[(left % 62) as usize];
        left /= 62;
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
        assert_eq!((key(0), key(61)), (*b"ob0000", *b"ob000z"));
    }
}
