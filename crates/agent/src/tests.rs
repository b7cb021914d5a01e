//! Both exporters' output of the same totals.

use super::governor::AgentSpending;
use super::metrics::exposition;
use super::otlp::{LatestTotals, define_instruments};
use super::text::summary;
use super::totals::{AgentTotals, FlowTraffic, PartTraffic, ServerLabels, labels};
use super::work::ServerWork;
use opentelemetry::metrics::MeterProvider;
use opentelemetry::{KeyValue, Value};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ResourceMetrics, ScopeMetrics};
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider, Temporality};
use overhead_dissect::{ENCRYPTED, KeptCounts, LearnedCounts, PREPARED_BEFORE};
use overhead_kernel::{SegmentTotals, SocketTotals};
use overhead_model::record::Estimate;
use overhead_model::{Class, Protocol};
use overhead_report::composition::{PartTotal, TrafficPart};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn server(address: &str, system: &'static str, container: &str) -> ServerLabels {
    ServerLabels { address: address.to_owned(), system, container: container.to_owned() }
}

fn flow(server: ServerLabels, client: &str, costs: Option<[f64; 2]>) -> FlowTraffic {
    let segments = |segments| SegmentTotals { segments, payload_bytes: segments * 100, header_bytes: segments * 52 };
    let totals = SocketTotals {
        sent: segments(3),
        received: segments(7),
        retransmitted_bytes: 100,
        retransmitted_segments: 1,
        opened: 2,
        met_open: 3,
        closed: 1,
        round_trip_us: 250,
        round_trips: 4,
        multipath_segments: 5,
        refused_bytes: 6,
    };
    let zones = ["a".to_owned(), "unknown".to_owned()];
    FlowTraffic {
        server,
        at_server: client.is_empty(),
        client: client.to_owned(),
        client_name: "orders".to_owned(),
        client_container: "docker app".to_owned(),
        zones,
        totals,
        costs,
    }
}

fn part(server: ServerLabels, part: TrafficPart, cost: Option<f64>) -> PartTraffic {
    let estimate = |value| Estimate { value, standard_error: 1.0, low: value - 2.5, high: value + 2.0 };
    let labels = labels(&part);
    let total = PartTotal {
        part,
        wire_bytes: 1234,
        sides: [234, 1000],
        bytes: estimate(1234.0),
        operations: estimate(12.5),
        has_interval: cost.is_some(),
        since: 0,
    };
    PartTraffic { server, at_server: true, zones: ["a".to_owned(), "b".to_owned()], labels, total, cost }
}

pub fn totals() -> AgentTotals {
    let operations = |protocol, name: &str, statement: &str| TrafficPart::Operations {
        class: Class::Workload,
        protocol,
        name: name.to_owned(),
        statement: statement.to_owned(),
    };
    let (postgres, cache) = (server("[::1]:5432", "postgres", "docker db"), server("10.0.0.1:11211", "memcache", ""));
    let redis = server(":6379", "redis", "");
    AgentTotals {
        flows: vec![
            flow(postgres.clone(), "10.0.0.9", Some([0.25, 1.5])),
            flow(cache.clone(), "", None),
            flow(redis.clone(), "(other)", None),
        ],
        parts: vec![
            part(postgres.clone(), operations(Protocol::Pgwire, "SELECT", "SELECT \"a\\b\"\n FROM t"), Some(0.5)),
            part(cache, operations(Protocol::Memcache, "TLS", &"x".repeat(300)), None),
            part(redis, TrafficPart::Other, None),
        ],
        work: vec![(postgres, ServerWork { windows: 2, operations: 10, syscalls: 25, cpu_ns: 1_500_000 })],
        borrowed_bytes: 1,
        spending: AgentSpending {
            cpu: Duration::from_millis(1500),
            window_cpu: Duration::from_millis(500),
            open: Duration::from_millis(200),
            windows: 2,
            frames: 3,
            dropped: 4,
        },
        elapsed: Duration::from_mins(1),
        uncounted: Duration::from_millis(1250),
        evicted: 5,
        failed_readings: 10,
        without_room_bytes: 6,
        lost_connections: 7,
        unidentified_bytes: 11,
        lost_listeners: 12,
        failed_exports: 8,
        failed_archives: 9,
        learned: LearnedCounts { statements: 14, without_room: 15 },
        tls: Some(KeptCounts { kept: 11, missed: 12, without_room: 13 }),
    }
}

/// Writes what it would export, a series per line, in order.
struct TextExporter(Arc<Mutex<String>>);

fn lines<V: Copy + std::fmt::Debug>(data: &MetricData<V>) -> Vec<String> {
    let MetricData::Sum(sum) = data else { panic!("not a counter") };
    assert!(sum.is_monotonic() && sum.temporality() == Temporality::Cumulative);
    let line = |attributes: Vec<&KeyValue>, value: V| {
        let text = |value: &Value| match value {
            Value::I64(number) => number.to_string(),
            text => format!("{:?}", text.as_str()),
        };
        let mut texts: Vec<String> =
            attributes.iter().map(|pair| format!("{}={}", pair.key, text(&pair.value))).collect();
        texts.sort();
        format!("  {} => {value:?}\n", texts.join(", "))
    };
    let mut lines: Vec<String> =
        sum.data_points().map(|point| line(point.attributes().collect(), point.value())).collect();
    lines.sort();
    lines
}

impl PushMetricExporter for TextExporter {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        let mut text = String::new();
        for metric in metrics.scope_metrics().flat_map(ScopeMetrics::metrics) {
            let lines = match metric.data() {
                AggregatedMetrics::F64(data) => lines(data),
                AggregatedMetrics::U64(data) => lines(data),
                AggregatedMetrics::I64(data) => lines(data),
            };
            let _ = writeln!(text, "{} [{}] {}", metric.name(), metric.unit(), metric.description());
            text.extend(lines);
        }
        *self.0.lock().unwrap() = text;
        Ok(())
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        Temporality::Cumulative
    }
}

/// Returns what is exported, as text.
fn exported(totals: AgentTotals) -> String {
    let text = Arc::<Mutex<String>>::default();
    let reader = PeriodicReader::builder(TextExporter(Arc::clone(&text))).build();
    let provider = SdkMeterProvider::builder().with_reader(reader).build();
    define_instruments(&provider.meter("overhead"), &LatestTotals::new(Mutex::new(Arc::new(totals))));
    provider.force_flush().unwrap();
    std::mem::take(&mut text.lock().unwrap())
}

#[test]
fn the_summary_has_zones_costs_and_what_has_no_text() {
    let mut all = totals();
    let unseen = format!("{PREPARED_BEFORE}_pg3_0, 1 parameter)");
    let encrypted = (Protocol::Resp, ENCRYPTED.to_owned(), String::new());
    for (protocol, name, statement) in [(Protocol::Pgwire, "EXECUTE".to_owned(), unseen), encrypted] {
        let operations = TrafficPart::Operations { class: Class::Workload, protocol, name, statement };
        all.parts.push(part(server("[::1]:5432", "postgres", "docker db"), operations, None));
    }
    let text = summary(&all);
    // A minute costs 1.75.
    assert!(
        text.contains("  zones a > unknown: ") && text.contains(", cost 1.750000, at this rate 75,600 in 30 days\n"),
        "{text}"
    );
    for line in [
        "without text: 1,234 of statements that no window saw being prepared\n",
        "without text: 1,234 of TLS without keys\n",
        "TLS: secrets of 11 open connections; 12 connections in windows not decrypted\n",
    ] {
        assert!(text.contains(line), "{line} {text}");
    }
}

#[test]
fn both_exporters_write_all_metrics() {
    assert_eq!(format!("{}\n{}", exposition(totals()), exported(totals())), include_str!("metrics.txt"));
}
