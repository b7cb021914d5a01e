//! The agent: exact traffic of all databases of a host, and its composition, all the time.
//!
//! Totals come from TCP's own counters (`flows`), and their composition from short capture windows (`windows`,
//! `composition`). `governor` keeps both within a budget. `totals` joins them for `metrics`, `archive` and `text`.

mod archive;
mod client;
mod composition;
mod config;
mod flows;
mod governor;
mod metrics;
mod otlp;
mod servers;
#[cfg(test)]
mod tests;
mod text;
mod totals;
mod windows;
mod work;
mod zones;

pub use client::AgentClient;
pub use config::{AgentConfig, DEFAULTS};

use anyhow::{Context, Result};
use archive::{AgentArchive, span_ns};
use composition::CompositionBook;
use flows::{FIRST_WINDOWS, FlowBook};
use governor::Governor;
use metrics::exposition;
use otlp::OtlpExport;
use overhead_dissect::Selection;
use overhead_host::metrics::{METRICS, MetricsServer, TokenCheck};
use overhead_host::{CaptureSignals, containers_now, or_never};
use overhead_kernel::{TcpFollower, raised};
use overhead_model::{exit, say};
use overhead_reading::time::unix_ns;
use overhead_report::composition::CompositionPeriods;
use servers::WatchedServers;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use totals::{AgentBooks, AgentTotals};
use windows::{CapturedWindow, WindowPlan};
use work::WorkBook;

/// The path of the rows since the start, which `overhead top` reads.
const ROWS: &str = "/rows";

/// Readings between two searches for servers.
const SEARCH: u64 = 6;
/// Number of readings that follow one another closely at the start, so that the first values come soon.
const FIRST_READINGS: u64 = 15;
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// A running agent.
pub struct Agent {
    books: AgentBooks,
    follower: TcpFollower,
    /// Absent unless the settings name a collector.
    export: Option<OtlpExport>,
    /// Absent unless the settings have an archive.
    archive: Option<AgentArchive>,
    started: Instant,
    readings: u64,
    /// [`FlowBook::newcomers`] at the last search.
    newcomers: usize,
    period_started: Instant,
    /// Whether rows were lost.
    is_partial: bool,
    /// The last fault of a window or of the archive.
    fault: Option<String>,
}

impl Agent {
    /// Finds the servers and starts to follow their connections.
    pub fn start(config: AgentConfig) -> Result<Self> {
        let books = AgentBooks {
            servers: WatchedServers::find(&containers_now(), &config.ports)?,
            flows: FlowBook::default(),
            compositions: CompositionBook::new(config.statements as usize),
            work: WorkBook::default(),
            governor: Governor::new(config.budget, config.windows, unix_ns()),
            config,
        };
        let follower = raised(|| TcpFollower::start(&books.servers.ports, false))
            .context("the agent needs the kernel's counters of connections")?;
        let started = Instant::now();
        let agent = Self {
            books,
            follower,
            export: None,
            archive: None,
            started,
            readings: 0,
            newcomers: 0,
            period_started: started,
            is_partial: false,
            fault: None,
        };
        agent.adopt();
        Ok(agent)
    }

    /// Lists the servers that the agent watches.
    pub fn watched(&self) -> String {
        text::watched(&self.books.servers)
    }

    /// Measures the agent's cost for one interval, without publishing anything. Returns the expected cost as text.
    pub async fn measure(mut self) -> Result<String> {
        self.watch(None, Some(self.books.config.interval)).await?;
        Ok(text::expected(&self.books.governor.spending, self.started.elapsed(), self.books.config.windows.every))
    }

    /// Publishes metrics until a signal, or until the end of the duration. Returns a summary, and the exit status.
    pub async fn run(mut self, duration: Option<Duration>) -> Result<(String, u8)> {
        let server = self.publish()?;
        self.watch(Some(server), duration).await?;
        Ok((text::summary(&self.totals()), if self.is_partial { exit::PARTIAL } else { exit::COMPLETE }))
    }

    /// Starts to serve the metrics, to export and to archive them.
    fn publish(&mut self) -> Result<MetricsServer> {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        if let Some(settings) = &self.books.config.archive {
            self.archive = Some(AgentArchive::start(settings, host.clone())?);
        }
        if let Some(settings) = &self.books.config.otlp {
            self.export = Some(OtlpExport::start(settings, host, self.totals())?);
        }
        let address = self.books.config.listen;
        let admits =
            self.books.config.token.clone().map(|token| -> TokenCheck { Arc::new(move |shown| token.matches(shown)) });
        let server = MetricsServer::listen("listen", address, &[METRICS, ROWS], admits)?;
        say!("overhead: metrics at http://{address}/metrics");
        Ok(server)
    }

    /// Follows connections that are open already, in all network namespaces with servers.
    fn adopt(&self) {
        for namespace in raised(|| self.books.servers.namespaces()).into_values() {
            let adopted = raised(|| match &namespace {
                Some(namespace) => {
                    namespace.run(|| self.follower.adopt_open()).map_err(anyhow::Error::from)?.map_err(Into::into)
                }
                None => self.follower.adopt_open().map_err(anyhow::Error::from),
            });
            if let Err(error) = adopted {
                say!("overhead: connections that were open before are not counted: {error:#}");
            }
        }
    }

    /// Reads totals, captures windows and answers scrapes until a signal or the end of the time.
    async fn watch(&mut self, mut server: Option<MetricsServer>, length: Option<Duration>) -> Result<()> {
        let mut signals = CaptureSignals::new()?;
        let deadline = length.map(|length| tokio::time::Instant::now() + length);
        let mut next_reading = tokio::time::Instant::now();
        let mut next_window = tokio::time::Instant::now();
        let mut running: Option<JoinHandle<Result<CapturedWindow>>> = None;
        loop {
            tokio::select! {
                biased;
                _ = signals.end.recv() => break,
                () = or_never(deadline.map(tokio::time::sleep_until)) => break,
                () = tokio::time::sleep_until(next_reading) => {
                    let is_early = self.readings < FIRST_READINGS;
                    next_reading += if is_early { FIRST_WAIT } else { self.books.config.interval };
                    next_reading = next_reading.max(tokio::time::Instant::now());
                    if self.read()? {
                        self.archive(false).await;
                    }
                }
                window = or_never(running.as_mut()) => {
                    running = None;
                    self.take_window(window?);
                    next_window = next_window.max(tokio::time::Instant::now() + self.wait());
                }
                () = tokio::time::sleep_until(next_window), if running.is_none() => {
                    running = self.plan().map(|plan| tokio::task::spawn_blocking(move || plan.capture()));
                    next_window = tokio::time::Instant::now() + self.wait();
                }
                scrape = or_never(server.as_mut().map(MetricsServer::next)) => {
                    let text = if scrape.path == ROWS { self.rows()? } else { exposition(self.totals()) };
                    scrape.send(text);
                }
            }
        }
        self.read()?;
        self.end_period();
        self.archive(true).await;
        Ok(())
    }

    /// Writes rows if they are due, or if these are the last.
    async fn archive(&mut self, is_last: bool) {
        let Some(mut archive) = self.archive.take_if(|archive| is_last || archive.is_due()) else { return };
        match archive.write(&self.books).await {
            Ok(()) => self.books.compositions.clear_latest(),
            Err(error) => {
                let fate = if is_last { "these are lost" } else { "the next ones will have these" };
                self.warn_once(format!("rows were not archived, {fate}: {error:#}"));
                self.is_partial |= is_last;
            }
        }
        self.archive = Some(archive);
    }

    /// Prints a fault, unless it repeats the last one.
    fn warn_once(&mut self, fault: String) {
        if self.fault.as_ref() != Some(&fault) {
            say!("overhead: {fault}");
            self.fault = Some(fault);
        }
    }

    fn wait(&self) -> Duration {
        if self.books.flows.has_new_namespace() {
            FIRST_WAIT.max(self.books.governor.debt())
        } else {
            self.books.governor.wait()
        }
    }

    /// Reads the totals, and searches for servers from time to time. Returns whether a period has ended.
    fn read(&mut self) -> Result<bool> {
        let totals = raised(|| self.follower.read())?;
        for group in self.books.flows.take(&totals, &self.books.config.zones) {
            let last = raised(|| self.follower.remove(&group))?;
            self.books.flows.remove(&group, &last);
        }
        self.books.compositions.take_totals(&self.books.flows, None);
        self.readings += 1;
        let newcomers = self.books.flows.newcomers(&self.books.servers);
        if self.readings.is_multiple_of(SEARCH) || newcomers != self.newcomers {
            self.search()?;
        }
        self.books.governor.settle(0, Duration::ZERO);
        if let Some(export) = &self.export {
            export.publish(self.totals());
        }
        let has_windows =
            self.books.governor.spending.windows >= FIRST_WINDOWS && !self.books.flows.has_new_namespace();
        let is_first = self.started == self.period_started && has_windows;
        let has_ended = is_first || self.period_started.elapsed() >= self.books.config.period;
        if has_ended {
            self.end_period();
        }
        Ok(has_ended)
    }

    fn end_period(&mut self) {
        self.books.governor.calibrate();
        let now = Instant::now();
        self.books.compositions.take_totals(&self.books.flows, Some(now - self.period_started));
        self.period_started = now;
    }

    /// Follows servers that have started since the last search.
    fn search(&mut self) -> Result<()> {
        let servers = WatchedServers::find(&containers_now(), &self.books.config.ports)?;
        let has_new = servers.ports != self.books.servers.ports;
        let before = std::mem::replace(&mut self.books.servers, servers);
        self.books.servers.remember(before);
        self.newcomers = self.books.flows.newcomers(&self.books.servers);
        if has_new {
            raised(|| self.follower.follow_ports(&self.books.servers.ports))?;
            self.adopt();
        }
        Ok(())
    }

    /// Returns the next window, in the network namespace with the most traffic since its last one; `None` without traffic.
    fn plan(&mut self) -> Option<WindowPlan> {
        let mut namespaces = raised(|| self.books.servers.namespaces());
        let number = self.books.flows.next_namespace(&namespaces.keys().copied().collect())?;
        let namespace = namespaces.remove(&number)?;
        let is_for_work = self.books.governor.spending.windows % work::WINDOWS == FIRST_WINDOWS;
        let work =
            if is_for_work { self.books.work.next(&self.books.flows, &self.books.servers, number) } else { None };
        let selection = Selection { given: self.books.config.given.clone(), ..self.books.servers.selection() };
        Some(WindowPlan { number, namespace, selection, length: self.books.config.windows.length, work })
    }

    fn take_window(&mut self, window: Result<CapturedWindow>) {
        match window {
            Ok(window) => {
                self.books.governor.settle(window.frames, window.open);
                self.books.governor.spending.dropped += window.dropped;
                self.books.compositions.add_window(&window, &self.books.config.zones);
                match window.work {
                    Ok(work) => work.iter().for_each(|(server, work)| self.books.work.add(*server, work)),
                    Err(error) => self.warn_once(format!("kernel work was not counted: {error}")),
                }
            }
            // A container may have ended. A lasting fault is printed once.
            Err(error) => self.warn_once(format!("a window was not captured: {error:#}")),
        }
    }

    /// Returns the rows since the start, as JSON.
    fn rows(&self) -> Result<String> {
        let span_ns = span_ns(self.started, unix_ns());
        let rows = self.books.rows(&BTreeMap::new(), CompositionPeriods::totals, span_ns);
        Ok(serde_json::to_string(&rows)?)
    }

    fn totals(&self) -> AgentTotals {
        AgentTotals {
            failed_exports: self.export.as_ref().map_or(0, OtlpExport::failures),
            failed_archives: self.archive.as_ref().map_or(0, |archive| archive.failures),
            ..self.books.totals(self.started.elapsed())
        }
    }
}
