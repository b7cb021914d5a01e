//! Summarises the runs of a combination as medians and spreads.

use super::axes::{self, ChartKeys, Key};
use crate::bounds::losses;
use crate::figure::ChartAxes;
use crate::run::{NamedRun, RunGroup};
use crate::summary::{
    CpuUnit, RoleName, both_sides, distinct, failed_command, grouped_by, per_operation, syscalls_per_operation,
    whole_run_counters, workload, workload_count,
};
use crate::text::distribution::count_within;
use overhead_model::exit::COMPLETE;
use overhead_model::record::{CycleSource, Latency, OperationRow, ReportedTest, Role, SideRow, Within};
use overhead_model::{Account, Measured, Run, Spread};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Runs that differ by keys: what charts, tables and sentences are made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    pub(super) keys: ChartKeys,
    /// One for each combination of values, in the order of the keys.
    pub(super) points: Vec<SweepPoint>,
    /// Runs of the combination that has the most.
    pub(super) runs: usize,
    /// Why it is incomplete; absent for a complete one.
    pub partial: Option<String>,
}

/// One combination of values, and the results of its runs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SweepPoint {
    /// A value for each key; absent for runs without one.
    pub values: Vec<Option<String>>,
    /// Its runs, including those that do not count.
    pub runs: Vec<SweepRun>,
    pub total: SweepTotal,
    /// One for each workload operation, the largest by bytes first.
    pub operations: Vec<SweepOperation>,
    /// Results that the command reported.
    pub reported: Vec<SweepReported>,
    /// Why byte counts are lower bounds, a phrase for each run and kind of loss; empty if they are exact.
    pub lower_bounds: Vec<String>,
}

/// One run of a [`SweepPoint`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SweepRun {
    pub name: String,
    /// Why it does not count; absent if it does.
    pub fault: Option<String>,
    /// Whether a run that counts is partial; its record has the reason.
    pub partial: bool,
}

/// Values of all workload operations of a run together, over the runs that count.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SweepTotal {
    /// From the first frame to the last.
    pub per_second: Measured<Spread>,
    /// The whole cost, per operation.
    pub wire_bytes: Measured<Spread>,
    pub round_trips: Measured<Spread>,
    pub frames: Measured<Spread>,
    /// The whole cost by account, bytes per operation, of the run with the median cost (of an even number, the smaller); empty without
    /// operations.
    pub accounts: Vec<(Account, f64)>,
    /// Work of the processes, by [`RoleName`].
    pub work: [SweepWork; 2],
}

/// Work of a role's processes per workload operation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SweepWork {
    pub syscalls: Measured<Spread>,
    /// In user mode and in the kernel.
    pub cycles: Measured<Spread>,
    /// The unit of the cycles; absent if there are none.
    pub cycles_source: Option<CycleSource>,
    pub on_cpu_ns: Measured<Spread>,
}

/// One workload operation of a [`SweepPoint`], over the runs that count and have it. Its spreads do not add up.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SweepOperation {
    pub protocol: String,
    pub name: String,
    pub via: String,
    /// Operations of a run.
    pub count: Spread,
    /// Operations answered by an error, in all runs together.
    pub errors: u64,
    pub request_bytes: Spread,
    pub response_bytes: Measured<Spread>,
    pub wire_bytes: Spread,
    /// By [`LATENCIES`].
    pub latency_ns: [Measured<Spread>; 6],
    /// Cumulative counts of the latencies over all runs; empty if the runs do not have them.
    pub latency_within: Vec<Within>,
}

/// The latencies of an operation.
pub(super) const LATENCIES: [&str; 6] = ["p50", "p90", "p99", "p99.9", "p99.99", "max"];

/// Results that a load generator printed about one of its tests.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SweepReported {
    pub program: String,
    pub name: String,
    pub per_second: Measured<Spread>,
    /// By [`ReportedTest::LATENCIES`].
    pub latency_ns: [Measured<Spread>; 8],
}

impl Sweep {
    /// Summarises runs by the keys that distinguish them. Runs of equal keys are repetitions.
    ///
    /// # Errors
    ///
    /// A sentence about an axis that these runs do not have.
    pub fn new(groups: &[RunGroup], axes: &ChartAxes) -> Result<Self, String> {
        let keys = axes::chosen(groups, axes)?;
        let all = groups.iter().flat_map(|group| group.runs.iter().map(move |named| (group, named)));
        let values = |group, named| keys.all().map(|key| axes::value(group, named, &key.name)).collect();
        let mut places = grouped_by(all.map(|(group, named)| (values(group, named), named)));
        let rank = |(values, _): &(Vec<Option<String>>, Vec<&NamedRun>)| -> Vec<Option<usize>> {
            let place =
                |(key, value): (&Key, &Option<String>)| key.values.iter().position(|of| Some(of) == value.as_ref());
            keys.all().zip(values).map(place).collect()
        };
        places.sort_by_cached_key(rank);
        let runs = places.iter().map(|(_, runs)| runs.len()).max().unwrap_or(0);
        let points = places.into_iter().map(|(values, runs)| point(values, &runs)).collect();
        Ok(Self { keys, points, runs, partial: None })
    }
}

/// Summarises the runs of one combination of values.
fn point(values: Vec<Option<String>>, runs: &[&NamedRun]) -> SweepPoint {
    let counting = |named: &&&NamedRun| failed_command(&named.run).is_none();
    let records: Vec<&Run> = runs.iter().filter(counting).map(|named| &named.run).collect();
    let lost = runs.iter().filter(counting).flat_map(|named| {
        losses(&named.run.source, &named.run.tcp).into_iter().map(|loss| format!("{}: {loss}", named.name))
    });
    let told = |named: &&NamedRun| {
        let fault = failed_command(&named.run).map(|code| format!("its command ended with status {code}"));
        let partial = fault.is_none() && named.run.exit != COMPLETE;
        SweepRun { name: named.name.clone(), fault, partial }
    };
    let tests: Vec<&[ReportedTest]> = records.iter().map(|run| &*run.reported).collect();
    SweepPoint {
        values,
        runs: runs.iter().map(told).collect(),
        total: total(&records),
        operations: operations(&records),
        reported: reported(&tests),
        lower_bounds: lost.collect(),
    }
}

impl SweepPoint {
    /// Returns why its values are not those of complete runs; `None` if they are.
    pub fn doubt(&self) -> Option<String> {
        let partial = self.runs.iter().find(|run| run.partial).map(|run| format!("{} is partial", run.name));
        self.lower_bounds.first().cloned().or(partial)
    }
}

/// Returns the spread over the runs that have the figure, or the first run's reason if none has it.
fn spread<T>(of: &[T], figure: impl Fn(&T) -> Result<f64, String>) -> Measured<Spread> {
    let (mut values, mut reason) = (Vec::new(), None);
    for one in of {
        match figure(one) {
            Ok(value) => values.push(value),
            Err(why) => reason = reason.or(Some(why)),
        }
    }
    let absent = || Measured::unavailable(reason.unwrap_or_else(|| "no run".to_owned()));
    Spread::from_values(&values).map_or_else(absent, Measured::Value)
}

fn total(runs: &[&Run]) -> SweepTotal {
    let whole =
        |of: fn(&Run) -> &Measured<f64>| spread(runs, |run| of(run).as_result().copied().map_err(str::to_owned));
    let cost = |run: &&&Run| run.whole.wire_bytes_per_operation.value().copied();
    let mut costs: Vec<_> = runs.iter().filter_map(|run| Some((cost(&run)?, run))).collect();
    costs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let median = costs.get(costs.len().saturating_sub(1) / 2).map(|(_, run)| *run);
    let bytes = |account: Account| {
        let run = median?;
        Some((
            account,
            per_operation(run.ledger.request[account] + run.ledger.response[account], run.whole.operations)?,
        ))
    };
    SweepTotal {
        per_second: spread(runs, |run| rate(run)),
        wire_bytes: whole(|run| &run.whole.wire_bytes_per_operation),
        round_trips: whole(|run| &run.whole.round_trips_per_operation),
        frames: whole(|run| &run.whole.frames_per_operation),
        accounts: Account::ALL.into_iter().filter_map(bytes).filter(|(_, bytes)| *bytes > 0.0).collect(),
        work: RoleName::ALL.map(|role| work(runs, role)),
    }
}

fn divided(amount: u64, operations: u64) -> Result<f64, String> {
    per_operation(amount, operations).ok_or_else(|| "no workload operations".to_owned())
}

fn rate(run: &Run) -> Result<f64, String> {
    let ns = run.source.last_ns.saturating_sub(run.source.first_ns);
    match (workload_count(run), ns) {
        (0, _) => Err("no workload operations".to_owned()),
        (_, 0) => Err("all frames have one time".to_owned()),
        (count, ns) => Ok(count as f64 * 1e9 / ns as f64),
    }
}

fn work(runs: &[&Run], role: RoleName) -> SweepWork {
    let of = |run: &&Run, figure: &dyn Fn(&Role, u64) -> Result<f64, String>| {
        let counted = whole_run_counters(run, role).map_err(str::to_owned)?;
        figure(counted, workload_count(run))
    };
    let unit = cycle_unit(runs, role);
    let cpu = |unit: CpuUnit| {
        move |role: &Role, count: u64| {
            let [user, kernel] = unit.amounts(role)?;
            divided(user + kernel, count)
        }
    };
    SweepWork {
        syscalls: spread(runs, |run| {
            of(run, &|role, count| {
                syscalls_per_operation(role, count).ok_or_else(|| "no workload operations".to_owned())
            })
        }),
        cycles: spread(runs, |run| of(run, &cpu(unit))),
        cycles_source: runs.iter().find_map(|run| {
            let role = whole_run_counters(run, role).ok()?;
            role.cycles.value().map(|cycles| cycles.source)
        }),
        on_cpu_ns: spread(runs, |run| of(run, &cpu(CpuUnit::OnCpuNs))),
    }
}

/// Returns the cycle unit of the first run that has cycles; runs with other units are left out.
fn cycle_unit(runs: &[&Run], role: RoleName) -> CpuUnit {
    let mut sources = runs.iter().filter_map(|run| Some(whole_run_counters(run, role).ok()?.cycles.value()?.source));
    if sources.next() == Some(CycleSource::Hardware) { CpuUnit::Hardware } else { CpuUnit::Reference }
}

fn operations(runs: &[&Run]) -> Vec<SweepOperation> {
    let mut kinds: Vec<(&OperationRow, u64)> = Vec::new();
    for row in runs.iter().flat_map(|run| workload(run)) {
        let bytes = both_sides(row).total();
        match kinds.iter_mut().find(|(kind, _)| is_same(kind, row)) {
            Some((_, sum)) => *sum += bytes,
            None => kinds.push((row, bytes)),
        }
    }
    kinds.sort_by_key(|(_, bytes)| Reverse(*bytes));
    kinds.into_iter().filter_map(|(kind, _)| operation(kind, runs)).collect()
}

fn is_same(one: &OperationRow, other: &OperationRow) -> bool {
    (&one.protocol, one.class, &one.name, &one.via) == (&other.protocol, other.class, &other.name, &other.via)
}

fn operation(kind: &OperationRow, runs: &[&Run]) -> Option<SweepOperation> {
    let rows: Vec<&OperationRow> =
        runs.iter().filter_map(|run| run.operations.iter().find(|row| is_same(row, kind))).collect();
    let over =
        |figure: fn(&OperationRow) -> f64| Spread::from_values(&rows.iter().map(|row| figure(row)).collect::<Vec<_>>());
    Some(SweepOperation {
        protocol: kind.protocol.clone(),
        name: kind.name.clone(),
        via: kind.via.clone(),
        count: over(|row| row.count as f64)?,
        errors: rows.iter().map(|row| row.errors).sum(),
        request_bytes: over(|row| mean(row.request.accounts.total(), row))?,
        response_bytes: spread(&rows, |row| response(&row.response, row)),
        wire_bytes: over(|row| mean(both_sides(row).total(), row))?,
        latency_ns: latency(&rows),
        latency_within: within(&rows),
    })
}

/// Returns bytes per operation and per unsolicited message, as in the tables of a run.
fn mean(bytes: u64, row: &OperationRow) -> f64 {
    bytes as f64 / row.samples().max(1) as f64
}

fn response(side: &SideRow, row: &OperationRow) -> Result<f64, String> {
    side.unseen.clone().map_or_else(|| Ok(mean(side.accounts.total(), row)), Err)
}

fn latency(rows: &[&OperationRow]) -> [Measured<Spread>; 6] {
    let figure = |of: fn(&Latency) -> u64| {
        spread(rows, |row| match &row.latency_ns {
            Measured::Unavailable { unavailable } => Err(unavailable.clone()),
            Measured::Value(latency) if latency.count == 0 => {
                Err("no operation of which both ends were seen".to_owned())
            }
            Measured::Value(latency) => Ok(of(latency) as f64),
        })
    };
    [
        figure(|latency| latency.p50),
        figure(|latency| latency.p90),
        figure(|latency| latency.p99),
        figure(|latency| latency.p999),
        figure(|latency| latency.p9999),
        figure(|latency| latency.max),
    ]
}

/// Returns the combined distributions of all runs.
fn within(rows: &[&OperationRow]) -> Vec<Within> {
    let each: Vec<&[Within]> = rows.iter().filter_map(|row| row.latency_within.as_deref()).collect();
    let bounds: BTreeSet<u64> = each.iter().flat_map(|row| row.iter().map(|within| within.ns)).collect();
    let sum = |ns: u64| each.iter().map(|row| count_within(row, ns)).sum();
    bounds.into_iter().map(|ns| Within { ns, count: sum(ns) }).collect()
}

/// Groups tests by name over the runs that have them, in order of appearance.
fn reported(runs: &[&[ReportedTest]]) -> Vec<SweepReported> {
    let names = distinct(runs.iter().copied().flatten().map(|test| (&*test.program, &*test.name)));
    let of = |(program, name): (&str, &str)| {
        let tests: Vec<&ReportedTest> =
            runs.iter().filter_map(|tests| tests.iter().find(|test| test.name == name)).collect();
        let absent = || format!("{program} does not print it");
        SweepReported {
            program: program.to_owned(),
            name: name.to_owned(),
            per_second: spread(&tests, |test| test.per_second.as_result().copied().map_err(str::to_owned)),
            latency_ns: ReportedTest::LATENCIES
                .map(|name| spread(&tests, |test| test.latency_ns.get(name).copied().ok_or_else(absent))),
        }
    };
    names.into_iter().map(of).collect()
}
