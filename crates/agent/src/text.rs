//! The agent's totals as text: a summary at the end, and what it would watch.

use super::flows::wire_bytes;
use super::governor::AgentSpending;
use super::metrics::bytes;
use super::servers::WatchedServers;
use super::totals::{AgentTotals, FlowTraffic, PartTraffic, ServerLabels, names};
use super::work::ServerWork;
use overhead_dissect::KeptCounts;
use overhead_report::text::number::{bytes_label, significant};
use overhead_report::text::{clean, counted, grouped};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// Statements shown for each server.
const STATEMENTS: usize = 5;
/// Seconds of 30 days.
const MONTH_S: f64 = 30.0 * 86_400.0;
/// Characters shown of a statement.
const WIDTH: usize = 44;

/// Returns the traffic of each server by pair of zones, with its largest statements. Writing to a string cannot fail.
pub fn summary(totals: &AgentTotals) -> String {
    let mut servers = BTreeMap::<_, BTreeMap<_, FlowTraffic>>::new();
    for flow in &totals.flows {
        let zones = servers.entry(title(&flow.server, flow.at_server)).or_default();
        zones.entry(&flow.zones).and_modify(|sums| sums.add(flow)).or_insert_with(|| flow.clone());
    }
    let seconds = totals.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    let mut out = String::new();
    for (server_title, zones) in servers {
        let _ = writeln!(out, "{server_title}");
        for (pair, sums) in zones {
            let [client, server] = pair;
            let cost = sums.costs.map(|costs| costs.iter().sum::<f64>());
            let cost = cost.map_or_else(String::new, |cost| {
                format!(", cost {cost:.6}, at this rate {} in 30 days", significant(cost * MONTH_S / seconds))
            });
            let [requests, responses] = wire_bytes(&sums.totals).map(grouped);
            let _ = writeln!(
                out,
                "  zones {client} > {server}: {requests} B of requests, {responses} B of responses, {}, {} of {} segments retransmitted{cost}",
                counted(sums.totals.opened + sums.totals.met_open, "connection"),
                grouped(sums.totals.retransmitted_segments),
                grouped(sums.totals.sent.segments + sums.totals.received.segments),
            );
            let is_here =
                |part: &&PartTraffic| part.zones == *pair && title(&part.server, part.at_server) == server_title;
            let parts: Vec<&PartTraffic> = totals.parts.iter().filter(is_here).collect();
            let all: u64 = parts.iter().map(|part| part.total.wire_bytes).sum();
            parts.iter().take(STATEMENTS).for_each(|part| statement(&mut out, part, all));
        }
        let is_same = |(server, _): &&(ServerLabels, ServerWork)| title(server, true) == server_title;
        totals.work.iter().filter(is_same).for_each(|(_, work)| out.push_str(&kernel_work(work)));
    }
    if out.is_empty() {
        out.push_str("no traffic\n");
    }
    let [unseen, encrypted] =
        [PartTraffic::is_prepared_unseen, PartTraffic::is_encrypted].map(|is_it| bytes(totals, is_it));
    if unseen > 0 {
        let _ = writeln!(
            out,
            "without text: {} of statements that no window saw being prepared",
            bytes_label(unseen as f64)
        );
    }
    if encrypted > 0 {
        let _ = writeln!(out, "without text: {} of TLS without keys", bytes_label(encrypted as f64));
    }
    if let Some(KeptCounts { kept, missed, .. }) = totals.tls {
        let _ = writeln!(
            out,
            "TLS: secrets of {}; {} in windows not decrypted",
            counted(kept, "open connection"),
            counted(missed, "connection")
        );
    }
    let _ = writeln!(out, "{}", spent(&totals.spending, totals.elapsed));
    out
}

fn kernel_work(work: &ServerWork) -> String {
    let per_operation = |value: u64| value as f64 / work.operations.max(1) as f64;
    if work.operations == 0 {
        return String::new();
    }
    format!(
        "  kernel work: {:.2} system calls and {:.1} us of CPU time per operation, in {} with {}\n",
        per_operation(work.syscalls),
        per_operation(work.cpu_ns) / 1e3,
        counted(work.windows, "window"),
        counted(work.operations, "operation"),
    )
}

fn title(server: &ServerLabels, at_server: bool) -> String {
    let container = if server.container.is_empty() { String::new() } else { format!(" in {}", server.container) };
    let place = if at_server { "" } else { ", from its clients here" };
    format!("{} {}{container}{place}", server.address, server.system)
}

fn statement(out: &mut String, part: &PartTraffic, all: u64) {
    let all = all.max(1) as f64;
    let share = |bytes: f64| bytes / all * 100.0;
    let [class, name, text] = names(&part.total.part);
    let text = clean(if text.is_empty() { name } else { text });
    let class = if class == "workload" || class.is_empty() { String::new() } else { format!(" ({class})") };
    let short: String = text.chars().take(WIDTH).collect();
    let cost = part.cost.map_or_else(String::new, |cost| format!("  cost {cost:.6}"));
    let ends = [part.total.bytes.low, part.total.bytes.high].map(share);
    let interval = if part.total.has_interval { format!(" ({:.1} to {:.1})", ends[0], ends[1]) } else { String::new() };
    let _ = writeln!(
        out,
        "    {:>5.1}%{:<17} {:<WIDTH$} {:>10}{cost}",
        share(part.total.wire_bytes as f64),
        interval,
        format!("{short}{class}"),
        bytes_label(part.total.wire_bytes as f64),
    );
}

/// Returns the agent's cost.
fn spent(spending: &AgentSpending, elapsed: Duration) -> String {
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

/// Returns the agent's expected cost, from its cost so far.
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
    for database in &servers.databases {
        let ports: Vec<String> = database.ports().iter().map(u16::to_string).collect();
        let container = database.container.as_ref().map(|container| clean(&container.argument()));
        let container = container.map_or_else(String::new, |name| format!(" in container {name}"));
        let (system, comm, pid) = (database.system.name, clean(&database.comm), database.pid());
        let _ = writeln!(out, "{system}: {comm} (process {pid}){container}, port {}", ports.join(", "));
    }
    if out.is_empty() {
        out.push_str("no server of a known protocol listens here\n");
    }
    let _ = writeln!(out, "clients of servers elsewhere: on {}", counted(servers.ports.len() as u64, "port"));
    out
}
