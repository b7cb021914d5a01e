//! Renders a sweep as text and Markdown.

use super::sections::{CELLS, sections};
use super::summary::Sweep;
use crate::document::Document;
use crate::grid::Style;

/// Renders for a terminal.
pub fn table(sweep: &Sweep, style: Style) -> String {
    document(sweep).terminal(style)
}

/// Renders for a document: tables under second-level headings.
pub fn markdown(sweep: &Sweep) -> String {
    document(sweep).markdown()
}

/// Returns the tables and caveats, without a title.
pub(super) fn document(sweep: &Sweep) -> Document {
    let mut document = Document::default();
    for section in sections(sweep) {
        document.section(2, section);
    }
    document.prose(CELLS);
    document.warnings(remarks(sweep));
    document
}

/// Returns the caveats: why the sweep is incomplete, which runs do not count, and what was lost.
pub fn remarks(sweep: &Sweep) -> Vec<String> {
    let mut remarks: Vec<String> = sweep.partial.iter().cloned().collect();
    let runs = || sweep.points.iter().flat_map(|point| &point.runs);
    let faults = runs().filter_map(|run| Some((&run.name, run.fault.as_ref()?)));
    remarks
        .extend(faults.map(|(name, fault)| format!("{name} does not count: {fault}; command.err has what it printed")));
    remarks.extend(runs().filter(|run| run.partial).map(|run| format!("{} is partial: its record says why", run.name)));
    for bound in sweep.points.iter().flat_map(|point| &point.lower_bounds) {
        remarks.push(format!("{bound}: bytes and frames marked ≥ are lower bounds"));
    }
    remarks
}
