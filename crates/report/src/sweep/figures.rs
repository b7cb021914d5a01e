//! Charts of a sweep: panels of each quantity against the key of the horizontal axis, with a line per system.

use super::axes::Key;
use super::summary::{Sweep, SweepOperation, SweepPoint, SweepWork};
use crate::figure::{PanelFigure, PanelLine, PanelPoint, PlotPanel, left_out};
use crate::latencies::MEASURED;
use crate::limits::{FIGURE_COMMON, PANEL_BOUNDS};
use crate::summary::{RoleName, RunMix, distinct, is_one_mix, listed};
use crate::sums::kind;
use crate::text::distribution::{self, bounds, count_within};
use overhead_model::record::{CycleSource, Within};
use overhead_model::{Account, Amounts, Measured, Spread};

/// A chart and its file name.
pub(super) type NamedFigure = (&'static str, PanelFigure);

/// A row of panels: its name, and the quantity.
type PanelRow<'s> = (String, Box<dyn Fn(&SweepPoint) -> Option<Spread> + 's>);

const METHOD: &str = "Points are medians over the runs of a combination, bars reach from the first to the third quartile, thin \
lines from the smallest to the largest. A hollow point has an incomplete run. A line without points is of runs that do not \
have the parameter. Axes are logarithmic if they cover more than a factor of ten.";

/// Panels beside each other without a key of their own.
const SIDE_BY_SIDE: usize = 2;

/// Ratio of the stacks in a row above which each has a row of its own.
const UNLIKE: f64 = 8.0;

/// Returns the charts that have measurements, the whole cost first.
pub(super) fn figures(sweep: &Sweep) -> Vec<NamedFigure> {
    let curves = SweepCurves::new(sweep);
    let mut all = vec![("bytes", curves.bytes()), ("accounts", curves.accounts())];
    all.push(("operations", curves.operations()));
    all.push((
        "round-trips",
        curves.whole("Round trips", "round trips per operation", |point| &point.total.round_trips),
    ));
    if has_one_mix(sweep) {
        all.push(("frames", curves.whole("Frames", "frames per operation", |point| &point.total.frames)));
        all.extend([("calls", curves.calls()), ("cpu", curves.cpu()), ("rate", curves.rate())]);
    }
    all.extend([("latency", curves.latency()), ("distribution", curves.distribution())]);
    all.into_iter().filter_map(|(name, figure)| Some((name, figure?))).collect()
}

/// Returns whether all points have the same operations in the same proportions, so that charts over all operations compare like
/// with like.
pub(super) fn has_one_mix(sweep: &Sweep) -> bool {
    let mix = |point: &SweepPoint| -> RunMix {
        let of = |one: &SweepOperation| (kind(&one.name).to_owned(), (Amounts::default(), one.count.median as u64));
        common(point).map(of).collect()
    };
    let points = sweep.points.iter().filter(|point| !point.operations.is_empty());
    is_one_mix(&points.map(mix).collect::<Vec<_>>())
}

/// Returns the frequent operations of a point, and those with at least one in `negligible` of its bytes.
pub(super) fn notable(point: &SweepPoint, negligible: u64) -> impl Iterator<Item = &SweepOperation> {
    let bytes: f64 = point.operations.iter().map(total_bytes).sum();
    let count: f64 = point.operations.iter().map(|operation| operation.count.median).sum();
    point.operations.iter().filter(move |operation| {
        total_bytes(operation) * negligible as f64 >= bytes || operation.count.median * FIGURE_COMMON as f64 >= count
    })
}

/// Returns the operations that a point is about. A benchmark's initial query is none.
fn common(point: &SweepPoint) -> impl Iterator<Item = &SweepOperation> {
    notable(point, FIGURE_COMMON)
}

/// Returns the kinds of operations, with the names that the systems give them (`GET or SELECT`).
pub(super) fn kinds(sweep: &Sweep) -> Vec<(&str, String)> {
    let all: Vec<&str> = sweep.points.iter().flat_map(common).map(|operation| &*operation.name).collect();
    let names = |of: &str| {
        let mut names: Vec<&str> = Vec::new();
        for name in all.iter().filter(|name| kind(name) == of) {
            if !names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                names.push(name);
            }
        }
        names.join(" or ")
    };
    distinct(all.iter().map(|name| kind(name))).into_iter().map(|kind| (kind, names(kind))).collect()
}

fn total_bytes(operation: &SweepOperation) -> f64 {
    operation.wire_bytes.median * operation.count.median
}

/// Returns the operation of this kind at a point; of several ways of sending, the one with the most bytes.
fn at<'p>(point: &'p SweepPoint, of: &str) -> Option<&'p SweepOperation> {
    point.operations.iter().find(|operation| kind(&operation.name) == of)
}

/// The places, lines and panels that all charts of a sweep share.
pub(super) struct SweepCurves<'s> {
    sweep: &'s Sweep,
    /// Values of the horizontal axis.
    pub places: Vec<String>,
    /// Values of the keys of each line.
    pub series: Vec<&'s [Option<String>]>,
    /// Values of the panels' key; one empty value without such a key.
    pub facets: Vec<String>,
}

impl<'s> SweepCurves<'s> {
    pub fn new(sweep: &'s Sweep) -> Self {
        let count = sweep.keys.series.len();
        let values = |key: &Option<Key>| key.as_ref().map_or_else(|| vec![String::new()], |key| key.values.clone());
        Self {
            series: distinct(sweep.points.iter().map(|point| &point.values[..count])),
            facets: values(&sweep.keys.facet),
            places: values(&sweep.keys.x),
            sweep,
        }
    }

    /// Returns the name of a line, such as `Redis 7.0.15, c = 16`; empty if there is only one.
    pub fn name(&self, series: &[Option<String>]) -> String {
        let shown = |(key, value): (&Key, &Option<String>)| Some(key.shown(value.as_ref()?));
        self.sweep.keys.series.iter().zip(series).filter_map(shown).collect::<Vec<_>>().join(", ")
    }

    fn facet_name(&self, facet: &str) -> String {
        self.sweep.keys.facet.as_ref().map_or_else(String::new, |key| key.shown(facet))
    }

    /// Returns the points of a line in a panel. A run without the panels' key belongs to all of them.
    fn points(&self, series: &'s [Option<String>], facet: &str) -> impl Iterator<Item = &'s SweepPoint> {
        let (count, has_facet) = (series.len(), self.sweep.keys.facet.is_some());
        let facet = facet.to_owned();
        self.sweep.points.iter().filter(move |point| {
            let is_here = |value: &Option<String>| value.as_ref().is_none_or(|value| *value == facet);
            point.values.get(..count) == Some(series) && (!has_facet || point.values.get(count).is_none_or(is_here))
        })
    }

    /// Returns the point at a place; `None` if nothing was measured there.
    pub fn point(&self, series: &'s [Option<String>], facet: &str, place: &str) -> Option<&'s SweepPoint> {
        let has_x = self.sweep.keys.x.is_some();
        let is_here =
            |point: &&SweepPoint| !has_x || point.values.last().is_some_and(|of| of.as_deref() == Some(place));
        self.points(series, facet).find(is_here)
    }

    /// Returns the runs of a line that do not have the key of the horizontal axis.
    pub fn level(&self, series: &'s [Option<String>], facet: &str) -> Option<&'s SweepPoint> {
        let is_level = |point: &&SweepPoint| self.sweep.keys.x.is_some() && point.values.last() == Some(&None);
        self.points(series, facet).find(is_level)
    }

    fn line(&self, at: usize, facet: &str, metric: &dyn Fn(&SweepPoint) -> Option<Spread>) -> PanelLine {
        let series = self.series[at];
        let point = |place: &String| {
            let point = self.point(series, facet, place)?;
            Some(PanelPoint { spread: metric(point)?, is_incomplete: point.doubt().is_some() })
        };
        let level = self.level(series, facet).and_then(metric).map(|spread| spread.median);
        PanelLine { series: at, points: self.places.iter().map(point).collect(), level }
    }

    /// Returns a panel for each row, each five lines and each value of the panels' key; `None` without a measurement.
    fn figure(&self, title: &str, y_title: &str, said: &str, rows: &[PanelRow<'_>]) -> Option<PanelFigure> {
        let mut series: Vec<usize> = (0..self.series.len()).collect();
        let more = left_out(&mut series, "line");
        let mut panels = Vec::new();
        for (row, metric) in rows {
            let lines = |facet: &String| series.iter().map(|at| self.line(*at, facet, metric)).collect::<Vec<_>>();
            let all: Vec<Vec<PanelLine>> = self.facets.iter().map(lines).collect();
            let is_drawn = |line: &PanelLine| line.level.is_some() || line.points.iter().any(Option::is_some);
            let drawn: Vec<usize> =
                (0..series.len()).filter(|at| all.iter().any(|lines| is_drawn(&lines[*at]))).collect();
            for chunk in drawn.chunks(PlotPanel::LINES) {
                panels.extend(self.facets.iter().zip(&all).map(|(facet, lines)| PlotPanel {
                    name: joined(row, &self.facet_name(facet)),
                    lines: chunk.iter().map(|at| lines[*at].clone()).collect(),
                    ..PlotPanel::default()
                }));
            }
        }
        // Without a key of the panels, the rows stand side by side.
        let columns = if self.facets.len() > 1 { self.facets.len() } else { panels.len().min(SIDE_BY_SIDE) };
        (!panels.is_empty()).then(|| PanelFigure {
            series: series.iter().map(|at| self.name(self.series[*at])).collect(),
            columns,
            note: [said, &self.doubts(), &more]
                .into_iter()
                .filter(|text| !text.is_empty())
                .collect::<Vec<_>>()
                .join(" "),
            panels,
            ..self.titled(title, y_title)
        })
    }

    fn titled(&self, title: &str, y_title: &str) -> PanelFigure {
        let x_title = self.sweep.keys.x.as_ref().map_or_else(String::new, |key| key.name.clone());
        PanelFigure {
            title: title.to_owned(),
            description: format!("Panels of {y_title}, against {x_title}; the table has the values."),
            x_title,
            y_title: y_title.to_owned(),
            places: self.places.clone(),
            method: METHOD.to_owned(),
            ..PanelFigure::default()
        }
    }

    /// Returns why points are hollow.
    fn doubts(&self) -> String {
        let doubts: Vec<String> = distinct(self.sweep.points.iter().filter_map(SweepPoint::doubt));
        if doubts.is_empty() { String::new() } else { format!("Hollow: {}.", listed(&doubts)) }
    }

    fn bytes(&self) -> Option<PanelFigure> {
        let said = "The whole cost: everything on the connections, in both directions, with headers, acknowledgments and \
                    setup, per operation of the workload.";
        let row: PanelRow<'_> = (String::new(), Box::new(|point| point.total.wire_bytes.value().copied()));
        self.figure("Bytes per operation", "B on the wire per operation", said, &[row])
    }

    fn whole(&self, title: &str, y_title: &str, figure: fn(&SweepPoint) -> &Measured<Spread>) -> Option<PanelFigure> {
        let row: PanelRow<'_> = (String::new(), Box::new(move |point| figure(point).value().copied()));
        let said = "Everything on the connections, setup included, per operation of the workload.";
        self.figure(&format!("{title} per operation"), y_title, said, &[row])
    }

    /// Draws a row of panels for each value of the panels' key, and a column for each line.
    fn accounts(&self) -> Option<PanelFigure> {
        let panel = |facet: &String, series: &'s [Option<String>]| {
            let stack = |place: &String| self.point(series, facet, place).map(|point| point.total.accounts.clone());
            PlotPanel {
                name: joined(&self.name(series), &self.facet_name(facet)),
                bands: self.places.iter().map(|place| stack(place).unwrap_or_default()).collect(),
                level: self.level(series, facet).map(|point| point.total.accounts.clone()).unwrap_or_default(),
                ..PlotPanel::default()
            }
        };
        let is_drawn = |series: &&'s [Option<String>]| {
            self.facets.iter().any(|facet| panel(facet, series).stacks().next().is_some())
        };
        let mut drawn: Vec<&[Option<String>]> = self.series.iter().copied().filter(is_drawn).collect();
        let more = left_out(&mut drawn, "system");
        let panels: Vec<PlotPanel> =
            self.facets.iter().flat_map(|facet| drawn.iter().map(move |series| panel(facet, series))).collect();
        // A row has one axis, on which a hundredth of it would not be visible.
        let highest = |panel: &PlotPanel| panel.stacks().map(|stack| total(stack)).fold(0.0, f64::max);
        let is_alike = panels.chunks(drawn.len().max(1)).all(|row| {
            let tops = || row.iter().map(highest).filter(|top| *top > 0.0);
            tops().fold(0.0, f64::max) <= tops().fold(f64::INFINITY, f64::min) * UNLIKE
        });
        let said = "The whole cost by account, of the run with the median sum, from a linear axis of each row; above, the sum. Grey is \
                    frame headers, red frames without payload and repeats, blue to green the protocol, amber your own data.";
        (!panels.is_empty()).then(|| PanelFigure {
            columns: if is_alike { drawn.len() } else { 1 },
            panels,
            note: format!("{said} {more}").trim_end().to_owned(),
            method: String::new(),
            ..self.titled("Bytes by account", "B on the wire per operation, by account")
        })
    }

    /// Draws the bytes of each operation, if there are several.
    fn operations(&self) -> Option<PanelFigure> {
        let kinds = kinds(self.sweep);
        let row = |(of, names): &(&'s str, String)| -> PanelRow<'s> {
            let of = *of;
            (names.clone(), Box::new(move |point| Some(at(point, of)?.wire_bytes)))
        };
        let said = "The operations' own bytes, in both directions, with headers and acknowledgments. Of several ways of \
                    sending, the one with the most bytes.";
        let rows: Vec<PanelRow<'_>> = kinds.iter().map(row).collect();
        if rows.len() < 2 {
            return None;
        }
        self.figure("Bytes by operation", "B on the wire per operation", said, &rows)
    }

    fn calls(&self) -> Option<PanelFigure> {
        let said = "All system calls of a role's processes over all workload operations.";
        let rows = roles(|work| &work.syscalls, 1.0);
        self.figure("System calls per operation", "calls per operation", said, &rows)
    }

    /// Draws cycles if the hardware counts them everywhere, otherwise CPU time, whose unit differs from that of reference cycles.
    fn cpu(&self) -> Option<PanelFigure> {
        let works = self.sweep.points.iter().flat_map(|point| &point.total.work);
        let sources: Vec<CycleSource> = works.filter_map(|work| work.cycles_source).collect();
        let said = "In user mode and in the kernel, of all of a role's processes, over all workload operations.";
        if !sources.is_empty() && sources.iter().all(|source| *source == CycleSource::Hardware) {
            let rows = roles(|work| &work.cycles, 1e-3);
            return self.figure("CPU cycles per operation", "thousand hardware cycles per operation", said, &rows);
        }
        let y_title = "µs on a CPU per operation (no hardware cycles were counted)";
        self.figure("CPU time per operation", y_title, said, &roles(|work| &work.on_cpu_ns, 1e-3))
    }

    /// Draws the rate on the wire, and those that the command reported.
    fn rate(&self) -> Option<PanelFigure> {
        let reported = self.sweep.points.iter().flat_map(|point| &point.reported);
        let tests = distinct(reported.map(|test| (&*test.program, &*test.name)));
        let name = if tests.is_empty() { "" } else { "on the wire" };
        let wire: PanelRow<'_> = (name.to_owned(), Box::new(|point| point.total.per_second.value().copied()));
        let of = |(program, name): (&'s str, &'s str)| -> PanelRow<'s> {
            let is_it = move |test: &&super::summary::SweepReported| test.program == program && test.name == name;
            let metric = move |point: &SweepPoint| point.reported.iter().find(is_it)?.per_second.value().copied();
            (format!("{program} {name}, as it prints"), Box::new(metric))
        };
        let rows: Vec<PanelRow<'_>> = std::iter::once(wire).chain(tests.into_iter().map(of)).collect();
        let said = "On the wire: all workload operations from the first frame to the last, under the capture, which takes \
                    CPU time of its own.";
        self.figure("Operations per second", "operations per second", said, &rows)
    }

    /// Draws two percentiles of each operation.
    fn latency(&self) -> Option<PanelFigure> {
        let kinds = kinds(self.sweep);
        let row = |(of, names): &(&'s str, String), (name, at_index): (&str, usize)| -> PanelRow<'s> {
            let of = *of;
            let name = if kinds.len() > 1 { joined(names, name) } else { name.to_owned() };
            (name, Box::new(move |point| Some(at(point, of)?.latency_ns[at_index].value()?.times(1e-3))))
        };
        let percentiles = [("median", 0), ("99th percentile", 2)];
        let rows: Vec<PanelRow<'_>> =
            kinds.iter().flat_map(|kind| percentiles.map(|percentile| row(kind, percentile))).collect();
        self.figure("Latency", "µs per operation", MEASURED, &rows)
    }

    /// Draws the share of operations that took no longer than some lengths of time: a line for each place.
    fn distribution(&self) -> Option<PanelFigure> {
        let kinds = kinds(self.sweep);
        let within =
            |point: &'s SweepPoint, of: &str| at(point, of).map(|of| &*of.latency_within).filter(|of| !of.is_empty());
        let all = kinds.iter().flat_map(|(of, _)| self.sweep.points.iter().filter_map(|point| within(point, of)));
        let limits = bounds(&all.collect::<Vec<_>>(), PANEL_BOUNDS);
        let share = |row: &[Within], ns: u64| {
            let all = row.last().filter(|last| last.count > 0)?.count;
            let share: Spread = (count_within(row, ns) as f64 / all as f64 * 100.0).into();
            Some(PanelPoint { spread: share, is_incomplete: false })
        };
        let mut places = self.places.clone();
        let step = places.len().div_ceil(PlotPanel::LINES);
        places = places.into_iter().step_by(step).collect();
        let mut panels = Vec::new();
        for ((of, names), series) in kinds.iter().flat_map(|kind| self.series.iter().map(move |series| (kind, series)))
        {
            let panel = |facet: &String| {
                let line = |(series_at, place): (usize, &String)| {
                    let row = within(self.point(series, facet, place)?, of)?;
                    let points = limits.iter().map(|ns| share(row, *ns)).collect();
                    Some(PanelLine { series: series_at, points, level: None })
                };
                let name = if kinds.len() > 1 { joined(names, &self.name(series)) } else { self.name(series) };
                PlotPanel {
                    name: joined(&name, &self.facet_name(facet)),
                    lines: places.iter().enumerate().filter_map(line).collect(),
                    ..PlotPanel::default()
                }
            };
            let row: Vec<PlotPanel> = self.facets.iter().map(panel).collect();
            if row.iter().any(|panel| !panel.lines.is_empty()) {
                panels.extend(row);
            }
        }
        (!panels.is_empty()).then(|| PanelFigure {
            places: limits.iter().map(|ns| distribution::bound(*ns)).collect(),
            x_title: "took no longer than".to_owned(),
            series: places
                .iter()
                .map(|place| self.sweep.keys.x.as_ref().map_or_else(String::new, |key| key.shown(place)))
                .collect(),
            columns: if self.facets.len() > 1 { self.facets.len() } else { panels.len().min(SIDE_BY_SIDE) },
            panels,
            note: format!("All runs of a combination together. {MEASURED}"),
            method: String::new(),
            ..self.titled(distribution::TITLE, "% of operations")
        })
    }
}

/// Returns a row of panels for each role.
fn roles<'s>(figure: fn(&SweepWork) -> &Measured<Spread>, factor: f64) -> Vec<PanelRow<'s>> {
    let row = |(at, role): (usize, RoleName)| -> PanelRow<'s> {
        let metric = move |point: &SweepPoint| Some(figure(&point.total.work[at]).value()?.times(factor));
        (role.name().to_owned(), Box::new(metric))
    };
    RoleName::ALL.into_iter().enumerate().map(row).collect()
}

fn total(stack: &[(Account, f64)]) -> f64 {
    stack.iter().map(|(_, bytes)| bytes).sum()
}

/// Joins two names, of which either may be empty.
fn joined(first: &str, second: &str) -> String {
    [first, second].into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join(", ")
}
