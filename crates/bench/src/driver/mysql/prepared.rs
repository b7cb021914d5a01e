//! Statements that clients have prepared and not closed. A connection numbers its own, so each is listed with the client's address.

use crate::statements::ListedStatements;
use anyhow::{Context, Result, ensure};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::net::lookup_host;

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
