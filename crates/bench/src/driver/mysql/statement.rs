//! The operations, prepared or as text.

use super::text;
use crate::data;
use crate::driver::{Options, wrong_row};
use crate::plan::Operation;
use crate::sbtest;
use crate::stats::Faults;
use mysql_async::prelude::{FromRow, Queryable};
use mysql_async::{Conn, Error, Params, Statement, Value};
use std::collections::HashSet;

/// How to ask for each operation on one connection.
pub struct Statements {
    /// By operation, for so many rows at once as were asked for last; empty where nothing is prepared.
    prepared: [Option<(Statement, usize)>; Operation::ALL.len()],
    is_prepared: bool,
    rows: u64,
    payload: usize,
}

impl Statements {
    /// Prepares what is needed for the operations.
    pub async fn prepare(connection: &mut Conn, options: &Options, operations: &[Operation]) -> Result<Self, Error> {
        let prepared = [const { None }; Operation::ALL.len()];
        let is_prepared = options.prepared != Some(false);
        let mut statements = Self { prepared, is_prepared, rows: options.rows, payload: options.payload };
        for &operation in operations {
            if statements.prepares(operation) {
                statements.statement(connection, operation, options.pipeline as usize).await?;
            }
        }
        Ok(statements)
    }

    /// What `sysbench` prepares, and all of the workload, if it is to be.
    fn prepares(&self, operation: Operation) -> bool {
        self.is_prepared && operation != Operation::OltpInsert
    }

    /// Returns the statement for so many rows; the one for another number of rows is closed.
    async fn statement(
        &mut self,
        connection: &mut Conn,
        operation: Operation,
        rows: usize,
    ) -> Result<Statement, Error> {
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

    /// Runs one operation on each id, together.
    pub async fn run(
        &mut self,
        connection: &mut Conn,
        operation: Operation,
        ids: &[i64],
        faults: &mut Faults,
    ) -> Result<(), Error> {
        match operation {
            Operation::Insert | Operation::OltpInsert => {
                self.ask::<Value>(connection, operation, ids).await?;
                let inserted = connection.affected_rows();
                if inserted != ids.len() as u64 {
                    faults.add_all(ids.len(), format!("{inserted} rows were inserted instead of {}", ids.len()));
                }
            }
            Operation::Empty | Operation::Read => {
                let rows: Vec<(i64, Vec<u8>, Vec<u8>)> = self.ask(connection, operation, ids).await?;
                self.check(operation, ids, &rows, faults);
            }
            Operation::OltpPoint | Operation::OltpRange => {
                let rows: Vec<String> = self.ask(connection, operation, ids).await?;
                self.check_texts(operation, ids, &rows, faults);
            }
        }
        Ok(())
    }

    async fn ask<T>(&mut self, connection: &mut Conn, operation: Operation, ids: &[i64]) -> Result<Vec<T>, Error>
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

    /// The values of one row, in the order of their question marks.
    fn values(&self, operation: Operation, id: i64) -> Vec<Value> {
        let (first, last) = sbtest::ids(operation, id);
        match operation {
            Operation::Insert => vec![id.into(), text::vector(id).into(), data::payload(id, self.payload).into()],
            Operation::OltpPoint => vec![first.into()],
            Operation::OltpRange => vec![first.into(), last.into()],
            _ => vec![id.into()],
        }
    }

    /// The same row may be asked for twice, and comes once.
    fn check(&self, operation: Operation, ids: &[i64], rows: &[(i64, Vec<u8>, Vec<u8>)], faults: &mut Faults) {
        let wanted: HashSet<i64> = ids.iter().copied().collect();
        for (id, vector, payload) in rows {
            let is_whole = vector.len() == data::VECTOR * 4 && payload.len() == self.payload;
            if operation == Operation::Empty || !is_whole || !wanted.contains(id) {
                faults.add(wrong_row(operation, *id));
            }
        }
        let there: HashSet<i64> = rows.iter().map(|(id, ..)| *id).collect();
        for &id in ids.iter().filter(|id| operation == Operation::Read && !there.contains(id)) {
            faults.add(wrong_row(operation, id));
        }
    }

    fn check_texts(&self, operation: Operation, ids: &[i64], rows: &[String], faults: &mut Faults) {
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
