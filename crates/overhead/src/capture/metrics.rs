//! The figures of a running capture as Prometheus scrapes them (`--metrics`), in the OpenMetrics text format.
//!
//! Series have the names of operations as labels, never statements, keys or addresses: what a scrape shows holds no user
//! data. Names beyond a bound share series, so that the number of series is bounded.

mod scrape;

use anyhow::{Context, Result};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinHandle};

pub use scrape::ScrapedMetrics;

/// Scrapers at once. More are not needed, and each takes a descriptor.
const CONNECTIONS: usize = 64;
/// A scraper that takes longer is cut off.
const PATIENCE: Duration = Duration::from_secs(10);
const FORMAT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A scrape that waits for its answer.
pub type Scrape = oneshot::Sender<String>;

/// Listens for scrapes.
pub struct MetricsServer {
    scrapes: mpsc::Receiver<Scrape>,
    accepting: JoinHandle<()>,
}

impl MetricsServer {
    /// Begins to listen.
    ///
    /// # Errors
    ///
    /// The address cannot be bound: another program has it, or it is not this machine's.
    pub fn listen(address: SocketAddr) -> Result<Self> {
        let listener = std::net::TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener)
        });
        let listener =
            listener.with_context(|| format!("--metrics {address} cannot be listened on: choose another"))?;
        let (send, scrapes) = mpsc::channel(CONNECTIONS);
        Ok(Self { scrapes, accepting: tokio::spawn(accept(listener, send)) })
    }

    /// Waits for a scrape. May be given up and called again.
    pub async fn next(&mut self) -> Scrape {
        match self.scrapes.recv().await {
            Some(scrape) => scrape,
            // Nobody listens any more.
            None => std::future::pending().await,
        }
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// A connection, until it ends.
struct ScraperConnection {
    serving: AbortHandle,
    /// Its request is here.
    has_asked: Arc<AtomicBool>,
}

/// Accepts connections. If there are too many, the one that has been silent longest is closed, so that connections on which
/// nobody asks anything keep no scraper out.
async fn accept(listener: TcpListener, scrapes: mpsc::Sender<Scrape>) {
    let mut scrapers = VecDeque::<ScraperConnection>::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Of descriptors, say, there may be some again soon.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        scrapers.retain(|scraper| !scraper.serving.is_finished());
        if scrapers.len() >= CONNECTIONS {
            let silent = scrapers.iter().position(|scraper| !scraper.has_asked.load(Ordering::Relaxed));
            scrapers.remove(silent.unwrap_or(0)).inspect(|scraper| scraper.serving.abort());
        }
        let has_asked = Arc::<AtomicBool>::default();
        let serving = tokio::time::timeout(PATIENCE, serve(stream, scrapes.clone(), Arc::clone(&has_asked)));
        scrapers.push_back(ScraperConnection { serving: tokio::spawn(serving).abort_handle(), has_asked });
        // Reads its request before accepting others.
        tokio::task::yield_now().await;
    }
}

async fn serve(stream: TcpStream, scrapes: mpsc::Sender<Scrape>, has_asked: Arc<AtomicBool>) {
    let service = service_fn(|request| {
        has_asked.store(true, Ordering::Relaxed);
        answer(request, scrapes.clone())
    });
    let mut server = hyper::server::conn::http1::Builder::new();
    // A connection that fails is its scraper's concern.
    let _ = server.timer(TokioTimer::new()).keep_alive(false).serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(
    request: Request<Incoming>,
    scrapes: mpsc::Sender<Scrape>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => {
            let (send, receive) = oneshot::channel();
            let _ = scrapes.send(send).await;
            match receive.await {
                Ok(text) => (StatusCode::OK, text),
                Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the capture is over\n".to_owned()),
            }
        }
        (&Method::GET, _) => (StatusCode::NOT_FOUND, "the metrics are at /metrics\n".to_owned()),
        _ => (StatusCode::METHOD_NOT_ALLOWED, "GET /metrics\n".to_owned()),
    };
    let kind = if status == StatusCode::OK { FORMAT } else { "text/plain; charset=utf-8" };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[tokio::test]
    async fn silent_connections_keep_no_scraper_out() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap();
        let mut server = MetricsServer::listen(free).unwrap();
        let scraper = tokio::task::spawn_blocking(move || {
            let connect = || std::net::TcpStream::connect(free).unwrap();
            let silent: Vec<_> = (0..3 * CONNECTIONS).map(|_| connect()).collect();
            let mut stream = connect();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            drop(silent);
            text
        });
        let scrape = tokio::time::timeout(PATIENCE / 2, server.next()).await.expect("it gets through");
        scrape.send("all of it\n".to_owned()).unwrap();
        assert!(scraper.await.unwrap().ends_with("all of it\n"));
    }
}
