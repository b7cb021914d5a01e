//! Short captures, which show the composition of the traffic of each server and client.

mod sampler;

use super::servers::ServerEnd;
use super::work::{ServerWork, WorkCounting, WorkPlan};
use anyhow::Result;
use overhead_capture::live::{LiveOptions, LiveSource, NetworkNamespace};
use overhead_capture::{FrameSource, KernelFilter, NextFrame};
use overhead_dissect::{Dissector, KeptSessions, KeyLog, LearnedStatements, Selection};
use overhead_kernel::{ETHERNET_HEADER, connected_sockets, raised};
use overhead_model::{Class, LinkType};
use overhead_reading::time::unix_ns;
use overhead_report::composition::{TrafficPart, WindowSample};
use sampler::OperationSampler;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Size of the kernel's ring: about a tenth of a second of small frames at full rate.
const BUFFER_BYTES: u32 = 16 << 20;

/// Bytes that the connections of a window may hold, and that they may decompress beyond the usual ratio: the agent runs beside the servers.
const MOST_HELD: usize = 32 << 20;

/// Time for which a window follows its operations after its end.
const FOLLOWED: Duration = Duration::from_secs(1);

/// Kernel work of a window does not count if more than this part of its length passed while its counters were read.
const MOST_UNSURE: u32 = 4;

/// The kernel hands a frame over within half of this time.
const HANDOVER: Duration = Duration::from_millis(20);

/// What a window shows of the traffic of a server with a client.
pub type SamplesByEnds = HashMap<(ServerEnd, IpAddr), WindowSample>;

/// What to capture.
#[derive(Clone)]
pub struct WindowPlan {
    /// Number of the network namespace.
    pub number: u32,
    /// Absent for the namespace of this process.
    pub namespace: Option<NetworkNamespace>,
    pub selection: Selection,
    /// Of TLS connections that are open.
    pub sessions: Arc<KeptSessions>,
    /// Statements that earlier windows saw being prepared.
    pub learned: Arc<LearnedStatements>,
    pub length: Duration,
    /// The server whose kernel work is counted, if any.
    pub work: Option<WorkPlan>,
}

/// The traffic of a window.
pub struct CapturedWindow {
    /// Number of the network namespace.
    pub number: u32,
    pub samples: SamplesByEnds,
    /// Time in which it sampled operations.
    pub sampled: Duration,
    pub frames: u64,
    pub dropped: u64,
    /// Time with an open packet socket.
    pub open: Duration,
    /// A server and its work; absent if none was planned, or if its processes have ended. The error is why it was not counted.
    pub work: Result<Option<(ServerEnd, ServerWork)>, String>,
}

impl WindowPlan {
    fn open(&self) -> Result<LiveSource> {
        let mut options = LiveOptions::new("any");
        options.namespace.clone_from(&self.namespace);
        options.buffer_bytes = BUFFER_BYTES;
        options.filter = KernelFilter::new(self.selection.ports.iter().map(|(port, _)| *port), None);
        Ok(raised(|| LiveSource::open(&options))?)
    }

    /// Forgets statements of connections that are not open any more.
    fn check_learned(&self) {
        if !self.learned.has_any(self.number) {
            return;
        }
        let ports: Vec<u16> = self.selection.ports.iter().map(|(port, _)| *port).collect();
        let sockets = match &self.namespace {
            Some(namespace) => raised(|| namespace.run(|| connected_sockets(&ports))).unwrap_or_default(),
            None => connected_sockets(&ports),
        };
        self.learned.check(self.number, &sockets);
    }

    /// Returns what samples the operations from this time on.
    fn dissector(&self, link_header: u64, from_ns: u64) -> Dissector<OperationSampler> {
        let sampler = OperationSampler::new(self.number, link_header, from_ns);
        self.sessions.begin_capture(from_ns);
        let keys = Arc::new(KeyLog::for_part(Arc::clone(&self.sessions), self.number));
        let given = self.selection.given.with_learned(Arc::clone(&self.learned), self.number);
        let selection = Selection { given, ..self.selection.clone() };
        let mut dissector = Dissector::new(selection, sampler).within(MOST_HELD).with_keys(keys);
        dissector.listen(true);
        dissector
    }

    /// Captures the operations that start in the window, on all interfaces of the namespace, until they are answered and acknowledged.
    pub fn capture(&self) -> Result<CapturedWindow> {
        self.check_learned();
        let counting = WorkCounting::load(self.work.as_ref());
        let started = Instant::now();
        let mut source = self.open()?;
        let reading = Instant::now();
        let mut counting = Some(counting.start());
        let mut unsure = reading.elapsed();
        let (from_ns, mut due) = (unix_ns(), Instant::now() + self.length);
        let mut dissector = self.dissector(link_header(source.link), from_ns);
        let (mut frames, mut work, mut handed_over) = (0_u64, Ok(None), Instant::now());
        source.deadline = Some(due);
        loop {
            let now = Instant::now();
            if let Some(counting) = counting.take_if(|_| now >= due || dissector.tally_mut().is_full()) {
                let counting = counting.stop();
                dissector.tally_mut().end_ns = unix_ns().min(dissector.tally_mut().end_ns);
                unsure += now.elapsed();
                // On a loaded machine, it is unknown when the counters were read.
                work = if unsure > self.length / MOST_UNSURE { Ok(None) } else { counting.end() };
                (handed_over, due) = (Instant::now() + HANDOVER, Instant::now() + FOLLOWED);
                source.deadline = Some(handed_over);
            } else if now >= due {
                break;
            }
            let time_ns = match source.next_frame()? {
                NextFrame::Frame(frame) => {
                    dissector.frame(&frame);
                    frames += 1;
                    frame.time_ns
                }
                NextFrame::Idle => 0,
                NextFrame::End => break,
            };
            if counting.is_none() && (time_ns >= dissector.tally_mut().end_ns || Instant::now() >= handed_over) {
                if dissector.tally_mut().is_settled() {
                    break;
                }
                source.deadline = Some(due);
            }
        }
        source.end_window();
        let dropped = source.kernel().value().map_or(0, |kernel| kernel.dropped);
        drop(source);
        let open = started.elapsed();
        let tally = dissector.tally_mut();
        tally.is_over = true;
        // A full sample has ended before the counters were read.
        let (end_ns, is_whole) = (tally.end_ns, !tally.is_full());
        let samples = dissector.finish().0.into_samples();
        self.check_learned();
        let with_operations = |work: Option<ServerWork>| {
            let server = self.work.as_ref()?.server;
            Some((server, ServerWork { operations: operations(server, &samples), ..work.filter(|_| is_whole)? }))
        };
        let work = work.map(with_operations).map_err(|error| error.to_string());
        let sampled = Duration::from_nanos(end_ns.saturating_sub(from_ns));
        Ok(CapturedWindow { number: self.number, samples, sampled, frames, dropped, open, work })
    }
}

/// Returns the number of a server's operations.
fn operations(server: ServerEnd, samples: &SamplesByEnds) -> u64 {
    let is_operation =
        |part: &TrafficPart| matches!(part, TrafficPart::Operations { class, .. } if *class != Class::Unmatched);
    let parts = samples.iter().filter(|((end, _), _)| *end == server).flat_map(|(_, sample)| &sample.parts);
    parts.filter(|(part, _)| is_operation(part)).map(|(_, bytes)| bytes.count).sum()
}

/// Returns the bytes of the link header that a frame has in a capture.
fn link_header(link: LinkType) -> u64 {
    match link {
        LinkType::LINUX_SLL => 16,
        LinkType::LINUX_SLL2 => 20,
        _ => ETHERNET_HEADER,
    }
}
