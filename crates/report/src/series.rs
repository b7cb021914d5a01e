//! Number and latency of a run's operations over time.

use crate::aggregate::Values;
use crate::figure::{Band, LineFigure, TimeAxis, only_in_table};
use crate::grid::{Column, Grid};
use crate::limits::{SERIES_LEAST, SERIES_STEP_NS, SERIES_STEPS};
use crate::number::{DASH, duration, grouped, microseconds, with_digits};
use overhead_model::Spread;

/// Maximum lines in a chart: one per colour.
const LINES: usize = 8;

pub(crate) const NAMES: [&str; 2] = ["rate-over-time", "latency-over-time"];

/// Operations of a run's workload in equal time steps from its first frame.
#[derive(Clone, Debug, Default)]
pub struct RunSeries {
    /// Run name; empty if there is only one run.
    pub run: String,
    /// Time skipped before the first frame.
    pub warmup_ns: u64,
    step_ns: u64,
    first_ns: u64,
    length_ns: u64,
    steps: Vec<SeriesStep>,
}

#[derive(Clone, Debug, Default)]
struct SeriesStep {
    operations: u64,
    latencies: Values,
}

impl RunSeries {
    /// Creates a series for frames from `first_ns` to `last_ns` (Unix nanoseconds), in steps of [`RunSeries::step_ns`].
    pub fn new(run: &str, first_ns: u64, last_ns: u64, step_ns: u64) -> Self {
        let (length_ns, step_ns) = (last_ns.saturating_sub(first_ns), step_ns.max(1));
        let steps = (length_ns / step_ns + 1).min(SERIES_STEPS as u64);
        let steps = vec![SeriesStep::default(); usize::try_from(steps).unwrap_or(SERIES_STEPS)];
        Self { run: run.to_owned(), warmup_ns: 0, step_ns, first_ns, length_ns, steps }
    }

    /// Returns a step of 1, 2 or 5 times a power of ten, at least [`SERIES_STEP_NS`], that divides a run of this length into at
    /// most [`SERIES_STEPS`] steps.
    pub fn step_ns(length_ns: u64) -> u64 {
        let powers = (SERIES_STEP_NS.ilog10()..19).map(|power| 10_u64.pow(power));
        let all = powers.flat_map(|power| [1, 2, 5].map(|digit| power.saturating_mul(digit)));
        all.into_iter().find(|step| length_ns / step < SERIES_STEPS as u64).unwrap_or(u64::MAX)
    }

    /// Adds an operation by its start time; ignores those outside the run.
    pub fn add(&mut self, start_ns: u64, latency_ns: Option<u64>) {
        let at = start_ns.checked_sub(self.first_ns).map(|after| after / self.step_ns);
        let Some(step) = at.and_then(|at| self.steps.get_mut(usize::try_from(at).ok()?)) else { return };
        step.operations += 1;
        if let Some(latency_ns) = latency_ns {
            step.latencies.record(latency_ns, 1);
        }
    }

    /// Returns whether a chart is useful: some operations and enough steps to see a course.
    fn has_shape(&self) -> bool {
        self.steps.len() > SERIES_LEAST && self.steps.iter().any(|step| step.operations > 0)
    }

    /// Returns how much of a step the run covers.
    fn covered_ns(&self, at: usize) -> u64 {
        self.length_ns.saturating_sub(at as u64 * self.step_ns).min(self.step_ns)
    }

    /// Returns a step's operations per second, or `None` for a last step that is too short.
    fn rate(&self, at: usize) -> Option<f64> {
        let covered = self.covered_ns(at);
        (covered * 2 >= self.step_ns).then(|| self.steps[at].operations as f64 * 1e9 / covered as f64)
    }

    /// Returns a latency quantile of a step, in µs.
    fn latency(&self, at: usize, per_10_000: u64) -> Option<f64> {
        let latencies = &self.steps[at].latencies;
        (latencies.count() > 0).then(|| latencies.quantiles([per_10_000])[0] as f64 / 1e3)
    }

    fn line(&self, of: impl Fn(usize) -> Option<f64>, steps: usize) -> Vec<Option<Spread>> {
        (0..steps).map(|at| if at < self.steps.len() { of(at).map(Spread::from) } else { None }).collect()
    }
}

/// Returns the charts of these runs, without empty ones.
pub(crate) fn figures(all: &[RunSeries]) -> Vec<(&'static str, LineFigure)> {
    let shown: Vec<&RunSeries> = all.iter().filter(|series| series.has_shape()).collect();
    if shown.is_empty() {
        return Vec::new();
    }
    let figures = [rates(&shown), latencies(&shown)];
    let has_values = |figure: &LineFigure| figure.lines.iter().flat_map(|(_, values)| values).any(Option::is_some);
    NAMES.into_iter().zip(figures).filter(|(_, figure)| has_values(figure)).collect()
}

fn steps(shown: &[&RunSeries]) -> usize {
    shown.iter().map(|series| series.steps.len()).max().unwrap_or(0)
}

fn name_of(series: &RunSeries) -> String {
    if series.run.is_empty() { "workload".to_owned() } else { series.run.clone() }
}

fn rates(shown: &[&RunSeries]) -> LineFigure {
    let steps = steps(shown);
    let lines = shown.iter().take(LINES);
    LineFigure {
        title: "Operations per second over time".to_owned(),
        description: "Lines: how many operations of the workload started in each part of the run's time.".to_owned(),
        y_title: "operations per second".to_owned(),
        lines: lines.map(|series| (name_of(series), series.line(|at| series.rate(at), steps))).collect(),
        ..over_time(shown)
    }
}

/// Draws median, 99th percentile and slowest for one run, or the median of each for several.
fn latencies(shown: &[&RunSeries]) -> LineFigure {
    let steps = steps(shown);
    let (lines, what) = match shown {
        [one] => {
            // Skip a percentile that, with so few operations, equals their maximum.
            let named = [("50%", 5_000, 1), ("99%", 9_900, 100), ("slowest", 10_000, 1)];
            let has = |at: usize, least: u64| one.steps[at].latencies.count() >= least;
            let line = |of: u64, least: u64| one.line(|at| one.latency(at, of).filter(|_| has(at, least)), steps);
            let lines = named.map(|(name, of, least)| (name.to_owned(), line(of, least)));
            let drawn = lines.into_iter().filter(|(_, values)| values.iter().any(Option::is_some));
            (drawn.collect(), "µs, logarithmic")
        }
        several => {
            let line = |series: &&RunSeries| (name_of(series), series.line(|at| series.latency(at, 5_000), steps));
            (several.iter().take(LINES).map(line).collect(), "median µs, logarithmic")
        }
    };
    LineFigure {
        title: "Latency over time".to_owned(),
        description: "Lines: how long the operations took that started in each part of the run's time.".to_owned(),
        y_title: what.to_owned(),
        logarithmic: true,
        lines,
        ..over_time(shown)
    }
}

/// Returns a chart without lines: a time axis with the skipped time at its start.
fn over_time(shown: &[&RunSeries]) -> LineFigure {
    let step_ns = shown.iter().map(|series| series.step_ns).max().unwrap_or(1);
    let length_ns = shown.iter().map(|series| series.length_ns).max().unwrap_or(0);
    // Draw a warm-up only if it is common to all runs; otherwise the note gives its lengths.
    let common = shown.first().map(|first| first.warmup_ns).filter(|ns| shown.iter().all(|it| it.warmup_ns == *ns));
    let warmup_ns = common.unwrap_or(0);
    let seconds = |ns: u64| ns as f64 / 1e9;
    let (from, to) = (-seconds(warmup_ns), seconds(length_ns.max(1)));
    let bands = if warmup_ns > 0 {
        let length = duration(warmup_ns);
        vec![Band { from, to: 0.0, name: format!("warm-up, {length}: left out") }]
    } else {
        Vec::new()
    };
    let places = (0..steps(shown)).map(|at| at as f64 * seconds(step_ns) + seconds(step_ns) / 2.0);
    LineFigure {
        x_title: "seconds since the first frame that counts".to_owned(),
        places: vec![String::new(); steps(shown)],
        positions: places.map(|at| at.min(to)).collect(),
        time: Some(TimeAxis { from, to, bands }),
        method: format!(
            "Each step is {}, and an operation belongs to the one that its request started in.",
            duration(step_ns)
        ),
        note: note(shown),
        ..LineFigure::default()
    }
}

fn note(shown: &[&RunSeries]) -> String {
    let left_out = only_in_table(shown.len().saturating_sub(LINES), "run");
    let warmup = match shown {
        [one] if one.warmup_ns == 0 => {
            " No warm-up was left out (capture --warmup T does): all numbers include the first steps.".to_owned()
        }
        [one] => format!(" The {} before it were left out as warm-up.", duration(one.warmup_ns)),
        _ => {
            let own = shown.iter().filter(|series| series.warmup_ns > 0);
            let own: Vec<String> =
                own.map(|series| format!("{} {}", name_of(series), duration(series.warmup_ns))).collect();
            if own.is_empty() { String::new() } else { format!(" Left out as warm-up: {}.", own.join(", ")) }
        }
    };
    let window: Vec<String> = shown
        .iter()
        .take(LINES)
        .map(|series| {
            let window = duration(series.length_ns);
            if series.run.is_empty() { window } else { format!("{} {window}", series.run) }
        })
        .collect();
    format!("Window, from the first frame to the last: {}.{warmup} {left_out}", window.join(", "))
}

/// Returns the series as a table with a row per step and run.
pub(crate) fn grid(all: &[RunSeries]) -> Option<Grid> {
    let shown: Vec<&RunSeries> = all.iter().filter(|series| series.has_shape()).collect();
    let several = shown.iter().any(|series| !series.run.is_empty());
    let columns = ["from s", "operations", "per second", "p50 µs", "p99 µs", "max µs"].map(Column::right);
    let run = several.then(|| Column::left("run"));
    let row = |series: &RunSeries, at: usize| {
        let step = &series.steps[at];
        let digits = if series.step_ns < 1_000_000_000 { (9 - series.step_ns.ilog10()) as usize } else { 0 };
        let from = with_digits((at as u64 * series.step_ns) as f64 / 1e9, digits);
        let mut cells: Vec<String> = several.then(|| series.run.clone()).into_iter().collect();
        cells.extend([from, grouped(step.operations)]);
        cells.push(series.rate(at).map_or_else(|| DASH.to_owned(), |rate| grouped(rate.round() as u64)));
        let has_latency = step.latencies.count() > 0;
        let latencies = step.latencies.quantiles([5_000, 9_900, 10_000]);
        cells.extend(latencies.map(|ns| if has_latency { microseconds(ns) } else { DASH.to_owned() }));
        cells
    };
    let rows = shown.iter().flat_map(|series| (0..series.steps.len()).map(|at| row(series, at)));
    Grid { columns: run.into_iter().chain(columns).collect(), rows: rows.collect(), keys: 1 }.if_any()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hundredth of the run.
    const PART: u64 = 50_000_000;

    /// Returns a run of 5 s: nothing in its second step, and slow at its end.
    fn series() -> RunSeries {
        let step_ns = RunSeries::step_ns(100 * PART);
        let mut series = RunSeries::new("", 1_000, 1_000 + 100 * PART, step_ns);
        for at in 0..100 {
            let start_ns = 1_000 + at * PART;
            if !(2..4).contains(&at) {
                series.add(start_ns, Some(if at < 90 { 100_000 } else { 900_000 }));
            }
        }
        series.add(999, None);
        series.add(1_000 + 500 * PART, None);
        series
    }

    #[test]
    fn steps_are_round_and_no_more_than_there_is_room_for() {
        assert_eq!(RunSeries::step_ns(400_000_000), SERIES_STEP_NS);
        for length in [1, 59, 60, 61, 999, 100 * PART, 1_234_567_890, 86_400_000_000_000, u64::MAX] {
            let step = RunSeries::step_ns(length);
            assert!(length / step < SERIES_STEPS as u64, "{length}: {step}");
            let is_shortest = step == SERIES_STEP_NS;
            assert!(is_shortest || length / step >= SERIES_STEPS as u64 / 3, "{length}: {step}");
        }
    }

    #[test]
    fn each_operation_is_in_the_step_that_it_began_in_and_none_outside() {
        let series = series();
        assert_eq!(series.step_ns, 2 * PART);
        let counts: Vec<u64> = series.steps.iter().map(|step| step.operations).collect();
        assert_eq!((counts.iter().sum::<u64>(), counts[0], counts[1], counts.len()), (98, 2, 0, 51));
        assert_eq!((series.rate(0), series.rate(1), series.rate(50)), (Some(20.0), Some(0.0), None));
        assert_eq!(series.latency(1, 5_000), None, "no latency is not a latency of zero");
        let grid = grid(&[series]).unwrap();
        assert_eq!(grid.rows[0], ["0.0", "2", "20", "100.0", "100.0", "100.0"]);
        assert_eq!(grid.rows[1], ["0.1", "0", "0", "-", "-", "-"]);
    }

    #[test]
    fn a_warm_up_stands_before_the_window() {
        let mut series = series();
        assert!(figures(std::slice::from_ref(&series))[0].1.note.contains("No warm-up was left out"));
        series.warmup_ns = 20 * PART;
        let figures = figures(&[series]);
        assert_eq!(figures.iter().map(|(name, _)| *name).collect::<Vec<_>>(), NAMES);
        let axis = figures[0].1.time.as_ref().unwrap();
        assert_eq!((axis.from, axis.to, axis.bands.len()), (-1.0, 5.0, 1));
        let names: Vec<&str> = figures[1].1.lines.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["50%", "slowest"], "no step has a hundred operations");
    }

    #[test]
    fn several_runs_have_a_line_each_and_one_without_operations_none() {
        let named = |name: &str| RunSeries { run: name.to_owned(), ..series() };
        let none = RunSeries::new("empty", 0, 100 * PART, 2 * PART);
        let figures = figures(&[named("a"), named("b"), none]);
        assert!(figures.iter().all(|(_, figure)| figure.lines.len() == 2));
        assert!(figures[0].1.positions.windows(2).all(|pair| pair[0] <= pair[1]));
        assert!(super::figures(&[RunSeries::new("", 0, 0, 1)]).is_empty());
        assert!(grid(&[]).is_none());
    }
}
