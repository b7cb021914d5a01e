//! Results to standard output, doubts to standard error.

use crate::cli::{Format, Output};
use crate::doubts::Doubts;
use anyhow::{Context, Result};
use overhead_report::{NamedRun, Style, text};
use std::io::{IsTerminal, Write};

/// Prints a result in the form asked for.
pub fn result(named: &NamedRun, output: &Output) -> Result<()> {
    let text = match output.format {
        Format::Json => text::json(&named.run)?,
        Format::Csv => text::csv(std::slice::from_ref(named)),
        Format::Markdown => text::markdown(named),
        Format::Table => text::table(named, style(output.colored())),
    };
    verbatim(&text)
}

/// How tables are printed here.
pub fn style(color: bool) -> Style {
    Style { color, width: terminal_width() }
}

/// Prints a result that is text already.
pub fn verbatim(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).context("standard output")
}

/// Repeats the record's warnings on standard error, where the form on standard output does not show them to people.
pub fn warnings(named: &NamedRun, output: &Output) {
    if output.quiet || output.format == Format::Table {
        return;
    }
    warn(&named.run.warnings);
}

/// Prints what a reader has to know beside a result, and gives the status that goes with it.
pub fn doubts(doubts: Doubts) -> u8 {
    let (warnings, status) = doubts.settle();
    warn(&warnings);
    status
}

fn warn(warnings: &[String]) {
    for warning in warnings {
        eprintln!("overhead: warning: {warning}");
    }
}

fn terminal_width() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    std::env::var("COLUMNS").ok()?.parse().ok()
}
