//! Estimates for the whole time from windows, each with its error.

use crate::document::Section;
use crate::grid::Grid;
use crate::number::{DASH, counted, duration, with_digits};
use crate::summary::ranked;
use overhead_model::record::{Estimate, Measured, RowEstimates, Sample};
use overhead_model::{Class, Run};

/// CSV names of a row's estimates.
pub(super) const FIGURES: [&str; 5] =
    ["per_second", "request_wire_bytes", "response_wire_bytes", "latency_ns", "error_share"];

/// Returns the estimates of a row in the order of [`FIGURES`].
pub(super) fn figures(row: &RowEstimates) -> [&Measured<Estimate>; 5] {
    [&row.per_second, &row.request_wire_bytes, &row.response_wire_bytes, &row.latency_ns, &row.error_share]
}

/// Returns the table with its notes, or `None` if there is no table.
pub(crate) fn section(run: &Run) -> Option<Section> {
    let span_ns = run.sample.as_ref()?.span_ns;
    let title = format!("Estimates for the whole {} (± is half the 95% interval)", duration(span_ns));
    Some(Section { title, table: grid(run)?, notes: lines(run) })
}

/// Returns how much of the time the windows cover, or `None` if the capture covered the whole time.
pub(super) fn coverage(run: &Run) -> Option<String> {
    let Sample { windows, window_ns, period_ns, covered_share, span_ns, cut_operations, .. } = run.sample.as_ref()?;
    let [window, period, span] = [window_ns, period_ns, span_ns].map(|ns| duration(*ns));
    let share = with_digits(covered_share * 100.0, 1);
    let cut = counted(*cut_operations, "operation");
    let cut = if *cut_operations > 0 { format!(", which cut {cut} at their ends") } else { String::new() };
    Some(format!("{} of {window}, one in each {period}: {share}% of {span}{cut}", counted(*windows, "window")))
}

/// Returns a run's table with a row per workload operation, or `None` if the capture covered all of the time.
fn grid(run: &Run) -> Option<Grid> {
    run.sample.as_ref()?;
    let headers = ["windows", "count", "ops/s", "request\nB/op", "response\nB/op", "latency\nµs", "errors\n%"];
    let workload: Vec<_> = ranked(run).into_iter().filter(|row| row.class == Class::Workload).collect();
    let shown = headers.len() - usize::from(workload.iter().all(|row| row.errors == 0));
    let cells = |name: &str, via: &str, sampled: &RowEstimates| {
        let figures = std::iter::once(&sampled.count)
            .chain(figures(sampled))
            .zip([1.0, 1.0, 1.0, 1.0, 1e-3, 100.0])
            .map(|(figure, by)| figure.value().map_or_else(|| DASH.to_owned(), |estimate| with_error(estimate, by)));
        let cells = [name.to_owned(), via.to_owned(), sampled.windows.to_string()].into_iter().chain(figures);
        cells.take(2 + shown).collect()
    };
    let rows = workload.into_iter().filter_map(|row| Some(cells(&row.name, &row.via, row.sampled.as_ref()?)));
    Grid::new(&["operation", "via"], headers.get(..shown)?, rows.collect()).if_any()
}

fn lines(run: &Run) -> Vec<String> {
    let Some(sample) = &run.sample else { return Vec::new() };
    let mut lines = Vec::new();
    for (what, total, rate) in [
        ("frames", &sample.frames, &sample.frames_per_second),
        ("bytes on the wire", &sample.wire_bytes, &sample.wire_bytes_per_second),
    ] {
        lines.push(match (total, rate) {
            (Measured::Value(total), Measured::Value(rate)) => {
                format!("{} {what}, {} a second", with_error(total, 1.0), with_error(rate, 1.0))
            }
            (Measured::Unavailable { unavailable }, _) | (_, Measured::Unavailable { unavailable }) => {
                format!("{what}: no estimate: {unavailable}")
            }
        });
    }
    let sampled =
        run.operations.iter().filter(|row| row.class == Class::Workload).filter_map(|row| row.sampled.as_ref());
    let mut reasons: Vec<&str> = sampled.flat_map(figures).filter_map(Measured::reason).collect();
    reasons.sort_unstable();
    reasons.dedup();
    lines.extend(reasons.into_iter().map(|reason| format!("{DASH}: {reason}")));
    lines.push("all other numbers cover only the windows; percentiles and extremes have no error".to_owned());
    lines
}

/// Formats an estimate and half its interval in another unit, with as many digits as the error justifies.
fn with_error(estimate: &Estimate, by: f64) -> String {
    let (value, error) = (estimate.value * by, (estimate.high - estimate.value) * by);
    // Show two digits of the error, and at most three decimal digits.
    let digits = if error > 0.0 { (1.0 - error.log10().floor()).clamp(0.0, 3.0) as usize } else { 1 };
    format!("{} ±{}", with_digits(value, digits), with_digits(error, digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_has_the_digits_that_its_error_leaves() {
        let estimate =
            |value, error: f64| Estimate { value, standard_error: error / 2.0, low: 0.0, high: value + error };
        for (value, error, by, text) in [
            (12_345.678, 321.4, 1.0, "12,346 ±321"),
            (102.25, 0.127, 1.0, "102.25 ±0.13"),
            (26_300.0, 1_200.0, 1e-3, "26.3 ±1.2"),
            (102.0, 0.0, 1.0, "102.0 ±0.0"),
            (0.002, 0.000_004, 100.0, "0.200 ±0.000"),
        ] {
            assert_eq!(with_error(&estimate(value, error), by), text);
        }
    }
}
