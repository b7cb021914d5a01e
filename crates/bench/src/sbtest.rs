//! The `sysbench` table and its statements: `sbtest1 (id INTEGER, k INTEGER, c CHAR(120), pad CHAR(60))`. `c` is ten
//! groups of eleven digits, `pad` five. `sysbench` uses random digits; here the id determines them.

use crate::plan::BenchOp;

pub const TABLE: &str = "sbtest1";

/// Rows per range query.
const RANGE: i64 = 100;

/// Groups of digits in `c`.
pub const C: usize = 10;

/// Groups of digits in `pad`.
pub const PAD: usize = 5;

/// Returns the first and last id of an operation. Ids start at 1 in this table, at 0 in the workload.
pub fn ids(operation: BenchOp, id: i64) -> (i64, i64) {
    let first = id + 1;
    (first, if operation == BenchOp::OltpRange { first + RANGE - 1 } else { first })
}

/// Returns how many of the requested rows exist in a table of `rows` rows.
pub fn found(operation: BenchOp, id: i64, rows: u64) -> usize {
    let (first, last) = ids(operation, id);
    usize::try_from(last.min(rows.cast_signed()) - first + 1).unwrap_or(0)
}

/// Returns column `k` of a row.
pub fn k(id: i64) -> i64 {
    id.wrapping_mul(7_919).rem_euclid(1_000_000) + 1
}

/// Returns `count` groups of digits, as in column `c` or `pad`.
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
        assert_eq!(ids(BenchOp::OltpPoint, 0), (1, 1));
        assert_eq!(ids(BenchOp::OltpRange, 0), (1, 100));
        assert_eq!(found(BenchOp::OltpRange, 0, 1_000), 100);
        assert_eq!(found(BenchOp::OltpRange, 999, 1_000), 1);
        assert_eq!(found(BenchOp::OltpRange, 990, 1_000), 10);
        assert_eq!(found(BenchOp::OltpPoint, 999, 1_000), 1);
    }
}
