//! Summarises the measurement and its result in three sentences.

use crate::bounds::LowerBounds;
use crate::clean::{capitalised, shortened};
use crate::number::{bytes_label, counted, duration, grouped, percent, with_digits};
use crate::run::NamedRun;
use crate::summary::{
    CpuUnit, RoleName, RunMix, both_sides, counters_only, is_one_mix, listed, noteworthy, operation_mix, per_operation,
    syscalls_per_operation, systems, whole_run_counters, window_ns, workload, workload_count,
};
use crate::sums::{kind, label};
use overhead_model::record::{OperationRow, SourceKind};
use overhead_model::{Account, Class, Run};
use std::collections::BTreeSet;

/// Characters of an operation's name or statement.
const NAME_CHARS: usize = 80;

/// Factor below which times of single runs do not count as different: repeated runs vary as much.
const CLOSE: f64 = 1.25;

/// Returns the sentences at the top of a page of these runs.
pub fn sentences(runs: &[NamedRun]) -> Vec<String> {
    match runs {
        [one] => {
            let said = [Some(subject(one)), largest(&one.run), whole(&one.run), work(&one.run)];
            said.into_iter().flatten().collect()
        }
        several => {
            let mixes: Vec<RunMix> = several.iter().map(|named| operation_mix(&named.run)).collect();
            let compared = [range(several, &mixes), work_range(several, &mixes)];
            std::iter::once(subjects(several)).chain(compared.into_iter().flatten()).collect()
        }
    }
}

fn subject(named: &NamedRun) -> String {
    let run = &named.run;
    let name = named.name.clone();
    if counters_only(run) {
        return format!("{name} is counters without packets over {}.", duration(window_ns(run)));
    }
    let servers = listed(&systems([run]));
    let of = if servers.is_empty() { String::new() } else { format!(" to {servers}") };
    let place = match (&run.source.kind, run.environment.as_ref().and_then(|machine| machine.interface.as_ref())) {
        (SourceKind::File, _) => "read from a file".to_owned(),
        (SourceKind::Live, Some(interface)) => format!("captured live on {}", interface.name),
        (SourceKind::Live, None) => "captured live".to_owned(),
    };
    format!(
        "{name} is {} over {}{of}, {place}: {} and {} B on the wire in {}.",
        counted(workload_count(run), "operation"),
        counted(run.tcp.connections, "connection"),
        counted(run.source.frames, "frame"),
        grouped(run.source.wire_bytes),
        duration(window_ns(run)),
    )
}

/// Formats bytes such as `234 B`, and marks a lower bound.
fn bytes(bytes: u64, count: u64, bounds: LowerBounds) -> Option<String> {
    per_operation(bytes, count).map(|mean| bounds.wire(format!("{} B", bytes_label(mean))))
}

fn largest(run: &Run) -> Option<String> {
    let bounds = LowerBounds::new(run);
    let rows = workload(run);
    let first = rows.first()?;
    let amounts = both_sides(first);
    let all: u64 = rows.iter().map(|row| both_sides(row).total()).sum();
    let share = if rows.len() > 1 {
        format!(", {} of the bytes of the workload", percent(amounts.total(), all))
    } else {
        String::new()
    };
    Some(format!(
        "{} takes {} on the wire each time{share}; {} of that is the user's own data, the rest is what carries it.",
        label(&first.name, &first.via),
        bytes(amounts.total(), first.samples(), bounds)?,
        percent(amounts[Account::Data], amounts.total()),
    ))
}

/// Returns the whole cost of an operation, if its own bytes are visibly less.
fn whole(run: &Run) -> Option<String> {
    let bytes = *run.whole.wire_bytes_per_operation.value().filter(|_| run.whole.has_notable_overhead())?;
    let setup = run.whole.class(Class::Setup).wire_bytes + run.whole.class(Class::Background).wire_bytes;
    Some(format!(
        "Setup and background are {} of the wire: with them, an operation costs {}{}.",
        percent(setup, run.whole.wire_bytes),
        LowerBounds::new(run).wire(format!("{} B", bytes_label(bytes))),
        waits(run).map_or_else(String::new, |waits| format!(" and {waits}")),
    ))
}

/// Returns text such as `1.25 round trips`, per operation and with setup.
fn waits(run: &Run) -> Option<String> {
    Some(format!("{} round trips", with_digits(*run.whole.round_trips_per_operation.value()?, 2)))
}

fn work(run: &Run) -> Option<String> {
    let is_mixed = operation_mix(run).len() > 1;
    // With several operations, a mean describes none of them.
    let count = if is_mixed { 1 } else { workload_count(run) };
    let digits = if is_mixed { 0 } else { 2 };
    let of_role = |role: RoleName| {
        let counters = whole_run_counters(run, role).ok()?;
        let calls = with_digits(syscalls_per_operation(counters, count)?, digits);
        let cpu =
            CpuUnit::OnCpuNs.amounts(counters).ok().and_then(|[user, kernel]| per_operation(user + kernel, count));
        let cpu = cpu.map(|ns| format!(" and {} of CPU time", duration(ns.round() as u64))).unwrap_or_default();
        Some(format!("the {} {calls} system calls{cpu}", role.name()))
    };
    let roles: Vec<String> = RoleName::ALL.into_iter().filter_map(of_role).collect();
    let what = if is_mixed { "all operations together cost" } else { "an operation costs" };
    let work = match run.counters.reason() {
        Some(reason) => Some(format!("system calls and CPU time were not measured ({reason})")),
        None => (!roles.is_empty()).then(|| format!("{what} {}", roles.join(", "))),
    };
    let said: Vec<String> = latency(run).into_iter().chain(work).collect();
    (!said.is_empty()).then(|| capitalised(&format!("{}.", said.join("; "))))
}

/// Returns the latency of a run's largest operation.
fn latency(run: &Run) -> Option<String> {
    let row = workload(run).into_iter().next().filter(|row| row.latency_ns.or_empty().count > 0)?;
    let latency = row.latency_ns.or_empty();
    // With so few operations, the percentile equals the maximum.
    let most = match latency.count {
        100.. => format!("99% within {}", duration(latency.p99)),
        10..100 => format!("90% within {}", duration(latency.p90)),
        _ => format!("all within {}", duration(latency.max)),
    };
    Some(format!("Half of all {} were answered within {}, {most}", label(&row.name, &row.via), duration(latency.p50)))
}

fn subjects(runs: &[NamedRun]) -> String {
    let names: Vec<String> = runs.iter().map(|named| named.name.clone()).collect();
    let kinds: BTreeSet<String> = runs
        .iter()
        .flat_map(|named| noteworthy(&workload(&named.run), usize::MAX))
        .map(|row| row.name.clone())
        .collect();
    let kinds: Vec<String> = kinds.into_iter().collect();
    let count = runs.iter().map(|named| workload_count(&named.run)).sum();
    let of = if kinds.is_empty() { String::new() } else { format!(" ({})", listed(&kinds)) };
    format!(
        "{} side by side: {}, {}{of} in all.",
        counted(runs.len() as u64, "run"),
        listed(&names),
        counted(count, "operation")
    )
}

/// Returns the runs with the smallest and largest value.
fn ends<'run>(
    runs: &'run [NamedRun],
    mixes: &[RunMix],
    figure: impl Fn(&Run, &RunMix) -> Option<f64>,
) -> Option<[(&'run NamedRun, f64); 2]> {
    let of = |(named, mix): (&'run NamedRun, &RunMix)| Some((named, figure(&named.run, mix)?));
    let all: Vec<(&NamedRun, f64)> = runs.iter().zip(mixes).map(of).collect::<Option<_>>()?;
    let least = all.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let most = all.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    (most.1 > least.1).then_some([*least, *most])
}

/// Returns the ratio of the second to the first in words.
fn times(least: f64, most: f64) -> String {
    if least > 0.0 {
        format!(", {} times as much", with_digits(most / least, if most / least < 10.0 { 2 } else { 0 }))
    } else {
        String::new()
    }
}

/// Returns the parameters that all runs share, or else how many operations they have.
fn conditions(runs: &[NamedRun]) -> String {
    let shared = runs.first().map(|named| named.run.parameters.clone()).unwrap_or_default();
    let is_shared =
        |key: &str, value: &str| runs.iter().all(|named| named.run.parameters.get(key).is_some_and(|of| of == value));
    let shared: Vec<String> = shared
        .iter()
        .filter(|(key, value)| is_shared(key, value))
        .map(|(key, value)| format!("{key} = {value}"))
        .collect();
    if !shared.is_empty() {
        return format!("At {}", shared.join(", "));
    }
    let counts = runs.iter().map(|named| workload_count(&named.run));
    match (counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0)) {
        (least, most) if least == most => format!("Over {} a run", counted(least, "operation")),
        (least, most) => format!("Over {} to {} a run", grouped(least), counted(most, "operation")),
    }
}

/// Compares the whole cost of an operation.
fn whole_range(runs: &[NamedRun], mixes: &[RunMix]) -> Option<String> {
    let [least, most] = ends(runs, mixes, |run, _| run.whole.wire_bytes_per_operation.value().copied())?;
    let told = |(named, bytes): (&NamedRun, f64)| {
        let waits = waits(&named.run).map_or_else(String::new, |waits| format!(" and {waits}"));
        LowerBounds::new(&named.run).wire(format!("{} B", bytes_label(bytes))) + &waits
    };
    Some(format!(
        "{}, setup and background included, an operation takes the fewest bytes on the wire in {} ({}) and the most in {} ({}{}).",
        conditions(runs),
        least.0.name,
        told(least),
        most.0.name,
        told(most),
        times(least.1, most.1)
    ))
}

/// Compares the whole cost of runs with the same operations, otherwise the bytes of the largest operation that all runs have.
fn range(runs: &[NamedRun], mixes: &[RunMix]) -> Option<String> {
    if let Some(said) = whole_range(runs, mixes).filter(|_| is_one_mix(mixes)) {
        return Some(said);
    }
    let (first, others) = mixes.split_first()?;
    let common = first.iter().filter(|(key, _)| others.iter().all(|mix| mix.contains_key(*key)));
    let (key, _) = common.max_by_key(|(_, (amounts, _))| amounts.total())?;
    let [least, most] = ends(runs, mixes, |_, mix| {
        let (amounts, samples) = mix.get(key)?;
        per_operation(amounts.total(), *samples)
    })?;
    let told =
        |(named, bytes): (&NamedRun, f64)| LowerBounds::new(&named.run).wire(format!("{} B", bytes_label(bytes)));
    let is_of_key = |row: &&OperationRow| kind(&row.name) == key;
    let rows = runs.iter().flat_map(|named| noteworthy(&workload(&named.run), usize::MAX)).filter(is_of_key);
    let names: BTreeSet<String> = rows.map(|row| row.name.clone()).collect();
    let name = if names.is_empty() { key.clone() } else { names.into_iter().collect::<Vec<_>>().join(" or ") };
    Some(format!(
        "{} takes the fewest bytes on the wire in {} ({}) and the most in {} ({}{}).",
        shortened(&name, NAME_CHARS),
        least.0.name,
        told(least),
        most.0.name,
        told(most),
        times(least.1, most.1)
    ))
}

/// Compares CPU times of runs with the same operations.
fn work_range(runs: &[NamedRun], mixes: &[RunMix]) -> Option<String> {
    let on_cpu = |run: &Run, _: &RunMix| {
        let role = whole_run_counters(run, RoleName::Server).ok()?;
        let [user, kernel] = CpuUnit::OnCpuNs.amounts(role).ok()?;
        per_operation(user + kernel, workload_count(run))
    };
    let told = |ns: f64| duration(ns.round() as u64);
    if let Some([least, most]) = ends(runs, mixes, on_cpu).filter(|_| is_one_mix(mixes)) {
        if most.1 < least.1 * CLOSE {
            return Some(format!(
                "The server's CPU time for an operation is {} to {}, which one run each does not tell apart.",
                told(least.1),
                told(most.1)
            ));
        }
        return Some(format!(
            "The server's CPU time for an operation is shortest in {} ({}) and longest in {} ({}{}).",
            least.0.name,
            told(least.1),
            most.0.name,
            told(most.1),
            times(least.1, most.1)
        ));
    }
    let absent = runs.iter().filter(|named| named.run.counters.reason().is_some());
    let absent: Vec<String> = absent.map(|named| named.name.clone()).collect();
    (!absent.is_empty()).then(|| format!("System calls and CPU time were not measured of {}.", listed(&absent)))
}
