//! Statements that clients have prepared. Each node lists its own; all give a text the same id.

use crate::statements::ListedStatements;
use anyhow::{Context, Result, bail};
use scylla::client::session::Session;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::Statement;

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
