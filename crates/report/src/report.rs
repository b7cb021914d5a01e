//! A report folder: the comparison chart and its table.

use crate::document::{Document, Fact};
use crate::error::ReportError;
use crate::figure::{HOW_TO_READ, NARROW, Plot, ReportOptions, draw, draw_inline, titled};
use crate::grid::Grid;
use crate::limits::REPORT_STATEMENTS;
use crate::number::{DASH, significant, with_digits};
use crate::page::{self, PAGE_FILE, PageExtras, PageFigure};
use crate::report_folder::{self, ReportFile, TABLES_FILE};
use crate::run::{NamedRun, RunGroup};
use crate::summary::{
    CpuUnit, RoleName, data_difference, listed, per_operation, syscalls_per_operation, systems, whole_run_counters,
    workload, workload_count,
};
use crate::text::columns::OperationColumn;
use crate::text::table::{self, TableRows};
use crate::text::{beside_the_workload, distribution, facts};
use crate::view::with_statements;
use crate::{distance, latencies, ranges, series, sweep};
use overhead_files::OutputFolder;
use overhead_model::Run;
use overhead_model::record::{OperationRow, ViewRow};
use std::path::PathBuf;

/// First words of the tables of earlier versions.
const HEADING: &str = "# Overhead per operation\n";

/// First line of a report's tables.
const MARK: &str = "<!-- made by overhead report -->\n";

/// Files of a report. It has latency charts if there are latencies, ranges if there are several, and time series if the
/// packets supply them. Runs that differ by a parameter have charts against it instead of the main chart.
pub const REPORT_FILES: [&str; 32] = [
    "overhead.svg",
    "overhead.png",
    TABLES_FILE,
    PAGE_FILE,
    "ranges.svg",
    "ranges.png",
    "latency.svg",
    "latency.png",
    "distribution.svg",
    "distribution.png",
    "rate-over-time.svg",
    "rate-over-time.png",
    "latency-over-time.svg",
    "latency-over-time.png",
    "bytes.svg",
    "bytes.png",
    "accounts.svg",
    "accounts.png",
    "operations.svg",
    "operations.png",
    "round-trips.svg",
    "round-trips.png",
    "frames.svg",
    "frames.png",
    "calls.svg",
    "calls.png",
    "cpu.svg",
    "cpu.png",
    "rate.svg",
    "rate.png",
    "distance.svg",
    "distance.png",
];

/// Returns the first file that [`write_report`] would replace and that no earlier report wrote.
pub fn replaced_by_report(folder: &OutputFolder) -> Option<&'static str> {
    report_folder::replaced(folder, &[HEADING, MARK, sweep::HEADING], &REPORT_FILES)
}

/// Writes the charts, `report.md` and `index.html` into `folder`, replacing files with these names. Removes charts of an
/// earlier report that do not apply to these runs. Returns the files written.
///
/// # Errors
///
/// [`ReportError::NoRuns`], [`ReportError::Unwritable`], [`ReportError::Drawing`], [`ReportError::Json`] or [`ReportError::Page`].
pub fn write_report(runs: &[NamedRun], folder: &OutputFolder) -> Result<Vec<PathBuf>, ReportError> {
    let groups: Vec<RunGroup> = runs.iter().cloned().map(RunGroup::single).collect();
    write_report_as(&groups, folder, &ReportOptions::default(), &PageExtras::default())
}

/// Like [`write_report`], of groups of repeated runs, with options and page content from the packets. Draws runs that differ by
/// a parameter against it.
///
/// # Errors
///
/// Returns the errors of [`write_report`], and [`ReportError::Axes`].
pub fn write_report_as(
    groups: &[RunGroup],
    folder: &OutputFolder,
    options: &ReportOptions,
    extras: &PageExtras,
) -> Result<Vec<PathBuf>, ReportError> {
    if groups.iter().all(|group| group.runs.is_empty()) {
        return Err(ReportError::NoRuns);
    }
    let files = if sweep::is_sweep(groups.iter().flat_map(|group| &group.runs), &options.axes) {
        sweep::contents(groups, options)?
    } else {
        contents(groups, options, extras)?
    };
    report_folder::write(folder, &REPORT_FILES, files)
}

/// Returns the files with their contents.
fn contents(groups: &[RunGroup], options: &ReportOptions, extras: &PageExtras) -> Result<Vec<ReportFile>, ReportError> {
    let runs: Vec<NamedRun> = groups.iter().flat_map(|group| &group.runs).cloned().collect();
    let runs = runs.as_slice();
    // Draw statements separately if an operation has several, and repeated runs under one name.
    let names = groups.iter().flat_map(|group| {
        group.runs.iter().map(|named| match &*group.runs {
            [_] => &named.name,
            _ => &group.name,
        })
    });
    let told: Vec<NamedRun> =
        runs.iter().map(|named| NamedRun::new(&*named.name, with_statements(&named.run, REPORT_STATEMENTS))).collect();
    let drawn: Vec<NamedRun> =
        told.iter().zip(names).map(|(of, name)| NamedRun::new(&**name, of.run.clone())).collect();
    let title = options.title.clone().unwrap_or_else(|| title(runs));
    let small = ReportOptions { width: Some(NARROW), ..options.clone() };
    let mut inline = vec![PageFigure {
        name: "overhead".to_owned(),
        title: "Bytes, system calls and CPU".to_owned(),
        method: HOW_TO_READ.to_owned(),
        svg: draw_inline(&drawn, "overhead", &title, options)?,
        narrow: draw_inline(&drawn, "overhead-narrow", &title, &small)?,
        width: options.style().width,
    }];
    let plots = ranges::figure(runs).map(|figure| (ranges::NAME, Plot::Dots(figure))).into_iter();
    let lines = latencies::figures(runs).into_iter().chain(series::figures(&extras.series));
    let lines = lines.map(|(name, figure)| (name, Plot::Lines(figure)));
    let plots = distance::figure(runs).map(|figure| (distance::NAME, Plot::Panels(figure))).into_iter().chain(plots);
    let system = options.title.clone().unwrap_or_else(|| listed(&systems(runs.iter().map(|named| &named.run))));
    let (further, images) = report_folder::drawn(&system, plots.chain(lines), options.style())?;
    inline.extend(further);
    let [svg, png] = draw(&drawn, &title, options)?;
    let tables = titled_markdown(&title, &told).into_bytes();
    let page = page::render_runs(runs, &inline, options.page_theme(), &title, extras)?.into_bytes();
    let contents = [("overhead.svg", svg), ("overhead.png", png), (TABLES_FILE, tables), (PAGE_FILE, page)];
    Ok(contents.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).chain(images).collect())
}

/// Returns the comparison as Markdown: a link to `overhead.svg`, a row per run and workload operation, notes and warnings.
pub fn report_markdown(runs: &[NamedRun]) -> String {
    titled_markdown(&title(runs), runs)
}

/// Returns a title that names systems and quantities.
fn title(runs: &[NamedRun]) -> String {
    let is_counted =
        |named: &NamedRun| RoleName::ALL.into_iter().any(|role| whole_run_counters(&named.run, role).is_ok());
    let quantity =
        if runs.iter().any(is_counted) { "Bytes, system calls and CPU per operation" } else { "Bytes per operation" };
    match listed(&systems(runs.iter().map(|named| &named.run))) {
        systems if systems.is_empty() => quantity.to_owned(),
        systems => titled(&systems, quantity),
    }
}

fn titled_markdown(title: &str, runs: &[NamedRun]) -> String {
    let mut document = Document::default();
    document.heading(1, title);
    document.figure("overhead", "Bytes, system calls and CPU work per operation");
    document.warnings(data_difference(runs));
    let headers: Vec<&str> = HEADERS.split('|').collect();
    document.table(Grid::new(&KEYS, &headers, runs.iter().flat_map(run_rows).collect()).measured());
    document.prose(NOTES);
    for NamedRun { name, run } in runs {
        document.heading(2, name);
        let beside = beside_the_workload(run).map(|beside| Fact::new("in neither the table nor the chart", beside));
        let facts = facts::origin(run).into_iter().chain(facts::measuring(run)).chain(facts::command(run));
        document.facts(facts.chain(beside).collect());
        document.warnings(table::warnings(run));
        if let Some(section) = distribution::section(run) {
            document.section(3, section);
        }
    }
    MARK.to_owned() + &document.markdown()
}

/// Explanation of the columns.
const NOTES: &str = "B/op: bytes on the wire per operation. Frame: link, IP and TCP headers of frames with payload. Ack + retrans: frames \
without payload, and payload sent again. Protocol: all payload that is not the user's data. Syscalls and cycles are those \
of the whole workload of a run, server | client, divided by its operations; “ref” marks reference cycles, a unit of time. \
Latency: from the frame with the first byte of the request to the frame with the last byte of the response, at the capture \
point, not the client's. ≥ marks lower bounds: the capture lost frames or parts of them.";

const KEYS: [&str; 3] = ["run", "operation", "via"];
const HEADERS: &str = "n|request B/op|response B/op|total B/op|frame|ack + retrans|protocol|data|unknown|data / total|\
    syscalls/op|cycles/op|p50 µs|p99 µs|p99.9 µs|p99.99 µs|max µs";

/// Columns of the bytes, before those of the work.
const BYTES: [&str; 10] =
    ["count", "request", "response", "total", "frame", "waste", "protocol", "data", "unknown", "share"];
const LATENCIES: [&str; 5] = ["p50", "p99", "p999", "p9999", "max"];

/// Returns the rows of a run, or a row of dashes if it has no workload operations.
fn run_rows(named: &NamedRun) -> Vec<Vec<String>> {
    let (table, work) = (TableRows::new(&named.run), [syscalls(&named.run), cycles(&named.run)]);
    let [bytes, latencies] = [&BYTES[..], &LATENCIES].map(OperationColumn::listed);
    let cells = |row: &OperationRow| {
        let shown = ViewRow::from(row);
        let mut cells = vec![named.name.clone(), row.name.clone(), row.via.clone()];
        cells.extend(bytes.iter().map(|column| column.cell(&shown, &table)));
        cells.extend_from_slice(&work);
        cells.extend(latencies.iter().map(|column| column.cell(&shown, &table)));
        cells
    };
    let rows: Vec<_> = workload(&named.run).into_iter().map(cells).collect();
    if !rows.is_empty() {
        return rows;
    }
    let mut none = vec![DASH.to_owned(); KEYS.len() + HEADERS.split('|').count()];
    none.splice(..2, [named.name.clone(), "no workload operations".to_owned()]);
    vec![none]
}

/// Returns `server | client`, with a dash for each unmeasured role.
fn by_role(run: &Run, figure: impl Fn(RoleName) -> Option<String>) -> String {
    let roles = RoleName::ALL.map(|role| whole_run_counters(run, role).ok().and_then(|_| figure(role)));
    if roles.iter().all(Option::is_none) {
        DASH.to_owned()
    } else {
        roles.map(|r| r.unwrap_or_else(|| DASH.to_owned())).join(" | ")
    }
}

fn syscalls(run: &Run) -> String {
    let count = workload_count(run);
    by_role(run, |role| {
        syscalls_per_operation(whole_run_counters(run, role).ok()?, count).map(|calls| with_digits(calls, 2))
    })
}

fn cycles(run: &Run) -> String {
    let count = workload_count(run);
    by_role(run, |role| {
        let role = whole_run_counters(run, role).ok()?;
        let units = [(CpuUnit::Hardware, ""), (CpuUnit::Reference, " ref"), (CpuUnit::OnCpuNs, " ns")];
        units.iter().find_map(|(unit, label)| {
            let [user, kernel] = unit.amounts(role).ok()?;
            Some(format!("{}{label}", significant(per_operation(user + kernel, count)?)))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::series::RunSeries;
    use std::fs;

    /// Returns a run of `rows` workload operations with distinct names.
    fn long(rows: usize) -> NamedRun {
        let mut run = fixture::redis();
        let row = workload(&run)[0].clone();
        run.operations = (0..rows).map(|n| OperationRow { name: format!("CALL {n}"), ..row.clone() }).collect();
        NamedRun::new("long", run)
    }

    /// Linear work takes 8 times as long for 8 times the rows; summing all rows for each row would take 64 times as long.
    #[test]
    fn work_grows_with_the_rows_and_not_with_their_square() {
        let seconds = |rows: usize| {
            let runs = [long(rows)];
            let fastest = (0..3).map(|_| {
                let begun = std::time::Instant::now();
                assert!(report_markdown(&runs).lines().count() > rows);
                assert_eq!(crate::compare::compare(&runs[0], &runs[0]).pairs.len(), rows);
                begun.elapsed()
            });
            fastest.min().unwrap_or_default().as_secs_f64()
        };
        let (few, many) = (seconds(1_000), seconds(8_000));
        assert!(many < few * 24.0, "{few} s for 1,000 rows, {many} s for 8,000");
    }

    #[test]
    fn a_report_is_some_files_and_replaces_an_earlier_one_alone() {
        let path = std::env::temp_dir().join(format!("overhead-report-{}-written", std::process::id()));
        let folder = OutputFolder::open_or_make(&path.join("deep"), 0o777, None).unwrap();
        let mut runs = fixture::files();
        let within = vec![overhead_model::record::Within { ns: 1_000_000, count: 1_000 }];
        runs[0].run.operations.iter_mut().for_each(|row| row.latency_within = Some(within.clone()));
        let mut series = RunSeries::new("", 0, 2_000_000_000, RunSeries::step_ns(2_000_000_000));
        (0..2_000).for_each(|at| series.add(at * 1_000_000, Some(100_000)));
        let extras = PageExtras { series: vec![series], ..PageExtras::default() };
        let groups: Vec<RunGroup> = runs.into_iter().map(RunGroup::single).collect();
        let files = write_report_as(&groups, &folder, &ReportOptions::default(), &extras).unwrap();
        let names: Vec<_> = files.iter().filter_map(|file| file.file_name()?.to_str()).collect();
        assert_eq!(names, REPORT_FILES[..14]);
        assert!(files.iter().all(|file| fs::metadata(file).unwrap().len() > 1_000));
        assert_eq!(replaced_by_report(&folder), None);
        // The next report removes charts that it lacks.
        assert_eq!(write_report(&fixture::files(), &folder).unwrap().len(), 8);
        assert!(!path.join("deep/distribution.svg").exists());
        fs::write(path.join("deep/report.md"), "# My own notes\n").unwrap();
        assert_eq!(replaced_by_report(&folder), Some("overhead.svg"));
        assert!(matches!(write_report(&[], &folder), Err(ReportError::NoRuns)));
        fs::remove_dir_all(path).unwrap();
    }
}
