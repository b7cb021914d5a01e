//! The figure: any number of runs side by side, each operation a row, with its bytes by account, system calls by name and
//! CPU work by mode in three columns.

mod caption;
mod chart;
mod font;
mod layout;
mod lines;
mod paint;
mod palette;
mod panels;
mod scene;
mod stacks;

use crate::error::ReportError;
use crate::run::NamedRun;
use chart::Chart;
pub use lines::{LineFigure, draw_lines};
#[cfg(test)]
use scene::Scene;
pub use stacks::{StackFigure, StackRow, draw_stacks};

/// Image file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageFormat {
    /// Scalable, with its font embedded.
    Svg,
    /// 1,600 pixels wide: twice the logical size.
    Png,
}

/// What a caller may choose about a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FigureOptions {
    /// Heading.
    pub title: String,
    /// Operations drawn per run, the largest by bytes; `None` for as many as read well beside the other runs.
    pub operations_per_run: Option<usize>,
}

impl Default for FigureOptions {
    fn default() -> Self {
        Self { title: "Overhead per operation".to_owned(), operations_per_run: None }
    }
}

/// What a reader who cannot see the image is told.
const DESCRIPTION: &str = "Bar charts with a row per run and operation: bytes on the wire per operation by account, for request and \
response; system calls per operation by name and CPU work per operation by mode, for server and client. The conditions of \
each run are in the caption.";

/// The figure of these runs as the bytes of an image file.
///
/// # Errors
///
/// [`ReportError::NoRuns`], or [`ReportError::Drawing`] when there are too many rows for an image.
pub fn draw(runs: &[NamedRun], format: ImageFormat, options: &FigureOptions) -> Result<Vec<u8>, ReportError> {
    if runs.is_empty() {
        return Err(ReportError::NoRuns);
    }
    let chart = Chart::of(runs, options.operations_per_run);
    let scene = layout::scene(&chart, &options.title, &caption::paragraphs(runs));
    match format {
        ImageFormat::Svg => paint::svg(&scene, &options.title, DESCRIPTION),
        ImageFormat::Png => paint::png(&scene),
    }
}

#[cfg(test)]
mod tests;
