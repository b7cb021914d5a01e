//! The agent's figures for a person: a summary at the end, and what it would watch.

use super::figures::{AgentFigures, FlowFigures, PartFigures, ServerWords};
use super::flows::wire_bytes;
use super::governor::AgentSpending;
use super::servers::WatchedServers;
use super::work::ServerWork;
use overhead_containers::RunningContainer;
use overhead_report::text::number::bytes_label;
use overhead_report::text::{clean, counted, grouped};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// Statements shown for each server.
const STATEMENTS: usize = 5;
/// Characters shown of a statement.
const WIDTH: usize = 44;

/// Sums of the flows of a server, or of a pair of zones.
#[derive(Default)]
struct FlowSums {
    bytes: [u64; 2],
    connections: u64,
    segments: u64,
    retransmitted: u64,
    cost: Option<f64>,
}

impl FlowSums {
    fn add(&mut self, flow: &FlowFigures) {
        self.bytes.iter_mut().zip(wire_bytes(&flow.totals)).for_each(|(sum, bytes)| *sum += bytes);
        self.connections += flow.totals.opened;
        self.segments += flow.totals.sent.segments + flow.totals.received.segments;
        self.retransmitted += flow.totals.retransmitted_segments;
        if let Some(costs) = flow.costs {
            *self.cost.get_or_insert_default() += costs.iter().sum::<f64>();
        }
    }
}

/// Returns the traffic of each server by pair of zones, with its largest statements. Writing to a string cannot fail.
pub fn summary(figures: &AgentFigures) -> String {
    let mut servers = BTreeMap::<_, BTreeMap<_, FlowSums>>::new();
    for flow in &figures.flows {
        servers.entry(title(&flow.server, flow.at_server)).or_default().entry(&flow.zones).or_default().add(flow);
    }
    let mut out = String::new();
    for (of, zones) in servers {
        let _ = writeln!(out, "{of}");
        for (pair, sums) in zones {
            let [client, server] = pair;
            let cost = sums.cost.map_or_else(String::new, |cost| format!(", cost {cost:.6}"));
            let _ = writeln!(
                out,
                "  zones {client} > {server}: {} B of requests, {} B of responses, {}, {} of {} segments retransmitted{cost}",
                grouped(sums.bytes[0]),
                grouped(sums.bytes[1]),
                counted(sums.connections, "connection"),
                grouped(sums.retransmitted),
                grouped(sums.segments),
            );
            let is_of = |part: &&PartFigures| part.zones == *pair && title(&part.server, part.at_server) == of;
            let parts: Vec<&PartFigures> = figures.parts.iter().filter(is_of).collect();
            let all: u64 = parts.iter().map(|part| part.total.wire_bytes).sum();
            parts.iter().take(STATEMENTS).for_each(|part| statement(&mut out, part, all));
        }
        let is_of = |(server, _): &&(ServerWords, ServerWork)| title(server, true) == of;
        figures.work.iter().filter(is_of).for_each(|(_, counted)| out.push_str(&work(counted)));
    }
    if out.is_empty() {
        out.push_str("no traffic\n");
    }
    let _ = writeln!(out, "{}", spent(&figures.spending, figures.elapsed));
    out
}

fn work(of: &ServerWork) -> String {
    let per_operation = |value: u64| value as f64 / of.operations.max(1) as f64;
    if of.operations == 0 {
        return String::new();
    }
    format!(
        "  kernel work: {:.2} system calls and {:.1} us of CPU time per operation, in {} with {}\n",
        per_operation(of.syscalls),
        per_operation(of.cpu_ns) / 1e3,
        counted(of.windows, "window"),
        counted(of.operations, "operation"),
    )
}

fn title(server: &ServerWords, at_server: bool) -> String {
    let of = if server.container.is_empty() { String::new() } else { format!(" in {}", server.container) };
    let place = if at_server { "" } else { ", from its clients here" };
    format!("{} {}{of}{place}", server.address, server.system)
}

fn statement(out: &mut String, part: &PartFigures, all: u64) {
    let all = all.max(1) as f64;
    let share = |bytes: f64| bytes / all * 100.0;
    let [class, name, text] = part.labels();
    let text = clean(if text.is_empty() { name } else { text });
    let class = if class == "workload" || class.is_empty() { String::new() } else { format!(" ({class})") };
    let short: String = text.chars().take(WIDTH).collect();
    let cost = part.cost.map_or_else(String::new, |cost| format!("  cost {cost:.6}"));
    let _ = writeln!(
        out,
        "    {:>5.1}% ({:.1} to {:.1})  {:<WIDTH$} {:>10}{cost}",
        share(part.total.wire_bytes as f64),
        share(part.total.bytes.low),
        share(part.total.bytes.high),
        format!("{short}{class}"),
        bytes_label(part.total.wire_bytes as f64),
    );
}

/// Returns what the agent cost.
pub fn spent(spending: &AgentSpending, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    format!(
        "spent: {:.2}% of a core; {} with {}, {:.2}% of the time, {} dropped",
        spending.cpu.as_secs_f64() / seconds * 100.0,
        counted(spending.windows, "window"),
        counted(spending.frames, "frame"),
        spending.open.as_secs_f64() / seconds * 100.0,
        grouped(spending.dropped),
    )
}

/// Returns what the agent would cost, from what it cost now.
pub fn expected(spending: &AgentSpending, elapsed: Duration, every: Duration) -> String {
    let seconds = elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    let totals = spending.cpu.saturating_sub(spending.window_cpu).as_secs_f64() / seconds * 100.0;
    let Some(windows) = std::num::NonZeroU32::new(u32::try_from(spending.windows).unwrap_or(u32::MAX)) else {
        return format!("totals cost {totals:.2}% of a core; there was no traffic to capture\n");
    };
    let each = spending.window_cpu / windows.get();
    format!(
        "totals cost {totals:.2}% of a core, and a window {:.1} ms: one each {every:?} costs {:.2}%\n",
        each.as_secs_f64() * 1e3,
        each.as_secs_f64() / every.as_secs_f64().max(f64::MIN_POSITIVE) * 100.0,
    )
}

/// Returns the servers that the agent would watch.
pub fn watched(servers: &WatchedServers) -> String {
    let mut out = String::new();
    for database in servers.databases() {
        let ports: Vec<String> = database.ports().iter().map(u16::to_string).collect();
        let of = database.container.as_ref().map(RunningContainer::argument);
        let of = of.map_or_else(String::new, |name| format!(" in container {name}"));
        let system = database.system.name;
        let _ =
            writeln!(out, "{system}: {} (process {}){of}, port {}", database.comm, database.pid(), ports.join(", "));
    }
    if out.is_empty() {
        out.push_str("no server of a known protocol listens here\n");
    }
    let _ = writeln!(out, "clients of servers elsewhere: on {}", counted(servers.ports.len() as u64, "port"));
    out
}
