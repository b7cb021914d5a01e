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

/// Most statements whose lookups interleave: `for o in orders: (o.customer.name, len(o.items))` has two.
const INTERLEAVED: usize = 4;

/// Runs of equal statements on a connection, each right after another read.
#[derive(Default)]
pub struct SingleLookups {
    connections: HashMap<u64, LookupRuns>,
    /// With the number of runs.
    rows: BTreeMap<usize, (u64, FoundOperations)>,
}

/// The current runs of a connection.
#[derive(Default)]
struct LookupRuns {
    /// The latest lookup last.
    runs: Vec<LookupRun>,
    /// Reads so far, and the end of the last one.
    reads: u64,
    ended_ns: u64,
}

/// A run of lookups.
#[derive(Clone, Copy)]
struct LookupRun {
    row: usize,
    text: u64,
    last: u64,
    /// Number of its last read on the connection.
    read: u64,
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
        let before = self.connections.get(&closed.connection);
        let follows = before.is_some_and(|of| begun >= of.ended_ns && begun - of.ended_ns <= SOON_NS);
        if !follows {
            self.end(closed.connection);
        }
        let Self { connections, rows } = self;
        let of = connections.entry(closed.connection).or_default();
        let (read, waited) = (of.reads, closed.round_trip_ns);
        (of.reads, of.ended_ns) = (read + 1, ended);
        let is_same = |run: &LookupRun| run.row == closed.row.number && run.text == text;
        let before = of.runs.iter().position(is_same).map(|at| of.runs.remove(at));
        let run = match before {
            Some(run) if run.last != digest => {
                LookupRun { last: digest, read, times: run.times + 1, waited_ns: run.waited_ns + waited, ..run }
            }
            before => {
                if let Some(run) = before {
                    run.end(rows);
                }
                let (row, example) = (closed.row.number, closed.example);
                LookupRun { row, text, last: digest, read, times: 1, waited_ns: waited, example, follows }
            }
        };
        of.runs.push(run);
        let is_under_way = |run: &LookupRun| read - run.read < INTERLEAVED as u64;
        for run in of.runs.iter().filter(|run| !is_under_way(run)) {
            run.end(rows);
        }
        of.runs.retain(is_under_way);
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
            "{times} lookups in {runs} {}: the same statement with another key each time, right after another read",
            if runs == 1 { "group" } else { "groups" }
        );
        let mut finding = AdviceFinding {
            remedies: REMEDIES.to_vec(),
            certainty: Certainty::AtMost,
            computed: "all but the user's data of all but one lookup of each run, at the row's mean, and a round trip for each, at most the connection's shortest latency".to_owned(),
            unknown: "whether a key was known before the answer to the one before; what delimits rows and keys in one question for all",
            ..AdviceFinding::new(title, row, times, example).waiting(saved_ns)
        };
        for side in Side::BOTH {
            for account in Account::ALL.into_iter().filter(|account| *account != Account::Data) {
                let bytes = row.amounts[side as usize][account] / row.count.max(1) * saved;
                finding.change(row.number, side, account, -bytes.cast_signed());
            }
        }
        Some(finding)
    }
}

impl SingleLookups {
    fn end(&mut self, connection: u64) {
        let of = self.connections.remove(&connection).unwrap_or_default();
        of.runs.iter().for_each(|run| run.end(&mut self.rows));
    }
}

impl LookupRun {
    /// Adds the run to its row if it is long enough.
    fn end(&self, rows: &mut BTreeMap<usize, (u64, FoundOperations)>) {
        if self.times >= RUN && self.follows {
            let (runs, lookups) = rows.entry(self.row).or_default();
            *runs += 1;
            lookups.add(self.times, self.waited_ns, self.example);
        }
    }
}
