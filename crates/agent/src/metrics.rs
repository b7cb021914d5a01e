//! The agent's metrics: one table for all exporters.

use crate::flows::wire_bytes;
use crate::totals::{AgentTotals, FlowTraffic, PartTraffic, ServerLabels, seen_at};
use crate::work::ServerWork;
use overhead_dissect::KeptCounts;
use overhead_host::metrics::{SeriesLabels, counter, gauge, text_of};
use overhead_kernel::SocketTotals;
use overhead_model::Side;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

/// The series of a metric, each with its labels.
pub type MetricSeries<'a, V> = Vec<(SeriesLabels<'a>, V)>;

/// Reads the series of a metric.
pub type ReadSeries<V> = fn(&AgentTotals) -> MetricSeries<'_, V>;

pub enum MetricKind {
    Counter(ReadSeries<u64>),
    /// A counter with fractions.
    Amount(ReadSeries<f64>),
    Gauge(ReadSeries<f64>),
}

/// A metric of the agent.
pub struct AgentMetric {
    /// Its name for Prometheus, after `overhead_agent_`.
    pub name: &'static str,
    pub help: &'static str,
    pub kind: MetricKind,
    /// Its name, unit and description for OpenTelemetry; empty if it is not exported there.
    pub otlp: &'static [&'static str],
}

/// Builds the table: kind, name and help, how to read the series, and name, unit and description for OpenTelemetry.
macro_rules! metrics {
    ($($kind:ident $name:literal $help:literal: $read:expr $(, $otlp:literal $unit:literal $description:literal)?;)+) => {
        &[$(AgentMetric { name: $name, help: $help, kind: MetricKind::$kind($read), otlp: &[$($otlp, $unit, $description)?] }),+]
    };
}

/// All metrics, in the order of the page.
pub const METRICS: &[AgentMetric] = metrics! {
    Counter "wire_bytes" "Bytes on the wire, from TCP's counters": |all| flow_sides(all, wire_bytes),
        "overhead.wire.io" "By" "Bytes on the wire, from TCP's counters";
    Counter "payload_bytes" "Payload, from TCP's counters":
        |all| flow_sides(all, |flow| [flow.sent.payload_bytes, flow.received.payload_bytes]);
    Counter "segments" "TCP segments": |all| flow_sides(all, |flow| [flow.sent.segments, flow.received.segments]);
    Counter "retransmitted_segments" "Segments that this host sent again": |all| flows(all, |flow| flow.retransmitted_segments),
        "overhead.retransmissions" "{segment}" "Segments sent again";
    Counter "connections_opened" "Connections opened": |all| flows(all, |flow| flow.opened),
        "overhead.connections" "{connection}" "Connections opened";
    Counter "connections_met_open" "Connections that were open before the agent followed them": |all| flows(all, |flow| flow.met_open);
    Counter "connections_closed" "Connections closed": |all| flows(all, |flow| flow.closed);
    Amount "round_trip_seconds" "Sum of TCP's smoothed round-trip times":
        |all| all.flows.iter().map(|flow| (flow_labels(flow), flow.totals.round_trip_us as f64 / 1e6)).collect();
    Counter "round_trips" "Round-trip times in this sum": |all| flows(all, |flow| flow.round_trips);
    Counter "refused_payload_bytes" "Payload that arrived again or after a close, as far as TCP shows it": |all| flows(all, |flow| flow.refused_bytes);
    Counter "multipath_segments" "Segments of Multipath TCP, whose options (8 to 28 bytes each) are in no total": |all| flows(all, |flow| flow.multipath_segments);
    Amount "cost" "What these bytes cost, by the prices of the configuration": flow_costs,
        "overhead.cost" "" "What the bytes cost, by the settings' prices";
    Counter "statement_wire_bytes" "Bytes on the wire of a statement: the exact bytes, divided as capture windows show": part_sides,
        "overhead.statement.wire.io" "By" "Bytes on the wire of a statement, divided as capture windows show";
    Gauge "statement_wire_bytes_low" "Its 95% interval, both sides": |all| parts(all, |part| part.total.has_interval.then_some(part.total.bytes.low));
    Gauge "statement_wire_bytes_high" "Its 95% interval, both sides": |all| parts(all, |part| part.total.has_interval.then_some(part.total.bytes.high));
    Amount "statement_operations" "Operations, estimated likewise": |all| parts(all, |part| Some(part.total.operations.value)),
        "overhead.statement.operations" "" "Operations, estimated";
    Amount "statement_cost" "What the statement's bytes cost": |all| parts(all, |part| part.cost),
        "overhead.statement.cost" "" "What the statement's bytes cost";
    Amount "work_operations" "Operations in windows with kernel counters": |all| work(all, |work| work.operations as f64);
    Amount "work_syscalls" "System calls of the server in these windows": |all| work(all, |work| work.syscalls as f64);
    Amount "work_cpu_seconds" "CPU time of the server in these windows": |all| work(all, |work| work.cpu_ns as f64 / 1e9);
    Counter "encrypted_wire_bytes" "Bytes of TLS without text": |all| single(bytes(all, PartTraffic::is_encrypted));
    Counter "prepared_unseen_wire_bytes" "Bytes of statements without text, as no window saw them being prepared": |all| single(bytes(all, PartTraffic::is_prepared_unseen));
    Gauge "prepared_statements" "Statements that windows saw being prepared, on open connections": |all| single(all.learned.statements as f64);
    Counter "prepared_unkept_statements" "Prepared statements without room": |all| single(all.learned.without_room);
    Gauge "tls_connections" "Open connections with known TLS secrets": |all| tls(all, |tls| tls.kept as f64);
    Counter "tls_missed_connections" "How often a window could not decrypt a connection with known secrets": |all| tls(all, |tls| tls.missed);
    Counter "tls_unkept_connections" "Connections without room for their secrets": |all| tls(all, |tls| tls.without_room);
    Counter "borrowed_wire_bytes" "Bytes divided as at another time, for lack of windows": |all| single(all.borrowed_bytes);
    Counter "unattributed_wire_bytes" "Bytes of connections without room in the table, local ones once": |all| single(all.without_room_bytes);
    Counter "lost_connections" "Connections that could not be followed": |all| single(all.lost_connections);
    Counter "unidentified_wire_bytes" "Bytes of servers that are not known as databases and found no room, while they may still be found to be": |all| single(all.unidentified_bytes);
    Counter "lost_listeners" "Servers that started and could not be noted, so that short-lived ones may be missing": |all| single(all.lost_listeners);
    Amount "uncounted_seconds" "Time before starts in which nothing counted connections": |all| single(all.uncounted.as_secs_f64());
    Counter "evicted_series" "Series that were added to one named (other), to make room": |all| single(all.evicted);
    Counter "failed_readings" "Readings that failed: the next one has their bytes": |all| single(all.failed_readings);
    Counter "failed_exports" "OTLP exports that failed": |all| single(all.failed_exports);
    Counter "failed_archives" "Archive files that could not be written": |all| single(all.failed_archives);
    Counter "windows" "Capture windows": |all| single(all.spending.windows);
    Counter "window_frames" "Frames captured in windows": |all| single(all.spending.frames);
    Counter "window_dropped_frames" "Frames that windows lost": |all| single(all.spending.dropped);
    Amount "window_seconds" "Time with an open packet socket": |all| single(all.spending.open.as_secs_f64());
    Amount "cpu_seconds" "CPU time of the agent, and of the kernel for its windows": |all| single(all.spending.cpu.as_secs_f64());
    Amount "uptime_seconds" "Time since the agent began": |all| single(all.elapsed.as_secs_f64());
};

fn flows(all: &AgentTotals, value: fn(&SocketTotals) -> u64) -> MetricSeries<'_, u64> {
    all.flows.iter().map(|flow| (flow_labels(flow), value(&flow.totals))).collect()
}

fn flow_sides(all: &AgentTotals, values: fn(&SocketTotals) -> [u64; 2]) -> MetricSeries<'_, u64> {
    all.flows.iter().flat_map(|flow| by_side(&flow_labels(flow), values(&flow.totals))).collect()
}

fn flow_costs(all: &AgentTotals) -> MetricSeries<'_, f64> {
    all.flows.iter().filter_map(|flow| Some(by_side(&flow_labels(flow), flow.costs?))).flatten().collect()
}

fn parts(all: &AgentTotals, value: fn(&PartTraffic) -> Option<f64>) -> MetricSeries<'_, f64> {
    all.parts.iter().filter_map(|part| Some((part_labels(part), value(part)?))).collect()
}

fn part_sides(all: &AgentTotals) -> MetricSeries<'_, u64> {
    all.parts.iter().flat_map(|part| by_side(&part_labels(part), part.total.sides)).collect()
}

fn work(all: &AgentTotals, value: fn(&ServerWork) -> f64) -> MetricSeries<'_, f64> {
    all.work.iter().map(|(server, work)| (server_labels(server).into(), value(work))).collect()
}

/// Returns the bytes of some parts.
pub fn bytes(all: &AgentTotals, is_counted: fn(&PartTraffic) -> bool) -> u64 {
    all.parts.iter().filter(|part| is_counted(part)).map(|part| part.total.wire_bytes).sum()
}

fn tls<V>(all: &AgentTotals, value: fn(&KeptCounts) -> V) -> MetricSeries<'_, V> {
    all.tls.iter().map(|tls| (Vec::new(), value(tls))).collect()
}

/// Returns a single series without labels.
fn single<'a, V>(value: V) -> MetricSeries<'a, V> {
    vec![(Vec::new(), value)]
}

/// Returns a series for each side.
fn by_side<'a, V: Copy>(labels: &SeriesLabels<'a>, values: [V; 2]) -> [(SeriesLabels<'a>, V); 2] {
    [0, 1].map(|side| ([&labels[..], &[("side", Side::BOTH[side].name())]].concat(), values[side]))
}

fn server_labels(server: &ServerLabels) -> [(&'static str, &str); 3] {
    [("server", &server.address), ("system", server.system), ("container", &server.container)]
}

fn zone_labels([client, server]: &[String; 2]) -> [(&'static str, &str); 2] {
    [("client_zone", client), ("server_zone", server)]
}

fn flow_labels(flow: &FlowTraffic) -> SeriesLabels<'_> {
    let own = [
        ("seen_at", seen_at(flow.at_server)),
        ("client", flow.client.as_str()),
        ("client_name", &flow.client_name),
        ("client_container", &flow.client_container),
    ];
    [&server_labels(&flow.server)[..], &own, &zone_labels(&flow.zones)].concat()
}

fn part_labels(part: &PartTraffic) -> SeriesLabels<'_> {
    let [class, operation, statement] = part.labels.each_ref().map(String::as_str);
    let own = [("class", class), ("operation", operation), ("statement", statement)];
    [&server_labels(&part.server)[..], &zone_labels(&part.zones), &own].concat()
}

/// Returns all metrics as text.
pub fn exposition(totals: AgentTotals) -> String {
    text_of(totals)
}

impl Collector for AgentTotals {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        METRICS.iter().try_for_each(|AgentMetric { name, help, kind, .. }| {
            let name = format!("overhead_agent_{name}");
            match kind {
                MetricKind::Counter(read) => counter(&mut encoder, &name, help, read(self)),
                MetricKind::Amount(read) => counter(&mut encoder, &name, help, read(self)),
                MetricKind::Gauge(read) => gauge(&mut encoder, &name, help, read(self)),
            }
        })
    }
}
