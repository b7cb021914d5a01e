//! The record of a load as a table, with a row for each repetition of each combination.

use super::{Load, LoadResult, LoadRun};
use crate::csv::{Csv, CsvRow};

const COLUMNS: [&str; 41] = [
    "db",
    "protocol",
    "driver",
    "driver_version",
    "servers",
    "server_versions",
    "rows",
    "row_payload_bytes",
    "prepared",
    "skip_metadata",
    "binary",
    "resp",
    "multi_key",
    "compression",
    "tls",
    "threads",
    "operation",
    "mix",
    "clients",
    "pipeline",
    "rate",
    "run",
    "is_median",
    "started_ns",
    "elapsed_ns",
    "operations",
    "errors",
    "per_second",
    "latency_count",
    "latency_mean_ns",
    "latency_min_ns",
    "latency_p50_ns",
    "latency_p90_ns",
    "latency_p99_ns",
    "latency_p999_ns",
    "latency_p9999_ns",
    "latency_max_ns",
    "cpu_user_ns",
    "cpu_kernel_ns",
    "first_error",
    "partial",
];

impl Load {
    /// Returns the record as RFC 4180 text with a header line: a row for each run of each result, all times in nanoseconds.
    /// A result without runs also has a row.
    pub fn csv(&self) -> String {
        let mut table = Csv::new(COLUMNS);
        for result in &self.results {
            for (number, run) in result.runs.iter().enumerate() {
                let median = result.summary.is_some_and(|summary| summary.median_run == number);
                let cells = result.cells(self.cells(table.row())).number("run", number).number("is_median", median);
                run.cells(cells, result).end();
            }
            if result.runs.is_empty() {
                let cells = result.cells(self.cells(table.row()));
                cells.text("partial", result.partial.as_deref().unwrap_or_default()).end();
            }
        }
        table.finish()
    }

    /// Sets the cells that all rows share.
    fn cells<'a>(&self, cells: CsvRow<'a>) -> CsvRow<'a> {
        let addresses: Vec<&str> = self.servers.iter().map(|server| server.address.as_str()).collect();
        let versions: Vec<&str> = self.servers.iter().filter_map(|server| server.version.as_deref()).collect();
        let settings = &self.settings;
        let cells = cells.text("db", &self.db).text("protocol", &self.protocol);
        let cells = cells.text("driver", &self.driver.name).text("driver_version", &self.driver.version);
        let cells = cells.text("servers", &addresses.join(" ")).text("server_versions", &versions.join(", "));
        let cells = cells.number("rows", self.rows).number("row_payload_bytes", self.payload_bytes);
        let cells = cells.maybe("prepared", settings.prepared).maybe("skip_metadata", settings.skip_metadata);
        let cells = cells.maybe("binary", settings.binary).maybe("resp", settings.resp);
        let cells = cells.maybe("multi_key", settings.multi_key);
        let cells = cells.text("compression", settings.compression.as_deref().unwrap_or_default());
        cells.number("tls", settings.tls).number("threads", settings.threads)
    }
}

impl LoadResult {
    fn cells<'a>(&self, cells: CsvRow<'a>) -> CsvRow<'a> {
        let mix: Vec<String> = self.mix.iter().map(|(operation, weight)| format!("{operation} {weight}")).collect();
        let cells = cells.text("operation", &self.operation).text("mix", &mix.join(" "));
        cells.number("clients", self.clients).number("pipeline", self.pipeline).maybe("rate", self.rate)
    }
}

impl LoadRun {
    fn cells<'a>(&self, cells: CsvRow<'a>, result: &LoadResult) -> CsvRow<'a> {
        let latency = &self.latency_ns;
        let cells = cells.number("started_ns", self.started_ns).number("elapsed_ns", self.elapsed_ns);
        let cells = cells.number("operations", self.operations).number("errors", self.errors);
        let cells = cells.number("per_second", self.per_second).number("latency_count", latency.count);
        let known = latency.count > 0;
        let times = [
            ("min", latency.min),
            ("p50", latency.p50),
            ("p90", latency.p90),
            ("p99", latency.p99),
            ("p999", latency.p999),
            ("p9999", latency.p9999),
            ("max", latency.max),
        ];
        let cells = cells.maybe("latency_mean_ns", known.then_some(latency.mean));
        let cells = times
            .into_iter()
            .fold(cells, |cells, (name, ns)| cells.maybe(&format!("latency_{name}_ns"), known.then_some(ns)));
        let cells = cells.number("cpu_user_ns", self.cpu_ns.user).number("cpu_kernel_ns", self.cpu_ns.kernel);
        let partial = self.partial.as_deref().or(result.partial.as_deref()).unwrap_or_default();
        cells.text("first_error", self.first_error.as_deref().unwrap_or_default()).text("partial", partial)
    }
}
