//! Totals of a running `overhead agent`, since it started.

use super::feed::{Feed, Look};
use anyhow::Result;
use clap::Args;
use overhead_agent::AgentClient;
use overhead_model::agent_rows::{AgentFlowRow, AgentRowKey, AgentRows, AgentStatementRow};
use overhead_model::record::By;
use overhead_model::{Account, Class, Protocol};
use overhead_reading::Warnings;
use overhead_report::{KindKey, RowSums};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The agent to read from.
#[derive(Args, Debug)]
pub struct AskedAgent {
    /// Show the totals of the `overhead agent` that listens at this address, since it started
    #[arg(long, value_name = "ADDR:PORT", conflicts_with_all = ["files", "iface", "container", "filter", "buffer"])]
    pub agent: Option<String>,
    /// A file with the agent's token
    #[arg(long, value_name = "FILE", requires = "agent")]
    token_file: Option<PathBuf>,
}

/// The totals of a running agent.
pub struct AgentFeed(AgentClient);

impl AgentFeed {
    /// Opens the agent at this address.
    pub fn open(asked: &AskedAgent, address: &str) -> Result<Self> {
        AgentClient::new(address, asked.token_file.as_deref()).map(Self)
    }
}

impl Feed for AgentFeed {
    fn title(&self) -> String {
        format!("agent at {}", self.0.address)
    }

    fn look(&mut self, by: By) -> Result<Option<Look>> {
        let AgentRows { start_ns, end_ns, dropped, flows, statements } = self.0.rows()?;
        let sum = |sides: fn(&AgentFlowRow) -> [u64; 2]| flows.iter().flat_map(sides).sum();
        let (frames, wire_bytes) = (sum(|flow| flow.segments), sum(|flow| flow.wire_bytes));
        let mut kinds = BTreeMap::<KindKey, RowSums>::new();
        match by {
            By::Connection | By::Client => {
                for AgentFlowRow { key, client, wire_bytes, .. } in &flows {
                    let label = if by == By::Client { client.clone() } else { format!("{client} > {}", key.server) };
                    add(&mut kinds, (Class::Workload, label), 0, *wire_bytes);
                }
            }
            By::Name | By::Statement | By::Server => {
                for row @ AgentStatementRow { key, wire_bytes, operations, .. } in &statements {
                    add(&mut kinds, row_label(row, by, key), *operations, *wire_bytes);
                }
            }
        }
        let (at, kinds) = (Duration::from_nanos(end_ns.saturating_sub(start_ns)), kinds.into_iter().collect());
        Ok(Some(Look { at, frames, wire_bytes, dropped, kinds, is_over: false }))
    }

    fn takes_time(&self) -> bool {
        false
    }

    /// Ignored: the agent does not wait.
    fn pause(&mut self, _paused: bool) {}

    fn finish(self: Box<Self>) -> Result<Warnings> {
        Ok(Warnings::default())
    }
}

/// Returns the class and label of the row of a statement. By server, all classes share a row.
fn row_label(row: &AgentStatementRow, by: By, key: &AgentRowKey) -> (Class, String) {
    let class = Class::ALL.into_iter().find(|class| class.name() == row.class).unwrap_or(Class::Workload);
    match by {
        By::Server => (Class::Workload, format!("{} {}", key.server, key.system)),
        By::Statement if !row.text.is_empty() => (class, row.text.clone()),
        _ => (class, row.name.clone()),
    }
}

/// Adds a row. The accounts of its bytes are unknown.
fn add(kinds: &mut BTreeMap<KindKey, RowSums>, (class, label): (Class, String), count: u64, wire_bytes: [u64; 2]) {
    let sums: &mut RowSums = kinds.entry(KindKey { class, protocol: Protocol::Resp, label }).or_default();
    sums.count += count;
    for (side, bytes) in sums.sides.iter_mut().zip(wire_bytes) {
        side.amounts[Account::Unknown] += bytes;
    }
}
