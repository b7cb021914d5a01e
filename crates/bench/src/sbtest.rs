//! The table of `sysbench`, and its statements: `sbtest1 (id INTEGER, k INTEGER, c CHAR(120), pad CHAR(60))`, of which `c` is ten
//! groups of eleven digits and `pad` five. `sysbench` chooses digits at random; here they follow from the id.

use crate::plan::Operation;

/// Its name.
pub const TABLE: &str = "sbtest1";

/// Rows that a range query asks for.
const RANGE: i64 = 100;

/// Groups of digits in `c`.
pub const C: usize = 10;

/// Groups of digits in `pad`.
pub const PAD: usize = 5;

/// Returns the first and the last id that an operation asks for. Ids of the table begin at 1, those of the workload at 0.
pub fn ids(operation: Operation, id: i64) -> (i64, i64) {
    let first = id + 1;
    (first, if operation == Operation::OltpRange { first + RANGE - 1 } else { first })
}

/// Returns how many rows there are of those asked for, in a table of so many.
pub fn found(operation: Operation, id: i64, rows: u64) -> usize {
    let (first, last) = ids(operation, id);
    usize::try_from(last.min(rows.cast_signed()) - first + 1).unwrap_or(0)
}

/// Returns the value of the column `k` of a row.
pub fn k(id: i64) -> i64 {
    id.wrapping_mul(7_919).rem_euclid(1_000_000) + 1
}

/// Returns so many groups of digits, as they are in a row's column `c` or `pad`.
pub fn groups(id: i64, count: usize) -> String {
    let group = |nth: usize| {
        let number = (id.cast_unsigned() + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_mul(2 * nth as u64 + 3);
        format!("{:011}", number % 100_000_000_000)
    };
    (0..count).map(group).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_long_as_those_of_sysbench() {
        for id in [0, 1, 9_999, i64::MAX - 1] {
            assert_eq!((groups(id, C).len(), groups(id, PAD).len()), (119, 59));
        }
        assert_ne!(groups(1, C), groups(2, C));
        assert!((1..=1_000_000).contains(&k(-1)));
    }

    #[test]
    fn a_range_ends_with_the_table() {
        assert_eq!(ids(Operation::OltpPoint, 0), (1, 1));
        assert_eq!(ids(Operation::OltpRange, 0), (1, 100));
        assert_eq!(found(Operation::OltpRange, 0, 1_000), 100);
        assert_eq!(found(Operation::OltpRange, 999, 1_000), 1);
        assert_eq!(found(Operation::OltpRange, 990, 1_000), 10);
        assert_eq!(found(Operation::OltpPoint, 999, 1_000), 1);
    }
}
