//! Values that all outputs derive from a record in the same way: account families, means and work per operation.

use crate::limits::{FIGURE_COMMON, FIGURE_NEGLIGIBLE};
use crate::number::decimal;
use crate::run::NamedRun;
use crate::sums::{is_one_statement, kind};
use overhead_model::record::{CycleSource, OperationRow, Role, SourceKind};
use overhead_model::{Account, Amounts, Class, Measured, Run, enum_with};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Relative difference in `data` per operation above which a comparison warns: 0.5%, about the effect of one stray first
/// operation of another size.
const DATA_TOLERANCE: f64 = 0.005;

/// Accounts rolled up for people, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Families {
    pub frame: u64,
    pub waste: u64,
    pub protocol: u64,
    pub data: u64,
    pub unknown: u64,
}

impl Families {
    pub(crate) fn new(amounts: &Amounts) -> Self {
        let sum = |accounts: &[Account]| accounts.iter().map(|account| amounts[*account]).sum();
        let frame = sum(&[Account::Link, Account::Ip, Account::Tcp]);
        let waste = sum(&[Account::Control, Account::Retransmission]);
        let (data, unknown) = (amounts[Account::Data], amounts[Account::Unknown]);
        Self { frame, waste, protocol: amounts.total() - frame - waste - data - unknown, data, unknown }
    }
}

pub(crate) fn both_sides(row: &OperationRow) -> Amounts {
    let mut sum = row.request.accounts;
    sum += row.response.accounts;
    sum
}

/// Divides `total` by `count`; returns `None` without operations.
pub(crate) fn per_operation(total: u64, count: u64) -> Option<f64> {
    (count > 0).then(|| total as f64 / count as f64)
}

/// Returns rows in display order: workload first, then by bytes, largest first.
pub(crate) fn ranked(run: &Run) -> Vec<&OperationRow> {
    let mut rows: Vec<&OperationRow> = run.operations.iter().collect();
    rows.sort_by_key(|row| (row.class, Reverse(both_sides(row).total())));
    rows
}

pub(crate) fn workload(run: &Run) -> Vec<&OperationRow> {
    ranked(run).into_iter().filter(|row| row.class == Class::Workload).collect()
}

/// Returns the names of workload operations, those with the most bytes first.
pub fn workload_names(run: &Run) -> Vec<&str> {
    distinct(workload(run).into_iter().map(|row| &*row.name))
}

/// Returns the number of workload operations in the window, the divisor for counters.
pub fn workload_count(run: &Run) -> u64 {
    run.operations.iter().filter(|row| row.class == Class::Workload).map(|row| row.count).sum()
}

/// Returns the exit status of a captured command that failed on its own and may have sent too few requests.
pub(crate) fn failed_command(run: &Run) -> Option<i32> {
    let workload = run.environment.as_ref()?.workload.as_ref()?;
    workload.exit_code.filter(|code| *code != 0 && !workload.was_ended)
}

/// Returns up to `room` operations that matter to the run by bytes or frequency, in the given order.
pub(crate) fn noteworthy<'a>(all: &[&'a OperationRow], room: usize) -> Vec<&'a OperationRow> {
    let bytes = all.iter().map(|row| both_sides(row).total()).sum::<u64>() / FIGURE_NEGLIGIBLE;
    let count = all.iter().map(|row| row.samples()).sum::<u64>() / FIGURE_COMMON;
    let matters = |row: &&&OperationRow| both_sides(row).total() >= bytes || row.samples() >= count;
    all.iter().filter(matters).take(room).copied().collect()
}

/// Returns the length of the window: the counters' window, or the time from the first frame to the last.
pub fn window_ns(run: &Run) -> u64 {
    match &run.counters {
        Measured::Value(counters) => counters.window_ns,
        Measured::Unavailable { .. } => run.source.last_ns.saturating_sub(run.source.first_ns),
    }
}

enum_with! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum RoleName, name: &'static str {
        Server = "server",
        Client = "client",
    }
}

impl RoleName {
    /// Returns this role's counters, or why none can be divided by operations.
    pub(crate) fn counters(self, run: &Run) -> Result<&Role, &str> {
        given(self.counted(run)?)
    }

    /// Returns this role's raw counters, or why there are none.
    pub(crate) fn counted(self, run: &Run) -> Result<&Role, &str> {
        let counters = run.counters.as_result()?;
        let role = match self {
            Self::Server => &counters.server,
            Self::Client => &counters.client,
        };
        role.as_result()
    }
}

/// Returns a role's counters for a whole run, or why they cannot be divided by all its operations: several protocols have no
/// meaningful common mean.
pub(crate) fn whole_run_counters(run: &Run, name: RoleName) -> Result<&Role, &str> {
    match &run.counters {
        Measured::Value(counters) if !counters.protocols.is_empty() => Err("counted by protocol: see the table"),
        _ => name.counters(run),
    }
}

/// Returns counters that can be divided by operations, or why they cannot.
fn given(role: &Role) -> Result<&Role, &str> {
    role.withheld.as_deref().map_or(Ok(role.at_work()), Err)
}

/// Counters of a role and the workload operations they belong to.
pub(crate) struct RoleWork<'run> {
    /// `server`, or `server (resp)` if the run has several protocols.
    pub label: String,
    pub role: Result<&'run Role, &'run str>,
    /// The counters exclude the start of the clients' programs.
    pub is_since_connect: bool,
    /// Label for a missing `role`.
    pub absence: &'static str,
    pub operations: u64,
}

impl<'run> RoleWork<'run> {
    fn new(label: String, counted: Result<&'run Role, &'run str>, operations: u64) -> Self {
        let absence = if counted.is_ok() { "withheld" } else { "not measured" };
        let is_since_connect =
            counted.is_ok_and(|role| role.since_connect.as_ref().is_some_and(|since| since.value().is_some()));
        Self { label, role: counted.and_then(given), is_since_connect, absence, operations }
    }
}

/// Returns both roles of a run, or both roles per protocol if its connections use several.
pub(crate) fn work(run: &Run) -> Vec<RoleWork<'_>> {
    let whole = |name: RoleName| RoleWork::new(name.name().to_owned(), name.counted(run), workload_count(run));
    let protocols = run.counters.value().map_or(&[][..], |counters| counters.protocols.as_slice());
    if protocols.is_empty() {
        return RoleName::ALL.map(whole).into();
    }
    let of = |name: RoleName| {
        protocols.iter().map(move |counters| {
            let role = if name == RoleName::Server { &counters.server } else { &counters.client };
            let rows = workload(run).into_iter().filter(|row| row.protocol == counters.protocol);
            let operations = rows.map(|row| row.count).sum();
            RoleWork::new(format!("{} ({})", name.name(), counters.protocol), role.as_result(), operations)
        })
    };
    RoleName::ALL.into_iter().flat_map(of).collect()
}

/// Returns whether the run counted without packets.
pub(crate) fn counters_only(run: &Run) -> bool {
    let interface = run.environment.as_ref().and_then(|environment| environment.interface.as_ref());
    run.source.kind == SourceKind::Live
        && run.source.frames == 0
        && interface.is_none()
        && run.counters.value().is_some()
}

/// Unit of a role's CPU use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CpuUnit {
    Hardware,
    Reference,
    OnCpuNs,
}

impl CpuUnit {
    pub(crate) const ALL: [Self; 3] = [Self::Hardware, Self::OnCpuNs, Self::Reference];

    /// Returns the user and kernel parts in this unit over the whole window, or why they are unknown.
    pub(crate) fn amounts(self, role: &Role) -> Result<[u64; 2], &str> {
        let source = match self {
            Self::OnCpuNs => return role.on_cpu_ns.as_result().map(|ns| [ns.user, ns.kernel]),
            Self::Hardware => CycleSource::Hardware,
            Self::Reference => CycleSource::Reference,
        };
        let cycles = role.cycles.as_result()?;
        if cycles.source != source {
            return Err("counted in another unit than the other runs");
        }
        Ok([cycles.user, cycles.kernel])
    }
}

/// Returns a role's system calls per workload operation, or `None` without operations.
pub(crate) fn syscalls_per_operation(role: &Role, operations: u64) -> Option<f64> {
    per_operation(role.syscalls.values().map(|call| call.count).sum(), operations)
}

/// Operations by kind, and by statement if a kind has several, with bytes of both directions and samples.
pub(crate) type RunMix = BTreeMap<String, (Amounts, u64)>;

/// Difference in an operation's share below which two runs have the same mix.
const MIX_TOLERANCE: f64 = 0.01;

/// Returns the operations that a run is about.
pub(crate) fn operation_mix(run: &Run) -> RunMix {
    let mut mix = RunMix::new();
    let mut add = |key: String, request: &Amounts, response: &Amounts, samples: u64| {
        let (amounts, count) = mix.entry(key).or_default();
        *amounts += *request;
        *amounts += *response;
        *count += samples;
    };
    let rows = workload(run);
    let rows = noteworthy(&rows, usize::MAX);
    // An INSERT next to an UPDATE is not a SET.
    let is_alone =
        |row: &OperationRow| rows.iter().all(|other| kind(&other.name) != kind(&row.name) || other.name == row.name);
    for row in &rows {
        let name = if is_alone(row) { kind(&row.name) } else { &row.name };
        match row.statements.as_slice() {
            [] | [_] => add(name.to_owned(), &row.request.accounts, &row.response.accounts, row.samples()),
            several => several.iter().for_each(|of| {
                let is_one = is_one_statement(&of.text);
                let key = if is_one { of.text.clone() } else { format!("{name} {}", of.text) };
                add(key, &of.request.accounts, &of.response.accounts, of.samples());
            }),
        }
    }
    mix
}

/// Returns whether the runs have the same operations in the same proportions, so that their means compare like with like.
pub(crate) fn is_one_mix(mixes: &[RunMix]) -> bool {
    let share = |mix: &RunMix, key: &String| {
        let all: u64 = mix.values().map(|(_, samples)| samples).sum();
        mix.get(key).map_or(0.0, |(_, samples)| *samples as f64 / all.max(1) as f64)
    };
    let keys: BTreeSet<&String> = mixes.iter().flat_map(BTreeMap::keys).collect();
    let is_even = |key: &&String| {
        let shares: Vec<f64> = mixes.iter().map(|mix| share(mix, key)).collect();
        let ends = shares.iter().fold((1.0, 0.0), |(least, most), of| (f64::min(least, *of), f64::max(most, *of)));
        ends.1 - ends.0 <= MIX_TOLERANCE
    };
    !keys.is_empty() && keys.iter().all(is_even)
}

/// Returns the servers of these runs as they name themselves, without details of their builds, or the databases that were asked
/// for, or their protocols.
pub fn systems<'run>(runs: impl IntoIterator<Item = &'run Run>) -> Vec<String> {
    let names = |run: &'run Run| {
        let asked = if let [db] = run.source.selection.db.as_slice() { Some(db) } else { None };
        run.connections.iter().map(move |connection| {
            let software = connection.server_software.as_ref().and_then(|name| name.split(" (").next());
            let software = software.and_then(|name| name.split("-MariaDB").next());
            software.unwrap_or(asked.unwrap_or(&connection.protocol)).to_owned()
        })
    };
    distinct(runs.into_iter().flat_map(names))
}

/// Returns the items without repetitions, in order of appearance.
pub(crate) fn distinct<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for item in items {
        if !found.contains(&item) {
            found.push(item);
        }
    }
    found
}

/// Groups values by key, in order of appearance.
pub fn grouped_by<K: PartialEq, V>(items: impl IntoIterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in items {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

/// Maximum names listed in a sentence or a title.
const LISTED: usize = 4;

/// Formats a list in words: `a, b and 3 more`.
pub(crate) fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] if names.len() <= LISTED => format!("{} and {last}", most.join(", ")),
        _ => format!("{} and {} more", names[..LISTED].join(", "), names.len() - LISTED),
    }
}

/// Returns a warning if runs of the same operations carry different amounts of user data, which makes efficiency misleading.
pub(crate) fn data_difference(runs: &[NamedRun]) -> Option<String> {
    let mixes: Vec<RunMix> = runs.iter().map(|named| operation_mix(&named.run)).collect();
    if !is_one_mix(&mixes) {
        return None;
    }
    let per_run: Vec<(f64, &str)> =
        runs.iter().filter_map(|run| Some((data_per_operation(&run.run)?, &*run.name))).collect();
    let least = per_run.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let most = per_run.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    (most.0 - least.0 > most.0 * DATA_TOLERANCE).then(|| {
        format!(
            "The runs differ in user data per operation, from {} B ({}) to {} B ({}): compare their bytes on the wire, \
             not the share of data.",
            decimal(least.0),
            least.1,
            decimal(most.0),
            most.1
        )
    })
}

fn data_per_operation(run: &Run) -> Option<f64> {
    let data = workload(run).iter().map(|row| both_sides(row)[Account::Data]).sum();
    per_operation(data, workload_count(run))
}
