//! `overhead agent`: its arguments, and what it prints.

use crate::print;
use anyhow::Result;
use clap::Args;
use overhead_agent::{Agent, AgentConfig, DEFAULTS};
use overhead_host::runtime;
use overhead_model::exit::{self, StatusFault};
use overhead_reading::time::some_time;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `agent`.
#[derive(Args, Clone, Debug)]
pub struct AgentArgs {
    /// Settings, in TOML [default: those of --print-config]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print all settings with their defaults, as a file for --config, and exit
    #[arg(long)]
    print_config: bool,
    /// Print what would be watched and what that would cost, test what a start needs, and exit
    #[arg(long)]
    dry_run: bool,
    /// Stop after this time, and print a summary (10s, 5m)
    #[arg(long, value_name = "T", value_parser = some_time)]
    duration: Option<Duration>,
    /// Address of the metrics, instead of that of the settings
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
}

impl AgentArgs {
    pub fn run(self) -> Result<u8> {
        if self.print_config {
            print::verbatim(DEFAULTS)?;
            return Ok(exit::COMPLETE);
        }
        let config = self.config().map_err(StatusFault::usage)?;
        runtime()?.block_on(async {
            let agent = Agent::start(config, self.dry_run)?;
            let (text, status) = if self.dry_run {
                print::verbatim(&agent.watched())?;
                agent.measure().await?
            } else {
                let reread = || self.config();
                agent.run(self.duration, self.config.is_some().then_some(&reread)).await?
            };
            print::verbatim(&text)?;
            Ok(status)
        })
    }

    fn config(&self) -> Result<AgentConfig, String> {
        let mut config = self.config.as_deref().map(AgentConfig::read).transpose()?.unwrap_or_default();
        self.listen.map(|listen| config.listen_at(listen)).transpose()?;
        Ok(config)
    }
}
