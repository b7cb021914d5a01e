//! The agent's metrics over OTLP, by OpenTelemetry's own crates, with attributes of its semantic conventions.
//!
//! Counters are cumulative. So an export that fails loses no bytes: the next one has them.

use super::config::{AgentOtlp, is_loopback};
use super::metrics::{METRICS, MetricKind, ReadSeries};
use super::totals::AgentTotals;
use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Meter, MeterProvider};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{MetricExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider, Stream, Temporality};
use overhead_host::metrics::SeriesLabels;
use overhead_model::System;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use ureq::tls::{RootCerts, TlsConfig};

/// Time that a request may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Series of a metric. The agent's own bounds are lower.
const SERIES: usize = 100_000;

pub type LatestTotals = Arc<Mutex<Arc<AgentTotals>>>;

/// Returns a client for a URL, which accepts any status as an answer and follows no redirect. A proxy of the environment would
/// lead away from this host, so URLs of this host have none.
pub fn http_client(url: &str) -> ureq::Agent {
    let config =
        ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).http_status_as_error(false).max_redirects(0);
    let config = if is_loopback(url) { config.proxy(None) } else { config };
    let roots = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier);
    config.tls_config(roots.build()).build().into()
}

/// Sends an export without metrics, to test that the collector takes it.
pub fn try_endpoint(endpoint: &str) -> Result<()> {
    let sent = http_client(endpoint).post(endpoint).content_type("application/x-protobuf").send_empty();
    let status = sent.with_context(|| format!("otlp.endpoint: {endpoint} cannot be reached"))?.status();
    if !status.is_success() {
        bail!("otlp.endpoint: {endpoint} takes no metrics: it answers with status {}", status.as_u16());
    }
    Ok(())
}

/// A running exporter, in a thread of its own.
pub struct OtlpExport {
    provider: SdkMeterProvider,
    latest: LatestTotals,
    failures: Arc<AtomicU64>,
}

impl OtlpExport {
    /// Starts to export these totals, and later those of [`OtlpExport::publish`].
    pub fn start(settings: &AgentOtlp, host: String, totals: AgentTotals) -> Result<Self> {
        let exporter =
            MetricExporter::builder().with_http().with_http_client(CollectorClient(http_client(&settings.endpoint)));
        let exporter = exporter.with_endpoint(&settings.endpoint).with_timeout(PATIENCE).build();
        let exporter = exporter.with_context(|| format!("otlp.endpoint: {}", settings.endpoint))?;
        let failures = Arc::<AtomicU64>::default();
        let exporter = CountingExporter { exporter, failures: Arc::clone(&failures) };
        let resource = [
            KeyValue::new("service.name", "overhead-agent"),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("host.name", host),
        ];
        let provider = SdkMeterProvider::builder()
            .with_reader(PeriodicReader::builder(exporter).with_interval(settings.interval).build())
            .with_resource(Resource::builder_empty().with_attributes(resource).build())
            .with_view(|_| Stream::builder().with_cardinality_limit(SERIES).build().ok())
            .build();
        let latest = LatestTotals::new(Mutex::new(Arc::new(totals)));
        define_instruments(&provider.meter("overhead"), &latest);
        Ok(Self { provider, latest, failures })
    }

    /// Replaces the totals.
    pub fn publish(&self, totals: AgentTotals) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(totals);
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

/// Counts the exports that fail after all attempts.
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

/// Defines an instrument for each exported metric, which reads the latest totals.
pub fn define_instruments(meter: &Meter, latest: &LatestTotals) {
    for metric in METRICS {
        let &[name, unit, help] = metric.otlp else { continue };
        match metric.kind {
            MetricKind::Counter(read) => {
                let counter = meter.u64_observable_counter(name).with_unit(unit).with_description(help);
                counter.with_callback(observe(latest, read)).build();
            }
            MetricKind::Amount(read) => {
                let counter = meter.f64_observable_counter(name).with_unit(unit).with_description(help);
                counter.with_callback(observe(latest, read)).build();
            }
            MetricKind::Gauge(read) => {
                let gauge = meter.f64_observable_gauge(name).with_unit(unit).with_description(help);
                gauge.with_callback(observe(latest, read)).build();
            }
        }
    }
}

fn observe<V>(latest: &LatestTotals, read: ReadSeries<V>) -> impl Fn(&dyn AsyncInstrument<V>) + Send + Sync + 'static
where
    V: 'static,
{
    let latest = Arc::clone(latest);
    move |instrument| {
        let totals = Arc::clone(&latest.lock().unwrap_or_else(PoisonError::into_inner));
        for (labels, value) in read(&totals) {
            instrument.observe(value, &attributes(&labels));
        }
    }
}

/// Returns labels as attributes. A server's container is absent if it has none.
fn attributes(labels: &SeriesLabels<'_>) -> Vec<KeyValue> {
    let mut attributes = Vec::with_capacity(labels.len() + 1);
    for &(label, value) in labels {
        let (key, value) = match label {
            "server" => {
                let (address, port) = value.rsplit_once(':').unwrap_or_default();
                attributes.push(KeyValue::new("server.port", port.parse::<i64>().unwrap_or_default()));
                ("server.address", address.trim_matches(['[', ']']))
            }
            "system" => ("db.system.name", System::otel_name(value)),
            "container" if value.is_empty() => continue,
            "container" => ("container.name", value),
            "client" => ("client.address", value),
            "client_name" => ("overhead.client.name", value),
            "client_container" => ("overhead.client.container", value),
            "client_zone" => ("overhead.client.zone", value),
            "server_zone" => ("overhead.server.zone", value),
            "operation" => ("db.operation.name", value),
            "statement" => ("db.query.text", value),
            "class" => ("overhead.class", value),
            "seen_at" => ("overhead.seen_at", value),
            "side" => ("overhead.side", value),
            other => (other, value),
        };
        attributes.push(KeyValue::new(key, value.to_owned()));
    }
    attributes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::totals;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{TcpListener, TcpStream};

    /// Answers requests with these statuses, the last of them again and again. All redirects lead to a place that takes
    /// anything.
    fn collector(statuses: &'static [u16]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answer = move |mut stream: TcpStream, status: u16| {
            let mut request = BufReader::new(stream.try_clone().unwrap());
            let head: Vec<_> =
                request.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
            let length =
                head.iter().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            // An end with unread data is a reset, after which the exporter tries again.
            request.read_exact(&mut vec![0; length.unwrap_or(0)]).unwrap();
            let status = if head[0].starts_with("POST /v1/metrics ") { status } else { 200 };
            let (location, close) = (format!("http://{address}/taken"), "Content-Length: 0\r\nConnection: close");
            write!(stream, "HTTP/1.1 {status} x\r\nLocation: {location}\r\n{close}\r\n\r\n").unwrap();
        };
        std::thread::spawn(move || {
            let last = statuses.last().copied();
            for status in statuses.iter().copied().chain(last.into_iter().cycle()) {
                answer(listener.accept().unwrap().0, status);
            }
        });
        format!("http://{address}/v1/metrics")
    }

    #[test]
    fn a_redirect_is_no_delivery() {
        for status in [301, 302, 303, 307, 308] {
            let endpoint = collector(Vec::leak(vec![status]));
            let settings = toml::from_str(&format!("endpoint = {endpoint:?}")).unwrap();
            let export = OtlpExport::start(&settings, String::new(), totals()).unwrap();
            // It may report the failure, too.
            let _ = export.provider.force_flush();
            assert_eq!(export.failures(), 1, "{status}");
        }
    }

    #[test]
    fn a_collector_is_tested_without_metrics() {
        let endpoint = collector(&[302, 404, 200]);
        for status in ["302", "404"] {
            let fault = try_endpoint(&endpoint).unwrap_err().to_string();
            assert!(fault.ends_with(&format!("it answers with status {status}")), "{fault}");
        }
        assert!(try_endpoint(&endpoint).is_ok());
    }
}
