//! Sums closed operations into the rows of the run record, in any order.
//!
//! Every result is a function of the *set* of calls, not their order: sums are integers, distributions are histograms, keys
//! select the rows within the limit, and a total order selects connections.

mod by_peer;
mod connections;
mod distribution;
mod peers;
mod preparation;
mod record;
mod row;
mod row_sums;
mod rows;
mod statement;
mod within;

pub use record::{RunFacts, balance, build_run};
pub use row_sums::{KindKey, OperationKind, RowSums};

pub(crate) use distribution::Values;

use by_peer::ByPeer;
use connections::Largest;
use overhead_model::record::{By, Connection, OperationRow, PeerRows};
use overhead_model::{
    Amounts, Class, ConnectionEnds, ConnectionSummary, Listener, Operation, Protocol, RowId, RowKey, Side, SideTotals,
    Tally, Trace,
};
use peers::Peers;
use rows::Rows;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// The sums of a capture.
#[derive(Clone, Debug, Default)]
pub struct Aggregate {
    rows: Rows,
    connections: Largest,
    peers: Option<Peers>,
    without_statements: bool,
    /// Whether rows of the record include latency distributions.
    distributions: bool,
    by_peers: Option<Box<[ByPeer]>>,
    /// Grouping of the rows, if by connection or end.
    rows_by: Option<By>,
    listener: Option<SharedListener>,
    is_listening: bool,
}

/// A listener shared with others.
#[derive(Clone)]
pub struct SharedListener(Arc<Mutex<dyn Listener + Send>>);

impl SharedListener {
    /// Returns a listener that forwards to `listener`.
    pub fn new(listener: Arc<Mutex<dyn Listener + Send>>) -> Self {
        Self(listener)
    }
}

impl std::fmt::Debug for SharedListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedListener")
    }
}

impl Listener for SharedListener {
    fn hear(&mut self, step: Trace<'_>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).hear(step);
    }
}

impl Aggregate {
    /// Makes an empty aggregate, with rows by name and their statements.
    pub fn new() -> Self {
        Self::default()
    }

    /// Also keeps both ends of connections, for [`Aggregate::peers`].
    #[must_use]
    pub fn with_peers(mut self) -> Self {
        self.peers = Some(Peers::default());
        self
    }

    /// Treats all statements as one.
    #[must_use]
    pub fn without_statements(mut self) -> Self {
        self.without_statements = true;
        self
    }

    /// Includes latency distributions in the rows of the record.
    #[must_use]
    pub fn with_distributions(mut self, wanted: bool) -> Self {
        self.distributions |= wanted;
        self
    }

    /// Also sums operations by connection, client or server, for [`Aggregate::by_peer`].
    #[must_use]
    pub fn with_rows_by(mut self, by: By) -> Self {
        let by = Some(by).filter(|by| !matches!(by, By::Name | By::Statement));
        self.rows_by = by;
        self.with_sums_by(by)
    }

    /// Also sums operations by server, for [`Aggregate::servers`], whatever else they are summed by.
    #[must_use]
    pub fn with_servers(self, wanted: bool) -> Self {
        self.with_sums_by(wanted.then_some(By::Server))
    }

    fn with_sums_by(mut self, by: Option<By>) -> Self {
        if let Some(by) = by
            && self.sums_by(Some(by)).is_none()
        {
            let before = self.by_peers.take().unwrap_or_default().into_iter();
            self.by_peers = Some(before.chain([ByPeer::new(by)]).collect());
        }
        self
    }

    fn sums_by(&self, by: Option<By>) -> Option<&ByPeer> {
        self.by_peers.iter().flatten().find(|peers| Some(peers.by) == by)
    }

    /// Notifies a listener of each step while [`Tally::listen`] requests it.
    #[must_use]
    pub fn with_listener(mut self, listener: SharedListener) -> Self {
        self.listener = Some(listener);
        self
    }

    /// Returns operations by connection, client or server, or `None` without [`Aggregate::with_rows_by`].
    pub fn by_peer(&self) -> Option<PeerRows> {
        self.sums_by(self.rows_by).map(ByPeer::to_record)
    }

    /// Returns the rows of the record, sorted by protocol, class, name and via.
    pub fn operations(&self) -> Vec<OperationRow> {
        self.rows.to_record(self.distributions)
    }

    /// Like [`Aggregate::operations`], but always with latency distributions.
    pub fn timed_operations(&self) -> Vec<OperationRow> {
        self.rows.to_record(true)
    }

    /// Returns the totals so far, once per kind: by name, by statement, or, with [`Aggregate::with_rows_by`], by connection or
    /// end.
    pub fn kinds(&self, by: By) -> Vec<OperationKind> {
        match by {
            By::Name | By::Statement => self.rows.kinds(by == By::Statement),
            By::Connection | By::Client | By::Server => {
                self.sums_by(self.rows_by).map_or_else(Vec::new, |peers| peers.kinds(by))
            }
        }
    }

    /// Returns the totals so far by server, if [`Aggregate::with_servers`] enabled them.
    pub fn servers(&self) -> Vec<OperationKind> {
        self.sums_by(Some(By::Server)).map_or_else(Vec::new, |servers| servers.kinds(By::Server))
    }

    /// Returns the largest connections, by wire bytes.
    pub fn connections(&self) -> Vec<Connection> {
        self.connections.to_record()
    }

    /// Returns the number of connections that [`Aggregate::connections`] leaves out.
    pub fn connections_omitted(&self) -> u64 {
        self.connections.omitted()
    }

    /// Returns client, server, protocol and payload of each connection if [`Aggregate::with_peers`] enabled them. Beyond a
    /// limit, connections of one client address are summed under port 0.
    pub fn peers(&self) -> impl Iterator<Item = (SocketAddr, SocketAddr, Protocol, u64)> {
        self.peers.iter().flat_map(Peers::iter)
    }

    /// Returns all bytes posted to operations in one direction, by account.
    pub fn ledger(&self, side: Side) -> Amounts {
        self.rows.ledger(side)
    }

    /// Returns the number of closed operations of a class, and all bytes posted to them.
    pub fn class_totals(&self, class: Class) -> (u64, u64) {
        self.rows.class_totals(class)
    }

    /// Returns warnings about exhausted limits, as complete sentences.
    pub fn warnings(&self) -> Vec<String> {
        self.rows.warnings().collect()
    }

    /// Adds to all sums by ends, with the row's kind.
    #[inline]
    fn add_by_peer(&mut self, row: RowId, add: impl FnMut(&mut ByPeer, (Class, Protocol))) {
        if self.by_peers.is_some() {
            self.add_by_each(row, add);
        }
    }

    // Rarely wanted, and out of the way of what every operation does.
    #[cold]
    fn add_by_each(&mut self, row: RowId, mut add: impl FnMut(&mut ByPeer, (Class, Protocol))) {
        if let Some(kind) = self.rows.kind_of(row) {
            self.by_peers.iter_mut().flatten().for_each(|peers| add(peers, kind));
        }
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

    fn shed_statements(&mut self, keep: usize) {
        self.rows.shed(keep);
    }

    fn renumbered(&self, row: RowId) -> RowId {
        self.rows.renumbered(row)
    }

    fn operation(&mut self, row: RowId, operation: &Operation) {
        self.rows.add_operation(row, operation);
        self.add_by_peer(row, |peers, kind| peers.add(kind, operation, 1));
    }

    fn operations(&mut self, row: RowId, operation: &Operation, times: u64) {
        self.rows.add_times(row, operation, times);
        self.add_by_peer(row, |peers, kind| peers.add(kind, operation, times));
    }

    #[inline]
    fn latency(&mut self, row: RowId, latency_ns: u64, times: u64) {
        self.rows.add_latency(row, latency_ns, times);
        self.add_by_peer(row, |peers, kind| peers.add_latency(kind, latency_ns, times));
    }

    fn late(&mut self, row: RowId, side: Side, totals: &SideTotals) {
        self.rows.add_late(row, side, totals);
        self.add_by_peer(row, |peers, kind| peers.add_late(kind, side, totals));
    }

    fn connection(&mut self, summary: ConnectionSummary) {
        if let Some(peers) = &mut self.peers {
            peers.push(&summary);
        }
        for peers in self.by_peers.iter_mut().flatten() {
            peers.end(summary.names.as_deref());
        }
        self.connections.push(summary);
    }

    #[inline]
    fn listener(&mut self) -> Option<&mut dyn Listener> {
        if !self.is_listening {
            return None;
        }
        self.listener.as_mut().map(|listener| listener as &mut dyn Listener)
    }

    fn listen(&mut self, is_listening: bool) {
        self.is_listening = is_listening && self.listener.is_some();
    }

    #[inline]
    fn listens_at_times(&self) -> bool {
        self.listener.is_some()
    }

    #[inline]
    fn wants_ends(&self) -> bool {
        self.by_peers.is_some()
    }

    fn turn_to(&mut self, ends: &ConnectionEnds) {
        for peers in self.by_peers.iter_mut().flatten() {
            peers.turn_to(ends);
        }
    }

    fn swap_ends(&mut self) {
        for peers in self.by_peers.iter_mut().flatten() {
            peers.swap();
        }
    }
}

#[cfg(test)]
mod tests;
