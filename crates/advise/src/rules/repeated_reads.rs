//! Identical reads.

use super::percent;
use crate::finding::{AdviceFinding, Certainty, Example, Remedy};
use crate::limits;
use crate::rule::Rule;
use crate::seen::{SeenOperation, SeenTraffic};
use overhead_model::{Amounts, Protocol};
use std::collections::{BTreeMap, HashMap};

/// Minimum occurrences of a request before its repetitions count.
const TIMES: u64 = 10;
/// Minimum percentage of repetitions in a row.
const SHARE: f64 = 20.0;

/// Reads by a digest of their request.
#[derive(Default)]
pub struct RepeatedReads {
    requests: HashMap<(usize, u64), RepeatedRequest>,
    full: bool,
}

struct RepeatedRequest {
    times: u64,
    /// Except the first.
    amounts: [Amounts; 2],
    waited_ns: u64,
    example: Example,
}

/// Returns places for a cache.
fn remedies(protocol: Protocol) -> Vec<Remedy> {
    let of_protocol = match protocol {
        Protocol::Resp => Some(Remedy {
            at: "Redis, Valkey clients",
            setting: "client-side caching: CLIENT TRACKING ON (redis-py cache_config, Jedis CacheConfig, rueidis DoCache, Lettuce CacheFrontend)",
        }),
        Protocol::Http => Some(Remedy {
            at: "HTTP clients",
            setting: "Cache-Control: max-age or ETag at the server, and a client that keeps answers",
        }),
        _ => None,
    };
    let application = Remedy {
        at: "application",
        setting: "a cache in the process (Caffeine, functools.lru_cache), for as long as the answer may be old",
    };
    of_protocol.into_iter().chain([application]).collect()
}

impl Rule for RepeatedReads {
    fn name(&self) -> &'static str {
        "repeated-reads"
    }

    fn operation(&mut self, closed: &SeenOperation<'_>) {
        let Some(digest) = closed.directions[0].digest.filter(|_| closed.row.is_workload() && closed.row.is_read())
        else {
            return;
        };
        let key = (closed.row_number, digest);
        if let Some(request) = self.requests.get_mut(&key) {
            request.times += 1;
            request.waited_ns += closed.operation.latency_ns.unwrap_or(0);
            request.amounts.iter_mut().zip(&closed.operation.sides).for_each(|(sum, side)| *sum += side.amounts);
        } else if self.requests.len() < limits::REMEMBERED {
            let new = RepeatedRequest { times: 1, amounts: [Amounts::ZERO; 2], waited_ns: 0, example: closed.example };
            self.requests.insert(key, new);
        } else {
            self.full = true;
        }
    }

    fn findings(&self, seen: &SeenTraffic) -> Vec<AdviceFinding> {
        let mut rows: BTreeMap<usize, Vec<&RepeatedRequest>> = BTreeMap::new();
        for ((row, _), request) in self.requests.iter().filter(|(_, request)| request.times >= TIMES) {
            rows.entry(*row).or_default().push(request);
        }
        rows.into_iter().filter_map(|(number, requests)| self.of_row(seen, number, &requests)).collect()
    }
}

impl RepeatedReads {
    fn of_row(&self, seen: &SeenTraffic, number: usize, requests: &[&RepeatedRequest]) -> Option<AdviceFinding> {
        let row = seen.rows.get(number)?;
        let repeated: u64 = requests.iter().map(|request| request.times - 1).sum();
        if percent(repeated, row.count) < SHARE {
            return None;
        }
        let mut amounts = [Amounts::ZERO; 2];
        for request in requests {
            amounts.iter_mut().zip(&request.amounts).for_each(|(sum, one)| *sum += *one);
        }
        let most = requests.iter().map(|request| request.times).max().unwrap_or(0);
        let title = format!(
            "{repeated} of {} reads ask for exactly what was asked before ({}{} {most} times)",
            row.count,
            match requests.len() {
                1 => "one request".to_owned(),
                several => format!("{several} requests"),
            },
            if requests.len() == 1 { "," } else { ", one of them" },
        );
        let mut finding = AdviceFinding {
            operations: repeated,
            example: requests.iter().map(|request| request.example).min_by_key(|example| example.operation),
            evidence: seen
                .group(row, |_, path| path.contains("key") || path.contains("statement") || path.contains("value"))
                .evidence,
            remedies: remedies(row.protocol),
            certainty: Certainty::AtMost,
            computed: format!(
                "all but the first of requests that recur {TIMES} times or more, with all their bytes; requests are compared by a digest of text, names, keys and values{}",
                if self.full { "; only the first 262,144 different requests are counted" } else { "" }
            ),
            unknown: "how old an answer may be; whether the data changed in between",
            ..AdviceFinding::new(self.name(), title, row.subject()).without(number, &amounts)
        };
        finding.saving.ns = Some(requests.iter().map(|request| request.waited_ns).sum());
        Some(finding)
    }
}
