//! A benchmark from its beginning to its end: make the rows, measure every combination, remove the rows.

use crate::cli::Job;
use crate::data::Ids;
use crate::driver::{Driver, Objects, Options, Session};
use crate::fault::{self, Fault};
use crate::output::Report;
use crate::plan::{Cell, Length, Mix, Operation, Phase, cells};
use crate::run::{Work, run as run_once};
use crate::stop::Stop;
use crate::tls::Tls;
use crate::{diagnose, driver};
use anyhow::{Context, Result, anyhow, bail};
use futures_util::future::join_all;
use futures_util::{StreamExt, TryStreamExt, stream};
use overhead_model::Protocol;
use overhead_model::exit::ABORTED;
use overhead_model::load::{LOAD_VERSION, Load, LoadDriver, LoadResult, LoadServer, LoadSummary};
use overhead_model::record::Tool;
use overhead_model::say;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Clients that connect at the same time.
const CONNECTING: usize = 8;

/// How long requests that make objects and rows may take to be answered after the program was asked to end.
const SETTLE: Duration = Duration::from_secs(1);

/// Does the job with the driver for its protocol; gives the exit status.
pub fn run(job: Job) -> Result<u8> {
    Tls::install_provider();
    match job.system.protocol {
        #[cfg(feature = "redis")]
        Protocol::Resp => with::<driver::redis::Redis>(job),
        #[cfg(feature = "postgres")]
        Protocol::Pgwire => with::<driver::postgres::Postgres>(job),
        #[cfg(feature = "scylla")]
        Protocol::Cql => with::<driver::scylla::Scylla>(job),
        #[cfg(feature = "mongodb")]
        Protocol::Mongo => with::<driver::mongodb::Mongo>(job),
        #[cfg(feature = "memcached")]
        Protocol::Memcache => with::<driver::memcached::Memcached>(job),
        #[cfg(feature = "http")]
        Protocol::Http => with::<driver::http::Http>(job),
        #[cfg(feature = "mysql")]
        Protocol::Mysql => with::<driver::mysql::Mysql>(job),
        #[allow(unreachable_patterns, reason = "reached where a driver is left out of the build")]
        _ => Err(Fault::usage(format!("{}: this build has no driver for it", job.system.name)).into()),
    }
}

fn with<D: Driver>(job: Job) -> Result<u8> {
    if let Some(other) = job.mixes.iter().flat_map(Mix::operations).find(|operation| !D::OPERATIONS.contains(operation))
    {
        return Err(Fault::usage(format!("{}: {} has no such operation", other.name(), job.system.name)).into());
    }
    if !D::SOCKETS {
        job.target.servers.iter().try_for_each(|server| server.tcp().map(drop))?;
    }
    let driver = D::new(job.target.clone(), job.options.clone())?;
    let runtime = runtime(job.options.threads)?;
    let status = runtime.block_on(Bench::new(job, driver).run());
    // Tasks that wait for a server that is gone are not waited for.
    runtime.shutdown_timeout(Duration::from_millis(100));
    status
}

fn runtime(threads: u32) -> Result<Runtime> {
    let mut builder = if threads == 1 { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    Ok(builder.worker_threads(threads as usize).enable_all().build()?)
}

struct Bench<D> {
    job: Job,
    driver: D,
    ids: Arc<Ids>,
    stop: Stop,
}

impl<D: Driver> Bench<D> {
    fn new(job: Job, driver: D) -> Self {
        let ids = Arc::new(Ids::new(job.options.rows, D::INSERTS));
        Self { job, driver, ids, stop: Stop::default() }
    }

    /// All phases that were asked for. What was made is removed however they end.
    async fn run(&self) -> Result<u8> {
        self.stop.on_signals()?;
        let mut report = Report::new(&self.job, self.record());
        if self.job.phase != Phase::Measure {
            let versions = self.answered(self.driver.versions()).await?;
            report.versions(versions);
        }
        let done = self.set_up_and_measure(&mut report).await;
        let removed = self.clean_up().await;
        if self.stop.aborting() {
            return Ok(ABORTED);
        }
        let done = done.or_else(|error| report.keep_partial(error));
        if let Err(error) = removed {
            say!("overhead bench: {}", fault::sentence(&error));
            report.set_partial();
        }
        done.and_then(|()| report.finish())
    }

    async fn set_up_and_measure(&self, report: &mut Report) -> Result<()> {
        if self.job.phase.sets_up() {
            self.unless_stopped(self.set_up()).await.context("the rows could not be made")?;
        }
        if !self.job.phase.measures() {
            return Ok(());
        }
        let cells = cells(&self.job.mixes, &self.job.clients, &self.job.pipelines);
        for (done, cell) in cells.iter().enumerate() {
            if done > 0 && self.job.phase.sets_up() && cell.mix.operations().into_iter().any(Operation::inserts) {
                self.unless_stopped(self.reset()).await.context("inserted rows could not be removed")?;
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

    async fn set_up(&self) -> Result<()> {
        let Options { rows, payload, .. } = self.job.options;
        self.driver.objects().await?.set_up(rows, payload).await
    }

    async fn reset(&self) -> Result<()> {
        self.driver.objects().await?.remove_inserted(self.job.options.rows).await
    }

    /// All runs of one combination.
    async fn measure(&self, cell: &Cell) -> Result<LoadResult> {
        let operations = cell.mix.operations();
        let connect = |_| self.answered(self.driver.connect(&operations));
        let clients = stream::iter(0..cell.clients).map(connect).buffered(CONNECTING).try_collect();
        let mut sessions: Vec<D::Session> = self.unless_stopped(clients).await?;
        if !self.job.warmup.is_zero() {
            sessions = run_once(sessions, self.work(cell, Length::Time(self.job.warmup))).await?.sessions;
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
            let outcome = run_once(sessions, self.work(cell, self.job.length)).await?;
            sessions = outcome.sessions;
            result.partial.clone_from(&outcome.run.partial);
            result.runs.push(outcome.run);
        }
        result.summary = LoadSummary::of(&result.runs);
        if result.partial.is_none() {
            join_all(sessions.into_iter().map(Session::close)).await;
        }
        Ok(result)
    }

    fn work(&self, cell: &Cell, length: Length) -> Work {
        Work {
            mix: cell.mix.clone(),
            pipeline: cell.pipeline,
            rate: self.job.rate,
            length,
            ids: Arc::clone(&self.ids),
            timeout: self.job.target.timeout,
            stop: self.stop.clone(),
        }
    }

    /// Removes what was made, unless it is to stay.
    async fn clean_up(&self) -> Result<()> {
        if !self.job.phase.cleans_up() {
            return Ok(());
        }
        let removed = match self.answered(self.driver.versions()).await {
            Ok(_) => async { self.driver.objects().await?.clean_up().await }.await,
            Err(error) => Err(error),
        };
        let found = removed.context("what was made is still there; remove it later with --cleanup-only")?;
        if !found && self.job.phase == Phase::CleanUp && !self.job.quiet {
            say!("overhead bench: there was nothing to remove");
        }
        Ok(())
    }

    /// What the server answers, or why it does not.
    async fn answered<T>(&self, question: impl Future<Output = Result<T>>) -> Result<T> {
        let timeout = self.job.target.timeout;
        let error = match tokio::time::timeout(timeout, question).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => error,
            Err(_) => anyhow!("no answer within {} s", timeout.as_secs_f64()),
        };
        Err(diagnose::explain(&self.job.target, D::PROTOCOL, error).await)
    }

    async fn unless_stopped<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::pin!(work);
        tokio::select! {
            biased;
            result = &mut work => result,
            () = self.stop.wait() => {
                // A request that is on its way would make something behind the back of the removal.
                let _ = tokio::time::timeout(SETTLE, work).await;
                bail!(self.stop.reason().unwrap_or_default())
            }
        }
    }

    /// The record before anything was measured.
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
            settings: self.driver.settings(),
            results: Vec::new(),
            partial: None,
        }
    }
}
