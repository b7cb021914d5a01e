//! `overhead agent`: exact traffic of all databases of a host, and what it consists of, all the time.
//!
//! Totals come from TCP's own counters ([`flows`]), and what they consist of from short capture windows ([`windows`],
//! [`composition`]). [`governor`] keeps both within a budget. [`figures`] joins them for [`exposition`] and [`text`].

mod archive;
mod composition;
mod config;
mod exposition;
mod figures;
mod flows;
mod governor;
mod otlp;
mod servers;
mod text;
mod windows;
mod work;
mod zones;

pub use config::AgentToken;

use crate::capture::metrics::{METRICS, MetricsServer, TokenCheck};
use crate::capture::{CaptureSignals, containers_now, or_never, runtime};
use crate::print;
use crate::privileges::raised;
use crate::time::{some_time, unix_ns};
use anyhow::{Context, Result};
use archive::{AgentArchive, span_ns};
use clap::Args;
use composition::CompositionBook;
use config::AgentConfig;
use figures::{AgentBooks, AgentFigures};
use flows::{FIRST_WINDOWS, FlowBook};
use governor::Governor;
use otlp::OtlpExport;
use overhead_dissect::Selection;
use overhead_kernel::TcpFollower;
use overhead_model::{exit, say};
use overhead_report::composition::CompositionPeriods;
use servers::WatchedServers;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use windows::{WindowFigures, WindowPlan};
use work::WorkBook;

/// The path of the rows since the beginning, which `overhead top` reads.
const ROWS: &str = "/rows";

/// Readings between two searches for servers.
const SEARCH: u64 = 6;
/// The first readings and windows follow one another, so that the first figures come soon.
const FIRST_READINGS: u64 = 15;
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// Arguments of `agent`.
#[derive(Args, Clone, Debug)]
pub struct AgentArgs {
    /// Settings, in TOML [default: those of --print-config]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print all settings with their defaults, as a file for --config, and exit
    #[arg(long)]
    print_config: bool,
    /// Say what would be watched, and what that would cost, and exit
    #[arg(long)]
    dry_run: bool,
    /// Stop after this time, and print a summary (10s, 5m)
    #[arg(long, value_name = "T", value_parser = some_time)]
    duration: Option<Duration>,
    /// Address of the metrics, instead of that of the settings
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
}

impl AgentArgs {
    pub fn run(self) -> Result<u8> {
        if self.print_config {
            print::verbatim(config::DEFAULTS)?;
            return Ok(exit::COMPLETE);
        }
        let mut config = self.config.as_deref().map(AgentConfig::read).transpose()?.unwrap_or_default();
        if let Some(listen) = self.listen {
            config.listen_at(listen)?;
        }
        let length = if self.dry_run { Some(config.interval) } else { self.duration };
        runtime()?.block_on(async {
            let mut agent = Agent::start(config)?;
            if self.dry_run {
                print::verbatim(&text::watched(&agent.servers))?;
            }
            let server = if self.dry_run { None } else { Some(agent.publish()?) };
            agent.watch(server, length).await?;
            let figures = agent.figures();
            let shown = if self.dry_run {
                text::expected(&figures.spending, figures.elapsed, agent.config.windows.every)
            } else {
                text::summary(&figures)
            };
            print::verbatim(&shown)?;
            Ok(if agent.is_partial { exit::PARTIAL } else { exit::COMPLETE })
        })
    }
}

/// Returns a client that takes any status for an answer.
pub fn http_client(patience: Duration) -> ureq::Agent {
    ureq::Agent::config_builder().timeout_global(Some(patience)).http_status_as_error(false).build().into()
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Everything that runs.
struct Agent {
    config: AgentConfig,
    follower: TcpFollower,
    servers: WatchedServers,
    flows: FlowBook,
    compositions: CompositionBook,
    work: WorkBook,
    governor: Governor,
    /// Absent unless the settings name a collector.
    export: Option<OtlpExport>,
    /// Absent unless the settings have one.
    archive: Option<AgentArchive>,
    begun: Instant,
    readings: u64,
    /// [`WatchedServers::appeared`] at the last search.
    appeared: usize,
    period_begun: Instant,
    /// Rows were lost.
    is_partial: bool,
    /// The last fault of a window or of the archive.
    fault: Option<String>,
}

impl Agent {
    /// Finds the servers and begins to follow their connections.
    fn start(config: AgentConfig) -> Result<Self> {
        let servers = WatchedServers::find(&containers_now(), &config.ports)?;
        let follower = raised(|| TcpFollower::start(&servers.ports, false))
            .context("the agent needs the kernel's counters of connections")?;
        let governor = Governor::new(config.budget, config.windows, unix_ns());
        let compositions = CompositionBook::new(config.statements as usize);
        let (flows, begun) = (FlowBook::default(), Instant::now());
        let agent = Self {
            config,
            follower,
            servers,
            flows,
            compositions,
            work: WorkBook::default(),
            governor,
            export: None,
            archive: None,
            begun,
            readings: 0,
            appeared: 0,
            period_begun: begun,
            is_partial: false,
            fault: None,
        };
        agent.adopt();
        Ok(agent)
    }

    /// Begins to serve the metrics, to export and to archive them.
    fn publish(&mut self) -> Result<MetricsServer> {
        self.archive = self.config.archive.as_ref().map(AgentArchive::start).transpose()?;
        if let Some(settings) = &self.config.otlp {
            self.export = Some(OtlpExport::start(settings, self.figures())?);
        }
        let address = self.config.listen;
        let admits =
            self.config.token.clone().map(|token| -> TokenCheck { Arc::new(move |shown| token.matches(shown)) });
        let server = MetricsServer::listen("listen", address, &[METRICS, ROWS], admits)?;
        say!("overhead: metrics at http://{address}/metrics");
        Ok(server)
    }

    /// Follows connections that are open already, in all network namespaces with servers.
    fn adopt(&self) {
        for namespace in raised(|| self.servers.namespaces()).into_values() {
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
        let mut running: Option<JoinHandle<Result<WindowFigures>>> = None;
        loop {
            tokio::select! {
                biased;
                _ = signals.end.recv() => break,
                () = or_never(deadline.map(tokio::time::sleep_until)) => break,
                () = tokio::time::sleep_until(next_reading) => {
                    let is_early = self.readings < FIRST_READINGS;
                    next_reading += if is_early { FIRST_WAIT } else { self.config.interval };
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
                    let text = if scrape.path == ROWS { self.rows()? } else { exposition::exposition(self.figures()) };
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
        match archive.write(&self.books()).await {
            Ok(()) => self.compositions.clear_latest(),
            Err(error) => {
                let fate = if is_last { "these are lost" } else { "the next ones will have these" };
                self.tell_once(format!("rows were not archived, {fate}: {error:#}"));
                self.is_partial |= is_last;
            }
        }
        self.archive = Some(archive);
    }

    /// Prints a fault unless it was the last one too.
    fn tell_once(&mut self, fault: String) {
        if self.fault.as_ref() != Some(&fault) {
            say!("overhead: {fault}");
            self.fault = Some(fault);
        }
    }

    fn wait(&self) -> Duration {
        if self.flows.has_new_namespace() { FIRST_WAIT.max(self.governor.debt()) } else { self.governor.wait() }
    }

    /// Reads the totals, and searches for servers from time to time. Returns whether a period has ended.
    fn read(&mut self) -> Result<bool> {
        let totals = raised(|| self.follower.read())?;
        for group in self.flows.take(&totals, &self.config.zones) {
            let last = raised(|| self.follower.remove(&group))?;
            self.flows.remove(&group, &last);
        }
        self.compositions.take_totals(&self.flows, None);
        self.readings += 1;
        let appeared = self.servers.appeared(&self.flows);
        if self.readings.is_multiple_of(SEARCH) || appeared != self.appeared {
            self.search()?;
        }
        self.governor.settle(0, Duration::ZERO);
        if let Some(export) = &self.export {
            export.publish(self.figures());
        }
        let has_begun = self.governor.spending.windows >= FIRST_WINDOWS && !self.flows.has_new_namespace();
        let is_first = self.begun == self.period_begun && has_begun;
        let has_ended = is_first || self.period_begun.elapsed() >= self.config.period;
        if has_ended {
            self.end_period();
        }
        Ok(has_ended)
    }

    fn end_period(&mut self) {
        self.governor.calibrate();
        let now = Instant::now();
        self.compositions.take_totals(&self.flows, Some(now - self.period_begun));
        self.period_begun = now;
    }

    /// Follows servers that have come since.
    fn search(&mut self) -> Result<()> {
        let servers = WatchedServers::find(&containers_now(), &self.config.ports)?;
        let has_new = servers.ports != self.servers.ports;
        let before = std::mem::replace(&mut self.servers, servers);
        self.servers.remember(before);
        self.appeared = self.servers.appeared(&self.flows);
        if has_new {
            raised(|| self.follower.follow_ports(&self.servers.ports))?;
            self.adopt();
        }
        Ok(())
    }

    /// Returns the next window, in the network namespace with the most traffic since its last one; `None` without traffic.
    fn plan(&mut self) -> Option<WindowPlan> {
        let mut namespaces = raised(|| self.servers.namespaces());
        let number = self.flows.next_namespace(&namespaces.keys().copied().collect())?;
        let namespace = namespaces.remove(&number)?;
        let is_for_work = self.governor.spending.windows % work::WINDOWS == FIRST_WINDOWS;
        let work = if is_for_work { self.work.next(&self.flows, &self.servers, number) } else { None };
        let selection = Selection { given: self.config.given.clone(), ..self.servers.selection() };
        Some(WindowPlan { number, namespace, selection, length: self.config.windows.length, work })
    }

    fn take_window(&mut self, window: Result<WindowFigures>) {
        match window {
            Ok(window) => {
                self.governor.settle(window.frames, window.open);
                self.governor.spending.dropped += window.dropped;
                self.compositions.add_window(&window, &self.config.zones);
                match &window.work {
                    Some((plan, Ok(Some(work)))) => self.work.add(plan, work, &window.parts),
                    Some((_, Err(error))) => self.tell_once(format!("kernel work was not counted: {error}")),
                    Some((_, Ok(None))) | None => {}
                }
            }
            // A container may have ended. A lasting fault is said once.
            Err(error) => self.tell_once(format!("a window was not captured: {error:#}")),
        }
    }

    fn books(&self) -> AgentBooks<'_> {
        let Self { config, servers, flows, compositions, work, governor, .. } = self;
        AgentBooks { config, servers, flows, compositions, work, dropped: governor.spending.dropped }
    }

    /// Returns rows since the beginning, as JSON.
    fn rows(&self) -> Result<String> {
        let span_ns = span_ns(self.begun, unix_ns());
        let rows = self.books().rows(&BTreeMap::new(), CompositionPeriods::totals, span_ns);
        Ok(serde_json::to_string(&rows)?)
    }

    fn figures(&self) -> AgentFigures {
        AgentFigures {
            failed_exports: self.export.as_ref().map_or(0, OtlpExport::failures),
            failed_archives: self.archive.as_ref().map_or(0, |archive| archive.failures),
            ..self.books().figures(self.governor.spending, self.begun.elapsed())
        }
    }
}
