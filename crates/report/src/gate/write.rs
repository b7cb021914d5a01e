//! Derives a budget from runs.

use super::BudgetMetric;
use super::budget::VERSION;
use super::check::RunSums;
use crate::compare::is_same_statement;
use crate::run::NamedRun;
use crate::summary::RoleName;
use crate::sums::OperationSum;
use overhead_model::outside::is_harmful;
use overhead_model::record::{By, OperationRow};
use overhead_model::{Account, Class, Side};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Tolerance for headers of frames with payload: TCP segmentation depends on timing.
const HEADERS: &str = "\"5%\"";
/// Tolerance for frames: separate acknowledgments depend on timing and are common on a busy machine.
const FRAMES: &str = "\"100%\"";
/// Tolerance for system calls: the number of wake-ups depends on machine load.
const CALLS: &str = "\"10%\"";
/// Tolerance for all bytes together: the number of operations that share the cost of connecting varies.
const WHOLE: &str = "\"1%\"";

/// Returns a budget as TOML that covers these runs: the largest of each metric, with its accounts and fields. Omits negligible
/// operations.
pub fn budget_of(runs: &[NamedRun], by: By) -> String {
    let sums: Vec<RunSums<'_>> = runs.iter().map(RunSums::new).collect();
    let mut out = header(runs);
    out.push_str(&run_limits(&sums));
    for operation in operations(&sums, by) {
        out.push_str(&operation_limits(&operation, &sums));
    }
    out
}

fn header(runs: &[NamedRun]) -> String {
    let names: Vec<&str> = runs.iter().map(|named| named.name.as_str()).collect();
    let names = crate::clean::clean(&names.join(", "));
    format!(
        "# What operations may cost, for `overhead check`. Made from {names}.\n\
         # Numbers are per operation. A tolerance is a number, or a percentage of the budget.\n\
         version = {VERSION}\n\
         # Workload operations that are not named here: \"fail\", \"warn\" or \"ignore\".\n\
         unlisted = \"fail\"\n"
    )
}

/// Writes limits for all operations, setup included, and for system calls if all runs counted them.
fn run_limits(sums: &[RunSums<'_>]) -> String {
    let bytes = Side::BOTH.map(|side| (BudgetMetric::Payload(side), WHOLE));
    let calls = RoleName::ALL.map(|process| (BudgetMetric::Syscalls(process), CALLS));
    let mut out = String::from("\n# All operations together, setting up included, per workload operation.\n[run]\n");
    for (metric, tolerance) in bytes.into_iter().chain(calls) {
        let values: Option<Vec<f64>> = sums.iter().map(|sums| sums.run_value(metric).ok()).collect();
        if let Some(most) = values.and_then(|values| largest(&values)) {
            limit(&mut out, metric, most, tolerance);
        }
    }
    out.push_str(&all_made_of(sums));
    out
}

/// Writes the mean composition of all operations.
fn all_made_of(sums: &[RunSums<'_>]) -> String {
    let (mut accounts, mut operations) = (BTreeMap::new(), BTreeMap::new());
    for side in Side::BOTH {
        for (whole, parts) in sums.iter().filter_map(|sums| sums.made_of(side)) {
            for account in Account::ALL {
                *accounts.entry(BudgetMetric::Account(side, account)).or_insert(0.0) += whole.bytes(side, account);
            }
            for (name, bytes) in parts {
                *operations.entry(format!("{} {name}", BudgetMetric::Payload(side))).or_insert(0.0) += bytes;
            }
        }
    }
    let mut out = String::new();
    let mut table = |title: &str, rows: &mut dyn Iterator<Item = (String, f64)>| {
        let _ = writeln!(out, "\n[made_of.{title}]");
        let rows = rows.map(|(name, bytes)| (name, bytes / sums.len().max(1) as f64));
        for (name, bytes) in rows.filter(|(_, bytes)| *bytes >= 0.005) {
            let _ = writeln!(out, "{} = {}", key(&name), number(bytes));
        }
    };
    table("accounts", &mut accounts.into_iter().map(|(metric, bytes)| (metric.to_string(), bytes)));
    table("operations", &mut operations.into_iter());
    out
}

/// Groups operations of all runs, with each run's part.
fn operations(sums: &[RunSums<'_>], by: By) -> Vec<Vec<OperationSum>> {
    let mut found: Vec<Vec<OperationSum>> = Vec::new();
    for run in sums {
        for sum in run.worth_a_word(by) {
            let is_same = |others: &&mut Vec<OperationSum>| others.first().is_some_and(|other| is_same(other, &sum));
            match found.iter_mut().find(is_same) {
                Some(others) => others.push(sum),
                None => found.push(vec![sum]),
            }
        }
    }
    found
}

fn is_same(a: &OperationSum, b: &OperationSum) -> bool {
    (&a.key.protocol, &a.key.name) == (&b.key.protocol, &b.key.name)
        && is_same_statement(a.key.statement.as_deref(), b.key.statement.as_deref())
}

fn operation_limits(runs: &[OperationSum], sums: &[RunSums<'_>]) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let mut out =
        format!("\n[[operation]]\nprotocol = {}\nname = {}\n", text(&first.key.protocol), text(&first.key.name));
    if let Some(statement) = &first.key.statement {
        let _ = writeln!(out, "statement = {}", text(statement));
    }
    let count: u64 = runs.iter().map(|sum| sum.count).sum();
    let _ = writeln!(out, "count = {count}\n\n[operation.budget]");
    let of_side = |side| {
        [
            (BudgetMetric::Payload(side), "0"),
            (BudgetMetric::Headers(side), HEADERS),
            (BudgetMetric::Frames(side), FRAMES),
        ]
    };
    for (metric, tolerance) in Side::BOTH.into_iter().flat_map(of_side) {
        let values: Vec<f64> = runs.iter().filter_map(|sum| metric.value(sum)).collect();
        if let Some(most) = largest(&values) {
            let least = values.iter().copied().fold(most, f64::min);
            let grows = tolerance == "0" && (most - least >= 0.05 || sums.iter().any(|run| varies(run, first, metric)));
            let spread = ((most - least) / most * 100.0).ceil().max(1.0);
            let tolerance = if grows { format!("\"{spread}%\"") } else { tolerance.to_owned() };
            limit(&mut out, metric, most, &tolerance);
        }
    }
    out.push_str(&made_of(runs));
    out
}

/// Returns whether operations of one statement, or of one name, differ in the metric: it grows with the data.
fn varies(run: &RunSums<'_>, sum: &OperationSum, metric: BudgetMetric) -> bool {
    let is_row = |row: &&OperationRow| {
        let is_whole = sum.key.statement.is_none() || row.statements.len() == 1;
        is_whole && row.class == Class::Workload && (&row.protocol, &row.name) == (&sum.key.protocol, &sum.key.name)
    };
    run.named.run.operations.iter().filter(is_row).any(|row| {
        let bytes = match metric {
            BudgetMetric::Payload(Side::Request) => &row.request.payload_bytes,
            BudgetMetric::Payload(Side::Response) => &row.response.payload_bytes,
            _ => return false,
        };
        bytes.min < bytes.max
    })
}

fn made_of(runs: &[OperationSum]) -> String {
    let Some((first, others)) = runs.split_first() else { return String::new() };
    let mut all = first.clone();
    for sum in others {
        all.add_run(sum.clone());
    }
    let mut out = String::from("\n[operation.accounts]\n");
    for (side, account) in Side::BOTH.into_iter().flat_map(|side| Account::ALL.map(|account| (side, account))) {
        let bytes = all.bytes(side, account);
        if bytes > 0.0 {
            let _ = writeln!(out, "{} = {}", text(&BudgetMetric::Account(side, account).to_string()), number(bytes));
        }
    }
    if let Some(fields) = &all.fields {
        out.push_str("\n[operation.fields]\n");
        let name = |side, account, field: &str| format!("{} {field}", BudgetMetric::Account(side, account));
        let mut sorted: BTreeMap<String, f64> = BTreeMap::new();
        for field in fields.iter().filter(|field| field.bytes > 0) {
            *sorted.entry(name(field.side, field.account, &field.field)).or_default() += all.per_operation(field.bytes);
        }
        for (name, bytes) in sorted {
            let _ = writeln!(out, "{} = {}", text(&name), number(bytes));
        }
    }
    out
}

fn limit(out: &mut String, metric: BudgetMetric, most: f64, tolerance: &str) {
    let name = text(&metric.to_string());
    // Rounded up, so that the run it was made from stays within.
    let step = if metric.side().is_some() && !matches!(metric, BudgetMetric::Frames(_)) { 10.0 } else { 100.0 };
    let budget = (most * step - 1e-6).ceil() / step;
    let _ = writeln!(out, "{name} = {{ budget = {budget}, tolerance = {tolerance} }}");
}

fn largest(values: &[f64]) -> Option<f64> {
    values.iter().copied().max_by(f64::total_cmp)
}

/// Formats bytes with at most two decimal digits.
fn number(bytes: f64) -> String {
    format!("{}", (bytes * 100.0).round() / 100.0)
}

/// Formats a TOML key: a single-line string without harmful characters.
fn key(value: &str) -> String {
    let mut out = String::from("\"");
    for character in value.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            _ if is_harmful(character) => out.extend([format!("\\U{:08X}", u32::from(character))]),
            _ => out.push(character),
        }
    }
    out + "\""
}

fn text(value: &str) -> String {
    if value.contains(is_harmful) { key(value) } else { toml::Value::String(value.to_owned()).to_string() }
}
