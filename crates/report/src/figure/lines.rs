//! A line chart: a quantity at named places, such as percentiles or pipeline lengths, with one line per system.

use super::PlotStyle;
use super::axis::{Axis, quantity, tick_label};
use super::caption;
use super::layout::{
    CAPTION_LEADING, LEGEND, MARGIN, SIDE_BY_SIDE, SWATCH, SWATCH_GAP, TICK, UNIT, head, legend, paragraphs,
};
use super::palette::{self, ABSENT, AXIS, GRID, Rgb};
use super::scene::{Anchor, Scene};
use crate::error::ReportError;
use overhead_model::Spread;

/// A chart with lines over steps of the horizontal axis.
#[derive(Clone, Debug, Default)]
pub struct LineFigure {
    /// Heading; files add the systems in front.
    pub title: String,
    /// Text alternative for readers who cannot see the chart.
    pub description: String,
    /// Title of the horizontal axis.
    pub x_title: String,
    /// The quantity with its unit.
    pub y_title: String,
    /// Uses a logarithmic axis; omits values that are not above zero.
    pub logarithmic: bool,
    /// Names of the places, from left to right.
    pub places: Vec<String>,
    /// Positions of the places in any unit; empty to space them equally.
    pub positions: Vec<f64>,
    /// Lines in the order of their colours.
    pub lines: Vec<Line>,
    /// How to read the chart. A page prints equal texts once.
    pub method: String,
    /// Note on what is drawn, printed below the chart.
    pub note: String,
    /// Width and background.
    pub style: PlotStyle,
    /// Time axis for `positions`, labelled with round times.
    pub time: Option<TimeAxis>,
}

/// A name, and an optional value per place, drawn at its median.
pub type Line = (String, Vec<Option<Spread>>);

/// A time axis, in seconds.
#[derive(Clone, Debug, Default)]
pub struct TimeAxis {
    /// Start, in the unit of the axis.
    pub from: f64,
    /// End, in the unit of the axis.
    pub to: f64,
    /// Intervals without measurements.
    pub bands: Vec<Band>,
}

/// A labelled interval on an axis.
#[derive(Clone, Debug)]
pub struct Band {
    pub from: f64,
    pub to: f64,
    /// Label of the band.
    pub name: String,
}

const HEIGHT: f64 = 300.0;
/// Space before the first place and after the last one.
const INSET: f64 = 28.0;
/// Distance from the legend to the plot area if band names stand between them.
const BANDS: f64 = 34.0;
pub(super) const THICKNESS: f64 = 2.0;
const POINT: f64 = 6.0;
/// Width of the bar from the first to the third quartile.
const QUARTILES: f64 = 4.0;
/// Half the length of the strokes at the smallest and largest values.
const STROKE: f64 = 3.0;
/// Distance between the points of two lines with spreads, so that the spreads do not overlap.
const ASIDE: f64 = 5.0;
/// Maximum width of all points at a tick, so that they stay near it.
const CLUSTER: f64 = 16.0;
/// Share of the width that names at the ends of lines may take, and the distance between two of them.
const NAMES: f64 = 0.3;
const NAME_LEADING: f64 = 15.0;

pub(super) fn laid_out(figure: &LineFigure, title: Option<&str>) -> Result<Scene, ReportError> {
    let axis = Axis::from_figure(figure).ok_or(ReportError::NoRuns)?;
    if figure.lines.len() > palette::LINES.len() {
        return Err(ReportError::Drawing(format!(
            "{} lines in a chart that has room for {}",
            figure.lines.len(),
            palette::LINES.len()
        )));
    }
    Ok(scene(figure, title, &axis))
}

/// The area of the lines.
pub(super) struct PlotField {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub height: f64,
}

impl PlotField {
    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// Returns the position of a time.
    fn at(&self, time: &TimeAxis, seconds: f64) -> f64 {
        self.left + (seconds - time.from) / (time.to - time.from).max(f64::MIN_POSITIVE) * (self.right - self.left)
    }

    /// Returns the position of each place.
    fn places(&self, figure: &LineFigure) -> Vec<f64> {
        if let Some(time) = &figure.time {
            return figure.positions.iter().map(|seconds| self.at(time, *seconds)).collect();
        }
        let (first, span) = (self.left + INSET, self.right - self.left - 2.0 * INSET);
        let parts = parts(&figure.positions);
        let last = figure.places.len().max(2) as f64 - 1.0;
        let part = |at: usize| parts.get(at).copied().unwrap_or(at as f64 / last);
        (0..figure.places.len()).map(|at| first + part(at) * span).collect()
    }
}

fn scene(figure: &LineFigure, title: Option<&str>, axis: &Axis) -> Scene {
    let mut scene = Scene { width: figure.style.width(), ..Scene::default() };
    let head = head(&mut scene, title).max(MARGIN);
    let mut top = quantity(&mut scene, &figure.y_title, head);
    let entries: Vec<(String, Rgb)> =
        figure.lines.iter().zip(palette::LINES).map(|((name, _), color)| (name.clone(), color)).collect();
    let names = names_beside(&entries, scene.width);
    let right = scene.width - MARGIN - names.unwrap_or(0.0);
    if names.is_none() {
        top = legend(&mut scene, &entries, (MARGIN, right), top + 20.0);
    }
    let has_bands = figure.time.as_ref().is_some_and(|time| !time.bands.is_empty());
    let field = PlotField { left: axis.left(), right, top: top + if has_bands { BANDS } else { 18.0 }, height: HEIGHT };
    if let Some(time) = &figure.time {
        bands(&mut scene, time, &field);
    }
    grid(&mut scene, axis, &field, true);
    let xs = field.places(figure);
    let ends = if let Some(time) = &figure.time {
        round_times(&mut scene, time, &field);
        [field.left, field.right]
    } else {
        named_places(&mut scene, figure, &xs, field.bottom());
        [xs.first(), xs.last()].map(|x| x.copied().unwrap_or(field.left))
    };
    let middle = f64::midpoint(ends[0], ends[1]);
    scene.text(&figure.x_title, (middle, field.bottom() + 34.0), Anchor::Middle, UNIT);
    let place = |at: usize, value: f64| Some((*xs.get(at)?, field.bottom() - axis.height(value)? * HEIGHT));
    lines(&mut scene, figure, place);
    if names.is_some() {
        let last = |values: &[Option<Spread>]| values.iter().flatten().last().and_then(|of| axis.height(of.median));
        let heights = figure.lines.iter().map(|(_, values)| last(values).map(|part| field.bottom() - part * HEIGHT));
        names_at_ends(&mut scene, &entries, &heights.collect::<Vec<_>>(), &field);
    }
    let method = if title.is_some() { &*figure.method } else { "" };
    let notes = caption::notes(method, &figure.note);
    scene.height = paragraphs(&mut scene, &notes, field.bottom() + 66.0) + MARGIN - CAPTION_LEADING;
    scene
}

/// Returns the width of the names at the ends of their lines, or `None` if they need a legend above.
fn names_beside(entries: &[(String, Rgb)], width: f64) -> Option<f64> {
    let widest = entries.iter().map(|(name, _)| LEGEND.width(name)).fold(0.0, f64::max);
    let taken = widest + SWATCH + SWATCH_GAP + 6.0;
    (width >= SIDE_BY_SIDE && taken <= width * NAMES).then_some(taken)
}

/// Writes each line's name right of its last value, or as close to it as the others allow.
fn names_at_ends(scene: &mut Scene, entries: &[(String, Rgb)], ends: &[Option<f64>], field: &PlotField) {
    let mut placed: Vec<(f64, &(String, Rgb))> =
        ends.iter().zip(entries).filter_map(|(end, entry)| Some(((*end)?, entry))).collect();
    placed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut free = f64::NEG_INFINITY;
    for (y, _) in &mut placed {
        *y = y.max(free);
        free = *y + NAME_LEADING;
    }
    let mut free = field.bottom();
    for (y, (name, color)) in placed.into_iter().rev() {
        let y = y.min(free);
        free = y - NAME_LEADING;
        let x = field.right + 6.0;
        scene.rect((x, y - SWATCH / 2.0), (SWATCH, SWATCH), *color);
        scene.text(name, (x + SWATCH + SWATCH_GAP, y + 4.0), Anchor::Start, LEGEND);
    }
}

/// Draws grey fields behind the lines, with names above them, clear of the lines.
fn bands(scene: &mut Scene, time: &TimeAxis, field: &PlotField) {
    for band in &time.bands {
        let (from, to) = (field.at(time, band.from), field.at(time, band.to));
        scene.rect((from, field.top), (to - from, HEIGHT), ABSENT);
        scene.line((to, field.top), (to, field.bottom()), AXIS);
        let name = UNIT.fitted(&band.name, scene.width - MARGIN - from);
        scene.text(&name, (from, field.top - 5.0), Anchor::Start, UNIT);
    }
}

/// Writes round times below the plot area.
fn round_times(scene: &mut Scene, time: &TimeAxis, field: &PlotField) {
    let step = super::layout::step(time.to - time.from, if scene.width < 500.0 { 4.0 } else { 8.0 });
    let first = (time.from / step).ceil() as i64;
    let last = (time.to / step + 1e-9).floor() as i64;
    for number in first..=last {
        let at = number as f64 * step;
        let x = field.at(time, at);
        scene.line((x, field.bottom()), (x, field.bottom() + 4.0), AXIS);
        let label = if number < 0 { format!("-{}", tick_label(-at)) } else { tick_label(at) };
        let half = TICK.width(&label) / 2.0;
        // Keep the last label inside the chart.
        let x = x.min(scene.width - half - 1.0);
        scene.text(&label, (x, field.bottom() + 17.0), Anchor::Middle, TICK);
    }
}

/// Writes the names of places below the plot area, as far as they have room.
fn named_places(scene: &mut Scene, figure: &LineFigure, xs: &[f64], bottom: f64) {
    let apart = xs.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
    for x in xs {
        scene.line((*x, bottom), (*x, bottom + 4.0), AXIS);
    }
    let fitted = |name: &String| {
        let is_long = figure.positions.is_empty() && TICK.width(name) > 2.0 * apart - 8.0;
        if is_long { TICK.fitted(name, apart - 6.0) } else { name.clone() }
    };
    scene.labels(xs.iter().copied().zip(figure.places.iter().map(fitted)), bottom + 17.0, 4.0, TICK);
}

/// Scales positions to the range from the first (0) to the last (1).
fn parts(positions: &[f64]) -> Vec<f64> {
    let (Some(first), Some(last)) = (positions.first(), positions.last()) else { return Vec::new() };
    let span = (last - first).max(f64::MIN_POSITIVE);
    positions.iter().map(|at| ((at - first) / span).clamp(0.0, 1.0)).collect()
}

fn lines(scene: &mut Scene, figure: &LineFigure, place: impl Fn(usize, f64) -> Option<(f64, f64)>) {
    let others = figure.lines.len().saturating_sub(1) as f64;
    // Spreads that are shorter than a point do not hide each other.
    let is_long = |spread: &Spread| {
        place(0, spread.min).zip(place(0, spread.max)).is_some_and(|(low, high)| low.1 - high.1 > POINT)
    };
    let has_spreads = figure.lines.iter().flat_map(|(_, values)| values).flatten().any(is_long);
    let aside = if has_spreads { ASIDE.min(CLUSTER / others.max(1.0)) } else { 0.0 };
    for (number, ((_, values), color)) in figure.lines.iter().zip(palette::LINES).enumerate() {
        let aside = (number as f64 - others / 2.0) * aside;
        let place = |at: usize, value: f64| place(at, value).map(|(x, y)| (x + aside, y));
        let points: Vec<Option<(f64, f64)>> =
            values.iter().enumerate().map(|(at, value)| place(at, value.as_ref()?.median)).collect();
        let joined = points.iter().zip(points.iter().skip(1));
        for (from, to) in joined.filter_map(|(from, to)| from.zip(*to)) {
            scene.thick_line(from, to, THICKNESS, color);
        }
        let spreads = values.iter().enumerate().filter_map(|(at, value)| Some((at, value.as_ref()?)));
        for (at, spread) in spreads.filter(|(_, spread)| spread.min < spread.max) {
            let ends = [spread.min, spread.q1, spread.q3, spread.max].map(|value| place(at, value));
            whisker(scene, ends, color);
        }
        // On a time axis, mark only points without a neighbour to draw a line to.
        let is_alone = |at: usize| {
            let has = |at: Option<usize>| at.and_then(|at| points.get(at)).is_some_and(Option::is_some);
            !has(at.checked_sub(1)) && !has(Some(at + 1))
        };
        let marked = points.iter().enumerate().filter(|(at, _)| figure.time.is_none() || is_alone(*at));
        for &(x, y) in marked.filter_map(|(_, point)| point.as_ref()) {
            scene.rect((x - POINT / 2.0, y - POINT / 2.0), (POINT, POINT), color);
        }
    }
}

/// Draws a thin line from the smallest to the largest value, and a bar between the quartiles.
pub(super) fn whisker(scene: &mut Scene, [min, q1, q3, max]: [Option<(f64, f64)>; 4], color: Rgb) {
    if let Some((low, high)) = min.zip(max) {
        scene.line(low, high, color);
        for (x, y) in [low, high] {
            scene.line((x - STROKE, y), (x + STROKE, y), color);
        }
    }
    if let Some((low, high)) = q1.zip(q3) {
        scene.thick_line(low, high, QUARTILES, color);
    }
}

/// Draws a line for each tick across the field, with a label at its left if there is room.
pub(super) fn grid(scene: &mut Scene, axis: &Axis, field: &PlotField, has_labels: bool) {
    for tick in &axis.ticks {
        let Some(part) = axis.height(*tick) else { continue };
        let y = field.top + field.height * (1.0 - part);
        let color = if part == 0.0 { AXIS } else { GRID };
        scene.line((field.left, y), (field.right, y), color);
        if has_labels {
            scene.text(&tick_label(*tick), (field.left - 6.0, y + 3.5), Anchor::End, TICK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Plot;
    use super::super::scene::Mark;
    use super::*;

    fn figure(logarithmic: bool) -> LineFigure {
        LineFigure {
            title: "Latency".to_owned(),
            description: "Lines".to_owned(),
            x_title: "percentile".to_owned(),
            y_title: "µs".to_owned(),
            logarithmic,
            places: ["p50", "p99", "max"].map(str::to_owned).to_vec(),
            positions: Vec::new(),
            lines: vec![
                ("Redis 7".to_owned(), [80.0, 200.0, 9_000.0].map(|value| Some(value.into())).to_vec()),
                ("Valkey 9".to_owned(), vec![Some(70.0.into()), None, Some(3_000.0.into())]),
            ],
            note: "made up.".to_owned(),
            ..LineFigure::default()
        }
    }

    /// Returns the tops of the squares at the values.
    fn points(figure: &LineFigure) -> Vec<(f64, f64)> {
        let scene = scene(figure, None, &Axis::from_figure(figure).unwrap());
        let squares = scene.marks.iter().filter_map(|mark| match mark {
            Mark::Rect { x, y, width, .. } if *width == POINT => Some((*x, *y)),
            _ => None,
        });
        squares.collect()
    }

    #[test]
    fn a_value_stands_at_its_place_and_an_absent_one_nowhere() {
        for logarithmic in [false, true] {
            let points = points(&figure(logarithmic));
            assert_eq!(points.len(), 5);
            assert!(points[0].1 > points[1].1 && points[1].1 > points[2].1, "more is higher");
            assert!(points[3].1 >= points[0].1, "70 is not above 80");
            assert_eq!((points[3].0, points[4].0), (points[0].0, points[2].0));
        }
    }

    #[test]
    fn a_spread_stands_around_its_value_and_lines_with_spreads_stand_apart() {
        let mut figure = figure(false);
        let spread = Spread::from_values(&[60.0, 70.0, 80.0, 90.0, 20_000.0]);
        figure.lines.iter_mut().for_each(|(_, values)| values[0] = spread);
        let axis = Axis::from_figure(&figure).unwrap();
        assert!(axis.to >= 20_000.0, "the largest value has a place");
        let squares = points(&figure);
        let scene = scene(&figure, None, &axis);
        let bar = scene.marks.iter().find_map(|mark| match mark {
            Mark::ThickLine { from, to, thickness, .. } if *thickness == QUARTILES => Some((*from, *to)),
            _ => None,
        });
        let ((x, low), (_, high)) = bar.unwrap();
        assert_eq!((squares[3].0 - squares[0].0, x), (ASIDE, squares[0].0 + POINT / 2.0));
        assert!(low > high);
    }

    #[test]
    fn lines_are_named_at_their_ends_in_their_order_or_above() {
        let mut figure = figure(false);
        figure.lines.extend(
            (0..6).map(|at| (format!("Garnet {at}"), vec![None, Some((8_999.0 - f64::from(at)).into()), None])),
        );
        for (width, is_beside) in [(340, false), (800, true)] {
            figure.style.width = width;
            let scene = scene(&figure, None, &Axis::from_figure(&figure).unwrap());
            let field_right = scene.marks.iter().find_map(|mark| match mark {
                Mark::Line { from, to, .. } if (from.1 - to.1).abs() < 0.01 => Some(to.0),
                _ => None,
            });
            let of = |name: &str| {
                scene.marks.iter().find_map(|mark| match mark {
                    Mark::Text(text) if text.line == name => Some((text.x, text.baseline)),
                    _ => None,
                })
            };
            let names: Vec<(f64, f64)> = figure.lines.iter().map(|(name, _)| of(name).unwrap()).collect();
            assert_eq!(names.iter().all(|(x, _)| *x > field_right.unwrap()), is_beside);
            let rising = |pair: &[(f64, f64)]| pair[1].1 - pair[0].1 >= NAME_LEADING - 0.01;
            assert!(!is_beside || ([names[0], names[2]].windows(2).all(rising) && names[2..].windows(2).all(rising)));
        }
    }

    #[test]
    fn both_formats_are_drawn_and_nothing_to_draw_is_an_error() {
        let [svg, png] = Plot::Lines(figure(true)).draw().unwrap();
        let svg = String::from_utf8(svg).unwrap();
        assert!(roxmltree::Document::parse(&svg).is_ok() && svg.contains("Valkey 9"));
        assert!(png.starts_with(b"\x89PNG"));
        let mut empty = figure(true);
        empty.lines = vec![("nothing".to_owned(), vec![None, Some(0.0.into()), None])];
        assert!(laid_out(&empty, None).is_err());
    }

    #[test]
    fn an_axis_of_time_has_round_times_and_a_field_for_what_was_left_out() {
        let positions: Vec<f64> = (0..40).map(|at| f64::from(at) * 0.05 + 0.025).collect();
        for width in [340, 800, 1_600] {
            let figure = LineFigure {
                places: vec![String::new(); 40],
                lines: vec![("workload".to_owned(), positions.iter().map(|at| Some((at + 1.0).into())).collect())],
                positions: positions.clone(),
                time: Some(TimeAxis {
                    from: -0.5,
                    to: 2.0,
                    bands: vec![Band { from: -0.5, to: 0.0, name: "warm-up, 500 ms: left out".to_owned() }],
                }),
                style: PlotStyle { width, dark: false },
                ..figure(false)
            };
            let scene = scene(&figure, None, &Axis::from_figure(&figure).unwrap());
            assert!(points(&figure).is_empty(), "points that are joined are not marked");
            let texts =
                scene.marks.iter().filter_map(|mark| if let Mark::Text(text) = mark { Some(text) } else { None });
            let texts: Vec<(&str, f64, f64)> =
                texts.map(|text| (&*text.line, text.left(), text.left() + text.face.width(&text.line))).collect();
            for wanted in ["0", "1", "2", "warm-up, 500 ms: left out"] {
                assert!(texts.iter().any(|(text, ..)| *text == wanted), "{wanted} of {texts:?} at {width}");
            }
            assert!(texts.iter().all(|(_, left, right)| *left >= 0.0 && *right <= scene.width), "{texts:?}");
            let grey = scene.marks.iter().find_map(|mark| match mark {
                Mark::Rect { x, width, fill, .. } if *fill == ABSENT => Some((*x, *width)),
                _ => None,
            });
            let names = names_beside(&[("workload".to_owned(), palette::LINES[0])], scene.width).unwrap_or(0.0);
            let left = MARGIN + super::super::axis::LABELS;
            let field = scene.width - MARGIN - names - left;
            assert!(grey.is_some_and(|(x, of)| (x - left).abs() < 0.1 && (of - field * 0.2).abs() < 0.1), "{grey:?}");
        }
    }

    #[test]
    fn long_labels_of_the_axis_stay_within_the_margin() {
        for scale in [1.0, 1e4, 1e7] {
            let mut figure = figure(true);
            let values = figure.lines.iter_mut().flat_map(|(_, values)| values).flatten();
            values.for_each(|value| *value = value.times(scale));
            let scene = scene(&figure, None, &Axis::from_figure(&figure).unwrap());
            let texts =
                scene.marks.iter().filter_map(|mark| if let Mark::Text(text) = mark { Some(text) } else { None });
            assert!(texts.clone().count() > 5 && texts.into_iter().all(|text| text.left() >= MARGIN - 0.1), "{scale}");
        }
    }
}
