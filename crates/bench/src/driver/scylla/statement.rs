//! The three operations, prepared or with their values in the text.

use crate::data::{self, EMPTY_TABLE, INSERT_TABLE, ROWS_TABLE};
use crate::driver::{ConnectionLost, DriverOptions, wrong_row};
use crate::plan::BenchOp;
use crate::stats::Faults;
use futures_util::future::join_all;
use scylla::client::session::Session;
use scylla::errors::{ExecutionError, PrepareError, RequestAttemptError};
use scylla::response::query_result::QueryResult;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;

/// Prepared statements of one session.
pub struct ScyllaStatements {
    /// By operation.
    prepared: [Option<PreparedStatement>; BenchOp::REFERENCE.len()],
    /// Reused while the size stays the same.
    batch: Option<Batch>,
    /// Whether several inserts are one batch.
    multi_key: bool,
    keyspace: String,
    payload: usize,
}

impl ScyllaStatements {
    pub async fn prepare(
        session: &Session,
        options: &DriverOptions,
        keyspace: &str,
        operations: &[BenchOp],
    ) -> Result<Self, PrepareError> {
        let mut prepared = [const { None }; BenchOp::REFERENCE.len()];
        for &operation in operations.iter().filter(|_| options.prepared != Some(false)) {
            let mut statement = session.prepare(cql(keyspace, operation)).await?;
            statement.set_use_cached_result_metadata(options.skip_metadata == Some(true));
            prepared[operation as usize] = Some(statement);
        }
        let multi_key = options.multi_key == Some(true);
        Ok(Self { prepared, batch: None, multi_key, keyspace: keyspace.to_owned(), payload: options.payload })
    }

    pub async fn run(
        &mut self,
        session: &Session,
        operation: BenchOp,
        ids: &[i64],
        faults: &mut Faults,
    ) -> Result<(), ConnectionLost> {
        match *ids {
            [id] => check(operation, id, self.one(session, operation, id).await, faults),
            _ if operation == BenchOp::Insert && self.multi_key => match self.insert(session, ids).await {
                Ok(_) => Ok(()),
                Err(error) => fail(&error, ids.len(), faults),
            },
            _ => {
                let answers = join_all(ids.iter().map(|&id| self.one(session, operation, id))).await;
                let mut answers = ids.iter().zip(answers);
                answers.try_for_each(|(&id, answer)| check(operation, id, answer, faults))
            }
        }
    }

    async fn one(&self, session: &Session, operation: BenchOp, id: i64) -> Result<QueryResult, ExecutionError> {
        match &self.prepared[operation as usize] {
            None => session.query_unpaged(self.text(operation, id), ()).await,
            Some(statement) if operation == BenchOp::Insert => {
                let (vector, payload) = (data::vector(id), data::payload(id, self.payload));
                session.execute_unpaged(statement, (id, &vector[..], payload)).await
            }
            Some(statement) => session.execute_unpaged(statement, (id,)).await,
        }
    }

    /// Inserts all rows in one batch.
    async fn insert(&mut self, session: &Session, ids: &[i64]) -> Result<QueryResult, ExecutionError> {
        let Some(statement) = &self.prepared[BenchOp::Insert as usize] else {
            let mut batch = Batch::new(BatchType::Unlogged);
            for &id in ids {
                batch.append_statement(self.text(BenchOp::Insert, id).as_str());
            }
            return session.batch(&batch, vec![(); ids.len()]).await;
        };
        let batch = self.batch.take().filter(|batch| batch.statements.len() == ids.len());
        let batch = batch.unwrap_or_else(|| {
            Batch::new_with_statements(BatchType::Unlogged, vec![statement.clone().into(); ids.len()])
        });
        let rows: Vec<_> =
            ids.iter().map(|&id| (id, data::vector(id).to_vec(), data::payload(id, self.payload))).collect();
        let result = session.batch(&batch, rows).await;
        self.batch = Some(batch);
        result
    }

    /// Returns the statement with its values. The driver would prepare a statement with bound values.
    fn text(&self, operation: BenchOp, id: i64) -> String {
        let text = cql(&self.keyspace, operation);
        if operation == BenchOp::Insert {
            let (vector, payload) = (data::vector(id), data::payload(id, self.payload));
            text.replace("?, ?, ?", &format!("{id}, {vector:?}, '{payload}'"))
        } else {
            text.replace('?', &id.to_string())
        }
    }
}

/// Returns the statement, as in the reference measurement.
pub fn cql(keyspace: &str, operation: BenchOp) -> String {
    match operation {
        BenchOp::Empty => format!("SELECT id, vector, payload FROM {keyspace}.{EMPTY_TABLE} WHERE id = ?"),
        BenchOp::Insert => {
            format!("INSERT INTO {keyspace}.{INSERT_TABLE} (id, vector, payload) VALUES (?, ?, ?)")
        }
        _ => format!("SELECT id, vector, payload FROM {keyspace}.{ROWS_TABLE} WHERE id = ?"),
    }
}

fn check(
    operation: BenchOp,
    id: i64,
    answer: Result<QueryResult, ExecutionError>,
    faults: &mut Faults,
) -> Result<(), ConnectionLost> {
    match answer {
        Err(error) => return fail(&error, 1, faults),
        Ok(_) if operation == BenchOp::Insert => {}
        Ok(result) => {
            let wanted = (operation == BenchOp::Read).then_some(id);
            match id_of_first_row(result) {
                Ok(found) if found == wanted => {}
                Ok(_) => faults.add(wrong_row(operation, id)),
                Err(error) => faults.add(error),
            }
        }
    }
    Ok(())
}

/// Decodes the first row completely and returns its id.
fn id_of_first_row(result: QueryResult) -> anyhow::Result<Option<i64>> {
    let rows = result.into_rows_result()?;
    Ok(rows.maybe_first_row::<(i64, Vec<i32>, &str)>()?.map(|(id, _, _)| id))
}

/// Counts errors of the server; other errors mean that the connection is lost.
fn fail(error: &ExecutionError, count: usize, faults: &mut Faults) -> Result<(), ConnectionLost> {
    match error {
        ExecutionError::ConnectionPoolError(_)
        | ExecutionError::EmptyPlan
        | ExecutionError::RequestTimeout(_)
        | ExecutionError::LastAttemptError(RequestAttemptError::BrokenConnectionError(_)) => {
            Err(ConnectionLost::new(error))
        }
        _ => {
            faults.add_all(count, error);
            Ok(())
        }
    }
}
