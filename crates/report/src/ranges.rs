//! Latency ranges: a row for each operation of each run.

use crate::figure::{DotFigure, DotRow, only_in_table};
use crate::latencies::{MEASURED, label};
use crate::limits::RANGE_ROWS;
use crate::number::duration;
use crate::run::NamedRun;
use crate::summary::{noteworthy, workload};
use overhead_model::record::{Latency, OperationRow};

pub(crate) const NAME: &str = "ranges";

/// Returns the chart, or `None` if there are fewer than two ranges.
pub(crate) fn figure(runs: &[NamedRun]) -> Option<DotFigure> {
    let has = |row: &&OperationRow| row.latency_ns.or_empty().count > 0 && row.latency_ns.or_empty().min > 0;
    // A benchmark's initial queries are not its subject.
    let of_run = |named| noteworthy(&workload(named), usize::MAX).into_iter().filter(has).collect();
    let all: Vec<Vec<&OperationRow>> = runs.iter().map(|named| of_run(&named.run)).collect();
    let counts: Vec<usize> = all.iter().map(Vec::len).collect();
    if counts.iter().sum::<usize>() < 2 {
        return None;
    }
    // Take the largest operations of each run that fit, at least one, and keep each run's together.
    let longest = counts.iter().copied().max().unwrap_or(0);
    let of_each = (1..=longest).rev().find(|most| counts.iter().map(|of| of.min(most)).sum::<usize>() <= RANGE_ROWS);
    let of_each = of_each.unwrap_or(1);
    let rows = runs.iter().zip(&all).flat_map(|(named, rows)| {
        rows.iter().take(of_each).map(|row| dots(label(runs, named, row), &row.latency_ns.or_empty()))
    });
    let rows: Vec<DotRow> = rows.take(RANGE_ROWS).collect();
    let measured: usize = runs.iter().map(|named| workload(&named.run).iter().filter(|row| has(row)).count()).sum();
    let left_out = only_in_table(measured - rows.len(), "operation");
    Some(DotFigure {
        title: "Latency by operation, median and range".to_owned(),
        description:
            "A row for each operation: the median of its latency, how far the 99th percentile is, and the quickest \
                      and the slowest of all."
                .to_owned(),
        x_title: "µs, logarithmic".to_owned(),
        logarithmic: true,
        legend: ["median", "to 99%, of fewer than 100 operations to 90%", "quickest to slowest"].map(str::to_owned),
        rows,
        method: MEASURED.to_owned(),
        note: format!("Ranges come from one run and do not show how runs differ. {left_out}"),
        ..DotFigure::default()
    })
}

fn dots(name: String, latency: &Latency) -> DotRow {
    let us = |ns: u64| ns as f64 / 1e3;
    // With so few operations, the percentile equals the maximum.
    let (part, most) = match latency.count {
        100.. => ("99% ", latency.p99),
        10..100 => ("90% ", latency.p90),
        _ => ("", latency.p50),
    };
    let middle = duration(latency.p50);
    let most_of_them = if part.is_empty() { String::new() } else { format!(", {part}{}", duration(most)) };
    DotRow {
        group: String::new(),
        name,
        figures: format!("{middle}{most_of_them}, slowest {}", duration(latency.max)),
        mark: us(latency.p50),
        bar: (us(latency.p50), us(most)),
        line: (us(latency.min), us(latency.max)),
        points: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn each_operation_of_each_run_has_a_row_and_one_alone_no_figure() {
        let runs = fixture::databases(true);
        let figure = figure(&runs).unwrap();
        let rows = runs.iter().map(|named| workload(&named.run).len()).sum::<usize>();
        assert_eq!(figure.rows.len(), rows);
        assert!(
            figure.rows.iter().all(|row| row.line.0 <= row.mark && row.mark <= row.bar.1 && row.bar.1 <= row.line.1)
        );
        let mut one = fixture::redis_live();
        one.run.operations.truncate(1);
        assert!(super::figure(&[one]).is_none());
    }

    #[test]
    fn each_of_many_runs_has_a_row_as_long_as_there_is_room() {
        let mut long = fixture::redis_live();
        let row = workload(&long.run)[0].clone();
        long.run.operations = (0..40).map(|at| OperationRow { name: format!("CALL {at}"), ..row.clone() }).collect();
        let runs: Vec<NamedRun> = [0, 1, 2]
            .map(|at| NamedRun {
                name: format!("run {at}"),
                ..if at == 0 { long.clone() } else { fixture::redis_live() }
            })
            .into();
        let figure = figure(&runs).unwrap();
        assert!(figure.rows.len() <= RANGE_ROWS);
        for run in &runs {
            assert!(figure.rows.iter().any(|row| row.name.starts_with(&run.name)), "{}", run.name);
        }
        assert!(figure.note.contains("more operations are only in the table"), "{}", figure.note);
    }
}
