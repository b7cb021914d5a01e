//! The layout of a chart, in logical pixels.
//!
//! Each operation is a row with its name above its bars, so names of any length fit. Three panels share the rows, so the eye
//! can follow a row from bytes to calls to cycles.

use super::caption::Paragraph;
use super::chart::{Bar, BarPart, BarRow, Chart, Panel};
use super::font::Weight;
use super::palette::{ABSENT, AXIS, GRID, INK, MUTED, PAPER, Rgb};
use super::scene::{Anchor, Face, Mark, Scene, words};
use crate::bounds::AT_LEAST;

/// Image width: if a blog shows 800 pixels at 700, 11-pixel text stays above 9.
pub(super) const WIDTH: f64 = 800.0;
/// Minimum width for side-by-side panels.
pub(super) const SIDE_BY_SIDE: f64 = 640.0;
pub(super) const MARGIN: f64 = 20.0;
/// Space between the lines of a title, and below it.
const TITLE_LEADING: f64 = 25.0;
const HEAD: f64 = 12.0;
/// Space between adjacent panels.
const GUTTER: f64 = 22.0;
/// Space between stacked panels.
const STACK_GAP: f64 = 18.0;
/// Space left of a panel whose bars cover several rows.
const BRACKET: f64 = 8.0;
/// The first panel's share of the width: names stand above its bars.
const FIRST_PANEL: f64 = 0.5;

pub(super) const TITLE: Face = Face::new(20.0, Weight::Bold, INK);
pub(super) const HEADING: Face = Face::new(13.0, Weight::Bold, INK);
pub(super) const UNIT: Face = Face::new(11.0, Weight::Regular, MUTED);
pub(super) const TICK: Face = Face::new(10.5, Weight::Regular, MUTED);
pub(super) const LEGEND: Face = Face::new(11.0, Weight::Regular, INK);
const RUN: Face = Face::new(12.5, Weight::Bold, INK);
const OPERATION: Face = Face::new(12.5, Weight::Regular, INK);
const OPERATION_TOTAL: Face = Face::new(12.5, Weight::Bold, INK);
const SMALL: Face = Face::new(11.0, Weight::Regular, MUTED);
const TAG: Face = Face::new(11.0, Weight::Regular, MUTED);
const TOTAL: Face = Face::new(11.0, Weight::Bold, INK);
const INSIDE: f64 = 10.0;

/// Height of a row's name line.
pub(super) const NAME_HEIGHT: f64 = 19.0;
/// Space between the lines of a long name, and between run and operation.
const NAME_LEADING: f64 = 16.0;
const NAME_GAP: f64 = 8.0;
pub(super) const BAR: f64 = 15.0;
pub(super) const BAR_GAP: f64 = 2.0;
const ROW_GAP: f64 = 8.0;
const RUN_GAP: f64 = 7.0;
const REMAINDER: f64 = 16.0;

/// Height of the strokes at the ends of the range of repeated runs.
const RANGE_END: f64 = 4.0;

/// Sizes of a legend entry.
pub(super) const SWATCH: f64 = 10.0;
pub(super) const SWATCH_GAP: f64 = 4.0;
const ENTRY_GAP: f64 = 11.0;
const LEGEND_LEADING: f64 = 16.0;

pub(super) const CAPTION_LEADING: f64 = 15.5;
const PARAGRAPH_GAP: f64 = 4.0;

/// Distance from the top of a bar to the base line that centres its text.
pub(super) const BAR_BASELINE: f64 = 11.5;

/// A panel's left edge, and the start and maximum length of its bars.
struct PanelPlace {
    left: f64,
    width: f64,
    scale: BarScale,
}

/// Start and length of bars.
pub(super) struct BarScale {
    pub zero: f64,
    /// Length of a bar with the value `limit`, at the end of the axis.
    pub length: f64,
    pub limit: f64,
    pub step: f64,
}

impl BarScale {
    pub(super) fn at(&self, value: f64) -> f64 {
        self.zero + value / self.limit * self.length
    }

    /// Draws lines across the bars, with labels above the axis.
    pub(super) fn grid(&self, scene: &mut Scene, axis: f64, bottom: f64, face: Face) {
        let count = (self.limit / self.step + 1e-9).floor() as u32;
        let ticks = || (0..=count).map(|number| f64::from(number) * self.step);
        for value in ticks() {
            let x = self.at(value);
            scene.line((x, axis), (x, bottom), if value == 0.0 { AXIS } else { GRID });
        }
        scene.labels(ticks().map(|value| (self.at(value), tick_label(value, self.step))), axis - 4.0, 4.0, face);
    }
}

/// Name lines, the top of each row's last name line, and the bottom of the last row.
struct WrappedLines {
    tops: Vec<f64>,
    names: Vec<Vec<NameLine>>,
    bottom: f64,
}

/// Lays out the chart at this width; omits the title if the surrounding page has one.
pub(crate) fn scene(chart: &Chart, title: Option<&str>, caption: &[Paragraph], width: f64) -> Scene {
    let mut scene = Scene { width, ..Scene::default() };
    let top = head(&mut scene, title);
    let bottom = if width >= SIDE_BY_SIDE {
        body(&mut scene, chart, top)
    } else {
        chart.stacked().iter().fold(top - STACK_GAP, |bottom, chart| body(&mut scene, chart, bottom + STACK_GAP))
    };
    let bottom = paragraphs(&mut scene, caption, bottom + 26.0);
    scene.height = bottom + MARGIN - CAPTION_LEADING;
    scene
}

/// Draws the title, if any. Returns the top of the remaining content.
pub(super) fn head(scene: &mut Scene, title: Option<&str>) -> f64 {
    let Some(title) = title else { return 4.0 };
    let title: Vec<_> = words(title, TITLE).collect();
    scene.paragraph(&title, (MARGIN, MARGIN + 16.0), scene.width - 2.0 * MARGIN, TITLE_LEADING) + HEAD - 16.0
}

/// Draws panels side by side on the same rows. Returns their bottom.
fn body(scene: &mut Scene, chart: &Chart, top: f64) -> f64 {
    let places = places(&chart.panels, chart.rows.iter().any(|row| row.at_least), scene.width);
    let axis = heads(scene, &chart.panels, &places, top);
    let lines = lines(&chart.rows, axis + 6.0, &places);
    for (panel, place) in chart.panels.iter().zip(&places) {
        if panel.max() > 0.0 {
            place.scale.grid(scene, axis, lines.bottom, TICK);
        }
    }
    for (at, row) in chart.rows.iter().enumerate() {
        row_names(scene, row, &lines.names[at], lines.tops[at], &places);
        if row.first && at > 0 {
            rule(scene, lines.tops[at], lines.names[at].len());
        }
        for (panel, place) in chart.panels.iter().zip(&places) {
            panel_row(scene, panel, place, at, &lines, row);
        }
    }
    lines.bottom
}

/// Divides the width among the panels.
fn places(panels: &[Panel], at_least: bool, width: f64) -> Vec<PanelPlace> {
    let others = panels.len().saturating_sub(1) as f64;
    let free = width - 2.0 * MARGIN - others * GUTTER;
    let first = if others > 0.0 { free * FIRST_PANEL } else { free };
    let mut left = MARGIN;
    let mut places = Vec::with_capacity(panels.len());
    for (at, panel) in panels.iter().enumerate() {
        let width = if at == 0 { first } else { (free - first) / others };
        places.push(place(panel, left, width, at_least && !panel.whole_run));
        left += width + GUTTER;
    }
    places
}

fn place(panel: &Panel, left: f64, width: f64, at_least: bool) -> PanelPlace {
    let tags = panel.tags.iter().map(|tag| TAG.width(tag)).fold(0.0, f64::max) + 6.0;
    let max = panel.max();
    let mark = if at_least { TOTAL.width("≥") } else { 0.0 };
    let label = TOTAL.width(&(panel.print)(max)) + 5.0 + mark;
    let length = (width - tags - label).max(1.0);
    let step = step(max, if length > 200.0 { 5.0 } else { 3.0 });
    let limit = if max > 0.0 { max } else { 1.0 };
    PanelPlace { left, width, scale: BarScale { zero: left + tags, length, limit, step } }
}

/// Returns a step of 1, 2 or 5 times a power of ten that yields about `count` steps.
pub(super) fn step(max: f64, count: f64) -> f64 {
    if max <= 0.0 {
        return 1.0;
    }
    let rough = max / count;
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|m| m * power).find(|step| *step >= rough).unwrap_or(10.0 * power)
}

impl PanelPlace {
    fn right(&self) -> f64 {
        self.left + self.width
    }
}

/// Draws titles, units and legends of the panels. Returns the position of the axes.
fn heads(scene: &mut Scene, panels: &[Panel], places: &[PanelPlace], top: f64) -> f64 {
    let mut bottom = top + 27.0;
    for (panel, place) in panels.iter().zip(places) {
        scene.text(&HEADING.fitted(panel.title, place.width), (place.left, top + 11.0), Anchor::Start, HEADING);
        scene.text(&UNIT.fitted(&panel.unit, place.width), (place.left, top + 27.0), Anchor::Start, UNIT);
        bottom = f64::max(bottom, legend(scene, &panel.legend, (place.left, place.right()), top + 46.0));
    }
    bottom + 20.0
}

/// Draws swatches and labels between two edges, in stack order. Returns the last base line.
pub(super) fn legend(scene: &mut Scene, entries: &[(String, Rgb)], (left, right): (f64, f64), baseline: f64) -> f64 {
    let (mut x, mut y) = (left, baseline);
    for (label, color) in entries {
        let label = LEGEND.fitted(label, right - left - SWATCH - SWATCH_GAP);
        let width = SWATCH + SWATCH_GAP + LEGEND.width(&label);
        if x > left && x + width > right {
            (x, y) = (left, y + LEGEND_LEADING);
        }
        scene.rect((x, y - SWATCH + 1.0), (SWATCH, SWATCH), *color);
        scene.text(&label, (x + SWATCH + SWATCH_GAP, y), Anchor::Start, LEGEND);
        x += width + ENTRY_GAP;
    }
    y
}

fn lines(rows: &[BarRow], top: f64, places: &[PanelPlace]) -> WrappedLines {
    let mut y = top;
    let mut tops = Vec::with_capacity(rows.len());
    let mut names = Vec::with_capacity(rows.len());
    for row in rows {
        if row.first && !tops.is_empty() {
            y += RUN_GAP;
        }
        let written = name_lines(row, &places[0]);
        y += NAME_LEADING * (written.len().saturating_sub(1)) as f64;
        names.push(written);
        tops.push(y);
        y += NAME_HEIGHT + 2.0 * BAR + BAR_GAP + ROW_GAP;
        if row.remainder.is_some() {
            y += REMAINDER;
        }
    }
    WrappedLines { tops, names, bottom: y }
}

/// One line of a row's name: words with their faces and positions.
type NameLine = Vec<(String, Face, f64)>;

/// Returns a row's full name. Uses one line if it fits with the count and bytes; otherwise wraps run and operation separately
/// and keeps the last line free for the numbers if they need it.
fn name_lines(row: &BarRow, place: &PanelPlace) -> Vec<NameLine> {
    let width = place.right() - MARGIN;
    let figures = OPERATION_TOTAL.width(&row.total) + SMALL.width(&row.count) + 30.0;
    let run = if row.first { row.run.as_str() } else { "" };
    let operation = if run.is_empty() { 0.0 } else { RUN.width(run) + NAME_GAP };
    if operation + OPERATION.width(&row.operation) <= width - figures {
        return vec![vec![(run.to_owned(), RUN, 0.0), (row.operation.clone(), OPERATION, operation)]];
    }
    // Base lines one unit apart serve as line numbers.
    let mut broken = Scene::default();
    let mut next = 0.0;
    for (name, face) in [(run, RUN), (&row.operation, OPERATION)] {
        if !name.is_empty() {
            next = broken.paragraph(&words(name, face).collect::<Vec<_>>(), (0.0, next), width, 1.0);
        }
    }
    let mut lines: Vec<NameLine> = vec![Vec::new(); next as usize];
    for mark in broken.marks {
        if let Mark::Text(text) = mark
            && let Some(line) = lines.get_mut(text.baseline as usize)
        {
            line.push((text.line, text.face, text.x));
        }
    }
    let ends = lines.last().into_iter().flatten().map(|(word, face, x)| x + face.width(word));
    if ends.fold(0.0, f64::max) > width - figures {
        lines.push(Vec::new());
    }
    lines
}

fn tick_label(value: f64, step: f64) -> String {
    let digits = if step >= 1.0 || value == 0.0 { 0 } else { (-step.log10().floor()) as usize };
    crate::number::with_digits(value, digits)
}

fn rule(scene: &mut Scene, top: f64, names: usize) {
    let top = top - NAME_LEADING * names.saturating_sub(1) as f64;
    let y = top - f64::midpoint(RUN_GAP, ROW_GAP) + 2.0;
    scene.line((MARGIN, y), (scene.width - MARGIN, y), AXIS);
}

/// Draws the text above the bars: run, operation, count, and bytes in both directions.
fn row_names(scene: &mut Scene, row: &BarRow, names: &[NameLine], top: f64, places: &[PanelPlace]) {
    let (baseline, end) = (top + 13.0, places[0].right());
    for (number, line) in names.iter().enumerate() {
        let above = NAME_LEADING * (names.len() - 1 - number) as f64;
        for (word, face, x) in line {
            backed(scene, word, (MARGIN + x, baseline - above), Anchor::Start, *face);
        }
    }
    backed(scene, &row.total, (end, baseline), Anchor::End, OPERATION_TOTAL);
    let end = end - OPERATION_TOTAL.width(&row.total) - 10.0;
    backed(scene, &row.count, (end, baseline), Anchor::End, SMALL);
    if let Some(remainder) = &row.remainder {
        let y = top + NAME_HEIGHT + 2.0 * BAR + BAR_GAP + 14.0;
        backed(scene, &SMALL.fitted(remainder, places[0].width), (MARGIN, y), Anchor::Start, SMALL);
    }
}

/// Draws text on a strip of paper that hides grid lines.
pub(super) fn backed(scene: &mut Scene, text: &str, (x, baseline): (f64, f64), anchor: Anchor, face: Face) {
    let width = face.width(text);
    if width > 0.0 {
        let left = if anchor == Anchor::End { x - width } else { x };
        scene.rect((left - 2.0, baseline - face.size), (width + 4.0, face.size * 1.3), PAPER);
    }
    scene.text(text, (x, baseline), anchor, face);
}

fn panel_row(scene: &mut Scene, panel: &Panel, place: &PanelPlace, at: usize, lines: &WrappedLines, row: &BarRow) {
    let Some(bars) = &panel.rows[at] else { return };
    let top = lines.tops[at] + NAME_HEIGHT;
    if panel.whole_run && row.rows_of_run > 1 {
        let last = lines.tops[(at + row.rows_of_run - 1).min(lines.tops.len() - 1)];
        let text = SMALL.fitted("whole workload of the run", place.width);
        backed(scene, &text, (place.left, lines.tops[at] + 13.0), Anchor::Start, SMALL);
        bracket(scene, place.left - BRACKET, lines.tops[at] + 4.0, last + NAME_HEIGHT + 2.0 * BAR + BAR_GAP);
    }
    if let [Err(first), Err(second)] = bars
        && first == second
    {
        absent_bar(scene, place, first, top + f64::midpoint(BAR, BAR_GAP));
        return;
    }
    for (number, (tag, content)) in panel.tags.iter().zip(bars).enumerate() {
        let y = top + number as f64 * (BAR + BAR_GAP);
        backed(scene, tag, (place.scale.zero - 5.0, y + BAR_BASELINE), Anchor::End, TAG);
        bar(scene, panel, place, content, y, row.at_least && !panel.whole_run);
    }
}

/// Marks the bars at the top as covering all rows along the bracket.
fn bracket(scene: &mut Scene, x: f64, top: f64, bottom: f64) {
    for line in [((x, top), (x, bottom)), ((x, top), (x + 4.0, top)), ((x, bottom), (x + 4.0, bottom))] {
        scene.line(line.0, line.1, AXIS);
    }
}

/// Draws stacked parts and their sum, marked if it is a lower bound.
fn bar(scene: &mut Scene, panel: &Panel, place: &PanelPlace, content: &Bar, y: f64, at_least: bool) {
    let content = match content {
        Ok(content) => content,
        Err(reason) => return absent_bar(scene, place, reason, y),
    };
    let mark = if at_least { Some(AT_LEAST) } else { None };
    stack(scene, &content.parts, panel.print, mark, &place.scale, y);
    if let Some((least, most)) = content.range.filter(|(least, most)| least < most) {
        let (from, to, y) = (place.scale.at(least), place.scale.at(most), y + BAR);
        scene.line((from, y), (to, y), INK);
        for x in [from, to] {
            scene.line((x, y - RANGE_END), (x, y), INK);
        }
    }
}

/// Draws adjacent parts from zero, then a mark and their sum.
pub(super) fn stack(
    scene: &mut Scene,
    parts: &[BarPart],
    print: fn(f64) -> String,
    mark: Option<char>,
    scale: &BarScale,
    y: f64,
) {
    let at = |value| scale.at(value);
    let mut sum = 0.0;
    for part in parts {
        let (from, to) = (at(sum), at(sum + part.value));
        scene.rect((from, y), (to - from, BAR), part.color);
        let ink = Face::new(INSIDE, Weight::Regular, part.color.ink_on());
        let label = print(part.value);
        // A single part needs no label: the total gives its value.
        if parts.len() > 1 && ink.width(&label) + 5.0 <= to - from {
            scene.text(&label, (f64::midpoint(from, to), y + BAR_BASELINE - 0.5), Anchor::Middle, ink);
        }
        sum += part.value;
    }
    // Draw hairlines of paper last, so that they do not cover thin parts.
    let mut edge = 0.0;
    for part in parts.iter().take(parts.len().saturating_sub(1)) {
        edge += part.value;
        if at(part.value) - at(0.0) > 2.0 {
            scene.rect((at(edge) - 0.5, y), (0.5, BAR), PAPER);
        }
    }
    let total: String = mark.into_iter().chain(print(sum).chars()).collect();
    backed(scene, &total, (at(sum) + 4.0, y + BAR_BASELINE), Anchor::Start, TOTAL);
}

fn absent_bar(scene: &mut Scene, place: &PanelPlace, reason: &str, y: f64) {
    let width = place.right() - place.scale.zero;
    scene.rect((place.scale.zero, y), (width, BAR), ABSENT);
    let text = SMALL.fitted(&format!("not measured: {reason}"), width - 8.0);
    scene.text(&text, (place.scale.zero + 4.0, y + BAR_BASELINE), Anchor::Start, SMALL);
}

/// Writes a caption below a rule, if there is one. Returns the base line after its last.
pub(super) fn paragraphs(scene: &mut Scene, caption: &[Paragraph], top: f64) -> f64 {
    let mut y = top;
    if caption.is_empty() {
        return y - CAPTION_LEADING;
    }
    scene.line((MARGIN, top - 20.0), (scene.width - MARGIN, top - 20.0), INK);
    let width = (scene.width - 2.0 * MARGIN) / SMALL.spare();
    for paragraph in caption {
        y = scene.paragraph(paragraph, (MARGIN, y), width, CAPTION_LEADING) + PARAGRAPH_GAP;
    }
    y
}
