//! Raw counters, for runs without packets and for roles whose counters do not belong to the operations.

use crate::document::Section;
use crate::grid::Grid;
use crate::number::{DASH, decimal, grouped};
use crate::summary::{CpuUnit, RoleName, counters_only, window_ns};
use overhead_model::Run;
use overhead_model::record::{Role, Syscall};
use std::cmp::Reverse;

/// Returns the roles shown this way: all in a run without packets, otherwise those with withheld counters.
fn roles(run: &Run) -> Vec<(&'static str, &Role)> {
    let all = RoleName::ALL.into_iter().filter_map(|name| Some((name.name(), name.counted(run).ok()?)));
    all.filter(|(_, role)| counters_only(run) || role.withheld.is_some()).collect()
}

/// Returns the raw counters with their titles: totals, and system calls of a run without packets.
pub(crate) fn sections(run: &Run) -> Vec<Section> {
    let roles = roles(run);
    let totals = ("As counted in the window, whatever it was for", totals(run, &roles));
    let calls = ("System calls in the window", calls(run, if counters_only(run) { &roles } else { &[] }));
    let section = |(title, table): (&str, Grid)| {
        Some(Section { title: title.to_owned(), table: table.if_any()?, notes: Vec::new() })
    };
    [totals, calls].into_iter().filter_map(section).collect()
}

fn totals(run: &Run, roles: &[(&str, &Role)]) -> Grid {
    let headers = ["system\ncalls", "/s", "on-CPU\nms", "of it\nuser", "\nkernel", "switches", "B sent", "B received"];
    // Beside operations, the table leaves out rates, to fit a narrow terminal.
    let has_rate = |header: &&str| counters_only(run) || *header != "/s";
    let headers: Vec<&str> = headers.into_iter().filter(has_rate).collect();
    let row = |(name, role): &(&str, &Role)| {
        let calls: u64 = role.syscalls.values().map(|call| call.count).sum();
        let mut cells = vec![(*name).to_owned(), grouped(calls)];
        cells.extend(counters_only(run).then(|| rate(calls, run)));
        cells.extend(match CpuUnit::OnCpuNs.amounts(role) {
            Ok([user, kernel]) => [user + kernel, user, kernel].map(|ns| decimal(ns as f64 / 1e6)),
            Err(_) => [DASH; 3].map(str::to_owned),
        });
        let switches = role.context_switches.as_result().map(|n| n.voluntary + n.involuntary);
        let socket = role.socket.as_result();
        let rest = [switches, socket.map(|socket| socket.send_bytes), socket.map(|socket| socket.recv_bytes)];
        cells.extend(rest.map(|figure| figure.map_or_else(|_| DASH.to_owned(), grouped)));
        cells
    };
    Grid::new(&["role"], &headers, roles.iter().map(row).collect())
}

/// Returns the system calls by name, most frequent first.
fn calls(run: &Run, roles: &[(&str, &Role)]) -> Grid {
    let mut rows = Vec::new();
    for (name, role) in roles {
        let mut calls: Vec<(&String, &Syscall)> = role.syscalls.iter().collect();
        calls.sort_by_key(|(_, call)| Reverse(call.count));
        rows.extend(calls.into_iter().map(|(call, counted)| {
            let each =
                counted.ns.as_result().ok().filter(|_| counted.count > 0).map(|ns| *ns as f64 / counted.count as f64);
            vec![
                (*name).to_owned(),
                call.to_owned(),
                grouped(counted.count),
                rate(counted.count, run),
                grouped(counted.errors),
                each.map_or_else(|| DASH.to_owned(), decimal),
            ]
        }));
    }
    Grid::new(&["role", "system call"], &["calls", "/s", "errors", "on-CPU\nns/call"], rows)
}

fn rate(count: u64, run: &Run) -> String {
    let seconds = window_ns(run) as f64 / 1e9;
    if seconds > 0.0 { decimal(count as f64 / seconds) } else { DASH.to_owned() }
}
