//! N+1 queries: consecutive statements that differ only in a key.

use super::percent;
use crate::finding::{AdviceFinding, Certainty, Example, FoundOperations, Remedy, remedies};
use crate::rule::Rule;
use crate::seen::{ClosedConnection, SeenOperation, SeenRow, SeenTraffic};
use overhead_model::{Account, Protocol, Side};
use std::collections::{BTreeMap, HashMap};

/// Minimum length of a run of lookups.
const RUN: u64 = 8;
/// Minimum percentage of such lookups in the row.
const SHARE: f64 = 25.0;
/// Longest time from an answer to the next lookup, for the application's work on a row.
const SOON_NS: u64 = 20_000_000;

/// Runs of equal statements on a connection, each right after another read.
#[derive(Default)]
pub struct SingleLookups {
    connections: HashMap<u64, LookupRun>,
    /// With the number of runs.
    rows: BTreeMap<usize, (u64, FoundOperations)>,
}

/// The current run of a connection.
#[derive(Clone, Copy)]
struct LookupRun {
    row: usize,
    text: u64,
    last: u64,
    ended_ns: u64,
    times: u64,
    waited_ns: u64,
    example: Example,
    /// Another read came right before.
    follows: bool,
}

const REMEDIES: &[Remedy] = remedies! {
    "Hibernate, JPA": "@BatchSize or hibernate.default_batch_fetch_size; join fetch, @EntityGraph",
    "Django, SQLAlchemy, Rails": "select_related / prefetch_related; selectinload / joinedload; includes",
    "GraphQL servers": "DataLoader",
    "queries": "WHERE id = ANY($1), IN (…), MGET, $in, get of several keys",
};

impl Rule for SingleLookups {
    fn operation(&mut self, closed: &SeenOperation<'_>) {
        if !closed.row.is_workload() {
            return;
        }
        let request = &closed.directions[0];
        let fits = closed.row.is_read() && closed.row.protocol != Protocol::Http;
        let (Some(text), Some(digest), Some(begun), Some(ended), true) =
            (closed.statement_digest(), request.digest, closed.begun_ns(), closed.ended_ns(), fits)
        else {
            self.end(closed.connection);
            return;
        };
        let before = self.connections.get(&closed.connection).copied();
        let continues = before.filter(|run| {
            let is_next = run.row == closed.row.number && run.text == text && run.last != digest;
            is_next && begun >= run.ended_ns && begun - run.ended_ns <= SOON_NS
        });
        let waited = closed.round_trip_ns;
        let run = if let Some(run) = continues {
            LookupRun { last: digest, ended_ns: ended, times: run.times + 1, waited_ns: run.waited_ns + waited, ..run }
        } else {
            self.end(closed.connection);
            let follows = before.is_some_and(|run| begun >= run.ended_ns && begun - run.ended_ns <= SOON_NS);
            let (row, example) = (closed.row.number, closed.example);
            LookupRun { row, text, last: digest, ended_ns: ended, times: 1, waited_ns: waited, example, follows }
        };
        self.connections.insert(closed.connection, run);
    }

    fn connection(&mut self, connection: &ClosedConnection<'_>) {
        self.end(connection.number);
    }

    fn row_finding(&self, _: &SeenTraffic, row: &SeenRow) -> Option<AdviceFinding> {
        let (runs, FoundOperations { times, ns, example, .. }) = *self.rows.get(&row.number)?;
        if percent(times, row.count) < SHARE {
            return None;
        }
        let saved = times - runs;
        let saved_ns = (u128::from(ns) * u128::from(saved) / u128::from(times.max(1))) as u64;
        let title = format!(
            "{times} lookups in {runs} groups: the same statement with another key each time, right after another read"
        );
        let mut finding = AdviceFinding {
            remedies: REMEDIES.to_vec(),
            certainty: Certainty::AtMost,
            computed: "headers and acknowledgments of all but one lookup of each run, at the row's mean, and a round trip for each, at most the connection's shortest latency".to_owned(),
            unknown: "whether a key was known before the answer to the one before; one question for all needs a little more payload or a little less",
            ..AdviceFinding::new(title, row, times, example).waiting(saved_ns)
        };
        for side in Side::BOTH {
            for account in [Account::Link, Account::Ip, Account::Tcp, Account::Control] {
                let bytes = row.amounts[side as usize][account] / row.count.max(1) * saved;
                finding.change(row.number, side, account, -bytes.cast_signed());
            }
        }
        Some(finding)
    }
}

impl SingleLookups {
    fn end(&mut self, connection: u64) {
        let Some(run) = self.connections.remove(&connection) else { return };
        if run.times >= RUN && run.follows {
            let (runs, lookups) = self.rows.entry(run.row).or_default();
            *runs += 1;
            lookups.add(run.times, run.waited_ns, run.example);
        }
    }
}
