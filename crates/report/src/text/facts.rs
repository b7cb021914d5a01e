//! Sentences about a run for all outputs: origin, reliability, cost.

use super::{idle, sampled};
use crate::document::{COMMAND, Fact};
use crate::limits::FIGURE_NEGLIGIBLE;
use crate::number::{counted, decimal, duration, grouped, percent, with_digits};
use crate::summary::{
    CpuUnit, RoleName, RoleWork, both_sides, counters_only, per_operation, syscalls_per_operation, window_ns, work,
    workload,
};
use overhead_model::record::{CycleSource, Interface, Observer, Role, SourceKind, WatchingCost};
use overhead_model::{Measured, Run, Spread};

/// Returns the day of a Unix time in nanoseconds, such as `2026-11-28` (UTC).
pub(crate) fn date(ns: u64) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(ns)).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    time.to_string().chars().take(10).collect()
}

/// Returns the origin of the bytes of a run, and their completeness.
pub(crate) fn origin(run: &Run) -> Vec<Fact> {
    let containers = containers_line(run).map(|line| Fact::new("containers", line));
    let sample = sampled::coverage(run).map(|line| Fact::new("sample", line));
    let source = Fact::new("source", source_line(run));
    let mut facts: Vec<Fact> = [source].into_iter().chain(sample).chain(containers).collect();
    if !counters_only(run) {
        facts.extend([Fact::new("ledger", balance_line(run)), Fact::new("capture", integrity(run))]);
    }
    facts
}

/// Returns what was not measured, the unit of CPU work, and the cost of measuring.
pub(crate) fn measuring(run: &Run) -> Vec<Fact> {
    let in_words = |of: RoleWork<'_>| {
        let text = match of.role {
            Ok(_) if counters_only(run) => return None,
            Ok(role) => {
                let since = if of.is_since_connect { ", since it connected" } else { "" };
                format!("{}{since}", work_in_words(role, of.operations))
            }
            // A warning above the table already has the reason.
            Err(reason) if run.warnings.iter().any(|warning| warning.contains(reason)) => return None,
            Err(reason) => format!("{}: {reason}", of.absence),
        };
        Some(Fact::new(&of.label, text))
    };
    let mut facts: Vec<Fact> = match run.counters.as_result() {
        Err(reason) => vec![Fact::new("work", format!("not measured: {reason}"))],
        Ok(_) => work(run).into_iter().filter_map(in_words).chain([Fact::new("cycles", cycle_label(run))]).collect(),
    };
    facts.extend(idle::in_an_hour(run).map(|text| Fact::new("idle", text)));
    facts.extend(work_units(run).map(|text| Fact::new("whole cost", text)));
    facts.push(Fact::new("observer", observer_line(&run.observer)));
    facts
}

/// Returns the whole cost of the caller's unit of work, such as `5,205.8 B and 3.06 round trips per page`.
fn work_units(run: &Run) -> Option<String> {
    let work = run.whole.work.as_ref()?;
    let bytes = decimal(run.whole.wire_bytes as f64 / work.units);
    let waits = run.whole.round_trips.value().map(|count| with_digits(*count as f64 / work.units, 2));
    let waits = waits.map_or_else(String::new, |waits| format!(" and {waits} round trips"));
    Some(format!("{bytes} B{waits} per {}", work.name))
}

/// Returns a role's system calls and CPU time per operation.
fn work_in_words(role: &Role, operations: u64) -> String {
    let Some(calls) = syscalls_per_operation(role, operations) else { return "no workload operations".to_owned() };
    let time = CpuUnit::OnCpuNs.amounts(role).ok().and_then(|[user, kernel]| per_operation(user + kernel, operations));
    let time = time.map_or_else(String::new, |ns| format!(" and {} on a CPU", duration(ns.round() as u64)));
    format!("{} system calls{time} per operation", with_digits(calls, 2))
}

/// Returns the origin and number of the frames.
fn source_line(run: &Run) -> String {
    if counters_only(run) {
        return format!("counters without packets: window {}", duration(window_ns(run)));
    }
    let source = &run.source;
    let what = match source.kind {
        SourceKind::Live => {
            let interface = run.environment.as_ref().and_then(|environment| environment.interface.as_ref());
            let container = run.environment.as_ref().and_then(|environment| environment.container.as_ref());
            let of = container.map(|container| format!(" of container {}", container.full_name()));
            interface.map_or_else(
                || "live capture".to_owned(),
                |interface| format!("live on {}{}", interface.name, of.unwrap_or_default()),
            )
        }
        SourceKind::File => {
            let names: Vec<String> = source.inputs.iter().take(3).map(|input| input.path.clone()).collect();
            let more = source.inputs.len().saturating_sub(names.len());
            let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
            if names.is_empty() { "no input".to_owned() } else { format!("{}{rest}", names.join(", ")) }
        }
    };
    let frames = counted(source.frames, "frame");
    let of = if source.only_command.is_some() { " of the command's processes" } else { "" };
    let connections = format!("{}{of}", counted(run.tcp.connections, "connection"));
    let links =
        if source.link_types.is_empty() { String::new() } else { format!(" ({})", source.link_types.join(", ")) };
    format!(
        "{what}{links}: window {}, {frames}, {} B on the wire, {connections}",
        duration(window_ns(run)),
        grouped(source.wire_bytes)
    )
}

/// Returns the containers of the counted processes, such as `server in container cache (docker 3f2a91c0de12)`, or `None` if
/// there are none.
fn containers_line(run: &Run) -> Option<String> {
    let of = |name: RoleName| {
        let containers = &name.counted(run).ok()?.containers;
        let words = containers.iter().map(|it| {
            let about: Vec<&str> = it.engine.iter().map(String::as_str).chain([&*it.id]).collect();
            format!("{} ({})", it.full_name(), about.join(" "))
        });
        let noun = if containers.len() == 1 { "container" } else { "containers" };
        let words = words.collect::<Vec<_>>().join(", ");
        (!containers.is_empty()).then(|| format!("{} in {noun} {words}", name.name()))
    };
    let parts: Vec<String> = RoleName::ALL.into_iter().filter_map(of).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Returns text such as `balanced: 12,345 of 12,345 bytes posted`.
fn balance_line(run: &Run) -> String {
    let wire_bytes = run.source.wire_bytes;
    let posted = (i128::from(wire_bytes) - i128::from(run.ledger.difference)).try_into().unwrap_or(0);
    let word = if run.ledger.balanced { "balanced" } else { "NOT BALANCED" };
    format!("{word}: {} of {} bytes posted", grouped(posted), grouped(wire_bytes))
}

/// Lists drops, gaps and other completeness warnings; only drops and gaps appear even if zero.
pub(crate) fn integrity(run: &Run) -> String {
    let (source, tcp) = (&run.source, &run.tcp);
    let drops = known("drops", &source.kernel_drops, |frames| format!("{} dropped", counted(*frames, "frame")));
    let mut parts = vec![drops, format!("{} B in gaps", grouped(tcp.gap_bytes))];
    let rare = [
        (source.truncated_frames, "frame", "snapped"),
        (source.malformed_frames, "frame", "malformed"),
        (source.duplicate_frames, "frame", "duplicated"),
        (tcp.out_of_order_frames, "frame", "out of order"),
    ];
    parts.extend(rare.iter().filter(|rare| rare.0 > 0).map(|(n, noun, what)| format!("{} {what}", counted(*n, noun))));
    if tcp.retransmitted_bytes > 0 {
        parts.push(format!("{} B retransmitted", grouped(tcp.retransmitted_bytes)));
    }
    parts.join(", ")
}

/// Returns the traffic that charts and reports omit, unless it is negligible: everything outside the workload, and its share of
/// the wire bytes.
pub(crate) fn beside_the_workload(run: &Run) -> Option<String> {
    let shown: u64 = workload(run).iter().map(|row| both_sides(row).total()).sum();
    let beside = run.source.wire_bytes.saturating_sub(shown);
    let is_told = beside > run.source.wire_bytes / FIGURE_NEGLIGIBLE;
    let share = percent(beside, run.source.wire_bytes);
    is_told.then(|| format!("setup, background and other traffic ({share} of the wire bytes)"))
}

/// Describes a value, or the reason that it is unknown.
fn known<T>(what: &str, measured: &Measured<T>, told: impl Fn(&T) -> String) -> String {
    match measured {
        Measured::Value(value) => told(value),
        Measured::Unavailable { unavailable } => format!("{what} unknown ({unavailable})"),
    }
}

/// Describes the cost of the tool's work.
fn observer_line(observer: &Observer) -> String {
    let time = |what: &str, ns: &Measured<u64>| known(what, ns, |ns| format!("{what} {}", duration(*ns)));
    let speed = known("speed", &observer.frames_per_second, |speed| format!("{} frames/s", grouped(*speed)));
    let watching = observer.watching.as_ref().map(|cost| format!("; {}", watching_in_words(cost))).unwrap_or_default();
    let own = time("own CPU time", &observer.cpu_ns);
    format!("{own}, {}, {speed}{watching}", time("in BPF programs", &observer.bpf_ns))
}

/// Describes the observer's cost to the command, with medians and ranges over the rounds.
fn watching_in_words(cost: &WatchingCost) -> String {
    let range = |spread: &Spread, shown: fn(f64) -> String| {
        format!("{} ({} to {})", shown(spread.median), shown(spread.min), shown(spread.max))
    };
    let throughput = known("share of the unwatched throughput", &cost.throughput_share, |share| {
        let percent = |share: f64| format!("{}%", with_digits(share * 100.0, 1));
        format!("{} of the unwatched throughput", range(share, percent))
    });
    let nanoseconds = |ns: f64| with_digits(ns, 0);
    let cpu = match (&cost.cpu_ns_per_operation, &cost.unwatched_cpu_ns_per_operation) {
        (Measured::Value(more), Measured::Value(without)) => format!(
            "{} ns of CPU per operation more than the {} that command and server take unwatched",
            range(more, nanoseconds),
            nanoseconds(without.median)
        ),
        (Measured::Unavailable { unavailable }, _) | (_, Measured::Unavailable { unavailable }) => {
            format!("CPU per operation that it takes unknown ({unavailable})")
        }
    };
    format!("under watch {throughput}, {cpu}; medians of {}", counted(cost.rounds, "round"))
}

/// Returns the unit of CPU work, and the reason if it is not hardware cycles.
pub(crate) fn cycle_label(run: &Run) -> String {
    let mut reason = None;
    for role in RoleName::ALL {
        match role.counted(run) {
            Err(absent) => reason = reason.or(Some(absent)),
            Ok(counters) => match &counters.cycles {
                Measured::Value(cycles) => return cycles_in_words(cycles.source, cycles.reason.as_deref()),
                Measured::Unavailable { unavailable } if CpuUnit::OnCpuNs.amounts(counters).is_ok() => {
                    return format!("on-CPU time instead of cycles ({unavailable})");
                }
                Measured::Unavailable { unavailable } => reason = reason.or(Some(unavailable)),
            },
        }
    }
    format!("not measured ({})", reason.unwrap_or("no reason recorded"))
}

fn cycles_in_words(source: CycleSource, reason: Option<&str>) -> String {
    match source {
        CycleSource::Hardware => "hardware counter".to_owned(),
        CycleSource::Reference => {
            format!("reference, a unit of time: on-CPU ns x TSC rate ({})", reason.unwrap_or("no reason recorded"))
        }
    }
}

/// Returns text such as `eth0: MTU 1,500, offloads on: tso, gro`.
pub fn interface_line(interface: &Interface) -> String {
    let mtu = interface.mtu.map_or_else(|| "unknown".to_owned(), |mtu| grouped(u64::from(mtu)));
    let on: Vec<&str> = interface.offloads.iter().filter(|(_, on)| **on).map(|(name, _)| name.as_str()).collect();
    let on = if on.is_empty() { "none".to_owned() } else { on.join(", ") };
    format!("{}: MTU {mtu}, offloads on: {on}", interface.name)
}

/// Returns the command that made the load, or the tool's command.
pub(crate) fn command(run: &Run) -> Option<Fact> {
    let environment = run.environment.as_ref()?;
    let words = environment.workload.as_ref().map_or(&environment.command_line, |workload| &workload.command);
    (!words.is_empty()).then(|| Fact::new(COMMAND, shell(words)))
}

/// Joins words for a shell.
pub(crate) fn shell(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// Quotes a word for a shell if needed.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
