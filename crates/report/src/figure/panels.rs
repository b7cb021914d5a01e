//! Small multiples: panels with shared axes, each with lines, or with bytes by account as bands.

use super::PlotStyle;
use super::axis::{Axis, quantity};
use super::caption;
use super::font::Weight;
use super::layout::{CAPTION_LEADING, MARGIN, TICK, UNIT, head, legend, paragraphs};
use super::lines::{PlotField, THICKNESS, grid, whisker};
use super::palette::{self, AXIS, INK, PAPER, Rgb};
use super::scene::{Anchor, Face, Scene};
use crate::error::ReportError;
use crate::number::bytes_label;
use overhead_model::{Account, Spread};

/// A chart of panels, row by row. Lines share both axes; bands share the axes of their row.
#[derive(Clone, Debug, Default)]
pub struct PanelFigure {
    /// Heading; files add the systems in front.
    pub title: String,
    /// Text alternative for readers who cannot see the chart.
    pub description: String,
    /// Title of the horizontal axis.
    pub x_title: String,
    /// The quantity with its unit.
    pub y_title: String,
    /// Values of the horizontal axis. Numbers are drawn to scale, words side by side.
    pub places: Vec<String>,
    /// Names of the lines, in the order of their colours.
    pub series: Vec<String>,
    /// The panels, row by row.
    pub panels: Vec<PlotPanel>,
    /// Panels in a row, if the width permits.
    pub columns: usize,
    /// How to read the chart. A page prints equal texts once.
    pub method: String,
    /// Note on what is drawn, printed below the chart.
    pub note: String,
    /// Width and background.
    pub style: PlotStyle,
}

/// A panel with at most [`PlotPanel::LINES`] lines, or with bands.
#[derive(Clone, Debug, Default)]
pub struct PlotPanel {
    /// Heading; empty for a single panel.
    pub name: String,
    /// Lines, in any order.
    pub lines: Vec<PanelLine>,
    /// Bytes by account at each place, in stack order; empty at places without a measurement.
    pub bands: Vec<Vec<(Account, f64)>>,
    /// Bytes by account that belong to no place, drawn across the panel; empty without any.
    pub level: Vec<(Account, f64)>,
}

/// A line of a panel.
#[derive(Clone, Debug, Default)]
pub struct PanelLine {
    /// Index in [`PanelFigure::series`].
    pub series: usize,
    /// A point per place that was measured.
    pub points: Vec<Option<PanelPoint>>,
    /// A value that belongs to no place, drawn without points.
    pub level: Option<f64>,
}

/// A measured value over repeated runs, drawn at its median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PanelPoint {
    /// The value.
    pub spread: Spread,
    /// Whether a run behind it is incomplete: the point is hollow.
    pub is_incomplete: bool,
}

impl PlotPanel {
    /// Maximum lines in a panel: more cannot be told apart.
    pub const LINES: usize = 5;

    /// Returns the stacks that have bytes.
    pub(crate) fn stacks(&self) -> impl Iterator<Item = &Vec<(Account, f64)>> {
        self.bands.iter().chain([&self.level]).filter(|stack| !stack.is_empty())
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        let points = self.lines.iter().flat_map(|line| line.points.iter().flatten());
        let points = points.flat_map(|point| [point.spread.median, point.spread.min, point.spread.max]);
        points.chain(self.lines.iter().filter_map(|line| line.level)).chain(self.stacks().map(|stack| sum(stack)))
    }
}

const NAME: Face = Face::new(12.0, Weight::Bold, INK);
const NAME_LEADING: f64 = 16.0;
const TOTAL: Face = Face::new(10.5, Weight::Regular, INK);
/// Minimum width of a panel, and the heights of one of several and of a single one.
const MIN_WIDTH: f64 = 190.0;
const HEIGHTS: [f64; 2] = [168.0, 300.0];
const GUTTER: f64 = 18.0;
/// Space before the first place and after the last one.
const INSET: f64 = 16.0;
const POINT: f64 = 7.0;
/// Thickness of the ring of a hollow point.
const RING: f64 = 1.5;
/// Ratio of the largest to the smallest value from which an axis is logarithmic.
const WIDE: f64 = 10.0;
/// Share of each stack below which an account is not in the legend.
const VISIBLE: f64 = 0.002;
/// Height of an axis over the highest stack, whose sum stands above it.
const HEADROOM: f64 = 1.1;
/// How far bands reach below those at their right, so that no renderer shows a seam.
const OVERLAP: f64 = 0.5;
/// Width of a stack without neighbours.
const BAR: f64 = 22.0;

fn sum(stack: &[(Account, f64)]) -> f64 {
    stack.iter().map(|(_, bytes)| bytes).sum()
}

pub(super) fn laid_out(figure: &PanelFigure, title: Option<&str>) -> Result<Scene, ReportError> {
    let axes: Vec<Axis> = axes(figure).ok_or(ReportError::NoRuns)?;
    let mut scene = Scene { width: figure.style.width(), ..Scene::default() };
    let right = scene.width - MARGIN;
    let top = head(&mut scene, title).max(MARGIN);
    let is_logarithmic = axes.iter().any(|axis| axis.height(0.0).is_none());
    let top = quantity(&mut scene, &scaled(&figure.y_title, is_logarithmic), top);
    let mut top = legend(&mut scene, &entries(figure), (MARGIN, right), top + 20.0) + 8.0;
    let left = axes.iter().map(Axis::left).fold(0.0, f64::max);
    let columns = columns(figure);
    let width = (right - left - GUTTER * (columns as f64 - 1.0)) / columns as f64;
    let height = HEIGHTS[usize::from(figure.panels.len() == 1)];
    for (row, axis) in figure.panels.chunks(figure.columns.max(1)).zip(axes.iter().cycle()) {
        for panels in row.chunks(columns) {
            let lines = panels.iter().map(|panel| name_lines(panel, width).len()).max().unwrap_or(0);
            top += 10.0 + NAME_LEADING * lines as f64;
            for (at, panel) in panels.iter().enumerate() {
                let left = left + at as f64 * (width + GUTTER);
                let field = PlotField { left, right: left + width, top, height };
                draw(&mut scene, figure, panel, axis, &field, at == 0);
            }
            top += height + 20.0;
        }
    }
    let x_title = scaled(&figure.x_title, is_wide(&figure.places));
    scene.text(&x_title, (f64::midpoint(left, right), top + 12.0), Anchor::Middle, UNIT);
    let method = if title.is_some() { &*figure.method } else { "" };
    let notes = caption::notes(method, &figure.note);
    scene.height = paragraphs(&mut scene, &notes, top + 44.0) + MARGIN - CAPTION_LEADING;
    Ok(scene)
}

/// Returns one axis for all lines, or one for each row of bands; `None` if there is nothing to show.
fn axes(figure: &PanelFigure) -> Option<Vec<Axis>> {
    let has_bands = figure.panels.iter().any(|panel| !panel.bands.is_empty());
    if has_bands {
        let values =
            |row: &[PlotPanel]| row.iter().flat_map(PlotPanel::values).map(|sum| sum * HEADROOM).collect::<Vec<_>>();
        let row = |row: &[PlotPanel]| Axis::over(values(row).into_iter(), false, Axis::logarithmic);
        let all: Vec<Option<Axis>> = figure.panels.chunks(figure.columns.max(1)).map(row).collect();
        return all.into_iter().collect();
    }
    let values: Vec<f64> = figure.panels.iter().flat_map(PlotPanel::values).collect();
    let ends = values.iter().fold((f64::INFINITY, 0.0), |ends: (f64, f64), of| (ends.0.min(*of), ends.1.max(*of)));
    let is_wide = ends.0 > 0.0 && ends.1 > WIDE * ends.0;
    Some(vec![Axis::over(values.into_iter(), is_wide, Axis::logarithmic)?])
}

/// Returns the names of the lines, or the accounts of the bands, with their colours.
fn entries(figure: &PanelFigure) -> Vec<(String, Rgb)> {
    let stacks = || figure.panels.iter().flat_map(PlotPanel::stacks);
    let has = |stack: &[(Account, f64)], account| {
        stack.iter().any(|(of, bytes)| *of == account && *bytes > sum(stack) * VISIBLE)
    };
    let is_used = |account: &Account| stacks().any(|stack| has(stack, *account));
    let accounts = Account::ALL.into_iter().filter(is_used);
    let series = figure.series.iter().filter(|name| !name.is_empty()).cloned().zip(palette::LINES);
    series.chain(accounts.map(|account| (account.name().to_owned(), palette::account(account)))).collect()
}

fn columns(figure: &PanelFigure) -> usize {
    let most = ((figure.style.width() - 2.0 * MARGIN) / MIN_WIDTH) as usize;
    figure.columns.min(figure.panels.len()).clamp(1, most.max(1))
}

/// Returns the title of an axis with its scale, unless that is linear.
fn scaled(title: &str, is_logarithmic: bool) -> String {
    if is_logarithmic { format!("{title} (logarithmic)") } else { title.to_owned() }
}

/// Returns the places as rising numbers; `None` if they are words.
fn numbers(places: &[String]) -> Option<Vec<f64>> {
    let numbers: Option<Vec<f64>> = places.iter().map(|place| place.parse().ok()).collect();
    numbers.filter(|all| all.windows(2).all(|pair| pair[0] < pair[1]))
}

/// Returns whether the places are numbers that cover more than a factor of ten.
fn is_wide(places: &[String]) -> bool {
    let ends = numbers(places).and_then(|all| Some((*all.first()?, *all.last()?)));
    ends.is_some_and(|(first, last)| first > 0.0 && last > WIDE * first)
}

/// Returns where the places stand, from 0 to 1: numbers to scale, logarithmic if they cover more than a factor of ten.
fn parts(places: &[String]) -> Vec<f64> {
    let is_wide = is_wide(places);
    let scaled = numbers(places)
        .map(|all| all.into_iter().map(|at| if is_wide { at.log10() } else { at }).collect::<Vec<f64>>());
    let all = scaled.unwrap_or_else(|| (0..places.len()).map(|at| at as f64).collect());
    let (Some(first), Some(last)) = (all.first(), all.last()) else { return Vec::new() };
    if all.len() == 1 {
        return vec![0.5];
    }
    all.iter().map(|at| (at - first) / (last - first)).collect()
}

/// Returns the lines of a panel's name: one if it fits, or one for each of its parts.
fn name_lines(panel: &PlotPanel, width: f64) -> Vec<String> {
    let parts = if NAME.width(&panel.name) * NAME.spare() <= width {
        vec![&*panel.name]
    } else {
        panel.name.split(", ").collect()
    };
    parts.into_iter().filter(|part| !part.is_empty()).map(|part| NAME.fitted(part, width)).collect()
}

fn draw(scene: &mut Scene, figure: &PanelFigure, panel: &PlotPanel, axis: &Axis, field: &PlotField, has_labels: bool) {
    let names = name_lines(panel, field.right - field.left);
    for (above, name) in names.iter().rev().enumerate() {
        scene.text(name, (field.left, field.top - 9.0 - NAME_LEADING * above as f64), Anchor::Start, NAME);
    }
    grid(scene, axis, field, has_labels);
    let span = field.right - field.left - 2.0 * INSET;
    let xs: Vec<f64> = parts(&figure.places).into_iter().map(|part| field.left + INSET + part * span).collect();
    for x in &xs {
        scene.line((*x, field.bottom()), (*x, field.bottom() + 4.0), AXIS);
    }
    let apart = xs.windows(2).map(|pair| pair[1] - pair[0]).fold(span, f64::min);
    let is_number = |place: &str| place.parse::<f64>().is_ok();
    let is_long = |place: &str| !is_number(place) && TICK.width(place) > 2.0 * apart - 8.0;
    let label = |place: &String| if is_long(place) { TICK.fitted(place, apart - 6.0) } else { place.clone() };
    scene.labels(xs.iter().copied().zip(figure.places.iter().map(label)), field.bottom() + 16.0, 4.0, TICK);
    let y = |value: f64| Some(field.bottom() - axis.height(value)? * field.height);
    bands(scene, panel, &xs, field, y);
    for line in &panel.lines {
        let color = palette::LINES[line.series % palette::LINES.len()];
        if let Some(y) = line.level.and_then(y) {
            scene.thick_line((field.left, y), (field.right, y), THICKNESS, color);
        }
        points(scene, line, color, |at, value| Some((*xs.get(at)?, y(value)?)));
    }
}

/// Joins neighbouring points; what was not measured leaves a gap.
fn points(scene: &mut Scene, line: &PanelLine, color: Rgb, place: impl Fn(usize, f64) -> Option<(f64, f64)>) {
    let places: Vec<Option<(f64, f64)>> =
        line.points.iter().enumerate().map(|(at, point)| place(at, point.as_ref()?.spread.median)).collect();
    for (from, to) in places.windows(2).filter_map(|pair| pair[0].zip(pair[1])) {
        scene.thick_line(from, to, THICKNESS, color);
    }
    for (at, point) in line.points.iter().enumerate() {
        let (Some(PanelPoint { spread, is_incomplete }), Some((x, y))) = (point, places[at]) else { continue };
        if spread.min < spread.max {
            whisker(scene, [spread.min, spread.q1, spread.q3, spread.max].map(|value| place(at, value)), color);
        }
        scene.rect((x - POINT / 2.0, y - POINT / 2.0), (POINT, POINT), color);
        if *is_incomplete {
            let inner = POINT - 2.0 * RING;
            scene.rect((x - inner / 2.0, y - inner / 2.0), (inner, inner), PAPER);
        }
    }
}

/// Stacks the accounts at each place, joins those of neighbours, and writes the sums above.
fn bands(scene: &mut Scene, panel: &PlotPanel, xs: &[f64], field: &PlotField, y: impl Fn(f64) -> Option<f64>) {
    let edges = |stack: &[(Account, f64)]| {
        let mut sum = 0.0;
        let ends = Account::ALL.into_iter().map(|account| {
            sum += stack.iter().filter(|(of, _)| *of == account).map(|(_, bytes)| bytes).sum::<f64>();
            y(sum).unwrap_or_default()
        });
        ends.collect::<Vec<f64>>()
    };
    let stacks: Vec<Option<Vec<f64>>> =
        panel.bands.iter().map(|stack| (!stack.is_empty()).then(|| edges(stack))).collect();
    let zero = y(0.0).unwrap_or_default();
    let mut stripe = |[left, right]: [f64; 2], from: &[f64], to: &[f64]| {
        let mut below = [zero; 2];
        for (account, above) in Account::ALL.into_iter().zip(from.iter().zip(to)) {
            let corners = [(left, below[0]), (left, *above.0), (right, *above.1), (right, below[1])];
            if below[0] > *above.0 || below[1] > *above.1 {
                scene.quad(corners, palette::account(account));
            }
            below = [*above.0, *above.1];
        }
    };
    let level = edges(&panel.level);
    stripe([field.left, field.right], &level, &level);
    for (at, stack) in stacks.iter().enumerate() {
        let Some(stack) = stack else { continue };
        let is_there = |at: Option<usize>| at.and_then(|at| stacks.get(at)).is_some_and(Option::is_some);
        if let Some(Some(next)) = stacks.get(at + 1) {
            let overlap = if is_there(Some(at + 2)) { OVERLAP } else { 0.0 };
            stripe([xs[at], xs[at + 1] + overlap], stack, next);
        } else if !is_there(at.checked_sub(1)) {
            stripe([xs[at] - BAR / 2.0, xs[at] + BAR / 2.0], stack, stack);
        }
    }
    totals(scene, panel, &stacks, xs);
    if let Some(top) = level.last().filter(|_| !panel.level.is_empty()) {
        let middle = f64::midpoint(field.left, field.right);
        scene.text(&bytes_label(sum(&panel.level)), (middle, top - 5.0), Anchor::Middle, TOTAL);
    }
}

/// Writes the sums of the stacks, clear of the bands between them, as far as they have room.
fn totals(scene: &mut Scene, panel: &PlotPanel, stacks: &[Option<Vec<f64>>], xs: &[f64]) {
    let mut free = f64::NEG_INFINITY;
    let top = |at: Option<usize>| stacks.get(at?)?.as_ref()?.last().copied();
    for (at, (stack, x)) in panel.bands.iter().zip(xs).enumerate() {
        let Some(here) = top(Some(at)) else { continue };
        let total = bytes_label(sum(stack));
        let half = TOTAL.width(&total) / 2.0;
        let beside = |other: Option<usize>| {
            let apart = (xs[other?] - x).abs().max(half);
            Some(here + (top(other)? - here) * half / apart)
        };
        let sides = [beside(at.checked_sub(1)), beside(Some(at + 1).filter(|next| *next < xs.len()))];
        if x - half > free {
            let highest = sides.into_iter().flatten().fold(here, f64::min);
            scene.text(&total, (*x, highest - 5.0), Anchor::Middle, TOTAL);
            free = x + half + 6.0;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::float_cmp,
        clippy::large_types_passed_by_value,
        clippy::unnecessary_wraps,
        reason = "places and sizes are set, not computed; points of a figure may be absent"
    )]

    use super::super::scene::Mark;
    use super::*;

    fn point(median: f64) -> Option<PanelPoint> {
        Some(PanelPoint { spread: median.into(), is_incomplete: false })
    }

    fn figure(values: [[Option<PanelPoint>; 4]; 2]) -> PanelFigure {
        let line = |(series, points): (usize, [Option<PanelPoint>; 4])| PanelLine {
            series,
            points: points.into(),
            level: None,
        };
        let lines: Vec<PanelLine> = values.into_iter().enumerate().map(line).collect();
        let panel = |name: &str| PlotPanel { name: name.to_owned(), lines: lines.clone(), ..PlotPanel::default() };
        PanelFigure {
            title: "Bytes per operation".to_owned(),
            x_title: "depth".to_owned(),
            y_title: "B on the wire".to_owned(),
            places: ["1", "4", "16", "64"].map(str::to_owned).into(),
            series: ["Redis", "PostgreSQL"].map(str::to_owned).into(),
            panels: ["size = 16", "size = 100", "size = 10000"].map(panel).into(),
            columns: 3,
            ..PanelFigure::default()
        }
    }

    fn squares(figure: &PanelFigure, size: f64) -> Vec<(f64, f64)> {
        let scene = laid_out(figure, None).unwrap();
        let squares = scene.marks.iter().filter_map(|mark| match mark {
            Mark::Rect { x, y, width, height, .. } if *width == size && *height == size => Some((*x, *y)),
            _ => None,
        });
        squares.collect()
    }

    #[test]
    fn every_panel_has_the_measured_points_alone() {
        let figure = figure([[point(70.0), point(80.0), None, point(90.0)], [point(200.0), None, None, None]]);
        assert_eq!(squares(&figure, POINT).len(), 3 * 4);
    }

    #[test]
    fn places_are_to_scale_and_a_wide_range_is_logarithmic() {
        let words = |all: &[&str]| parts(&all.iter().map(|place| (*place).to_owned()).collect::<Vec<_>>());
        assert_eq!(words(&["1", "2", "5"]), [0.0, 0.25, 1.0]);
        let wide = words(&["1", "10", "100"]);
        assert!((wide[1] - 0.5).abs() < 1e-9, "{wide:?}");
        assert_eq!((words(&["get", "set", "10"]), words(&["7"])), (vec![0.0, 0.5, 1.0], vec![0.5]));
        let is_wide = |small: f64| {
            let axes = axes(&figure([[point(small), None, None, None], [point(100.0), None, None, None]])).unwrap();
            axes[0].height(0.0).is_none()
        };
        assert!(is_wide(9.0) && !is_wide(11.0));
    }

    #[test]
    fn an_incomplete_point_is_hollow() {
        let hollow = point(70.0).map(|point| PanelPoint { is_incomplete: true, ..point });
        let figure = figure([[hollow, point(80.0), None, None], [None; 4]]);
        assert_eq!(squares(&figure, POINT - 2.0 * RING).len(), 3);
    }

    #[test]
    fn bands_add_up_and_a_row_has_its_own_axis() {
        let stack = |bytes: f64| vec![(Account::Tcp, bytes / 4.0), (Account::Data, bytes * 3.0 / 4.0)];
        let panel = |bytes: f64| PlotPanel {
            bands: vec![stack(bytes), stack(bytes / 2.0), Vec::new()],
            ..PlotPanel::default()
        };
        let figure = PanelFigure {
            places: ["1", "4", "16"].map(str::to_owned).into(),
            panels: [100.0, 80.0, 10_000.0, 9_000.0].map(panel).into(),
            columns: 2,
            ..PanelFigure::default()
        };
        let axes = axes(&figure).unwrap();
        assert_eq!(axes.iter().map(|axis| axis.to).collect::<Vec<_>>(), [150.0, 15_000.0]);
        let scene = laid_out(&figure, None).unwrap();
        let quads = scene.marks.iter().filter(|mark| matches!(mark, Mark::Quad { .. })).count();
        assert_eq!(quads, 4 * 2, "one for each account between two places, and none to a place without a measurement");
        let names: Vec<String> = entries(&figure).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["tcp", "data"]);
    }

    #[test]
    fn no_text_leaves_the_chart_or_covers_another() {
        let figure = figure([[point(70.0), point(80.0), point(5_000.0), point(90.0)], [point(200.0); 4]]);
        for width in [340, 800, 1_600] {
            let figure = PanelFigure { style: PlotStyle { width, dark: false }, ..figure.clone() };
            let scene = laid_out(&figure, Some("A title")).unwrap();
            let texts: Vec<_> = scene
                .marks
                .iter()
                .filter_map(|mark| if let Mark::Text(text) = mark { Some(text) } else { None })
                .collect();
            for (at, text) in texts.iter().enumerate() {
                let (left, right) = (text.left(), text.left() + text.face.width(&text.line));
                assert!(
                    left >= 0.0 && right <= scene.width && text.baseline <= scene.height,
                    "{} at {width}",
                    text.line
                );
                let covers = |other: &&&super::super::scene::Text| {
                    let (l, r) = (other.left(), other.left() + other.face.width(&other.line));
                    (other.baseline - text.baseline).abs() < 8.0 && l < right && left < r
                };
                assert!(texts[..at].iter().find(covers).is_none(), "{} at {width}", text.line);
            }
        }
    }
}
