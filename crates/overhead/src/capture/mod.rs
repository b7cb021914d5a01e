//! `overhead capture`: live traffic and the kernel's work of the same window.

mod announce;
mod args;
mod command;
mod counters;
mod environment;
mod folder;
mod packets;
mod progress;
mod queue;
mod warmup;

pub use args::Capture;

use crate::doubts::Doubts;
use crate::exit::Fault;
use crate::keys::KeyReader;
use crate::{fields, ledger, print, runs};
use anyhow::{Context, Result, bail};
use counters::Counting;
use folder::{Folder, PACKETS};
use overhead_capture::live::{LiveOptions, LiveSource, interface_facts, list_interfaces};
use overhead_capture::{KernelFilter, PcapngWriter, WriterOptions};
use overhead_dissect::{Dissector, Selection, Totals};
use overhead_model::record::{Input, SourceKind};
use overhead_model::{Measured, Protocol, Run};
use overhead_report::{Aggregate, NamedRun};
use packets::{Captured, Capturing, Limits};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::process::Child;
use tokio::signal::unix::{Signal, SignalKind, signal};
use warmup::WarmUp;

/// After the command has ended, its connections are closed within this time.
const TEARDOWN: Duration = Duration::from_millis(100);

impl Capture {
    /// Captures, counts, writes the run and prints the result.
    pub fn run(self) -> Result<u8> {
        if self.list_interfaces {
            return list();
        }
        self.output.check()?;
        tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(self.session())
    }

    async fn session(self) -> Result<u8> {
        let mut signals = Signals::new()?;
        let folder = self.folder()?;
        let session = self.begin(folder.as_ref()).inspect_err(|_| folder.iter().for_each(Folder::discard))?;
        let Session { child, mut counting, capturing, warmup, started } = session;
        let exit_code = self.wait(child, capturing.as_ref(), &mut counting, warmup.as_deref(), &mut signals).await?;
        capturing.iter().for_each(Capturing::stop);
        counting.stop();
        let mut captured = capturing.map_or_else(|| Ok(nothing()), Capturing::finish)?;
        let counters = if self.bpf_only { counting.read() } else { counting.attribute(&captured.aggregate) };
        if !self.bpf_only {
            captured.doubts.of_totals(&captured.totals);
            captured.doubts.of_frame_sizes(&captured.totals, Some(&interface_facts(&self.iface)));
        }
        if let Some(warmup) = &warmup {
            warmup.report(&mut captured.doubts);
        }
        for warning in counting.warnings() {
            captured.doubts.remark(warning);
        }
        let facts = self.facts(&captured, exit_code, counters, &counting, started);
        let mut run = ledger::run(&captured.aggregate, &captured.totals, captured.doubts, facts);
        if let Some(folder) = folder.as_ref().filter(|_| self.fields) {
            let keys = KeyReader::read(&self.keys, &mut Doubts::default())?;
            if let Err(error) = fields::read(&mut run, &[folder.packets()], self.which.selection()?, &keys) {
                run.warnings.push(format!("the fields could not be read from the packets: {error:#}"));
            }
        }
        self.publish(folder.as_ref(), run, exit_code)
    }

    /// Starts to count, to capture, and the command.
    fn begin(&self, folder: Option<&Folder>) -> Result<Session> {
        let selection = self.which.selection()?;
        let ports = ports_of(&selection);
        let mut counting = Counting::load(self, &ports)?;
        if let Some(note) = counting.awaited(&ports).filter(|_| !self.output.quiet) {
            eprintln!("{note}");
        }
        let started = Instant::now();
        let warmup = self.warmup.map(WarmUp::new);
        let capturing = self.open(&selection, &ports, folder, warmup.clone())?;
        if let Some(warmup) = warmup.as_ref().filter(|_| self.bpf_only) {
            warmup.begin();
        }
        counting.begin();
        let child = command::start(&self.command)?;
        if !self.output.quiet {
            eprintln!("overhead: {}", announce::sentence(self, &ports, &counting.read()));
        }
        Ok(Session { child, counting, capturing, warmup, started })
    }

    /// The run folder, unless packets or nothing are to be written.
    fn folder(&self) -> Result<Option<Folder>> {
        if self.write.is_some() {
            return Ok(None);
        }
        let db = self.which.db.first().map_or("auto", String::as_str);
        Folder::create(self.folder.as_deref(), db, self.force).map(Some)
    }

    /// Opens interface and file, and starts the capture.
    fn open(
        &self,
        selection: &Selection,
        ports: &[u16],
        folder: Option<&Folder>,
        warmup: Option<Arc<WarmUp>>,
    ) -> Result<Option<Capturing>> {
        if self.bpf_only {
            return Ok(None);
        }
        let mut options = LiveOptions::new(&self.iface);
        if self.snaplen > 0 {
            options.snaplen = self.snaplen;
        }
        options.buffer_bytes = self.buffer;
        options.filter = KernelFilter::new(ports.iter().copied(), self.filter.as_deref());
        let source = LiveSource::open(&options)?;
        let path = self.write.clone().or_else(|| folder.filter(|_| !self.no_packets).map(Folder::packets));
        let writer = path.map(|path| {
            let mut about = WriterOptions::new(source.link_type());
            about.interface.clone_from(&self.iface);
            about.snaplen = options.snaplen;
            about.comment = runs::note(&self.which.selected());
            source.filter().unwrap_or_default().clone_into(&mut about.filter);
            PcapngWriter::create(path, &about)
        });
        let keys = KeyReader::follow(&self.keys);
        let dissector = Dissector::new(selection.clone(), Aggregate::new().with_peers()).with_keys(keys.log());
        let limits = Limits { frames: self.count, operations: self.ops, warmup };
        Ok(Some(Capturing::start(source, dissector, keys, writer.transpose()?, limits)))
    }

    /// Waits for the end of the command, of the time, of the capture, or for a signal; gives the command's status.
    async fn wait(
        &self,
        mut child: Option<Child>,
        capturing: Option<&Capturing>,
        counting: &mut Counting,
        mut warmup: Option<&WarmUp>,
        signals: &mut Signals,
    ) -> Result<Option<i32>> {
        let mut shown = progress::Line::new(self.output.quiet);
        let mut tick = tokio::time::interval(Duration::from_millis(250));
        let before = warmup.map_or(Duration::ZERO, WarmUp::length);
        let mut deadline = self.duration.map(|duration| tokio::time::Instant::now() + before + duration);
        let mut ended = false;
        while !ended {
            tokio::select! {
                status = or_never(child.as_mut().map(Child::wait)) => {
                    shown.clear();
                    tokio::time::sleep(TEARDOWN).await;
                    return Ok(Some(command::code(status?)));
                }
                () = signals.end.recv() => ended = true,
                () = or_never(warmup.map(WarmUp::over)) => {
                    counting.begin();
                    warmup.take().into_iter().for_each(WarmUp::end);
                    deadline = self.duration.map(|duration| tokio::time::Instant::now() + duration);
                }
                () = or_never(deadline.map(tokio::time::sleep_until)) => ended = true,
                () = or_never(capturing.map(Capturing::ended)) => ended = true,
                _ = signals.usr1.recv() => progress::print(capturing, &counting.read()),
                _ = tick.tick() => shown.update(capturing),
            }
        }
        shown.clear();
        let Some(mut child) = child else { return Ok(None) };
        command::terminate(&child);
        tokio::select! {
            status = child.wait() => Ok(Some(command::code(status?))),
            () = signals.end.recv() => {
                child.start_kill()?;
                Err(Fault::aborted().into())
            }
        }
    }

    fn facts(
        &self,
        captured: &Captured,
        exit_code: Option<i32>,
        counters: Measured<overhead_model::record::Counters>,
        counting: &Counting,
        started: Instant,
    ) -> ledger::Facts {
        let interface = (!self.bpf_only).then(|| interface_facts(&self.iface));
        let mut environment = environment::describe(interface, &self.command);
        if let Some(workload) = &mut environment.workload {
            workload.exit_code = exit_code;
        }
        let path = self.write.as_deref().unwrap_or(Path::new(PACKETS)).display().to_string();
        let inputs = captured.written.map(|(frames, wire_bytes)| Input { path, frames, wire_bytes });
        ledger::Facts {
            kind: SourceKind::Live,
            inputs: inputs.into_iter().collect(),
            selection: self.which.selected(),
            kernel_drops: captured.kernel_drops.clone(),
            environment: Some(environment),
            counters,
            bpf_ns: counting.bpf_ns(),
            started,
        }
    }

    /// Writes and prints the result. It is printed even where it cannot be written.
    fn publish(&self, folder: Option<&Folder>, run: Run, exit_code: Option<i32>) -> Result<u8> {
        let named = NamedRun::new(folder.map_or_else(|| self.iface.clone(), Folder::name), run);
        let written = folder.map(|folder| folder.write(&named.run)).transpose();
        print::warnings(&named, &self.output);
        if self.write.as_deref() != Some(Path::new("-")) {
            print::result(&named, &self.output)?;
        }
        for file in written?.into_iter().flatten().filter(|_| !self.output.quiet) {
            eprintln!("{}", file.display());
        }
        match exit_code {
            Some(code) if code != 0 => Ok(u8::try_from(code).unwrap_or(u8::MAX)),
            _ => Ok(named.run.exit),
        }
    }
}

/// Signals that are heard from before anything is started.
struct Signals {
    end: End,
    usr1: Signal,
}

/// Signals by which somebody wants the capture to end.
struct End {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        let end = End { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? };
        Ok(Self { end, usr1: signal(SignalKind::user_defined1())? })
    }
}

impl End {
    async fn recv(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Everything that runs during a capture.
struct Session {
    child: Option<Child>,
    counting: Counting,
    capturing: Option<Capturing>,
    warmup: Option<Arc<WarmUp>>,
    started: Instant,
}

/// Ports to capture: the selected ones, or all well-known ones.
fn ports_of(selection: &Selection) -> Vec<u16> {
    if selection.ports.is_empty() {
        return Protocol::ALL.iter().flat_map(|protocol| protocol.ports()).copied().collect();
    }
    selection.ports.iter().map(|(port, _)| *port).collect()
}

/// Result of a capture without packets.
fn nothing() -> Captured {
    Captured {
        aggregate: Aggregate::new(),
        totals: Totals::default(),
        kernel_drops: Measured::unavailable("no packets were captured (--bpf-only)"),
        written: None,
        doubts: Doubts::default(),
    }
}

/// What comes of `future`; never anything, where there is none.
async fn or_never<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

fn list() -> Result<u8> {
    let interfaces = list_interfaces().context("the interfaces cannot be listed")?;
    if interfaces.is_empty() {
        bail!("there is no interface that this user may capture on: run with sudo");
    }
    for interface in interfaces {
        let flags: Vec<&str> = interface.flags.iter().map(|flag| flag.name()).collect();
        let addresses: Vec<String> = interface.addresses.iter().map(ToString::to_string).collect();
        println!("{:<16} {:<24} {}", interface.name, flags.join(","), addresses.join(" "));
    }
    Ok(overhead_model::exit::COMPLETE)
}
