//! A figure in the form that suits its quantity.

use super::dots::{DotFigure, draw_dots, draw_dots_inline};
use super::lines::{LineFigure, draw_lines, draw_lines_inline};
use super::{ImageFormat, Look};
use crate::error::ReportError;

/// A line chart or range chart.
#[derive(Clone, Debug)]
pub(crate) enum Plot {
    /// For continuous quantities: percentiles, time, pipeline lengths.
    Lines(LineFigure),
    /// For separate items and their ranges.
    Dots(DotFigure),
}

impl Plot {
    pub(crate) fn title(&self) -> &str {
        match self {
            Self::Lines(figure) => &figure.title,
            Self::Dots(figure) => &figure.title,
        }
    }

    /// Returns the figure with another look.
    pub(crate) fn looking(self, look: Look) -> Self {
        match self {
            Self::Lines(figure) => Self::Lines(LineFigure { look, ..figure }),
            Self::Dots(figure) => Self::Dots(DotFigure { look, ..figure }),
        }
    }

    pub(crate) fn width(&self) -> u32 {
        match self {
            Self::Lines(figure) => figure.look.width,
            Self::Dots(figure) => figure.look.width,
        }
    }

    /// Returns the figure as SVG and PNG with file names.
    pub(crate) fn files(&self, name: &str) -> Result<[(String, Vec<u8>); 2], ReportError> {
        let drawn = match self {
            Self::Lines(figure) => draw_lines(figure),
            Self::Dots(figure) => draw_dots(figure),
        }?;
        Ok(drawn.map(|(format, bytes): (ImageFormat, Vec<u8>)| (format!("{name}.{}", format.suffix()), bytes)))
    }

    /// Returns the figure as an element for a page that already shows its title.
    pub(crate) fn inline(&self, id: &str) -> Result<String, ReportError> {
        match self {
            Self::Lines(figure) => draw_lines_inline(figure, id),
            Self::Dots(figure) => draw_dots_inline(figure, id),
        }
    }
}
