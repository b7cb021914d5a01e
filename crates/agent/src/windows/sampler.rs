//! Samples the operations that start in a window, and follows them to their end.

use super::SamplesByEnds;
use crate::flows::add_sides;
use crate::servers::ServerEnd;
use overhead_dissect::ENCRYPTED;
use overhead_kernel::ETHERNET_HEADER;
use overhead_model::{
    Account, Class, ConnectionEnds, FrameFacts, Listener, Protocol, RowId, RowKey, Side, Tally, Trace,
};
use overhead_report::composition::{PartBytes, TrafficPart, WindowSample};
use std::collections::{BTreeMap, HashMap};

/// Estimated bytes of a sample: a million operations per second in a window of 100 ms. More end the window.
const MOST_SAMPLED: usize = 16 << 20;

/// Estimated bytes of an operation or a connection, with the room of its table, and of a row beside its texts.
const ENTRY: usize = 160;

/// Takes in what all connections of a window send, step by step.
pub struct OperationSampler {
    network_namespace: u32,
    /// Length in the capture: on `any`, it differs from that on the wire.
    link_header: u64,
    rows: BTreeMap<TrafficPart, RowId>,
    parts: Vec<TrafficPart>,
    latest_row: RowId,
    /// Estimated bytes of rows, connections and operations.
    held: usize,
    connections: HashMap<u64, SampledConnection>,
    /// Number of the connection of the current frame.
    current: u64,
    now_ns: u64,
    start_ns: u64,
    pub end_ns: u64,
    /// Operations that close from now on were not followed to their end.
    pub is_over: bool,
    /// Sampled operations without their end, and connections without the acknowledgment of it.
    open: usize,
    unacknowledged: usize,
}

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact by itself, and any may hold with any other")]
struct SampledConnection {
    ends: Option<ConnectionEnds>,
    protocol: Option<Protocol>,
    /// It was opened after the packet socket.
    has_start: bool,
    /// It was opened in the window.
    opens: bool,
    closes: bool,
    awaits_acknowledgment: bool,
    operations: HashMap<u64, SampledOperation>,
    /// Bytes of opening and closing in the window, by side.
    connect: ScaledBytes,
    /// Bytes in the window of operations that started before, by side.
    carried_in: ScaledBytes,
}

/// Bytes by side, times the length of a captured link header.
type ScaledBytes = [u64; 2];

#[derive(Default)]
struct SampledOperation {
    row: Option<RowId>,
    is_encrypted: bool,
    has_request: bool,
    is_closed: bool,
    /// Within the window, and after it.
    bytes: [ScaledBytes; 2],
}

impl OperationSampler {
    /// Samples from `start_ns` on, until [`Self::end_ns`] is set, or the sample is full.
    pub fn new(network_namespace: u32, link_header: u64, start_ns: u64) -> Self {
        Self {
            network_namespace,
            link_header,
            rows: BTreeMap::new(),
            parts: Vec::new(),
            latest_row: RowId(0),
            held: 0,
            connections: HashMap::new(),
            current: 0,
            now_ns: 0,
            start_ns,
            end_ns: u64::MAX,
            is_over: false,
            open: 0,
            unacknowledged: 0,
        }
    }

    /// Returns whether the sample is full, which has ended the window.
    pub fn is_full(&self) -> bool {
        self.held > MOST_SAMPLED
    }

    fn hold(&mut self, bytes: usize) {
        self.held += bytes;
        if self.is_full() {
            self.end_ns = self.end_ns.min(self.now_ns);
        }
    }

    /// Returns whether all sampled operations so far have ended and were acknowledged.
    pub fn is_settled(&self) -> bool {
        self.open == 0 && self.unacknowledged == 0
    }

    fn frame(&mut self, facts: &FrameFacts) {
        let is_sampled = self.is_in_window(facts.time_ns);
        self.now_ns = facts.time_ns;
        let Some(connection) = self.connections.get_mut(&self.current) else { return };
        connection.has_start |= facts.flags.syn;
        connection.opens |= facts.flags.syn && !facts.flags.ack && is_sampled;
        connection.closes |= facts.flags.fin || facts.flags.rst;
        let is_of_client = connection.ends.is_some_and(|ends| ends.client == facts.source);
        if (is_of_client || connection.closes) && std::mem::take(&mut connection.awaits_acknowledgment) {
            self.unacknowledged -= 1;
        }
    }

    fn is_in_window(&self, time_ns: u64) -> bool {
        (self.start_ns..self.end_ns).contains(&time_ns)
    }

    /// Adds bytes of the current frame to an operation, or to the connection.
    fn add(&mut self, side: Side, op: Option<u64>, account: Account, bytes: u64) {
        let is_sampled = self.is_in_window(self.now_ns);
        let bytes = match account {
            Account::Link => bytes * ETHERNET_HEADER,
            // A whole frame.
            Account::Control | Account::Retransmission => {
                bytes.saturating_sub(self.link_header.saturating_sub(ETHERNET_HEADER)) * self.link_header
            }
            _ => bytes * self.link_header,
        };
        let Some(connection) = self.connections.get_mut(&self.current) else { return };
        let sums = match op {
            Some(op) if let Some(known) = connection.operations.get_mut(&op) => {
                &mut known.bytes[usize::from(!is_sampled)]
            }
            _ if !is_sampled => return,
            None if connection.has_start || connection.closes => &mut connection.connect,
            _ => &mut connection.carried_in,
        };
        sums[side as usize] += bytes;
    }

    fn operation(&mut self, op: u64) -> Option<&mut SampledOperation> {
        self.connections.get_mut(&self.current)?.operations.get_mut(&op)
    }

    fn label(&mut self, op: u64, row: RowId) {
        let part = usize::try_from(row.0).ok().and_then(|row| self.parts.get(row));
        // TLS without its plain text: a stretch of bytes, no operation.
        let is_encrypted = part.is_some_and(|part| part.name() == ENCRYPTED);
        let Some(operation) = self.operation(op) else { return };
        operation.row = Some(row);
        if is_encrypted && !std::mem::replace(&mut operation.is_encrypted, true) {
            self.open -= 1;
        }
    }

    fn close(&mut self, op: u64) {
        let is_over = self.is_over;
        let Some(connection) = self.connections.get_mut(&self.current) else { return };
        let Some(operation) = connection.operations.get_mut(&op).filter(|operation| !operation.is_encrypted) else {
            return;
        };
        operation.is_closed = !is_over;
        self.open -= 1;
        let is_answered = operation.bytes.iter().any(|[_, response]| *response > 0);
        if is_answered && !std::mem::replace(&mut connection.awaits_acknowledgment, true) {
            self.unacknowledged += 1;
        }
    }

    /// Returns what the window shows.
    pub fn into_samples(self) -> SamplesByEnds {
        let mut samples = SamplesByEnds::new();
        for connection in self.connections.values() {
            let Some(ConnectionEnds { client, server, .. }) = connection.ends else { continue };
            let ends = (ServerEnd::new(server, self.network_namespace), client.ip().to_canonical());
            samples.entry(ends).or_default().add(&self.sample(connection));
        }
        samples.retain(|_, sample| *sample != WindowSample::default());
        samples
    }

    fn sample(&self, connection: &SampledConnection) -> WindowSample {
        let mut sample = WindowSample::default();
        let [mut carried_in, mut carried_out] = [connection.carried_in, [0; 2]];
        let mut sums = BTreeMap::<TrafficPart, (u64, ScaledBytes)>::new();
        // On a connection that was met open, the first request may be cut, as are answers without a request.
        let is_request = |operation: &SampledOperation| operation.has_request && !operation.is_encrypted;
        let requests = connection.operations.iter().filter(|(_, operation)| is_request(operation));
        let first = if connection.has_start { None } else { requests.map(|(op, _)| *op).min() };
        for (op, operation) in &connection.operations {
            let [within, after] = operation.bytes;
            let row = operation.row.and_then(|row| usize::try_from(row.0).ok());
            let part = row.and_then(|row| self.parts.get(row));
            let is_unmatched = matches!(part, None | Some(TrafficPart::Operations { class: Class::Unmatched, .. }));
            let is_cut = !connection.has_start && (!operation.has_request || first == Some(*op));
            match part {
                Some(part) if operation.is_encrypted => add_sides(&mut sums.entry(part.clone()).or_default().1, within),
                Some(part) if !(is_unmatched && is_cut) => {
                    let (count, bytes) = sums.entry(part.clone()).or_default();
                    *count += 1;
                    add_sides(bytes, within);
                    add_sides(bytes, after);
                    add_sides(&mut carried_out, after);
                    sample.unfinished += u64::from(!operation.is_closed);
                }
                _ => add_sides(&mut carried_in, within),
            }
        }
        if connection.connect != [0; 2]
            && let Some(protocol) = connection.protocol
        {
            let (name, statement) = ("CONNECT".to_owned(), String::new());
            let part = TrafficPart::Operations { class: Class::Setup, protocol, name, statement };
            sums.insert(part, (u64::from(connection.opens), connection.connect));
        }
        let unscaled = |bytes: ScaledBytes| bytes.map(|bytes| bytes / self.link_header);
        (sample.carried_in, sample.carried_out) = (unscaled(carried_in), unscaled(carried_out));
        let part = |(part, (count, bytes))| (part, PartBytes { count, wire_bytes: unscaled(bytes) });
        sample.parts = sums.into_iter().map(part).collect();
        sample
    }
}

impl Tally for OperationSampler {
    fn row(&mut self, key: RowKey<'_>) -> RowId {
        let (name, statement) = (key.name.to_owned(), key.statement.to_owned());
        let part = TrafficPart::Operations { class: key.class, protocol: key.protocol, name, statement };
        let next = RowId(self.parts.len() as u64);
        self.latest_row = self.rows.get(&part).copied().unwrap_or(next);
        // Without room, the number stays that of no row.
        if self.latest_row == next && !self.is_full() {
            self.hold(2 * (ENTRY + key.name.len() + key.statement.len()));
            self.parts.push(part.clone());
            self.rows.insert(part, self.latest_row);
        }
        self.latest_row
    }

    fn wants_ends(&self) -> bool {
        true
    }

    fn turn_to(&mut self, ends: &ConnectionEnds) {
        self.current = ends.number;
        if let Some(connection) = self.connections.get_mut(&ends.number) {
            connection.ends = Some(*ends);
        } else if !self.is_full() {
            self.connections.entry(ends.number).or_default().ends = Some(*ends);
            self.hold(2 * ENTRY);
        }
    }

    fn swap_ends(&mut self) {
        let Some(connection) = self.connections.get_mut(&self.current) else { return };
        connection.ends.iter_mut().for_each(|ends| std::mem::swap(&mut ends.client, &mut ends.server));
        connection.connect.swap(0, 1);
        connection.carried_in.swap(0, 1);
    }

    fn listener(&mut self) -> Option<&mut dyn Listener> {
        Some(self)
    }
}

impl Listener for OperationSampler {
    fn hear(&mut self, step: Trace<'_>) {
        match step {
            Trace::Frame(facts) => self.frame(&facts),
            Trace::Decoding { protocol } => {
                let Some(connection) = self.connections.get_mut(&self.current) else { return };
                connection.protocol = Some(protocol);
            }
            Trace::Opened { op } if !self.is_over && self.is_in_window(self.now_ns) => {
                let Some(connection) = self.connections.get_mut(&self.current) else { return };
                connection.operations.insert(op, SampledOperation::default());
                self.open += 1;
                self.hold(ENTRY);
            }
            Trace::Labelled { op: Some(op), .. } => {
                let row = self.latest_row;
                self.label(op, row);
            }
            Trace::Posted { side, op: Some(op), account, frame: Some(_), len, .. } => {
                if side == Side::Request {
                    self.operation(op).into_iter().for_each(|operation| operation.has_request = true);
                }
                self.add(side, Some(op), account, len);
            }
            Trace::Charged { side, op, account, bytes, .. } => self.add(side, op, account, bytes),
            Trace::Closed { op: Some(op), .. } => self.close(op),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use overhead_capture::{FileSource, FrameSource, NextFrame};
    use overhead_dissect::{Dissector, GivenStatements, KeyLog, LearnedStatements, PREPARED_BEFORE, Selection};
    use overhead_model::Frame;
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::sync::Arc;

    /// Length of a captured Ethernet header.
    const LINK: u64 = ETHERNET_HEADER;

    /// Returns the frames of a recorded session.
    fn recorded(session: &str) -> Vec<(Frame<'static>, Vec<u8>)> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(session);
        let mut source = FileSource::open(folder.join("capture.pcap")).unwrap();
        let mut frames = Vec::new();
        while let NextFrame::Frame(frame) = source.next_frame().unwrap() {
            let Frame { time_ns, link, original_len, interface, bytes } = frame;
            frames.push((Frame { time_ns, link, original_len, interface, bytes: &[] }, bytes.to_vec()));
        }
        frames
    }

    /// Returns what a window shows that captures from `from_ns` on, and follows to the end.
    fn sampled(frames: &[(Frame<'_>, Vec<u8>)], place: (u16, Protocol), times: [u64; 2]) -> WindowSample {
        sampled_with(GivenStatements::default(), frames, place, times)
    }

    fn sampled_with(
        given: GivenStatements,
        frames: &[(Frame<'_>, Vec<u8>)],
        (port, protocol): (u16, Protocol),
        [from_ns, end_ns]: [u64; 2],
    ) -> WindowSample {
        let mut sampler = OperationSampler::new(7, LINK, from_ns);
        sampler.end_ns = end_ns;
        let selection = Selection { ports: vec![(port, vec![protocol])], given };
        let mut dissector = Dissector::new(selection, sampler);
        dissector.listen(true);
        for (frame, bytes) in frames.iter().filter(|(frame, _)| frame.time_ns >= from_ns) {
            dissector.frame(&Frame { bytes, ..*frame });
        }
        dissector.tally_mut().is_over = true;
        let mut sum = WindowSample::default();
        dissector.finish().0.into_samples().values().for_each(|sample| sum.add(sample));
        sum
    }

    /// Operations of one connection, of as many connections, and of as many names.
    #[test]
    fn a_full_sample_ends_its_window_and_takes_no_more() {
        let [client, server] = [1, 2].map(|port| std::net::SocketAddr::from(([127, 0, 0, 1], port)));
        for [connections, names] in [[1, 1], [u64::MAX, 1], [1, u64::MAX]] {
            let mut sampler = OperationSampler::new(7, LINK, 0);
            for op in 0..400_000 {
                sampler.now_ns = op;
                sampler.turn_to(&ConnectionEnds { number: op % connections, client, server, first_ns: 0 });
                sampler.hear(Trace::Opened { op });
                let (name, class) = (format!("N{}", op % names), Class::Workload);
                let key = RowKey { protocol: Protocol::Resp, class, name: &name, via: "", statement: "" };
                let row = sampler.row(key);
                sampler.label(op, row);
            }
            assert!(sampler.is_full());
            let end_ns = sampler.end_ns;
            assert!((25_000..110_000).contains(&end_ns), "{end_ns}");
            let sampled: usize = sampler.connections.values().map(|one| one.operations.len()).sum();
            assert!(end_ns.abs_diff(sampled as u64) <= 1, "{sampled} operations until {end_ns}");
            assert!(sampler.connections.len().max(sampler.parts.len()) as u64 <= end_ns + 1);
            let counted: u64 =
                sampler.into_samples().values().flat_map(|of| of.parts.values()).map(|of| of.count).sum();
            assert!(end_ns.abs_diff(counted) <= 2, "{counted} operations until {end_ns}");
        }
    }

    /// TLS of two protocols, without keys.
    #[test]
    fn tls_that_a_window_meets_open_is_a_part_of_its_own() {
        let places = [("postgres-tls12", (7432, Protocol::Pgwire)), ("redis-tls13", (7379, Protocol::Resp))];
        let ports = places.iter().map(|(_, (port, protocol))| (*port, vec![*protocol])).collect();
        let selection = Selection { ports, ..Selection::default() };
        let keys = Arc::new(KeyLog::for_part(Arc::default(), 7));
        let mut dissector = Dissector::new(selection, OperationSampler::new(7, LINK, 0)).with_keys(keys);
        dissector.listen(true);
        let mut bytes = 0;
        for (session, _) in places {
            let frames = recorded(session);
            // After the handshake.
            for (frame, frame_bytes) in frames.iter().skip(frames.len() * 2 / 3) {
                dissector.frame(&Frame { bytes: frame_bytes, ..*frame });
                bytes += u64::from(frame.original_len);
            }
        }
        assert!(dissector.tally_mut().is_settled(), "no window waits for its end");
        dissector.tally_mut().is_over = true;
        let samples = dissector.finish().0.into_samples();
        let parts: Vec<_> = samples.values().flat_map(|sample| &sample.parts).collect();
        let encrypted = parts.iter().filter(|(part, _)| part.name() == ENCRYPTED);
        let encrypted: Vec<_> = encrypted.map(|(part, sums)| (part.protocol(), sums.count, sums.wire_bytes)).collect();
        let protocols: BTreeSet<_> = encrypted.iter().map(|(protocol, ..)| *protocol).collect();
        assert_eq!(protocols, BTreeSet::from([Some(Protocol::Pgwire), Some(Protocol::Resp)]), "{parts:?}");
        assert!(encrypted.iter().all(|(_, count, _)| *count == 0));
        let shown: u64 = encrypted.iter().flat_map(|(_, _, sides)| sides).sum();
        assert!(shown * 10 > bytes * 8, "{shown} of {bytes}: {parts:?}");
    }

    /// A window sees statements being prepared, and a later one their executions.
    #[test]
    fn statements_that_an_earlier_window_saw_being_prepared_have_text() {
        for (session, place) in
            [("postgres-extended-prepared", (7432, Protocol::Pgwire)), ("mariadb-sysbench", (7306, Protocol::Mysql))]
        {
            let frames = recorded(session);
            let (early, late) = frames.split_at(frames.len() * 2 / 3);
            let window =
                |frames: &[_], given: &GivenStatements| sampled_with(given.clone(), frames, place, [0, u64::MAX]);
            let (learned, given) = (Arc::<LearnedStatements>::default(), GivenStatements::default());
            let remembering = given.with_learned(Arc::clone(&learned), 7);
            window(early, &remembering);
            assert!(learned.counts().statements > 0, "{session}");
            let statements = |given: &GivenStatements| {
                let parts = window(late, given).parts;
                let statement = |part: &TrafficPart| match part {
                    TrafficPart::Operations { statement, .. } => statement.clone(),
                    _ => String::new(),
                };
                parts.keys().map(statement).filter(|text| !text.is_empty()).collect::<Vec<_>>()
            };
            let is_unseen = |text: &String| text.starts_with(PREPARED_BEFORE);
            assert!(statements(&given).iter().any(is_unseen), "{session}");
            let elsewhere = given.with_learned(Arc::clone(&learned), 8);
            assert_eq!(statements(&elsewhere), statements(&given), "{session}: another namespace's connection");
            let texts = statements(&remembering);
            assert!(!texts.is_empty() && !texts.iter().any(is_unseen), "{session}: {texts:?}");
            learned.check(7, &HashMap::new());
            assert_eq!(statements(&remembering), statements(&given), "{session}: the connection has ended");
        }
    }

    /// Windows at random places of recorded sessions: the mean of what they show is what the sessions have.
    #[test]
    fn windows_of_recorded_sessions_show_operations_and_bytes_without_bias() {
        for (session, place) in
            [("redis-get-set", (7379, Protocol::Resp)), ("memcached-pymemcache", (7211, Protocol::Memcache))]
        {
            let frames = recorded(session);
            let times = || frames.iter().map(|(frame, _)| frame.time_ns);
            let [first, last] = [times().min().unwrap(), times().max().unwrap()];
            let truth = sampled(&frames, place, [0, u64::MAX]);
            assert!(truth.parts.len() > 2, "{session}: {truth:?}");
            let wire_bytes = frames.iter().map(|(frame, _)| u64::from(frame.original_len)).sum::<u64>();
            assert_eq!(truth.parts.values().flat_map(|bytes| bytes.wire_bytes).sum::<u64>(), wire_bytes, "{session}");
            let (length, runs) = ((last - first) / 10, 1_500);
            let mut sums = BTreeMap::<TrafficPart, Vec<[f64; 2]>>::new();
            for run in 0..runs {
                // Places spread over all that have a part of the session.
                let from = first - length + (last - first + length) / runs * run;
                for (part, bytes) in sampled(&frames, place, [from, from + length]).parts {
                    let found = [bytes.count, bytes.wire_bytes.iter().sum()].map(|amount| amount as f64);
                    sums.entry(part).or_default().push(found);
                }
            }
            // The part of the places in whose window a moment of the session is.
            let weight = length as f64 / (last - first + length) as f64 * runs as f64;
            for (part, bytes) in &truth.parts {
                for (which, truth) in [bytes.count, bytes.wire_bytes.iter().sum()].into_iter().enumerate() {
                    let found: f64 =
                        sums.get(part).into_iter().flatten().map(|found| found[which]).sum::<f64>() / weight;
                    let share = found / truth as f64;
                    assert!((0.98..1.02).contains(&share), "{session} {part:?}: {found:.1} of {truth}");
                }
            }
        }
    }
}
