//! Opens the sources of a session and starts its threads.

use super::beside::BesideSource;
use super::input::LiveInput;
use super::plaintext::{self, TlsSource};
use super::plan::{LimitPlan, PacketUse};
use super::rotation::{PacketFiles, PacketPlace};
use super::session::CaptureSession;
use super::streams::{StreamSource, UnixSockets};
use super::threads::{CaptureLimits, CaptureThreads};
use anyhow::Result;
use overhead_capture::WriterOptions;
use overhead_capture::live::StopHandle;
use overhead_kernel::{WorkListener, raised};
use overhead_model::LinkType;
use overhead_reading::time::unix_ns;
use overhead_reading::{Chosen, KeyReader, Windows};
use overhead_report::{Aggregate, SharedListener};
use std::sync::{Arc, Mutex};

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
            self.counting.add_clients(&source.client_pids());
            return self.start_threads(source, about);
        }
        let (source, mut about) = plan.live.open()?;
        if let Some(whose) = &plan.tls {
            let program = plan.command.words.first().map(String::as_str);
            let source = TlsSource::open(source, whose, &plan.live.ports, program)?;
            about.beside = Some((LinkType::UPPER_PDU, plaintext::INTERFACE.to_owned()));
            plan.say(&source.announcement());
            return self.start_threads(source, about);
        }
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
                self.counting.add_servers(&sockets.pids);
                self.counting.add_clients(&streams.client_pids());
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
        let plan = &self.plan;
        let windows = plan.sample.cycle.map(|cycle| {
            let now_ns = unix_ns();
            Windows::new(cycle, plan.sample.seed.unwrap_or(now_ns), now_ns)
        });
        let packets = self.packets(about, windows)?;
        let keys = KeyReader::follow(&plan.keys)?;
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
        self.threads =
            Some(CaptureThreads::start(source, dissection, keys, packets, (limits, self.only.take()), work)?);
        Ok(())
    }

    /// Opens the packet files, if packets are kept.
    fn packets(&self, about: WriterOptions, windows: Option<Windows>) -> Result<Option<PacketFiles>> {
        let plan = &self.plan;
        let place = match (&plan.packets, &self.folder) {
            (PacketUse::Written(path), _) => PacketPlace::Path(path.clone(), plan.output.owner),
            (PacketUse::Kept, Some(folder)) => PacketPlace::Folder(Arc::clone(folder)),
            _ => return Ok(None),
        };
        PacketFiles::create(place, plan.rotation, about, (plan.connections.selected.clone(), windows)).map(Some)
    }
}
