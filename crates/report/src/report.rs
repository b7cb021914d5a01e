//! A comparison in a folder: the figure, and the table beside it.

use crate::bounds::LowerBounds;
use crate::error::ReportError;
use crate::figure::{FigureOptions, ImageFormat, draw};
use crate::folder::OutputFolder;
use crate::limits::REPORT_STATEMENTS;
use crate::run::NamedRun;
use crate::summary::{
    CpuUnit, Families, RoleName, both_sides, data_difference, of_whole_run, per_operation, syscalls_per_operation,
    workload, workload_count,
};
use crate::text::distribution;
use crate::text::grid::Column;
use crate::text::markdown::{facts, github_table};
use crate::text::number::{DASH, decimal, grouped, microseconds, percent, significant, with_digits};
use crate::text::{beside_the_workload, clean, markdown_cell};
use crate::view::with_statements;
use overhead_model::record::OperationRow;
use overhead_model::{Amounts, Run};
use std::path::PathBuf;

/// Title of every report.
const TITLE: &str = "Overhead per operation";

/// The files of a report.
pub const REPORT_FILES: [&str; 3] = ["overhead.svg", "overhead.png", "report.md"];

/// Returns the first file that [`write_report`] would replace and that no earlier report has left there.
pub fn replaced_by_report(folder: &OutputFolder) -> Option<&'static str> {
    if folder.holds_start("report.md", format!("# {TITLE}\n").as_bytes()) {
        return None;
    }
    REPORT_FILES.into_iter().find(|name| folder.holds(name))
}

/// Writes `overhead.svg`, `overhead.png` and `report.md` into `folder`, over what is there of these names. Returns the
/// files in this order.
///
/// # Errors
///
/// [`ReportError::NoRuns`], [`ReportError::Unwritable`] or [`ReportError::Drawing`].
pub fn write_report(runs: &[NamedRun], folder: &OutputFolder) -> Result<Vec<PathBuf>, ReportError> {
    if runs.is_empty() {
        return Err(ReportError::NoRuns);
    }
    // Statements are drawn apart where an operation has several.
    let runs: Vec<NamedRun> =
        runs.iter().map(|named| NamedRun::new(&*named.name, with_statements(&named.run, REPORT_STATEMENTS))).collect();
    let runs = runs.as_slice();
    let options = FigureOptions::default();
    let contents = [
        draw(runs, ImageFormat::Svg, &options)?,
        draw(runs, ImageFormat::Png, &options)?,
        report_markdown(runs).into_bytes(),
    ];
    let write = |(name, bytes): (&str, Vec<u8>)| {
        let unwritable = |source| ReportError::Unwritable { path: folder.path().join(name), source };
        folder.write(name, &bytes).map_err(unwritable)
    };
    REPORT_FILES.into_iter().zip(contents).map(write).collect()
}

/// Returns the comparison as Markdown: the figure (as `overhead.svg`, beside it), a row per run and workload operation, notes
/// and warnings.
pub fn report_markdown(runs: &[NamedRun]) -> String {
    let mut out = format!("# {TITLE}\n\n![Bytes, system calls and CPU work per operation](overhead.svg)\n\n");
    if let Some(note) = data_difference(runs) {
        out.extend(["> **Note:** ", &markdown_cell(&note), "\n\n"]);
    }
    let rows: Vec<Vec<String>> = runs.iter().flat_map(run_rows).collect();
    out.push_str(&github_table(&columns(), &rows));
    out.push_str(NOTES);
    for run in runs {
        out.extend(["\n## ", &markdown_cell(&run.name), "\n\n", &facts(run)]);
        if let Some(beside) = beside_the_workload(&run.run) {
            out.extend(["- ", &beside, ": neither in the table nor in the figure\n"]);
        }
        if let Some((columns, rows)) = distribution::of_run(&run.run) {
            out.extend(["\n", distribution::TITLE, ":\n\n", &github_table(&columns, &rows)]);
        }
    }
    out
}

/// What the columns mean.
const NOTES: &str = "
B/op: bytes on the wire per operation. Frame: link, IP and TCP headers of frames with payload. Ack + retrans: frames \
without payload, and payload sent again. Protocol: all payload that is not the user's data. Syscalls and cycles are those \
of the whole workload of a run, server | client, divided by its operations; `ref` marks reference cycles, a unit of time. \
Latency: from the frame with the first byte of the request to the frame with the last byte of the response, at the capture \
point, not the client's. `≥` marks lower bounds: the capture lost frames or parts of them.
";

fn columns() -> Vec<Column> {
    let keys = ["run", "operation", "via"].map(Column::left);
    let figures = [
        "n",
        "request B/op",
        "response B/op",
        "total B/op",
        "frame",
        "ack + retrans",
        "protocol",
        "data",
        "unknown",
        "data / total",
        "syscalls/op",
        "cycles/op",
        "p50 µs",
        "p99 µs",
        "p99.9 µs",
        "p99.99 µs",
        "max µs",
    ];
    keys.into_iter().chain(figures.map(Column::right)).collect()
}

/// Returns a row per workload operation; a run without any says so.
fn run_rows(named: &NamedRun) -> Vec<Vec<String>> {
    // Figures of the whole run: once, not once a row.
    let work = [syscalls(&named.run), cycles(&named.run)];
    let rows: Vec<_> = workload(&named.run).into_iter().map(|row| operation_row(named, row, &work)).collect();
    if !rows.is_empty() {
        return rows;
    }
    let mut none = vec![DASH.to_owned(); columns().len()];
    none.splice(..2, [clean(&named.name), "no workload operations".to_owned()]);
    vec![none]
}

fn operation_row(named: &NamedRun, row: &OperationRow, work: &[String; 2]) -> Vec<String> {
    let mean = |bytes: u64| per_operation(bytes, row.samples()).map_or_else(|| DASH.to_owned(), decimal);
    let bounds = LowerBounds::of(&named.run);
    let (wire, part) = (|bytes| bounds.wire(mean(bytes)), |bytes| bounds.payload(mean(bytes)));
    let amounts: Amounts = both_sides(row);
    let families = Families::of(&amounts);
    let mut cells = vec![clean(&named.name), clean(&row.name), clean(&row.via), grouped(row.samples())];
    cells.extend([&row.request, &row.response].map(|side| match side.unseen {
        Some(_) => DASH.to_owned(),
        None => wire(side.accounts.total()),
    }));
    cells.push(wire(amounts.total()));
    cells.extend([wire(families.frame), wire(families.waste), part(families.protocol), part(families.data)]);
    cells.push(wire(families.unknown));
    cells.push(percent(families.data, amounts.total()));
    cells.extend_from_slice(work);
    let latency = &row.latency_ns;
    cells.extend(
        [latency.p50, latency.p99, latency.p999, latency.p9999, latency.max]
            .map(|ns| if latency.count == 0 { DASH.to_owned() } else { microseconds(ns) }),
    );
    cells
}

/// `server | client`, each with a dash where it was not measured.
fn by_role(run: &Run, figure: impl Fn(RoleName) -> Option<String>) -> String {
    let roles = RoleName::BOTH.map(|role| of_whole_run(run, role).ok().and_then(|_| figure(role)));
    if roles.iter().all(Option::is_none) {
        DASH.to_owned()
    } else {
        roles.map(|r| r.unwrap_or_else(|| DASH.to_owned())).join(" | ")
    }
}

fn syscalls(run: &Run) -> String {
    let count = workload_count(run);
    by_role(run, |role| syscalls_per_operation(of_whole_run(run, role).ok()?, count).map(|calls| with_digits(calls, 2)))
}

fn cycles(run: &Run) -> String {
    let count = workload_count(run);
    by_role(run, |role| {
        let role = of_whole_run(run, role).ok()?;
        let units = [(CpuUnit::Hardware, ""), (CpuUnit::Reference, " ref"), (CpuUnit::OnCpuNs, " ns")];
        units.iter().find_map(|(unit, label)| {
            let [user, kernel] = unit.of(role).ok()?;
            Some(format!("{}{label}", significant(per_operation(user + kernel, count)?)))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use std::fs;

    /// Returns a run of `rows` workload operations, each of a name of its own.
    fn long(rows: usize) -> NamedRun {
        let mut run = fixture::redis();
        let row = workload(&run)[0].clone();
        run.operations = (0..rows).map(|n| OperationRow { name: format!("CALL {n}"), ..row.clone() }).collect();
        NamedRun::new("long", run)
    }

    /// Eight times the rows are eight times the work: with sums over all rows for each of them it would be 64 times.
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
    fn a_report_is_three_files_and_replaces_an_earlier_one_alone() {
        let path = std::env::temp_dir().join(format!("overhead-report-{}-written", std::process::id()));
        let folder = OutputFolder::open_or_make(&path.join("deep"), 0o777, None).unwrap();
        let files = write_report(&fixture::files(), &folder).unwrap();
        let names: Vec<_> = files.iter().filter_map(|file| file.file_name()?.to_str()).collect();
        assert_eq!(names, REPORT_FILES);
        assert!(files.iter().all(|file| fs::metadata(file).unwrap().len() > 1_000));
        assert_eq!(replaced_by_report(&folder), None);
        fs::write(path.join("deep/report.md"), "# My own notes\n").unwrap();
        assert_eq!(replaced_by_report(&folder), Some("overhead.svg"));
        assert!(matches!(write_report(&[], &folder), Err(ReportError::NoRuns)));
        fs::remove_dir_all(path).unwrap();
    }
}
