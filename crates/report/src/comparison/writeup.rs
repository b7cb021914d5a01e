//! The document, from its title to what it cannot say.

use super::page::{MarkdownPage, bytes, signed_bytes};
use super::study::{Study, StudyCell, title};
use super::{bytes as costs, load, questions, reference, words};
use crate::summary::{RoleName, both_sides, per_operation};
use crate::text::number::{DASH, counted, grouped, percent, with_digits};
use crate::text::{clean, cycle_label};
use overhead_model::record::OperationRow;

/// Part of the CPUs that others may use on a machine that counts as idle.
const IDLE: f64 = 0.05;

/// Returns the whole of it.
pub(super) fn writeup(study: &Study) -> String {
    let mut page = MarkdownPage::default();
    page.heading(
        1,
        &format!("{}, compared", list(&study.systems().iter().map(|db| title(db).to_owned()).collect::<Vec<_>>())),
    );
    page.paragraph("Written by `make comparison` from the records beside it. Amounts are measured, causes are explained; do not edit it.");
    summary(&mut page, study);
    how(&mut page, study);
    reference::reference(&mut page, study);
    reference::words(&mut page, study);
    operations(&mut page, study);
    page.heading(2, "What makes the difference, pair by pair");
    page.paragraph(
        "By what bytes are for, both directions apart, the second system minus the first, in B/op; then which fields of each \
         protocol they are, as `overhead explain` names them.",
    );
    costs::pairs(&mut page, study);
    questions::answers(&mut page, study);
    settings(&mut page, study);
    rates(&mut page, study);
    limits(&mut page, study);
    page.finish()
}

/// `a, b and c`.
pub(super) fn list(items: &[String]) -> String {
    match items {
        [rest @ .., last] if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => items.concat(),
    }
}

/// Bytes on the wire per operation, both directions.
pub(super) fn total(row: &OperationRow) -> f64 {
    per_operation(both_sides(row).total(), row.samples()).unwrap_or(0.0)
}

/// Returns the same but for acknowledgments in frames of their own, and repeats.
pub(super) fn steady(row: &OperationRow) -> f64 {
    per_operation(load::without_acks(&both_sides(row)), row.samples()).unwrap_or(0.0)
}

/// Returns the operation of a system by one client.
pub(super) fn row<'a>(study: &'a Study, db: &str, operation: &str) -> Option<&'a OperationRow> {
    study.cell(db, operation, 1)?.row()
}

fn summary(page: &mut MarkdownPage, study: &Study) {
    let mut items = Vec::new();
    for operation in super::study::OPERATIONS {
        let mut ranked: Vec<(f64, &str)> =
            study.systems().into_iter().filter_map(|db| Some((total(row(study, db, operation)?), title(db)))).collect();
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        let said: Vec<String> = ranked.iter().map(|(wire, name)| format!("{name} {}", bytes(*wire))).collect();
        if ranked.is_empty() {
            continue;
        }
        items.push(format!("`{operation}`, bytes on the wire per operation, headers included: {}.", list(&said)));
    }
    for setting in study.settings() {
        let (Some(default), Some(with)) = (setting.default.row(), setting.with.row()) else { continue };
        let saved = steady(with) - steady(default);
        if saved <= -0.5 {
            let part = percent((-saved * 1e3) as u64, (steady(default) * 1e3) as u64);
            let name = title(&setting.with.load.db);
            items.push(format!(
                "{name}, `{}`, {}: {} B/op, {part} less.",
                setting.with.operation(),
                setting.label,
                signed_bytes(saved)
            ));
        }
    }
    page.list(&items);
}

/// Systems, machine, and how it was measured.
fn how(page: &mut MarkdownPage, study: &Study) {
    page.heading(2, "What was measured");
    page.paragraph(
        "A row is `(id BIGINT, vector INT[16], payload TEXT)` of 8 + 64 + 36 bytes, in Redis one value of 108. `empty` asks for a \
         row that is not there, `read` for a random one that is, `insert` adds one. Statements are prepared where the protocol has \
         that; each client has a connection of its own. All on the loopback interface of one machine.",
    );
    let rows: Vec<Vec<String>> = study
        .systems()
        .into_iter()
        .filter_map(|db| {
            let row = row(study, db, "read")?;
            Some(vec![title(db).to_owned(), clean(study.software(db)), row.protocol.clone(), study.driver(db)])
        })
        .collect();
    page.table(&["system", "server", "protocol", "driver"], 4, &rows);
    page.list(&conditions(study));
}

fn conditions(study: &Study) -> Vec<String> {
    let runs = || study.cells.iter().map(|cell| &cell.run);
    let balanced = runs().filter(|run| run.ledger.balanced).count();
    let drops: u64 = runs().filter_map(|run| run.source.kernel_drops.value()).sum();
    let gaps: u64 = runs().map(|run| run.tcp.gap_bytes).sum();
    let frames: u64 = runs().map(|run| run.source.frames).sum();
    let mut items = vec![format!(
        "{} captured, {} in all: the ledger of {} balances to the byte; {} dropped, {} in gaps.",
        counted(study.cells.len() as u64, "combination"),
        counted(frames, "frame"),
        if balanced == study.cells.len() {
            "every one".to_owned()
        } else {
            format!("{balanced} of {}", study.cells.len())
        },
        counted(drops, "frame"),
        counted(gaps, "byte"),
    )];
    if let Some(cell) = study.cells.first() {
        if let Some(machine) = &cell.run.environment {
            let cpus = counted(u64::from(machine.cpus), "CPU");
            items.push(format!("Linux {}, {cpus} ({}).", clean(&machine.kernel), clean(&machine.cpu)));
        }
        items.push(format!("Cycles: {}.", clean(&cycle_label(&cell.run))));
        items.extend(busy_machine(study, cell));
    }
    items.push(
        "System calls and cycles are those of all processes of a role in the window, over its workload operations. FerretDB's \
         are its own, without those of the PostgreSQL behind it; a JVM's hold its compiler and its garbage collector."
            .to_owned(),
    );
    items
}

/// Says so where the machine had other work.
fn busy_machine(study: &Study, cell: &StudyCell) -> Option<String> {
    let in_use = study.conditions.cpus_in_use?;
    let cpus = cell.run.environment.as_ref().map_or(1, |machine| machine.cpus);
    (in_use > f64::from(cpus) * IDLE).then(|| {
        format!(
            "The machine had other work as well: {in_use:.2} CPUs were in use before the first run. Bytes and system calls do not \
             depend on that; rates, latencies, times and limits do, and are no more than those of a shared machine."
        )
    })
}

fn operations(page: &mut MarkdownPage, study: &Study) {
    page.heading(2, "What an operation costs");
    page.paragraph("One client, one operation at a time. Headers hold acknowledgments too; kcycles are thousands.");
    let measured = |operation: &&str| study.systems().iter().any(|db| study.cell(db, operation, 1).is_some());
    for operation in super::study::OPERATIONS.into_iter().filter(measured) {
        page.heading(3, operation);
        page.figure(operation, &format!("Bytes, system calls and cycles of one {operation}, by system"));
        costs::costs(page, study, operation);
        costs::purposes(page, study, operation);
    }
}

fn settings(page: &mut MarkdownPage, study: &Study) {
    let runs = study.settings();
    if runs.is_empty() {
        return;
    }
    page.heading(2, "What a setting of the driver saves");
    page.paragraph(
        "Measured with the setting on, beside the default. B/op are on the wire, request/response, but for acknowledgments in frames \
         of their own, which are a matter of timing. CPU times are of one run each; a JVM's depend on what its compiler and its \
         collector do meanwhile.",
    );
    page.figure("settings", "Bytes, system calls and cycles with settings of the drivers, beside their defaults");
    load::settings(page, study);
    let unchanged: Vec<String> = runs
        .iter()
        .filter(|setting| {
            let rows = [setting.default.row(), setting.with.row()];
            matches!(rows, [Some(default), Some(with)] if (steady(with) - steady(default)).abs() < 0.5)
        })
        .map(|setting| format!("{}, `{}`, {}", title(&setting.with.load.db), setting.with.operation(), setting.label))
        .collect();
    if !unchanged.is_empty() {
        page.paragraph(&format!(
            "Without effect on the bytes: {}. A server that does not offer what the driver asks for, and a message that is too \
             small to be compressed, look like that.",
            unchanged.join("; ")
        ));
    }
}

fn rates(page: &mut MarkdownPage, study: &Study) {
    page.heading(2, "Rates and latencies");
    page.paragraph(
        "From the client's side, with counters and without a capture. Client and server share the machine, so a rate is one of both \
         together. `client busy` is the part of the time that the client's thread is on a CPU. `limit` is what is exhausted first as \
         the rate grows, by the CPU time that an operation takes: the client's thread, Redis' one thread, or all CPUs of the machine. \
         A single client waits for each answer and exhausts nothing. FerretDB's is too high, because PostgreSQL's part is not in it.",
    );
    page.figure("load", "Requests per second and latencies, by system and operation");
    load::rates(page, study);
    page.paragraph(&load::limited_by_client(study));
    page.heading(3, "Redis in pipelines");
    page.paragraph("One client that sends several operations before it waits: they share frames and system calls.");
    for operation in super::study::OPERATIONS {
        if study.pipeline("redis", operation).len() > 1 {
            page.figure(&format!("pipeline-{operation}"), &format!("Redis, {operation} in pipelines"));
        }
    }
    load::pipelines(page, study, "redis");
    sharded(page, study);
    page.heading(3, "Beside redis-benchmark and pgbench");
    page.paragraph(
        "The same operation at the same concurrency, in turns, three rounds each; the round with the median rate. A ratio of CPU \
         above 1 is what an async driver costs beside a tool that does nothing else.",
    );
    load::peers(page, study);
}

/// A Redis in several processes.
fn sharded(page: &mut MarkdownPage, study: &Study) {
    let cells: Vec<&StudyCell> = study.cells.iter().filter(|cell| cell.is_sharded()).collect();
    let Some(first) = cells.first() else { return };
    page.heading(3, "Redis in several processes");
    page.paragraph(&format!(
        "{} Redis processes, among which the client spreads the keys, with a connection to each. Payload per operation is that of one \
         process. What changes is how often a connection is used, and with it acknowledgments in frames of their own, and the work:",
        first.load.servers.len()
    ));
    let rows: Vec<Vec<String>> = cells
        .iter()
        .filter_map(|cell| {
            let row = cell.row()?;
            let one = study.cell(&cell.load.db, cell.operation(), cell.clients())?;
            let calls = |cell: &StudyCell, role| {
                costs::syscalls(cell, role).map_or_else(|| DASH.to_owned(), |calls| with_digits(calls, 2))
            };
            let both = |role| format!("{} and {}", calls(one, role), calls(cell, role));
            let mut cells = vec![cell.operation().to_owned(), cell.clients().to_string(), words::label(row)];
            cells.push(format!("{} and {}", bytes(total(one.row()?)), bytes(total(row))));
            cells.extend(RoleName::BOTH.map(both));
            cells.push(load::both_rates(study, cell));
            Some(cells)
        })
        .collect();
    let columns = [
        "operation",
        "clients",
        "as",
        "wire B/op, one and several",
        "server syscalls/op",
        "client syscalls/op",
        "requests/s",
    ];
    page.table(&columns, 3, &rows);
}

/// What is not answered, and how a reader goes on.
fn limits(page: &mut MarkdownPage, study: &Study) {
    page.heading(2, "What this cannot say, and how you find out");
    page.list(&[
        "ScyllaDB and `mongod` are not here: neither can be had from a package registry. FerretDB speaks MongoDB's protocol to \
         MongoDB's driver; its bytes are the protocol's, its system calls and cycles are FerretDB's."
            .to_owned(),
        "One machine, loopback: no network, no two hosts, and the receiver's network processing runs in the sender's system call. \
         Rates here rank the whole of driver, kernel and server on this machine, not databases."
            .to_owned(),
        "No replication, no durability to speak of (`fsync` off, commit log periodic), a working set in memory.".to_owned(),
        format!(
            "{} operations per captured combination are enough for bytes, which do not vary, and for means of counters, not for tails.",
            study.cells.iter().filter_map(StudyCell::row).map(|row| row.count).min().map_or_else(|| "No".to_owned(), grouped)
        ),
    ]);
    page.paragraph(
        "The same commands measure any server that you have, of these systems or of others that speak their protocols:",
    );
    page.code(
        "overhead bench scylla --server db.example:9042 --setup-only\n\
         sudo overhead capture -i eth0 --db scylla --fields -o runs/scylla -- \\\n    \
             overhead bench scylla --server db.example:9042 --no-setup --operation read --ops 2000 -o bench.json\n\
         overhead bench scylla --server db.example:9042 --cleanup-only\n\
         overhead compare runs/cassandra runs/scylla",
    );
    page.paragraph("`mongodb` instead of `scylla` does it for a `mongod`. `lab/comparison` has the commands of every combination above.");
}
