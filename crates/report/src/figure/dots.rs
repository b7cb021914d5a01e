//! A range chart: each row has a mark for the middle value, and a bar and a line for the spread.

use super::PlotStyle;
use super::axis::{Axis, quantity, tick_label};
use super::caption;
use super::font::Weight;
use super::layout::{CAPTION_LEADING, HEADING, MARGIN, TICK, UNIT, head, paragraphs};
use super::palette::{AXIS, GRID, INK, LINES, Rgb};
use super::scene::{Anchor, Face, Scene, words};
use crate::error::ReportError;

/// A chart with a track per row: a mark, a bar and a thin line on a common axis.
#[derive(Clone, Debug, Default)]
pub struct DotFigure {
    /// Heading; files add the systems in front.
    pub title: String,
    /// Text alternative for readers who cannot see the chart.
    pub description: String,
    /// The quantity with its unit.
    pub x_title: String,
    /// Uses a logarithmic axis; omits rows with values that are not above zero.
    pub logarithmic: bool,
    /// Meaning of a row's mark, bar and line; drawn if a row has a spread.
    pub legend: [String; 3],
    /// Rows, from top to bottom.
    pub rows: Vec<DotRow>,
    /// How to read the chart. A page prints equal texts once.
    pub method: String,
    /// Note on what is drawn, printed below the chart.
    pub note: String,
    /// Width and background.
    pub style: PlotStyle,
}

/// A row: its subject and the spread of its values.
#[derive(Clone, Debug, Default)]
pub struct DotRow {
    /// Heading above the row, if the row before has another one; may be empty.
    pub group: String,
    /// Name of the row within its group.
    pub name: String,
    /// Values in words, printed after the name.
    pub figures: String,
    /// Value of the mark, in the unit of the axis.
    pub mark: f64,
    /// Start and end of the bar.
    pub bar: (f64, f64),
    /// Start and end of the thin line.
    pub line: (f64, f64),
    /// Individual values, drawn as points.
    pub points: Vec<f64>,
}

const NAME: Face = Face::new(12.5, Weight::Bold, INK);
/// Name and values on one line with their track.
const NAME_BESIDE: Face = Face::new(12.0, Weight::Regular, INK);
const FIGURES_BESIDE: Face = Face::new(11.0, Weight::Bold, INK);
/// Colours of the middle value and the spread.
const MARK_COLOR: Rgb = LINES[1];
const RANGE_COLOR: Rgb = LINES[0];
const MARK: f64 = 8.0;
const POINT: f64 = 4.0;
const BAR: f64 = 5.0;
/// Half the length of the strokes at the ends of a line.
const STROKE: f64 = 4.0;
/// Vertical distances: between a name's base lines, from the last one to the track's middle, and from there to the next name.
const LEADING: f64 = 15.5;
const TRACK: f64 = 13.0;
const ROW_GAP: f64 = 25.0;
/// Height of a heading, and of a row that has its name on the line of the track.
const ROW: f64 = 19.0;
const GROUP: f64 = 20.0;
/// Space above a heading.
const GROUP_GAP: f64 = 7.0;
/// Distance between name, track and values, and the share of the width that the track needs.
const GAP: f64 = 12.0;
const TRACK_SHARE: f64 = 0.45;
/// Minimum space on either side of the track for half an axis label.
const INSET: f64 = 14.0;
/// Distance from the track's middle down to individual points, which the mark would otherwise hide.
const BELOW: f64 = 9.0;

fn values(row: &DotRow) -> impl Iterator<Item = f64> {
    [row.mark, row.bar.0, row.bar.1, row.line.0, row.line.1].into_iter().chain(row.points.iter().copied())
}

/// Position of the tracks, with the ticks of their axis.
struct TrackField {
    left: f64,
    right: f64,
    /// Whether names and values are on the line of their track, not above it.
    is_beside: bool,
    axis: Axis,
    inset: f64,
}

impl TrackField {
    fn new(rows: &[&DotRow], axis: Axis, width: f64) -> Self {
        let widest = |face: Face, text: fn(&DotRow) -> &str| {
            rows.iter().map(|row| face.width(text(row))).fold(0.0, f64::max) + GAP
        };
        let (names, figures) = (widest(NAME_BESIDE, |row| &row.name), widest(FIGURES_BESIDE, |row| &row.figures));
        let room = width - 2.0 * MARGIN;
        let is_beside = room - names - figures >= room * TRACK_SHARE && rows.iter().all(|row| row.points.is_empty());
        let (left, right) = if is_beside { (names, figures) } else { (0.0, 0.0) };
        let halves = axis.ticks.iter().map(|tick| TICK.width(&tick_label(*tick)) / 2.0);
        let inset = halves.fold(INSET, f64::max);
        Self { left: MARGIN + left, right: width - MARGIN - right, is_beside, axis, inset }
    }

    fn at(&self, value: f64) -> f64 {
        let (from, to) = (self.left + self.inset, self.right - self.inset);
        from + self.axis.height(value).unwrap_or(0.0) * (to - from)
    }
}

pub(super) fn laid_out(figure: &DotFigure, title: Option<&str>) -> Result<Scene, ReportError> {
    let can_be_shown =
        |row: &&DotRow| values(row).all(|value| value.is_finite() && (!figure.logarithmic || value > 0.0));
    let rows: Vec<&DotRow> = figure.rows.iter().filter(can_be_shown).collect();
    let axis = Axis::over(rows.iter().copied().flat_map(values), figure.logarithmic, Axis::logarithmic_cropped)
        .ok_or(ReportError::NoRuns)?;
    let mut scene = Scene { width: figure.style.width(), ..Scene::default() };
    let top = head(&mut scene, title).max(MARGIN);
    let mut top = quantity(&mut scene, &figure.x_title, top);
    if rows.iter().any(|row| row.line.0 < row.line.1) {
        top = legend(&mut scene, &figure.legend, top + 20.0);
    }
    let field = TrackField::new(&rows, axis, scene.width);
    let ticks = field.axis.ticks.iter().map(|tick| (field.at(*tick), tick_label(*tick)));
    scene.labels(ticks, top + 26.0, 6.0, TICK);
    let mut baseline = top + 48.0;
    let mut group = "";
    for row in rows {
        if row.group != group {
            group = &row.group;
            baseline += GROUP_GAP;
            scene.text(&HEADING.fitted(group, scene.width - 2.0 * MARGIN), (MARGIN, baseline), Anchor::Start, HEADING);
            baseline += GROUP;
        }
        baseline = if field.is_beside {
            row_beside(&mut scene, row, &field, baseline)
        } else {
            row_below(&mut scene, row, &field, baseline)
        };
    }
    let method = if title.is_some() { &*figure.method } else { "" };
    let notes = caption::notes(method, &figure.note);
    scene.height = paragraphs(&mut scene, &notes, baseline + 16.0) + MARGIN - CAPTION_LEADING;
    Ok(scene)
}

/// Draws name, track and values on one line. Returns the next row's base line.
fn row_beside(scene: &mut Scene, row: &DotRow, field: &TrackField, baseline: f64) -> f64 {
    scene.text(&row.name, (MARGIN, baseline), Anchor::Start, NAME_BESIDE);
    scene.text(&row.figures, (scene.width - MARGIN, baseline), Anchor::End, FIGURES_BESIDE);
    track(scene, row, field, baseline - 4.0, ROW / 2.0);
    baseline + ROW
}

/// Draws the track below name and values. Returns the next row's base line.
fn row_below(scene: &mut Scene, row: &DotRow, field: &TrackField, baseline: f64) -> f64 {
    let said: Vec<_> = words(&row.name, NAME).chain(words(&row.figures, UNIT)).collect();
    let below = scene.paragraph(&said, (MARGIN, baseline), scene.width - 2.0 * MARGIN, LEADING);
    let middle = below - LEADING + TRACK;
    track(scene, row, field, middle, 7.0);
    middle + ROW_GAP + if row.points.is_empty() { 0.0 } else { BELOW - 4.0 }
}

/// Draws grid lines, range and mark of a row.
fn track(scene: &mut Scene, row: &DotRow, field: &TrackField, middle: f64, half: f64) {
    for tick in &field.axis.ticks {
        let x = field.at(*tick);
        scene.line((x, middle - half), (x, middle + half), GRID);
    }
    scene.line((field.left, middle), (field.right, middle), GRID);
    let ends = (field.at(row.line.0), field.at(row.line.1));
    if ends.0 < ends.1 {
        scene.thick_line((ends.0, middle), (ends.1, middle), 1.5, RANGE_COLOR);
        for x in [ends.0, ends.1] {
            scene.thick_line((x, middle - STROKE), (x, middle + STROKE), 1.5, RANGE_COLOR);
        }
        scene.thick_line((field.at(row.bar.0), middle), (field.at(row.bar.1), middle), BAR, RANGE_COLOR);
    }
    square(scene, field.at(row.mark), middle, MARK, MARK_COLOR);
    for point in &row.points {
        square(scene, field.at(*point), middle + BELOW, POINT, INK);
    }
}

fn square(scene: &mut Scene, x: f64, y: f64, side: f64, color: Rgb) {
    scene.rect((x - side / 2.0, y - side / 2.0), (side, side), color);
}

/// Draws the legend for mark, bar and line. Returns the last base line.
fn legend(scene: &mut Scene, [mark, bar, line]: &[String; 3], baseline: f64) -> f64 {
    let (mut x, mut y) = (MARGIN, baseline);
    for (at, label) in [mark, bar, line].into_iter().enumerate().filter(|(_, label)| !label.is_empty()) {
        let sample = if at == 0 { MARK } else { 18.0 };
        let width = sample + 5.0 + TICK.width(label);
        if x > MARGIN && x + width > scene.width - MARGIN {
            (x, y) = (MARGIN, y + 16.0);
        }
        let middle = y - 4.0;
        match at {
            0 => square(scene, x + MARK / 2.0, middle, MARK, MARK_COLOR),
            1 => scene.thick_line((x, middle), (x + sample, middle), BAR, RANGE_COLOR),
            _ => scene.thick_line((x, middle), (x + sample, middle), 1.5, RANGE_COLOR),
        }
        scene.text(label, (x + sample + 5.0, y), Anchor::Start, TICK);
        x += width + 14.0;
    }
    scene.line((MARGIN, y + 8.0), (scene.width - MARGIN, y + 8.0), AXIS);
    y
}

#[cfg(test)]
mod tests {
    use super::super::scene::Mark;
    use super::*;

    fn figure(width: u32, logarithmic: bool) -> DotFigure {
        let row = |name: &str, scale: f64| DotRow {
            group: String::new(),
            name: name.to_owned(),
            figures: format!("{scale} µs, 99%: {} µs", scale * 3.0),
            mark: scale,
            bar: (scale, scale * 3.0),
            line: (scale / 2.0, scale * 90.0),
            points: vec![scale * 2.0],
        };
        DotFigure {
            title: "Latency".to_owned(),
            description: "Ranges".to_owned(),
            x_title: "µs, logarithmic".to_owned(),
            logarithmic,
            legend: ["median", "to 99%", "from the quickest to the slowest"].map(str::to_owned),
            rows: vec![
                row("Redis 7: GET", 80.0),
                row("a system with a name that goes on and on: an operation, too", 900.0),
            ],
            method: String::new(),
            note: "made up.".to_owned(),
            style: PlotStyle { width, dark: false },
        }
    }

    #[test]
    fn marks_stand_where_their_values_are_and_nothing_leaves_the_figure() {
        for (width, logarithmic) in [(340, true), (340, false), (800, true), (1_600, false)] {
            let scene = laid_out(&figure(width, logarithmic), None).unwrap();
            let marks: Vec<f64> = scene
                .marks
                .iter()
                .filter_map(|mark| match mark {
                    Mark::Rect { x, width, fill, .. } if *width == MARK && *fill == MARK_COLOR => Some(*x),
                    _ => None,
                })
                .skip(1)
                .collect();
            assert_eq!(marks.len(), 2);
            assert!(marks[0] < marks[1], "more is further right");
            for mark in &scene.marks {
                let (left, right) = match mark {
                    Mark::Text(text) => (text.left(), text.left() + text.face.width(&text.line)),
                    Mark::Rect { x, width, .. } => (*x, x + width),
                    Mark::Quad { corners, .. } => (corners[0].0, corners[2].0),
                    Mark::Line { from, to, .. } | Mark::ThickLine { from, to, .. } => {
                        (from.0.min(to.0), from.0.max(to.0))
                    }
                };
                assert!(left >= MARGIN - 0.6 && right <= scene.width - MARGIN + 0.6, "{mark:?} at {width}");
            }
        }
    }

    #[test]
    fn a_row_that_a_logarithmic_axis_cannot_show_is_left_out() {
        let mut figure = figure(800, true);
        figure.rows[0].line.0 = 0.0;
        let of = |figure: &DotFigure| laid_out(figure, None).unwrap().height;
        let one = of(&figure);
        figure.rows.remove(0);
        assert!((of(&figure) - one).abs() < 0.01);
        figure.rows.clear();
        assert!(matches!(laid_out(&figure, None), Err(ReportError::NoRuns)));
    }

    #[test]
    fn short_names_stand_beside_their_tracks_under_a_heading_for_each_group() {
        let mut figure = figure(800, true);
        for (at, row) in figure.rows.iter_mut().enumerate() {
            (row.name, row.figures, row.points) = (format!("Redis {at}"), "80 µs".to_owned(), Vec::new());
            row.group = format!("pipeline of {at}");
        }
        let scene = laid_out(&figure, None).unwrap();
        let baseline = |line: &str| {
            scene.marks.iter().find_map(|mark| match mark {
                Mark::Text(text) if text.line == line => Some((text.left(), text.baseline)),
                _ => None,
            })
        };
        let [group, name, figures] = ["pipeline of 1", "Redis 1", "80 µs"].map(|line| baseline(line).unwrap());
        let mark = scene.marks.iter().rev().find_map(|mark| match mark {
            Mark::Rect { x, y, width, .. } if *width == MARK => Some((*x, *y)),
            _ => None,
        });
        let mark = mark.unwrap();
        assert!(group.1 < name.1 && name.0 < mark.0 && mark.0 < figures.0, "{name:?} {mark:?} {figures:?}");
        assert!((mark.1 + MARK / 2.0 - (name.1 - 4.0)).abs() < 0.01, "mark and name are on one line");
    }
}
