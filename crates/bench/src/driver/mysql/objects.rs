//! Makes and removes a database with its tables. Their comments mark them as ours.

use super::statement;
use crate::data::{EMPTY_TABLE, INSERT_TABLE, MARK, TABLES};
use crate::driver::BenchObjects;
use crate::plan::BenchOp;
use crate::sbtest;
use crate::statements::ListedStatements;
use anyhow::{Context, Result, bail, ensure};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::net::lookup_host;

/// End of the comment if the database was made too.
const DATABASE_TOO: &str = ", with its database";

/// Bytes of rows per statement, below the default limit of every server.
const CHUNK: usize = 256 << 10;

/// Maximum length of a `TEXT` column.
const TEXT: usize = 65_535;

pub struct MysqlTables {
    pub connection: Conn,
    pub database: String,
    /// Also make the `sysbench` table.
    pub oltp: bool,
}

impl BenchObjects for MysqlTables {
    async fn set_up(&mut self, rows: u64, payload: usize) -> Result<()> {
        self.clean_up().await?;
        let there = self.tables().await?;
        if let Some((name, _)) = there.iter().find(|(name, _)| is_named_as_ours(name)) {
            bail!(
                "there is a table {}.{name} that this program has not made: nothing was changed; use another --database",
                self.database
            );
        }
        let is_new = !self.exists().await?;
        if is_new {
            self.connection.query_drop(format!("CREATE DATABASE {}", self.database)).await?;
        }
        self.connection.query_drop(format!("USE {}", self.database)).await?;
        let comment = format!("{MARK}{}", if is_new { DATABASE_TOO } else { "" });
        let text = if payload > TEXT { "LONGTEXT" } else { "TEXT" };
        for table in TABLES {
            let columns = format!("id BIGINT PRIMARY KEY, `vector` VARBINARY(64), payload {text}");
            self.connection.query_drop(format!("CREATE TABLE {table} ({columns}) COMMENT = '{comment}'")).await?;
        }
        let insert = statement::sql(BenchOp::Insert).replace(INSERT_TABLE, crate::data::ROWS_TABLE);
        self.load(&insert, rows, |id| statement::values(BenchOp::Insert, id, payload)).await?;
        if self.oltp {
            self.connection.query_drop(oltp_table(&comment)).await?;
            let insert = statement::sql(BenchOp::OltpInsert);
            self.load(&insert, rows, |id| statement::values(BenchOp::OltpInsert, id, payload)).await?;
        }
        Ok(())
    }

    async fn remove_inserted(&mut self, rows: u64) -> Result<()> {
        for table in [INSERT_TABLE, EMPTY_TABLE] {
            self.connection.query_drop(format!("TRUNCATE TABLE {}.{table}", self.database)).await?;
        }
        if self.oltp {
            // Inserted rows have higher ids than loaded ones.
            let delete = format!("DELETE FROM {}.{} WHERE id > {rows}", self.database, sbtest::TABLE);
            self.connection.query_drop(delete).await?;
        }
        Ok(())
    }

    /// Also removes the database if it was made with the tables and is empty.
    async fn clean_up(&mut self) -> Result<bool> {
        let there = self.tables().await?;
        let ours = |(name, comment): &&(String, String)| is_named_as_ours(name) && comment.starts_with(MARK);
        let (mine, others): (Vec<_>, Vec<_>) = there.iter().partition(ours);
        if mine.is_empty() {
            return Ok(false);
        }
        for (table, _) in &mine {
            self.connection.query_drop(format!("DROP TABLE {}.{table}", self.database)).await?;
        }
        if others.is_empty() && mine.iter().any(|(_, comment)| comment.ends_with(DATABASE_TOO)) {
            self.connection.query_drop(format!("DROP DATABASE {}", self.database)).await?;
        }
        Ok(true)
    }
}

impl MysqlTables {
    /// Returns names and comments of the tables.
    async fn tables(&mut self) -> Result<Vec<(String, String)>> {
        let question = "SELECT table_name, table_comment FROM information_schema.tables WHERE table_schema = ?";
        Ok(self.connection.exec(question, (&self.database,)).await?)
    }

    async fn exists(&mut self) -> Result<bool> {
        let question = "SELECT schema_name FROM information_schema.schemata WHERE schema_name = ?";
        let found: Option<String> = self.connection.exec_first(question, (&self.database,)).await?;
        Ok(found.is_some())
    }

    /// Inserts rows; `values` returns one in parentheses.
    async fn load(&mut self, insert: &str, rows: u64, values: impl Fn(i64) -> String) -> Result<()> {
        let mut statement = String::with_capacity(CHUNK + (1 << 10));
        for id in 0..rows.cast_signed() {
            statement += if statement.is_empty() { insert } else { ", " };
            statement += &values(id);
            if statement.len() >= CHUNK {
                let full = std::mem::take(&mut statement);
                self.connection.query_drop(full).await.context("rows could not be stored")?;
            }
        }
        if !statement.is_empty() {
            self.connection.query_drop(statement).await.context("rows could not be stored")?;
        }
        Ok(())
    }
}

fn is_named_as_ours(table: &str) -> bool {
    TABLES.into_iter().chain([sbtest::TABLE]).any(|ours| ours == table)
}

fn oltp_table(comment: &str) -> String {
    let (table, columns) = (sbtest::TABLE, "id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER DEFAULT '0' NOT NULL");
    let texts = "c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id), KEY k_1 (k)";
    format!("CREATE TABLE {table} ({columns}, {texts}) COMMENT = '{comment}'")
}

/// Returns the server's name and version from `VERSION()`. Compatible servers append their name to the version they
/// emulate.
pub fn version(version: &str) -> String {
    for (name, is_behind) in [("TiDB", true), ("OceanBase", true), ("MariaDB", false)] {
        if let Some((before, behind)) = version.split_once(name) {
            let own = behind.trim_start_matches(['-', '_', ' ', 'v']);
            let own = if is_behind && own.starts_with(|first: char| first.is_ascii_digit()) { own } else { before };
            return format!("{name} {}", own.split('-').next().unwrap_or_default());
        }
    }
    format!("MySQL {}", version.split('-').next().unwrap_or_default())
}

const LISTED: &str = "SELECT statement_id, sql_text, processlist.host \
    FROM performance_schema.prepared_statements_instances \
    LEFT JOIN performance_schema.threads ON thread_id = owner_thread_id \
    LEFT JOIN information_schema.processlist ON id = processlist_id \
    WHERE statement_name IS NULL AND owner_object_type IS NULL";

const NOT_LISTED: &str = "SHOW GLOBAL STATUS LIKE 'Performance_schema_prepared_statements_lost'";

/// Bytes of a text that servers keep.
const KEPT: usize = 1024;

pub async fn list(mut connection: Conn) -> Result<ListedStatements> {
    let other_ways = "take the texts from your application or its driver's log";
    let is_on: Option<bool> = connection.query_first("SELECT @@performance_schema").await.unwrap_or_default();
    ensure!(
        is_on == Some(true),
        "this server lists no prepared statements, because it was started without its performance schema: {other_ways}"
    );
    let rows: Vec<(u32, Vec<u8>, Option<String>)> = connection
        .query(LISTED)
        .await
        .with_context(|| format!("the prepared statements of this server cannot be read: {other_ways}"))?;
    let mut list = ListedStatements::default();
    let mut unknown = 0;
    for (id, text, client) in rows {
        let cut = if text.len() < KEPT { "" } else { "…" };
        let text = String::from_utf8_lossy(&text) + cut;
        // Servers may show a client's name.
        let clients: Vec<_> = lookup_host(client.unwrap_or_default()).await.into_iter().flatten().collect();
        unknown += u32::from(clients.is_empty());
        for client in clients {
            list.add(format!("{client}/{id}"), &text);
        }
    }
    if unknown > 0 {
        list.remarks.insert(format!(
            "without {unknown} of clients whose address is unknown: local sockets, or connections that only a user with the PROCESS privilege may see"
        ));
    }
    let lost: Option<(String, u64)> = connection.query_first(NOT_LISTED).await?;
    if let Some((_, lost @ 1..)) = lost {
        list.remarks.insert(format!(
            "without up to {lost} for which performance_schema_max_prepared_statements_instances left no room"
        ));
    }
    connection.disconnect().await?;
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_are_compatible_have_names_of_their_own() {
        for (said, known_as) in [
            ("10.11.14-MariaDB-0+deb12u2", "MariaDB 10.11.14"),
            ("8.0.11-TiDB-v7.5.0", "TiDB 7.5.0"),
            ("5.7.25-OceanBase seekdb-v1.4.0.0", "OceanBase 5.7.25"),
            ("5.7.25-OceanBase-v4.2.1", "OceanBase 4.2.1"),
            ("8.4.3", "MySQL 8.4.3"),
            ("5.5.9-log", "MySQL 5.5.9"),
        ] {
            assert_eq!(version(said), known_as);
        }
    }
}
