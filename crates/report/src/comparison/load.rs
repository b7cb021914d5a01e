//! Rates and latencies, what limits them, and the same beside other tools.

use super::page::{MarkdownPage, bytes, signed_bytes};
use super::study::{OPERATIONS, Peer, Setting, Study, StudyCell, title};
use crate::summary::{RoleName, both_sides, per_operation, present, window_ns, workload_count};
use crate::text::number::{DASH, counted, decimal, grouped, microseconds, percent, significant, with_digits};
use overhead_model::load::{LoadResult, LoadRun};
use overhead_model::{Account, Amounts};

/// Returns the run that stands for a result.
pub(super) fn median(result: &LoadResult) -> Option<&LoadRun> {
    result.runs.get(result.summary?.median_run)
}

/// Clients of the loads, in order.
pub(super) fn clients(study: &Study) -> Vec<u32> {
    let mut clients: Vec<u32> = study.loads.iter().map(StudyCell::clients).collect();
    clients.sort_unstable();
    clients.dedup();
    clients
}

/// Requests per second and latency, with what is busy at that rate.
pub(super) fn rates(page: &mut MarkdownPage, study: &Study) {
    let mut rows = Vec::new();
    for db in study.systems() {
        for operation in OPERATIONS {
            for clients in clients(study) {
                rows.extend(study.load(db, operation, clients, 1).and_then(|cell| rate(db, cell)));
            }
        }
    }
    let columns = [
        "system",
        "operation",
        "clients",
        "requests/s",
        "slowest to fastest run",
        "p50 µs",
        "p99 µs",
        "p99.9 µs",
        "client CPU µs/op",
        "client busy",
        "server CPU µs/op",
        "limit",
    ];
    page.table(&columns, 2, &rows);
}

fn rate(db: &str, cell: &StudyCell) -> Option<Vec<String>> {
    let result = cell.result()?;
    let (summary, run) = (result.summary?, median(result)?);
    let whole = |value: f64| grouped(value.round() as u64);
    let latency = &run.latency_ns;
    let work = CpuWork::of(cell)?;
    let absent = || DASH.to_owned();
    Some(vec![
        title(db).to_owned(),
        result.operation.clone(),
        result.clients.to_string(),
        whole(summary.per_second),
        format!("{} to {}", whole(summary.per_second_min), whole(summary.per_second_max)),
        microseconds(latency.p50),
        microseconds(latency.p99),
        microseconds(latency.p999),
        decimal(work.client_ns / 1e3),
        share(work.busy),
        work.server_ns.map_or_else(absent, |ns| decimal(ns / 1e3)),
        work.limit().map_or_else(absent, |(what, rate)| format!("{what}, at {}", whole(rate))),
    ])
}

fn share(part: f64) -> String {
    percent((part * 1e6) as u64, 1_000_000)
}

/// What an operation takes of the CPUs, and what that allows.
struct CpuWork {
    /// CPU time of the client per operation, and the threads that it has.
    client_ns: f64,
    threads: f64,
    /// Part of the time that a thread of the client was on a CPU.
    busy: f64,
    /// CPU time of the server per operation; absent where it was not measured.
    server_ns: Option<f64>,
    /// The server does all of its work in one thread.
    one_thread: bool,
    /// Of the machine; absent where the record does not say.
    cpus: Option<f64>,
    /// A single client waits for each answer.
    alone: bool,
}

impl CpuWork {
    fn of(cell: &StudyCell) -> Option<Self> {
        let result = cell.result()?;
        let run = median(result)?;
        let client_ns = (run.cpu_ns.user + run.cpu_ns.kernel) as f64 / run.operations.max(1) as f64;
        let threads = f64::from(cell.load.settings.threads);
        let cpus = cell.run.environment.as_ref().map(|machine| machine.cpus).filter(|cpus| *cpus > 0);
        Some(Self {
            client_ns,
            threads,
            busy: client_ns * run.per_second / 1e9 / threads,
            server_ns: server_cpus(cell).map(|cpus| cpus * 1e9 / run.per_second),
            one_thread: cell.load.protocol == "resp",
            cpus: cpus.map(f64::from),
            alone: result.clients == 1 && result.pipeline == 1,
        })
    }

    /// Returns what is exhausted first as the rate grows, and the rate at which it is; `None` for a client that waits.
    fn limit(&self) -> Option<(&'static str, f64)> {
        if self.alone {
            return None;
        }
        let client = ("client", self.threads * 1e9 / self.client_ns);
        let server = self.server_ns.filter(|_| self.one_thread).map(|ns| ("server's thread", 1e9 / ns));
        let both_ns = self.server_ns.map(|ns| ns + self.client_ns);
        let machine = both_ns.zip(self.cpus).map(|(ns, cpus)| ("CPUs of the machine", cpus * 1e9 / ns));
        [Some(client), server, machine].into_iter().flatten().min_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// CPUs that the server used over the window, which holds warming up and all runs.
fn server_cpus(cell: &StudyCell) -> Option<f64> {
    let on_cpu = present(&RoleName::Server.of(&cell.run).ok()?.on_cpu_ns).ok()?;
    let window = window_ns(&cell.run);
    (window > 0).then(|| (on_cpu.user + on_cpu.kernel) as f64 / window as f64)
}

/// CPU time of a role per operation of a captured cell, in microseconds.
pub(super) fn on_cpu_us(cell: &StudyCell, role: RoleName) -> Option<f64> {
    let on_cpu = present(&role.of(&cell.run).ok()?.on_cpu_ns).ok()?;
    per_operation(on_cpu.user + on_cpu.kernel, workload_count(&cell.run)).map(|ns| ns / 1e3)
}

/// Returns where the client is the limit, in a sentence.
pub(super) fn limited_by_client(study: &Study) -> String {
    let loads: Vec<(&StudyCell, &str, f64)> = study
        .loads
        .iter()
        .filter(|cell| cell.pipeline() == 1 && !cell.is_sharded())
        .filter_map(|cell| CpuWork::of(cell)?.limit().map(|(limit, rate)| (cell, limit, rate)))
        .collect();
    let name = |(cell, _, rate): &(&StudyCell, &str, f64)| {
        let clients = counted(u64::from(cell.clients()), "client");
        format!(
            "{} `{}` with {clients} (at {}/s)",
            title(&cell.load.db),
            cell.operation(),
            grouped(rate.round() as u64)
        )
    };
    let limited: Vec<String> = loads.iter().filter(|load| load.1 == "client").map(name).collect();
    let all = loads.len();
    if limited.is_empty() {
        return format!("In none of {all} combinations with several clients is the client the first to be exhausted.");
    }
    format!(
        "In {} of {all} combinations with several clients, the client is the first to be exhausted, so that the rate says more about \
         it than about the server: {}.",
        limited.len(),
        limited.join("; ")
    )
}

/// What a pipeline changes, on the wire and in rate.
pub(super) fn pipelines(page: &mut MarkdownPage, study: &Study, db: &str) {
    let mut rows = Vec::new();
    for operation in OPERATIONS {
        let cells = study.pipeline(db, operation);
        if cells.len() < 2 {
            continue;
        }
        let base = rate_of(study, db, operation, 1);
        for cell in cells {
            let Some(row) = cell.row() else { continue };
            let per = |bytes: u64| per_operation(bytes, row.samples()).map_or_else(|| DASH.to_owned(), bytes_of);
            let amounts = both_sides(row);
            let headers: u64 =
                amounts.iter().filter(|(account, _)| !account.is_payload()).map(|(_, bytes)| bytes).sum();
            let rate = rate_of(study, db, operation, cell.pipeline());
            let times = rate.zip(base).map_or_else(|| DASH.to_owned(), |(rate, base)| with_digits(rate / base, 1));
            let calls = |role| {
                super::bytes::syscalls(cell, role).map_or_else(|| DASH.to_owned(), |calls| with_digits(calls, 2))
            };
            let mut cells = vec![
                operation.to_owned(),
                cell.pipeline().to_string(),
                per(amounts.total()),
                per(headers),
                per(amounts.payload()),
            ];
            cells.extend(RoleName::BOTH.map(calls));
            cells.push(rate.map_or_else(|| DASH.to_owned(), |rate| grouped(rate.round() as u64)));
            cells.push(times);
            rows.push(cells);
        }
    }
    let columns = [
        "operation",
        "pipeline",
        "wire B/op",
        "headers",
        "payload",
        "server syscalls/op",
        "client syscalls/op",
        "requests/s",
        "times that of 1",
    ];
    page.table(&columns, 1, &rows);
}

fn bytes_of(value: f64) -> String {
    bytes(value)
}

fn rate_of(study: &Study, db: &str, operation: &str, pipeline: u32) -> Option<f64> {
    Some(study.load(db, operation, 1, pipeline)?.result()?.summary?.per_second)
}

/// Requests per second of one process and of several, for the combination of a captured cell.
pub(super) fn both_rates(study: &Study, cell: &StudyCell) -> String {
    let fits = |load: &&StudyCell| {
        load.load.db == cell.load.db
            && load.operation() == cell.operation()
            && load.clients() == cell.clients()
            && load.pipeline() == 1
    };
    let rate = |sharded| {
        let load = study.loads.iter().filter(fits).find(|load| load.is_sharded() == sharded);
        let summary = load.and_then(StudyCell::result).and_then(|result| result.summary);
        summary.map_or_else(|| DASH.to_owned(), |summary| grouped(summary.per_second.round() as u64))
    };
    format!("{} and {}", rate(false), rate(true))
}

/// This program beside the tools that people use, in turns.
pub(super) fn peers(page: &mut MarkdownPage, study: &Study) {
    let mut rows = Vec::new();
    let mut combinations: Vec<(&str, &str, u32)> = Vec::new();
    for peer in &study.peers {
        let combination = (peer.db.as_str(), peer.operation.as_str(), peer.clients);
        if !combinations.contains(&combination) {
            combinations.push(combination);
        }
    }
    for (db, operation, clients) in combinations {
        let rounds = |own: bool| {
            let of = move |peer: &&Peer| {
                (peer.db.as_str(), peer.operation.as_str(), peer.clients) == (db, operation, clients)
            };
            middle(study.peers.iter().filter(of).filter(|peer| peer.tool.is_empty() == own).collect())
        };
        let (Some(own), Some(other)) = (rounds(true), rounds(false)) else { continue };
        let whole = |value: f64| grouped(value.round() as u64);
        let times = |own: f64, other: f64| with_digits(own / other, 2);
        rows.push(vec![
            title(db).to_owned(),
            other.tool.clone(),
            clients.to_string(),
            whole(own.per_second),
            whole(other.per_second),
            times(own.per_second, other.per_second),
            decimal(own.cpu_ns_per_operation / 1e3),
            decimal(other.cpu_ns_per_operation / 1e3),
            times(own.cpu_ns_per_operation, other.cpu_ns_per_operation),
        ]);
    }
    let columns = [
        "system",
        "beside",
        "clients",
        "bench requests/s",
        "its requests/s",
        "ratio",
        "bench CPU µs/op",
        "its CPU µs/op",
        "ratio of CPU",
    ];
    page.table(&columns, 2, &rows);
    let mut commands: Vec<String> = study.peers.iter().map(|peer| format!("`{}`", peer.command)).collect();
    commands.sort();
    commands.dedup();
    page.list(&commands);
}

/// Returns the round with the median rate.
fn middle(mut rounds: Vec<&Peer>) -> Option<&Peer> {
    rounds.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
    rounds.get(rounds.len().checked_sub(1)? / 2).copied()
}

/// What settings of the drivers change.
pub(super) fn settings(page: &mut MarkdownPage, study: &Study) {
    let mut rows = Vec::new();
    for setting in study.settings() {
        let (Some(default), Some(with)) = (setting.default.row(), setting.with.row()) else { continue };
        let wire = [default, with].map(|row| {
            [&row.request, &row.response]
                .map(|side| per_operation(without_acks(&side.accounts), row.samples()).unwrap_or(0.0))
        });
        let sides = |sides: [f64; 2]| format!("{}/{}", bytes(sides[0]), bytes(sides[1]));
        let saved = wire[1].iter().sum::<f64>() - wire[0].iter().sum::<f64>();
        let cells = [setting.default, setting.with];
        let cpu = |role| {
            let [default, with] = cells.map(|cell| on_cpu_us(cell, role).map_or_else(|| DASH.to_owned(), significant));
            format!("{default} → {with}")
        };
        let mut line = vec![
            title(&setting.with.load.db).to_owned(),
            setting.label.clone(),
            format!("{}, {}", setting.with.operation(), super::words::label(with)),
            sides(wire[0]),
            sides(wire[1]),
            signed_bytes(saved),
        ];
        line.extend(RoleName::BOTH.map(cpu));
        rows.push(line);
    }
    let columns = [
        "system",
        "setting",
        "operation",
        "default B/op",
        "with it",
        "difference",
        "server CPU µs/op",
        "client CPU µs/op",
    ];
    page.table(&columns, 3, &rows);
    page.list(&study.settings().iter().filter_map(where_it_lies).collect::<Vec<_>>());
}

/// Bytes but for frames without payload and repeats, which are a matter of timing.
pub(super) fn without_acks(amounts: &Amounts) -> u64 {
    amounts.total() - amounts[Account::Control] - amounts[Account::Retransmission]
}

/// Returns what the bytes that a setting changes are for.
fn where_it_lies(setting: &Setting<'_>) -> Option<String> {
    let changes = super::bytes::changes([setting.default.row()?, setting.with.row()?])?;
    let (db, operation) = (title(&setting.with.load.db), setting.with.operation());
    (!changes.is_empty()).then(|| format!("{db}, `{operation}`, {}: {changes}.", setting.label))
}
