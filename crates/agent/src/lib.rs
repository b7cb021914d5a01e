//! The agent: exact traffic of all databases of a host, and its composition, all the time.
//!
//! Totals come from TCP's own counters (`flows`, `candidates`), and their composition from short capture windows (`windows`,
//! `composition`). `governor` keeps both within a budget. `totals` joins them for `metrics`, `archive` and `text`. `state` keeps them over
//! a restart.

mod archive;
mod candidates;
mod client;
mod clock;
mod composition;
mod config;
mod flows;
mod governor;
mod metrics;
mod names;
mod otlp;
mod secrets;
mod servers;
mod shares;
mod state;
#[cfg(test)]
mod tests;
mod text;
mod totals;
mod windows;
mod work;
mod zones;

pub use client::AgentClient;
pub use config::{AgentConfig, DEFAULTS};

use anyhow::Result;
use archive::{AgentArchive, span_ns};
use candidates::CandidateBook;
use clock::RunningTime;
use composition::CompositionBook;
use flows::{FIRST_WINDOWS, FlowBook};
use governor::Governor;
use metrics::exposition;
use otlp::OtlpExport;
use overhead_dissect::{KeptSessions, LearnedStatements, Selection};
use overhead_host::metrics::{METRICS, MetricsServer, TokenCheck, thread_cpu};
use overhead_host::{CaptureSignals, containers_now, or_never};
use overhead_kernel::{FollowedTraffic, ServerPort, TcpFollower, raised, tcp_servers, unseen_processes};
use overhead_model::{exit, say};
use overhead_reading::time::unix_ns;
use secrets::TlsSecretKeeper;
use servers::WatchedServers;
use state::AgentState;
use std::collections::BTreeMap;
use std::mem::take;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::Signal;
use tokio::task::JoinHandle;
use totals::{AgentBooks, AgentTotals, ArchiveRows};
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
    /// Empty without `tls-keys`.
    sessions: Arc<KeptSessions>,
    learned: Arc<LearnedStatements>,
    /// Absent without `tls-keys`.
    secrets: Option<TlsSecretKeeper>,
    /// Absent unless the settings name a collector.
    export: Option<OtlpExport>,
    /// Absent unless the settings have an archive.
    archive: Option<AgentArchive>,
    /// Absent if nothing survives a restart.
    state: Option<AgentState>,
    started: Instant,
    readings: u64,
    /// [`FlowBook::newcomers`] at the last search.
    newcomers: usize,
    period_started: Instant,
    /// Whether bytes or rows were lost.
    is_partial: bool,
    /// The last fault of each activity.
    faults: BTreeMap<&'static str, String>,
    failed_readings: u64,
    /// Absent before the start, and in a dry run.
    server: Option<MetricsServer>,
    /// CPU time of making what [`Self::server`] serves.
    rendering: Duration,
}

/// Reads the settings again.
pub type RereadConfig<'a> = &'a dyn Fn() -> Result<AgentConfig, String>;

impl Agent {
    /// Finds the servers and starts to follow their connections. Unless it is a trial, which leaves nothing behind, continues where an
    /// earlier agent has stopped.
    pub fn start(config: AgentConfig, is_trial: bool) -> Result<Self> {
        let folder = config.state_folder();
        let mut books = AgentBooks {
            servers: WatchedServers::find(&containers_now(), &config.ports)?,
            candidates: CandidateBook::default(),
            flows: FlowBook::default(),
            compositions: CompositionBook::new(config.statements as usize),
            work: WorkBook::default(),
            governor: Governor::new(config.budget, config.windows, unix_ns()),
            archive: ArchiveRows::default(),
            time: RunningTime::default(),
            uncounted: Duration::ZERO,
            config,
        };
        if is_trial {
            // Tests whether a start could use it.
            folder.as_deref().map(state::load).transpose()?;
        }
        let (state, follower) = match folder.filter(|_| !is_trial) {
            Some(folder) => AgentState::start(&folder, &mut books).map(|(state, follower)| (Some(state), follower))?,
            None => (None, state::follow(&books.servers.ports)?),
        };
        let started = Instant::now();
        let mut agent = Self {
            books,
            follower,
            sessions: Arc::default(),
            learned: Arc::default(),
            secrets: None,
            export: None,
            archive: None,
            state,
            started,
            readings: 0,
            newcomers: 0,
            period_started: started,
            is_partial: false,
            faults: BTreeMap::new(),
            failed_readings: 0,
            server: None,
            rendering: Duration::ZERO,
        };
        if let Some(reason) = unseen_processes() {
            let effect = "servers of other users may not be found if they started earlier, so of these only the usual ports count";
            agent.warn_once("servers", format!("{effect}: {reason}"));
        }
        if !agent.follower.sees_drops {
            say!(
                "overhead: payload that arrives twice is not counted, and traffic after a close is guessed: this takes Linux 6.11"
            );
        }
        // Those that are ignored need no memory in the kernel.
        let others = servers::other_ports(raised(tcp_servers).unwrap_or_default());
        agent.ignore(others);
        if agent.books.config.tls_keys {
            agent.secrets = Some(TlsSecretKeeper::start(agent.books.servers.ports.clone(), &agent.sessions)?);
        }
        agent.adopt();
        Ok(agent)
    }

    /// Lists the servers that the agent watches, its probes, its zones and its prices.
    pub fn watched(&self) -> String {
        let AgentConfig { zones, prices, .. } = &self.books.config;
        // Why none could be placed is printed as a fault.
        let probes = self.secrets.as_ref().map(TlsSecretKeeper::wait);
        let probes = probes.and_then(|placed| placed.as_deref().ok()).unwrap_or_default();
        format!("{}{probes}{zones}{prices}", text::watched(&self.books.servers))
    }

    /// Tests what a start needs, and measures the agent's cost for one interval, without publishing anything. Returns the expected
    /// cost as text, and the exit status.
    pub async fn measure(mut self) -> Result<(String, u8)> {
        drop((self.open_archive()?, self.listen()?));
        if let Some(settings) = &self.books.config.otlp
            && let Err(error) = otlp::try_endpoint(&settings.endpoint)
        {
            self.warn_once("endpoint", format!("{error:#}"));
        }
        self.watch(Some(self.books.config.interval), None).await?;
        let AgentBooks { governor, config, .. } = &self.books;
        let text = text::expected(&governor.spending, self.started.elapsed(), config.windows.every);
        Ok((text, if self.faults.is_empty() { exit::COMPLETE } else { exit::PARTIAL }))
    }

    /// Publishes metrics until a signal, or until the end of the duration. Returns a summary, and the exit status. With `reread`, a
    /// hangup (SIGHUP) replaces the settings.
    pub async fn run(mut self, duration: Option<Duration>, reread: Option<RereadConfig<'_>>) -> Result<(String, u8)> {
        self.archive = self.open_archive()?;
        if let Some(settings) = &self.books.config.otlp {
            self.export = Some(OtlpExport::start(settings, host(), self.totals())?);
        }
        self.server = Some(self.listen()?);
        say!("overhead: metrics at http://{}/metrics", self.books.config.listen);
        self.watch(duration, reread).await?;
        Ok((text::summary(&self.totals()), if self.is_partial { exit::PARTIAL } else { exit::COMPLETE }))
    }

    fn open_archive(&self) -> Result<Option<AgentArchive>> {
        self.books.config.archive.as_ref().map(|settings| AgentArchive::start(settings, host())).transpose()
    }

    fn listen(&self) -> Result<MetricsServer> {
        let AgentConfig { listen, token, .. } = &self.books.config;
        let admits = token.clone().map(|token| -> TokenCheck { Arc::new(move |shown| token.matches(shown)) });
        MetricsServer::listen("listen", *listen, &[METRICS, ROWS], admits)
    }

    /// Follows connections that are open already, in all network namespaces.
    fn adopt(&self) {
        for namespace in raised(servers::namespaces).into_values() {
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
    async fn watch(&mut self, length: Option<Duration>, reread: Option<RereadConfig<'_>>) -> Result<()> {
        let mut signals = CaptureSignals::new()?;
        let mut hangup = reread.and_then(|_| signals.end.hangup.take());
        let deadline = length.map(|length| tokio::time::Instant::now() + length);
        let mut next_reading = tokio::time::Instant::now();
        let mut next_window = tokio::time::Instant::now();
        let mut running: Option<JoinHandle<Result<CapturedWindow>>> = None;
        loop {
            tokio::select! {
                biased;
                _ = signals.end.recv() => break,
                () = or_never(deadline.map(tokio::time::sleep_until)) => break,
                Some(()) = or_never(hangup.as_mut().map(Signal::recv)) => {
                    if let Some(reread) = reread {
                        self.replace_settings(reread());
                    }
                    next_reading = tokio::time::Instant::now();
                    next_window = next_reading + self.wait();
                }
                () = tokio::time::sleep_until(next_reading) => {
                    let is_early = self.readings < FIRST_READINGS;
                    next_reading += if is_early { FIRST_WAIT } else { self.books.config.interval };
                    next_reading = next_reading.max(tokio::time::Instant::now());
                    if self.read() {
                        self.archive(false).await;
                    }
                    if self.state.as_ref().is_some_and(AgentState::is_due) {
                        self.save();
                    }
                }
                window = or_never(running.as_mut()) => {
                    running = None;
                    self.take_window(window.unwrap_or_else(|error| Err(error.into())));
                    next_window = next_window.max(tokio::time::Instant::now() + self.wait());
                }
                () = tokio::time::sleep_until(next_window), if running.is_none() => {
                    running = self.plan().map(|plan| tokio::task::spawn_blocking(move || plan.capture()));
                    next_window = tokio::time::Instant::now() + self.wait();
                }
                scrape = or_never(self.server.as_mut().map(MetricsServer::next)) => {
                    let before = thread_cpu();
                    let text = if scrape.path == ROWS { self.rows()? } else { exposition(self.totals()) };
                    scrape.send(text);
                    self.rendering += thread_cpu().saturating_sub(before);
                }
            }
        }
        let failed = self.failed_readings;
        self.read();
        self.is_partial |= self.failed_readings > failed;
        self.end_period(false);
        self.archive(true).await;
        self.save();
        Ok(())
    }

    /// Writes rows if they are due, or if these are the last. They are saved before, so that a start after a kill writes them again, to
    /// the same files.
    async fn archive(&mut self, is_last: bool) {
        let Some(mut archive) = self.archive.take() else { return };
        let written = loop {
            match archive.take_rows(&mut self.books, is_last) {
                Ok(true) if self.save() => {}
                taken => break taken.map(drop),
            }
            if let Err(error) = archive.write(&mut self.books.archive).await {
                break Err(error);
            }
        };
        self.archive = Some(archive);
        if let Err(error) = written {
            let is_lost = is_last && self.state.is_none();
            let fate = if is_lost { "these are lost" } else { "they will be written later" };
            self.warn_once("archive", format!("rows were not archived, {fate}: {error:#}"));
            self.is_partial |= is_lost;
        }
    }

    /// Saves the counters, if they survive a restart. Returns whether a start after a kill would have them.
    fn save(&mut self) -> bool {
        let saved = self.state.as_mut().map(|state| state.save(&self.books, &self.follower)).transpose();
        if let Err(error) = &saved {
            self.warn_once("state", format!("the state was not saved, a later one will be: {error:#}"));
        }
        saved.is_ok()
    }

    /// Prints a fault, unless it repeats the last one of this activity.
    fn warn_once(&mut self, activity: &'static str, fault: String) {
        if self.faults.get(activity) != Some(&fault) {
            say!("overhead: {fault}");
            self.faults.insert(activity, fault);
        }
    }

    /// Replaces the settings, and prints which of them need a start. A mistake keeps the old ones.
    fn replace_settings(&mut self, config: Result<AgentConfig, String>) {
        match config.map(|config| self.books.config.update(config)) {
            Err(error) => say!("overhead: the settings stay as they were: {error}"),
            Ok(kept) if kept.is_empty() => say!("overhead: the settings were read again"),
            Ok(kept) => {
                say!("overhead: the settings were read again, but {} stay until the next start", kept.join(", "));
            }
        }
        let AgentBooks { config, flows, governor, .. } = &mut self.books;
        flows.rezone(&config.zones);
        governor.replan(config.budget, config.windows);
        self.newcomers = usize::MAX;
    }

    fn wait(&self) -> Duration {
        if self.books.flows.has_new_namespace() {
            FIRST_WAIT.max(self.books.governor.debt())
        } else {
            self.books.governor.wait()
        }
    }

    /// Reads the totals, and searches for servers from time to time. Returns whether a period has ended.
    fn read(&mut self) -> bool {
        let is_whole = self.state.as_mut().is_none_or(AgentState::lets_read);
        match raised(|| if is_whole { self.follower.read() } else { self.follower.peek() }) {
            Ok(traffic) => self.take_traffic(traffic),
            Err(error) => {
                self.failed_readings += 1;
                let fault = format!("the totals were not read, the next reading will have them: {error}");
                self.warn_once("reading", fault);
            }
        }
        if let Some(Err(error)) = self.secrets.as_ref().and_then(TlsSecretKeeper::placed) {
            let fault = format!("TLS is not decrypted: {error}");
            self.warn_once("tls", fault);
        }
        self.books.compositions.take_growth(take(&mut self.books.flows.growth));
        self.readings += 1;
        let newcomers = self.books.flows.newcomers(&self.books.servers);
        if self.readings.is_multiple_of(SEARCH) || newcomers != self.newcomers {
            self.search();
        }
        self.settle(0, Duration::ZERO);
        if let Some(export) = &self.export {
            export.publish(self.totals());
        }
        let has_windows =
            self.books.governor.spending.windows >= FIRST_WINDOWS && !self.books.flows.has_new_namespace();
        let is_first = self.started == self.period_started && has_windows;
        let has_ended = is_first || self.period_started.elapsed() >= self.books.config.period;
        if has_ended {
            self.end_period(is_first);
        }
        has_ended
    }

    /// Adds the traffic of databases, those that have started since the last reading included.
    fn take_traffic(&mut self, mut traffic: FollowedTraffic) {
        if self.books.servers.note(take(&mut traffic.new_listeners)) {
            self.search();
        }
        traffic.groups.retain(|group, _| !self.is_excluded(flows::server_of(group)));
        let AgentBooks { candidates, servers, flows, config, .. } = &mut self.books;
        let ignored = candidates.take(&mut traffic, servers);
        flows.take(&traffic, &config.zones);
        self.ignore(ignored);
    }

    /// Follows no connections on these ports, until another socket listens there.
    fn ignore(&mut self, ports: impl IntoIterator<Item = ServerPort>) {
        // Ports that are not ignored only cost time.
        if let Err(error) = ports.into_iter().try_for_each(|port| self.follower.ignore(port)) {
            self.warn_once("ignore", format!("servers that are not databases are still followed: {error}"));
        }
    }

    fn is_excluded(&self, server: SocketAddr) -> bool {
        self.books.config.exclude.iter().any(|excluded| excluded.has(server))
    }

    fn settle(&mut self, frames: u64, open: Duration) {
        let scrapes = self.rendering + self.server.as_ref().map_or(Duration::ZERO, MetricsServer::cpu);
        self.books.governor.settle(frames, open, scrapes);
    }

    fn end_period(&mut self, is_first: bool) {
        self.books.governor.calibrate();
        let now = Instant::now();
        self.books.compositions.end_period(now - self.period_started, is_first);
        self.period_started = now;
    }

    /// Searches for servers that have started since the last search.
    fn search(&mut self) {
        if let Err(error) = self.follow_servers() {
            self.warn_once("search", format!("new servers were not searched for: {error:#}"));
        }
    }

    fn follow_servers(&mut self) -> Result<()> {
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
        let mut namespaces = raised(servers::namespaces);
        let number = self.books.flows.next_namespace(&namespaces.keys().copied().collect())?;
        let namespace = namespaces.remove(&number)?;
        let is_for_work = self.books.governor.spending.windows % work::WINDOWS == FIRST_WINDOWS;
        let work =
            if is_for_work { self.books.work.next(&self.books.flows, &self.books.servers, number) } else { None };
        let selection = Selection { given: self.books.config.given.clone(), ..self.books.servers.selection() };
        let (sessions, learned) = (Arc::clone(&self.sessions), Arc::clone(&self.learned));
        let length = self.books.config.windows.length;
        Some(WindowPlan { number, namespace, selection, sessions, learned, length, work })
    }

    fn take_window(&mut self, window: Result<CapturedWindow>) {
        match window {
            Ok(mut window) => {
                window.samples.retain(|(server, _), _| !self.is_excluded(server.address));
                self.settle(window.frames, window.open);
                self.books.governor.spending.dropped += window.dropped;
                self.books.compositions.add_window(&window, &self.books.config.zones);
                match window.work {
                    Ok(work) => work.iter().for_each(|(server, work)| self.books.work.add(*server, work)),
                    Err(error) => self.warn_once("work", format!("kernel work was not counted: {error}")),
                }
            }
            // A container may have ended. A lasting fault is printed once.
            Err(error) => self.warn_once("window", format!("a window was not captured: {error:#}")),
        }
    }

    /// Returns the rows since the start, as JSON.
    fn rows(&self) -> Result<String> {
        let span_ns = span_ns(&self.books.time, unix_ns());
        let rows = self.books.rows(false, span_ns);
        Ok(serde_json::to_string(&rows)?)
    }

    fn totals(&self) -> AgentTotals {
        AgentTotals {
            failed_exports: self.export.as_ref().map_or(0, OtlpExport::failures),
            failed_readings: self.failed_readings,
            failed_archives: self.archive.as_ref().map_or(0, |archive| archive.failures),
            learned: self.learned.counts(),
            tls: self.secrets.as_ref().map(|_| self.sessions.counts()),
            ..self.books.totals(self.started.elapsed())
        }
    }
}

/// Returns the name of this host.
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
