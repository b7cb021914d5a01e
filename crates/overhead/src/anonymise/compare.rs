//! Compares the figures of two records, apart from names.

use overhead_model::Run;
use serde_json::{Map, Value};

/// Members of a record that depend on the reading, or are text.
const ASIDE: [&str; 11] = [
    "tool",
    "environment",
    "counters",
    "observer",
    "warnings",
    "exit",
    "view",
    "peers",
    "projection",
    "latency_within",
    "fields",
];
/// Statements of a row in a record. If there are more, the texts decide which ones are kept.
const STATEMENTS: usize = 100;

/// Returns the figures that differ between the records of a copy and its original, one phrase each.
pub fn differences(original: &Run, copy: &Run) -> Vec<String> {
    let mut runs = [original, copy].map(|run| figures(serde_json::to_value(run).unwrap_or_default()));
    forget_new_names(&mut runs);
    let [original, copy] = runs;
    let mut found = Vec::new();
    compare("", &original, &copy, &mut found);
    found
}

/// Removes operation names that only one record has: the copy renames anything but a command of the protocol.
fn forget_new_names(runs: &mut [Value; 2]) {
    let names = |run: &mut Value| members(run, "operations").iter().map(|row| row["name"].clone()).collect::<Vec<_>>();
    let known = runs.each_mut().map(names);
    for run in runs {
        for row in members(run, "operations") {
            if !known.iter().all(|names| names.contains(&row["name"])) {
                forget(row, "name");
            }
        }
        sort(run, "operations");
    }
}

fn figures(mut run: Value) -> Value {
    without_aside(&mut run);
    if let Some(source) = run.get_mut("source").and_then(Value::as_object_mut) {
        for name in ["inputs", "selection", "kind", "kernel_drops"] {
            source.remove(name);
        }
    }
    for row in members(&mut run, "operations") {
        let statements = members(row, "statements");
        let is_cut = statements.len() >= STATEMENTS;
        for statement in statements {
            forget(statement, "text");
        }
        if is_cut {
            forget(row, "statements");
        }
        sort(row, "statements");
        if row.get("protocol").and_then(Value::as_str) == Some("http") {
            forget(row, "name");
        }
    }
    for connection in members(&mut run, "connections") {
        forget(connection, "client");
        forget(connection, "server");
        // Software names keep well-known words.
        forget(connection, "client_software");
        forget(connection, "server_software");
    }
    sort(&mut run, "connections");
    run
}

fn without_aside(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| !ASIDE.contains(&name.as_str()));
            members.values_mut().for_each(without_aside);
        }
        Value::Array(elements) => elements.iter_mut().for_each(without_aside),
        _ => {}
    }
}

fn members<'a>(value: &'a mut Value, name: &str) -> &'a mut [Value] {
    value.get_mut(name).and_then(Value::as_array_mut).map(Vec::as_mut_slice).unwrap_or_default()
}

fn forget(value: &mut Value, name: &str) {
    value.as_object_mut().and_then(|members| members.remove(name));
}

fn sort(value: &mut Value, name: &str) {
    members(value, name).sort_by_cached_key(Value::to_string);
}

fn compare(path: &str, original: &Value, copy: &Value, found: &mut Vec<String>) {
    match (original, copy) {
        (Value::Object(a), Value::Object(b)) => objects(path, a, b, found),
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (a, b) in a.iter().zip(b) {
                compare(&format!("{path}{}", title(a)), a, b, found);
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            let titles = |rows: &[Value]| rows.iter().map(title).collect::<Vec<_>>();
            let (a, b) = (titles(a), titles(b));
            let gone: Vec<&String> = a.iter().filter(|title| !b.contains(title)).collect();
            let new: Vec<&String> = b.iter().filter(|title| !a.contains(title)).collect();
            found.push(format!("{path}: {} became {} ({gone:?} {new:?})", a.len(), b.len()));
        }
        (a, b) if a == b => {}
        (a, b) => found.push(format!("{path}: {a} became {b}")),
    }
}

fn objects(path: &str, a: &Map<String, Value>, b: &Map<String, Value>, found: &mut Vec<String>) {
    let only_in_copy = b.keys().filter(|name| !a.contains_key(*name));
    for name in a.keys().chain(only_in_copy) {
        let (a, b) = (a.get(name).unwrap_or(&Value::Null), b.get(name).unwrap_or(&Value::Null));
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        compare(&path, a, b, found);
    }
}

fn title(row: &Value) -> String {
    let of = |name| row.get(name).and_then(Value::as_str).unwrap_or_default();
    let title = [of("class"), of("name"), of("via")].join(" ");
    if title.trim().is_empty() { String::new() } else { format!(" {}", title.trim()) }
}
