//! The page: one HTML file that holds everything, opens without a network, and can be clicked in.
//!
//! What it says is made here as plain values ([`content`]); how it looks are a template, a style sheet and a script beside this
//! code. The engine escapes every value, so that no name from the wire is markup or steers the browser.

mod content;
mod detail;
mod records;
mod runs;
mod theme;
mod words;

use crate::error::ReportError;
use crate::figure::fonts;
pub(crate) use content::{Conditions, Doubt, Fact, PageFigure, PageTable, WebPage};
pub use content::{ExampleFrame, ExamplePiece, PageExample, PageExtras, PageFinding};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, UndefinedBehavior, context, escape_formatter};
use overhead_files::OutputFolder;
use overhead_model::OutsideText;
pub(crate) use records::embedded;
pub(crate) use runs::machine_facts;

pub(crate) use runs::of_runs;

/// Name of the file.
pub(crate) const PAGE_FILE: &str = "index.html";

/// Begins every page, so that one is told from a file of the user's.
const PAGE_START: &[u8] = b"<!doctype html>\n<!-- made by overhead report -->\n";

/// Returns the first of a report's `files` that would be replaced and that no earlier report has left there: one of ours has tables
/// that begin with one of `starts`, and a page that says what has made it.
pub(crate) fn replaced(
    folder: &OutputFolder,
    tables: &str,
    starts: &[&str],
    files: &[&'static str],
) -> Option<&'static str> {
    if folder.holds(PAGE_FILE) && !folder.holds_start(PAGE_FILE, PAGE_START) {
        return Some(PAGE_FILE);
    }
    if starts.iter().any(|start| folder.holds_start(tables, start.as_bytes())) {
        return None;
    }
    files.iter().copied().find(|name| folder.holds(name))
}

/// Bytes of a page at most, where shortening its lists can do it: what is sent by mail and opens at once.
const PAGE_BYTES: usize = 1_000_000;

/// Findings that are told at once; further ones unfold.
const FINDINGS_SHOWN: usize = 8;

/// The engine escapes by the suffix of this name.
const TEMPLATE_NAME: &str = "page.html";
const TEMPLATE: &str = include_str!("page.html.jinja");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

impl WebPage {
    /// Returns the file's text.
    ///
    /// # Errors
    ///
    /// [`ReportError::Page`], which a test rules out.
    pub(crate) fn render(&self) -> Result<String, ReportError> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
        let [regular, bold] = fonts();
        environment.set_formatter(|out, state, value| match value.as_str().filter(|_| !value.is_safe()) {
            Some(text) => escape_formatter(out, state, &OutsideText(text).to_string().into()),
            None => escape_formatter(out, state, value),
        });
        let style = theme::variables() + &STYLE.replace("@REGULAR@", &regular).replace("@BOLD@", &bold);
        let values =
            context! { page => Value::from(Serde(self)), style, script => SCRIPT, findings_shown => FINDINGS_SHOWN };
        let mut text = environment.render_named_str(TEMPLATE_NAME, TEMPLATE, values)?;
        text.push('\n');
        Ok(text)
    }
}

#[cfg(test)]
mod tests;
