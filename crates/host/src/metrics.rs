//! Serves metrics to Prometheus: in the OpenMetrics text format to those who accept it, and in the older one to others.

use anyhow::{Context, Result};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use rustix::time::{ClockId, clock_gettime};
use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::AbortHandle;

/// Names and values of the labels of a series.
pub type SeriesLabels<'a> = Vec<(&'static str, &'a str)>;

/// Maximum number of simultaneous scrapers. Each takes a descriptor.
const CONNECTIONS: usize = 64;
/// Age above which a body is made anew: however many scrapers there are, a body costs no more than this allows.
const FRESH: Duration = Duration::from_secs(1);
/// Time after which a slow scraper is disconnected.
const PATIENCE: Duration = Duration::from_secs(10);
const FORMAT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const OLDER_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The path of the metrics.
pub const METRICS: &str = "/metrics";

/// A scrape that waits for its answer.
pub struct Scrape {
    /// The requested path, one of the served.
    pub path: &'static str,
    answer: oneshot::Sender<Bytes>,
}

impl Scrape {
    /// Answers with the body of the response.
    pub fn send(self, text: String) {
        // The scraper may have disconnected.
        let _ = self.answer.send(text.into());
    }
}

/// Returns whether a token is right.
pub type TokenCheck = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// The latest body of each path, and when it was requested.
type LatestBodies = HashMap<&'static str, (Instant, Bytes)>;

/// Where scrapes go, and who may scrape.
#[derive(Clone)]
struct ScrapeAdmission {
    scrapes: mpsc::Sender<Scrape>,
    paths: &'static [&'static str],
    admits: Option<TokenCheck>,
    /// Locked while a body is made, so that all who wait get the same one.
    latest: Arc<Mutex<LatestBodies>>,
    cpu_ns: Arc<AtomicU64>,
}

impl ScrapeAdmission {
    /// Returns the body of a path; `None` after the end.
    async fn body(&self, path: &'static str) -> Option<Bytes> {
        let mut latest = self.latest.lock().await;
        if let Some((_, body)) = latest.get(path).filter(|(requested, _)| requested.elapsed() < FRESH) {
            return Some(body.clone());
        }
        let (requested, (answer, receive)) = (Instant::now(), oneshot::channel());
        let _ = self.scrapes.send(Scrape { path, answer }).await;
        let body = receive.await.ok()?;
        latest.insert(path, (requested, body.clone()));
        Some(body)
    }

    fn has(&self, request: &Request<Incoming>) -> bool {
        let Some(admits) = &self.admits else { return true };
        let shown = request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes);
        shown.and_then(|shown| shown.strip_prefix(b"Bearer ")).is_some_and(|token| admits(token))
    }
}

/// Listens for scrapes, in a thread of its own.
pub struct MetricsServer {
    scrapes: mpsc::Receiver<Scrape>,
    cpu_ns: Arc<AtomicU64>,
    serving: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Starts to listen at the address of an option, and to serve these paths. With `admits`, a scraper must show what it accepts, as
    /// `Authorization: Bearer TOKEN`.
    ///
    /// # Errors
    ///
    /// The address cannot be bound: another program uses it, or it does not belong to this machine.
    pub fn listen(
        option: &str,
        address: SocketAddr,
        paths: &'static [&'static str],
        admits: Option<TokenCheck>,
    ) -> Result<Self> {
        let listener =
            std::net::TcpListener::bind(address).and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
        let listener = listener.with_context(|| format!("{option} {address} cannot be listened on: choose another"))?;
        let (send, scrapes) = mpsc::channel(CONNECTIONS);
        let (latest, cpu_ns) = (Arc::default(), Arc::<AtomicU64>::default());
        let admission = ScrapeAdmission { scrapes: send, paths, admits, latest, cpu_ns: Arc::clone(&cpu_ns) };
        let runtime = crate::runtime()?;
        let serve = move || _ = runtime.block_on(accept(listener, admission));
        let serving = std::thread::Builder::new().name("metrics".to_owned()).spawn(serve)?;
        Ok(Self { scrapes, cpu_ns, serving: Some(serving) })
    }

    /// Returns the CPU time of its thread.
    pub fn cpu(&self) -> Duration {
        Duration::from_nanos(self.cpu_ns.load(Ordering::Relaxed))
    }

    /// Waits for a scrape. Cancel-safe.
    pub async fn next(&mut self) -> Scrape {
        match self.scrapes.recv().await {
            Some(scrape) => scrape,
            // The listener has ended.
            None => std::future::pending().await,
        }
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.scrapes.close();
        self.serving.take().map(JoinHandle::join);
    }
}

/// A connection from a scraper.
struct ScraperConnection {
    serving: AbortHandle,
    /// Whether its request was received.
    has_asked: Arc<AtomicBool>,
}

/// Accepts connections. If there are too many, closes the one that has been silent longest, so that idle connections
/// keep no scraper out. Ends when nobody answers scrapes any more.
async fn accept(listener: std::net::TcpListener, admission: ScrapeAdmission) -> std::io::Result<()> {
    let (listener, mut scrapers) = (TcpListener::from_std(listener)?, VecDeque::<ScraperConnection>::new());
    loop {
        admission.cpu_ns.store(thread_cpu().as_nanos() as u64, Ordering::Relaxed);
        let accepted = tokio::select! {
            () = admission.scrapes.closed() => return Ok(()),
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            // Resources such as descriptors may become free soon.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        scrapers.retain(|scraper| !scraper.serving.is_finished());
        if scrapers.len() >= CONNECTIONS {
            let silent = scrapers.iter().position(|scraper| !scraper.has_asked.load(Ordering::Relaxed));
            scrapers.remove(silent.unwrap_or(0)).inspect(|scraper| scraper.serving.abort());
        }
        let has_asked = Arc::<AtomicBool>::default();
        let serving = tokio::time::timeout(PATIENCE, serve(stream, admission.clone(), Arc::clone(&has_asked)));
        scrapers.push_back(ScraperConnection { serving: tokio::spawn(serving).abort_handle(), has_asked });
        // Lets its request be read before others are accepted.
        tokio::task::yield_now().await;
    }
}

/// Returns the CPU time of this thread.
pub fn thread_cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

async fn serve(stream: TcpStream, admission: ScrapeAdmission, has_asked: Arc<AtomicBool>) {
    let service = service_fn(|request| {
        has_asked.store(true, Ordering::Relaxed);
        answer(request, admission.clone())
    });
    let mut server = hyper::server::conn::http1::Builder::new();
    // An error concerns only this scraper.
    let _ = server.timer(TokioTimer::new()).keep_alive(false).serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(request: Request<Incoming>, admission: ScrapeAdmission) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = admission.paths.iter().find(|path| **path == request.uri().path());
    let accepts = request.headers().get_all(ACCEPT).iter().filter_map(|accepted| accepted.to_str().ok());
    let is_new = accepts.into_iter().any(|accepted| accepted.contains("application/openmetrics-text"));
    let (status, text) = match (request.method(), path) {
        _ if !admission.has(&request) => {
            let fix: &[u8] = b"send the agent's token, as `Authorization: Bearer TOKEN`\n";
            (StatusCode::UNAUTHORIZED, Bytes::from_static(fix))
        }
        (&Method::GET, Some(path)) => match admission.body(path).await {
            Some(body) if **path == *METRICS && !is_new => (StatusCode::OK, older_format(&body).into()),
            Some(body) => (StatusCode::OK, body),
            None => (StatusCode::SERVICE_UNAVAILABLE, Bytes::from_static(b"the capture is over\n")),
        },
        (&Method::GET, None) => (StatusCode::NOT_FOUND, Bytes::from_static(b"the metrics are at /metrics\n")),
        _ => (StatusCode::METHOD_NOT_ALLOWED, Bytes::from_static(b"GET /metrics\n")),
    };
    let kind = match (status, path) {
        (StatusCode::OK, Some(&METRICS)) if is_new => FORMAT,
        (StatusCode::OK, Some(&METRICS)) => OLDER_FORMAT,
        (StatusCode::OK, _) => "application/json",
        _ => "text/plain; charset=utf-8",
    };
    let mut response = Response::new(Full::new(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}

/// Returns metrics in Prometheus's older text format, where a name has its suffix everywhere.
fn older_format(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let suffixes = text.lines().filter_map(|line| match line.strip_prefix("# TYPE ")?.split_once(' ')? {
        (name, "counter") => Some((name, "_total")),
        (name, "info") => Some((name, "_info")),
        _ => None,
    });
    let suffixes: HashMap<&str, &str> = suffixes.collect();
    let mut out = String::with_capacity(text.len());
    for line in text.lines().filter(|line| *line != "# EOF") {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some(kind), Some(name), Some(rest)) if suffixes.contains_key(name) => {
                let rest = if (kind, rest) == ("TYPE", "info") { "gauge" } else { rest };
                out.extend(["# ", kind, " ", name, suffixes[name], " ", rest, "\n"]);
            }
            _ => out.extend([line, "\n"]),
        }
    }
    out
}

/// Returns the metrics in the OpenMetrics text format.
pub fn text_of(metrics: impl Collector) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(metrics));
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    text
}

fn encode_each<'a, V>(
    mut family: MetricEncoder<'_>,
    values: impl IntoIterator<Item = (SeriesLabels<'a>, V)>,
    encode: impl Fn(&mut MetricEncoder<'_>, &V) -> fmt::Result,
) -> fmt::Result {
    values.into_iter().try_for_each(|(labels, value)| match labels.as_slice() {
        [] => encode(&mut family, &value),
        _ => encode(&mut family.encode_family(&labels)?, &value),
    })
}

/// Writes a gauge with its value for each set of labels.
pub fn gauge<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl IntoIterator<Item = (SeriesLabels<'a>, f64)>,
) -> fmt::Result {
    let family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    encode_each(family, values, |series, &value| series.encode_gauge(&value))
}

/// Writes a counter with its value for each set of labels.
pub fn counter<'a, V: EncodeCounterValue>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl IntoIterator<Item = (SeriesLabels<'a>, V)>,
) -> fmt::Result {
    let family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    encode_each(family, values, |series, value| series.encode_counter::<NoLabelSet, V, f64>(value, None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn names_have_their_suffix_everywhere_in_the_older_format() {
        let new = "# HELP a_b Bytes\n# TYPE a_b counter\na_b_total{x=\"# y\"} 1\n# HELP c C\n# TYPE c info\nc_info{v=\"1\"} 1\n\
                   # HELP d D\n# TYPE d gauge\nd 2\n# EOF\n";
        let old = "# HELP a_b_total Bytes\n# TYPE a_b_total counter\na_b_total{x=\"# y\"} 1\n# HELP c_info C\n# TYPE c_info gauge\n\
                   c_info{v=\"1\"} 1\n# HELP d D\n# TYPE d gauge\nd 2\n";
        assert_eq!(older_format(new.as_bytes()), old);
    }

    fn scrape(address: SocketAddr) -> String {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    fn server() -> (MetricsServer, SocketAddr) {
        let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap();
        (MetricsServer::listen("--metrics", free, &[METRICS], None).unwrap(), free)
    }

    #[tokio::test]
    async fn silent_connections_keep_no_scraper_out() {
        let (mut server, address) = server();
        let scraper = tokio::task::spawn_blocking(move || {
            let silent: Vec<_> = (0..3 * CONNECTIONS).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
            let text = scrape(address);
            drop(silent);
            text
        });
        let scrape = tokio::time::timeout(PATIENCE / 2, server.next()).await.expect("it gets through");
        scrape.send("all of it\n".to_owned());
        assert!(scraper.await.unwrap().ends_with("all of it\n"));
    }

    #[tokio::test]
    async fn thousands_of_scrapes_make_a_body_once_per_second() {
        let (mut server, address) = server();
        let started = Instant::now();
        let flood = move || (0..1_000).map(|_| scrape(address)).filter(|text| text.ends_with("a body\n")).count();
        let mut clients: Vec<_> = (0..3).map(|_| tokio::task::spawn_blocking(flood)).collect();
        let (mut made, mut answered) = (0, 0);
        while let Some(client) = clients.last_mut() {
            tokio::select! {
                scrape = server.next() => {
                    made += 1;
                    scrape.send("a body\n".to_owned());
                }
                done = client => {
                    answered += done.unwrap();
                    clients.pop();
                }
            }
        }
        assert_eq!(answered, 3_000);
        assert!(made <= 1 + started.elapsed().as_secs(), "{made}");
        assert!(server.cpu() > Duration::ZERO, "what they cost is known");
    }
}
