//! Runs the operations, prepared or as text.

use crate::data::{self, EMPTY_TABLE, INSERT_TABLE, ROWS_TABLE};
use crate::driver::{DriverOptions, wrong_row};
use crate::plan::BenchOp;
use crate::sbtest::{self, C, PAD};
use crate::stats::Faults;
use mysql_async::prelude::{FromRow, Queryable};
use mysql_async::{Conn, Error, Params, Statement, Value};
use std::collections::HashSet;
use std::fmt::Write;

/// Prepared statements of one connection.
pub struct MysqlStatements {
    /// By operation, with the number of rows it was prepared for.
    prepared: [Option<(Statement, usize)>; BenchOp::ALL.len()],
    is_prepared: bool,
    rows: u64,
    payload: usize,
}

impl MysqlStatements {
    pub async fn prepare(
        connection: &mut Conn,
        options: &DriverOptions,
        operations: &[BenchOp],
    ) -> Result<Self, Error> {
        let prepared = [const { None }; BenchOp::ALL.len()];
        let is_prepared = options.prepared != Some(false);
        let mut statements = Self { prepared, is_prepared, rows: options.rows, payload: options.payload };
        for &operation in operations {
            if statements.prepares(operation) {
                statements.statement(connection, operation, options.pipeline as usize).await?;
            }
        }
        Ok(statements)
    }

    /// Returns whether the operation is prepared. `sysbench` does not prepare inserts.
    fn prepares(&self, operation: BenchOp) -> bool {
        self.is_prepared && operation != BenchOp::OltpInsert
    }

    /// Returns the statement for `rows` rows; closes one for another number of rows.
    async fn statement(&mut self, connection: &mut Conn, operation: BenchOp, rows: usize) -> Result<Statement, Error> {
        let place = &mut self.prepared[operation as usize];
        if let Some((statement, _)) = place.as_ref().filter(|(_, of)| *of == rows) {
            return Ok(statement.clone());
        }
        if let Some((other, _)) = place.take() {
            connection.close(other).await?;
        }
        let statement = connection.prep(prepared(operation, rows)).await?;
        *place = Some((statement.clone(), rows));
        Ok(statement)
    }

    pub async fn run(
        &mut self,
        connection: &mut Conn,
        operation: BenchOp,
        ids: &[i64],
        faults: &mut Faults,
    ) -> Result<(), Error> {
        match operation {
            BenchOp::Insert | BenchOp::OltpInsert => {
                self.query::<Value>(connection, operation, ids).await?;
                let inserted = connection.affected_rows();
                if inserted != ids.len() as u64 {
                    faults.add_all(ids.len(), format!("{inserted} rows were inserted instead of {}", ids.len()));
                }
            }
            BenchOp::Empty | BenchOp::Read => {
                let rows: Vec<(i64, Vec<u8>, Vec<u8>)> = self.query(connection, operation, ids).await?;
                self.check(operation, ids, &rows, faults);
            }
            BenchOp::OltpPoint | BenchOp::OltpRange => {
                let rows: Vec<String> = self.query(connection, operation, ids).await?;
                self.check_texts(operation, ids, &rows, faults);
            }
        }
        Ok(())
    }

    async fn query<T>(&mut self, connection: &mut Conn, operation: BenchOp, ids: &[i64]) -> Result<Vec<T>, Error>
    where
        T: FromRow + Send + 'static,
    {
        if !self.prepares(operation) {
            return connection.query(whole(operation, ids, self.payload)).await;
        }
        let statement = self.statement(connection, operation, ids.len()).await?;
        let values = ids.iter().flat_map(|&id| self.values(operation, id)).collect();
        connection.exec(statement, Params::Positional(values)).await
    }

    /// Returns the values of a row in the order of its placeholders.
    fn values(&self, operation: BenchOp, id: i64) -> Vec<Value> {
        let (first, last) = sbtest::ids(operation, id);
        match operation {
            BenchOp::Insert => vec![id.into(), vector(id).into(), data::payload(id, self.payload).into()],
            BenchOp::OltpPoint => vec![first.into()],
            BenchOp::OltpRange => vec![first.into(), last.into()],
            _ => vec![id.into()],
        }
    }

    /// Rows requested twice are returned once.
    fn check(&self, operation: BenchOp, ids: &[i64], rows: &[(i64, Vec<u8>, Vec<u8>)], faults: &mut Faults) {
        let wanted: HashSet<i64> = ids.iter().copied().collect();
        for (id, vector, payload) in rows {
            let is_whole = vector.len() == data::VECTOR * 4 && payload.len() == self.payload;
            if operation == BenchOp::Empty || !is_whole || !wanted.contains(id) {
                faults.add(wrong_row(operation, *id));
            }
        }
        let there: HashSet<i64> = rows.iter().map(|(id, ..)| *id).collect();
        for &id in ids.iter().filter(|id| operation == BenchOp::Read && !there.contains(id)) {
            faults.add(wrong_row(operation, id));
        }
    }

    fn check_texts(&self, operation: BenchOp, ids: &[i64], rows: &[String], faults: &mut Faults) {
        let there: HashSet<&str> = rows.iter().map(|text| text.trim_end()).collect();
        for &id in ids {
            if !there.contains(sbtest::groups(id, C).as_str()) {
                faults.add(wrong_row(operation, id));
            }
        }
        if let [id] = *ids
            && rows.len() != sbtest::found(operation, id, self.rows)
        {
            faults.add(format!(
                "{} rows were found, {} are there",
                rows.len(),
                sbtest::found(operation, id, self.rows)
            ));
        }
    }
}

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
