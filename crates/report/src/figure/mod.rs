//! The chart: any number of runs, with a row per operation and three columns: bytes by account, system calls by name, and CPU
//! work by mode.

mod axis;
mod caption;
mod chart;
mod dots;
mod font;
mod layout;
mod lines;
mod paint;
mod palette;
mod panels;
mod plot;
mod scene;
mod stacks;
mod svg;

use crate::error::ReportError;
use crate::run::NamedRun;
pub(crate) use caption::{HOW_TO_READ, left_out, only_in_table};
use chart::Chart;
pub use dots::{DotFigure, DotRow};
pub use lines::{Band, Line, LineFigure, TimeAxis};
use overhead_model::Account;
use palette::Rgb;
pub(crate) use palette::THEMED;
pub use panels::{PanelFigure, PanelLine, PanelPoint, PlotPanel};
pub use plot::Plot;
pub(crate) use plot::titled;
use scene::Scene;
pub use stacks::{StackFigure, StackRow};

/// Size and colours of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlotStyle {
    /// Width in logical pixels; a PNG has twice as many.
    pub width: u32,
    /// Uses colours for a dark screen.
    pub dark: bool,
}

pub(crate) const NARROW: u32 = 340;

impl Default for PlotStyle {
    fn default() -> Self {
        Self { width: layout::WIDTH as u32, dark: false }
    }
}

impl PlotStyle {
    /// Below the minimum, names and bars do not fit; above the maximum, no screen can show the chart.
    pub const WIDTHS: std::ops::RangeInclusive<u32> = 320..=4_000;

    pub(crate) fn width(self) -> f64 {
        f64::from(self.width.clamp(*Self::WIDTHS.start(), *Self::WIDTHS.end()))
    }

    pub(crate) fn painted(self, scene: Scene) -> Scene {
        if self.dark { scene.darkened() } else { scene }
    }
}

/// Background of a page and its charts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    Light,
    Dark,
}

/// The keys that a chart is drawn by: a parameter, `system` or `run`; `None` for one that suits the runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChartAxes {
    /// The key of the horizontal axis.
    pub x: Option<String>,
    /// The key that each line has a value of.
    pub series: Option<String>,
    /// The key that each panel has a value of.
    pub facet: Option<String>,
}

/// Choices for the charts and the page of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportOptions {
    /// Heading; `None` for the default.
    pub title: Option<String>,
    /// Operations drawn per run, largest by bytes; `None` for a number that suits the number of runs.
    pub operations_per_run: Option<usize>,
    /// Names of the operations to draw; empty to draw the largest.
    pub operations: Vec<String>,
    /// Leaves out the caption of the main chart, except for warnings.
    pub is_bare: bool,
    /// Background; `None` for light charts and a page that follows the reader's system setting.
    pub theme: Option<Theme>,
    /// Width of charts in logical pixels; `None` for the default.
    pub width: Option<u32>,
    /// The keys that runs with parameters are drawn by.
    pub axes: ChartAxes,
}

impl ReportOptions {
    pub(crate) fn style(&self) -> PlotStyle {
        let usual = PlotStyle::default();
        PlotStyle { width: self.width.unwrap_or(usual.width), dark: self.theme == Some(Theme::Dark) }
    }

    /// Returns the page theme's name in the style sheet.
    pub(crate) fn page_theme(&self) -> Option<&'static str> {
        self.theme.map(|theme| if theme == Theme::Dark { "dark" } else { "light" })
    }
}

/// Text alternative for readers who cannot see the image.
const DESCRIPTION: &str = "Bar charts with a row per run and operation: bytes on the wire per operation by account, for request and \
response; system calls per operation by name and CPU work per operation by mode, for server and client. The conditions of \
each run are in the caption.";

/// Draws these runs as SVG and as PNG.
///
/// # Errors
///
/// Returns [`ReportError::NoRuns`], or [`ReportError::Drawing`] if there are too many rows for an image.
pub fn draw(runs: &[NamedRun], title: &str, options: &ReportOptions) -> Result<[Vec<u8>; 2], ReportError> {
    let scene = options.style().painted(scene(runs, Some(title), options)?);
    Ok([svg::file(&scene, title, DESCRIPTION, true)?, paint::png(&scene)?])
}

/// Returns the chart as an element for a page that supplies font, heading, caption text and colours.
/// Fails with [`ReportError::NoRuns`].
pub(crate) fn draw_inline(
    runs: &[NamedRun],
    id: &str,
    title: &str,
    options: &ReportOptions,
) -> Result<String, ReportError> {
    Ok(svg::element(&scene(runs, None, options)?, id, title, DESCRIPTION))
}

/// Lays out the chart, with a caption if it has a title.
fn scene(runs: &[NamedRun], title: Option<&str>, options: &ReportOptions) -> Result<Scene, ReportError> {
    if runs.is_empty() {
        return Err(ReportError::NoRuns);
    }
    let chart = Chart::choosing(runs, options.operations_per_run, &options.operations);
    let caption = title.map(|_| caption::paragraphs(runs, options.is_bare)).unwrap_or_default();
    Ok(layout::scene(&chart, title, &caption, options.style().width()))
}

/// Returns the colours of each account for light and dark screens.
pub(crate) fn account_colors() -> impl Iterator<Item = (&'static str, Rgb, Rgb)> {
    Account::ALL.into_iter().map(|of| (of.name(), palette::account(of), palette::account(of).dark()))
}

/// Returns the page classes whose colours change on a dark screen, with their dark colours.
pub(crate) fn dark_colors() -> impl Iterator<Item = (String, Rgb)> {
    palette::ON_A_DARK_SCREEN.into_iter().map(|(light, dark)| (svg::class(light), dark))
}

/// Returns the regular and bold fonts in base64.
pub(crate) fn fonts() -> [String; 2] {
    font::Weight::ALL.map(svg::font_base64)
}

#[cfg(test)]
mod tests;
