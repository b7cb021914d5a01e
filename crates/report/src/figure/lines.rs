//! A line chart: a quantity at named places, such as percentiles or pipeline lengths, with one line per system.

use super::Look;
use super::caption::{self, Paragraph};
use super::layout::{CAPTION_LEADING, HEADING, MARGIN, TICK, UNIT, head, legend, paragraphs};
use super::palette::{self, ABSENT, AXIS, GRID, Rgb};
use super::scene::{Anchor, Scene};
use crate::error::ReportError;
use crate::text::number::with_digits;
use overhead_model::Spread;

#[derive(Clone, Debug, Default)]
pub struct LineFigure {
    pub title: String,
    /// Text alternative for readers who cannot see the figure.
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
    /// The places have no order, so no line joins their values.
    pub is_unordered: bool,
    /// Lines, each with its name and an optional value per place.
    pub lines: Vec<(String, Vec<Option<f64>>)>,
    /// For each line, an optional spread per place. Empty if no spreads are drawn.
    pub spreads: Vec<Vec<Option<Spread>>>,
    /// Note on the method, printed below the figure.
    pub note: String,
    /// Width and background.
    pub look: Look,
    /// Time axis for `positions`, labelled with round times.
    pub time: Option<TimeAxis>,
}

/// A time axis, in seconds.
#[derive(Clone, Debug, Default)]
pub struct TimeAxis {
    pub from: f64,
    pub to: f64,
    /// Intervals without measurements.
    pub bands: Vec<Band>,
}

/// A labelled interval on an axis.
#[derive(Clone, Debug)]
pub struct Band {
    pub from: f64,
    pub to: f64,
    pub name: String,
}

const HEIGHT: f64 = 300.0;
/// Minimum width of the axis labels.
const LABELS: f64 = 52.0;
/// Space before the first place and after the last one.
const INSET: f64 = 28.0;
/// Distance from the legend to the plot area if band names stand between them.
const BANDS: f64 = 34.0;
const THICKNESS: f64 = 2.0;
const POINT: f64 = 6.0;
/// Width of the bar from the first to the third quartile.
const QUARTILES: f64 = 4.0;
/// Half the length of the strokes at the smallest and largest values.
const STROKE: f64 = 3.0;
/// Distance between points of two lines that have spreads, so that they do not overlap.
const ASIDE: f64 = 7.0;
/// Share of an unordered place that its points occupy.
const CLUSTER: f64 = 0.7;

pub(super) fn laid_out(figure: &LineFigure, title: Option<&str>) -> Result<Scene, ReportError> {
    let axis = Axis::of(figure).ok_or(ReportError::NoRuns)?;
    if figure.lines.len() > palette::LINES.len() {
        return Err(ReportError::Drawing(format!(
            "{} lines in a figure that has room for {}",
            figure.lines.len(),
            palette::LINES.len()
        )));
    }
    Ok(scene(figure, title, &axis))
}

pub(super) struct Axis {
    from: f64,
    to: f64,
    logarithmic: bool,
    pub(super) ticks: Vec<f64>,
}

impl Axis {
    /// Returns an axis that covers all values of a figure, or `None` if there are none.
    fn of(figure: &LineFigure) -> Option<Self> {
        let values = figure.lines.iter().flat_map(|(_, values)| values).flatten().copied();
        let ends = figure.spreads.iter().flatten().flatten().flat_map(|spread| [spread.min, spread.max]);
        Self::over(values.chain(ends), figure.logarithmic)
    }

    /// Returns an axis that covers these values, or `None` if it can show none of them.
    pub(super) fn over(values: impl Iterator<Item = f64>, logarithmic: bool) -> Option<Self> {
        let values: Vec<f64> = values.filter(|value| value.is_finite() && (!logarithmic || *value > 0.0)).collect();
        let max = values.iter().copied().max_by(f64::total_cmp)?;
        let min = values.iter().copied().min_by(f64::total_cmp)?;
        Some(if logarithmic { Self::of_ratios(min, max) } else { Self::of_amounts(max) })
    }

    fn of_amounts(max: f64) -> Self {
        let step = super::layout::step(max, 5.0);
        let count = (max / step).ceil().max(1.0);
        let ticks = (0..=count as u32).map(|at| f64::from(at) * step).collect();
        Self { from: 0.0, to: count * step, logarithmic: false, ticks }
    }

    /// Uses steps of 1, 2 and 5 times a power of ten; above three decades, only powers of ten.
    fn of_ratios(min: f64, max: f64) -> Self {
        let decades = min.log10().floor() as i32..=max.log10().ceil() as i32;
        let leading: &[f64] = if max / min > 1e3 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let all = decades.flat_map(|power| leading.iter().map(move |digit| digit * 10_f64.powi(power)));
        let all: Vec<f64> = all.collect();
        let from = all.iter().copied().filter(|tick| *tick <= min).fold(min, |_, tick| tick);
        let to = all.iter().copied().find(|tick| *tick >= max && *tick > from).unwrap_or(max);
        Self { from, to, logarithmic: true, ticks: all.into_iter().filter(|tick| (from..=to).contains(tick)).collect() }
    }

    /// Returns the left edge of the plot area, right of the labels.
    fn left(&self) -> f64 {
        let longest = self.ticks.iter().map(|tick| TICK.width(&tick_label(*tick))).fold(0.0, f64::max);
        MARGIN + LABELS.max(longest + 8.0)
    }

    /// Returns the relative position of a value, from 0 to 1, or `None` if this axis cannot show it.
    pub(super) fn height(&self, value: f64) -> Option<f64> {
        if !value.is_finite() || (self.logarithmic && value <= 0.0) {
            return None;
        }
        let place = |value: f64| if self.logarithmic { value.log10() } else { value };
        Some((place(value) - place(self.from)) / (place(self.to) - place(self.from)))
    }
}

/// Writes the quantity, on two lines if one is too narrow. Returns the last base line.
pub(super) fn quantity(scene: &mut Scene, text: &str, top: f64) -> f64 {
    let width = scene.width - 2.0 * MARGIN;
    let fits = |text: &str| HEADING.width(text) <= width;
    let mut spaces = text.rmatch_indices(' ').map(|(at, _)| at);
    let cut = if fits(text) { None } else { spaces.find(|at| fits(&text[..*at])) };
    let Some(cut) = cut else {
        scene.text(&HEADING.fitted(text, width), (MARGIN, top), Anchor::Start, HEADING);
        return top;
    };
    let (first, second) = text.split_at(cut);
    scene.text(first, (MARGIN, top), Anchor::Start, HEADING);
    scene.text(&HEADING.fitted(second.trim_start(), width), (MARGIN, top + 16.0), Anchor::Start, HEADING);
    top + 16.0
}

fn scene(figure: &LineFigure, title: Option<&str>, axis: &Axis) -> Scene {
    let mut scene = Scene { width: figure.look.width(), ..Scene::default() };
    let head = head(&mut scene, title).max(MARGIN);
    let head = quantity(&mut scene, &figure.y_title, head);
    let entries: Vec<(String, Rgb)> =
        figure.lines.iter().zip(palette::LINES).map(|((name, _), color)| (name.clone(), color)).collect();
    let legend_bottom = {
        let right = scene.width - MARGIN;
        legend(&mut scene, &entries, (MARGIN, right), head + 20.0)
    };
    let has_bands = figure.time.as_ref().is_some_and(|time| !time.bands.is_empty());
    let top = legend_bottom + if has_bands { BANDS } else { 18.0 };
    let bottom = top + HEIGHT;
    let left = axis.left();
    if let Some(time) = &figure.time {
        bands(&mut scene, time, left, top);
    }
    grid(&mut scene, axis, top);
    let (first, apart) = places(figure, left, scene.width);
    let parts = parts(&figure.positions);
    let span = apart * figure.places.len().saturating_sub(1) as f64;
    let width = scene.width;
    let x_of = |at: usize| match &figure.time {
        Some(time) => time.x(figure.positions.get(at).copied().unwrap_or(time.to), left, width),
        None => first + parts.get(at).map_or(at as f64 * apart, |part| part * span),
    };
    let ends = if let Some(time) = &figure.time {
        round_times(&mut scene, time, left, bottom);
        [left, width - MARGIN]
    } else {
        named_places(&mut scene, figure, apart, !parts.is_empty(), bottom, x_of);
        [x_of(0), x_of(figure.places.len().saturating_sub(1))]
    };
    let middle = f64::midpoint(ends[0], ends[1]);
    scene.text(&figure.x_title, (middle, bottom + 34.0), Anchor::Middle, UNIT);
    let place = |at: usize, value: f64| axis.height(value).map(|part| (x_of(at), bottom - part * HEIGHT));
    lines(&mut scene, figure, aside(figure, apart), place);
    let note: Paragraph = caption::note("How to read:", &figure.note);
    scene.height = paragraphs(&mut scene, &[note], bottom + 66.0) + MARGIN - CAPTION_LEADING;
    scene
}

impl TimeAxis {
    fn x(&self, time: f64, left: f64, width: f64) -> f64 {
        let right = width - MARGIN;
        left + (time - self.from) / (self.to - self.from).max(f64::MIN_POSITIVE) * (right - left)
    }
}

/// Draws grey fields behind the lines, with names above them, clear of the lines.
fn bands(scene: &mut Scene, time: &TimeAxis, left: f64, top: f64) {
    for band in &time.bands {
        let (from, to) = (time.x(band.from, left, scene.width), time.x(band.to, left, scene.width));
        scene.rect((from, top), (to - from, HEIGHT), ABSENT);
        scene.line((to, top), (to, top + HEIGHT), AXIS);
        scene.text(&UNIT.fitted(&band.name, scene.width - MARGIN - from), (from, top - 5.0), Anchor::Start, UNIT);
    }
}

/// Writes round times below the plot area.
fn round_times(scene: &mut Scene, time: &TimeAxis, left: f64, bottom: f64) {
    let step = super::layout::step(time.to - time.from, if scene.width < 500.0 { 4.0 } else { 8.0 });
    let first = (time.from / step).ceil() as i64;
    let last = (time.to / step + 1e-9).floor() as i64;
    for number in first..=last {
        let at = number as f64 * step;
        let x = time.x(at, left, scene.width);
        scene.line((x, bottom), (x, bottom + 4.0), AXIS);
        let label = if number < 0 { format!("-{}", tick_label(-at)) } else { tick_label(at) };
        let half = TICK.width(&label) / 2.0;
        // Keep the last label inside the figure.
        let x = x.min(scene.width - half - 1.0);
        scene.text(&label, (x, bottom + 17.0), Anchor::Middle, TICK);
    }
}

/// Writes the names of places below the plot area.
fn named_places(
    scene: &mut Scene,
    figure: &LineFigure,
    apart: f64,
    stand_as_they_will: bool,
    bottom: f64,
    x_of: impl Fn(usize) -> f64,
) {
    let mut free = f64::NEG_INFINITY;
    for (at, name) in figure.places.iter().enumerate() {
        scene.line((x_of(at), bottom), (x_of(at), bottom + 4.0), AXIS);
        // With custom positions, label only the places that have room.
        let is_long = !stand_as_they_will && TICK.width(name) > 2.0 * apart - 8.0;
        let name = if is_long { TICK.fitted(name, apart - 6.0) } else { name.clone() };
        let half = TICK.width(&name) / 2.0;
        if x_of(at) - half > free {
            scene.text(&name, (x_of(at), bottom + 17.0), Anchor::Middle, TICK);
            free = x_of(at) + half + 4.0;
        }
    }
}

/// Returns the first place's position and the spacing. Unordered places get fields of equal width.
fn places(figure: &LineFigure, from: f64, width: f64) -> (f64, f64) {
    let field = width - MARGIN - from;
    if figure.is_unordered {
        let apart = field / figure.places.len().max(1) as f64;
        return (from + apart / 2.0, apart);
    }
    (from + INSET, (field - 2.0 * INSET) / (figure.places.len().max(2) - 1) as f64)
}

/// Returns the distance between the points of two lines at one place.
fn aside(figure: &LineFigure, apart: f64) -> f64 {
    match (figure.spreads.is_empty(), figure.is_unordered) {
        (true, _) => 0.0,
        (false, true) => apart * CLUSTER / figure.lines.len().max(1) as f64,
        (false, false) => ASIDE,
    }
}

/// Scales positions to the range from the first (0) to the last (1).
fn parts(positions: &[f64]) -> Vec<f64> {
    let (Some(first), Some(last)) = (positions.first(), positions.last()) else { return Vec::new() };
    let span = (last - first).max(f64::MIN_POSITIVE);
    positions.iter().map(|at| ((at - first) / span).clamp(0.0, 1.0)).collect()
}

fn lines(scene: &mut Scene, figure: &LineFigure, aside: f64, place: impl Fn(usize, f64) -> Option<(f64, f64)>) {
    let middle = figure.lines.len().saturating_sub(1) as f64 / 2.0;
    for (number, ((_, values), color)) in figure.lines.iter().zip(palette::LINES).enumerate() {
        let spreads = figure.spreads.get(number).map(Vec::as_slice).unwrap_or_default();
        let aside = (number as f64 - middle) * aside;
        let place = |at: usize, value: f64| place(at, value).map(|(x, y)| (x + aside, y));
        let points: Vec<Option<(f64, f64)>> =
            values.iter().enumerate().map(|(at, value)| value.and_then(|value| place(at, value))).collect();
        let joined = points.iter().zip(points.iter().skip(1)).filter(|_| !figure.is_unordered);
        for (from, to) in joined.filter_map(|(from, to)| from.zip(*to)) {
            scene.thick_line(from, to, THICKNESS, color);
        }
        for (at, spread) in spreads.iter().enumerate().filter_map(|(at, spread)| Some((at, (*spread)?))) {
            let [min, q1, q3, max] = [spread.min, spread.q1, spread.q3, spread.max].map(|value| place(at, value));
            whisker(scene, [min, q1, q3, max], color);
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
fn whisker(scene: &mut Scene, [min, q1, q3, max]: [Option<(f64, f64)>; 4], color: Rgb) {
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

fn grid(scene: &mut Scene, axis: &Axis, top: f64) {
    for tick in &axis.ticks {
        let Some(part) = axis.height(*tick) else { continue };
        let y = top + HEIGHT * (1.0 - part);
        let color = if part == 0.0 { AXIS } else { GRID };
        scene.line((axis.left(), y), (scene.width - MARGIN, y), color);
        scene.text(&tick_label(*tick), (axis.left() - 6.0, y + 3.5), Anchor::End, TICK);
    }
}

/// Formats a tick with as many digits as it needs: ticks are multiples of 1, 2 or 5 times a power of ten.
pub(super) fn tick_label(tick: f64) -> String {
    let digits = (0..6).find(|digits| (tick * 10_f64.powi(*digits)).fract().abs() < 1e-6).unwrap_or(6);
    with_digits(tick, digits as usize)
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
            is_unordered: false,
            positions: Vec::new(),
            lines: vec![
                ("Redis 7".to_owned(), vec![Some(80.0), Some(200.0), Some(9_000.0)]),
                ("Valkey 9".to_owned(), vec![Some(70.0), None, Some(3_000.0)]),
            ],
            spreads: Vec::new(),
            note: "made up.".to_owned(),
            ..LineFigure::default()
        }
    }

    /// Returns the tops of the squares at the values.
    fn points(figure: &LineFigure) -> Vec<(f64, f64)> {
        let scene = scene(figure, None, &Axis::of(figure).unwrap());
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
        let spread = Spread::of(&[60.0, 70.0, 80.0, 90.0, 20_000.0]);
        figure.spreads = vec![vec![spread, None, None], vec![spread, None, None]];
        let axis = Axis::of(&figure).unwrap();
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
    fn points_of_places_without_an_order_fill_most_of_their_field() {
        let mut figure = figure(false);
        figure.is_unordered = true;
        figure.spreads = vec![vec![Spread::of(&[1.0]); 3]; 2];
        let (first, apart) = places(&figure, MARGIN + LABELS, 800.0);
        let squares = points(&figure);
        assert!((squares[3].0 - squares[0].0 - apart * CLUSTER / 2.0).abs() < 0.01);
        assert!(first + 2.5 * apart <= 800.0 - MARGIN + 0.01 && first - apart / 2.0 >= MARGIN + LABELS - 0.01);
    }

    #[test]
    fn a_logarithmic_axis_begins_and_ends_at_ticks_around_all_values() {
        for (min, max) in [(70.0, 9_000.0), (1.0, 1.0), (0.03, 0.9), (5.0, 5_000_000.0)] {
            let axis = Axis::of_ratios(min, max);
            assert!(axis.from <= min && axis.to >= max && axis.from < axis.to, "{min} to {max}");
            assert!((2..=12).contains(&axis.ticks.len()), "{:?}", axis.ticks);
            assert!(axis.ticks.iter().all(|tick| (0.0..=1.0).contains(&axis.height(*tick).unwrap())));
        }
    }

    #[test]
    fn ticks_have_as_many_digits_as_they_need() {
        assert_eq!(
            [0.0, 0.05, 0.3, 1.0, 2.5, 20.0, 5e6].map(tick_label),
            ["0", "0.05", "0.3", "1", "2.5", "20", "5,000,000"]
        );
    }

    #[test]
    fn both_formats_are_drawn_and_nothing_to_draw_is_an_error() {
        let [svg, png] = Plot::Lines(figure(true)).draw().unwrap();
        let svg = String::from_utf8(svg).unwrap();
        assert!(roxmltree::Document::parse(&svg).is_ok() && svg.contains("Valkey 9"));
        assert!(png.starts_with(b"\x89PNG"));
        let mut empty = figure(true);
        empty.lines = vec![("nothing".to_owned(), vec![None, Some(0.0), None])];
        assert!(laid_out(&empty, None).is_err());
    }

    #[test]
    fn a_long_quantity_has_two_lines_and_stays_inside() {
        let mut scene = Scene { width: 340.0, ..Scene::default() };
        let text = "µs on a CPU per operation (no hardware counters on this machine)";
        assert!(quantity(&mut scene, text, 20.0) > 20.0);
        let line = |mark: &Mark| if let Mark::Text(text) = mark { Some(text.line.clone()) } else { None };
        let lines: Vec<String> = scene.marks.iter().filter_map(line).collect();
        assert_eq!(lines.join(" "), text);
        assert!(lines.iter().all(|line| HEADING.width(line) <= 340.0 - 2.0 * MARGIN), "{lines:?}");
        assert!((quantity(&mut scene, "µs", 20.0) - 20.0).abs() < f64::EPSILON);
    }

    #[test]
    fn an_axis_of_time_has_round_times_and_a_field_for_what_was_left_out() {
        let positions: Vec<f64> = (0..40).map(|at| f64::from(at) * 0.05 + 0.025).collect();
        for width in [340, 800, 1_600] {
            let figure = LineFigure {
                places: vec![String::new(); 40],
                lines: vec![("workload".to_owned(), positions.iter().map(|at| Some(at + 1.0)).collect())],
                positions: positions.clone(),
                time: Some(TimeAxis {
                    from: -0.5,
                    to: 2.0,
                    bands: vec![Band { from: -0.5, to: 0.0, name: "warm-up, 500 ms: left out".to_owned() }],
                }),
                look: Look { width, dark: false },
                ..figure(false)
            };
            let scene = scene(&figure, None, &Axis::of(&figure).unwrap());
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
            let field = scene.width - 2.0 * MARGIN - LABELS;
            assert!(grey.is_some_and(|(x, of)| x == MARGIN + LABELS && (of - field * 0.2).abs() < 0.1), "{grey:?}");
        }
    }

    #[test]
    fn long_labels_of_the_axis_stay_within_the_margin() {
        for scale in [1.0, 1e4, 1e7] {
            let mut figure = figure(true);
            figure.lines.iter_mut().flat_map(|(_, values)| values).flatten().for_each(|value| *value *= scale);
            let scene = scene(&figure, None, &Axis::of(&figure).unwrap());
            let texts =
                scene.marks.iter().filter_map(|mark| if let Mark::Text(text) = mark { Some(text) } else { None });
            assert!(texts.clone().count() > 5 && texts.into_iter().all(|text| text.left() >= MARGIN - 0.1), "{scale}");
        }
    }
}
