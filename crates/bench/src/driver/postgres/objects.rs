//! Makes and removes a schema with its tables. Its comment marks it as ours.

use super::statement::array;
use crate::data::{self, EMPTY_TABLE, INSERT_TABLE, MARK, NAMESPACE, ROWS_TABLE, TABLES};
use crate::driver::BenchObjects;
use crate::sbtest;
use anyhow::{Result, bail};
use bytes::Bytes;
use futures_util::SinkExt;
use std::fmt::Write;
use tokio_postgres::{Client, CopyInSink};

/// Bytes of rows per message.
const CHUNK: usize = 64 << 10;

pub struct PostgresTables {
    pub client: Client,
    /// Also make the `sysbench` table.
    pub oltp: bool,
}

impl BenchObjects for PostgresTables {
    async fn set_up(&mut self, rows: u64, payload: usize) -> Result<()> {
        if !self.clean_up().await? && exists(&self.client).await? {
            bail!(
                "there is a schema {NAMESPACE} that this program has not made: nothing was changed; use another --database"
            );
        }
        let mut statements = format!("CREATE SCHEMA {NAMESPACE}; COMMENT ON SCHEMA {NAMESPACE} IS '{MARK}';");
        for table in TABLES {
            let columns = "id BIGINT PRIMARY KEY, vector INT4[], payload TEXT";
            write!(statements, "CREATE TABLE {NAMESPACE}.{table} ({columns});")?;
        }
        let client = &self.client;
        client.batch_execute(&statements).await?;
        let copy = format!("COPY {NAMESPACE}.{ROWS_TABLE} (id, vector, payload) FROM STDIN");
        load(client, &copy, rows, |id| format!("{id}\t{}\t{}\n", array(id), data::payload(id, payload))).await?;
        let mut filled = format!("{NAMESPACE}.{ROWS_TABLE}");
        if self.oltp {
            client.batch_execute(&oltp_table()).await?;
            let copy = format!("COPY {NAMESPACE}.{} (k, c, pad) FROM STDIN", sbtest::TABLE);
            load(client, &copy, rows, oltp_row).await?;
            write!(filled, ", {NAMESPACE}.{}", sbtest::TABLE)?;
        }
        // Optional: not every compatible server supports it.
        let _ = client.batch_execute(&format!("VACUUM ANALYZE {filled}")).await;
        Ok(())
    }

    async fn remove_inserted(&mut self, rows: u64) -> Result<()> {
        self.client.batch_execute(&format!("TRUNCATE {NAMESPACE}.{INSERT_TABLE}, {NAMESPACE}.{EMPTY_TABLE}")).await?;
        if self.oltp {
            // Inserted rows have higher serial numbers than loaded ones.
            let delete = format!("DELETE FROM {NAMESPACE}.{} WHERE id > {rows}", sbtest::TABLE);
            self.client.batch_execute(&delete).await?;
        }
        Ok(())
    }

    /// Fails if the schema contains other objects.
    async fn clean_up(&mut self) -> Result<bool> {
        let ours = "SELECT FROM pg_namespace n JOIN pg_description d ON d.objoid = n.oid AND d.classoid = 'pg_namespace'::regclass \
                    WHERE n.nspname = $1 AND d.description = $2";
        if self.client.query(ours, &[&NAMESPACE, &MARK]).await?.is_empty() {
            return Ok(false);
        }
        let tables = TABLES.into_iter().chain([sbtest::TABLE]).map(|table| format!("{NAMESPACE}.{table}"));
        let tables = tables.collect::<Vec<_>>().join(", ");
        self.client.batch_execute(&format!("DROP TABLE IF EXISTS {tables}; DROP SCHEMA {NAMESPACE}")).await?;
        Ok(true)
    }
}

/// Copies `rows` rows, each a line of text.
async fn load(client: &Client, copy: &str, rows: u64, line: impl Fn(i64) -> String) -> Result<()> {
    let sink: CopyInSink<Bytes> = client.copy_in(copy).await?;
    tokio::pin!(sink);
    let mut text = String::with_capacity(CHUNK + (1 << 10));
    for id in 0..rows.cast_signed() {
        text += &line(id);
        if text.len() >= CHUNK {
            sink.send(Bytes::from(std::mem::take(&mut text))).await?;
        }
    }
    sink.send(Bytes::from(text)).await?;
    sink.finish().await?;
    Ok(())
}

fn oltp_table() -> String {
    let (table, columns) = (sbtest::TABLE, "id SERIAL, k INTEGER DEFAULT 0 NOT NULL");
    let texts = "c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id)";
    format!("CREATE TABLE {NAMESPACE}.{table} ({columns}, {texts}); CREATE INDEX k_1 ON {NAMESPACE}.{table} (k);")
}

/// Returns a row for `COPY`, without its serial id.
fn oltp_row(id: i64) -> String {
    format!("{}\t{}\t{}\n", sbtest::k(id), sbtest::groups(id, sbtest::C), sbtest::groups(id, sbtest::PAD))
}

async fn exists(client: &Client) -> Result<bool> {
    let rows = client.query("SELECT FROM pg_namespace WHERE nspname = $1", &[&NAMESPACE]).await?;
    Ok(!rows.is_empty())
}

/// Returns the server's name and version.
pub async fn version(client: &Client) -> Result<Option<String>> {
    let row = client.query_one("SELECT version()", &[]).await?;
    Ok(short(row.try_get(0)?))
}

/// Shortens `PostgreSQL 15.18 (Debian …) on …` to the words up to the version number, which works for forks too.
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
