//! The operations in the four ways in which they can be sent.

use super::oltp;
use crate::data::{self, EMPTY_TABLE, INSERT_TABLE, NAMESPACE, ROWS_TABLE};
use crate::driver::Options;
use crate::plan::Operation;
use std::fmt::Write;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, SimpleQueryMessage, Statement};

/// How to ask for each operation on one connection.
pub struct Statements {
    how: How,
    rows: u64,
    payload: usize,
}

/// How what is not a simple query of its own is sent.
pub enum How {
    /// `Bind` and `Execute` of what was prepared; by operation.
    Prepared([Option<Statement>; Operation::ALL.len()]),
    /// All messages each time.
    Unnamed,
    /// Simple queries that name a statement prepared by SQL.
    TextPrepared,
    /// Simple queries.
    Text,
}

impl Statements {
    /// Prepares what is needed for the operations, and nothing else: the names of statements get longer with their number.
    pub async fn prepare(client: &Client, options: &Options, operations: &[Operation]) -> Result<Self, Error> {
        if operations.iter().any(|operation| operation.is_oltp()) {
            // Statements of sysbench name its table alone.
            client.batch_execute(&format!("SET search_path = {NAMESPACE}")).await?;
        }
        let operations = operations.iter().filter(|&&operation| operation != Operation::OltpInsert);
        let how = match (options.prepared != Some(false), options.binary != Some(false)) {
            (true, true) => {
                let mut statements = [const { None }; Operation::ALL.len()];
                for &operation in operations {
                    statements[operation as usize] = Some(client.prepare(&sql(operation)).await?);
                }
                How::Prepared(statements)
            }
            (false, true) => How::Unnamed,
            (true, false) => {
                for &operation in operations {
                    let (name, types) = (name(operation), parameters(operation));
                    client.batch_execute(&format!("PREPARE {name} ({types}) AS {}", sql(operation))).await?;
                }
                How::TextPrepared
            }
            (false, false) => How::Text,
        };
        Ok(Self { how, rows: options.rows, payload: options.payload })
    }

    /// Runs one operation; whether the answer is what it must be.
    pub async fn run(&self, client: &Client, operation: Operation, id: i64) -> Result<bool, Error> {
        match (&self.how, operation) {
            (_, Operation::OltpInsert) => oltp::insert(client, id).await,
            (how, Operation::OltpPoint | Operation::OltpRange) => {
                oltp::select(how, client, operation, id, self.rows).await
            }
            (How::Prepared(statements), Operation::Insert) => {
                let Some(statement) = &statements[operation as usize] else { return Ok(false) };
                let (vector, payload) = (data::vector(id), data::payload(id, self.payload));
                Ok(client.execute(statement, &[&id, &&vector[..], &payload]).await? == 1)
            }
            (How::Prepared(statements), _) => {
                let Some(statement) = &statements[operation as usize] else { return Ok(false) };
                let row = client.query_opt(statement, &[&id]).await?;
                Ok(row.map(|row| row.get::<_, i64>(0)) == expected(operation, id))
            }
            (How::Unnamed, Operation::Insert) => {
                let (vector, payload) = (data::vector(id), data::payload(id, self.payload));
                let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
                    [(&id, Type::INT8), (&&vector[..], Type::INT4_ARRAY), (&payload, Type::TEXT)];
                Ok(client.execute_typed(&sql(operation), &values).await? == 1)
            }
            (How::Unnamed, _) => {
                let row = client.query_typed_opt(&sql(operation), &[(&id, Type::INT8)]).await?;
                Ok(row.map(|row| row.get::<_, i64>(0)) == expected(operation, id))
            }
            (How::TextPrepared, _) => {
                let values = literals(operation, id, self.payload);
                let text = format!("EXECUTE {}({values})", name(operation));
                Ok(is_expected(operation, id, &client.simple_query(&text).await?))
            }
            (How::Text, _) => {
                let values = literals(operation, id, self.payload);
                let text = sql(operation).replace(placeholders(operation), &values);
                Ok(is_expected(operation, id, &client.simple_query(&text).await?))
            }
        }
    }
}

/// Returns the id in the first row.
fn expected(operation: Operation, id: i64) -> Option<i64> {
    (operation == Operation::Read).then_some(id)
}

fn is_expected(operation: Operation, id: i64, answer: &[SimpleQueryMessage]) -> bool {
    if operation == Operation::Insert {
        return matches!(answer, [.., SimpleQueryMessage::CommandComplete(1)]);
    }
    let row = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).and_then(|id| id.parse().ok()),
        _ => None,
    });
    row == expected(operation, id)
}

pub fn sql(operation: Operation) -> String {
    match operation {
        Operation::OltpPoint | Operation::OltpRange | Operation::OltpInsert => oltp::sql(operation),
        Operation::Empty => format!("SELECT id, vector, payload FROM {NAMESPACE}.{EMPTY_TABLE} WHERE id = $1"),
        Operation::Read => format!("SELECT id, vector, payload FROM {NAMESPACE}.{ROWS_TABLE} WHERE id = $1"),
        Operation::Insert => {
            format!("INSERT INTO {NAMESPACE}.{INSERT_TABLE} (id, vector, payload) VALUES ($1,$2,$3)")
        }
    }
}

/// Returns the name of what SQL prepares.
pub fn name(operation: Operation) -> String {
    format!("ohb_{}", operation.name().replace('-', "_"))
}

fn placeholders(operation: Operation) -> &'static str {
    if operation == Operation::Insert { "$1,$2,$3" } else { "$1" }
}

fn parameters(operation: Operation) -> &'static str {
    match operation {
        Operation::Insert => "int8, int4[], text",
        Operation::OltpPoint => "int4",
        Operation::OltpRange => "int4, int4",
        _ => "int8",
    }
}

/// Returns the parameters as text; quotes need no escape, the values have none.
fn literals(operation: Operation, id: i64, payload: usize) -> String {
    if operation == Operation::Insert {
        format!("{id},'{}','{}'", array(id), data::payload(id, payload))
    } else {
        id.to_string()
    }
}

/// Returns the vector of a row in the syntax of an array: `{1,2,3}`.
pub fn array(id: i64) -> String {
    let mut text = String::from("{");
    for (at, number) in data::vector(id).into_iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}{number}");
    }
    text + "}"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_take_the_place_of_all_parameters() {
        for operation in Operation::REFERENCE {
            let text = sql(operation).replace(placeholders(operation), &literals(operation, 7, 36));
            assert!(!text.contains('$') && text.contains('7'), "{text}");
        }
    }

    #[test]
    fn arrays_have_sixteen_numbers() {
        let text = array(1);
        assert!(text.starts_with('{') && text.ends_with('}'));
        assert_eq!(text.split(',').count(), 16);
    }
}
