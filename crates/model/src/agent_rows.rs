//! Figures of `overhead agent` as JSON: for `overhead-export`, which archives them, and `overhead top`.

use serde::{Deserialize, Serialize};

/// The rows of a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentRows {
    /// Unix time.
    pub start_ns: u64,
    pub end_ns: u64,
    /// Frames that windows lost, since the agent started.
    pub dropped: u64,
    pub flows: Vec<AgentFlowRow>,
    pub statements: Vec<AgentStatementRow>,
}

impl AgentRows {
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty() && self.statements.is_empty()
    }
}

/// The connections that a row is of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentRowKey {
    /// `server` or `client`: whose sockets were counted.
    pub seen_at: String,
    /// Address and port, or only the port if the agent leaves out addresses.
    pub server: String,
    pub system: String,
    /// Empty if the server is in none.
    pub container: String,
    /// Zone of the client's address.
    pub client_zone: String,
    /// Zone of the server's address.
    pub server_zone: String,
}

/// The exact traffic of a client with a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentFlowRow {
    pub key: AgentRowKey,
    /// Empty if the agent leaves out addresses.
    pub client: String,
    /// Name of its service or process; empty if it has none.
    #[serde(default)]
    pub client_name: String,
    /// Empty if the client is in none of this host.
    pub client_container: String,
    /// Of requests and of responses.
    pub wire_bytes: [u64; 2],
    /// Of requests and of responses, without headers.
    pub payload_bytes: [u64; 2],
    /// Of requests and of responses.
    pub segments: [u64; 2],
    /// Segments that this host sent again.
    pub retransmitted_segments: u64,
    /// Connections opened in the period.
    pub opened: u64,
    /// Connections closed in the period.
    pub closed: u64,
    pub round_trip_us: u64,
    pub round_trips: u64,
    /// Billionths of the price's unit; absent without a price.
    pub cost_nano: Option<u64>,
}

/// The estimated traffic of a statement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentStatementRow {
    pub key: AgentRowKey,
    /// Empty if unknown, like the protocol.
    pub class: String,
    pub protocol: String,
    pub name: String,
    /// The statement; empty if the row has none.
    pub text: String,
    /// Of requests and of responses.
    pub wire_bytes: [u64; 2],
    /// Half of the 95% interval of both; absent if too few windows have the statement.
    pub wire_bytes_interval: Option<u64>,
    pub operations: u64,
    /// Half of the 95% interval; absent likewise.
    pub operations_interval: Option<u64>,
    /// Billionths of the price's unit; absent without a price.
    pub cost_nano: Option<u64>,
}
