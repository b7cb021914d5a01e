//! What an operation costs on the wire, and why one system's costs more than another's.

use super::page::{MarkdownPage, bytes, signed_bytes};
use super::study::{OPERATIONS, Study, StudyCell, title};
use super::topics::{Topic, topics};
use super::words::reason;
use crate::compare::{AccountDifference, KindPair};
use crate::summary::{Families, RoleName, both_sides, per_operation, syscalls_per_operation, workload_count};
use crate::text::number::{DASH, significant, with_digits};
use overhead_model::record::OperationRow;
use overhead_model::{Account, Measured, Side};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes per operation below which a difference is not worth mentioning.
const VISIBLE: f64 = 0.5;
/// Those below which a topic shares a line with others.
const LARGE: f64 = 4.0;
/// The operation whose differences are told with their fields.
const DETAILED: &str = "read";
/// Fields named in a line.
const FIELDS: usize = 5;

/// What one operation costs, system by system.
pub(super) fn costs(page: &mut MarkdownPage, study: &Study, operation: &str) {
    let rows: Vec<Vec<String>> =
        study.systems().into_iter().filter_map(|db| cost(study.cell(db, operation, 1)?)).collect();
    let columns = [
        "system",
        "operation",
        "request B",
        "response B",
        "wire B/op",
        "headers",
        "protocol",
        "data",
        "server syscalls/op",
        "client syscalls/op",
        "server kcycles/op",
        "client kcycles/op",
    ];
    page.table(&columns, 2, &rows);
}

fn cost(cell: &StudyCell) -> Option<Vec<String>> {
    let row = cell.row()?;
    let mean = |total: u64| per_operation(total, row.count).map_or_else(|| DASH.to_owned(), bytes);
    let amounts = both_sides(row);
    let families = Families::of(&amounts);
    let mut cells = vec![title(&cell.load.db).to_owned(), super::words::label(row)];
    cells.extend([row.request.accounts.total(), row.response.accounts.total(), amounts.total()].map(mean));
    cells.extend([families.frame + families.waste, families.protocol + families.unknown, families.data].map(mean));
    cells.extend(
        RoleName::BOTH.map(|role| syscalls(cell, role).map_or_else(|| DASH.to_owned(), |calls| with_digits(calls, 2))),
    );
    cells.extend(RoleName::BOTH.map(|role| kilocycles(cell, role).map_or_else(|| DASH.to_owned(), significant)));
    Some(cells)
}

pub(super) fn syscalls(cell: &StudyCell, role: RoleName) -> Option<f64> {
    syscalls_per_operation(role.of(&cell.run).ok()?, workload_count(&cell.run))
}

/// Thousand cycles per operation, in whatever unit the machine has.
fn kilocycles(cell: &StudyCell, role: RoleName) -> Option<f64> {
    let Measured::Value(cycles) = &role.of(&cell.run).ok()?.cycles else { return None };
    per_operation(cycles.user + cycles.kernel, workload_count(&cell.run)).map(|cycles| cycles / 1e3)
}

/// What the payload of one operation is for, system by system.
pub(super) fn purposes(page: &mut MarkdownPage, study: &Study, operation: &str) {
    let systems = study.systems();
    let sums: Vec<_> = systems
        .iter()
        .map(|db| study.cell(db, operation, 1).and_then(StudyCell::row).and_then(topics).unwrap_or_default())
        .collect();
    let used: BTreeSet<(Side, Topic)> = sums.iter().flat_map(|sums| sums.keys().copied()).collect();
    let line = |key: (Side, Topic)| {
        let amounts = sums.iter().map(|sums| sums.get(&key).map_or_else(|| DASH.to_owned(), |amount| bytes(*amount)));
        [key.0.name().to_owned(), key.1.title().to_owned()].into_iter().chain(amounts).collect()
    };
    let columns: Vec<&str> = ["payload, B/op", "for"].into_iter().chain(systems.iter().map(|db| title(db))).collect();
    page.table(&columns, 2, &used.into_iter().map(line).collect::<Vec<Vec<String>>>());
}

/// Each pair of systems: what makes the difference, in words, with the fields that it lies in.
pub(super) fn pairs(page: &mut MarkdownPage, study: &Study) {
    let systems = study.systems();
    for (at, first) in systems.iter().enumerate() {
        for second in systems.iter().skip(at + 1) {
            page.heading(3, &format!("{} and {}", title(first), title(second)));
            for operation in OPERATIONS {
                let cells = [first, second].map(|db| study.cell(db, operation, 1));
                if let [Some(first), Some(second)] = cells {
                    pair(page, operation, [first, second]);
                }
            }
        }
    }
}

fn pair(page: &mut MarkdownPage, operation: &str, cells: [&StudyCell; 2]) {
    let [Some(first), Some(second)] = cells.map(StudyCell::row) else { return };
    let names = cells.map(|cell| title(&cell.load.db));
    let wire = [first, second].map(wire);
    page.paragraph(&format!(
        "`{operation}`: {} B/op on the wire with {}, {} with {}, a difference of {}.{}",
        bytes(wire[0]),
        names[0],
        bytes(wire[1]),
        names[1],
        signed_bytes(wire[1] - wire[0]),
        outside_payload([first, second]),
    ));
    page.paragraph(&format!("By account: {}.", by_account([first, second])));
    let Some(differences) = differences([first, second]) else {
        page.paragraph("The fields of these runs were not recorded.");
        return;
    };
    let full = |difference: &&Difference| operation == DETAILED && difference.by().abs() >= LARGE;
    let (large, small): (Vec<_>, Vec<_>) = differences.iter().partition(full);
    let mut items: Vec<String> = large.into_iter().map(|difference| item(difference, names, [first, second])).collect();
    let rest = if items.is_empty() { "By what they are for" } else { "And less" };
    if !small.is_empty() {
        items.push(format!("{rest}: {}.", small.into_iter().map(Difference::short).collect::<Vec<_>>().join("; ")));
    }
    page.list(&items);
}

/// `response schema +29, request framing −14`.
fn by_account(rows: [&OperationRow; 2]) -> String {
    let pair = KindPair::of(rows);
    let cause = |cause: &AccountDifference| {
        format!("{} {} {}", cause.side.name(), cause.account, signed_bytes(cause.difference))
    };
    let causes: Vec<String> = pair.causes().map(cause).collect();
    if causes.is_empty() { "no difference".to_owned() } else { causes.join(", ") }
}

fn wire(row: &OperationRow) -> f64 {
    per_operation(both_sides(row).total(), row.samples()).unwrap_or(0.0)
}

/// Returns what frames without payload add, where that is not the same.
fn outside_payload(rows: [&OperationRow; 2]) -> String {
    let headers = rows.map(|row| {
        let amounts = both_sides(row);
        let all: u64 = amounts.iter().filter(|(account, _)| !account.is_payload()).map(|(_, bytes)| bytes).sum();
        per_operation(all, row.samples()).unwrap_or(0.0)
    });
    let difference = headers[1] - headers[0];
    if difference.abs() < VISIBLE {
        return format!(" Headers are {} B/op in both; the rest lies in the payload:", bytes(headers[0]));
    }
    let control = rows.map(|row| per_operation(both_sides(row)[Account::Control], row.samples()).unwrap_or(0.0));
    format!(
        " {} of it are headers, of which acknowledgments in frames of their own {} and {}; the rest lies in the payload:",
        signed_bytes(difference),
        bytes(control[0]),
        bytes(control[1])
    )
}

/// A topic in which two rows differ.
struct Difference {
    side: Side,
    topic: Topic,
    bytes: [f64; 2],
}

impl Difference {
    fn by(&self) -> f64 {
        self.bytes[1] - self.bytes[0]
    }

    fn short(&self) -> String {
        format!("{}, {} {}", self.side.name(), self.topic.title(), signed_bytes(self.by()))
    }
}

/// Topics that differ, the largest difference first.
fn differences(rows: [&OperationRow; 2]) -> Option<Vec<Difference>> {
    let [first, second] = [topics(rows[0])?, topics(rows[1])?];
    let mut all: BTreeMap<(Side, Topic), [f64; 2]> = BTreeMap::new();
    for (at, sums) in [first, second].into_iter().enumerate() {
        for (key, bytes) in sums {
            all.entry(key).or_default()[at] = bytes;
        }
    }
    let difference = |((side, topic), bytes)| Difference { side, topic, bytes };
    let mut differences: Vec<Difference> = all.into_iter().map(difference).collect();
    differences.retain(|difference| difference.by().abs() >= VISIBLE);
    differences.sort_by(|a, b| b.by().abs().total_cmp(&a.by().abs()));
    Some(differences)
}

/// Returns what sets two rows of one protocol apart: topics, and the fields of one that they have; empty where nothing does.
pub(super) fn changes(rows: [&OperationRow; 2]) -> Option<String> {
    let change = |difference: &Difference| {
        let row = rows[usize::from(difference.by() > 0.0)];
        format!("{} ({})", difference.short(), fields(row, difference.side, difference.topic))
    };
    Some(differences(rows)?.iter().map(change).collect::<Vec<_>>().join("; "))
}

/// `response, names and types of columns: 0 B and 33 B. Cassandra: the server … (column name 15, …)`.
fn item(difference: &Difference, names: [&str; 2], rows: [&OperationRow; 2]) -> String {
    let Difference { side, topic, bytes: amounts } = difference;
    let mut text = format!(
        "{}, {}: **{}**, {} and {} B.",
        side.name(),
        topic.title(),
        signed_bytes(difference.by()),
        bytes(amounts[0]),
        bytes(amounts[1])
    );
    for ((name, row), amount) in names.iter().zip(rows).zip(amounts) {
        if *amount >= VISIBLE {
            let why = reason(&row.protocol, *topic, *side).map_or_else(String::new, |why| format!("{why}: "));
            text.extend([" ", name, ": ", &why, &fields(row, *side, *topic), "."]);
        }
    }
    text
}

/// `column name 15, type id 8`: the fields of a topic, largest first.
pub(super) fn fields(row: &OperationRow, side: Side, topic: Topic) -> String {
    let fields = row.fields.iter().flatten();
    let mut fields: Vec<(&str, f64)> = fields
        .filter(|field| field.side == side && Topic::of(&row.protocol, field) == topic)
        .map(|field| (field.field.as_str(), field.bytes as f64 / row.samples().max(1) as f64))
        .filter(|field| field.1 >= 0.05)
        .collect();
    fields.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    let more = fields.len().saturating_sub(FIELDS);
    let mut named: Vec<String> =
        fields.iter().take(FIELDS).map(|(name, bytes_of)| format!("`{name}` {}", bytes(*bytes_of))).collect();
    if more > 0 {
        let rest: f64 = fields.iter().skip(FIELDS).map(|field| field.1).sum();
        named.push(format!("{more} more with {}", bytes(rest)));
    }
    named.join(", ")
}

/// Bytes per operation of one topic.
pub(super) fn amount(row: &OperationRow, side: Side, topic: Topic) -> f64 {
    topics(row).and_then(|sums| sums.get(&(side, topic)).copied()).unwrap_or(0.0)
}
