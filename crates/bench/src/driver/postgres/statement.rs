//! The operations in the four query modes.

use super::oltp;
use crate::data::{self, EMPTY_TABLE, INSERT_TABLE, NAMESPACE, ROWS_TABLE};
use crate::driver::DriverOptions;
use crate::plan::BenchOp;
use std::fmt::Write;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, SimpleQueryMessage, Statement};

/// The query mode of a connection, with its prepared statements.
pub struct PostgresStatements {
    how: QueryMode,
    rows: u64,
    payload: usize,
}

pub enum QueryMode {
    /// `Bind` and `Execute` of a prepared statement, by operation.
    Prepared([Option<Statement>; BenchOp::ALL.len()]),
    /// All messages of the extended protocol each time.
    Unnamed,
    /// Simple queries that execute a statement prepared with SQL.
    TextPrepared,
    /// Simple queries with the values in the text.
    Text,
}

impl PostgresStatements {
    /// Prepares only the needed statements: the driver's statement names grow with their number.
    pub async fn prepare(client: &Client, options: &DriverOptions, operations: &[BenchOp]) -> Result<Self, Error> {
        if operations.iter().any(|operation| operation.is_oltp()) {
            // `sysbench` statements do not qualify their table.
            client.batch_execute(&format!("SET search_path = {NAMESPACE}")).await?;
        }
        let operations = operations.iter().filter(|&&operation| operation != BenchOp::OltpInsert);
        let how = match (options.prepared != Some(false), options.binary != Some(false)) {
            (true, true) => {
                let mut statements = [const { None }; BenchOp::ALL.len()];
                for &operation in operations {
                    statements[operation as usize] = Some(client.prepare(&sql(operation)).await?);
                }
                QueryMode::Prepared(statements)
            }
            (false, true) => QueryMode::Unnamed,
            (true, false) => {
                for &operation in operations {
                    let (name, types) = (name(operation), parameters(operation));
                    client.batch_execute(&format!("PREPARE {name} ({types}) AS {}", sql(operation))).await?;
                }
                QueryMode::TextPrepared
            }
            (false, false) => QueryMode::Text,
        };
        Ok(Self { how, rows: options.rows, payload: options.payload })
    }

    /// Runs one operation. Returns whether the answer is correct.
    pub async fn run(&self, client: &Client, operation: BenchOp, id: i64) -> Result<bool, Error> {
        match (&self.how, operation) {
            (_, BenchOp::OltpInsert) => oltp::insert(client, id).await,
            (how, BenchOp::OltpPoint | BenchOp::OltpRange) => oltp::select(how, client, operation, id, self.rows).await,
            (QueryMode::Prepared(statements), BenchOp::Insert) => {
                let Some(statement) = &statements[operation as usize] else { return Ok(false) };
                let (vector, payload) = (data::vector(id), data::payload(id, self.payload));
                Ok(client.execute(statement, &[&id, &&vector[..], &payload]).await? == 1)
            }
            (QueryMode::Prepared(statements), _) => {
                let Some(statement) = &statements[operation as usize] else { return Ok(false) };
                let row = client.query_opt(statement, &[&id]).await?;
                Ok(row.map(|row| row.get::<_, i64>(0)) == expected(operation, id))
            }
            (QueryMode::Unnamed, BenchOp::Insert) => {
                let (vector, payload) = (data::vector(id), data::payload(id, self.payload));
                let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
                    [(&id, Type::INT8), (&&vector[..], Type::INT4_ARRAY), (&payload, Type::TEXT)];
                Ok(client.execute_typed(&sql(operation), &values).await? == 1)
            }
            (QueryMode::Unnamed, _) => {
                let row = client.query_typed_opt(&sql(operation), &[(&id, Type::INT8)]).await?;
                Ok(row.map(|row| row.get::<_, i64>(0)) == expected(operation, id))
            }
            (QueryMode::TextPrepared, _) => {
                let values = literals(operation, id, self.payload);
                let text = format!("EXECUTE {}({values})", name(operation));
                Ok(is_expected(operation, id, &client.simple_query(&text).await?))
            }
            (QueryMode::Text, _) => {
                let values = literals(operation, id, self.payload);
                let text = sql(operation).replace(placeholders(operation), &values);
                Ok(is_expected(operation, id, &client.simple_query(&text).await?))
            }
        }
    }
}

fn expected(operation: BenchOp, id: i64) -> Option<i64> {
    (operation == BenchOp::Read).then_some(id)
}

fn is_expected(operation: BenchOp, id: i64, answer: &[SimpleQueryMessage]) -> bool {
    if operation == BenchOp::Insert {
        return matches!(answer, [.., SimpleQueryMessage::CommandComplete(1)]);
    }
    let row = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).and_then(|id| id.parse().ok()),
        _ => None,
    });
    row == expected(operation, id)
}

pub fn sql(operation: BenchOp) -> String {
    match operation {
        BenchOp::OltpPoint | BenchOp::OltpRange | BenchOp::OltpInsert => oltp::sql(operation),
        BenchOp::Empty => format!("SELECT id, vector, payload FROM {NAMESPACE}.{EMPTY_TABLE} WHERE id = $1"),
        BenchOp::Read => format!("SELECT id, vector, payload FROM {NAMESPACE}.{ROWS_TABLE} WHERE id = $1"),
        BenchOp::Insert => {
            format!("INSERT INTO {NAMESPACE}.{INSERT_TABLE} (id, vector, payload) VALUES ($1,$2,$3)")
        }
    }
}

/// Returns the name used by SQL `PREPARE`.
pub fn name(operation: BenchOp) -> String {
    format!("ohb_{}", operation.name().replace('-', "_"))
}

fn placeholders(operation: BenchOp) -> &'static str {
    if operation == BenchOp::Insert { "$1,$2,$3" } else { "$1" }
}

fn parameters(operation: BenchOp) -> &'static str {
    match operation {
        BenchOp::Insert => "int8, int4[], text",
        BenchOp::OltpPoint => "int4",
        BenchOp::OltpRange => "int4, int4",
        _ => "int8",
    }
}

/// Returns the parameters as text. They contain no quotes to escape.
fn literals(operation: BenchOp, id: i64, payload: usize) -> String {
    if operation == BenchOp::Insert {
        format!("{id},'{}','{}'", array(id), data::payload(id, payload))
    } else {
        id.to_string()
    }
}

/// Returns the vector as an array literal: `{1,2,3}`.
pub fn array(id: i64) -> String {
    let mut text = String::from("{");
    for (at, number) in data::vector(id).into_iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(text, "{comma}{number}");
    }
    text + "}"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_take_the_place_of_all_parameters() {
        for operation in BenchOp::REFERENCE {
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
