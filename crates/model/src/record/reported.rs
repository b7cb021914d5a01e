//! Results that a load generator prints about itself.

use super::Measured;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Results that a load generator printed about one of its tests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportedTest {
    /// The program (`redis-benchmark`, `memtier_benchmark`, `pgbench`, `sysbench`).
    pub program: String,
    /// The name it gives the test (`GET`, `Totals`, `transactions`).
    pub name: String,
    /// Its rate per second.
    pub per_second: Measured<f64>,
    /// Its latencies, as its clients saw them, by name: `mean`, `p50`, `p90`, `p95`, `p99`, `p999`, `p9999`, `max`. Names
    /// that it does not print are absent.
    pub latency_ns: BTreeMap<String, f64>,
}

impl ReportedTest {
    /// The names of latencies, in display order.
    pub const LATENCIES: [&str; 8] = ["mean", "p50", "p90", "p95", "p99", "p999", "p9999", "max"];
}
