//! The series of a scrape: operations, bytes, calls and times.

use crate::capture::dissecting::SoFar;
use overhead_model::record::{self, OperationRow};
use overhead_model::{Account, Measured, OTHER, Protocol, Side};
use overhead_report::text::clean;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Operations with separate series, of about 30 lines each.
const SERIES: usize = 100;
/// Upper bounds of the latency histogram, nanoseconds. The aggregate counts operations within each of them.
const BUCKETS_NS: [u64; 18] = [
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
];

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SeriesKey {
    protocol: String,
    class: &'static str,
    operation: String,
}

impl SeriesKey {
    fn of(row: &OperationRow) -> Self {
        // Avoids escapes. No database uses these characters in names.
        let operation = clean(&row.name).replace('"', "'").replace('\\', "/");
        Self { protocol: row.protocol.clone(), class: row.class.name(), operation }
    }

    /// Returns the exposed key, without the path of an HTTP request, which is user data.
    fn without_path(&self) -> Self {
        let method = self.operation.split(' ').next().filter(|_| self.protocol == Protocol::Http.name());
        Self { operation: method.unwrap_or(&self.operation).to_owned(), ..self.clone() }
    }

    fn of_others(&self) -> Self {
        Self { operation: OTHER.to_owned(), ..self.clone() }
    }

    fn labels(&self) -> [(&'static str, &str); 3] {
        [("protocol", &self.protocol), ("class", self.class), ("operation", &self.operation)]
    }
}

/// Sums over the operations of a series.
#[derive(Clone, Copy, Debug, Default)]
struct SeriesSums {
    count: u64,
    errors: u64,
    unanswered: u64,
    /// On the wire, request and response.
    wire_bytes: [u64; 2],
    latencies: u64,
    latency_ns: f64,
    /// Number of operations that took no longer than each of [`BUCKETS_NS`].
    within: [u64; BUCKETS_NS.len()],
}

impl SeriesSums {
    fn of(row: &OperationRow) -> Self {
        let steps = row.latency_within.as_deref().unwrap_or_default();
        let within = |bound: u64| steps.iter().take_while(|step| step.ns <= bound).last().map_or(0, |step| step.count);
        let latency = row.latency_ns.or_empty();
        Self {
            count: row.count,
            errors: row.errors,
            unanswered: row.unanswered,
            wire_bytes: [&row.request, &row.response].map(|side| side.wire_bytes.total),
            latencies: latency.count,
            latency_ns: latency.mean * latency.count as f64,
            within: BUCKETS_NS.map(within),
        }
    }

    /// Applies `with` to each pair of sums.
    fn each(&mut self, other: &Self, with: impl Fn(&mut u64, u64)) {
        let numbers = [&mut self.count, &mut self.errors, &mut self.unanswered, &mut self.latencies];
        let theirs = [other.count, other.errors, other.unanswered, other.latencies];
        numbers.into_iter().zip(theirs).for_each(|(mine, theirs)| with(mine, theirs));
        self.wire_bytes.iter_mut().zip(other.wire_bytes).for_each(|(mine, theirs)| with(mine, theirs));
        self.within.iter_mut().zip(other.within).for_each(|(mine, theirs)| with(mine, theirs));
    }

    fn add(&mut self, other: &Self) {
        self.each(other, |mine, theirs| *mine += theirs);
        self.latency_ns += other.latency_ns;
    }

    fn without(mut self, other: &Self) -> Self {
        self.each(other, |mine, theirs| *mine = mine.saturating_sub(theirs));
        self.latency_ns = (self.latency_ns - other.latency_ns).max(0.0);
        self
    }
}

/// Totals that grow from scrape to scrape, so that no counter ever falls.
#[derive(Clone, Debug, Default)]
pub struct ScrapedMetrics {
    /// The rows at the last scrape, by full name.
    before: BTreeMap<SeriesKey, SeriesSums>,
    series: BTreeMap<SeriesKey, SeriesSums>,
    /// Number of operation names that share a series.
    sharing: u64,
    ledger: [[u64; Account::COUNT]; 2],
    frames: u64,
    wire_bytes: u64,
    dropped: u64,
    /// By role and name of the call.
    syscalls: BTreeMap<(&'static str, String), u64>,
    /// By role and mode, nanoseconds.
    on_cpu_ns: BTreeMap<(&'static str, &'static str), u64>,
    /// Time since the capture began, and the captured part of it, in nanoseconds.
    time_ns: [u64; 2],
}

impl ScrapedMetrics {
    /// Updates all sums and returns them as text.
    pub fn scrape(
        &mut self,
        so_far: Option<&SoFar>,
        counters: &Measured<record::Counters>,
        elapsed: Duration,
    ) -> String {
        let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        self.time_ns = [elapsed_ns, elapsed_ns];
        if let Some(so_far) = so_far {
            self.take_rows(&so_far.operations);
            for (mine, now) in self.ledger.iter_mut().zip(so_far.ledger) {
                Account::ALL.iter().zip(mine).for_each(|(account, sum)| raise(sum, now[*account]));
            }
            raise(&mut self.frames, so_far.frames);
            raise(&mut self.wire_bytes, so_far.wire_bytes);
            raise(&mut self.dropped, so_far.progress.dropped);
            self.time_ns[1] = so_far.covered_ns.unwrap_or(elapsed_ns).min(elapsed_ns);
        }
        if let Measured::Value(counters) = counters {
            self.take_role("server", &counters.server);
            self.take_role("client", &counters.client);
        }
        self.text()
    }

    fn take_rows(&mut self, rows: &[OperationRow]) {
        let mut now = BTreeMap::<SeriesKey, SeriesSums>::new();
        for row in rows {
            now.entry(SeriesKey::of(row)).or_default().add(&SeriesSums::of(row));
        }
        // The aggregate adds a folded row to `(other)`, where its earlier operations are not new.
        let mut folded = BTreeMap::<SeriesKey, SeriesSums>::new();
        for (key, sums) in self.before.iter().filter(|(key, _)| !now.contains_key(key)) {
            folded.entry(key.of_others()).or_default().add(sums);
        }
        for (key, sums) in &now {
            let before = self.before.get(key).copied().unwrap_or_default();
            let mut delta = sums.without(&before);
            if let Some(folded) = folded.get(key) {
                delta = delta.without(folded);
            }
            let series = key.without_path();
            let is_own = self.series.contains_key(&series) || self.series.len() < SERIES || key.operation == OTHER;
            if !is_own && !self.before.contains_key(key) {
                self.sharing += 1;
            }
            self.series.entry(if is_own { series } else { key.of_others() }).or_default().add(&delta);
        }
        self.before = now;
    }

    fn take_role(&mut self, name: &'static str, role: &Measured<record::Role>) {
        let Measured::Value(role) = role else { return };
        for (call, counted) in &role.syscalls {
            raise(self.syscalls.entry((name, call.clone())).or_default(), counted.count);
        }
        if let Measured::Value(time) = &role.on_cpu_ns {
            raise(self.on_cpu_ns.entry((name, "user")).or_default(), time.user);
            raise(self.on_cpu_ns.entry((name, "kernel")).or_default(), time.kernel);
        }
    }

    fn text(&self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self.clone()));
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
        text
    }
}

fn raise(sum: &mut u64, to: u64) {
    *sum = to.max(*sum);
}

impl Collector for ScrapedMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        encoder
            .encode_descriptor("overhead_build", "The program that captures", None, MetricType::Info)?
            .encode_info(&version)?;
        self.encode_operations(&mut encoder)?;
        self.encode_latency(&mut encoder)?;
        self.encode_ledger(&mut encoder)?;
        self.encode_capture(&mut encoder)?;
        self.encode_counters(&mut encoder)
    }
}

impl ScrapedMetrics {
    fn encode_operations(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        type Sum = fn(&SeriesSums) -> u64;
        let sums: [(&str, &str, Sum); 3] = [
            ("overhead_operations", "Operations that have ended", |sums| sums.count),
            ("overhead_operation_errors", "Operations that were answered by an error", |sums| sums.errors),
            ("overhead_operations_unanswered", "Operations without a complete answer", |sums| sums.unanswered),
        ];
        for (name, help, sum) in sums {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (key, sums) in &self.series {
                count(&mut family, &key.labels(), sum(sums))?;
            }
        }
        let help = "Bytes on the wire of operations";
        let mut family = encoder.encode_descriptor("overhead_operation_wire_bytes", help, None, MetricType::Counter)?;
        for (key, sums) in &self.series {
            for (side, bytes) in Side::BOTH.iter().zip(sums.wire_bytes) {
                let [protocol, class, operation] = key.labels();
                count(&mut family, &[protocol, class, operation, ("side", side.name())], bytes)?;
            }
        }
        let help = "Names of operations that share a series named (other), because there are too many";
        gauge(encoder, "overhead_operations_sharing_series", help, self.sharing as f64)
    }

    fn encode_latency(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "First byte of the request to last byte of the response";
        let mut family =
            encoder.encode_descriptor("overhead_operation_latency_seconds", help, None, MetricType::Histogram)?;
        for (key, sums) in self.series.iter().filter(|(_, sums)| sums.latencies > 0) {
            let mut buckets = Vec::with_capacity(BUCKETS_NS.len() + 1);
            let mut below = 0;
            for (bound, within) in BUCKETS_NS.into_iter().zip(sums.within) {
                let within = within.clamp(below, sums.latencies);
                buckets.push((bound as f64 / 1e9, within - below));
                below = within;
            }
            buckets.push((f64::INFINITY, sums.latencies - below));
            let labels = key.labels();
            let mut series = family.encode_family(&labels)?;
            series.encode_histogram::<NoLabelSet>(sums.latency_ns / 1e9, sums.latencies, &buckets, None)?;
        }
        Ok(())
    }

    fn encode_ledger(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Bytes on the wire posted to operations that have ended, by direction and account";
        let mut family = encoder.encode_descriptor("overhead_ledger_bytes", help, None, MetricType::Counter)?;
        for (side, sums) in Side::BOTH.iter().zip(&self.ledger) {
            for (account, bytes) in Account::ALL.iter().zip(sums) {
                count(&mut family, &[("side", side.name()), ("account", account.name())], *bytes)?;
            }
        }
        Ok(())
    }

    fn encode_capture(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let counters = [
            ("overhead_frames", "Frames captured", self.frames),
            ("overhead_wire_bytes", "Original lengths of the captured frames", self.wire_bytes),
            ("overhead_dropped_frames", "Frames that the kernel dropped because its buffer was full", self.dropped),
        ];
        for (name, help, value) in counters {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            family.encode_counter::<NoLabelSet, u64, f64>(&value, None)?;
        }
        let [elapsed, covered] = self.time_ns.map(|ns| ns as f64 / 1e9);
        for (name, help, value) in [
            ("overhead_capture_seconds", "Time since the capture began", elapsed),
            ("overhead_covered_seconds", "Of this, time that frames were captured in: less with --sample", covered),
        ] {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            family.encode_counter::<NoLabelSet, f64, f64>(&value, None)?;
        }
        Ok(())
    }

    fn encode_counters(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "System calls of the processes at either end";
        let mut family = encoder.encode_descriptor("overhead_syscalls", help, None, MetricType::Counter)?;
        for ((role, call), calls) in &self.syscalls {
            count(&mut family, &[("role", *role), ("syscall", call)], *calls)?;
        }
        let help = "Time of these processes on a CPU";
        let mut family = encoder.encode_descriptor("overhead_cpu_seconds", help, None, MetricType::Counter)?;
        for ((role, mode), ns) in &self.on_cpu_ns {
            let labels = [("role", *role), ("mode", *mode)];
            let mut series = family.encode_family(&labels)?;
            series.encode_counter::<NoLabelSet, f64, f64>(&(*ns as f64 / 1e9), None)?;
        }
        Ok(())
    }
}

fn count<const N: usize>(family: &mut MetricEncoder<'_>, labels: &[(&str, &str); N], value: u64) -> fmt::Result {
    family.encode_family(labels)?.encode_counter::<NoLabelSet, u64, f64>(&value, None)
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: f64) -> fmt::Result {
    encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use overhead_model::record::{Latency, Within};

    fn row(name: &str, count: u64) -> OperationRow {
        OperationRow {
            protocol: "resp".to_owned(),
            class: overhead_model::Class::Workload,
            name: name.to_owned(),
            via: String::new(),
            count,
            unsolicited: 0,
            errors: 0,
            unanswered: 0,
            no_reply: 0,
            request: record::SideRow::default(),
            response: record::SideRow::default(),
            latency_ns: Measured::Value(Latency { count, mean: 1_500_000.0, ..Latency::default() }),
            latency_within: Some(vec![Within { ns: 1_000_000, count: count / 2 }, Within { ns: 2_000_000, count }]),
            sampled: None,
            kernel: None,
            statements: Vec::new(),
            fields: None,
        }
    }

    fn line(text: &str, start: &str) -> Option<f64> {
        let found = text.lines().find(|line| line.starts_with(start))?;
        found.rsplit(' ').next()?.parse().ok()
    }

    fn scraped(metrics: &mut ScrapedMetrics, rows: &[OperationRow]) -> String {
        metrics.take_rows(rows);
        metrics.text()
    }

    const GET: &str = r#"overhead_operations_total{protocol="resp",class="workload",operation="GET"}"#;

    #[test]
    fn counters_and_buckets_are_those_of_the_rows() {
        let text = scraped(&mut ScrapedMetrics::default(), &[row("GET", 10)]);
        assert_eq!(line(&text, GET), Some(10.0), "{text}");
        let bucket = |le: &str| {
            let start = r#"overhead_operation_latency_seconds_bucket{le=""#;
            let labels = r#"",protocol="resp",class="workload",operation="GET"}"#;
            line(&text, &format!("{start}{le}{labels}"))
        };
        assert_eq!(["0.0005", "0.001", "0.002", "+Inf"].map(bucket), [0.0, 5.0, 10.0, 10.0].map(Some), "{text}");
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn names_beyond_the_bound_share_a_series_and_nothing_is_lost_or_falls() {
        let mut metrics = ScrapedMetrics::default();
        let rows = |count| (0..SERIES + 50).map(|number| row(&format!("C{number:03}"), count)).collect::<Vec<_>>();
        let sum = |text: &str| {
            let values = text.lines().filter(|line| line.starts_with("overhead_operations_total{"));
            values.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>()
        };
        let first = scraped(&mut metrics, &rows(2));
        let second = scraped(&mut metrics, &rows(3));
        assert_eq!((sum(&first) as u64, sum(&second) as u64), (300, 450));
        assert_eq!(line(&second, "overhead_operations_sharing_series"), Some(50.0));
        assert_eq!(metrics.series.len(), SERIES + 1);
        // The aggregate folds rows away in its own time: they are counted there from then on.
        let folded = scraped(&mut metrics, &[row("C000", 4), row(OTHER, 3 * 149 + 1)]);
        assert_eq!(sum(&folded) as u64, 452);
    }

    #[test]
    fn of_http_no_word_of_a_path_is_told() {
        let rows = ["GET /staff/smith", "GET /staff/#", "PUT /staff/smith"]
            .map(|name| OperationRow { protocol: "http".to_owned(), ..row(name, 3) });
        let mut metrics = ScrapedMetrics::default();
        let text = scraped(&mut metrics, &rows);
        assert!(!text.contains("staff") && !text.contains("smith"), "{text}");
        assert_eq!(line(&text, &GET.replace("resp", "http")), Some(6.0), "{text}");
        // One of the paths has no row of its own any more.
        let rows = [("GET /staff/#", 4), (OTHER, 5), ("PUT /staff/smith", 3)]
            .map(|(name, count)| OperationRow { protocol: "http".to_owned(), ..row(name, count) });
        let text = scraped(&mut metrics, &rows);
        assert_eq!(line(&text, &GET.replace("resp", "http")), Some(7.0), "{text}");
        assert_eq!(line(&text, &GET.replace("resp", "http").replace("GET", OTHER)), Some(2.0), "{text}");
    }

    #[test]
    fn no_name_breaks_the_format() {
        for hostile in [
            "a\"b\\c\nd",
            "\r\noverhead_operations_total 9",
            "\"} 9\noverhead_operations_total{x=\"",
            "\x1b[2J\u{9b}31m",
            "\u{202e}\u{61c}\u{2028}\u{ad}",
            "# EOF\n::error::owned",
        ] {
            let text = scraped(&mut ScrapedMetrics::default(), &[row(hostile, 1)]);
            let is_line = |line: &str| line.starts_with('#') || line.contains("} ") || line.starts_with("overhead_");
            assert!(text.lines().all(is_line), "{text}");
            assert_eq!(text.matches("\n# EOF").count(), 1, "{text}");
            assert!(!text.contains("\noverhead_operations_total 9"), "{text}");
            let is_plain =
                |char: char| char == '\n' || !(char.is_control() || "\u{202e}\u{61c}\u{2028}\u{ad}".contains(char));
            assert!(text.chars().all(is_plain), "{text}");
        }
    }
}
