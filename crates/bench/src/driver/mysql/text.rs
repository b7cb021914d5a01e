//! Statement texts, with placeholders or values.

use crate::data::{self, EMPTY_TABLE, INSERT_TABLE, ROWS_TABLE};
use crate::plan::BenchOp;
use crate::sbtest::{self, C, PAD};
use std::fmt::Write;

/// Returns the statement up to its values. `VECTOR` is a reserved word in `MariaDB`.
pub fn sql(operation: BenchOp) -> String {
    match operation {
        BenchOp::Empty => format!("SELECT id, `vector`, payload FROM {EMPTY_TABLE} WHERE id"),
        BenchOp::Read => format!("SELECT id, `vector`, payload FROM {ROWS_TABLE} WHERE id"),
        BenchOp::Insert => format!("INSERT INTO {INSERT_TABLE} (id, `vector`, payload) VALUES "),
        BenchOp::OltpPoint | BenchOp::OltpRange => format!("SELECT c FROM {} WHERE id", sbtest::TABLE),
        BenchOp::OltpInsert => format!("INSERT INTO {} (id, k, c, pad) VALUES ", sbtest::TABLE),
    }
}

/// Returns the statement for `rows` rows with placeholders.
pub fn prepared(operation: BenchOp, rows: usize) -> String {
    let marks = |mark: &str| vec![mark; rows].join(", ");
    let end = match operation {
        BenchOp::Insert => marks("(?, ?, ?)"),
        BenchOp::OltpInsert => marks("(?, ?, ?, ?)"),
        BenchOp::OltpRange => " BETWEEN ? AND ?".to_owned(),
        BenchOp::OltpPoint if rows == 1 => "=?".to_owned(),
        _ if rows == 1 => " = ?".to_owned(),
        _ => format!(" IN ({})", marks("?")),
    };
    sql(operation) + &end
}

/// Returns the statement with its values.
pub fn whole(operation: BenchOp, ids: &[i64], payload: usize) -> String {
    let list = |text: &dyn Fn(i64) -> String| ids.iter().map(|&id| text(id)).collect::<Vec<_>>().join(", ");
    let asked = |id| if operation.is_oltp() { sbtest::ids(operation, id).0 } else { id };
    let end = match (operation, ids) {
        (BenchOp::Insert | BenchOp::OltpInsert, _) => list(&|id| values(operation, id, payload)),
        (BenchOp::OltpRange, [id, ..]) => {
            let (first, last) = sbtest::ids(operation, *id);
            format!(" BETWEEN {first} AND {last}")
        }
        (BenchOp::OltpPoint, [id]) => format!("={}", asked(*id)),
        (_, [id]) => format!(" = {id}"),
        _ => format!(" IN ({})", list(&|id| asked(id).to_string())),
    };
    sql(operation) + &end
}

/// Returns the values of a row in parentheses. They contain no quotes to escape.
pub fn values(operation: BenchOp, id: i64, payload: usize) -> String {
    if operation == BenchOp::OltpInsert {
        // 0 requests the next id.
        return format!("(0, {}, '{}', '{}')", sbtest::k(id), sbtest::groups(id, C), sbtest::groups(id, PAD));
    }
    let mut text = format!("({id}, x'");
    for byte in vector(id) {
        let _ = write!(text, "{byte:02x}");
    }
    text + &format!("', '{}')", data::payload(id, payload))
}

/// Returns the vector as bytes.
pub fn vector(id: i64) -> Vec<u8> {
    data::vector(id).into_iter().flat_map(i32::to_be_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_take_the_place_of_all_question_marks() {
        for operation in BenchOp::ALL {
            for ids in [&[7][..], &[7, 8, 9]] {
                let (text, prepared) = (whole(operation, ids, 36), prepared(operation, ids.len()));
                assert!(!text.contains('?') && text.starts_with(&sql(operation)), "{text}");
                assert!(prepared.contains('?') && prepared.starts_with(&sql(operation)), "{prepared}");
                if operation != BenchOp::OltpRange {
                    assert_eq!(text.matches(", ").count(), prepared.matches(", ").count(), "{text} {prepared}");
                }
            }
        }
    }

    #[test]
    fn the_statements_of_sysbench_are_its_own() {
        assert_eq!(prepared(BenchOp::OltpPoint, 1), "SELECT c FROM sbtest1 WHERE id=?");
        assert_eq!(prepared(BenchOp::OltpRange, 1), "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ?");
        let insert = whole(BenchOp::OltpInsert, &[1], 36);
        assert!(insert.starts_with("INSERT INTO sbtest1 (id, k, c, pad) VALUES (0, "), "{insert}");
    }
}
