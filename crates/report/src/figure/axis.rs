//! The axis of a quantity: round ticks from zero, or logarithmic.

use super::layout::{HEADING, MARGIN, TICK, step};
use super::lines::LineFigure;
use super::scene::{Anchor, Scene};
use crate::number::with_digits;

/// Minimum width of the axis labels.
pub(super) const LABELS: f64 = 52.0;

pub(super) struct Axis {
    from: f64,
    pub(super) to: f64,
    logarithmic: bool,
    pub(super) ticks: Vec<f64>,
}

impl Axis {
    /// Returns an axis that covers all values of a chart, or `None` if there are none.
    pub(super) fn from_figure(figure: &LineFigure) -> Option<Self> {
        let values = figure.lines.iter().flat_map(|(_, values)| values).flatten();
        Self::over(values.flat_map(|of| [of.median, of.min, of.max]), figure.logarithmic, Self::logarithmic)
    }

    /// Returns an axis that covers these values, or `None` if it can show none of them.
    pub(super) fn over(
        values: impl Iterator<Item = f64>,
        logarithmic: bool,
        ratio_axis: fn(f64, f64) -> Self,
    ) -> Option<Self> {
        let values: Vec<f64> = values.filter(|value| value.is_finite() && (!logarithmic || *value > 0.0)).collect();
        let max = values.iter().copied().max_by(f64::total_cmp)?;
        let min = values.iter().copied().min_by(f64::total_cmp)?;
        Some(if logarithmic { ratio_axis(min, max) } else { Self::linear(max) })
    }

    fn linear(max: f64) -> Self {
        let step = step(max, 5.0);
        let count = (max / step).ceil().max(1.0);
        let ticks = (0..=count as u32).map(|at| f64::from(at) * step).collect();
        Self { from: 0.0, to: count * step, logarithmic: false, ticks }
    }

    /// Uses steps of 1, 2 and 5 times a power of ten; above three decades, only powers of ten.
    pub(super) fn logarithmic(min: f64, max: f64) -> Self {
        let decades = min.log10().floor() as i32..=max.log10().ceil() as i32;
        let leading: &[f64] = if max / min > 1e3 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let all = decades.flat_map(|power| leading.iter().map(move |digit| digit * 10_f64.powi(power)));
        let all: Vec<f64> = all.collect();
        let from = all.iter().copied().filter(|tick| *tick <= min).fold(min, |_, tick| tick);
        let to = all.iter().copied().find(|tick| *tick >= max && *tick > from).unwrap_or(max);
        Self { from, to, logarithmic: true, ticks: all.into_iter().filter(|tick| (from..=to).contains(tick)).collect() }
    }

    /// Starts and ends at the values, if two ticks lie between them.
    pub(super) fn logarithmic_cropped(min: f64, max: f64) -> Self {
        let mut axis = Self::logarithmic(min, max);
        let inside: Vec<f64> = axis.ticks.iter().copied().filter(|tick| (min..=max).contains(tick)).collect();
        if inside.len() > 1 {
            (axis.from, axis.to, axis.ticks) = (min, max, inside);
        }
        axis
    }

    /// Returns the left edge of the plot area, right of the labels.
    pub(super) fn left(&self) -> f64 {
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

/// Formats a tick with as many digits as it needs: ticks are multiples of 1, 2 or 5 times a power of ten.
pub(super) fn tick_label(tick: f64) -> String {
    let digits = (0..6).find(|digits| (tick * 10_f64.powi(*digits)).fract().abs() < 1e-6).unwrap_or(6);
    with_digits(tick, digits as usize)
}

#[cfg(test)]
mod tests {
    use super::super::scene::Mark;
    use super::*;

    #[test]
    fn a_logarithmic_axis_begins_and_ends_at_ticks_around_all_values() {
        for (min, max) in [(70.0, 9_000.0), (1.0, 1.0), (0.03, 0.9), (5.0, 5_000_000.0)] {
            let axis = Axis::logarithmic(min, max);
            assert!(axis.from <= min && axis.to >= max && axis.from < axis.to, "{min} to {max}");
            assert!((2..=12).contains(&axis.ticks.len()), "{:?}", axis.ticks);
            assert!(axis.ticks.iter().all(|tick| (0.0..=1.0).contains(&axis.height(*tick).unwrap())));
        }
    }

    #[test]
    fn a_cropped_axis_ends_at_its_values_and_shows_two_ticks() {
        for (min, max) in [(70.0, 9_000.0), (0.43, 7.8), (1.0, 1.0), (3.0, 4.0)] {
            let axis = Axis::logarithmic_cropped(min, max);
            assert!(axis.from <= min && axis.to >= max && axis.from < axis.to, "{min} to {max}");
            assert!(
                axis.ticks.len() > 1
                    && axis.ticks.iter().all(|tick| (0.0..=1.0).contains(&axis.height(*tick).unwrap()))
            );
        }
        assert_eq!(Axis::logarithmic_cropped(0.43, 7.8).ticks, [0.5, 1.0, 2.0, 5.0]);
    }

    #[test]
    fn ticks_have_as_many_digits_as_they_need() {
        assert_eq!(
            [0.0, 0.05, 0.3, 1.0, 2.5, 20.0, 5e6].map(tick_label),
            ["0", "0.05", "0.3", "1", "2.5", "20", "5,000,000"]
        );
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
}
