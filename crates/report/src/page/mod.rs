//! The page: one self-contained, interactive HTML file that works offline.
//!
//! This code prepares plain values ([`content`]); a template, style sheet and script next to it define the appearance. The
//! engine escapes every value, so no name from the wire can become markup or control the browser.

mod content;
mod detail;
mod runs;
mod theme;
mod words;

use crate::error::ReportError;
use crate::figure::fonts;
use crate::summary::distinct;
pub(crate) use content::{Conditions, PageFigure, PageTable, PageWarning, WebPage};
pub use content::{ExampleFrame, ExamplePiece, PageExample, PageExtras, PageFinding};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, UndefinedBehavior, context, escape_formatter};
use overhead_model::OutsideText;
pub(crate) use runs::{conditions, embedded, embedded_runs, made_by, render_runs};

pub use words::sentences;

pub(crate) const PAGE_FILE: &str = "index.html";

/// Start of every page, which distinguishes it from a user's file.
pub(crate) const PAGE_START: &[u8] = b"<!doctype html>\n<!-- made by overhead report -->\n";

/// Target size of a page in bytes, if shorter lists can reach it: small enough to mail and to open at once.
const PAGE_BYTES: usize = 1_000_000;

/// Findings shown initially; the others unfold.
const FINDINGS_SHOWN: usize = 8;

/// The engine chooses its escaping by this name's suffix.
const TEMPLATE_NAME: &str = "page.html";
const TEMPLATE: &str = include_str!("page.html.jinja");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

impl WebPage {
    /// Renders the file's text.
    /// Fails with [`ReportError::Page`], which a test rules out.
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
        let methods =
            distinct(self.charts.iter().map(|chart| chart.method.clone()).filter(|method| !method.is_empty()));
        let page = Value::from(Serde(self));
        let values = context! { page, methods, style, script => SCRIPT, findings_shown => FINDINGS_SHOWN };
        let mut text = environment.render_named_str(TEMPLATE_NAME, TEMPLATE, values)?;
        text.push('\n');
        Ok(text)
    }
}

#[cfg(test)]
mod tests;
