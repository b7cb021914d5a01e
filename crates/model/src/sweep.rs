//! The record of a sweep, version 1: what `overhead sweep` writes as `sweep.json` and prints with `--format json`. The runs
//! themselves are run folders below it, each with its own record.
//!
//! Sizes are bytes, times nanoseconds. A quantity that was not measured is [`Measured::Unavailable`] with the reason. Readers
//! ignore fields they do not know. `docs/sweep.schema.json` and `docs/sweep.md` are made of these types.

use crate::record::{CycleSource, Environment, Measured, Selected, Tool, Within};
use crate::spread::Spread;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Returns the JSON schema of the record, as `docs/sweep.schema.json` has it.
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(Sweep)
}

/// The only version of the record that this code writes and reads.
pub const SWEEP_VERSION: u32 = 1;

/// A sweep: one command with all combinations of its parameters' values, each run several times under a capture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sweep {
    /// [`SWEEP_VERSION`].
    pub schema_version: u32,
    /// The program that wrote the record.
    pub tool: Tool,
    /// The command, with parameters in braces (`{P}`); passwords are `***`.
    pub command: Vec<String>,
    /// Options that affect the measurement, as on the command line. Continuing a sweep requires the same options.
    pub settings: Vec<String>,
    /// The requested connections.
    pub selection: Selected,
    /// Machine and interface of the first run that counts; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    /// The servers as they name themselves; empty if they do not, and in older records.
    #[serde(default)]
    pub servers: Vec<String>,
    /// The parameters, in the order of the command line.
    pub parameters: Vec<SweepParameter>,
    /// Requested runs of each combination.
    pub runs: u32,
    /// One for each combination of values; the last parameter varies fastest.
    pub points: Vec<SweepPoint>,
    /// Why the sweep is incomplete; `null` for a complete one.
    pub partial: Option<String>,
}

/// A parameter of the command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SweepParameter {
    /// Its name; `{name}` in the command is replaced by a value.
    pub name: String,
    /// Its values, in the order of the command line.
    pub values: Vec<String>,
}

/// One combination of values, and the results of its runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepPoint {
    /// A value for each parameter.
    pub values: Vec<String>,
    /// The folder of its runs, relative to the sweep's.
    pub folder: String,
    /// Its runs in the order of the rounds, including those that do not count.
    pub runs: Vec<SweepRun>,
    /// Values of all workload operations of a run together.
    pub total: SweepTotal,
    /// One for each workload operation, the largest by bytes first.
    pub operations: Vec<SweepOperation>,
    /// Results that the command itself reported; empty if its format is unknown.
    pub reported: Vec<SweepReported>,
    /// Why byte counts are lower bounds, a phrase for each run and kind of loss; empty if they are exact.
    pub lower_bounds: Vec<String>,
}

/// One run of a [`SweepPoint`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SweepRun {
    /// Its folder, relative to the sweep's.
    pub folder: String,
    /// Why it does not count; `null` if it does.
    pub fault: Option<String>,
    /// Whether a run that counts is partial; its record has the reason.
    #[serde(default)]
    pub partial: bool,
}

/// Values of all workload operations of a run together, over the runs that count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepTotal {
    /// Workload operations of a run.
    pub operations: Measured<Spread>,
    /// Workload operations per second, from the first frame to the last.
    pub per_second: Measured<Spread>,
    /// Bytes on the wire per operation, both directions.
    pub wire_bytes: Measured<Spread>,
    /// Frames of the selected connections per operation, both directions, including acknowledgments and connection
    /// set-up.
    pub frames: Measured<Spread>,
    /// Work of the server's processes.
    pub server: SweepWork,
    /// Work of the client's processes.
    pub client: SweepWork,
}

/// Work of a role's processes per workload operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepWork {
    /// System calls.
    pub syscalls: Measured<Spread>,
    /// CPU cycles, in user mode and in the kernel.
    pub cycles: Measured<Spread>,
    /// The unit of the cycles; `null` if there are none.
    pub cycles_source: Option<CycleSource>,
    /// CPU time.
    pub on_cpu_ns: Measured<Spread>,
}

/// One workload operation of a [`SweepPoint`], over the runs that count and have it. Its spreads do not add up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepOperation {
    /// Protocol name.
    pub protocol: String,
    /// Name of the operation.
    pub name: String,
    /// How it was sent; empty if there is only one way.
    pub via: String,
    /// Operations of a run.
    pub count: Spread,
    /// Operations answered by an error, in all runs together.
    pub errors: u64,
    /// Bytes on the wire per operation from client to server.
    pub request_bytes: Spread,
    /// Bytes on the wire per operation from server to client.
    pub response_bytes: Measured<Spread>,
    /// Bytes on the wire per operation, both directions.
    pub wire_bytes: Spread,
    /// First byte of the request to last byte of the response, at the capture point.
    pub latency_ns: SweepLatency,
    /// Cumulative counts of `latency_ns` over all runs: how many operations took no longer than certain times; the last
    /// entry has all of them. Empty if the runs do not have them.
    #[serde(default)]
    pub latency_within: Vec<Within>,
}

/// A distribution of latencies, each value over the runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepLatency {
    /// Arithmetic mean.
    pub mean: Measured<Spread>,
    /// Median.
    pub p50: Measured<Spread>,
    /// 90th percentile.
    pub p90: Measured<Spread>,
    /// 95th percentile.
    pub p95: Measured<Spread>,
    /// 99th percentile.
    pub p99: Measured<Spread>,
    /// 99.9th percentile.
    pub p999: Measured<Spread>,
    /// 99.99th percentile.
    pub p9999: Measured<Spread>,
    /// Largest.
    pub max: Measured<Spread>,
}

/// Results that a load generator printed about one of its tests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepReported {
    /// The program (`redis-benchmark`, `memtier_benchmark`, `pgbench`, `sysbench`).
    pub program: String,
    /// The name it gives the test (`GET`, `Totals`, `transactions`).
    pub name: String,
    /// Its rate per second.
    pub per_second: Measured<Spread>,
    /// Its latencies, as its clients saw them.
    pub latency_ns: SweepLatency,
}

impl SweepLatency {
    /// Names of the values, in the order of the fields.
    pub const NAMES: [&str; 8] = ["mean", "p50", "p90", "p95", "p99", "p999", "p9999", "max"];

    /// Returns the values in this order.
    pub fn figures(&self) -> [&Measured<Spread>; 8] {
        let Self { mean, p50, p90, p95, p99, p999, p9999, max } = self;
        [mean, p50, p90, p95, p99, p999, p9999, max]
    }

    /// Returns a distribution with these values, in this order.
    pub fn new([mean, p50, p90, p95, p99, p999, p9999, max]: [Measured<Spread>; 8]) -> Self {
        Self { mean, p50, p90, p95, p99, p999, p9999, max }
    }
}
