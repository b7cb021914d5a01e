//! A range chart: each row has a mark for the middle value, and a bar and a line for the spread.

use super::Look;
use super::caption::{self, Paragraph};
use super::font::Weight;
use super::layout::{CAPTION_LEADING, MARGIN, TICK, UNIT, head, paragraphs};
use super::lines::{Axis, quantity, tick_label};
use super::palette::{AXIS, GRID, INK, LINES, Rgb};
use super::scene::{Anchor, Face, Scene, words};
use crate::error::ReportError;

#[derive(Clone, Debug, Default)]
pub struct DotFigure {
    pub title: String,
    /// Text alternative for readers who cannot see the figure.
    pub description: String,
    /// The quantity with its unit.
    pub x_title: String,
    /// Uses a logarithmic axis; omits rows with values that are not above zero.
    pub logarithmic: bool,
    /// Meaning of a row's mark, bar and line.
    pub legend: [String; 3],
    /// Rows, from top to bottom.
    pub rows: Vec<DotRow>,
    /// Note on the method, printed below the figure.
    pub note: String,
    /// Width and background.
    pub look: Look,
}

/// A row: its subject and the spread of its values.
#[derive(Clone, Debug, Default)]
pub struct DotRow {
    pub name: String,
    /// Figures in words, printed after the name.
    pub figures: String,
    pub mark: f64,
    pub bar: (f64, f64),
    pub line: (f64, f64),
    /// Individual values, drawn as points.
    pub points: Vec<f64>,
}

const NAME: Face = Face::new(12.5, Weight::Bold, INK);
/// Colours of the middle value and the spread.
const MARK_COLOR: Rgb = LINES[1];
const RANGE_COLOR: Rgb = LINES[0];
const MARK: f64 = 9.0;
const POINT: f64 = 4.0;
const BAR: f64 = 5.0;
/// Half the length of the strokes at the ends of a line.
const STROKE: f64 = 4.0;
/// Vertical distances: between a name's base lines, from the last one to the track's middle, and from there to the next name.
const LEADING: f64 = 15.5;
const TRACK: f64 = 13.0;
const ROW_GAP: f64 = 25.0;
/// Minimum space on either side of the track for half an axis label.
const INSET: f64 = 14.0;
/// Distance from the track's middle down to individual points, which the mark would otherwise hide.
const BELOW: f64 = 9.0;

fn values(row: &DotRow) -> impl Iterator<Item = f64> {
    [row.mark, row.bar.0, row.bar.1, row.line.0, row.line.1].into_iter().chain(row.points.iter().copied())
}

pub(super) fn laid_out(figure: &DotFigure, title: Option<&str>) -> Result<Scene, ReportError> {
    let can_be_shown =
        |row: &&DotRow| values(row).all(|value| value.is_finite() && (!figure.logarithmic || value > 0.0));
    let rows: Vec<&DotRow> = figure.rows.iter().filter(can_be_shown).collect();
    let axis = Axis::over(rows.iter().copied().flat_map(values), figure.logarithmic).ok_or(ReportError::NoRuns)?;
    let mut scene = Scene { width: figure.look.width(), ..Scene::default() };
    let top = head(&mut scene, title).max(MARGIN);
    let top = quantity(&mut scene, &figure.x_title, top);
    let top = legend(&mut scene, &figure.legend, top + 20.0) + 26.0;
    let halves = axis.ticks.iter().map(|tick| TICK.width(&tick_label(*tick)) / 2.0);
    let inset = MARGIN + halves.fold(INSET, f64::max);
    let width = scene.width;
    let place = |value: f64| inset + axis.height(value).unwrap_or(0.0) * (width - 2.0 * inset);
    let ticks = ticks(&axis, place);
    for (x, label) in ticks.iter().filter_map(|(x, label)| Some((x, label.as_ref()?))) {
        scene.text(label, (*x, top), Anchor::Middle, TICK);
    }
    let mut baseline = top + 22.0;
    for row in rows {
        let said: Vec<_> = words(&row.name, NAME).chain(words(&row.figures, UNIT)).collect();
        let below = scene.paragraph(&said, (MARGIN, baseline), scene.width - 2.0 * MARGIN, LEADING);
        let middle = below - LEADING + TRACK;
        draw_row(&mut scene, row, &ticks, place, middle);
        baseline = middle + ROW_GAP + if row.points.is_empty() { 0.0 } else { BELOW - 4.0 };
    }
    let note: Paragraph = caption::note("How to read:", &figure.note);
    scene.height = paragraphs(&mut scene, &[note], baseline + 16.0) + MARGIN - CAPTION_LEADING;
    Ok(scene)
}

/// Returns the positions of the grid lines, with the labels that fit.
fn ticks(axis: &Axis, place: impl Fn(f64) -> f64) -> Vec<(f64, Option<String>)> {
    let mut free = f64::NEG_INFINITY;
    let tick = |value: &f64| {
        let (x, label) = (place(*value), tick_label(*value));
        let half = TICK.width(&label) / 2.0;
        let fits = x - half > free;
        if fits {
            free = x + half + 6.0;
        }
        (x, fits.then_some(label))
    };
    axis.ticks.iter().map(tick).collect()
}

fn draw_row(scene: &mut Scene, row: &DotRow, ticks: &[(f64, Option<String>)], place: impl Fn(f64) -> f64, middle: f64) {
    for (x, _) in ticks {
        scene.line((*x, middle - 7.0), (*x, middle + 7.0), GRID);
    }
    scene.line((MARGIN, middle), (scene.width - MARGIN, middle), GRID);
    let ends = (place(row.line.0), place(row.line.1));
    scene.thick_line((ends.0, middle), (ends.1, middle), 1.5, RANGE_COLOR);
    for x in [ends.0, ends.1] {
        scene.thick_line((x, middle - STROKE), (x, middle + STROKE), 1.5, RANGE_COLOR);
    }
    scene.thick_line((place(row.bar.0), middle), (place(row.bar.1), middle), BAR, RANGE_COLOR);
    square(scene, place(row.mark), middle, MARK, MARK_COLOR);
    for point in &row.points {
        square(scene, place(*point), middle + BELOW, POINT, INK);
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
            note: "made up.".to_owned(),
            look: Look { width, dark: false },
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
}
