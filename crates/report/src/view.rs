//! Row views: grouped, sorted, limited and priced.

use crate::summary::{per_operation, window_ns};
use crate::sums::is_one_statement;
use overhead_model::record::{
    BillingPeriod, By, Cost, Distribution, OperationRow, Price, RowTotals, SideRow, SideSums, SortKey, StatementRow,
    View, ViewRow,
};
use overhead_model::{Class, OTHER, Run};
use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Units of [`price`] and their bytes.
const UNITS: [(&str, f64); 8] = [
    ("B", 1.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
];

/// How to group, sort, limit and price the rows of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ViewOptions {
    /// What a row stands for.
    pub by: By,
    /// Order of the rows within their class.
    pub sort: SortKey,
    /// Maximum number of rows; `None` for all.
    pub top: Option<u64>,
    /// Price of a byte.
    pub price: Option<Price>,
    /// For people: statements have numbers, and each class except the workload is one row.
    pub is_compact: bool,
    /// Keeps compact rows apart by the way they were sent.
    pub by_way: bool,
}

/// Parses a price such as `0.02/GB`: an amount in any currency per number of bytes (GB is 10^9, GiB 2^30).
///
/// # Errors
///
/// Returns the expected form if `text` is not a price.
pub fn price(text: &str) -> Result<Price, String> {
    let read = || {
        let (amount, unit) = text.split_once('/')?;
        let amount: f64 = amount.trim().parse().ok().filter(|amount: &f64| amount.is_finite() && *amount >= 0.0)?;
        let (_, bytes) = UNITS.into_iter().find(|(name, _)| *name == unit.trim())?;
        Some(Price { text: text.to_owned(), per_byte: amount / bytes, per: BillingPeriod::Day })
    };
    read().ok_or_else(|| format!("{text} is not a price: write an amount and a unit, such as 0.02/GB or 0.02/GiB"))
}

/// Returns the rows of a run with these options.
pub fn view(run: &Run, options: &ViewOptions) -> View {
    let ViewOptions { by, sort, top, ref price, is_compact, by_way } = *options;
    let mut rows = rows_by(run, by);
    if is_compact {
        rows = compact(rows, by_way);
        number(&mut rows, &numbered(run));
    }
    // Stable sort: equal rows keep the order of the record.
    rows.sort_by(|a, b| class_of(a).cmp(&class_of(b)).then_with(|| order(a, b, sort)));
    if let Some(top) = top {
        let workload = rows.partition_point(|row| row.class == Some(Class::Workload));
        let beside = rows.split_off(if is_compact { workload } else { rows.len() });
        cut(&mut rows, usize::try_from(top).unwrap_or(usize::MAX));
        rows.extend(beside);
    }
    if let Some(price) = price {
        let window_ns = window_ns(run);
        for row in &mut rows {
            row.cost = Some(cost(row, price, window_ns));
        }
    }
    View { by, sort, top, price: price.clone(), rows }
}

/// Returns the statements of a run's workload, however sent, the largest first. Number 1 is the first.
pub fn numbered(run: &Run) -> Vec<ViewRow> {
    let mut rows = compact(rows_by(run, By::Statement), false);
    rows.retain(|row| row.class == Some(Class::Workload));
    rows.sort_by_key(|row| Reverse(row.whole_bytes()));
    rows
}

fn number(rows: &mut [ViewRow], numbered: &[ViewRow]) {
    let key = |row: &ViewRow| (row.protocol.clone(), row.name.clone(), row.statement.clone());
    let numbers: HashMap<_, u64> = numbered.iter().map(key).zip(1..).collect();
    for row in rows.iter_mut().filter(|row| row.class == Some(Class::Workload)) {
        row.number = numbers.get(&key(row)).copied();
    }
}

/// Merges the ways of sending, unless `by_way`, and the rows of each class except the workload.
fn compact(rows: Vec<ViewRow>, by_way: bool) -> Vec<ViewRow> {
    let mut merged: Vec<ViewRow> = Vec::new();
    let mut places: HashMap<_, usize> = HashMap::new();
    for mut row in rows {
        if row.class != Some(Class::Workload) {
            let name = row.class.map_or("", |class| class.name()).to_owned();
            row = ViewRow { protocol: String::new(), name, via: String::new(), statement: None, ..row };
        }
        let way = by_way.then(|| row.via.clone());
        match places.entry((row.class, row.protocol.clone(), row.name.clone(), row.statement.clone(), way)) {
            Entry::Occupied(at) => merged[*at.get()].merge(&ViewRow { rows: 0, ..row }),
            Entry::Vacant(free) => {
                free.insert(merged.len());
                merged.push(row);
            }
        }
    }
    merged
}

/// Returns the rows of a run in the default order: the workload first, then by bytes.
pub(crate) fn ranked_rows(run: &Run) -> Vec<ViewRow> {
    view(run, &ViewOptions::default()).rows
}

fn rows_by(run: &Run, by: By) -> Vec<ViewRow> {
    match by {
        By::Name => run.operations.iter().map(ViewRow::from).collect(),
        By::Statement => run.operations.iter().flat_map(statement_rows).collect(),
        By::Connection | By::Client | By::Server => {
            run.peers.iter().filter(|peers| peers.by == by).flat_map(|peers| &peers.rows).map(ViewRow::from).collect()
        }
    }
}

/// Returns a row for each statement, or the row if it has none.
fn statement_rows(row: &OperationRow) -> Vec<ViewRow> {
    match row.statements.as_slice() {
        [] => vec![row.into()],
        statements => statements.iter().map(|statement| ViewRow::from_statement(row, statement)).collect(),
    }
}

/// Splits the run's workload rows that have several statements into rows of the largest `most` statements (more if sizes are
/// equal) and a remainder per row. Keeps a row whole if these statements make up less than half of it. Sizes of single
/// operations are unknown per statement.
pub(crate) fn with_statements(run: &Run, most: usize) -> Run {
    let told_apart = run.operations.iter().filter(|row| is_told_apart(row)).flat_map(|row| &row.statements);
    let mut sizes: Vec<u64> = told_apart.filter(|statement| is_shown(statement, 0)).map(bytes_of).collect();
    sizes.sort_unstable_by_key(|bytes| Reverse(*bytes));
    let least = sizes.get(most.saturating_sub(1)).copied().unwrap_or(0);
    let are_most = |row: &OperationRow| {
        let shown = row.statements.iter().filter(|statement| is_shown(statement, least));
        2 * shown.map(bytes_of).sum::<u64>() >= row.statements.iter().map(bytes_of).sum::<u64>()
    };
    let rows = |row: &OperationRow| {
        if is_told_apart(row) && are_most(row) { statements_of(row, least) } else { vec![row.clone()] }
    };
    Run { operations: run.operations.iter().flat_map(rows).collect(), ..run.clone() }
}

/// Returns whether a workload operation has several statements.
pub(crate) fn is_told_apart(row: &OperationRow) -> bool {
    row.class == Class::Workload && row.statements.len() > 1
}

/// Returns whether this is a single statement of at least this size.
fn is_shown(statement: &StatementRow, least: u64) -> bool {
    is_one_statement(&statement.text) && bytes_of(statement) >= least
}

fn bytes_of(statement: &StatementRow) -> u64 {
    statement.request.wire_bytes + statement.response.wire_bytes
}

/// Returns a row for each statement of at least this size, and one for the others.
fn statements_of(row: &OperationRow, least: u64) -> Vec<OperationRow> {
    let (shown, others): (Vec<_>, Vec<_>) = row.statements.iter().partition(|statement| is_shown(statement, least));
    let rest = others.into_iter().map(|statement| statement.totals.clone()).reduce(|mut sum, other| {
        sum.add(&other);
        sum
    });
    let shown = shown.into_iter().map(|statement| (statement.text.clone(), statement.totals.clone()));
    let rest = rest.map(|rest| (format!("{} {OTHER}", row.name), rest));
    shown.chain(rest).map(|(name, totals)| part_of(row, name, totals)).collect()
}

/// Returns a row under this name with the sums of a part of the operations.
fn part_of(row: &OperationRow, name: String, part: RowTotals) -> OperationRow {
    let samples = part.samples();
    let side = |sums: SideSums| {
        let of = |total: u64| Distribution {
            total,
            mean: per_operation(total, samples).unwrap_or(0.0),
            ..Distribution::default()
        };
        SideRow {
            frames: sums.frames,
            wire_bytes: of(sums.wire_bytes),
            payload_bytes: of(sums.payload_bytes),
            accounts: sums.accounts,
            unseen: sums.unseen,
        }
    };
    let RowTotals { count, unsolicited, errors, unanswered, no_reply, round_trips, request, response, latency_ns } =
        part;
    OperationRow {
        name,
        count,
        unsolicited,
        errors,
        unanswered,
        no_reply,
        round_trips,
        request: side(request),
        response: side(response),
        latency_ns,
        statements: Vec::new(),
        fields: None,
        kernel: None,
        ..row.clone()
    }
}

/// Returns the sort key for a row's class.
fn class_of(row: &ViewRow) -> (bool, Option<Class>) {
    (row.class.is_none(), row.class)
}

/// Orders rows by descending value.
fn order(a: &ViewRow, b: &ViewRow, sort: SortKey) -> Ordering {
    let by_bytes = || b.whole_bytes().cmp(&a.whole_bytes());
    match sort {
        SortKey::Bytes => by_bytes(),
        SortKey::Count => b.samples().cmp(&a.samples()).then_with(by_bytes),
        SortKey::Latency => median(b).cmp(&median(a)).then_with(by_bytes),
        SortKey::BytesPerOperation => {
            let mean = |row: &ViewRow| per_operation(row.amounts().total(), row.samples()).unwrap_or(0.0);
            mean(b).total_cmp(&mean(a)).then_with(by_bytes)
        }
    }
}

fn median(row: &ViewRow) -> Option<u64> {
    row.latency_ns.value().filter(|latency| latency.count > 0).map(|latency| latency.p50)
}

/// Sums the rows beyond `top` in one additional row.
fn cut(rows: &mut Vec<ViewRow>, top: usize) {
    let mut beyond = rows.split_off(top.min(rows.len())).into_iter();
    let Some(mut other) = beyond.next() else { return };
    for row in beyond {
        other.merge(&row);
    }
    if other.rows > 1 {
        OTHER.clone_into(&mut other.name);
        (other.number, other.statement, other.client, other.server) = (None, None, None, None);
    }
    rows.push(other);
}

/// Returns the cost of a row's bytes for a window of this length.
fn cost(row: &ViewRow, price: &Price, window_ns: u64) -> Cost {
    let bytes = row.amounts().total();
    Cost {
        per_million_operations: per_operation(bytes, row.samples()).map(|bytes| bytes * 1e6 * price.per_byte),
        per_day: price.cost_per_day(bytes as f64, window_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn sums(rows: &[ViewRow]) -> (u64, u64, u64) {
        let bytes = |row: &ViewRow| row.amounts().total();
        let add = |sum: (u64, u64, u64), row: &ViewRow| (sum.0 + row.count, sum.1 + bytes(row), sum.2 + row.rows);
        rows.iter().fold((0, 0, 0), add)
    }

    #[test]
    fn prices_are_for_powers_of_ten_and_of_two() {
        let is_about = |text: &str, wanted: f64| (price(text).unwrap().per_byte / wanted - 1.0).abs() < 1e-12;
        assert!(is_about("0.02/GB", 2e-11) && is_about("2 / GiB", 2.0 / 1_073_741_824.0));
        for wrong in ["0.02", "0.02/Gb", "x/GB", "-1/GB", "inf/GB", "NaN/GB", "/GB"] {
            assert!(price(wrong).unwrap_err().contains("such as 0.02/GB"), "{wrong}");
        }
    }

    #[test]
    fn what_is_cut_is_one_row_and_sums_stay() {
        let run = fixture::redis();
        let all = view(&run, &ViewOptions::default()).rows;
        assert!(all.len() > 1);
        for top in 0..=all.len() + 1 {
            let rows = view(&run, &ViewOptions { top: Some(top as u64), ..ViewOptions::default() }).rows;
            assert_eq!(rows.len(), all.len().min(top + 1));
            assert_eq!(sums(&rows), sums(&all));
            assert_eq!(rows[..top.min(all.len())], all[..top.min(all.len())]);
        }
        let none = view(&run, &ViewOptions { top: Some(0), ..ViewOptions::default() }).rows.remove(0);
        assert_eq!((none.name.as_str(), none.class, none.rows), (OTHER, None, all.len() as u64));
        assert!(none.latency_ns.value().is_none());
    }

    #[test]
    fn rows_are_sorted_within_their_class() {
        let run = fixture::redis();
        for sort in [SortKey::Bytes, SortKey::Count, SortKey::Latency, SortKey::BytesPerOperation] {
            let rows = view(&run, &ViewOptions { sort, ..ViewOptions::default() }).rows;
            for pair in rows.windows(2) {
                assert!(class_of(&pair[0]) <= class_of(&pair[1]));
                assert!(
                    pair[0].class != pair[1].class || order(&pair[0], &pair[1], sort) != Ordering::Greater,
                    "{sort:?}"
                );
            }
        }
    }

    #[test]
    fn the_largest_statements_stand_for_their_row_and_the_others_share_one() {
        let mut run = fixture::redis();
        let at = run.operations.iter().position(|row| row.class == Class::Workload).unwrap();
        let row = run.operations[at].clone();
        let statement = |text: &str, count: u64, bytes: u64| {
            let side = |bytes| {
                let accounts = overhead_model::Amounts::new(overhead_model::Account::Data, bytes);
                SideSums::new(count, accounts)
            };
            let totals = RowTotals { count, request: side(bytes), response: side(1), ..RowTotals::default() };
            StatementRow { text: text.to_owned(), totals, ..StatementRow::default() }
        };
        let statements = vec![
            statement("GET a:#", 5, 100),
            statement("GET b:#", 7, 50),
            statement("GET c:#", 1, 10),
            statement("(other)", 2, 70),
        ];
        run.operations[at].statements = statements;
        let shown = with_statements(&run, 2).operations;
        let names: Vec<&str> =
            shown.iter().filter(|of| of.via == row.via && of.count < 100).map(|row| &*row.name).collect();
        let other = format!("{} (other)", row.name);
        assert!(["GET a:#", "GET b:#", &other].iter().all(|name| names.contains(name)) && !names.contains(&"GET c:#"));
        let rest = shown.iter().find(|row| row.name == other).unwrap();
        assert_eq!((rest.count, rest.request.wire_bytes.total, rest.latency_ns.or_empty().count), (3, 80, 0));
        // A row stays whole if its remainder is most of it.
        run.operations[at].statements[3] = statement("(other)", 2, 170);
        assert_eq!(with_statements(&run, 2).operations, run.operations);
        // A single statement equals its row.
        run.operations[at].statements.truncate(1);
        assert_eq!(with_statements(&run, 2).operations, run.operations);
    }

    #[test]
    fn a_price_is_of_operations_and_of_days() {
        let mut run = fixture::redis();
        (run.source.first_ns, run.source.last_ns) = (0, 86_400_000_000_000);
        let options = ViewOptions { price: Some(price("2/GB").unwrap()), ..ViewOptions::default() };
        let row = view(&run, &options).rows.remove(0);
        let (bytes, cost) = (row.amounts().total() as f64, row.cost.unwrap());
        assert!((cost.per_day.unwrap() - bytes * 2e-9).abs() < 1e-12);
        assert!((cost.per_million_operations.unwrap() - bytes / row.samples() as f64 * 2e-3).abs() < 1e-9);
        run.source.last_ns = 0;
        assert_eq!(view(&run, &options).rows[0].cost.unwrap().per_day, None);
    }
}
