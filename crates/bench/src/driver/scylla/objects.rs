//! Makes and removes a keyspace with three tables. Their comments mark them as ours.

use super::statement::cql;
use crate::data::{self, INSERT_TABLE, MARK, TABLES};
use crate::driver::BenchObjects;
use crate::plan::BenchOp;
use crate::statements::ListedStatements;
use anyhow::{Context, Result, bail};
use futures_util::{StreamExt, TryStreamExt, stream};
use scylla::client::session::Session;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::Statement;

/// Concurrent requests while loading.
const IN_FLIGHT: usize = 64;

/// End of the comment if the keyspace was made too.
const KEYSPACE_TOO: &str = ", with its keyspace";

pub struct ScyllaTables {
    pub session: Session,
    pub keyspace: String,
}

impl BenchObjects for ScyllaTables {
    async fn set_up(&mut self, rows: u64, payload: usize) -> Result<()> {
        self.clean_up().await?;
        let Self { session, keyspace } = self;
        let there = tables(session, keyspace).await?;
        if let Some((name, _)) = there.iter().find(|(name, _)| TABLES.contains(&name.as_str())) {
            bail!(
                "there is a table {keyspace}.{name} that this program has not made: nothing was changed; use another --keyspace"
            );
        }
        let comment = if exists(session, keyspace).await? {
            MARK.to_owned()
        } else {
            create(session, keyspace).await?;
            format!("{MARK}{KEYSPACE_TOO}")
        };
        for table in TABLES {
            let columns = "id bigint PRIMARY KEY, vector list<int>, payload text";
            let statement = format!("CREATE TABLE {keyspace}.{table} ({columns}) WITH comment = '{comment}'");
            session.query_unpaged(statement, ()).await?;
        }
        load(session, keyspace, rows, payload).await
    }

    async fn remove_inserted(&mut self, _: u64) -> Result<()> {
        let truncate = format!("TRUNCATE {}.{INSERT_TABLE}", self.keyspace);
        self.session.query_unpaged(truncate, ()).await?;
        Ok(())
    }

    /// Also removes the keyspace if it was made with the tables and is empty.
    async fn clean_up(&mut self) -> Result<bool> {
        let Self { session, keyspace } = self;
        let there = tables(session, keyspace).await?;
        let ours = |(name, comment): &&(String, String)| TABLES.contains(&name.as_str()) && comment.starts_with(MARK);
        let (mine, others): (Vec<_>, Vec<_>) = there.iter().partition(ours);
        if mine.is_empty() {
            return Ok(false);
        }
        if others.is_empty() && mine.iter().any(|(_, comment)| comment.ends_with(KEYSPACE_TOO)) {
            session.query_unpaged(format!("DROP KEYSPACE {keyspace}"), ()).await?;
            return Ok(true);
        }
        for (table, _) in mine {
            session.query_unpaged(format!("DROP TABLE {keyspace}.{table}"), ()).await?;
        }
        Ok(true)
    }
}

/// Stores one copy of each row. Falls back to `SimpleStrategy` if the server has no default data centre.
async fn create(session: &Session, keyspace: &str) -> Result<()> {
    let with = |class: &str| {
        let replication = format!("{{'class': '{class}', 'replication_factor': 1}}");
        format!("CREATE KEYSPACE {keyspace} WITH replication = {replication}")
    };
    if session.query_unpaged(with("NetworkTopologyStrategy"), ()).await.is_err() {
        session.query_unpaged(with("SimpleStrategy"), ()).await?;
    }
    Ok(())
}

async fn load(session: &Session, keyspace: &str, rows: u64, payload: usize) -> Result<()> {
    let into_rows = cql(keyspace, BenchOp::Insert).replace(INSERT_TABLE, data::ROWS_TABLE);
    let statement = &session.prepare(into_rows).await?;
    let insert = |id: i64| async move {
        let row = (id, data::vector(id).to_vec(), data::payload(id, payload));
        session.execute_unpaged(statement, row).await.map(drop)
    };
    let loaded = stream::iter(0..rows.cast_signed()).map(insert).buffer_unordered(IN_FLIGHT).try_collect::<()>().await;
    loaded.context("a row could not be stored")
}

/// Returns names and comments of the tables.
async fn tables(session: &Session, keyspace: &str) -> Result<Vec<(String, String)>> {
    let question =
        format!("SELECT table_name, comment FROM system_schema.tables WHERE keyspace_name = '{}'", folded(keyspace));
    let rows = session.query_unpaged(question, ()).await?.into_rows_result()?;
    Ok(rows.rows::<(String, String)>()?.collect::<Result<_, _>>()?)
}

async fn exists(session: &Session, keyspace: &str) -> Result<bool> {
    let question =
        format!("SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = '{}'", folded(keyspace));
    Ok(session.query_unpaged(question, ()).await?.into_rows_result()?.rows_num() > 0)
}

/// Unquoted names are folded to lower case.
fn folded(keyspace: &str) -> String {
    keyspace.to_lowercase()
}

/// Returns the node's name and version.
pub async fn version(session: &Session) -> Result<Option<String>> {
    // ScyllaDB reports a Cassandra version here and its own in another table.
    let scylla = session.query_unpaged("SELECT version FROM system.versions WHERE key = 'local'", ()).await;
    if let Ok(result) = scylla {
        let row = result.into_rows_result()?.maybe_first_row::<(String,)>()?;
        return Ok(row.map(|(version,)| format!("ScyllaDB {version}")));
    }
    let rows = session.query_unpaged("SELECT release_version FROM system.local", ()).await?.into_rows_result()?;
    Ok(rows.maybe_first_row::<(String,)>()?.map(|(version,)| format!("Cassandra {version}")))
}

const LISTED: &str = "SELECT prepared_id, query_string FROM system.prepared_statements";

pub async fn list(session: &Session) -> Result<ListedStatements> {
    let mut list = ListedStatements::default();
    for node in session.get_cluster_state().get_nodes_info() {
        if let Err(error) = list_of(session, NodeIdentifier::HostId(node.host_id), &mut list).await {
            list.remarks.insert(format!("without the statements of node {}: {error:#}", node.address));
        }
    }
    match list.remarks.first() {
        Some(reason) if list.is_empty() => {
            bail!("{reason}: take the texts from your application or its driver's log")
        }
        _ => Ok(list),
    }
}

async fn list_of(session: &Session, node: NodeIdentifier, list: &mut ListedStatements) -> Result<()> {
    let mut statement = Statement::new(LISTED);
    statement.set_load_balancing_policy(Some(SingleTargetLoadBalancingPolicy::new(node, None)));
    let rows = session.query_unpaged(statement, ()).await.context("system.prepared_statements cannot be read")?;
    let rows = rows.into_rows_result()?;
    for row in rows.rows::<(&[u8], &str)>()? {
        let (id, text) = row?;
        list.add(id.iter().fold(String::new(), |digits, byte| digits + &format!("{byte:02x}")), text);
    }
    Ok(())
}
