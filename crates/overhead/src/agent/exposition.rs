//! The agent's metrics, in the OpenMetrics text format.

use super::figures::{AgentFigures, FlowFigures, PartFigures, ServerWords, seen_at};
use super::flows::wire_bytes;
use super::work::ServerWork;
use crate::capture::metrics::{SeriesLabels, counter, gauge, text_of};
use overhead_kernel::SocketTotals;
use overhead_model::Side;
use overhead_report::text::clean;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;
use std::sync::Arc;

/// Longest statement in a label.
const STATEMENT_CHARS: usize = 200;

/// Returns the figures as text.
pub fn exposition(figures: AgentFigures) -> String {
    text_of(Exposition(Arc::new(figures)))
}

#[derive(Clone)]
struct Exposition(Arc<AgentFigures>);

impl fmt::Debug for Exposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exposition")
    }
}

/// Counters of flows without a direction: name, help, and sum.
type FlowCounter = (&'static str, &'static str, fn(&SocketTotals) -> u64);
const FLOW_COUNTERS: [FlowCounter; 5] = [
    ("overhead_agent_retransmitted_segments", "Segments that this host sent again", |totals| {
        totals.retransmitted_segments
    }),
    ("overhead_agent_connections_opened", "Connections opened, or met open", |totals| totals.opened),
    ("overhead_agent_connections_closed", "Connections closed", |totals| totals.closed),
    ("overhead_agent_round_trip_microseconds", "Sum of TCP's smoothed round-trip times", |totals| totals.round_trip_us),
    ("overhead_agent_round_trips", "Round-trip times in this sum", |totals| totals.round_trips),
];

/// Cuts a long text, and replaces what would need escapes.
pub fn label(text: &str) -> String {
    clean(text).chars().take(STATEMENT_CHARS).collect::<String>().replace('"', "'").replace('\\', "/")
}

fn server_labels(server: &ServerWords) -> SeriesLabels<'_> {
    vec![("server", &server.address), ("system", server.system), ("container", &server.container)]
}

fn zone_labels(zones: &[String; 2]) -> SeriesLabels<'_> {
    vec![("client_zone", &zones[0]), ("server_zone", &zones[1])]
}

fn flow_labels(flow: &FlowFigures) -> SeriesLabels<'_> {
    let own = vec![
        ("seen_at", seen_at(flow.at_server)),
        ("client", flow.client.as_str()),
        ("client_container", &flow.client_container),
    ];
    [server_labels(&flow.server), own, zone_labels(&flow.zones)].concat()
}

/// Returns the labels with each side, and its value.
fn by_side<V: Copy>(labels: SeriesLabels<'_>, values: [V; 2]) -> [(SeriesLabels<'_>, V); 2] {
    let mut request = labels.clone();
    request.push(("side", Side::Request.name()));
    let mut response = labels;
    response.push(("side", Side::Response.name()));
    [(request, values[0]), (response, values[1])]
}

fn labelled<'a>((part, texts): (&'a PartFigures, &'a [String; 3])) -> (SeriesLabels<'a>, &'a PartFigures) {
    let own = ["class", "operation", "statement"].into_iter().zip(texts.each_ref().map(String::as_str)).collect();
    ([server_labels(&part.server), zone_labels(&part.zones), own].concat(), part)
}

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_flows(&mut encoder)?;
        self.encode_parts(&mut encoder)?;
        self.encode_work(&mut encoder)?;
        self.encode_agent(&mut encoder)
    }
}

impl Exposition {
    fn encode_flows(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let flows = &self.0.flows;
        let sides = |of: fn(&SocketTotals) -> [u64; 2]| {
            flows.iter().flat_map(move |flow| by_side(flow_labels(flow), of(&flow.totals)))
        };
        counter(encoder, "overhead_agent_wire_bytes", "Bytes on the wire, from TCP's counters", sides(wire_bytes))?;
        let payload = sides(|totals| [totals.sent.payload_bytes, totals.received.payload_bytes]);
        counter(encoder, "overhead_agent_payload_bytes", "Payload, from TCP's counters", payload)?;
        let segments = sides(|totals| [totals.sent.segments, totals.received.segments]);
        counter(encoder, "overhead_agent_segments", "TCP segments", segments)?;
        for (name, help, sum) in FLOW_COUNTERS {
            counter(encoder, name, help, flows.iter().map(|flow| (flow_labels(flow), sum(&flow.totals))))?;
        }
        let costs = flows.iter().filter_map(|flow| Some(by_side(flow_labels(flow), flow.costs?))).flatten();
        counter(encoder, "overhead_agent_cost", "What these bytes cost, by the prices of the configuration", costs)
    }

    fn encode_parts(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let texts: Vec<[String; 3]> = self.0.parts.iter().map(|part| part.labels().map(label)).collect();
        let labelled: Vec<(SeriesLabels<'_>, &PartFigures)> = self.0.parts.iter().zip(&texts).map(labelled).collect();
        let sides = labelled.iter().flat_map(|(labels, part)| by_side(labels.clone(), part.sides));
        let help = "Bytes on the wire of a statement: the exact bytes, divided as capture windows show";
        counter(encoder, "overhead_agent_statement_wire_bytes", help, sides)?;
        let bound = |of: fn(&PartFigures) -> f64| labelled.iter().map(move |(labels, part)| (labels.clone(), of(part)));
        let help = "Its 95% interval, both sides";
        gauge(encoder, "overhead_agent_statement_wire_bytes_low", help, bound(|part| part.total.bytes.low))?;
        gauge(encoder, "overhead_agent_statement_wire_bytes_high", help, bound(|part| part.total.bytes.high))?;
        let operations = bound(|part| part.total.operations.value);
        counter(encoder, "overhead_agent_statement_operations", "Operations, estimated likewise", operations)?;
        let costs = labelled.iter().filter_map(|(labels, part)| Some((labels.clone(), part.cost?)));
        counter(encoder, "overhead_agent_statement_cost", "What the statement's bytes cost", costs)
    }

    fn encode_work(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let work = |of: fn(&ServerWork) -> f64| {
            self.0.work.iter().map(move |(server, work)| (server_labels(server), of(work)))
        };
        let operations = work(|work| work.operations as f64);
        counter(encoder, "overhead_agent_work_operations", "Operations in windows with kernel counters", operations)?;
        let syscalls = work(|work| work.syscalls as f64);
        counter(encoder, "overhead_agent_work_syscalls", "System calls of the server in these windows", syscalls)?;
        let cpu = work(|work| work.cpu_ns as f64 / 1e9);
        counter(encoder, "overhead_agent_work_cpu_seconds", "CPU time of the server in these windows", cpu)
    }

    fn encode_agent(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let figures = &*self.0;
        let encrypted = figures.parts.iter().filter(|part| part.is_encrypted()).map(|part| part.total.wire_bytes);
        let spending = &figures.spending;
        for (name, help, value) in [
            ("overhead_agent_encrypted_wire_bytes", "Bytes of TLS without text", encrypted.sum()),
            (
                "overhead_agent_borrowed_wire_bytes",
                "Bytes divided as at another time, for lack of windows",
                figures.borrowed_bytes,
            ),
            (
                "overhead_agent_unattributed_wire_bytes",
                "Bytes of connections without room in the table",
                figures.without_room_bytes,
            ),
            ("overhead_agent_lost_connections", "Connections that could not be followed", figures.lost_connections),
            ("overhead_agent_sharing_series", "Clients of a server that share a series named (other)", figures.sharing),
            ("overhead_agent_failed_exports", "OTLP exports that failed", figures.failed_exports),
            ("overhead_agent_failed_archives", "Archive files that could not be written", figures.failed_archives),
            ("overhead_agent_windows", "Capture windows", spending.windows),
            ("overhead_agent_window_frames", "Frames captured in windows", spending.frames),
            ("overhead_agent_window_dropped_frames", "Frames that windows lost", spending.dropped),
        ] {
            counter(encoder, name, help, [(Vec::new(), value)])?;
        }
        for (name, help, time) in [
            ("overhead_agent_window_seconds", "Time with an open packet socket", spending.open),
            ("overhead_agent_cpu_seconds", "CPU time of the agent, and of the kernel for its windows", spending.cpu),
            ("overhead_agent_uptime_seconds", "Time since the agent began", figures.elapsed),
        ] {
            counter(encoder, name, help, [(Vec::new(), time.as_secs_f64())])?;
        }
        Ok(())
    }
}
