//! The servers that connections of a capture have revealed.

use super::limits;
use overhead_decode::FastMap;
use overhead_model::{Protocol, Side};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Addresses of servers with their protocols. The first [`limits::SERVERS`] are kept.
#[derive(Clone, Debug, Default)]
pub struct KnownServers(Arc<Mutex<FastMap<SocketAddr, Protocol>>>);

impl KnownServers {
    fn all(&self) -> MutexGuard<'_, FastMap<SocketAddr, Protocol>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a server, or replaces its protocol.
    pub fn add(&self, server: SocketAddr, protocol: Protocol) {
        let mut all = self.all();
        if all.len() < limits::SERVERS || all.contains_key(&server) {
            all.insert(server, protocol);
        }
    }

    /// Returns the protocol between `ends` and which of them sends requests, if exactly one of them is a known server.
    pub fn roles(&self, [first, second]: [SocketAddr; 2]) -> Option<(Protocol, Side)> {
        let all = self.all();
        match (all.get(&first), all.get(&second)) {
            (None, Some(protocol)) => Some((*protocol, Side::Request)),
            (Some(protocol), None) => Some((*protocol, Side::Response)),
            _ => None,
        }
    }
}
