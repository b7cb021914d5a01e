//! Connections for only one or two operations.

use super::percent;
use crate::finding::{AdviceFinding, ByteEvidence, Certainty, Example, FindingSubject, Remedy, remedies};
use crate::limits;
use crate::rule::Rule;
use crate::seen::{ClosedConnection, RowOnConnection, SeenTraffic};
use overhead_model::{Account, Amounts, Class, Protocol};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// Maximum number of the application's operations on a short connection.
const OPERATIONS: u64 = 2;
/// Minimum number of short connections between a client and a server.
const CONNECTIONS: u64 = 5;
/// Minimum percentage of the bytes on the wire, or of the time that is spent waiting.
const SHARE: f64 = 5.0;

/// Short connections by client and server.
#[derive(Default)]
pub struct ShortConnections {
    peers: BTreeMap<(IpAddr, SocketAddr, Protocol), PeerConnections>,
}

#[derive(Default)]
struct PeerConnections {
    connections: u64,
    operations: u64,
    /// By row, except the first connection.
    rows: BTreeMap<usize, [Amounts; 2]>,
    waited_ns: u64,
    example: Option<Example>,
}

const REMEDIES: &[Remedy] = remedies! {
    "PostgreSQL": "a pool: pgbouncer, HikariCP (maximumPoolSize), pgxpool, psycopg_pool",
    "Redis, Valkey": "redis-py ConnectionPool, Jedis pool (JedisPooled), PHP pconnect()",
    "MySQL, MariaDB": "a pool; PHP mysqli with p: before the host; Django CONN_MAX_AGE",
    "HTTP": "keep-alive: one requests.Session, one http.Client whose bodies are read to the end; nginx keepalive_timeout",
    "pgbench": "without --connect (-C)",
    "redis-benchmark": "-k 1 (the default)",
};

impl Rule for ShortConnections {
    fn connection(&mut self, connection: &ClosedConnection<'_>) {
        let key = (connection.client.ip(), connection.server, connection.protocol);
        if self.peers.len() >= limits::CLIENTS && !self.peers.contains_key(&key) {
            return;
        }
        let operations = connection.workload();
        if operations == 0 || operations > OPERATIONS {
            return;
        }
        let peers = self.peers.entry(key).or_default();
        peers.connections += 1;
        peers.operations += operations;
        if peers.connections == 1 {
            return;
        }
        peers.waited_ns += connection.ready_ns.unwrap_or(0);
        peers.example = peers.example.or(connection.example);
        for (&row, RowOnConnection { amounts, is_workload, .. }) in connection.rows {
            let sum = peers.rows.entry(row).or_default();
            for (sum, one) in sum.iter_mut().zip(amounts) {
                // An open connection would acknowledge with the next frame.
                *sum += if *is_workload { Amounts::new(Account::Control, one[Account::Control]) } else { *one };
            }
        }
    }

    fn findings(&self, seen: &SeenTraffic) -> Vec<AdviceFinding> {
        self.peers.iter().filter_map(|((_, _, protocol), peers)| Self::peers_finding(seen, *protocol, peers)).collect()
    }
}

impl ShortConnections {
    fn peers_finding(seen: &SeenTraffic, protocol: Protocol, peers: &PeerConnections) -> Option<AdviceFinding> {
        let bytes: u64 = peers.rows.values().flatten().map(Amounts::total).sum();
        let waiting = percent(peers.waited_ns, seen.waited_ns() + peers.waited_ns);
        if peers.connections < CONNECTIONS || percent(bytes, seen.wire()).max(waiting) < SHARE {
            return None;
        }
        let title = format!("{} connections of one client carry {} operations", peers.connections, peers.operations);
        let subject = FindingSubject {
            protocol: protocol.name(),
            class: Class::Setup.name(),
            name: "connections of at most two operations".to_owned(),
            ..FindingSubject::default()
        };
        let name = |row: &usize| seen.rows.get(*row).map_or("", |row| &row.name);
        let evidence = peers
            .rows
            .iter()
            .flat_map(|(row, amounts)| ByteEvidence::from_amounts(amounts, name(row)).collect::<Vec<_>>());
        let mut finding = AdviceFinding {
            evidence: evidence.collect(),
            remedies: REMEDIES.to_vec(),
            certainty: Certainty::Modelled,
            is_extra_time: true,
            computed: "handshake, teardown, setup and background of all these connections but the first, which one that is kept has once, and frames that only acknowledge, which the next request makes needless; the time is theirs up to their first request".to_owned(),
            unknown: "whether the operations came from processes that cannot share a connection, or at the same time",
            ..AdviceFinding::new(title, subject, peers.connections - 1, peers.example).waiting(peers.waited_ns)
        };
        for (&row, amounts) in &peers.rows {
            finding = finding.without(row, amounts);
        }
        Some(finding)
    }
}
