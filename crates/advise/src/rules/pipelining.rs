//! Requests that wait for the previous answer.

use super::percent;
use crate::finding::{AdviceFinding, ByteEvidence, Certainty, FoundOperations, Remedy, remedies};
use crate::rule::Rule;
use crate::seen::{ClosedConnection, SeenOperation, SeenRow, SeenTraffic};
use overhead_model::{Account, Amounts, Protocol, Side};
use std::collections::{BTreeMap, HashMap};

/// Minimum number of sequential operations in a row.
const OPERATIONS: u64 = 20;
/// Minimum percentage of sequential operations in a row.
const SEQUENTIAL: f64 = 50.0;
/// Minimum percentage of headers and acknowledgments in the row's bytes.
const HEADERS: f64 = 40.0;
/// A request this soon after an answer was probably ready before it.
const SOON_NS: u64 = 1_000_000;
/// Default batch size.
const DEPTH: u64 = 16;
/// Payload of a full Ethernet segment with timestamps.
const SEGMENT: u64 = 1448;
const HEADER: [Account; 3] = [Account::Link, Account::Ip, Account::Tcp];

/// Counts operations that start right after the previous one ended.
pub struct RequestPipelining {
    depth: u64,
    /// The depth was set explicitly: thresholds do not apply.
    asked: bool,
    ended: HashMap<u64, u64>,
    rows: BTreeMap<usize, FoundOperations>,
}

const RESP: &[Remedy] = remedies! {
    "redis-py, ioredis, go-redis, Jedis": "pipeline() (Pipelined in go-redis, Pipeline in Jedis); MGET and MSET",
    "ioredis": "enableAutoPipelining: true",
    "rueidis, redis-rs (multiplexed), Lettuce": "send requests concurrently on one connection: these clients pipeline them",
    "redis-benchmark": "-P 16",
};
const PGWIRE: &[Remedy] = remedies! {
    "libpq, psycopg 3": "PQenterPipelineMode; with connection.pipeline()",
    "pgx, pgjdbc, tokio-postgres": "pgx.Batch; executeBatch; futures awaited together",
};
const CQL: &[Remedy] = remedies! {
    "CQL drivers": "execute_async / executeAsync: a connection carries 32,768 requests at once (stream ids)",
    "scylla (Rust)": "WriteCoalescingDelay (write_coalescing(true)) puts concurrent requests into one write",
};
const MEMCACHE: &[Remedy] = remedies! {
    "pymemcache, libmemcached": "get_many / memcached_mget: one request for many keys",
    "libmemcached": "MEMCACHED_BEHAVIOR_BUFFER_REQUESTS and MEMCACHED_BEHAVIOR_NOREPLY for writes",
};

/// Returns how to pipeline requests; empty if clients of the protocol cannot.
fn remedies(protocol: Protocol) -> &'static [Remedy] {
    match protocol {
        Protocol::Resp | Protocol::Ssdb => RESP,
        Protocol::Pgwire => PGWIRE,
        Protocol::Cql => CQL,
        Protocol::Memcache => MEMCACHE,
        Protocol::Mysql | Protocol::Mongo | Protocol::Http => &[],
    }
}

impl RequestPipelining {
    pub fn new(depth: Option<u64>) -> Self {
        let asked = depth.is_some();
        Self { depth: depth.unwrap_or(DEPTH).max(1), asked, ended: HashMap::new(), rows: BTreeMap::new() }
    }

    /// Divides the headers of frames with payload by the depth.
    fn divide(&self, seen: &SeenTraffic, row: &SeenRow, times: u64, finding: &mut AdviceFinding) {
        let largest = seen.largest_payload.max(SEGMENT);
        for side in Side::BOTH {
            let amounts = &row.amounts[side as usize];
            let segments = (self.depth * amounts.payload() / row.count.max(1)).div_ceil(largest).max(1);
            if segments >= self.depth {
                continue;
            }
            for account in HEADER {
                // One in `depth` sequential operations keeps its frame; other operations do not change.
                let theirs = u128::from(amounts[account]) * u128::from(times) / u128::from(row.count.max(1));
                let left = theirs * u128::from(segments) / u128::from(self.depth);
                finding.change(row.number, side, account, -((theirs - left) as i64));
            }
        }
    }
}

impl Rule for RequestPipelining {
    fn operation(&mut self, closed: &SeenOperation<'_>) {
        let (Some(begun), Some(ended)) = (closed.begun_ns(), closed.ended_ns()) else { return };
        if remedies(closed.row.protocol).is_empty() {
            return;
        }
        let before = self.ended.insert(closed.connection, ended);
        // With an explicit depth, the application's pauses are ignored.
        let soon = if self.asked { u64::MAX } else { SOON_NS };
        let waited = before.is_some_and(|before| begun >= before && begun - before <= soon);
        if waited && closed.row.is_workload() {
            self.rows.entry(closed.row.number).or_default().add(1, closed.round_trip_ns, closed.example);
        }
    }

    fn connection(&mut self, connection: &ClosedConnection<'_>) {
        self.ended.remove(&connection.number);
    }

    fn row_finding(&self, seen: &SeenTraffic, row: &SeenRow) -> Option<AdviceFinding> {
        let FoundOperations { times, ns, example, .. } = *self.rows.get(&row.number)?;
        let mut frames = [Amounts::ZERO; 2];
        for (frames, amounts) in frames.iter_mut().zip(&row.amounts) {
            HEADER.into_iter().chain([Account::Control]).for_each(|account| frames[account] = amounts[account]);
        }
        let share = percent(frames.iter().map(Amounts::total).sum(), row.wire());
        let is_much = share >= HEADERS && percent(times, row.count) >= SEQUENTIAL;
        if !self.asked && (times < OPERATIONS || !is_much) {
            return None;
        }
        let title = format!(
            "{times} of {} requests wait for the answer before, and {share:.0}% of their bytes are headers and acknowledgments",
            row.count
        );
        let mut finding = AdviceFinding {
            evidence: ByteEvidence::from_amounts(&frames, "frames").collect(),
            remedies: remedies(row.protocol).to_vec(),
            certainty: Certainty::Modelled,
            computed: format!(
                "at a depth of {}, the requests of a batch share frames, and so do their answers: headers are divided by the depth, but \
                 for the segments that a batch needs; each batch waits for the network once: for a round trip, the connection's shortest latency \
                 is taken; the server's work, such as the flush of a commit, stays",
                self.depth
            ),
            unknown: "whether a request needs the answer to the one before; separate acknowledgments are left as they are",
            ..AdviceFinding::new(title, row, times, example).waiting(ns - ns / self.depth)
        };
        self.divide(seen, row, times, &mut finding);
        Some(finding)
    }
}
