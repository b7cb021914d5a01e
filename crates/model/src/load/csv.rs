//! The record of a load as a table, with a row for each repetition of each combination.

use super::{Load, LoadResult, LoadRun};
use crate::csv::{CsvCell, CsvColumn, csv};
use crate::record::Latency;

/// A row; a result without runs also has one.
struct LoadLine<'a> {
    load: &'a Load,
    result: &'a LoadResult,
    run: Option<(usize, &'a LoadRun)>,
}

impl LoadLine<'_> {
    const COLUMNS: [CsvColumn<Self>; 41] = [
        ("db", |of| CsvCell::text(&of.load.db)),
        ("protocol", |of| CsvCell::text(&of.load.protocol)),
        ("driver", |of| CsvCell::text(&of.load.driver.name)),
        ("driver_version", |of| CsvCell::text(&of.load.driver.version)),
        ("servers", |of| {
            let addresses: Vec<&str> = of.load.servers.iter().map(|server| server.address.as_str()).collect();
            CsvCell::text(&addresses.join(" "))
        }),
        ("server_versions", |of| {
            let versions: Vec<&str> = of.load.servers.iter().filter_map(|server| server.version.as_deref()).collect();
            CsvCell::text(&versions.join(", "))
        }),
        ("rows", |of| CsvCell::number(of.load.rows)),
        ("row_payload_bytes", |of| CsvCell::number(of.load.payload_bytes)),
        ("prepared", |of| CsvCell::maybe(of.load.settings.prepared)),
        ("skip_metadata", |of| CsvCell::maybe(of.load.settings.skip_metadata)),
        ("binary", |of| CsvCell::maybe(of.load.settings.binary)),
        ("resp", |of| CsvCell::maybe(of.load.settings.resp)),
        ("multi_key", |of| CsvCell::maybe(of.load.settings.multi_key)),
        ("compression", |of| CsvCell::text(of.load.settings.compression.as_deref().unwrap_or_default())),
        ("tls", |of| CsvCell::number(of.load.settings.tls)),
        ("threads", |of| CsvCell::number(of.load.settings.threads)),
        ("operation", |of| CsvCell::text(&of.result.operation)),
        ("mix", |of| {
            let mix: Vec<String> = of.result.mix.iter().map(|(name, weight)| format!("{name} {weight}")).collect();
            CsvCell::text(&mix.join(" "))
        }),
        ("clients", |of| CsvCell::number(of.result.clients)),
        ("pipeline", |of| CsvCell::number(of.result.pipeline)),
        ("rate", |of| CsvCell::maybe(of.result.rate)),
        ("run", |of| CsvCell::maybe(of.run.map(|(number, _)| number))),
        ("is_median", |of| {
            CsvCell::maybe(
                of.run.map(|(number, _)| of.result.summary.is_some_and(|summary| summary.median_run == number)),
            )
        }),
        ("started_ns", |of| of.figure(|run| run.started_ns)),
        ("elapsed_ns", |of| of.figure(|run| run.elapsed_ns)),
        ("operations", |of| of.figure(|run| run.operations)),
        ("errors", |of| of.figure(|run| run.errors)),
        ("per_second", |of| CsvCell::maybe(of.run.map(|(_, run)| run.per_second))),
        ("latency_count", |of| of.figure(|run| run.latency_ns.count)),
        ("latency_mean_ns", |of| CsvCell::maybe(of.latency().map(|latency| latency.mean))),
        ("latency_min_ns", |of| CsvCell::maybe(of.latency().map(|latency| latency.min))),
        ("latency_p50_ns", |of| CsvCell::maybe(of.latency().map(|latency| latency.p50))),
        ("latency_p90_ns", |of| CsvCell::maybe(of.latency().map(|latency| latency.p90))),
        ("latency_p99_ns", |of| CsvCell::maybe(of.latency().map(|latency| latency.p99))),
        ("latency_p999_ns", |of| CsvCell::maybe(of.latency().map(|latency| latency.p999))),
        ("latency_p9999_ns", |of| CsvCell::maybe(of.latency().map(|latency| latency.p9999))),
        ("latency_max_ns", |of| CsvCell::maybe(of.latency().map(|latency| latency.max))),
        ("cpu_user_ns", |of| of.figure(|run| run.cpu_ns.user)),
        ("cpu_kernel_ns", |of| of.figure(|run| run.cpu_ns.kernel)),
        ("first_error", |of| CsvCell::text(of.run.and_then(|(_, run)| run.first_error.as_deref()).unwrap_or_default())),
        ("partial", |of| {
            let partial = of.run.and_then(|(_, run)| run.partial.as_ref()).or(of.result.partial.as_ref());
            CsvCell::text(partial.map_or("", |reason| reason))
        }),
    ];

    fn figure(&self, of: fn(&LoadRun) -> u64) -> CsvCell {
        CsvCell::maybe(self.run.map(|(_, run)| of(run)))
    }

    /// Returns the latencies, if there are any.
    fn latency(&self) -> Option<Latency> {
        self.run.map(|(_, run)| run.latency_ns).filter(|latency| latency.count > 0)
    }
}

impl Load {
    /// Returns the record as RFC 4180 text with a header line: a row for each run of each result, all times in nanoseconds.
    /// A result without runs also has a row.
    pub fn csv(&self) -> String {
        let lines = self.results.iter().flat_map(|result| {
            let runs = result.runs.iter().enumerate().map(Some);
            let none = result.runs.is_empty().then_some(None);
            runs.chain(none).map(move |run| LoadLine { load: self, result, run })
        });
        csv(&LoadLine::COLUMNS, lines)
    }
}
