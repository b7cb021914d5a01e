//! Closed operations added up into the rows of the run record, in any order and over any number of threads.
//!
//! Every result is a function of the *set* of calls, not of their order: sums are integers, distributions are
//! histograms, rows beyond the limit are chosen by key, connections by a total order.

mod connections;
mod distribution;
mod peers;
mod record;
mod row;
mod rows;
mod statement;
mod within;

pub use record::{RunFacts, build_run};

use connections::Largest;
use overhead_model::record::{Connection, OperationRow};
use overhead_model::{Amounts, Class, ConnectionSummary, Operation, Protocol, RowId, RowKey, Side, SideTotals, Tally};
use peers::Peers;
use rows::Rows;
use std::net::SocketAddr;

/// The sums of a capture, or of the part of it that one thread saw.
#[derive(Clone, Debug, Default)]
pub struct Aggregate {
    rows: Rows,
    connections: Largest,
    peers: Option<Peers>,
    without_statements: bool,
    /// Rows of the record say how many operations took how long.
    distributions: bool,
}

impl Aggregate {
    /// Nothing counted yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps both ends of connections, too, for [`Aggregate::peers`].
    #[must_use]
    pub fn with_peers(mut self) -> Self {
        self.peers = Some(Peers::default());
        self
    }

    /// Tells no statements apart.
    #[must_use]
    pub fn without_statements(mut self) -> Self {
        self.without_statements = true;
        self
    }

    /// Has the rows of the record say how many operations took how long.
    #[must_use]
    pub fn with_distributions(mut self, wanted: bool) -> Self {
        self.distributions |= wanted;
        self
    }

    /// Takes in what another thread or another file counted. The result does not depend on the order of merges.
    pub fn merge(&mut self, other: Self) {
        self.rows.merge(&other.rows);
        self.connections.merge(other.connections);
        if let (Some(peers), Some(other)) = (&mut self.peers, other.peers) {
            peers.merge(other);
        }
    }

    /// Returns the rows of the record, sorted by protocol, class, name and via.
    pub fn operations(&self) -> Vec<OperationRow> {
        self.rows.to_record(self.distributions)
    }

    /// Returns the largest connections, by wire bytes.
    pub fn connections(&self) -> Vec<Connection> {
        self.connections.to_record()
    }

    /// Returns how many connections [`Aggregate::connections`] leaves out.
    pub fn connections_omitted(&self) -> u64 {
        self.connections.omitted()
    }

    /// The client, the server, the protocol and the payload of each connection, once [`Aggregate::with_peers`] has asked for
    /// them. Beyond a bound, connections of one client's address are added up, and have the port 0.
    pub fn peers(&self) -> impl Iterator<Item = (SocketAddr, SocketAddr, Protocol, u64)> {
        self.peers.iter().flat_map(Peers::iter)
    }

    /// Everything posted to operations in one direction, in bytes per account.
    pub fn ledger(&self, side: Side) -> Amounts {
        self.rows.ledger(side)
    }

    /// Operations of a class that have closed, and all bytes posted to them.
    pub fn class_totals(&self, class: Class) -> (u64, u64) {
        self.rows.class_totals(class)
    }

    /// Returns what a reader of the record has to be told about limits that were hit, in whole sentences.
    pub fn warnings(&self) -> Vec<String> {
        self.rows.warnings().collect()
    }
}

impl Tally for Aggregate {
    fn row(&mut self, key: RowKey<'_>) -> RowId {
        self.rows.id_of(if self.without_statements { RowKey { statement: "", ..key } } else { key })
    }

    fn wants_statements(&self) -> bool {
        !self.without_statements
    }

    fn statements(&self) -> usize {
        self.rows.told_apart()
    }

    fn take_new_statements(&mut self) -> Vec<u64> {
        self.rows.take_new_statements()
    }

    fn shed_statements(&mut self, keep: usize) {
        self.rows.shed(keep);
    }

    fn renumbered(&self, row: RowId) -> RowId {
        self.rows.renumbered(row)
    }

    fn operation(&mut self, row: RowId, operation: &Operation) {
        if let Some(latency_ns) = operation.latency_ns {
            self.rows.add_latency(row, latency_ns, 1);
        }
        self.rows.add_times(row, operation, 1);
    }

    fn operations(&mut self, row: RowId, operation: &Operation, times: u64) {
        self.rows.add_times(row, operation, times);
    }

    #[inline]
    fn latency(&mut self, row: RowId, latency_ns: u64, times: u64) {
        self.rows.add_latency(row, latency_ns, times);
    }

    fn late(&mut self, row: RowId, side: Side, totals: &SideTotals) {
        self.rows.add_late(row, side, totals);
    }

    fn connection(&mut self, summary: ConnectionSummary) {
        if let Some(peers) = &mut self.peers {
            peers.push(&summary);
        }
        self.connections.push(summary);
    }
}

#[cfg(test)]
mod tests;
