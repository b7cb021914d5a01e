//! A record as one table: two rows per operation, one for each direction, and other kinds of rows for the rest. The `row`
//! column gives the kind; cells that do not apply are empty. `docs/run.md` lists the columns.

use super::{projection, sampled};
use crate::bounds::LowerBounds;
use crate::run::NamedRun;
use overhead_model::csv::ABSENT;
use overhead_model::record::{
    By, Container, CycleSource, Distribution, Estimate, FieldRow, Latency, OperationRow, OperationWork, ProjectedRow,
    Role, RowTotals, View, ViewRow,
};
use overhead_model::{Account, Csv, Measured, Run, Side};
use std::collections::BTreeSet;

/// Columns that identify a row.
const KEYS: [&str; 8] = ["run", "row", "protocol", "class", "operation", "via", "side", "field"];
const COUNTS: [&str; 6] = ["count", "unsolicited", "errors", "unanswered", "no_reply", "frames"];
const ROUND_TRIPS: &str = "round_trips";
const PREPARE: [&str; 2] = ["prepare_count", "prepare_wire_bytes"];
const SIZES: [&str; 8] = ["bytes", "mean", "min", "p50", "p90", "p99", "p999", "max"];
const BOUNDS: [&str; 2] = ["wire_lower_bound", "payload_lower_bound"];
const LATENCY: [&str; 9] =
    ["count", "mean_ns", "min_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "p9999_ns", "max_ns"];
const CALLS: [&str; 4] = ["syscall", "syscalls", "syscall_errors", "syscall_ns"];
const WORK: &str = "pids containers window_ns cycles_user cycles_kernel cycles_source on_cpu_user_ns on_cpu_kernel_ns \
     on_cpu_split switches_voluntary switches_involuntary threads busiest_thread_ns migrations wakeups \
     socket_send_calls socket_send_bytes socket_recv_calls socket_recv_bytes retransmissions coverage \
     captured_share withheld";
type RunFigure = fn(&Run) -> Measured<u64>;

/// Values of the whole run; `ledger_difference` stands before the last four.
const SOURCE: [(&str, RunFigure); 27] = [
    ("first_ns", |run| Measured::Value(run.source.first_ns)),
    ("last_ns", |run| Measured::Value(run.source.last_ns)),
    ("source_frames", |run| Measured::Value(run.source.frames)),
    ("source_wire_bytes", |run| Measured::Value(run.source.wire_bytes)),
    ("source_captured_bytes", |run| Measured::Value(run.source.captured_bytes)),
    ("truncated_frames", |run| Measured::Value(run.source.truncated_frames)),
    ("duplicate_frames", |run| Measured::Value(run.source.duplicate_frames)),
    ("malformed_frames", |run| Measured::Value(run.source.malformed_frames)),
    ("header_snapped_frames", |run| Measured::Value(run.source.header_snapped_frames)),
    ("kernel_drops", |run| run.source.kernel_drops.clone()),
    ("connections", |run| Measured::Value(run.tcp.connections)),
    ("tcp_payload_bytes", |run| Measured::Value(run.tcp.payload_bytes)),
    ("retransmitted_bytes", |run| Measured::Value(run.tcp.retransmitted_bytes)),
    ("out_of_order_frames", |run| Measured::Value(run.tcp.out_of_order_frames)),
    ("gap_bytes", |run| Measured::Value(run.tcp.gap_bytes)),
    ("control_frames", |run| Measured::Value(run.tcp.control_frames)),
    ("snapped_bytes", |run| Measured::Value(run.tcp.snapped_bytes)),
    ("oversize_frames", |run| Measured::Value(run.tcp.oversize_frames)),
    ("oversize_header_bytes", |run| Measured::Value(run.tcp.oversize_header_bytes)),
    ("oversize_longest_bytes", |run| Measured::Value(run.tcp.oversize_longest_bytes)),
    ("request_only", |run| Measured::Value(run.tcp.request_only)),
    ("response_only", |run| Measured::Value(run.tcp.response_only)),
    ("given_up", |run| Measured::Value(run.tcp.given_up)),
    ("exit", |run| Measured::Value(u64::from(run.exit))),
    ("observer_cpu_ns", |run| run.observer.cpu_ns.clone()),
    ("observer_bpf_ns", |run| run.observer.bpf_ns.clone()),
    ("observer_frames_per_second", |run| run.observer.frames_per_second.clone()),
];
/// View keys and costs, at the end for readers that count columns.
const VIEW: [&str; 6] = ["statement", "client", "server", "rows", "cost_million", "cost_day"];
/// Columns for changes by a link model.
const MODEL: [&str; 6] = ["frames", "wire_bytes", "link", "ip", "tcp", "control"];
/// Observer overhead as medians over the measured rounds, also at the end.
const WATCHING: [&str; 2] = ["watching_throughput_share", "watching_cpu_ns_per_operation"];
/// Sampled work of one end for a row's operations, per operation.
const KERNEL: [&str; 7] =
    ["sampled", "on_cpu_ns", "in_calls_ns", "shared_ns", "syscalls", "shared_syscalls", "divided"];
/// Windows of a row of estimates, and the share of time they cover; the estimates and their errors follow.
const SAMPLED: [&str; 2] = ["sampled_windows", "sampled_share"];
/// Rates of a whole run.
const SAMPLED_OF_RUN: [&str; 2] = ["frames_per_second", "wire_bytes_per_second"];
const SOFTIRQ: [&str; 4] = ["softirq_rx_count", "softirq_rx_ns", "softirq_tx_count", "softirq_tx_ns"];
/// Formats runs as RFC 4180 text with a header line. Sizes are bytes, times nanoseconds. The `wire_bytes` of all rows of a run
/// add up to the bytes of its frames.
pub fn csv(runs: &[NamedRun]) -> String {
    let parameters: BTreeSet<&String> = runs.iter().flat_map(|named| named.run.parameters.keys()).collect();
    let parameters = parameters.into_iter().map(|name| parameter(name));
    let mut table = Csv::new(columns().into_iter().chain(parameters));
    for NamedRun { name, run } in runs {
        source_row(&mut table, name, run);
        if let Some(view) = &run.view {
            view_rows(&mut table, name, run, view);
        } else {
            for row in &run.operations {
                both_sides(&mut table, [name, "operation"], &row.into(), Some(row), LowerBounds::new(run));
            }
        }
        table.row().text("run", name).text("row", "other").number("wire_bytes", run.ledger.other);
        counter_rows(&mut table, name, run);
        sampled_rows(&mut table, name, run);
        for row in run.projection.iter().flat_map(|projection| &projection.operations) {
            modelled_rows(&mut table, name, row);
        }
    }
    table.finish()
}

/// Returns the column of a parameter, which only the row of the run has.
fn parameter(name: &str) -> String {
    format!("parameter_{name}")
}

fn columns() -> Vec<String> {
    let plain = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let prefixed = |prefix: &str, names: &[&str]| names.iter().map(|name| format!("{prefix}_{name}")).collect();
    let accounts: Vec<&str> = Account::ALL.into_iter().map(Account::name).collect();
    let mut source = SOURCE.map(|(column, _)| column).to_vec();
    source.insert(source.len() - 4, "ledger_difference");
    [
        plain(&KEYS),
        plain(&COUNTS),
        plain(&[ROUND_TRIPS]),
        plain(&PREPARE),
        prefixed("wire", &SIZES),
        prefixed("payload", &SIZES),
        plain(&accounts),
        plain(&BOUNDS),
        prefixed("latency", &LATENCY),
        plain(&CALLS),
        plain(&WORK.split(' ').collect::<Vec<_>>()),
        plain(&source),
        plain(&SOFTIRQ),
        plain(&[ABSENT]),
        plain(&VIEW),
        prefixed("modelled", &MODEL),
        plain(&WATCHING),
        prefixed("kernel", &KERNEL),
        SAMPLED.iter().map(|name| (*name).to_owned()).chain(sampled_columns()).collect(),
    ]
    .concat()
}

/// Adds the rows of a view. Rows of single operations include all their cells.
fn view_rows(table: &mut Csv, run: &str, record: &Run, view: &View) {
    let kind = if view.by == By::Name { "operation" } else { view.by.name() };
    for row in &view.rows {
        let is_this = |of: &&OperationRow| {
            row.class == Some(of.class) && (&of.protocol, &of.name, &of.via) == (&row.protocol, &row.name, &row.via)
        };
        let operation = record.operations.iter().find(is_this).filter(|_| view.by == By::Name && row.rows == 1);
        both_sides(table, [run, kind], row, operation, LowerBounds::new(record));
    }
}

/// Adds a row for each direction. With its `operation`, it has distributions of sizes, and rows for kernel work and fields follow.
fn both_sides(
    table: &mut Csv,
    [run, kind]: [&str; 2],
    row: &ViewRow,
    operation: Option<&OperationRow>,
    bounds: LowerBounds,
) {
    // Name every field, so that the compiler finds a new one that has no cell.
    let ViewRow { class, protocol, name, via, statement, client, server, number: _, rows, totals, prepare, cost } = row;
    let RowTotals { count, unsolicited, errors, unanswered, no_reply, round_trips, request, response, latency_ns } =
        totals;
    let class = class.map_or("", |class| class.name());
    for (side, totals) in [(Side::Request, request), (Side::Response, response)] {
        keyed(table, [run, kind, protocol, class, name, via]).text("side", side.name());
        let counts = [*count, *unsolicited, *errors, *unanswered, *no_reply, totals.frames];
        table.numbers("", COUNTS.into_iter().zip(counts)).maybe("rows", operation.is_none().then_some(*rows));
        if side == Side::Request {
            table.measured(ROUND_TRIPS, round_trips);
        }
        if let Some(prepare) = prepare.as_ref().and_then(|prepare| table.value("prepare", prepare)) {
            let bytes = [&prepare.request, &prepare.response][side as usize].wire_bytes;
            table.number(PREPARE[0], prepare.count).number(PREPARE[1], bytes);
        }
        if let Some(reason) = &totals.unseen {
            table.value(side.name(), &Measured::<u64>::unavailable(reason));
        } else {
            if let Some(operation) = operation {
                let of = [&operation.request, &operation.response][side as usize];
                sizes(table, "wire_", &of.wire_bytes);
                sizes(table, "payload_", &of.payload_bytes);
            } else {
                table.number("wire_bytes", totals.wire_bytes).number("payload_bytes", totals.payload_bytes);
            }
            table.numbers("", totals.accounts.iter().map(|(account, bytes)| (account.name(), bytes)));
        }
        table.number(BOUNDS[0], bounds.wire).number(BOUNDS[1], bounds.payload);
        if let Some(times) = table.value("latency_ns", latency_ns) {
            latency(table, times);
        }
        for (name, text) in [("statement", statement), ("client", client), ("server", server)] {
            table.text(name, text.as_deref().unwrap_or_default());
        }
        table.maybe("cost_million", cost.and_then(|cost| cost.per_million_operations));
        table.maybe("cost_day", cost.and_then(|cost| cost.per_day));
    }
    if let Some(operation) = operation {
        work_and_fields(table, run, operation);
    }
}

fn work_and_fields(table: &mut Csv, run: &str, row: &OperationRow) {
    for (role, work) in row.kernel.iter().flat_map(|kernel| [("server", &kernel.server), ("client", &kernel.client)]) {
        of_operation(table, [run, "kernel"], row).text("side", role).number("count", row.count);
        kernel_work(table, work);
    }
    for FieldRow { side, account, field, bytes } in row.fields.iter().flatten() {
        let cells = of_operation(table, [run, "field"], row).text("side", side.name()).text("field", field);
        cells.number(account.name(), bytes);
    }
}

/// Returns the names of the estimate columns: each value, its standard error and its interval.
fn sampled_columns() -> impl Iterator<Item = String> {
    let of = |figure: &str| ["", "_se", "_low", "_high"].map(|part| format!("sampled_{figure}{part}"));
    sampled::FIGURES.into_iter().chain(SAMPLED_OF_RUN).flat_map(of)
}

/// Adds estimates for the whole time: a row for each operation row, and one for the run.
fn sampled_rows(table: &mut Csv, run: &str, record: &Run) {
    let Some(sample) = &record.sample else { return };
    table.row().text("run", run).text("row", "sampled");
    table.number(SAMPLED[0], sample.windows).number(SAMPLED[1], sample.covered_share);
    let figures = [&sample.frames_per_second, &sample.wire_bytes_per_second];
    estimates(table, SAMPLED_OF_RUN.into_iter().zip(figures));
    for row in &record.operations {
        let Some(sampled) = &row.sampled else { continue };
        of_operation(table, [run, "sampled"], row).number(SAMPLED[0], sampled.windows);
        estimates(table, sampled::FIGURES.into_iter().zip(sampled::figures(sampled)));
    }
}

fn estimates<'m>(table: &mut Csv, figures: impl Iterator<Item = (&'static str, &'m Measured<Estimate>)>) {
    for (name, figure) in figures {
        let Some(estimate) = table.value(name, figure) else { continue };
        let Estimate { value, standard_error, low, high } = *estimate;
        let parts = [("", value), ("_se", standard_error), ("_low", low), ("_high", high)];
        table.numbers(&format!("sampled_{name}"), parts);
    }
}

/// Adds the modelled link traffic of an operation row, in separate columns.
fn modelled_rows(table: &mut Csv, run: &str, row: &ProjectedRow) {
    for (side, sums) in [(Side::Request, &row.request), (Side::Response, &row.response)] {
        keyed(table, [run, "modelled", &row.protocol, row.class.name(), &row.name, &row.via]);
        table.text("side", side.name()).number("count", row.count);
        table.number("modelled_frames", sums.frames).number("modelled_wire_bytes", sums.wire_bytes);
        table.numbers("modelled_", projection::changed(&sums.accounts));
    }
}

fn kernel_work(table: &mut Csv, work: &Measured<OperationWork>) {
    let Some(work) = table.value("kernel", work) else { return };
    let (own, shared): (f64, f64) = (work.syscalls.values().sum(), work.shared_syscalls.values().sum());
    let [sampled, times @ .., of_calls, of_shared, divided] = KERNEL;
    table.numbers("kernel_", [(sampled, work.sampled)]);
    if let Some(time) = table.value("kernel_on_cpu_ns", &work.time) {
        table.numbers("kernel_", times.into_iter().zip([time.on_cpu_ns, time.in_calls_ns, time.shared_ns]));
    }
    table.numbers("kernel_", [(of_calls, own), (of_shared, shared), (divided, work.divided)]);
}

fn of_operation<'a>(table: &'a mut Csv, [run, kind]: [&str; 2], row: &OperationRow) -> &'a mut Csv {
    keyed(table, [run, kind, &row.protocol, row.class.name(), &row.name, &row.via])
}

fn keyed<'a>(table: &'a mut Csv, keys: [&str; 6]) -> &'a mut Csv {
    KEYS.into_iter().zip(keys).fold(table.row(), |row, (column, key)| row.text(column, key))
}

fn sizes(table: &mut Csv, of: &str, sizes: &Distribution) {
    let Distribution { total, mean, min, p50, p90, p99, p999, max } = *sizes;
    let [of_total, of_mean, rest @ ..] = SIZES;
    table.numbers(of, [(of_total, total)]).numbers(of, [(of_mean, mean)]);
    table.numbers(of, rest.into_iter().zip([min, p50, p90, p99, p999, max]));
}

/// Leaves times empty if no operation had one.
fn latency(table: &mut Csv, latency: &Latency) {
    let Latency { count, mean, min, p50, p90, p99, p999, p9999, max } = *latency;
    let [of_count, of_mean, rest @ ..] = LATENCY;
    table.numbers("latency_", [(of_count, count)]);
    if count > 0 {
        table.numbers("latency_", [(of_mean, mean)]);
        table.numbers("latency_", rest.into_iter().zip([min, p50, p90, p99, p999, p9999, max]));
    }
}

fn source_row(table: &mut Csv, name: &str, run: &Run) {
    table.row().text("run", name).text("row", "run").number("ledger_difference", run.ledger.difference);
    for (name, value) in &run.parameters {
        let column = parameter(name);
        // Keep numbers as numbers, including negative ones.
        let is_number = value.parse::<f64>().is_ok();
        if is_number {
            table.number(&column, value)
        } else {
            table.text(&column, value)
        };
    }
    for (column, figure) in SOURCE {
        table.measured(column, &figure(run));
    }
    if let Some(cost) = &run.observer.watching {
        for (column, spread) in WATCHING.into_iter().zip([&cost.throughput_share, &cost.cpu_ns_per_operation]) {
            let spread = table.value(column, spread);
            table.maybe(column, spread.map(|spread| spread.median));
        }
    }
    let Some(counters) = table.value("counters", &run.counters) else { return };
    table.number("window_ns", counters.window_ns);
    if let Some(softirq) = table.value("softirq", &counters.softirq) {
        let numbers = [softirq.rx_count, softirq.rx_ns, softirq.tx_count, softirq.tx_ns];
        table.numbers("", SOFTIRQ.into_iter().zip(numbers));
    }
}

/// Adds a row per role and per system call. An unmeasured role gets a row with the reason.
fn counter_rows(table: &mut Csv, run: &str, record: &Run) {
    let Some(counters) = record.counters.value() else { return };
    let whole = [("server".to_owned(), &counters.server), ("client".to_owned(), &counters.client)];
    let each = counters.protocols.iter().flat_map(|counters| {
        let of = |role: &str| format!("{role} ({})", counters.protocol);
        [(of("server"), &counters.server), (of("client"), &counters.client)]
    });
    for (name, measured) in whole.into_iter().chain(each) {
        table.row().text("run", run).text("row", "counters").text("side", &name);
        let Some(role) = table.value("counters", measured) else { continue };
        work(table.number("window_ns", counters.window_ns), role);
        for (call, counted) in &role.syscalls {
            table.row().text("run", run).text("row", "syscall").text("side", &name).text("syscall", call);
            table.number("syscalls", counted.count).number("syscall_errors", counted.errors);
            table.measured("syscall_ns", &counted.ns);
        }
    }
}

fn work(table: &mut Csv, role: &Role) {
    let pids: Vec<String> = role.pids.iter().map(u32::to_string).collect();
    let containers: Vec<String> = role.containers.iter().map(Container::full_name).collect();
    table.text("pids", &pids.join(" ")).text("containers", &containers.join(" "));
    if let Some(cycles) = table.value("cycles", &role.cycles) {
        let source = if cycles.source == CycleSource::Hardware { "hardware" } else { "reference" };
        table.number("cycles_user", cycles.user).number("cycles_kernel", cycles.kernel).text("cycles_source", source);
    }
    if let Some(time) = table.value("on_cpu_ns", &role.on_cpu_ns) {
        table.number("on_cpu_user_ns", time.user).number("on_cpu_kernel_ns", time.kernel);
        table.text("on_cpu_split", &time.split.method);
    }
    if let Some(switches) = table.value("context_switches", &role.context_switches) {
        table.numbers("switches_", [("voluntary", switches.voluntary), ("involuntary", switches.involuntary)]);
    }
    table.number("threads", role.threads).measured("busiest_thread_ns", &role.busiest_thread_ns);
    table.measured("migrations", &role.migrations).measured("wakeups", &role.wakeups);
    if let Some(socket) = table.value("socket", &role.socket) {
        table.number("socket_send_calls", socket.send_calls).number("socket_send_bytes", socket.send_bytes);
        table.number("socket_recv_calls", socket.recv_calls).number("socket_recv_bytes", socket.recv_bytes);
    }
    table.measured("retransmissions", &role.retransmissions).measured("coverage", &role.coverage);
    table.measured("captured_share", &role.captured_share);
    table.text("withheld", role.withheld.as_deref().unwrap_or_default());
}
