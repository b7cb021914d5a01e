//! Reads the rows of a running agent.

use crate::config::AgentToken;
use crate::otlp::http_client;
use anyhow::{Context, Result, anyhow, ensure};
use overhead_model::agent_rows::AgentRows;
use overhead_model::exit::StatusFault;
use std::path::Path;

/// Most bytes of an answer.
const LARGEST: u64 = 256 << 20;

/// A client of a running agent.
pub struct AgentClient {
    client: ureq::Agent,
    /// Address and port, as the user named them.
    pub address: String,
    token: Option<AgentToken>,
}

impl AgentClient {
    /// Returns a client of the agent at this address, with the token in a file if the agent requires one.
    pub fn new(address: &str, token_file: Option<&Path>) -> Result<Self> {
        let token = token_file.map(AgentToken::read).transpose().map_err(StatusFault::usage)?;
        Ok(Self { client: http_client(&format!("http://{address}")), address: address.to_owned(), token })
    }

    /// Returns the rows since the agent started.
    pub fn rows(&self) -> Result<AgentRows> {
        let mut request = self.client.get(format!("http://{}/rows", self.address));
        if let Some(token) = &self.token {
            request = request.header("Authorization", token.header());
        }
        let fix = || format!("--agent {}: no agent answers there: start one, or name its address", self.address);
        let mut response = request.call().with_context(fix)?;
        let text = response.body_mut().with_config().limit(LARGEST).read_to_string().with_context(fix)?;
        ensure!(response.status().is_success(), "--agent {}: {}", self.address, text.trim());
        serde_json::from_str(&text).map_err(|_| anyhow!(fix()))
    }
}
