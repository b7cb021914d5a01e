//! Summarises the runs of a combination as medians and spreads.

use crate::bounds::losses;
use crate::reported::Reported;
use crate::summary::{
    CpuUnit, RoleName, both_sides, distinct, per_operation, syscalls_per_operation, whole_run_counters, workload,
    workload_count,
};
use crate::text::distribution::count_within;
use overhead_model::exit::COMPLETE;
use overhead_model::record::{CycleSource, Latency, OperationRow, Role, SideRow, Within};
use overhead_model::sweep::{SweepLatency, SweepOperation, SweepPoint, SweepReported, SweepRun, SweepTotal, SweepWork};
use overhead_model::{Measured, Run, Spread};
use std::cmp::Reverse;
use std::collections::BTreeSet;

#[derive(Clone, Debug)]
pub struct PointRun {
    /// Its folder, relative to the sweep's.
    pub folder: String,
    /// Its record, or why it does not count.
    pub record: Result<Run, String>,
    /// Test results from the command's output.
    pub reported: Vec<Reported>,
}

/// Summarises the runs of one combination of values.
pub fn point(values: Vec<String>, folder: String, runs: &[PointRun]) -> SweepPoint {
    let records: Vec<&Run> = runs.iter().filter_map(|run| run.record.as_ref().ok()).collect();
    let tests: Vec<&[Reported]> =
        runs.iter().filter(|run| run.record.is_ok()).map(|run| run.reported.as_slice()).collect();
    let bounds = runs.iter().filter_map(|run| Some((&run.folder, run.record.as_ref().ok()?)));
    let lost = bounds.flat_map(|(folder, run)| {
        losses(&run.source, &run.tcp).into_iter().map(move |loss| format!("{folder}: {loss}"))
    });
    SweepPoint {
        values,
        folder,
        runs: runs.iter().map(PointRun::told).collect(),
        total: total(&records),
        operations: operations(&records),
        reported: reported(&tests),
        lower_bounds: lost.collect(),
    }
}

impl PointRun {
    fn told(&self) -> SweepRun {
        let partial = self.record.as_ref().is_ok_and(|run| run.exit != COMPLETE);
        SweepRun { folder: self.folder.clone(), fault: self.record.as_ref().err().cloned(), partial }
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
    SweepTotal {
        operations: spread(runs, |run| Ok(workload_count(run) as f64)),
        per_second: spread(runs, |run| rate(run)),
        wire_bytes: spread(runs, |run| {
            let rows = workload(run);
            let bytes = rows.iter().map(|row| both_sides(row).total()).sum();
            divided(bytes, rows.iter().map(|row| row.samples()).sum())
        }),
        frames: spread(runs, |run| match run.ledger.other {
            0 => divided(run.source.frames, workload_count(run)),
            _ => Err("frames of other connections were captured, too: choose with --db, --port or --filter".to_owned()),
        }),
        server: work(runs, RoleName::Server),
        client: work(runs, RoleName::Client),
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

fn latency(rows: &[&OperationRow]) -> SweepLatency {
    let figure = |of: fn(&Latency) -> f64| {
        spread(rows, |row| match &row.latency_ns {
            Measured::Unavailable { unavailable } => Err(unavailable.clone()),
            Measured::Value(latency) if latency.count == 0 => {
                Err("no operation of which both ends were seen".to_owned())
            }
            Measured::Value(latency) => Ok(of(latency)),
        })
    };
    SweepLatency::new([
        figure(|latency| latency.mean),
        figure(|latency| latency.p50 as f64),
        figure(|latency| latency.p90 as f64),
        Measured::unavailable("not in the records of runs"),
        figure(|latency| latency.p99 as f64),
        figure(|latency| latency.p999 as f64),
        figure(|latency| latency.p9999 as f64),
        figure(|latency| latency.max as f64),
    ])
}

/// Returns the combined distributions of all runs.
fn within(rows: &[&OperationRow]) -> Vec<Within> {
    let each: Vec<&[Within]> = rows.iter().filter_map(|row| row.latency_within.as_deref()).collect();
    let bounds: BTreeSet<u64> = each.iter().flat_map(|row| row.iter().map(|within| within.ns)).collect();
    let sum = |ns: u64| each.iter().map(|row| count_within(row, ns)).sum();
    bounds.into_iter().map(|ns| Within { ns, count: sum(ns) }).collect()
}

/// Groups tests by name over the runs that have them, in order of appearance.
fn reported(runs: &[&[Reported]]) -> Vec<SweepReported> {
    let names = distinct(runs.iter().copied().flatten().map(|test| (test.program, &*test.name)));
    let of = |(program, name): (&str, &str)| {
        let tests: Vec<&Reported> =
            runs.iter().filter_map(|tests| tests.iter().find(|test| test.name == name)).collect();
        let said = |figure: Option<f64>| figure.ok_or_else(|| format!("{program} does not say"));
        let latency = std::array::from_fn(|at| spread(&tests, |test| said(test.latency_ns.figures()[at])));
        SweepReported {
            program: program.to_owned(),
            name: name.to_owned(),
            per_second: spread(&tests, |test| said(test.per_second)),
            latency_ns: SweepLatency::new(latency),
        }
    };
    names.into_iter().map(of).collect()
}
