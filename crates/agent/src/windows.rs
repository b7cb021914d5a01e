//! Short captures, which show the composition of the traffic of each server and client.

use super::servers::ServerEnd;
use super::work::{ServerWork, WorkCounting, WorkPlan};
use anyhow::Result;
use overhead_capture::live::{LiveOptions, LiveSource, NetworkNamespace};
use overhead_capture::{FrameSource, KernelFilter, NextFrame};
use overhead_dissect::{Dissector, Selection};
use overhead_kernel::{ETHERNET_HEADER, raised};
use overhead_model::{
    Account, Class, ConnectionEnds, LinkType, Operation, Outcome, RowId, RowKey, Side, SideTotals, Tally,
};
use overhead_reading::time::unix_ns;
use overhead_report::composition::{PartBytes, TrafficPart};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Size of the kernel's ring: about a tenth of a second of small frames at full rate.
const BUFFER_BYTES: u32 = 16 << 20;

/// Bytes that the connections of a window may hold, and that they may decompress beyond the usual ratio: the agent runs beside the servers.
const MOST_HELD: usize = 32 << 20;

/// The kernel hands a frame over within half of this time.
const HANDOVER: Duration = Duration::from_millis(20);

/// The parts of the traffic of a server with a client.
pub type PartsByEnds = HashMap<(ServerEnd, IpAddr), BTreeMap<TrafficPart, WindowPart>>;

/// A part's traffic in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowPart {
    pub bytes: PartBytes,
    /// Operations that the end of the window cut, and the captured bytes of their answers.
    pub cut: u64,
    pub cut_bytes: u64,
}

impl WindowPart {
    pub fn add(&mut self, more: &Self) {
        self.bytes.add(more.bytes);
        self.cut += more.cut;
        self.cut_bytes += more.cut_bytes;
    }
}

/// What to capture.
#[derive(Clone)]
pub struct WindowPlan {
    /// Number of the network namespace.
    pub number: u32,
    /// Absent for the namespace of this process.
    pub namespace: Option<NetworkNamespace>,
    pub selection: Selection,
    pub length: Duration,
    /// The server whose kernel work is counted, if any.
    pub work: Option<WorkPlan>,
}

/// The traffic of a window.
pub struct CapturedWindow {
    pub parts: PartsByEnds,
    pub frames: u64,
    pub dropped: u64,
    /// Time with an open packet socket.
    pub open: Duration,
    /// A server and its work; absent if none was planned, or if its processes have ended. The error is why it was not counted.
    pub work: Result<Option<(ServerEnd, ServerWork)>, String>,
}

impl WindowPlan {
    /// Captures for the length of the window, on all interfaces of the namespace.
    pub fn capture(&self) -> Result<CapturedWindow> {
        let counting = WorkCounting::load(self.work.as_ref());
        let started = Instant::now();
        let mut options = LiveOptions::new("any");
        options.namespace.clone_from(&self.namespace);
        options.buffer_bytes = BUFFER_BYTES;
        options.filter = KernelFilter::new(self.selection.ports.iter().map(|(port, _)| *port), None);
        let mut source = raised(|| LiveSource::open(&options))?;
        let mut counting = Some(counting.start());
        let (from_ns, mut end) = (unix_ns(), Instant::now() + self.length);
        let tally = PartTally::new(self.number, link_header(source.link_type()), from_ns);
        let mut dissector = Dissector::new(self.selection.clone(), tally).within(MOST_HELD);
        let (mut frames, mut work, mut end_ns) = (0_u64, Ok(None), u64::MAX);
        source.wait_until(Some(end));
        loop {
            if let Some(counting) = counting.take_if(|_| Instant::now() >= end) {
                work = counting.end();
                end_ns = unix_ns();
                dissector.tally_mut().end_ns = end_ns;
                end = Instant::now() + HANDOVER;
                source.wait_until(Some(end));
            }
            match source.next_frame()? {
                NextFrame::Frame(frame) if frame.time_ns < end_ns => dissector.frame(&frame),
                NextFrame::Idle if counting.is_some() || Instant::now() < end => continue,
                _ => break,
            }
            frames += 1;
        }
        source.end_window();
        let dropped = source.kernel().value().map_or(0, |kernel| kernel.dropped);
        drop(source);
        let open = started.elapsed();
        let (tally, _) = dissector.finish();
        let with_operations = |work| {
            let server = self.work.as_ref()?.server;
            let operations = tally.begun.get(&server).copied().unwrap_or_default();
            Some((server, ServerWork { operations, ..work? }))
        };
        let work = work.map(with_operations).map_err(|error| error.to_string());
        let parts = tally.into_parts();
        Ok(CapturedWindow { parts, frames, dropped, open, work })
    }
}

/// Returns the bytes of the link header that a frame has in a capture.
fn link_header(link: LinkType) -> u64 {
    match link {
        LinkType::LINUX_SLL => 16,
        LinkType::LINUX_SLL2 => 20,
        _ => ETHERNET_HEADER,
    }
}

/// Adds up operations by the ends of their connection.
struct PartTally {
    network_namespace: u32,
    /// Length in the capture: on `any`, it differs from that on the wire.
    link_header: u64,
    rows: BTreeMap<TrafficPart, RowId>,
    parts: Vec<TrafficPart>,
    sums: HashMap<(ServerEnd, IpAddr), HashMap<RowId, WindowPart>>,
    current: Option<ConnectionEnds>,
    /// Operations of each server whose first byte lies between these times.
    begun: HashMap<ServerEnd, u64>,
    start_ns: u64,
    end_ns: u64,
}

impl PartTally {
    fn new(network_namespace: u32, link_header: u64, start_ns: u64) -> Self {
        let (rows, parts, sums, begun) = (BTreeMap::new(), Vec::new(), HashMap::new(), HashMap::new());
        let (current, end_ns) = (None, u64::MAX);
        Self { network_namespace, link_header, rows, parts, sums, current, begun, start_ns, end_ns }
    }

    fn add(&mut self, row: RowId, more: &WindowPart) {
        let Some(ConnectionEnds { client, server, .. }) = self.current else { return };
        let ends = (ServerEnd::new(server, self.network_namespace), client.ip().to_canonical());
        self.sums.entry(ends).or_default().entry(row).or_default().add(more);
    }

    /// Returns the bytes as they are on a wire.
    fn wire_bytes(&self, totals: &SideTotals) -> u64 {
        let link = totals.amounts[Account::Link];
        totals.amounts.total() - link + link * ETHERNET_HEADER / self.link_header
    }

    fn into_parts(self) -> PartsByEnds {
        let part = |(RowId(number), traffic)| Some((self.parts.get(usize::try_from(number).ok()?)?.clone(), traffic));
        self.sums.into_iter().map(|(ends, sums)| (ends, sums.into_iter().filter_map(part).collect())).collect()
    }
}

impl Tally for PartTally {
    fn row(&mut self, key: RowKey<'_>) -> RowId {
        let (name, statement) = (key.name.to_owned(), key.statement.to_owned());
        let part = TrafficPart::Operations { class: key.class, protocol: key.protocol, name, statement };
        let next = RowId(self.parts.len() as u64);
        *self.rows.entry(part).or_insert_with_key(|part| {
            self.parts.push(part.clone());
            next
        })
    }

    fn operation(&mut self, row: RowId, operation: &Operation) {
        self.operations(row, operation, 1);
    }

    fn operations(&mut self, row: RowId, operation: &Operation, times: u64) {
        let wire_bytes = operation.sides.each_ref().map(|side| self.wire_bytes(side) * times);
        let is_cut = operation.outcome == Outcome::Unanswered;
        let (cut, cut_bytes) = if is_cut { (times, wire_bytes[1]) } else { (0, 0) };
        self.add(row, &WindowPart { bytes: PartBytes { count: times, wire_bytes }, cut, cut_bytes });
    }

    fn late(&mut self, row: RowId, side: Side, totals: &SideTotals) {
        let mut wire_bytes = [0; 2];
        wire_bytes[side as usize] = self.wire_bytes(totals);
        self.add(row, &WindowPart { bytes: PartBytes { count: 0, wire_bytes }, ..WindowPart::default() });
    }

    fn wants_each(&self) -> bool {
        true
    }

    fn each(&mut self, row: RowId, _: &Operation, start_ns: Option<u64>) {
        let part = usize::try_from(row.0).ok().and_then(|number| self.parts.get(number));
        let is_unmatched = matches!(part, Some(TrafficPart::Operations { class: Class::Unmatched, .. }) | None);
        let Some(start_ns) = start_ns.filter(|_| !is_unmatched) else { return };
        if let Some(ends) = &self.current
            && (self.start_ns..self.end_ns).contains(&start_ns)
        {
            *self.begun.entry(ServerEnd::new(ends.server, self.network_namespace)).or_default() += 1;
        }
    }

    fn wants_ends(&self) -> bool {
        true
    }

    fn turn_to(&mut self, ends: &ConnectionEnds) {
        self.current = Some(*ends);
    }

    fn swap_ends(&mut self) {
        self.current.iter_mut().for_each(|ends| std::mem::swap(&mut ends.client, &mut ends.server));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use overhead_model::{Operation, Protocol};

    /// The packet socket opens before the kernel's counters are read, and is read after them.
    #[test]
    fn operations_are_those_that_start_while_system_calls_are_counted() {
        let mut tally = PartTally::new(7, 20, 1_000);
        tally.end_ns = 2_000;
        let address = |port: u16| std::net::SocketAddr::from(([10, 0, 0, 1], port));
        tally.turn_to(&ConnectionEnds { number: 0, client: address(9), server: address(6379), first_ns: 0 });
        let mut row = |class, name| tally.row(RowKey { protocol: Protocol::Resp, class, name, via: "", statement: "" });
        let (get, cut) = (row(Class::Workload, "GET"), row(Class::Unmatched, "RESPONSE"));
        let operation = Operation { sides: Default::default(), outcome: Outcome::Ok, latency_ns: None, round_trips: 1 };
        for start_ns in [Some(999), Some(1_000), Some(1_999), Some(2_000), None] {
            tally.each(get, &operation, start_ns);
            tally.each(cut, &operation, start_ns);
        }
        assert_eq!(tally.begun, HashMap::from([(ServerEnd::new(address(6379), 7), 2)]));
    }
}
