//! The width and style of text for the terminal.

use overhead_report::Style;
use std::io;

/// Default characters per line.
const PAGE: usize = 80;
/// Minimum characters per line; smaller widths are not credible.
const NARROWEST: usize = 40;

/// Returns the table style: as wide as the terminal, or 80 characters without one. Prose wraps for a terminal and stays on one
/// line for programs.
pub fn style(color: bool) -> Style {
    let width = width();
    Style { color, width: Some(width.unwrap_or(PAGE)), prose: width, legend: false }
}

/// Returns the width from `COLUMNS`, or else that of the terminal, if there is one.
pub fn width() -> Option<usize> {
    let given = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let measured = || terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
    given.or_else(measured).map(|width| width.max(NARROWEST))
}
