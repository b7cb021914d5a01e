//! Prints results to standard output and warnings to standard error.

use crate::options::{Format, Output};
use crate::terminal;
use anyhow::{Context, Result};
use overhead_model::{Measured, Run, exit, say};
use overhead_reading::{ConnectionChoice, Warnings};
use overhead_report::gate::{self, Finding, FindingForm};
use overhead_report::text::{self, counted, grouped};
use overhead_report::{NamedRun, view};
use std::path::Path;

/// Prints the result; `again` is the words that read its packets again, for suggestions.
pub fn result(named: &NamedRun, output: &Output, again: Option<&str>) -> Result<()> {
    let viewed = output.view().map(|options| {
        let mut run = named.run.clone();
        run.view = Some(view(&run, &options));
        NamedRun::new(named.name.clone(), run)
    });
    let named = viewed.as_ref().unwrap_or(named);
    let text = match output.format {
        Format::Json => text::json(&named.run)?,
        Format::Csv => text::csv(std::slice::from_ref(named)),
        Format::Markdown => text::markdown(named, &output.chosen()?),
        Format::Table => text::table(named, &output.chosen()?, output.style()) + &next(&named.run, again),
    };
    verbatim(&text)
}

/// Suggests the next commands below a table with numbers.
fn next(run: &Run, again: Option<&str>) -> String {
    let is_numbered = run.view.iter().flat_map(|view| &view.rows).any(|row| row.number.is_some());
    let next = again.filter(|_| is_numbered);
    next.map_or_else(String::new, |words| format!("next: overhead explain {words} '#1'; overhead advise {words}\n"))
}

/// Prints a result that is already text. A closed reader is not an error.
pub fn verbatim(text: &str) -> Result<()> {
    exit::print(text).context("standard output")
}

/// Returns each sentence on lines of its own, as wide as the terminal.
pub fn prose(sentences: &[String]) -> String {
    let width = terminal::width();
    sentences.iter().map(|sentence| text::wrapped(sentence, width) + "\n").collect()
}

/// Prints findings. Annotations start with a reserved prefix, and their text is escaped.
pub fn findings(findings: &[Finding], form: FindingForm, file: Option<&Path>) -> Result<()> {
    let text = gate::findings(findings, form, file)?;
    let print = if form == FindingForm::Github { exit::print_as_it_is } else { exit::print };
    print(&text).context("standard output")
}

/// Repeats the record's warnings on standard error, unless the output form already shows them.
pub fn warnings(named: &NamedRun, output: &Output) {
    if output.verbose {
        for line in details(&named.run) {
            say!("overhead: {line}");
        }
    }
    if output.quiet || output.format.is_for_screens() {
        return;
    }
    warn(&named.run.warnings);
}

/// Returns lines about the input, the choice of connections and the cost of the run.
fn details(run: &Run) -> Vec<String> {
    let Run { source, observer, .. } = run;
    let files = source.inputs.iter().map(|input| {
        format!("{}: {}, {}", input.path, counted(input.frames, "frame"), counted(input.wire_bytes, "byte"))
    });
    let chosen = ConnectionChoice::from(source.selection.clone()).words().join(" ");
    let chosen = if chosen.is_empty() { "by port, then by content".to_owned() } else { chosen };
    let interface = run.environment.as_ref().and_then(|environment| environment.interface.as_ref());
    let took = match (&observer.cpu_ns, &observer.frames_per_second) {
        (Measured::Value(cpu_ns), Measured::Value(speed)) => {
            Some(format!("{} µs of CPU time, {} a second", grouped(cpu_ns / 1_000), counted(*speed, "frame")))
        }
        _ => None,
    };
    files
        .chain([format!("connections chosen: {chosen}")])
        .chain(interface.map(text::interface_line))
        .chain(took)
        .collect()
}

/// Prints the warnings and returns their exit status.
pub fn settled(warnings: Warnings) -> u8 {
    let (warnings, status) = warnings.settle();
    warn(&warnings);
    status
}

/// Prints the path of a written file on standard error.
pub fn path(path: &Path, output: &Output) {
    if !output.quiet {
        say!("{}", path.display());
    }
}

/// Prints the folder of written files and their names on standard error.
#[cfg(feature = "live")]
pub fn files(files: &[std::path::PathBuf], output: &Output) {
    if let Some(folder) = files.first().and_then(|file| file.parent()).filter(|_| !output.quiet) {
        let names = files.iter().filter_map(|file| file.file_name()).map(|name| name.to_string_lossy());
        say!("written to {}: {}", folder.display(), names.collect::<Vec<_>>().join(", "));
    }
}

pub fn warn(warnings: &[String]) {
    for warning in warnings {
        say!("overhead: warning: {warning}");
    }
}
