//! The `sysbench` statements in the four query modes; the insert is always a simple query.

use super::statement::{QueryMode, name};
use crate::plan::BenchOp;
use crate::sbtest::{self, C, PAD, TABLE};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row, SimpleQueryMessage};

/// Returns the statement with placeholders.
pub fn sql(operation: BenchOp) -> String {
    let condition = if operation == BenchOp::OltpRange { " BETWEEN $1 AND $2" } else { "=$1" };
    format!("SELECT c FROM {TABLE} WHERE id{condition}")
}

/// Reads one or more rows. Returns whether they are the expected ones of a table of `rows` rows.
pub async fn select(how: &QueryMode, client: &Client, operation: BenchOp, id: i64, rows: u64) -> Result<bool, Error> {
    let (first, last) = sbtest::ids(operation, id);
    // Ids are below MAX_ROWS.
    let ends = [first as i32, last as i32];
    let values: [&(dyn ToSql + Sync); 2] = [&ends[0], &ends[1]];
    let typed = values.map(|value| (value, Type::INT4));
    let count = if operation == BenchOp::OltpRange { 2 } else { 1 };
    let texts: Vec<String> = match how {
        QueryMode::Prepared(statements) => {
            let Some(statement) = &statements[operation as usize] else { return Ok(false) };
            texts(&client.query(statement, &values[..count]).await?)
        }
        QueryMode::Unnamed => texts(&client.query_typed(&sql(operation), &typed[..count]).await?),
        QueryMode::TextPrepared => {
            let values = if count == 2 { format!("{first},{last}") } else { first.to_string() };
            texts_of(client, &format!("EXECUTE {}({values})", name(operation))).await?
        }
        QueryMode::Text => {
            let text = sql(operation).replace("$1", &first.to_string()).replace("$2", &last.to_string());
            texts_of(client, &text).await?
        }
    };
    // Without ORDER BY, any order is valid.
    let wanted = sbtest::groups(id, C);
    let is_there = texts.iter().any(|text| text.trim_end() == wanted);
    Ok(is_there && texts.len() == sbtest::found(operation, id, rows))
}

/// Inserts a row with the next serial id.
pub async fn insert(client: &Client, id: i64) -> Result<bool, Error> {
    let (k, c, pad) = (sbtest::k(id), sbtest::groups(id, C), sbtest::groups(id, PAD));
    let answer = client.simple_query(&format!("INSERT INTO {TABLE} (k, c, pad) VALUES ({k}, '{c}', '{pad}')")).await?;
    Ok(matches!(answer[..], [.., SimpleQueryMessage::CommandComplete(1)]))
}

fn texts(rows: &[Row]) -> Vec<String> {
    rows.iter().map(|row| row.get(0)).collect()
}

async fn texts_of(client: &Client, text: &str) -> Result<Vec<String>, Error> {
    let answer = client.simple_query(text).await?;
    let text = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    Ok(answer.iter().filter_map(text).collect())
}
