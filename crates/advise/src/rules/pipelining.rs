//! Requests that wait for the answer to the one before.

use super::percent;
use crate::finding::{Certainty, Evidence, Example, Finding, Remedy};
use crate::rule::Rule;
use crate::seen::{Closed, Row, Seen, SeenConnection};
use overhead_model::{Account, Protocol, Side};
use std::collections::{BTreeMap, HashMap};

/// Operations in a row below which nothing is said.
const OPERATIONS: u64 = 20;
/// Share of such operations in their row, in percent.
const SEQUENTIAL: f64 = 50.0;
/// Share of headers and acknowledgments in the row's bytes, in percent.
const HEADERS: f64 = 40.0;
/// A request that follows an answer within this time is one that the application had ready, or nearly: 1 ms.
const SOON_NS: u64 = 1_000_000;
/// Requests in a batch, unless asked for otherwise.
const DEPTH: u64 = 16;
/// Payload of a full Ethernet segment, with time stamps.
const SEGMENT: u64 = 1448;
const HEADER: [Account; 3] = [Account::Link, Account::Ip, Account::Tcp];

/// Operations that begin right after the one before has ended.
pub struct Pipelining {
    depth: u64,
    /// The depth was asked for: then every row is a finding.
    asked: bool,
    ended: HashMap<u64, u64>,
    rows: BTreeMap<usize, Sequence>,
}

#[derive(Default)]
struct Sequence {
    times: u64,
    waited_ns: u64,
    example: Option<Example>,
}

const RESP: [Remedy; 4] = [
    Remedy {
        at: "redis-py, ioredis, go-redis, Jedis",
        setting: "pipeline() (Pipelined in go-redis, Pipeline in Jedis); MGET and MSET",
    },
    Remedy { at: "ioredis", setting: "enableAutoPipelining: true" },
    Remedy {
        at: "rueidis, redis-rs (multiplexed), Lettuce",
        setting: "concurrent requests on one connection are pipelined as they are",
    },
    Remedy { at: "redis-benchmark", setting: "-P 16" },
];
const PGWIRE: [Remedy; 2] = [
    Remedy { at: "libpq, psycopg 3", setting: "PQenterPipelineMode; with connection.pipeline()" },
    Remedy { at: "pgx, pgjdbc, tokio-postgres", setting: "pgx.Batch; executeBatch; futures awaited together" },
];
const CQL: [Remedy; 2] = [
    Remedy {
        at: "CQL drivers",
        setting: "execute_async / executeAsync: a connection carries 32,768 requests at once (stream ids)",
    },
    Remedy {
        at: "scylla (Rust)",
        setting: "WriteCoalescingDelay (write_coalescing(true)) puts concurrent requests into one write",
    },
];
const MEMCACHE: [Remedy; 2] = [
    Remedy { at: "pymemcache, libmemcached", setting: "get_many / memcached_mget: one request for many keys" },
    Remedy {
        at: "libmemcached",
        setting: "MEMCACHED_BEHAVIOR_BUFFER_REQUESTS and MEMCACHED_BEHAVIOR_NOREPLY for writes",
    },
];

impl Pipelining {
    /// Supposes this many requests before their answers are waited for.
    pub fn new(depth: Option<u64>) -> Self {
        let asked = depth.is_some();
        Self { depth: depth.unwrap_or(DEPTH).max(1), asked, ended: HashMap::new(), rows: BTreeMap::new() }
    }

    fn of_row(&self, seen: &Seen, number: usize, sequence: &Sequence) -> Option<Finding> {
        let row = seen.rows.get(number)?;
        let headers: u64 = row.amounts.iter().map(|side| header(side) + side[Account::Control]).sum();
        let is_much = percent(headers, row.wire()) >= HEADERS && percent(sequence.times, row.count) >= SEQUENTIAL;
        if !self.asked && (sequence.times < OPERATIONS || !is_much) {
            return None;
        }
        let title = format!(
            "{} of {} requests wait for the answer before, and {:.0}% of their bytes are headers and acknowledgments",
            sequence.times,
            row.count,
            percent(headers, row.wire())
        );
        let remedies = match row.protocol {
            Protocol::Resp | Protocol::Ssdb => RESP.to_vec(),
            Protocol::Pgwire => PGWIRE.to_vec(),
            Protocol::Cql => CQL.to_vec(),
            _ => MEMCACHE.to_vec(),
        };
        let evidence = Side::BOTH.into_iter().flat_map(|side| {
            [Account::Link, Account::Ip, Account::Tcp, Account::Control].map(|account| Evidence {
                side,
                account,
                field: "frames".to_owned(),
                bytes: row.amounts[side as usize][account],
            })
        });
        let mut finding = Finding {
            operations: sequence.times,
            example: sequence.example,
            evidence: evidence.filter(|evidence| evidence.bytes > 0).collect(),
            remedies,
            certainty: Certainty::Modelled,
            computed: format!(
                "at a depth of {}, the requests of a batch share frames, and so do their answers: headers are divided by the depth, but \
                 for the segments that a batch needs; each batch waits once",
                self.depth
            ),
            unknown: "whether a request needs the answer to the one before; acknowledgments of their own are left as they are",
            ..Finding::new(self.name(), title, row.subject())
        };
        self.divide(seen, (number, row), sequence, &mut finding);
        finding.saving.ns = Some(sequence.waited_ns - sequence.waited_ns / self.depth);
        Some(finding)
    }

    /// Divides the headers of frames with payload by the depth.
    fn divide(&self, seen: &Seen, (number, row): (usize, &Row), sequence: &Sequence, finding: &mut Finding) {
        let largest = seen.largest_payload.max(SEGMENT);
        for side in Side::BOTH {
            let amounts = &row.amounts[side as usize];
            let segments = (self.depth * amounts.payload() / row.count.max(1)).div_ceil(largest).max(1);
            if segments >= self.depth {
                continue;
            }
            for account in HEADER {
                // Of those in sequence, one in `depth` keeps its frame; the others of the row are as they were.
                let theirs = u128::from(amounts[account]) * u128::from(sequence.times) / u128::from(row.count.max(1));
                let left = theirs * u128::from(segments) / u128::from(self.depth);
                finding.change(number, side, account, -((theirs - left) as i64));
            }
        }
    }
}

fn header(amounts: &overhead_model::Amounts) -> u64 {
    HEADER.iter().map(|account| amounts[*account]).sum()
}

impl Rule for Pipelining {
    fn name(&self) -> &'static str {
        "pipelining"
    }

    fn operation(&mut self, closed: &Closed<'_>) {
        let fits = matches!(
            closed.row.protocol,
            Protocol::Resp | Protocol::Ssdb | Protocol::Pgwire | Protocol::Cql | Protocol::Memcache
        );
        let (Some(begun), Some(ended)) = (closed.begun_ns(), closed.ended_ns()) else { return };
        if !fits {
            return;
        }
        let before = self.ended.insert(closed.connection, ended);
        // Where the depth was asked for, it does not matter how long the application took in between.
        let soon = if self.asked { u64::MAX } else { SOON_NS };
        let waited = before.is_some_and(|before| begun >= before && begun - before <= soon);
        if waited && closed.row.is_workload() {
            let sequence = self.rows.entry(closed.row_number).or_default();
            sequence.times += 1;
            sequence.waited_ns += closed.operation.latency_ns.unwrap_or(0);
            sequence.example.get_or_insert(closed.example);
        }
    }

    fn connection(&mut self, connection: &SeenConnection<'_>) {
        self.ended.remove(&connection.number);
    }

    fn findings(&self, seen: &Seen) -> Vec<Finding> {
        self.rows.iter().filter_map(|(&number, sequence)| self.of_row(seen, number, sequence)).collect()
    }
}
