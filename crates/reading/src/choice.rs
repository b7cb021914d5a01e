//! The choice of connections to decode, and of the keys that open them.

use crate::given;
use crate::keys::KeyFiles;
use anyhow::{Result, anyhow};
use overhead_dissect::Selection;
use overhead_model::record::Selected;
use overhead_model::{Protocol, System};
use overhead_report::text::quoted;
use std::path::PathBuf;

/// How captures are decoded.
#[derive(Clone, Debug, Default)]
pub struct DecodePlan {
    /// Connections to decode, with their protocols.
    pub connections: ConnectionChoice,
    /// Key logs that decrypt TLS.
    pub keys: KeyFiles,
}

/// Which connections to decode, and as which protocols.
#[derive(Clone, Debug, Default)]
pub struct ConnectionChoice {
    /// Names of systems or protocols, and server ports, as records store them. Both are empty to detect everything.
    pub selected: Selected,
    /// File with the texts of statements that were prepared before the capture.
    pub statements: Option<PathBuf>,
}

impl From<Selected> for ConnectionChoice {
    fn from(selected: Selected) -> Self {
        Self { selected, statements: None }
    }
}

impl ConnectionChoice {
    /// Returns the choice as options of the command line.
    pub fn words(&self) -> Vec<String> {
        let Selected { db, ports } = &self.selected;
        let db = db.iter().map(|db| format!("--db {}", quoted(db)));
        db.chain(ports.iter().map(|port| format!("--port {port}"))).collect()
    }

    /// Returns whether nothing was chosen.
    pub fn is_default(&self) -> bool {
        self.selected == Selected::default()
    }

    /// Returns the named systems; none to detect them.
    pub fn systems(&self) -> Result<Vec<System>> {
        let unknown = |name: &str| anyhow!("unknown system {name} in the record: name one with --db");
        self.selected.db.iter().map(|name| System::named(name).ok_or_else(|| unknown(name))).collect()
    }

    /// Returns which connections to decode.
    ///
    /// # Errors
    ///
    /// A name is unknown, or the texts of statements cannot be read.
    pub fn selection(&self) -> Result<Selection> {
        let systems = self.systems()?;
        let given =
            self.statements.as_deref().map(|path| given::read("--statements", path)).transpose()?.unwrap_or_default();
        if !self.selected.ports.is_empty() {
            let mut protocols: Vec<Protocol> = systems.iter().map(|system| system.protocol).collect();
            protocols.sort_unstable();
            protocols.dedup();
            if protocols.is_empty() {
                protocols = Protocol::ALL.to_vec();
            }
            let ports = self.selected.ports.iter().map(|port| (*port, protocols.clone()));
            return Ok(Selection { ports: ports.collect(), given });
        }
        let mut ports: Vec<(u16, Vec<Protocol>)> = Vec::new();
        for system in systems {
            for &port in std::iter::once(&system.port).chain(system.protocol.ports()) {
                if !ports.iter().any(|(listed, _)| *listed == port) {
                    ports.push((port, vec![system.protocol]));
                }
            }
        }
        Ok(Selection { ports, given })
    }
}
