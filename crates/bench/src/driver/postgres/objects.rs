//! A schema with three tables: made, removed, and told from everybody else's by its comment.

use super::statement::array;
use crate::data::{self, EMPTY_TABLE, INSERT_TABLE, MARK, NAMESPACE, ROWS_TABLE, TABLES};
use anyhow::{Result, bail};
use bytes::Bytes;
use futures_util::SinkExt;
use std::fmt::Write;
use tokio_postgres::{Client, CopyInSink};

/// Bytes of rows that are sent in one message.
const CHUNK: usize = 64 << 10;

/// Makes the schema and loads the rows, after what an earlier run has left is removed.
pub async fn set_up(client: &Client, rows: u64, payload: usize) -> Result<()> {
    if !clean_up(client).await? && exists(client).await? {
        bail!(
            "there is a schema {NAMESPACE} that this program has not made: nothing was changed; use another --database"
        );
    }
    let mut statements = format!("CREATE SCHEMA {NAMESPACE}; COMMENT ON SCHEMA {NAMESPACE} IS '{MARK}';");
    for table in TABLES {
        write!(statements, "CREATE TABLE {NAMESPACE}.{table} (id BIGINT PRIMARY KEY, vector INT4[], payload TEXT);")?;
    }
    client.batch_execute(&statements).await?;
    load(client, rows, payload).await?;
    // Not everything that speaks the protocol has it, and it is a kindness to those that do.
    let _ = client.batch_execute(&format!("VACUUM ANALYZE {NAMESPACE}.{ROWS_TABLE}")).await;
    Ok(())
}

async fn load(client: &Client, rows: u64, payload: usize) -> Result<()> {
    let copy = format!("COPY {NAMESPACE}.{ROWS_TABLE} (id, vector, payload) FROM STDIN");
    let sink: CopyInSink<Bytes> = client.copy_in(&copy).await?;
    tokio::pin!(sink);
    let mut text = String::with_capacity(CHUNK + (1 << 10));
    for id in 0..rows.cast_signed() {
        writeln!(text, "{id}\t{}\t{}", array(id), data::payload(id, payload))?;
        if text.len() >= CHUNK {
            sink.send(Bytes::from(std::mem::take(&mut text))).await?;
        }
    }
    sink.send(Bytes::from(text)).await?;
    sink.finish().await?;
    Ok(())
}

/// Removes the tables and the schema; false where there is no schema of ours. Fails where somebody put more into it.
pub async fn clean_up(client: &Client) -> Result<bool> {
    let ours = "SELECT FROM pg_namespace n JOIN pg_description d ON d.objoid = n.oid AND d.classoid = 'pg_namespace'::regclass \
                WHERE n.nspname = $1 AND d.description = $2";
    if client.query(ours, &[&NAMESPACE, &MARK]).await?.is_empty() {
        return Ok(false);
    }
    let tables = TABLES.map(|table| format!("{NAMESPACE}.{table}")).join(", ");
    client.batch_execute(&format!("DROP TABLE IF EXISTS {tables}; DROP SCHEMA {NAMESPACE}")).await?;
    Ok(true)
}

/// Empties the table of inserted rows.
pub async fn remove_inserted(client: &Client) -> Result<()> {
    client.batch_execute(&format!("TRUNCATE {NAMESPACE}.{INSERT_TABLE}, {NAMESPACE}.{EMPTY_TABLE}")).await?;
    Ok(())
}

async fn exists(client: &Client) -> Result<bool> {
    let rows = client.query("SELECT FROM pg_namespace WHERE nspname = $1", &[&NAMESPACE]).await?;
    Ok(!rows.is_empty())
}

/// Name and version of the server, out of what `version()` says.
pub async fn version(client: &Client) -> Result<Option<String>> {
    let row = client.query_one("SELECT version()", &[]).await?;
    Ok(short(row.try_get(0)?))
}

/// `PostgreSQL 15.18 (Debian …) on …` without its end; of the forks, all words up to the number.
fn short(version: &str) -> Option<String> {
    let words = version.split_whitespace();
    let end = words.clone().position(|word| word.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit()))?;
    Some(words.take(end + 1).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_end_with_the_number() {
        let debian = "PostgreSQL 15.18 (Debian 15.18-0+deb12u1) on x86_64-pc-linux-gnu, compiled by gcc, 64-bit";
        assert_eq!(short(debian).as_deref(), Some("PostgreSQL 15.18"));
        assert_eq!(short("CockroachDB CCL v25.1.0 (x86_64)").as_deref(), Some("CockroachDB CCL v25.1.0"));
        assert_eq!(short("something else"), None);
    }
}
