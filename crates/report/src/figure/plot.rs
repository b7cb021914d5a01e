//! Draws all charts but the main one, as files and for a page.

use super::dots::{self, DotFigure};
use super::lines::{self, LineFigure};
use super::panels::{self, PanelFigure};
use super::scene::Scene;
use super::stacks::{self, StackFigure};
use super::{NARROW, PlotStyle, paint, svg};
use crate::error::ReportError;

/// A chart of any kind except the main one of a report.
#[derive(Clone, Debug)]
pub enum Plot {
    Lines(LineFigure),
    Panels(PanelFigure),
    Dots(DotFigure),
    Stacks(StackFigure),
}

impl Plot {
    /// Returns the chart as SVG and as PNG.
    ///
    /// # Errors
    ///
    /// Returns [`ReportError::NoRuns`] if there is nothing to draw, and any drawing error.
    pub fn draw(&self) -> Result<[Vec<u8>; 2], ReportError> {
        let [title, description] = self.words();
        let scene = self.style().painted(self.laid_out(Some(title))?);
        Ok([svg::file(&scene, title, description, true)?, paint::png(&scene)?])
    }

    /// Returns the chart for a phone, as an SVG that uses the reader's fonts.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Plot::draw`].
    pub fn phone_svg(self) -> Result<Vec<u8>, ReportError> {
        let figure = self.with_style(PlotStyle { width: NARROW, dark: false });
        let [title, description] = figure.words();
        svg::file(&figure.laid_out(Some(title))?, title, description, false)
    }

    /// Returns the files of the chart, with their names.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Plot::draw`].
    pub fn files(&self, name: &str) -> Result<[(String, Vec<u8>); 2], ReportError> {
        let [svg, png] = self.draw()?;
        Ok([(format!("{name}.svg"), svg), (format!("{name}.png"), png)])
    }

    /// Draws for a page, which has the title elsewhere.
    pub(crate) fn inline(&self, id: &str) -> Result<String, ReportError> {
        let [title, description] = self.words();
        Ok(svg::element(&self.laid_out(None)?, id, title, description))
    }

    pub(crate) fn with_style(mut self, style: PlotStyle) -> Self {
        *self.changeable().1 = style;
        self
    }

    /// Names the system in the title, unless it is not known.
    pub(crate) fn with_system(mut self, system: &str) -> Self {
        let title = self.changeable().0;
        if !system.is_empty() {
            *title = titled(system, title);
        }
        self
    }

    fn changeable(&mut self) -> (&mut String, &mut PlotStyle) {
        match self {
            Self::Lines(figure) => (&mut figure.title, &mut figure.style),
            Self::Panels(figure) => (&mut figure.title, &mut figure.style),
            Self::Dots(figure) => (&mut figure.title, &mut figure.style),
            Self::Stacks(figure) => (&mut figure.title, &mut figure.style),
        }
    }

    pub(crate) fn style(&self) -> PlotStyle {
        self.common().1
    }

    /// Returns how to read it, if a page prints that apart from the chart.
    pub(crate) fn method(&self) -> &str {
        self.common().0[2]
    }

    /// Returns title and description.
    pub(crate) fn words(&self) -> [&str; 2] {
        let ([title, description, _], _) = self.common();
        [title, description]
    }

    /// Returns title, description, how to read it, and the style.
    fn common(&self) -> ([&str; 3], PlotStyle) {
        match self {
            Self::Lines(figure) => ([&figure.title, &figure.description, &figure.method], figure.style),
            Self::Panels(figure) => ([&figure.title, &figure.description, &figure.method], figure.style),
            Self::Dots(figure) => ([&figure.title, &figure.description, &figure.method], figure.style),
            Self::Stacks(figure) => ([&figure.title, &figure.description, ""], figure.style),
        }
    }

    fn laid_out(&self, title: Option<&str>) -> Result<Scene, ReportError> {
        match self {
            Self::Lines(figure) => lines::laid_out(figure, title),
            Self::Panels(figure) => panels::laid_out(figure, title),
            Self::Dots(figure) => dots::laid_out(figure, title),
            Self::Stacks(figure) => stacks::laid_out(figure, title),
        }
    }
}

/// Returns a title such as `Redis 7.0.15: latency by percentile`.
pub(crate) fn titled(system: &str, quantity: &str) -> String {
    let is_word = quantity.chars().nth(1).is_some_and(char::is_lowercase);
    let (first, rest) = quantity.split_at(quantity.chars().next().map_or(0, char::len_utf8));
    format!("{system}: {}{rest}", if is_word { first.to_lowercase() } else { first.to_owned() })
}
