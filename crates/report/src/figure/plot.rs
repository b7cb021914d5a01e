//! A figure of a quantity, in whichever form suits it.

use super::dots::{DotFigure, draw_dots, draw_dots_inline};
use super::lines::{LineFigure, draw_lines, draw_lines_inline};
use super::{ImageFormat, Look};
use crate::error::ReportError;

/// A figure of lines or of ranges.
#[derive(Clone, Debug)]
pub(crate) enum Plot {
    /// Of what goes on: percentiles, time, lengths of a pipeline.
    Lines(LineFigure),
    /// Of what stands beside each other, and how far it goes.
    Dots(DotFigure),
}

impl Plot {
    /// Returns the heading.
    pub(crate) fn title(&self) -> &str {
        match self {
            Self::Lines(figure) => &figure.title,
            Self::Dots(figure) => &figure.title,
        }
    }

    /// Returns the same with another look.
    pub(crate) fn looking(self, look: Look) -> Self {
        match self {
            Self::Lines(figure) => Self::Lines(LineFigure { look, ..figure }),
            Self::Dots(figure) => Self::Dots(DotFigure { look, ..figure }),
        }
    }

    /// Returns its width in logical pixels.
    pub(crate) fn width(&self) -> u32 {
        match self {
            Self::Lines(figure) => figure.look.width,
            Self::Dots(figure) => figure.look.width,
        }
    }

    /// Returns it as SVG and as PNG, each with the name of its file.
    ///
    /// # Errors
    ///
    /// Those of drawing.
    pub(crate) fn files(&self, name: &str) -> Result<[(String, Vec<u8>); 2], ReportError> {
        let drawn = match self {
            Self::Lines(figure) => draw_lines(figure),
            Self::Dots(figure) => draw_dots(figure),
        }?;
        Ok(drawn.map(|(format, bytes): (ImageFormat, Vec<u8>)| (format!("{name}.{}", format.suffix()), bytes)))
    }

    /// Returns it as an element of a page that has its title.
    ///
    /// # Errors
    ///
    /// Those of drawing.
    pub(crate) fn inline(&self, id: &str) -> Result<String, ReportError> {
        match self {
            Self::Lines(figure) => draw_lines_inline(figure, id),
            Self::Dots(figure) => draw_dots_inline(figure, id),
        }
    }
}
