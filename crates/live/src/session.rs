//! A capture from start to record: starts it, watches it, ends its command, and makes the record.

use crate::beside::{BesideSource, LiveInput};
use crate::command::{self, CommandOutput};
use crate::container::name_containers;
use crate::counters::KernelCounting;
use crate::dissecting::SharedWorkListener;
use crate::folder::RunFolder;
use crate::only::CommandFilter;
use crate::plan::{CapturePlan, LimitPlan, PacketUse};
use crate::progress::{self, StatusLine};
use crate::rotation::{KEY_BYTES, PacketFiles, PacketPlace};
use crate::scrape::ScrapedMetrics;
use crate::streams::{StreamSource, UnixSockets};
use crate::threads::{CaptureLimits, CaptureThreads};
use crate::tls_keys::{self, TlsKeys};
use crate::warmup::WarmUp;
use crate::witness::TcpWitness;
use crate::{announce, cost};
use anyhow::{Result, anyhow};
use overhead_capture::WriterOptions;
use overhead_capture::live::StopHandle;
use overhead_containers::HostContainers;
use overhead_host::metrics::{METRICS, MetricsServer};
use overhead_host::{CaptureSignals, EndRequest, EndSignals, databases, or_never, runtime};
use overhead_kernel::{ProcessRole, WorkListener, raised};
use overhead_model::exit::StatusFault;
use overhead_model::{LinkType, Measured, Run};
use overhead_reading::time::unix_ns;
use overhead_reading::{Beginning, Chosen, KeyReader, PATIENCE, Windows};
use overhead_report::{Aggregate, SharedListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::process::Child;

/// Time for connections to close after the command has ended.
const TEARDOWN: Duration = Duration::from_millis(100);
/// Address space that must be left at the start: the ring of the kernel, 400 MiB for all connections, and stacks.
const MEMORY: usize = 640 << 20;
/// Message for a capture that was aborted before it started.
const NOTHING_CAPTURED: &str = "a file or a pipe could not be opened in time, and nothing was captured";
/// Message if the user first asks for the end after the capture has ended.
const CONCLUDING: &str =
    "overhead: the capture has ended, and its result is being made: press Ctrl-C again to abandon it";

/// Owns everything that runs during a capture.
pub struct CaptureSession {
    pub(super) plan: Arc<CapturePlan>,
    /// The run's folder; `None` with `-w`.
    pub(super) folder: Option<Arc<RunFolder>>,
    pub(super) counting: KernelCounting,
    /// Takes the secrets of TLS handshakes, if wanted.
    pub(super) tls_keys: Option<TlsKeys>,
    /// Absent with `--bpf-only`.
    pub(super) threads: Option<CaptureThreads>,
    /// Until the threads have it.
    pub(super) only: Option<CommandFilter>,
    /// The captured UNIX sockets.
    pub(super) sockets: Option<UnixSockets>,
    pub(super) work: Measured<SharedWorkListener>,
    pub(super) warmup: Option<Arc<WarmUp>>,
    pub(super) witness: TcpWitness,
    /// When the counters started, Unix nanoseconds; `u64::MAX` until then.
    pub(super) start_ns: Arc<AtomicU64>,
    metrics: Option<MetricsServer>,
    pub(super) started: Beginning,
    /// The containers at the start.
    pub(super) containers: HostContainers,
    child: Option<Child>,
    /// Start of the command.
    spawned: Instant,
    pub(super) end: CaptureEnd,
    /// The command's status; `None` if there was no command.
    pub(super) exit_code: Option<i32>,
}

/// Why a capture ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureEnd {
    /// The command ended.
    Command { code: i32, ran: Duration },
    /// The user asked.
    Asked(EndRequest),
    /// A limit was reached, or the reader of the packets has gone.
    Enough,
}

impl CaptureEnd {
    /// Returns the status of a failed command.
    pub fn failure(self) -> Option<i32> {
        match self {
            Self::Command { code, .. } if code != 0 => Some(code),
            _ => None,
        }
    }

    /// Returns whether the user asked for the end.
    pub fn was_asked(self) -> bool {
        matches!(self, Self::Asked(_))
    }
}

/// A capture's record, and how it ended.
pub struct FinishedCapture {
    /// The run's folder; `None` with `-w`.
    pub folder: Option<Arc<RunFolder>>,
    /// The record.
    pub run: Run,
    /// Why the capture ended.
    pub end: CaptureEnd,
}

impl CapturePlan {
    /// Captures, once or until the cost of watching is measured, and passes the result to `conclude`.
    pub fn run<T: Send + 'static>(
        self,
        conclude: impl FnOnce(&Self, FinishedCapture) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        runtime()?.block_on(async {
            let (mut signals, plan) = (CaptureSignals::new()?, Arc::new(self));
            let capture = async |signals: &mut CaptureSignals| {
                if let Some(rounds) = plan.cost_rounds {
                    return conclude(&plan, cost::measure(&plan, rounds, signals).await?);
                }
                let folder = plan.make_folder()?.map(Arc::new);
                CaptureSession::run(&plan, folder, signals, CommandOutput::Shown, conclude).await
            };
            plan.with_rows(&mut signals, capture).await
        })
    }
}

impl CaptureSession {
    /// Captures once and passes the result to `conclude`, in a thread that is abandoned if the user asks for the end
    /// twice. Removes the folder if nothing was measured.
    pub async fn run<T: Send + 'static>(
        plan: &Arc<CapturePlan>,
        folder: Option<Arc<RunFolder>>,
        signals: &mut CaptureSignals,
        output: CommandOutput,
        conclude: impl FnOnce(&CapturePlan, FinishedCapture) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (for_thread, place) = (Arc::clone(plan), folder.clone());
        let started = signals.end.unless_aborted(None, move || Self::start(for_thread, place, output)).await?;
        let started = started.unwrap_or_else(|| Err(StatusFault::aborted(NOTHING_CAPTURED).into()));
        let mut session = started.inspect_err(|_| folder.iter().for_each(|folder| folder.discard()))?;
        session.watch(signals).await?;
        // The window ends here, however long the command takes to end.
        session.threads.iter().for_each(CaptureThreads::stop);
        session.witness.stop();
        session.counting.stop();
        let concluded = if session.end_command(&mut signals.end).await? {
            let plan = Arc::clone(plan);
            let conclude = move || conclude(&plan, session.finish()?);
            signals.end.unless_aborted(Some(CONCLUDING), conclude).await?
        } else {
            None
        };
        concluded.unwrap_or_else(|| Err(StatusFault::aborted(&kept(plan, folder.as_deref())).into()))
    }

    /// Starts the counters, the capture and the command.
    fn start(plan: Arc<CapturePlan>, folder: Option<Arc<RunFolder>>, output: CommandOutput) -> Result<Self> {
        check_memory()?;
        let listen = |address| MetricsServer::listen("--metrics", address, &[METRICS], None);
        let metrics = plan.metrics.map(listen).transpose()?;
        plan.metrics.iter().for_each(|address| plan.say(&format!("metrics at http://{address}/metrics")));
        let sockets = plan.find_sockets()?;
        let containers = databases::containers_now();
        let counting = KernelCounting::load(&plan, sockets.as_ref())?;
        let awaited = counting.awaited(&plan.live.ports).filter(|_| sockets.is_none());
        awaited.iter().chain(&plan.rotation.caution(plan.packet_file())).for_each(|note| plan.say(note));
        let work = counting.sampling().map(|listener| Arc::new(Mutex::new(listener)));
        let mut session = Self {
            folder,
            counting,
            tls_keys: None,
            threads: None,
            only: plan.command_filter()?,
            sockets,
            work,
            warmup: plan.limits.warmup.map(WarmUp::new),
            witness: TcpWitness::load(&plan),
            start_ns: Arc::new(AtomicU64::new(u64::MAX)),
            metrics,
            started: Beginning::now(),
            containers,
            child: None,
            spawned: Instant::now(),
            end: CaptureEnd::Enough,
            exit_code: None,
            plan,
        };
        session.open()?;
        let plan = &session.plan;
        session.warmup.iter().filter(|_| !plan.captures()).for_each(|warmup| warmup.start());
        session.counting.start();
        session.witness.start(&plan.live);
        session.start_ns.store(unix_ns(), Ordering::Release);
        session.spawned = Instant::now();
        session.child = plan.start_command(output)?;
        if !plan.quiet {
            let mut so_far = session.counting.read();
            name_containers(&mut so_far, &[&session.containers], &session.counting.network_namespaces());
            plan.say(&announce::sentence(plan, session.sockets.as_ref(), &so_far));
        }
        Ok(session)
    }

    /// Waits for the command, the time limit or the capture to end, or for a signal.
    async fn watch(&mut self, signals: &mut CaptureSignals) -> Result<()> {
        let Self { plan, threads, counting, child, .. } = self;
        let (threads, quiet, limits) = (threads.as_ref(), plan.quiet, plan.limits);
        let (mut server, started) = (self.metrics.take(), Instant::now());
        let mut metrics = ScrapedMetrics::new(plan.known_systems()?);
        let (mut shown, mut tick) = (StatusLine::new(quiet), tokio::time::interval(Duration::from_millis(250)));
        let mut warmup = self.warmup.as_deref();
        let before = warmup.map_or(Duration::ZERO, |warmup| warmup.length);
        let mut deadline = limits.duration.map(|duration| tokio::time::Instant::now() + before + duration);
        let own_child = child.as_ref().and_then(Child::id);
        self.end = loop {
            if let Some(asked) = signals.end.first {
                break CaptureEnd::Asked(asked);
            }
            tokio::select! {
                // Ctrl-C also ends the command. The signal must win, as the cause.
                biased;
                asked = signals.end.recv() => break CaptureEnd::Asked(asked),
                () = or_never(threads.map(CaptureThreads::ended)) => break CaptureEnd::Enough,
                () = or_never(warmup.map(WarmUp::over)) => {
                    counting.start();
                    warmup.take().into_iter().for_each(WarmUp::end);
                    deadline = limits.duration.map(|duration| tokio::time::Instant::now() + duration);
                }
                () = or_never(deadline.map(tokio::time::sleep_until)) => break CaptureEnd::Enough,
                status = or_never(child.as_mut().map(Child::wait)) => {
                    let ran = self.spawned.elapsed();
                    shown.clear();
                    let code = command::code(status?);
                    break tokio::select! {
                        asked = signals.end.recv() => CaptureEnd::Asked(asked),
                        () = tokio::time::sleep(TEARDOWN) => CaptureEnd::Command { code, ran },
                    };
                }
                _ = signals.usr1.recv() => {
                    progress::print(CaptureThreads::so_far(threads).await.as_ref(), &counting.read());
                }
                scrape = or_never(server.as_mut().map(MetricsServer::next)) => {
                    let so_far = CaptureThreads::so_far(threads).await;
                    // The scraper may have disconnected.
                    scrape.send(metrics.scrape(so_far.as_ref(), &counting.read(), started.elapsed()));
                }
                _ = signals.child.recv() => command::reap_orphans(own_child),
                _ = tick.tick() => shown.update(threads),
            }
        };
        shown.clear();
        Ok(())
    }

    /// Ends what is left of the command. Returns false if the user does not want to wait.
    async fn end_command(&mut self, signals: &mut EndSignals) -> Result<bool> {
        let asked = match self.end {
            CaptureEnd::Command { code, .. } => {
                self.exit_code = Some(code);
                return Ok(true);
            }
            CaptureEnd::Asked(asked) => Some(asked),
            CaptureEnd::Enough => None,
        };
        let Some(child) = &mut self.child else { return Ok(true) };
        self.exit_code = command::end(child, asked, signals).await?;
        Ok(self.exit_code.is_some())
    }
}

/// Refuses to start under a limit on memory (`ulimit -v`) that would end the program in the middle of a capture.
fn check_memory() -> Result<()> {
    let fix = "MiB of address space, and the system does not give that much: raise the limit with ulimit -v";
    Vec::<u8>::new().try_reserve_exact(MEMORY).map_err(|_| anyhow!("a capture may need {} {fix}", MEMORY >> 20))
}

/// Describes the remains of an aborted capture.
fn kept(plan: &CapturePlan, folder: Option<&RunFolder>) -> String {
    match (folder, plan.packet_file()) {
        (Some(folder), _) => folder.abandon(),
        (None, Some(path)) if path.is_file() => format!(
            "the record is lost; `overhead analyze {}` makes a record of the packets that were kept, without counters",
            path.display()
        ),
        _ => "what was captured is not reported".to_owned(),
    }
}

impl CaptureSession {
    /// Opens the interface, UNIX sockets and packet file, and starts the threads. A capture without packets opens
    /// nothing.
    pub(super) fn open(&mut self) -> Result<()> {
        let plan = Arc::clone(&self.plan);
        if !plan.captures() {
            return Ok(());
        }
        if let Some(sockets) = self.sockets.as_ref().filter(|sockets| !sockets.are_beside) {
            let source = raised(|| StreamSource::open(sockets, &plan.live, StopHandle::new()?))?;
            let mut about = WriterOptions::new(LinkType::UPPER_PDU);
            about.interface = sockets.names.join(", ");
            self.counting.add(ProcessRole::Client, &source.client_pids());
            return self.start_threads(source, about);
        }
        let (source, mut about) = plan.live.open()?;
        if let Some(sockets) = self.sockets.take()
            && let Some(streams) = self.streams_beside(&sockets, source.stop_handle())?
        {
            about.beside = Some((LinkType::UPPER_PDU, sockets.names.join(", ")));
            self.sockets = Some(sockets);
            return self.start_threads(BesideSource::new(source, streams), about);
        }
        self.start_threads(source, about)
    }

    /// Opens UNIX sockets in addition to an interface. Reports a failure only if the user named the sockets.
    fn streams_beside(&mut self, sockets: &UnixSockets, stop: StopHandle) -> Result<Option<StreamSource>> {
        match raised(|| StreamSource::open(sockets, &self.plan.live, stop)) {
            Ok(streams) => {
                self.counting.add(ProcessRole::Server, &sockets.pids);
                self.counting.add(ProcessRole::Client, &streams.client_pids());
                Ok(Some(streams))
            }
            Err(error) if self.plan.sockets.names().is_empty() => {
                let names = sockets.names.join(", ");
                self.plan.say(&format!("the UNIX socket {names} is not captured: {error:#}"));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Opens the packet file and starts the threads.
    fn start_threads(&mut self, source: impl LiveInput, about: WriterOptions) -> Result<()> {
        let plan = Arc::clone(&self.plan);
        let windows = plan.sample.cycle.map(|cycle| {
            let now_ns = unix_ns();
            Windows::new(cycle, plan.sample.seed.unwrap_or(now_ns), now_ns)
        });
        let packets = self.packets(about, windows)?;
        let keys = KeyReader::follow(&plan.keys)?;
        let command = plan.command.words.first().map(String::as_str);
        let observe = |whose| TlsKeys::start(whose, &plan.live.ports, command, keys.log());
        self.tls_keys = plan.tls.as_ref().map(observe).transpose()?;
        self.tls_keys.iter().for_each(|tls_keys| plan.say(&tls_keys.announcement));
        let patience = if self.tls_keys.is_some() { tls_keys::PATIENCE } else { PATIENCE };
        let mut tally = Aggregate::new()
            .with_peers()
            .with_rows_by(plan.result.by)
            .with_distributions(plan.result.distribution)
            .with_servers(plan.metrics.is_some());
        let work = self.work.value().cloned();
        if let Some(listener) = &work {
            tally = tally.with_listener(SharedListener::new(Arc::<Mutex<WorkListener>>::clone(listener)));
        }
        let chosen = windows.map(Chosen::Noted);
        let dissection = plan.dissect.dissection(&plan.live.selection, keys.log(), tally, chosen);
        let LimitPlan { frames, operations, .. } = plan.limits;
        let (start_ns, warmup) = (Arc::clone(&self.start_ns), self.warmup.clone());
        let limits = CaptureLimits { frames, operations, start_ns, warmup, windows };
        self.threads = Some(CaptureThreads::start(
            source,
            dissection,
            (keys, patience),
            packets,
            (limits, self.only.take()),
            work,
        )?);
        Ok(())
    }

    /// Opens the packet files, if packets are kept.
    fn packets(&self, mut about: WriterOptions, windows: Option<Windows>) -> Result<Option<PacketFiles>> {
        let plan = &self.plan;
        let place = match (&plan.packets, &self.folder) {
            (PacketUse::Written(path), _) => PacketPlace::Path(path.clone(), plan.output.owner),
            (PacketUse::Kept, Some(folder)) => PacketPlace::Folder(Arc::clone(folder)),
            _ => return Ok(None),
        };
        if plan.with_keys {
            plan.say("the packet file will have the keys of its TLS connections: whoever reads it can decrypt them");
        }
        about.key_log_bytes = if plan.with_keys { KEY_BYTES } else { 0 };
        PacketFiles::create(place, plan.rotation, about, (plan.connections.selected.clone(), windows)).map(Some)
    }
}
