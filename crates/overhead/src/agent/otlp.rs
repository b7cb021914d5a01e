//! The agent's metrics over OTLP, by OpenTelemetry's own crates, with attributes of its semantic conventions.
//!
//! Counters are cumulative. So an export that fails loses no bytes: the next one has them.

use super::config::AgentOtlp;
use super::exposition::label;
use super::figures::{AgentFigures, FlowFigures, PartFigures, ServerWords, seen_at};
use super::flows::wire_bytes;
use super::{host_name, http_client};
use anyhow::{Context, Result};
use async_trait::async_trait;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Meter, MeterProvider};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{MetricExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider, Stream, Temporality};
use overhead_model::Side;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Time that an export may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Series of a metric. The agent's own bounds are lower.
const SERIES: usize = 100_000;

type LatestFigures = Arc<Mutex<Arc<AgentFigures>>>;

/// A running exporter, in a thread of its own.
pub struct OtlpExport {
    provider: SdkMeterProvider,
    latest: LatestFigures,
    failures: Arc<AtomicU64>,
}

impl OtlpExport {
    /// Starts to export the figures that [`OtlpExport::publish`] gives.
    pub fn start(settings: &AgentOtlp, figures: AgentFigures) -> Result<Self> {
        let exporter = MetricExporter::builder().with_http().with_http_client(CollectorClient(http_client(PATIENCE)));
        let exporter = exporter.with_endpoint(&settings.endpoint).with_timeout(PATIENCE).build();
        let exporter = exporter.with_context(|| format!("otlp.endpoint: {}", settings.endpoint))?;
        let failures = Arc::<AtomicU64>::default();
        let exporter = CountingExporter { exporter, failures: Arc::clone(&failures) };
        let resource = [
            KeyValue::new("service.name", "overhead-agent"),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("host.name", host_name()),
        ];
        let provider = SdkMeterProvider::builder()
            .with_reader(PeriodicReader::builder(exporter).with_interval(settings.interval).build())
            .with_resource(Resource::builder_empty().with_attributes(resource).build())
            .with_view(|_| Stream::builder().with_cardinality_limit(SERIES).build().ok())
            .build();
        let latest = Arc::new(Mutex::new(Arc::new(figures)));
        let instruments = Instruments { meter: provider.meter("overhead"), latest: Arc::clone(&latest) };
        instruments.of_flows();
        instruments.of_parts();
        Ok(Self { provider, latest, failures })
    }

    /// Replaces the figures.
    pub fn publish(&self, figures: AgentFigures) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(figures);
    }

    /// Returns how many exports have failed.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}

impl Drop for OtlpExport {
    fn drop(&mut self) {
        // Exports once more. The collector may be gone.
        let _ = self.provider.shutdown();
    }
}

/// Sends exports, and waits for the answers: the exporter's thread has nothing else to do.
#[derive(Debug)]
struct CollectorClient(ureq::Agent);

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let (parts, mut body) = self.0.run(Request::from_parts(parts, body.to_vec()))?.into_parts();
        Ok(Response::from_parts(parts, body.read_to_vec()?.into()))
    }
}

/// Counts the exports that fail.
struct CountingExporter {
    exporter: MetricExporter,
    failures: Arc<AtomicU64>,
}

impl PushMetricExporter for CountingExporter {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        let result = self.exporter.export(metrics).await;
        self.failures.fetch_add(result.is_err().into(), Ordering::Relaxed);
        result
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> Temporality {
        self.exporter.temporality()
    }
}

/// Defines instruments that read the latest figures.
struct Instruments {
    meter: Meter,
    latest: LatestFigures,
}

impl Instruments {
    fn of_flows(&self) {
        let each = |flow: &FlowFigures, observe: &mut dyn FnMut(u64, &[KeyValue])| {
            by_side(wire_bytes(&flow.totals), flow_attributes(flow), observe);
        };
        self.counter("overhead.wire.io", "By", "Bytes on the wire, from TCP's counters", move |figures, observe| {
            figures.flows.iter().for_each(|flow| each(flow, observe));
        });
        self.counter("overhead.retransmissions", "{segment}", "Segments sent again", |figures, observe| {
            for flow in &figures.flows {
                observe(flow.totals.retransmitted_segments, &flow_attributes(flow));
            }
        });
        self.counter("overhead.connections", "{connection}", "Connections opened, or met open", |figures, observe| {
            for flow in &figures.flows {
                observe(flow.totals.opened, &flow_attributes(flow));
            }
        });
        self.amount("overhead.cost", "What the bytes cost, by the settings' prices", |figures, observe| {
            for (flow, costs) in figures.flows.iter().filter_map(|flow| Some((flow, flow.costs?))) {
                by_side(costs, flow_attributes(flow), observe);
            }
        });
    }

    fn of_parts(&self) {
        let help = "Bytes on the wire of a statement, divided as capture windows show";
        self.counter("overhead.statement.wire.io", "By", help, |figures, observe| {
            figures.parts.iter().for_each(|part| by_side(part.sides, part_attributes(part), observe));
        });
        self.amount("overhead.statement.operations", "Operations, estimated", |figures, observe| {
            for part in &figures.parts {
                observe(part.total.operations.value, &part_attributes(part));
            }
        });
        self.amount("overhead.statement.cost", "What the statement's bytes cost", |figures, observe| {
            for (part, cost) in figures.parts.iter().filter_map(|part| Some((part, part.cost?))) {
                observe(cost, &part_attributes(part));
            }
        });
    }

    fn counter(
        &self,
        name: &'static str,
        unit: &'static str,
        help: &'static str,
        each: impl Fn(&AgentFigures, &mut dyn FnMut(u64, &[KeyValue])) + Send + Sync + 'static,
    ) {
        let latest = Arc::clone(&self.latest);
        let counter = self.meter.u64_observable_counter(name).with_unit(unit).with_description(help);
        counter
            .with_callback(move |observer| {
                each(&now(&latest), &mut |value, attributes| observer.observe(value, attributes));
            })
            .build();
    }

    fn amount(
        &self,
        name: &'static str,
        help: &'static str,
        each: impl Fn(&AgentFigures, &mut dyn FnMut(f64, &[KeyValue])) + Send + Sync + 'static,
    ) {
        let latest = Arc::clone(&self.latest);
        let counter = self.meter.f64_observable_counter(name).with_description(help);
        counter
            .with_callback(move |observer| {
                each(&now(&latest), &mut |value, attributes| observer.observe(value, attributes));
            })
            .build();
    }
}

fn now(latest: &LatestFigures) -> Arc<AgentFigures> {
    Arc::clone(&latest.lock().unwrap_or_else(PoisonError::into_inner))
}

fn by_side<V: Copy>(values: [V; 2], mut attributes: Vec<KeyValue>, observe: &mut dyn FnMut(V, &[KeyValue])) {
    for (side, value) in Side::BOTH.into_iter().zip(values) {
        attributes.push(KeyValue::new("overhead.side", side.name()));
        observe(value, &attributes);
        attributes.pop();
    }
}

fn server_attributes(server: &ServerWords) -> Vec<KeyValue> {
    let (address, port) = server.address.rsplit_once(':').unwrap_or_default();
    let mut attributes = vec![
        KeyValue::new("server.address", address.trim_matches(['[', ']']).to_owned()),
        KeyValue::new("server.port", port.parse::<i64>().unwrap_or_default()),
        KeyValue::new("db.system.name", system_name(server.system)),
    ];
    if !server.container.is_empty() {
        attributes.push(KeyValue::new("container.name", server.container.clone()));
    }
    attributes
}

/// Returns the name of OpenTelemetry's semantic conventions.
fn system_name(system: &'static str) -> &'static str {
    match system {
        "postgres" => "postgresql",
        "memcache" => "memcached",
        other => other,
    }
}

fn zone_attributes([client, server]: &[String; 2]) -> [KeyValue; 2] {
    let of = |key, zone: &String| KeyValue::new(key, zone.clone());
    [of("overhead.client.zone", client), of("overhead.server.zone", server)]
}

fn flow_attributes(flow: &FlowFigures) -> Vec<KeyValue> {
    let mut attributes = server_attributes(&flow.server);
    attributes.extend(zone_attributes(&flow.zones));
    attributes.push(KeyValue::new("client.address", flow.client.clone()));
    attributes.push(KeyValue::new("overhead.client.container", flow.client_container.clone()));
    attributes.push(KeyValue::new("overhead.seen_at", seen_at(flow.at_server)));
    attributes
}

fn part_attributes(part: &PartFigures) -> Vec<KeyValue> {
    let mut attributes = server_attributes(&part.server);
    attributes.extend(zone_attributes(&part.zones));
    let [class, operation, statement] = part.labels().map(label);
    attributes.push(KeyValue::new("overhead.class", class));
    attributes.push(KeyValue::new("db.operation.name", operation));
    attributes.push(KeyValue::new("db.query.text", statement));
    attributes
}
