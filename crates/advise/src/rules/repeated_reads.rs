//! Identical reads.

use super::percent;
use crate::finding::{AdviceFinding, Certainty, FoundOperations, Remedy, add_sides, remedies};
use crate::limits;
use crate::rule::Rule;
use crate::seen::{SeenOperation, SeenRow, SeenTraffic};
use overhead_model::{Amounts, Protocol};
use std::collections::{BTreeMap, HashMap};

/// Minimum occurrences of a request before its repetitions count.
const TIMES: u64 = 10;
/// Minimum percentage of repetitions in a row.
const SHARE: f64 = 20.0;

/// Operations without a pause from which the client is a load generator: it repeats requests because it was told to.
const LOAD: u64 = 32;

/// Reads by a digest of their request.
#[derive(Default)]
pub struct RepeatedReads {
    /// Reads of load generators by row.
    generated: BTreeMap<usize, u64>,
    requests: HashMap<(usize, u64), FoundOperations>,
    full: bool,
}

/// Places for a cache.
const RESP: &[Remedy] = remedies! {
    "Redis, Valkey clients": "client-side caching: CLIENT TRACKING ON (redis-py cache_config, Jedis CacheConfig, rueidis DoCache, Lettuce CacheFrontend)",
};
const HTTP: &[Remedy] = remedies! {
    "HTTP clients": "Cache-Control: max-age or ETag at the server, and a client that keeps answers",
};
const APPLICATION: &[Remedy] = remedies! {
    "application": "a cache in the process (Caffeine, functools.lru_cache), for as long as the answer may be old",
};

impl Rule for RepeatedReads {
    fn operation(&mut self, closed: &SeenOperation<'_>) {
        let is_read = closed.row.is_workload() && closed.row.is_read();
        let Some(digest) = closed.directions[0].digest.filter(|_| is_read) else { return };
        if closed.in_a_row >= LOAD {
            *self.generated.entry(closed.row.number).or_default() += 1;
        }
        let key = (closed.row.number, digest);
        if let Some(request) = self.requests.get_mut(&key) {
            request.add(1, closed.operation.latency_ns.unwrap_or(0), closed.example);
            add_sides(&mut request.amounts, &closed.operation.amounts());
        } else if self.requests.len() < limits::REMEMBERED {
            let first = FoundOperations { times: 1, example: Some(closed.example), ..FoundOperations::default() };
            self.requests.insert(key, first);
        } else {
            self.full = true;
        }
    }

    fn findings(&self, seen: &SeenTraffic) -> Vec<AdviceFinding> {
        let mut rows: BTreeMap<usize, Vec<&FoundOperations>> = BTreeMap::new();
        for ((row, _), request) in self.requests.iter().filter(|(_, request)| request.times >= TIMES) {
            rows.entry(*row).or_default().push(request);
        }
        rows.into_iter()
            .filter_map(|(number, requests)| self.finding(seen, seen.rows.get(number)?, &requests))
            .collect()
    }
}

impl RepeatedReads {
    fn finding(&self, seen: &SeenTraffic, row: &SeenRow, requests: &[&FoundOperations]) -> Option<AdviceFinding> {
        let repeated: u64 = requests.iter().map(|request| request.times - 1).sum();
        let generated = self.generated.get(&row.number).copied().unwrap_or(0);
        if percent(repeated, row.count) < SHARE || 2 * generated > row.count {
            return None;
        }
        let mut amounts = [Amounts::ZERO; 2];
        for request in requests {
            add_sides(&mut amounts, &request.amounts);
        }
        let waited_ns = requests.iter().map(|request| request.ns).sum();
        let most = requests.iter().map(|request| request.times).max().unwrap_or(0);
        let title = format!(
            "{repeated} of {} reads ask for exactly what was asked before ({}{} {most} times)",
            row.count,
            if requests.len() == 1 { "one request".to_owned() } else { format!("{} requests", requests.len()) },
            if requests.len() == 1 { "," } else { ", one of them" },
        );
        let of_protocol = match row.protocol {
            Protocol::Resp => RESP,
            Protocol::Http => HTTP,
            _ => &[],
        };
        let example = requests.iter().filter_map(|request| request.example).min_by_key(|example| example.operation);
        let identify = |path: &str| ["key", "statement", "value"].iter().any(|part| path.contains(part));
        Some(AdviceFinding {
            evidence: seen.group(row, |_, path| identify(path)).evidence,
            remedies: [of_protocol, APPLICATION].concat(),
            certainty: Certainty::AtMost,
            computed: format!(
                "all but the first of requests that recur {TIMES} times or more, with all their bytes; requests are compared by a digest of text, names, keys and values{}",
                if self.full { "; only the first 262,144 different requests are counted" } else { "" }
            ),
            unknown: "how old an answer may be; whether the data changed in between",
            ..AdviceFinding::new(title, row, repeated, example).without(row.number, &amounts).waiting(waited_ns)
        })
    }
}
