//! The metrics of a running capture (`--metrics`): operations, bytes, calls and times.
//!
//! Labels hold names of operations and addresses of servers, never statements, keys or clients, so a scrape contains no user
//! data. The number of series is limited; beyond the limit, names share series.

use super::dissecting::SoFar;
use overhead_host::metrics::{SeriesLabels, counter, text_of};
use overhead_model::record::{self, OperationRow};
use overhead_model::{Account, Class, Measured, OTHER, Protocol, Side, System};
use overhead_report::RowSums;
use overhead_report::text::clean;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// Operations with separate series, of about 30 lines each.
const SERIES: usize = 100;
/// Servers with separate series, of 5 lines each for each class.
const SERVERS: usize = 100;
/// Upper bounds of the latency histogram, microseconds. The aggregate counts operations within each of them.
const BUCKETS_US: [u64; 18] = [
    20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000,
    2_000_000, 5_000_000, 10_000_000,
];

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SeriesKey {
    protocol: String,
    class: &'static str,
    /// The name of the operation, or the server.
    name: String,
}

impl SeriesKey {
    fn new(protocol: &str, class: Class, name: &str) -> Self {
        // Avoids escapes. No database uses these characters in names.
        let name = clean(name).replace('"', "'").replace('\\', "/");
        Self { protocol: protocol.to_owned(), class: class.name(), name }
    }

    /// Returns the exposed key, without the path of an HTTP request, which is user data.
    fn without_path(&self) -> Self {
        let method = self.name.split(' ').next().filter(|_| self.protocol == Protocol::Http.name());
        Self { name: method.unwrap_or(&self.name).to_owned(), ..self.clone() }
    }

    fn shared(&self) -> Self {
        Self { name: OTHER.to_owned(), ..self.clone() }
    }

    /// Returns the labels; `what` is the one that has the name.
    fn labels(&self, what: &'static str) -> SeriesLabels<'_> {
        vec![("protocol", &self.protocol), ("class", self.class), (what, &self.name)]
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
    /// Number of operations that took no longer than each of [`BUCKETS_US`].
    within: [u64; BUCKETS_US.len()],
}

impl SeriesSums {
    fn from_row(row: &OperationRow) -> Self {
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
            within: BUCKETS_US.map(|bound| within(bound * 1_000)),
        }
    }

    fn from_server(sums: &RowSums) -> Self {
        let RowSums { count, errors, unanswered, .. } = *sums;
        let wire_bytes = sums.sides.map(|side| side.amounts.total());
        Self { count, errors, unanswered, wire_bytes, ..Self::default() }
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

/// Series that only grow, of which a limited number is separate.
#[derive(Clone, Debug, Default)]
struct BoundedSeries {
    /// The rows at the last scrape, by full name.
    before: BTreeMap<SeriesKey, SeriesSums>,
    series: BTreeMap<SeriesKey, SeriesSums>,
    /// Number of names that share a series.
    sharing: u64,
}

impl BoundedSeries {
    fn take(&mut self, limit: usize, rows: impl Iterator<Item = (SeriesKey, SeriesSums)>) {
        let mut now = BTreeMap::<SeriesKey, SeriesSums>::new();
        rows.for_each(|(key, sums)| now.entry(key).or_default().add(&sums));
        // The aggregate adds a folded row to `(other)`, where its earlier operations are not new. It may have begun again since.
        let is_folded = |key: &SeriesKey, sums: &SeriesSums| now.get(key).is_none_or(|now| now.count < sums.count);
        let mut folded = BTreeMap::<SeriesKey, SeriesSums>::new();
        for (key, sums) in self.before.extract_if(.., |key, sums| is_folded(key, sums)) {
            folded.entry(key.shared()).or_default().add(&sums);
        }
        for (key, sums) in &now {
            let before = self.before.get(key).copied().unwrap_or_default();
            let mut delta = sums.without(&before);
            if let Some(folded) = folded.get(key) {
                delta = delta.without(folded);
            }
            let series = key.without_path();
            let is_own = self.series.contains_key(&series) || self.series.len() < limit || key.name == OTHER;
            if !is_own && !self.before.contains_key(key) {
                self.sharing += 1;
            }
            self.series.entry(if is_own { series } else { key.shared() }).or_default().add(&delta);
        }
        self.before = now;
    }
}

/// Totals that grow from scrape to scrape, so that no counter ever falls.
#[derive(Clone, Debug, Default)]
pub struct ScrapedMetrics {
    operations: BoundedSeries,
    servers: BoundedSeries,
    /// Systems that are known: by port, or else by protocol.
    systems: Vec<(Option<u16>, System)>,
    ledger: [[u64; Account::COUNT]; 2],
    frames: u64,
    wire_bytes: u64,
    dropped: u64,
    /// By role and name of the call.
    syscalls: BTreeMap<(&'static str, String), u64>,
    /// By role and mode, nanoseconds.
    on_cpu_ns: BTreeMap<(&'static str, &'static str), u64>,
    /// Time since the capture started, and the captured part of it, in nanoseconds.
    time_ns: [u64; 2],
}

impl ScrapedMetrics {
    /// Returns metrics that are all zero. A system with a port is that of the servers on it; without one, that of all others of its
    /// protocol.
    pub fn new(systems: Vec<(Option<u16>, System)>) -> Self {
        Self { systems, ..Self::default() }
    }

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
            self.servers.take(
                SERVERS,
                so_far.servers.iter().map(|(kind, sums)| {
                    (SeriesKey::new(kind.protocol.name(), kind.class, &kind.label), SeriesSums::from_server(sums))
                }),
            );
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
        text_of(self.clone())
    }

    fn take_rows(&mut self, rows: &[OperationRow]) {
        let key = |row: &OperationRow| SeriesKey::new(&row.protocol, row.class, &row.name);
        self.operations.take(SERIES, rows.iter().map(|row| (key(row), SeriesSums::from_row(row))));
    }

    /// Returns the system of a server, or its protocol if nothing more is known.
    fn system<'a>(&self, key: &'a SeriesKey) -> &'a str {
        let port = key.name.parse().ok().map(|server: SocketAddr| server.port());
        let on = |port| self.systems.iter().find(|(on, it)| *on == port && it.protocol.name() == key.protocol);
        port.and_then(|port| on(Some(port))).or_else(|| on(None)).map_or(&key.protocol, |(_, system)| system.name)
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
}

fn raise(sum: &mut u64, to: u64) {
    *sum = to.max(*sum);
}

/// Counters of operations: the end of the name, help, and sum.
type CountedSum = (&'static str, &'static str, fn(&SeriesSums) -> u64);
const SUMS: [CountedSum; 3] = [
    ("s", "Operations that have ended", |sums| sums.count),
    ("_errors", "Operations that were answered by an error", |sums| sums.errors),
    ("s_unanswered", "Operations without a complete answer", |sums| sums.unanswered),
];

impl Collector for ScrapedMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        encoder
            .encode_descriptor("overhead_build", "The program that captures", None, MetricType::Info)?
            .encode_info(&version)?;
        let (operations, servers) = (&self.operations, &self.servers);
        let (name, what) = ("overhead_operation", ["overhead_operation", "", "Names of operations"]);
        encode_series(&mut encoder, operations, name, what, |key| key.labels("operation"))?;
        self.encode_latency(&mut encoder)?;
        let (name, what) = ("overhead_server", ["overhead_server_operation", ", by server", "Servers"]);
        encode_series(&mut encoder, servers, name, what, |key| {
            [key.labels("server"), vec![("system", self.system(key))]].concat()
        })?;
        self.encode_sums(&mut encoder)
    }
}

impl ScrapedMetrics {
    fn encode_latency(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "First byte of the request to last byte of the response";
        let mut family =
            encoder.encode_descriptor("overhead_operation_latency_seconds", help, None, MetricType::Histogram)?;
        for (key, sums) in self.operations.series.iter().filter(|(_, sums)| sums.latencies > 0) {
            let mut buckets = Vec::with_capacity(BUCKETS_US.len() + 1);
            let mut below = 0;
            for (bound, within) in BUCKETS_US.into_iter().zip(sums.within) {
                let within = within.clamp(below, sums.latencies);
                buckets.push((bound as f64 / 1e6, within - below));
                below = within;
            }
            buckets.push((f64::INFINITY, sums.latencies - below));
            let labels = key.labels("operation");
            let mut series = family.encode_family(&labels)?;
            series.encode_histogram::<NoLabelSet>(sums.latency_ns / 1e9, sums.latencies, &buckets, None)?;
        }
        Ok(())
    }

    /// Writes the ledger, and the counters of the capture and of the kernel.
    fn encode_sums(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let posted = Side::BOTH.iter().zip(&self.ledger).flat_map(|(side, sums)| {
            let labels = move |account: &Account| vec![("side", side.name()), ("account", account.name())];
            Account::ALL.iter().zip(sums).map(move |(account, bytes)| (labels(account), *bytes))
        });
        let help = "Bytes on the wire posted to operations that have ended, by direction and account";
        counter(encoder, "overhead_ledger_bytes", help, posted)?;
        for (name, help, value) in [
            ("overhead_frames", "Frames captured", self.frames),
            ("overhead_wire_bytes", "Original lengths of the captured frames", self.wire_bytes),
            ("overhead_dropped_frames", "Frames that the kernel dropped because its buffer was full", self.dropped),
        ] {
            counter(encoder, name, help, [(Vec::new(), value)])?;
        }
        let seconds = |ns: u64| ns as f64 / 1e9;
        for (name, help, ns) in [
            ("overhead_capture_seconds", "Time since the capture started", self.time_ns[0]),
            (
                "overhead_covered_seconds",
                "Of this, time that frames were captured in: less with --sample",
                self.time_ns[1],
            ),
        ] {
            counter(encoder, name, help, [(Vec::new(), seconds(ns))])?;
        }
        let calls = self.syscalls.iter();
        let calls = calls.map(|((role, call), calls)| (vec![("role", *role), ("syscall", call.as_str())], *calls));
        counter(encoder, "overhead_syscalls", "System calls of the processes at either end", calls)?;
        let times = self.on_cpu_ns.iter();
        let times = times.map(|((role, mode), ns)| (vec![("role", *role), ("mode", *mode)], seconds(*ns)));
        counter(encoder, "overhead_cpu_seconds", "Time of these processes on a CPU", times)
    }
}

/// Writes the counters of operations or servers. `what` has the start of their names, the end of a help text, and what
/// shares a series.
fn encode_series<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    BoundedSeries { series, sharing, .. }: &'a BoundedSeries,
    name: &str,
    [counters, by, sharers]: [&str; 3],
    labels: impl Fn(&'a SeriesKey) -> SeriesLabels<'a>,
) -> fmt::Result {
    for (end, help, sum) in SUMS {
        let counts = series.iter().map(|(key, sums)| (labels(key), sum(sums)));
        counter(encoder, &format!("{counters}{end}"), help, counts)?;
    }
    let of_sides = series.iter().flat_map(|(key, sums)| {
        let side = |side: &Side| [labels(key), vec![("side", side.name())]].concat();
        Side::BOTH.each_ref().map(side).into_iter().zip(sums.wire_bytes)
    });
    counter(encoder, &format!("{name}_wire_bytes"), &format!("Bytes on the wire of operations{by}"), of_sides)?;
    let help = format!("{sharers} that share a series named (other), because there are too many");
    let name = format!("{name}s_sharing_series");
    encoder.encode_descriptor(&name, &help, None, MetricType::Gauge)?.encode_gauge(&(*sharing as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use overhead_model::record::{Latency, Within};

    fn row(name: &str, count: u64) -> OperationRow {
        OperationRow {
            protocol: "resp".to_owned(),
            class: Class::Workload,
            name: name.to_owned(),
            via: String::new(),
            count,
            unsolicited: 0,
            errors: 0,
            unanswered: 0,
            no_reply: 0,
            round_trips: Measured::Value(count),
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
        text_of(metrics.clone())
    }

    const GET: &str = r#"overhead_operations_total{protocol="resp",class="workload",operation="GET"}"#;

    #[test]
    fn counters_and_buckets_are_those_of_the_rows() {
        let text = scraped(&mut ScrapedMetrics::new(Vec::new()), &[row("GET", 10)]);
        assert_eq!(line(&text, GET), Some(10.0), "{text}");
        let bucket = |le: &str| {
            let name = "overhead_operation_latency_seconds_bucket";
            line(&text, &format!(r#"{name}{{le="{le}",protocol="resp",class="workload",operation="GET"}}"#))
        };
        assert_eq!(["0.0005", "0.001", "0.002", "+Inf"].map(bucket), [0.0, 5.0, 10.0, 10.0].map(Some), "{text}");
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn names_beyond_the_bound_share_a_series_and_nothing_is_lost_or_falls() {
        let mut metrics = ScrapedMetrics::new(Vec::new());
        let rows = |count| (0..SERIES + 50).map(|number| row(&format!("C{number:03}"), count)).collect::<Vec<_>>();
        let sum = |text: &str| {
            let values = text.lines().filter(|line| line.starts_with("overhead_operations_total{"));
            values.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>()
        };
        let first = scraped(&mut metrics, &rows(2));
        let second = scraped(&mut metrics, &rows(3));
        assert_eq!((sum(&first) as u64, sum(&second) as u64), (300, 450));
        assert_eq!(line(&second, "overhead_operations_sharing_series"), Some(50.0));
        assert_eq!(metrics.operations.series.len(), SERIES + 1);
        // The aggregate folds rows away in its own time: they are counted there from then on.
        let folded = scraped(&mut metrics, &[row("C000", 4), row(OTHER, 3 * 149 + 1)]);
        assert_eq!(sum(&folded) as u64, 452);
    }

    #[test]
    fn servers_have_a_bounded_number_of_series_and_the_system_that_is_known() {
        let system = |name| System::named(name).unwrap();
        let mut metrics = ScrapedMetrics::new(vec![(Some(7), system("valkey")), (None, system("redis"))]);
        let sums = |count| SeriesSums { count, wire_bytes: [10 * count, count], ..SeriesSums::default() };
        let take = |metrics: &mut ScrapedMetrics, counts: &[(usize, u64)]| {
            let key = |server: &usize| SeriesKey::new("resp", Class::Workload, &format!("10.0.0.1:{server}"));
            metrics.servers.take(SERVERS, counts.iter().map(|(server, count)| (key(server), sums(*count))));
            text_of(metrics.clone())
        };
        let all: Vec<_> = (7..SERVERS + 17).map(|server| (server, 2)).collect();
        let text = take(&mut metrics, &all);
        let labels = |server: &str, system: &str| {
            format!(r#"_total{{protocol="resp",class="workload",server="{server}",system="{system}""#)
        };
        let operations = |server, system| format!("overhead_server_operations{}", labels(server, system));
        assert_eq!(line(&text, &operations("10.0.0.1:7", "valkey")), Some(2.0), "{text}");
        assert_eq!(line(&text, &operations("10.0.0.1:8", "redis")), Some(2.0));
        assert_eq!(line(&text, &operations(OTHER, "redis")), Some(20.0));
        assert_eq!(line(&text, &format!("overhead_server_wire_bytes{}", labels("10.0.0.1:7", "valkey"))), Some(20.0));
        assert_eq!(line(&text, "overhead_servers_sharing_series"), Some(10.0));
        // A server that was folded away and began again falls, and no counter does.
        let text = take(&mut metrics, &[(7, 1)]);
        assert_eq!(line(&text, &operations("10.0.0.1:7", "valkey")), Some(3.0), "{text}");
    }

    #[test]
    fn http_paths_appear_in_no_metric() {
        let rows = ["GET /staff/smith", "GET /staff/#", "PUT /staff/smith"]
            .map(|name| OperationRow { protocol: "http".to_owned(), ..row(name, 3) });
        let mut metrics = ScrapedMetrics::new(Vec::new());
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
            let text = scraped(&mut ScrapedMetrics::new(Vec::new()), &[row(hostile, 1)]);
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
