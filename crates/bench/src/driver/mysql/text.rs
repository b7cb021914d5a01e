//! Statements as text: with places for their values, or with the values in it.

use crate::data::{self, EMPTY_TABLE, INSERT_TABLE, ROWS_TABLE};
use crate::plan::Operation;
use crate::sbtest::{self, C, PAD};
use std::fmt::Write;

/// Returns the beginning of the statement of an operation: all of it but the values. In `MariaDB`, `VECTOR` is a reserved word.
pub fn sql(operation: Operation) -> String {
    match operation {
        Operation::Empty => format!("SELECT id, `vector`, payload FROM {EMPTY_TABLE} WHERE id"),
        Operation::Read => format!("SELECT id, `vector`, payload FROM {ROWS_TABLE} WHERE id"),
        Operation::Insert => format!("INSERT INTO {INSERT_TABLE} (id, `vector`, payload) VALUES "),
        Operation::OltpPoint | Operation::OltpRange => format!("SELECT c FROM {} WHERE id", sbtest::TABLE),
        Operation::OltpInsert => format!("INSERT INTO {} (id, k, c, pad) VALUES ", sbtest::TABLE),
    }
}

/// Returns the statement of an operation on so many rows, with a question mark for each value.
pub fn prepared(operation: Operation, rows: usize) -> String {
    let marks = |mark: &str| vec![mark; rows].join(", ");
    let end = match operation {
        Operation::Insert => marks("(?, ?, ?)"),
        Operation::OltpInsert => marks("(?, ?, ?, ?)"),
        Operation::OltpRange => " BETWEEN ? AND ?".to_owned(),
        Operation::OltpPoint if rows == 1 => "=?".to_owned(),
        _ if rows == 1 => " = ?".to_owned(),
        _ => format!(" IN ({})", marks("?")),
    };
    sql(operation) + &end
}

/// Returns the statement of an operation on these rows, with the values in it.
pub fn whole(operation: Operation, ids: &[i64], payload: usize) -> String {
    let list = |text: &dyn Fn(i64) -> String| ids.iter().map(|&id| text(id)).collect::<Vec<_>>().join(", ");
    let asked = |id| if operation.is_oltp() { sbtest::ids(operation, id).0 } else { id };
    let end = match (operation, ids) {
        (Operation::Insert | Operation::OltpInsert, _) => list(&|id| values(operation, id, payload)),
        (Operation::OltpRange, [id, ..]) => {
            let (first, last) = sbtest::ids(operation, *id);
            format!(" BETWEEN {first} AND {last}")
        }
        (Operation::OltpPoint, [id]) => format!("={}", asked(*id)),
        (_, [id]) => format!(" = {id}"),
        _ => format!(" IN ({})", list(&|id| asked(id).to_string())),
    };
    sql(operation) + &end
}

/// Returns the values of a row in brackets; quotes need no escape, the values have none.
pub fn values(operation: Operation, id: i64, payload: usize) -> String {
    if operation == Operation::OltpInsert {
        // The number 0 asks for the next one.
        return format!("(0, {}, '{}', '{}')", sbtest::k(id), sbtest::groups(id, C), sbtest::groups(id, PAD));
    }
    let mut text = format!("({id}, x'");
    for byte in vector(id) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text + &format!("', '{}')", data::payload(id, payload))
}

/// Returns the numbers of a row as bytes.
pub fn vector(id: i64) -> Vec<u8> {
    data::vector(id).into_iter().flat_map(i32::to_be_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_take_the_place_of_all_question_marks() {
        for operation in Operation::ALL {
            for ids in [&[7][..], &[7, 8, 9]] {
                let (text, prepared) = (whole(operation, ids, 36), prepared(operation, ids.len()));
                assert!(!text.contains('?') && text.starts_with(&sql(operation)), "{text}");
                assert!(prepared.contains('?') && prepared.starts_with(&sql(operation)), "{prepared}");
                if operation != Operation::OltpRange {
                    assert_eq!(text.matches(", ").count(), prepared.matches(", ").count(), "{text} {prepared}");
                }
            }
        }
    }

    #[test]
    fn the_statements_of_sysbench_are_its_own() {
        assert_eq!(prepared(Operation::OltpPoint, 1), "SELECT c FROM sbtest1 WHERE id=?");
        assert_eq!(prepared(Operation::OltpRange, 1), "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ?");
        let insert = whole(Operation::OltpInsert, &[1], 36);
        assert!(insert.starts_with("INSERT INTO sbtest1 (id, k, c, pad) VALUES (0, "), "{insert}");
    }
}
