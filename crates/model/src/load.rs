//! The record of a load, version 1: what `overhead bench` writes with `--output` (`bench.json`) and prints with
//! `--format json`. It is the client's side of the same operations that a [`Run`](crate::Run) is the wire's side of.
//!
//! Times are nanoseconds, sizes bytes, counts integers. What a protocol does not have is `null`, never a default that looks
//! like a choice. Readers ignore
//! fields they do not know. `docs/bench.schema.json` and `docs/bench.md` are made of these types.

mod csv;

use crate::record::{Latency, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Returns the JSON schema of the record, as `docs/bench.schema.json` has it.
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(Load)
}

/// The only version of the record that this code writes and reads.
pub const LOAD_VERSION: u32 = 1;

/// One invocation of `overhead bench`: one driver, one or more servers, one result per combination of swept options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Load {
    /// [`LOAD_VERSION`].
    pub schema_version: u32,
    /// The program that wrote the record.
    pub tool: Tool,
    /// The command line, without the password.
    pub command_line: Vec<String>,
    /// The database as named on the command line (`redis`, `cassandra`, …).
    pub db: String,
    /// The protocol's name, as in the run record (`resp`, `pgwire`, `cql`, `mongo`, `mysql`, `http`, `memcache`).
    pub protocol: String,
    /// The client library.
    pub driver: LoadDriver,
    /// The servers in command-line order; several if the client shards.
    pub servers: Vec<LoadServer>,
    /// Rows that `read` chooses from.
    pub rows: u64,
    /// Length of a row's text. A row is 8 bytes of id, 64 of numbers and this.
    pub payload_bytes: u64,
    /// How operations were sent.
    pub settings: LoadSettings,
    /// One per combination of operation, clients and pipeline, in the order of running.
    pub results: Vec<LoadResult>,
    /// Why the record is incomplete; `null` for a complete one.
    pub partial: Option<String>,
}

/// The client library of a [`Load`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoadDriver {
    /// Name of the crate.
    pub name: String,
    /// Its exact version.
    pub version: String,
}

/// One server of a [`Load`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoadServer {
    /// `host:port`, or `unix:path`.
    pub address: String,
    /// The name and version that the server reports (`Redis 7.0.15`); `null` if it was not asked, as with `--no-setup`.
    pub version: Option<String>,
}

/// How operations were sent; `null` for settings that the protocol does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoadSettings {
    /// Statements were prepared once per connection.
    pub prepared: Option<bool>,
    /// CQL: rows came without column descriptions.
    pub skip_metadata: Option<bool>,
    /// PostgreSQL: parameters and results in binary format, else in text.
    pub binary: Option<bool>,
    /// RESP version, 2 or 3.
    pub resp: Option<u8>,
    /// A pipeline was one request for all rows or keys instead of one request for each; `null` in records of earlier versions,
    /// which did so for memcached, MongoDB, `MySQL` and HTTP, and for inserts by CQL.
    #[serde(default)]
    pub multi_key: Option<bool>,
    /// Compression of messages: `none`, `lz4`, `snappy`, `zlib` or `zstd`.
    pub compression: Option<String>,
    /// Connections were encrypted.
    pub tls: bool,
    /// Threads of the client.
    pub threads: u32,
}

/// The runs of one combination of swept options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadResult {
    /// `empty`, `read`, `insert`, `oltp-point`, `oltp-range`, `oltp-insert` or `mix`.
    pub operation: String,
    /// The weight of each operation of a `mix`; empty otherwise.
    #[serde(default)]
    pub mix: BTreeMap<String, u32>,
    /// Clients that worked at the same time, each with its own connection to each server.
    pub clients: u32,
    /// Operations that a client sends before it waits for answers.
    pub pipeline: u32,
    /// Target rate: operations started per second, over all clients; `null` if each client continued as soon as it had
    /// its answer.
    pub rate: Option<f64>,
    /// One per repetition, in order. The last one may be partial.
    pub runs: Vec<LoadRun>,
    /// The result of the runs; `null` if no run answered any operation.
    pub summary: Option<LoadSummary>,
    /// Why this result is incomplete or differs from the request; `null` for a complete one.
    pub partial: Option<String>,
}

/// One repetition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadRun {
    /// Start of the measurement, Unix time.
    pub started_ns: u64,
    /// Time from the start to the last answer.
    pub elapsed_ns: u64,
    /// Operations with the expected answer; each operation of a pipeline counts.
    pub operations: u64,
    /// Operations with an error or an unexpected answer.
    pub errors: u64,
    /// The first error; `null` without errors.
    pub first_error: Option<String>,
    /// `operations` over `elapsed_ns`.
    pub per_second: f64,
    /// From sending to the complete answer; with a `rate`, from the time at which the operation was due. All operations
    /// of a pipeline have the latency of the whole pipeline. Errors are excluded.
    pub latency_ns: Latency,
    /// CPU time of the client process during the run.
    pub cpu_ns: LoadCpu,
    /// Why the run ended early; `null` for a complete run.
    pub partial: Option<String>,
}

/// CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoadCpu {
    /// In user mode.
    pub user: u64,
    /// In the kernel.
    pub kernel: u64,
}

/// The result of the runs of a [`LoadResult`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadSummary {
    /// Index in `runs` of the run with the median rate (of an even number of runs: the lower of the two middle ones).
    pub median_run: usize,
    /// Its operations per second.
    pub per_second: f64,
    /// Operations per second of the slowest run.
    pub per_second_min: f64,
    /// Operations per second of the fastest run.
    pub per_second_max: f64,
}

impl LoadSummary {
    /// Sums up runs; partial ones count only if there is no other. `None` if no operation was answered.
    pub fn from_runs(runs: &[LoadRun]) -> Option<Self> {
        let mut order: Vec<usize> = (0..runs.len()).filter(|&run| runs[run].operations > 0).collect();
        if order.iter().any(|&run| runs[run].partial.is_none()) {
            order.retain(|&run| runs[run].partial.is_none());
        }
        order.sort_by(|&a, &b| runs[a].per_second.total_cmp(&runs[b].per_second));
        let (&slowest, &fastest) = (order.first()?, order.last()?);
        let median_run = order[(order.len() - 1) / 2];
        Some(Self {
            median_run,
            per_second: runs[median_run].per_second,
            per_second_min: runs[slowest].per_second,
            per_second_max: runs[fastest].per_second,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(per_second: f64, partial: Option<&str>) -> LoadRun {
        LoadRun {
            started_ns: 0,
            elapsed_ns: 1_000_000_000,
            operations: per_second as u64,
            errors: 0,
            first_error: None,
            per_second,
            latency_ns: Latency::default(),
            cpu_ns: LoadCpu::default(),
            partial: partial.map(str::to_owned),
        }
    }

    #[test]
    fn the_median_is_a_run() {
        let summary = LoadSummary::from_runs(&[run(30.0, None), run(10.0, None), run(20.0, None)]).unwrap();
        let wanted = LoadSummary { median_run: 2, per_second: 20.0, per_second_min: 10.0, per_second_max: 30.0 };
        assert_eq!(summary, wanted);
        assert_eq!(LoadSummary::from_runs(&[run(30.0, None), run(10.0, None)]).unwrap().median_run, 1);
    }

    #[test]
    fn a_partial_run_counts_only_alone() {
        let cut = || run(1.0, Some("the server went away"));
        let alone = |rate| LoadSummary { median_run: 0, per_second: rate, per_second_min: rate, per_second_max: rate };
        assert_eq!(LoadSummary::from_runs(&[run(30.0, None), cut()]), Some(alone(30.0)));
        assert_eq!(LoadSummary::from_runs(&[cut()]), Some(alone(1.0)));
        assert_eq!(LoadSummary::from_runs(&[run(0.0, Some("cut"))]), None);
    }

    /// The committed records of real loads: each of their figures is in its column.
    #[test]
    fn a_load_has_a_line_of_csv_for_each_repetition() {
        let text = include_str!("../../report/tests/records/redis-resp-read-1-load/bench.json");
        let mut load: Load = serde_json::from_str(text).unwrap();
        load.results[0].runs[1].first_error = Some("=cmd()".to_owned());
        let table = load.csv();
        let mut lines = table.lines();
        let header: Vec<&str> = lines.next().unwrap().split(',').collect();
        let rows: Vec<BTreeMap<&str, &str>> =
            lines.map(|line| header.iter().copied().zip(line.split(',')).collect()).collect();
        let runs = &load.results[0].runs;
        assert_eq!(rows.len(), runs.len());
        for (row, run) in rows.iter().zip(runs) {
            assert_eq!(row["operations"], run.operations.to_string());
            assert_eq!(row["latency_p9999_ns"], run.latency_ns.p9999.to_string());
            assert_eq!(row["cpu_kernel_ns"], run.cpu_ns.kernel.to_string());
            assert_eq!((row["clients"], row["driver"]), ("16", "redis"));
        }
        assert_eq!(rows[1]["first_error"], "'=cmd()");
        assert_eq!(rows.iter().filter(|row| row["is_median"] == "true").count(), 1);
    }
}
