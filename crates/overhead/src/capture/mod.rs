//! `overhead capture`: live traffic and the kernel's work of the same window.

mod announce;
mod args;
mod beside;
mod clock;
mod command;
mod container;
mod cost;
mod counters;
mod descriptors;
mod environment;
mod family;
mod folder;
mod frames;
mod metrics;
mod packets;
mod plaintext;
mod progress;
mod queue;
mod rotation;
mod signals;
mod streams;
mod warmup;

pub use args::CaptureArgs;
#[cfg(feature = "top")]
pub use args::{byte_size, port_list};
pub use command::CommandOutput;
#[cfg(feature = "top")]
pub use container::ContainerPlace;
pub use container::choose as choose_interface;
pub use folder::{Folder, PRINTED, Written, by_time as folder_by_time};
#[cfg(feature = "top")]
pub use packets::{Capturing, Dissection, Limits};
pub use signals::Signals;

use crate::caller::User;
use crate::databases::Database;
use crate::exit::StatusFault;
use crate::keys::KeyReader;
use crate::ledger::Beginning;
use crate::privileges::raised;
use crate::sample::{AggregateWindows, Sampler, Windows};
use crate::sweep::SweepArgs;
use crate::time::unix_ns;
use crate::warnings::Warnings;
use crate::{caller, databases, fields, inputs, ledger, print, project};
use anyhow::{Result, bail};
use beside::BesideSource;
use counters::Counting;
use descriptors::Inherited;
use metrics::{Metrics, MetricsServer};
use overhead_capture::live::{LiveOptions, LiveSource, StopHandle, StopSignal, interface_facts};
use overhead_capture::{KernelFilter, WriterOptions};
use overhead_containers::HostContainers;
use overhead_dissect::{Dissector, KeyLog, Selection, Totals};
use overhead_files::FileOwner;
use overhead_kernel::{WorkListener, own_network_namespace};
use overhead_model::record::SourceKind;
use overhead_model::{LinkType, Measured, Protocol, Run, Transport, exit, say};
use overhead_report::{Aggregate, NamedRun, SharedListener};
use packets::{CaptureOutcome, LiveInput, SharedWorkListener};
#[cfg(not(feature = "top"))]
use packets::{Capturing, Dissection, Limits};
use plaintext::TlsSource;
use rotation::{PacketFiles, PacketPlace, PacketSet};
use signals::{Asked, EndSignals};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use streams::{Sockets, StreamSource};
use tokio::process::Child;
use tokio::runtime::Runtime;
use warmup::WarmUp;

/// After the command has ended, its connections are closed within this time.
const TEARDOWN: Duration = Duration::from_millis(100);
/// Servers on other ports that are named after a capture of nothing.
const SERVERS_NAMED: usize = 3;
/// What is kept of a capture that was aborted while it waited to begin.
const NOTHING_CAPTURED: &str = "a file or a pipe could not be opened in time, and nothing was captured";
/// To be told to whom asks for the end when it has come already.
const CONCLUDING: &str = "overhead: the capture has ended and its result is made: the next Ctrl-C gives it up";

impl CaptureArgs {
    /// Captures, counts, writes the run and prints the result.
    pub fn run(self) -> Result<u8> {
        if self.list_interfaces {
            return list(self.container.as_deref());
        }
        if self.runs.is_some_and(|runs| runs > 1) {
            return SweepArgs::repeated(self).run();
        }
        self.output.check()?;
        if self.project.model().is_some() && (self.write.is_some() || self.no_packets || self.bpf_only) {
            let why = "--project and --physical read the packets of the run folder: leave -w, --no-packets and --bpf-only out";
            return Err(StatusFault::usage(why.to_owned()).into());
        }
        let this = self.settled()?;
        runtime()?.block_on(this.run_settled())
    }

    async fn run_settled(self) -> Result<u8> {
        let mut signals = Signals::new()?;
        self.check()?;
        if let Some(rounds) = self.measure_cost {
            return cost::measure(self, rounds, &mut signals).await;
        }
        let folder = self.folder()?.map(Arc::new);
        let print = |capture: &Self, captured| capture.publish(captured);
        Arc::new(self).session(&mut signals, folder, CommandOutput::Shown, print).await
    }

    /// Checks what was asked for, as far as this is possible before anything is made.
    pub fn check(&self) -> Result<()> {
        User::choose(self.user.as_deref(), self.as_root)?;
        self.which.selection()?;
        self.rotation.check(self.write.as_deref())?;
        let twice = self.fields || self.project.model().is_some();
        if self.sample.cycle.is_some() && (twice || self.warmup.is_some() || self.bpf_only) {
            let why = "--sample captures a part of the time, which --fields, --project, --physical, --warmup and --bpf-only do not know of: leave it or them out";
            return Err(StatusFault::usage(why.to_owned()).into());
        }
        if self.rotation.is_ring() && (self.fields || self.project.model().is_some()) {
            let why =
                "--fields, --project and --physical read all packets again, and -W deletes some: leave it or them out";
            return Err(StatusFault::usage(why.to_owned()).into());
        }
        Ok(())
    }

    /// Captures once. `conclude` has what came of it, in a thread that is left behind where somebody asks for the end twice.
    /// A folder that nothing was measured for is taken away.
    pub async fn session<T: Send + 'static>(
        self: Arc<Self>,
        signals: &mut Signals,
        folder: Option<Arc<Folder>>,
        output: CommandOutput,
        conclude: impl FnOnce(&Self, Captured) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (this, place) = (Arc::clone(&self), folder.clone());
        let begun = signals.end.unless_aborted(None, move || this.begin(place.as_ref(), output)).await?;
        let begun = begun.unwrap_or_else(|| Err(StatusFault::aborted(NOTHING_CAPTURED).into()));
        let session = begun.inspect_err(|_| folder.iter().for_each(|folder| folder.discard()))?;
        let CaptureSession {
            mut child,
            spawned,
            mut counting,
            capturing,
            sockets,
            work,
            warmup,
            metrics,
            started,
            containers,
        } = session;
        let watched =
            Watched { capturing: capturing.as_ref(), counting: &mut counting, warmup: warmup.as_deref(), metrics };
        let cause = self.watch(child.as_mut(), watched, signals).await?;
        // The window ends here, however long the command takes to.
        capturing.iter().for_each(Capturing::stop);
        counting.stop();
        let ended = Ended::of(cause, child.as_mut(), &mut signals.end).await?;
        let Some(ended) = ended else { return Err(StatusFault::aborted(&self.kept(folder.as_deref())).into()) };
        let ran = ended.at.map(|at| at - spawned);
        let finishing = Finishing { counting, capturing, sockets, work, warmup, started, ended, containers };
        let (this, place) = (Arc::clone(&self), folder.clone());
        let concluded = signals.end.unless_aborted(Some(CONCLUDING), move || {
            let run = this.record(finishing, place.as_deref())?;
            conclude(&this, Captured { folder: place, run, ended, ran })
        });
        concluded.await?.unwrap_or_else(|| Err(StatusFault::aborted(&self.kept(folder.as_deref())).into()))
    }

    /// Waits for the threads, and makes the record.
    fn record(&self, finishing: Finishing, folder: Option<&Folder>) -> Result<Run> {
        let Finishing { mut counting, capturing, sockets, work, warmup, started, ended, containers } = finishing;
        let log = capturing.as_ref().map(Capturing::key_log).unwrap_or_default();
        let mut captured = capturing.map_or_else(|| Ok(nothing()), Capturing::finish)?;
        if let Some(lost) = folder.and_then(|folder| folder.lost_packets(&mut captured.packets.inputs)) {
            captured.warnings.partial(lost);
        }
        captured.warnings.of_command(ended);
        let had_streams = captured.totals.transports.contains(&Transport::Unix);
        let only_streams = sockets.as_ref().is_some_and(|sockets| !sockets.are_beside);
        let mut counters = match (self.bpf_only, had_streams || only_streams) {
            (true, _) => counting.read(),
            (false, false) => counting.attribute(&captured.aggregate),
            (false, true) => counting.attribute_streams(&captured.aggregate),
        };
        let moments = [&containers, &container::containers_now()];
        container::name_containers(&mut counters, &moments, &counting.network_namespaces());
        let facts = self.facts(&captured, ended, counters, &counting, started);
        if !self.bpf_only {
            captured.warnings.of_totals(&captured.totals);
            let interface = facts.environment.as_ref().and_then(|environment| environment.interface.as_ref());
            captured.warnings.of_frame_sizes(&captured.totals, interface);
            if self.write.is_some() {
                captured.warnings.of_packets_alone();
            }
        }
        if captured.warnings.is_nothing() && self.has_interface() {
            self.look_elsewhere(&mut captured.warnings)?;
        }
        if sockets.is_none() {
            streams::look_for_others(self, &captured.aggregate, &mut captured.warnings);
        } else if captured.totals.frames == 0 {
            streams::look_for_servers(&self.unix, &mut captured.warnings);
        }
        if let Some(warmup) = &warmup {
            warmup.report(&mut captured.warnings);
        }
        if self.sample_kernel
            && let Measured::Unavailable { unavailable } = &work
        {
            captured.warnings.remark(format!("no work was sampled by operation: {unavailable}"));
        }
        for warning in counting.warnings() {
            captured.warnings.remark(warning);
        }
        let mut run = ledger::run(&captured.aggregate, &captured.totals, captured.warnings, facts);
        if let Some(sampled) = &captured.sampled {
            sampled.report(&mut run);
        }
        write_work(work, &mut run);
        if let Some(folder) = folder {
            self.read_packets_again(folder, log, &mut run)?;
        }
        Ok(run)
    }

    /// Adds the figures that take another reading of the packets.
    fn read_packets_again(&self, folder: &Folder, log: Arc<KeyLog>, run: &mut Run) -> Result<()> {
        let keys = KeyReader::read_again(&self.keys, log);
        if self.fields
            && let Err(error) = fields::read(run, &folder.packets(), self.which.selection()?, &keys)
        {
            run.warnings.push(format!("the fields could not be read from the packets: {error:#}"));
        }
        if let Some(model) = self.project.model() {
            let mut dissector = project::dissector(model, self.which.selection()?, &keys);
            let read = inputs::frames(&folder.packets(), &keys, |frame| dissector.frame(frame));
            if let Err(error) = read {
                run.warnings.push(format!("nothing was modelled, for the packets could not be read: {error:#}"));
                run.exit = run.exit.max(exit::PARTIAL);
            } else {
                project::add(run, model, dissector);
            }
        }
        Ok(())
    }

    /// Nothing was captured: says which servers listen where this capture did not look.
    fn look_elsewhere(&self, warnings: &mut Warnings) -> Result<()> {
        let selection = self.which.selection()?;
        let ports = self.ports()?;
        if self.which.is_default() {
            warnings
                .remark("without --db and --port a capture looks at the usual ports only: name another with --port");
        }
        let here = own_network_namespace();
        let wanted = |database: &Database| {
            let protocols = selection.ports.iter().flat_map(|(_, protocols)| protocols);
            let is_asked_for =
                self.which.selected().db.is_empty() || protocols.clone().any(|of| *of == database.system.protocol);
            is_asked_for
                && database.network_namespace == Some(here)
                && !database.ports().iter().any(|port| ports.contains(port))
        };
        let listening = databases::listening(&container::containers_now()).unwrap_or_default();
        for database in listening.iter().filter(|database| wanted(database)).take(SERVERS_NAMED) {
            let Some(port) = database.ports().first().copied() else { continue };
            let (comm, pid, name) = (&database.comm, database.pid(), database.system.name);
            warnings.remark(format!(
                "{comm} (process {pid}) listens on port {port}: capture it with --db {name} --port {port}"
            ));
        }
        Ok(())
    }

    /// Returns what there is of a capture that was aborted, and what is lost.
    fn kept(&self, folder: Option<&Folder>) -> String {
        match (folder, self.write.as_deref()) {
            (Some(folder), _) => folder.abandon(),
            (None, Some(path)) if path.is_file() => format!(
                "the figures are lost; `overhead analyze {}` makes those of the packets that were kept, without counters",
                path.display()
            ),
            _ => "what was captured is not reported".to_owned(),
        }
    }

    /// Starts to count, to capture, and the command.
    fn begin(&self, folder: Option<&Arc<Folder>>, output: CommandOutput) -> Result<CaptureSession> {
        let user = User::choose(self.user.as_deref(), self.as_root)?;
        let metrics = self.metrics.map(MetricsServer::listen).transpose()?;
        if let Some(address) = self.metrics.filter(|_| !self.output.quiet) {
            say!("overhead: metrics at http://{address}/metrics");
        }
        let selection = self.which.selection()?;
        let sockets = self.sockets(&selection)?;
        let ports = if self.has_interface() { self.ports()? } else { Vec::new() };
        let containers = container::containers_now();
        let mut counting = Counting::load(self, &ports, sockets.as_ref())?;
        if let Some(note) = counting.awaited(&ports).filter(|_| !self.output.quiet && sockets.is_none()) {
            say!("{note}");
        }
        if let Some(caution) = self.rotation.caution(self.write.as_deref()).filter(|_| !self.output.quiet) {
            say!("overhead: {caution}");
        }
        let started = Beginning::now();
        let warmup = self.warmup.map(WarmUp::new);
        let work = match counting.sampling() {
            Measured::Value(sampling) => Measured::Value(Arc::new(Mutex::new(sampling.listener()))),
            Measured::Unavailable { unavailable } => Measured::unavailable(unavailable),
        };
        let listener = work.value().cloned();
        let mut opening = Opening { selection: &selection, folder, warmup: warmup.clone(), counting: &mut counting };
        let (capturing, sockets) = match sockets {
            Some(sockets) if !sockets.are_beside => (Some(self.open_streams(&sockets, opening)?), Some(sockets)),
            sockets => self.open(sockets, &ports, &mut opening, listener)?,
        };
        if let Some(warmup) = warmup.as_ref().filter(|_| self.bpf_only) {
            warmup.begin();
        }
        counting.begin();
        let spawned = Instant::now();
        let child = command::start(&self.command, user, output)?;
        if !self.output.quiet {
            let mut so_far = counting.read();
            container::name_containers(&mut so_far, &[&containers], &counting.network_namespaces());
            say!("overhead: {}", announce::sentence(self, &ports, sockets.as_ref(), &so_far));
        }
        Ok(CaptureSession { child, spawned, counting, capturing, sockets, work, warmup, metrics, started, containers })
    }

    /// The run folder, unless packets or nothing are to be written.
    fn folder(&self) -> Result<Option<Folder>> {
        if self.write.is_some() {
            return Ok(None);
        }
        let db = self.which.db.first().map_or("auto", String::as_str);
        Folder::create(self.folder.as_deref(), db, self.force, self.owner()).map(Some)
    }

    /// To whom what is written belongs.
    pub fn owner(&self) -> Option<FileOwner> {
        if self.as_root { None } else { caller::owner() }
    }

    /// Opens what the packets go to, if they are kept.
    fn packets(
        &self,
        folder: Option<&Arc<Folder>>,
        about: WriterOptions,
        windows: Option<Windows>,
    ) -> Result<Option<PacketFiles>> {
        let place = match (self.write.as_deref(), folder) {
            (Some(path), _) => PacketPlace::Path(path.to_owned(), self.owner()),
            (None, Some(folder)) if !self.no_packets => PacketPlace::Folder(Arc::clone(folder)),
            _ => return Ok(None),
        };
        PacketFiles::create(place, self.rotation, about, (self.which.selected(), windows)).map(Some)
    }

    /// Returns whether packets of an interface are captured, or counted.
    fn has_interface(&self) -> bool {
        self.unix.is_empty() || self.iface.is_some()
    }

    /// Opens interface and file, and starts the capture; with the UNIX sockets that are captured beside it, as far as they can be.
    fn open(
        &self,
        sockets: Option<Sockets>,
        ports: &[u16],
        opening: &mut Opening<'_>,
        work: Option<SharedWorkListener>,
    ) -> Result<(Option<Capturing>, Option<Sockets>)> {
        if self.bpf_only {
            return Ok((None, None));
        }
        let mut options = LiveOptions::new(self.interface());
        options.namespace = self.namespace().cloned();
        if self.snaplen > 0 {
            options.snaplen = self.snaplen;
        }
        options.buffer_bytes = self.buffer;
        options.filter = KernelFilter::new(ports.iter().copied(), self.filter.as_deref());
        let source = raised(|| LiveSource::open(&options))?;
        let mut about = WriterOptions::new(source.link_type());
        about.interface = self.interface_in_words();
        about.snaplen = options.snaplen;
        source.filter().unwrap_or_default().clone_into(&mut about.filter);
        if let Some(whose) = &self.tls_plaintext {
            let program = self.command.first().map(String::as_str);
            let source = TlsSource::open(source, whose, ports, program)?;
            about.beside = Some((LinkType::UPPER_PDU, plaintext::INTERFACE.to_owned()));
            if !self.output.quiet {
                say!("overhead: {}", source.announcement());
            }
            return Ok((Some(self.start(source, about, opening, work)?), None));
        }
        if let Some(sockets) = sockets
            && let Some(streams) = self.streams_beside(&sockets, source.stop_handle(), opening)?
        {
            about.beside = Some((LinkType::UPPER_PDU, sockets.names.join(", ")));
            let capturing = self.start(BesideSource::new(source, streams), about, opening, work)?;
            return Ok((Some(capturing), Some(sockets)));
        }
        Ok((Some(self.start(source, about, opening, work)?), None))
    }

    /// Opens the UNIX sockets beside an interface. Where nobody has asked for them by name, it is enough to say why they cannot be.
    fn streams_beside(
        &self,
        sockets: &Sockets,
        stop: StopHandle,
        opening: &mut Opening<'_>,
    ) -> Result<Option<StreamSource>> {
        match raised(|| StreamSource::open(sockets, opening.selection, self.snaplen, self.buffer, stop)) {
            Ok(streams) => {
                opening.counting.add_servers(&sockets.pids);
                opening.counting.add_clients(&streams.client_pids());
                Ok(Some(streams))
            }
            Err(error) if self.unix.is_empty() => {
                if !self.output.quiet {
                    let names = sockets.names.join(", ");
                    say!("overhead: what goes through the UNIX socket {names} is not captured: {error:#}");
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the UNIX sockets to capture: those that were asked for, or those of the servers that `--db` names where nothing
    /// says where to capture; `None` where only packets are captured.
    fn sockets(&self, selection: &Selection) -> Result<Option<Sockets>> {
        if self.unix.is_empty() {
            return Ok(if self.finds_sockets() { self.sockets_of_databases(selection) } else { None });
        }
        if self.project.model().is_some() {
            let why =
                "--project and --physical model a link, and UNIX sockets have none: leave them out, or capture TCP";
            return Err(StatusFault::usage(why.to_owned()).into());
        }
        let sockets = Sockets::find(&self.unix, selection, &self.pid)?;
        Ok(Some(Sockets { are_beside: self.has_interface(), ..sockets }))
    }

    /// Returns whether a server was named, and nothing that only packets have.
    fn finds_sockets(&self) -> bool {
        let is_elsewhere = self.iface.is_some() || self.container.is_some() || self.filter.is_some();
        let is_of_packets = self.bpf_only || self.tls_plaintext.is_some() || self.sample_kernel;
        !(is_elsewhere || is_of_packets || self.project.model().is_some() || self.which.selected().db.is_empty())
    }

    fn sockets_of_databases(&self, selection: &Selection) -> Option<Sockets> {
        let protocols: Vec<Protocol> = selection.ports.iter().flat_map(|(_, protocols)| protocols).copied().collect();
        let databases = databases::listening(&container::containers_now()).ok()?;
        let is_named = !self.which.selected().ports.is_empty();
        Sockets::beside(&databases, &protocols, &port_list(selection), is_named, own_network_namespace())
    }

    /// Opens sockets and file, and starts the capture.
    fn open_streams(&self, sockets: &Sockets, mut opening: Opening<'_>) -> Result<Capturing> {
        let stop = StopSignal::new()?.handle();
        let source = raised(|| StreamSource::open(sockets, opening.selection, self.snaplen, self.buffer, stop))?;
        opening.counting.add_clients(&source.client_pids());
        let mut about = WriterOptions::new(LinkType::UPPER_PDU);
        about.interface = sockets.names.join(", ");
        self.start(source, about, &mut opening, None)
    }

    /// Opens the file, and starts the capture.
    fn start(
        &self,
        source: impl LiveInput,
        about: WriterOptions,
        opening: &mut Opening<'_>,
        work: Option<SharedWorkListener>,
    ) -> Result<Capturing> {
        let Opening { selection, folder, warmup, .. } = opening;
        let windows = self.sample.cycle.map(|cycle| {
            let now_ns = unix_ns();
            Windows::new(cycle, self.sample.sample_seed.unwrap_or(now_ns), now_ns)
        });
        let packets = self.packets(*folder, about, windows)?;
        let keys = KeyReader::follow(&self.keys);
        let tally =
            Aggregate::new().with_peers().with_rows_by(self.output.rows.by()).with_distributions(self.distribution);
        let tally = match &work {
            Some(listener) => tally.with_listener(SharedListener::new(Arc::<Mutex<WorkListener>>::clone(listener))),
            None => tally,
        };
        let tally = if self.no_statements { tally.without_statements() } else { tally };
        let (selection, log, no_memo) = ((*selection).clone(), keys.log(), self.no_memo);
        let make = move |tally| {
            let dissector = Dissector::new(selection.clone(), tally).with_keys(Arc::clone(&log));
            if no_memo { dissector.without_memo() } else { dissector }
        };
        let dissection = match windows {
            Some(windows) => {
                Dissection::Windows(Box::new(Sampler::of(windows, AggregateWindows::new(tally, Box::new(make)))))
            }
            None => Dissection::Whole(Box::new(make(tally))),
        };
        let limits = Limits { frames: self.count, operations: self.ops, warmup: warmup.take(), windows };
        Ok(Capturing::start(source, dissection, keys, packets, limits, work))
    }

    /// Waits for the end of the command, of the time, of the capture, or for a signal; gives which it was.
    async fn watch(&self, mut child: Option<&mut Child>, watched: Watched<'_>, signals: &mut Signals) -> Result<Cause> {
        let Watched { capturing, counting, mut warmup, metrics: mut server } = watched;
        let (begun, mut metrics) = (Instant::now(), Metrics::default());
        let mut shown = progress::StatusLine::new(self.output.quiet);
        let mut tick = tokio::time::interval(Duration::from_millis(250));
        let before = warmup.map_or(Duration::ZERO, WarmUp::length);
        let mut deadline = self.duration.map(|duration| tokio::time::Instant::now() + before + duration);
        let command = child.as_ref().and_then(|child| child.id());
        let cause = loop {
            if let Some(asked) = signals.end.asked() {
                break Cause::Asked(asked);
            }
            tokio::select! {
                // A Ctrl-C ends the command too: who asked comes before who obeyed.
                biased;
                asked = signals.end.recv() => break Cause::Asked(asked),
                () = or_never(capturing.map(Capturing::ended)) => break Cause::Enough,
                () = or_never(warmup.map(WarmUp::over)) => {
                    counting.begin();
                    warmup.take().into_iter().for_each(WarmUp::end);
                    deadline = self.duration.map(|duration| tokio::time::Instant::now() + duration);
                }
                () = or_never(deadline.map(tokio::time::sleep_until)) => break Cause::Enough,
                status = or_never(child.as_mut().map(|child| child.wait())) => {
                    let at = Instant::now();
                    shown.clear();
                    let code = command::code(status?);
                    break tokio::select! {
                        asked = signals.end.recv() => Cause::Asked(asked),
                        () = tokio::time::sleep(TEARDOWN) => Cause::Command(code, at),
                    };
                }
                _ = signals.usr1.recv() => {
                    let so_far = match capturing {
                        Some(capturing) => Some(capturing.so_far().await),
                        None => None,
                    };
                    progress::print(so_far.as_ref(), &counting.read());
                }
                scrape = or_never(server.as_mut().map(MetricsServer::next)) => {
                    let so_far = match capturing {
                        Some(capturing) => Some(capturing.so_far().await),
                        None => None,
                    };
                    // Who asked may have gone away meanwhile.
                    let _ = scrape.send(metrics.scrape(so_far.as_ref(), &counting.read(), begun.elapsed()));
                }
                _ = signals.child.recv() => family::bury(command),
                _ = tick.tick() => shown.update(capturing),
            }
        };
        shown.clear();
        Ok(cause)
    }

    fn facts(
        &self,
        captured: &CaptureOutcome,
        ended: Ended,
        counters: Measured<overhead_model::record::Counters>,
        counting: &Counting,
        started: Beginning,
    ) -> ledger::Circumstances {
        let interface = (!self.bpf_only && self.has_interface())
            .then(|| raised(|| interface_facts(self.interface(), self.namespace())));
        let mut environment = environment::describe(interface, &self.command);
        environment.container = self.place.as_ref().map(|place| place.container.record());
        if let Some(workload) = &mut environment.workload {
            workload.exit_code = ended.code;
            workload.was_ended = !ended.by_itself;
        }
        let PacketSet { inputs, rotation } = captured.packets.clone();
        ledger::Circumstances {
            kind: SourceKind::Live,
            inputs,
            rotation,
            selection: self.which.selected(),
            kernel_drops: captured.kernel_drops.clone(),
            environment: Some(environment),
            counters,
            bpf_ns: counting.bpf_ns(),
            started,
        }
    }

    /// Writes and prints the result. It is printed even where it cannot be written.
    fn publish(&self, captured: Captured) -> Result<u8> {
        let Captured { folder, run, ended, .. } = captured;
        let folder = folder.as_deref();
        let named = NamedRun::new(folder.map_or_else(|| self.interface_in_words(), Folder::name), run);
        let written = folder.map(|folder| folder.write(&named.run)).transpose();
        print::warnings(&named, &self.output);
        if self.write.as_deref() != Some(Path::new("-")) {
            print::result(&named, &self.output)?;
        }
        let mut status = named.run.exit;
        if let Some(Written { files, without_figures }) = written? {
            if let Some(reason) = without_figures {
                say!("overhead: warning: the record is written, and no figure: {reason}");
                status = status.max(exit::PARTIAL);
            }
            for file in files.iter().filter(|_| !self.output.quiet) {
                say!("{}", file.display());
            }
        }
        Ok(ended.status().unwrap_or(status))
    }
}

/// Why a capture ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The command has ended by itself, with this status, at this moment.
    Command(i32, Instant),
    /// Somebody asked.
    Asked(Asked),
    /// There was enough of it, by a limit, or nobody reads it any more.
    Enough,
}

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its status; `None` where there was no command.
    pub code: Option<i32>,
    /// Nobody and no limit ended it.
    pub by_itself: bool,
    /// Somebody asked for the end.
    pub was_asked: bool,
    /// When it ended by itself.
    at: Option<Instant>,
}

impl Ended {
    /// Ends what still runs of the command; `None` where somebody does not want to wait for that.
    async fn of(cause: Cause, child: Option<&mut Child>, signals: &mut EndSignals) -> Result<Option<Self>> {
        let asked = match cause {
            Cause::Command(code, at) => {
                return Ok(Some(Self { code: Some(code), by_itself: true, was_asked: false, at: Some(at) }));
            }
            Cause::Asked(asked) => Some(asked),
            Cause::Enough => None,
        };
        let was_asked = asked.is_some();
        let Some(child) = child else { return Ok(Some(Self { code: None, by_itself: false, was_asked, at: None })) };
        let code = command::end(child, asked, signals).await?;
        Ok(code.map(|code| Self { code: Some(code), by_itself: false, was_asked, at: None }))
    }

    /// The exit status to pass on, if the command's is the one.
    fn status(self) -> Option<u8> {
        let code = self.code.filter(|code| self.by_itself && *code != 0)?;
        Some(u8::try_from(code).unwrap_or(u8::MAX))
    }
}

/// What came of a capture.
pub struct Captured {
    /// Where it is to be written; `None` where it is not.
    pub folder: Option<Arc<Folder>>,
    /// The record.
    pub run: Run,
    /// How it ended.
    pub ended: Ended,
    /// How long the command ran; `None` where it did not end by itself.
    pub ran: Option<Duration>,
}

impl Warnings {
    /// The command that failed by itself may have done a part of its work only.
    fn of_command(&mut self, ended: Ended) {
        let Some(status) = ended.status() else { return };
        let number = i32::from(status) - 128;
        let signal = rustix::process::Signal::from_named_raw(number).map(|named| format!("{named:?}"));
        self.remark(match signal {
            Some(named) => format!(
                "the command ended with status {status} (signal {number}, SIG{}): the run is of what it did until then",
                named.trim_matches('"').trim_start_matches("Signal::")
            ),
            None => format!("the command ended with status {status}: the run is of what it did until then"),
        });
    }
}

/// Writes the work that was sampled by operation into the record, or the reason why none was.
fn write_work(work: Measured<SharedWorkListener>, run: &mut Run) {
    match (work, &mut run.counters) {
        (Measured::Value(work), _) => {
            work.lock().unwrap_or_else(PoisonError::into_inner).finish().write(run);
        }
        (Measured::Unavailable { unavailable }, Measured::Value(counters)) => {
            counters.by_operation = Measured::unavailable(unavailable);
        }
        (Measured::Unavailable { .. }, Measured::Unavailable { .. }) => {}
    }
}

/// Everything that runs during a capture.
struct CaptureSession {
    child: Option<Child>,
    /// When the command was started.
    spawned: Instant,
    counting: Counting,
    capturing: Option<Capturing>,
    /// The UNIX sockets that are captured.
    sockets: Option<Sockets>,
    work: Measured<SharedWorkListener>,
    warmup: Option<Arc<WarmUp>>,
    metrics: Option<MetricsServer>,
    started: Beginning,
    /// Those there were as it began.
    containers: HostContainers,
}

/// What a capture is opened with.
struct Opening<'a> {
    selection: &'a Selection,
    folder: Option<&'a Arc<Folder>>,
    warmup: Option<Arc<WarmUp>>,
    counting: &'a mut Counting,
}

/// What is looked at while a capture runs.
struct Watched<'a> {
    capturing: Option<&'a Capturing>,
    counting: &'a mut Counting,
    warmup: Option<&'a WarmUp>,
    metrics: Option<MetricsServer>,
}

/// What there is to do once the window has ended.
struct Finishing {
    counting: Counting,
    capturing: Option<Capturing>,
    sockets: Option<Sockets>,
    work: Measured<SharedWorkListener>,
    warmup: Option<Arc<WarmUp>>,
    started: Beginning,
    ended: Ended,
    containers: HostContainers,
}

/// Returns what a capture runs in.
pub fn runtime() -> Result<Runtime> {
    Inherited::note();
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// Result of a capture without packets.
fn nothing() -> CaptureOutcome {
    CaptureOutcome {
        aggregate: Aggregate::new(),
        totals: Totals::default(),
        sampled: None,
        kernel_drops: Measured::unavailable("no packets were captured (--bpf-only)"),
        packets: PacketSet::default(),
        warnings: Warnings::default(),
    }
}

/// What comes of `future`; never anything, where there is none.
async fn or_never<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

fn list(container: Option<&str>) -> Result<u8> {
    let interfaces = container::interfaces(container)?;
    if interfaces.is_empty() {
        bail!("there is no interface that this user may capture on: run with sudo");
    }
    let mut out = String::new();
    for interface in interfaces {
        let flags: Vec<&str> = interface.flags.iter().map(|flag| flag.name()).collect();
        let addresses: Vec<String> = interface.addresses.iter().map(ToString::to_string).collect();
        let _ = writeln!(out, "{:<16} {:<24} {}", interface.name, flags.join(","), addresses.join(" "));
    }
    print::verbatim(&out)?;
    Ok(exit::COMPLETE)
}
