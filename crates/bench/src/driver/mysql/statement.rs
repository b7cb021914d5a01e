//! Runs the operations, prepared or as text.

use super::text;
use crate::data;
use crate::driver::{DriverOptions, wrong_row};
use crate::plan::BenchOp;
use crate::sbtest;
use crate::stats::Faults;
use mysql_async::prelude::{FromRow, Queryable};
use mysql_async::{Conn, Error, Params, Statement, Value};
use std::collections::HashSet;

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
        let statement = connection.prep(text::prepared(operation, rows)).await?;
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
            return connection.query(text::whole(operation, ids, self.payload)).await;
        }
        let statement = self.statement(connection, operation, ids.len()).await?;
        let values = ids.iter().flat_map(|&id| self.values(operation, id)).collect();
        connection.exec(statement, Params::Positional(values)).await
    }

    /// Returns the values of a row in the order of its placeholders.
    fn values(&self, operation: BenchOp, id: i64) -> Vec<Value> {
        let (first, last) = sbtest::ids(operation, id);
        match operation {
            BenchOp::Insert => vec![id.into(), text::vector(id).into(), data::payload(id, self.payload).into()],
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
            if !there.contains(sbtest::groups(id, sbtest::C).as_str()) {
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
