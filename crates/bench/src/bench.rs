//! A whole benchmark: make the rows, measure every combination, remove the rows.

use crate::cli::BenchJob;
use crate::data::IdSource;
use crate::driver::{self, BenchObjects, DatabaseDriver, DriverConnection, DriverOptions};
use crate::fault::sentence;
use crate::output::BenchReport;
use crate::plan::{BenchCell, BenchOp, BenchPhase, OperationMix, RunLength, cells};
use crate::run::{RunPlan, run as run_once};
use crate::stop::StopRequest;
use crate::target::{BenchTarget, ServerEndpoint};
use crate::tls::TlsTrust;
use anyhow::{Context, Error, Result, anyhow, bail};
use futures_util::future::join_all;
use futures_util::{StreamExt, TryStreamExt, stream};
use overhead_model::exit::{self, ABORTED, StatusFault};
use overhead_model::load::{LOAD_VERSION, Load, LoadDriver, LoadResult, LoadServer, LoadSettings, LoadSummary};
use overhead_model::record::Tool;
use overhead_model::{Protocol, bail_usage, say};
use overhead_protocols::facts;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Builder;
use tokio::time::timeout;

/// Clients that connect concurrently.
const CONNECTING: usize = 8;

/// After a stop request, time for pending setup requests to finish.
const SETTLE: Duration = Duration::from_secs(1);

/// Runs the job with the driver for its protocol. Returns the exit status.
pub fn run(job: BenchJob) -> Result<u8> {
    TlsTrust::install_provider();
    match job.system.protocol {
        #[cfg(feature = "redis")]
        Protocol::Resp => with::<driver::redis::RedisDriver>(job),
        #[cfg(feature = "postgres")]
        Protocol::Pgwire => with::<driver::postgres::PostgresDriver>(job),
        #[cfg(feature = "scylla")]
        Protocol::Cql => with::<driver::scylla::ScyllaDriver>(job),
        #[cfg(feature = "mongodb")]
        Protocol::Mongo => with::<driver::mongodb::MongoDriver>(job),
        #[cfg(feature = "memcached")]
        Protocol::Memcache => with::<driver::memcached::MemcachedDriver>(job),
        #[cfg(feature = "http")]
        Protocol::Http => with::<driver::http::HttpDriver>(job),
        #[cfg(feature = "mysql")]
        Protocol::Mysql => with::<driver::mysql::MysqlDriver>(job),
        #[allow(unreachable_patterns, reason = "reached if the build leaves out a driver")]
        _ => Err(StatusFault::usage(format!("{}: this build has no driver for it", job.system.name)).into()),
    }
}

fn with<D: DatabaseDriver>(job: BenchJob) -> Result<u8> {
    if let Some(other) =
        job.mixes.iter().flat_map(OperationMix::operations).find(|operation| !D::OPERATIONS.contains(operation))
    {
        bail_usage!("{}: not an operation of {}", other.name(), job.system.name);
    }
    if !D::SOCKETS {
        job.target.servers.iter().try_for_each(|server| server.tcp().map(drop))?;
    }
    job.options.allow_only(D::TITLE, D::OPTIONS)?;
    if job.options.pipeline > 1 && !D::PIPELINES && job.options.multi_key != Some(true) {
        bail_usage!(
            "--pipeline: the driver of {} waits for each answer before the next request: leave it out, or add \
             --multi-key on for one request of several rows, which a capture counts as one operation",
            job.system.name
        );
    }
    let driver = D::new(job.target.clone(), job.options.clone())?;
    let threads = job.options.threads;
    let mut builder = if threads == 1 { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    let runtime = builder.worker_threads(threads as usize).enable_all().build()?;
    let status = runtime.block_on(Benchmark::new(job, driver).run());
    // Do not wait for tasks that are stuck on a dead server.
    runtime.shutdown_timeout(Duration::from_millis(100));
    status
}

struct Benchmark<D> {
    job: BenchJob,
    driver: D,
    ids: Arc<IdSource>,
    stop: StopRequest,
}

impl<D: DatabaseDriver> Benchmark<D> {
    fn new(job: BenchJob, driver: D) -> Self {
        let ids = Arc::new(IdSource::new(job.options.rows, D::INSERT_IDS));
        Self { job, driver, ids, stop: StopRequest::default() }
    }

    /// Runs the requested phases. Cleans up even after an error.
    async fn run(&self) -> Result<u8> {
        self.stop.on_signals()?;
        if self.job.phase == BenchPhase::ListStatements {
            let list = self.unless_stopped(self.within_timeout(self.driver.prepared_statements())).await?;
            return exit::print_as_it_is(&list.to_string()).map(|()| exit::COMPLETE).context("standard output");
        }
        let mut report = BenchReport::new(&self.job, self.record());
        if self.job.phase != BenchPhase::Measure {
            let versions = self.within_timeout(self.driver.versions()).await?;
            report.set_versions(versions);
        }
        let done = self.set_up_and_measure(&mut report).await;
        let removed = self.clean_up().await;
        if self.stop.is_aborting() {
            return Ok(ABORTED);
        }
        let done = done.or_else(|error| report.keep_partial(error));
        if let Err(error) = removed {
            say!("overhead bench: {}", sentence(&error));
            report.is_partial = true;
        }
        done.and_then(|()| report.finish())
    }

    async fn set_up_and_measure(&self, report: &mut BenchReport) -> Result<()> {
        if self.job.phase.sets_up() {
            let DriverOptions { rows, payload, .. } = self.job.options;
            let made = async { self.driver.objects().await?.set_up(rows, payload).await };
            self.unless_stopped(made).await.context("the rows could not be made")?;
        }
        if !self.job.phase.measures() {
            return Ok(());
        }
        let cells = cells(&self.job.mixes, &self.job.clients, &self.job.pipelines);
        for (done, cell) in cells.iter().enumerate() {
            if done > 0 && self.job.phase.sets_up() && cell.mix.operations().into_iter().any(BenchOp::inserts) {
                let removed = async { self.driver.objects().await?.remove_inserted(self.job.options.rows).await };
                self.unless_stopped(removed).await.context("inserted rows could not be removed")?;
            }
            let result = self.measure(cell).await?;
            let partial = result.partial.clone();
            report.add(result)?;
            if let Some(reason) = partial {
                bail!("{reason}: {} of {} results are complete", done, cells.len());
            }
        }
        Ok(())
    }

    async fn measure(&self, cell: &BenchCell) -> Result<LoadResult> {
        let operations = cell.mix.operations();
        let connect = |_| self.within_timeout(self.driver.connect(&operations));
        let clients = stream::iter(0..cell.clients).map(connect).buffered(CONNECTING).try_collect();
        let mut connections: Vec<D::Connection> = self.unless_stopped(clients).await?;
        if !self.job.warmup.is_zero() {
            connections =
                run_once(connections, self.run_plan(cell, RunLength::Time(self.job.warmup))).await?.connections;
        }
        let mut result = LoadResult {
            operation: cell.mix.name().to_owned(),
            mix: cell.mix.record(),
            clients: cell.clients,
            pipeline: cell.pipeline,
            rate: self.job.rate,
            runs: Vec::new(),
            summary: None,
            partial: None,
        };
        while result.partial.is_none() && result.runs.len() < self.job.runs as usize {
            let outcome = run_once(connections, self.run_plan(cell, self.job.length)).await?;
            connections = outcome.connections;
            result.partial.clone_from(&outcome.run.partial);
            result.runs.push(outcome.run);
        }
        result.summary = LoadSummary::from_runs(&result.runs);
        if result.partial.is_none() {
            join_all(connections.into_iter().map(DriverConnection::close)).await;
        }
        Ok(result)
    }

    fn run_plan(&self, cell: &BenchCell, length: RunLength) -> RunPlan {
        RunPlan {
            mix: cell.mix.clone(),
            pipeline: cell.pipeline,
            rate: self.job.rate,
            length,
            ids: Arc::clone(&self.ids),
            timeout: self.job.target.timeout,
            stop: self.stop.clone(),
        }
    }

    /// Removes what was made, unless the phase keeps it.
    async fn clean_up(&self) -> Result<()> {
        if !self.job.phase.cleans_up() {
            return Ok(());
        }
        let removed = match self.within_timeout(self.driver.versions()).await {
            Ok(_) => async { self.driver.objects().await?.clean_up().await }.await,
            Err(error) => Err(error),
        };
        let found = removed.context("what was made is still there; remove it later with --cleanup-only")?;
        if !found && self.job.phase == BenchPhase::CleanUp && !self.job.quiet {
            say!("overhead bench: nothing to remove");
        }
        Ok(())
    }

    /// Returns the server's answer, or an error that explains why there is none.
    async fn within_timeout<T>(&self, question: impl Future<Output = Result<T>>) -> Result<T> {
        let timeout = self.job.target.timeout;
        let error = match tokio::time::timeout(timeout, question).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) if error.is::<StatusFault>() => return Err(error),
            Ok(Err(error)) => error,
            Err(_) => anyhow!("no answer within {} s", timeout.as_secs_f64()),
        };
        Err(explain(&self.job.target, D::PROTOCOL, error).await)
    }

    async fn unless_stopped<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::pin!(work);
        tokio::select! {
            biased;
            result = &mut work => result,
            () = self.stop.wait() => {
                // A pending request could create an object after the cleanup.
                let _ = timeout(SETTLE, work).await;
                bail!(self.stop.reason().unwrap_or_default())
            }
        }
    }

    /// Returns a record without results.
    fn record(&self) -> Load {
        let servers = self.job.target.servers.iter();
        Load {
            schema_version: LOAD_VERSION,
            tool: Tool { name: "overhead".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() },
            command_line: self.job.command_line.clone(),
            db: self.job.system.name.to_owned(),
            protocol: D::PROTOCOL.name().to_owned(),
            driver: LoadDriver { name: D::NAME.to_owned(), version: D::VERSION.to_owned() },
            servers: servers.map(|server| LoadServer { address: server.to_string(), version: None }).collect(),
            rows: self.job.options.rows,
            payload_bytes: self.job.options.payload as u64,
            settings: LoadSettings {
                tls: self.job.target.tls.is_some(),
                threads: self.job.options.threads,
                ..self.job.options.settings(D::OPTIONS)
            },
            results: Vec::new(),
            partial: None,
        }
    }
}

/// Time limit per probe, enough for a server on another continent.
const PATIENCE: Duration = Duration::from_millis(700);

/// Returns the error as one sentence, with its cause if a probe finds it.
pub async fn explain(target: &BenchTarget, protocol: Protocol, error: Error) -> Error {
    for server in &target.servers {
        match connect(server, target.timeout).await {
            Err(cause) => return anyhow!("{server}: {cause}: is the server running, and is this its port?"),
            Ok(_) if target.tls.is_some() => {}
            Ok(_) => {
                if let Some(other) = detect_protocol(server).await.filter(|other| *other != protocol) {
                    return anyhow!(
                        "{server} speaks the protocol of {}, not that of {}",
                        other.title(),
                        protocol.title()
                    );
                }
            }
        }
    }
    let servers: Vec<String> = target.servers.iter().map(ToString::to_string).collect();
    let (servers, sentence) = (servers.join(", "), sentence(&error));
    if sentence.contains(&servers) { anyhow!(sentence) } else { anyhow!("{servers}: {sentence}") }
}

async fn connect(server: &ServerEndpoint, patience: Duration) -> Result<Box<dyn ServerStream>, String> {
    match timeout(patience, open_stream(server)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => Err("connection refused".to_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no connection within {} s", patience.as_secs_f64())),
    }
}

trait ServerStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ServerStream for S {}

async fn open_stream(server: &ServerEndpoint) -> io::Result<Box<dyn ServerStream>> {
    Ok(match server {
        ServerEndpoint::Tcp { host, port } => Box::new(TcpStream::connect((host.as_str(), *port)).await?),
        ServerEndpoint::Unix(path) => Box::new(UnixStream::connect(path).await?),
    })
}

/// Probes each protocol on a new connection with the smallest request that needs no login.
async fn detect_protocol(server: &ServerEndpoint) -> Option<Protocol> {
    for protocol in Protocol::ALL {
        let answer = timeout(PATIENCE, exchange(server, facts(protocol).greeting)).await;
        if answer.is_ok_and(|answer| answer.is_ok_and(|answer| (facts(protocol).is_greeted)(&answer))) {
            return Some(protocol);
        }
    }
    None
}

async fn exchange(server: &ServerEndpoint, question: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = open_stream(server).await?;
    stream.write_all(question).await?;
    let mut answer = vec![0; 64];
    let length = stream.read(&mut answer).await?;
    answer.truncate(length);
    Ok(answer)
}
