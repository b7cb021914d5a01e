//! `overhead report`: draws runs side by side, or against a parameter that distinguishes them.

use crate::examples::{self, LoadedRun};
use crate::options::{Choice, choice_parser};
use crate::print;
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use overhead_files::{FileOwner, OutputFolder};
use overhead_model::load::Load;
use overhead_model::record::OperationRow;
use overhead_model::{Class, OutsideText, Run, bail_usage, exit};
use overhead_options::DecodeArgs;
use overhead_reading::{distinguish, run_folder, runs_below, sweep_of};
use overhead_report::{
    ChartAxes, NamedRun, PageExtras, ReportError, ReportOptions, RunGroup, Sweep, Theme, grouped_by, load,
    replaced_by_report, sentences, sweep, write_report_as,
};
use std::path::{Path, PathBuf};

/// Arguments of `report`.
#[derive(Args, Debug)]
pub struct ReportArgs {
    /// Run folders, folders of runs such as a sweep's, records written by `analyze --format json`, or captures; or one record of `bench`
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    #[command(flatten)]
    decode: DecodeArgs,
    /// Folder for the page, figures and tables
    #[arg(short, long, value_name = "DIR", default_value = "report")]
    output: PathBuf,
    /// Replace files of the same names that are not from an earlier report
    #[arg(long)]
    force: bool,
    /// Heading of the figure and the page
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Name for a run, instead of its folder's name; repeatable
    #[arg(long, value_name = "RUN=NAME")]
    label: Vec<String>,
    /// Key of the horizontal axis: a parameter of the runs, system, or run
    #[arg(long, value_name = "KEY")]
    x: Option<String>,
    /// Key of the lines [default: what differs, and is neither of the other two]
    #[arg(long, value_name = "KEY")]
    series: Option<String>,
    /// Key of the panels
    #[arg(long, value_name = "KEY")]
    facet: Option<String>,
    /// Operations in the figure: the N largest of each run, or these names, separated by commas
    #[arg(long, value_name = "N|NAMES", value_delimiter = ',')]
    operations: Vec<String>,
    /// Order of the runs
    #[arg(long, value_enum, default_value = "given")]
    order: RunOrder,
    /// Theme of figures and page [default: light figures, and a page like the reader's system]
    #[arg(long, value_parser = choice_parser(THEMES))]
    theme: Option<Theme>,
    /// Width of the figures in pixels; PNG files have twice as many. Below 640, panels are stacked
    #[arg(long, value_name = "PX", value_parser = clap::value_parser!(u32).range(320..=4_000))]
    width: Option<u32>,
    /// Leave out the text below the main figure, except for warnings: for a page that says the same
    #[arg(long)]
    no_caption: bool,
    /// Show one operation of each kind byte by byte, for runs with packets. The page then has user data
    #[arg(long)]
    bytes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RunOrder {
    /// As they are named
    Given,
    /// By name
    Name,
    /// By the whole cost of an operation of the workload, the least first
    Bytes,
}

/// Backgrounds of a page.
const THEMES: &[Choice<Theme>] = &[("light", Theme::Light, "Paper"), ("dark", Theme::Dark, "A dark screen")];

/// Returns a label's run and name. Paths may contain `=`, and so may names: the longest of the known runs counts.
fn split_label(text: &str, is_known: impl Fn(&str) -> bool) -> Option<(&str, &str)> {
    let splits = text.rmatch_indices('=').map(|(at, _)| (&text[..at], text[at + 1..].trim()));
    let mut all = splits.filter(|(_, name)| !name.is_empty());
    all.find(|(run, _)| is_known(run))
}

impl ReportArgs {
    /// Reads the records, draws them and prints the paths of the result.
    pub fn run(self) -> Result<u8> {
        if let [path] = self.runs.as_slice()
            && let Some(load) = load_of(path)?
        {
            return self.load_report(&load);
        }
        let (mut runs, status) = self.load()?;
        if self.is_sweep(&runs) {
            return self.sweep_report(runs, status);
        }
        let options = self.options(&runs)?;
        let extras = examples::extras(&runs, &self.decode.plan(), self.bytes)?;
        in_order(&mut runs, self.order);
        let folder = self.folder(replaced_by_report)?;
        let groups: Vec<RunGroup> = grouped(runs).into_iter().map(|(_, group)| group).collect();
        let runs: Vec<NamedRun> = groups.iter().flat_map(|group| &group.runs).cloned().collect();
        let said = sentences(&runs);
        let files = write_report_as(&groups, &folder, &options, &extras)?;
        print::verbatim(&print::prose(&said))?;
        listed(&files)?;
        Ok(status)
    }

    fn is_sweep(&self, runs: &[LoadedRun]) -> bool {
        sweep::is_sweep(runs.iter().map(|loaded| &loaded.run), &self.axes())
    }

    fn axes(&self) -> ChartAxes {
        ChartAxes { x: self.x.clone(), series: self.series.clone(), facet: self.facet.clone() }
    }

    /// Draws runs against the keys that distinguish them. Runs of one folder are a group.
    fn sweep_report(&self, runs: Vec<LoadedRun>, status: u8) -> Result<u8> {
        self.for_runs_alone("a set of runs with parameters")?;
        let mut groups = grouped(runs);
        for (place, group) in &mut groups {
            group.name = run_folder::folder_name(place);
        }
        self.name(groups.iter_mut().map(|(path, group)| (&**path, &mut group.name)).collect())?;
        let groups: Vec<RunGroup> = groups.into_iter().map(|(_, group)| group).collect();
        let options = self.looks();
        let drawn = match Sweep::new(&groups, &options.axes) {
            Ok(drawn) => drawn,
            Err(why) => bail_usage!("{why}"),
        };
        let folder = self.folder(replaced_by_report)?;
        let files = write_report_as(&groups, &folder, &options, &PageExtras::default())?;
        print::verbatim(&print::prose(&sweep::sentences(&drawn)))?;
        listed(&files)?;
        let remarks = sweep::remarks(&drawn);
        print::warn(&remarks);
        Ok(if remarks.is_empty() { status } else { status.max(exit::PARTIAL) })
    }

    /// Returns the options for a report of runs.
    fn options(&self, runs: &[LoadedRun]) -> Result<ReportOptions> {
        let number = match self.operations.as_slice() {
            [one] => one.parse().ok().filter(|number| *number > 0),
            _ => None,
        };
        let named = if number.is_some() { Vec::new() } else { self.operations.clone() };
        for name in &named {
            let is_there = |row: &OperationRow| row.class == Class::Workload && row.name.eq_ignore_ascii_case(name);
            if !runs.iter().any(|loaded| loaded.run.run.operations.iter().any(is_there)) {
                bail_usage!("--operations {name}: no run has a workload operation of this name");
            }
        }
        Ok(ReportOptions { operations_per_run: number, operations: named, is_bare: self.no_caption, ..self.looks() })
    }

    /// Returns the options for any report.
    fn looks(&self) -> ReportOptions {
        let (title, axes) = (self.title.clone(), self.axes());
        ReportOptions { title, theme: self.theme, width: self.width, axes, ..ReportOptions::default() }
    }

    /// Rejects options that only apply to runs.
    fn for_runs_alone(&self, what: &str) -> Result<()> {
        let given = [
            ("--operations", !self.operations.is_empty()),
            ("--order", self.order != RunOrder::Given),
            ("--bytes", self.bytes),
            ("--no-caption", self.no_caption),
        ];
        if let Some((option, _)) = given.into_iter().find(|(_, given)| *given) {
            bail_usage!("{option} is for runs: this is {what}");
        }
        Ok(())
    }

    /// Draws a load.
    fn load_report(&self, load: &Load) -> Result<u8> {
        self.for_runs_alone("a load")?;
        if !self.label.is_empty() {
            bail_usage!("--label is for runs: this is a load");
        }
        let folder = self.folder(load::replaced_by_load)?;
        listed(&load::write_load(load, &folder, &self.looks())?)?;
        let partial = load.partial.iter().chain(load.results.iter().filter_map(|result| result.partial.as_ref()));
        let partial: Vec<String> = partial.cloned().collect();
        print::warn(&partial);
        Ok(if partial.is_empty() { exit::COMPLETE } else { exit::PARTIAL })
    }

    /// Loads the runs. Skips paths that are not runs, because a shell's `runs/*` may include other files.
    fn load(&self) -> Result<(Vec<LoadedRun>, u8)> {
        let (mut runs, mut skipped, mut others) = (Vec::new(), Vec::new(), Vec::new());
        let mut paths: Vec<(PathBuf, PathBuf)> = Vec::new();
        for given in &self.runs {
            for path in runs_below(given)? {
                // A shell's `sweep/*` may name a run twice: by itself, and by its folder.
                if !paths.iter().any(|(known, _)| *known == path) {
                    paths.push((path, given.clone()));
                }
            }
        }
        for (path, given) in &paths {
            if load_of(path)?.is_some() {
                let path = path.display();
                others
                    .push(format!("{path} is the record of a load: report it separately, with overhead report {path}"));
                continue;
            }
            match overhead_reading::load(path, &self.decode.plan()) {
                Ok(run) => {
                    let place = if run.run.parameters.is_empty() { given.clone() } else { sweep_of(path) };
                    runs.push(LoadedRun { path: path.clone(), place, run });
                }
                Err(error) if path.exists() => skipped.push(error),
                Err(error) => return Err(error),
            }
        }
        if runs.is_empty() && !skipped.is_empty() {
            return Err(skipped.swap_remove(0));
        }
        if runs.is_empty() && !others.is_empty() {
            bail_usage!("{}", others.swap_remove(0));
        }
        print::warn(&others.iter().map(|said| format!("skipped: {said}")).collect::<Vec<_>>());
        let mut status = exit::COMPLETE;
        for error in &skipped {
            print::warn(&[format!("skipped: {}", exit::sentence(&**error))]);
            // A path that was never a run does not make the report incomplete.
            if !matches!(error.downcast_ref(), Some(ReportError::Missing { .. })) {
                status = exit::PARTIAL;
            }
        }
        if self.is_sweep(&runs) {
            // Their folders have the labels, and each run is named after its place.
            for loaded in &mut runs {
                loaded.run.name = loaded.path.display().to_string();
            }
        } else {
            self.name(runs.iter_mut().map(|loaded| (&*loaded.path, &mut loaded.run.name)).collect())?;
        }
        Ok((runs, status))
    }

    /// Tells runs with one name apart by their paths, applies the labels from the command line, and removes the common prefix from
    /// the other names.
    fn name(&self, mut subjects: Vec<(&Path, &mut String)>) -> Result<()> {
        let paths: Vec<PathBuf> = subjects.iter().map(|(path, _)| path.to_path_buf()).collect();
        distinguish(&mut subjects.iter_mut().map(|(_, name)| &mut **name).collect::<Vec<_>>(), &paths);
        let known: Vec<String> = subjects.iter().map(|(_, name)| (*name).clone()).collect();
        let mut labelled = vec![false; subjects.len()];
        for label in &self.label {
            let place = |of: &str| {
                let is_meant =
                    |((path, _), name): (&(&Path, &mut String), &String)| name == of || *path == Path::new(of);
                subjects.iter().zip(&known).position(is_meant)
            };
            let Some((of, name)) = split_label(label, |of| place(of).is_some()) else {
                bail_usage!("--label {label}: write RUN=NAME, where RUN is one of {}", known.join(", "));
            };
            let Some(at) = place(of) else { continue };
            name.clone_into(subjects[at].1);
            labelled[at] = true;
        }
        let others = subjects.into_iter().zip(labelled).filter(|(_, labelled)| !labelled);
        drop_common_prefix(&mut others.map(|((_, name), _)| name).collect::<Vec<_>>());
        Ok(())
    }

    /// Opens the folder for the result, unless that would replace the user's files.
    fn folder(&self, replaced: fn(&OutputFolder) -> Option<&'static str>) -> Result<OutputFolder> {
        let unwritable = |source| ReportError::Unwritable { path: self.output.clone(), source };
        // With --bytes, pages contain packets.
        let mode = if self.bytes { 0o700 } else { 0o777 };
        let folder = OutputFolder::open_or_make(&self.output, mode, FileOwner::sudo_caller()).map_err(unwritable)?;
        match replaced(&folder).filter(|_| !self.force) {
            Some(name) => bail!(
                "{} is not of an earlier report: choose another folder with -o, or overwrite it with --force",
                self.output.join(name).display()
            ),
            None => Ok(folder),
        }
    }
}

/// Removes the words that all names begin with: `demo-redis-get` and `demo-postgres-select` lose `demo-`.
fn drop_common_prefix(names: &mut [&mut String]) {
    let Some((first, rest)) = names.split_first() else { return };
    if rest.is_empty() {
        return;
    }
    let is_between = |c: char| "-_./ ".contains(c);
    let ends = first.char_indices().filter(|(_, c)| is_between(*c)).map(|(at, c)| at + c.len_utf8());
    let is_common = |end: &usize| rest.iter().all(|name| name.get(..*end) == first.get(..*end));
    let leaves_words = |end: &usize| {
        std::iter::once(&**first).chain(rest.iter().map(|name| &**name)).all(|name: &String| {
            // `run-1` and `run-2` are no 1 and 2.
            name.get(*end..).is_some_and(|rest| rest.contains(|letter: char| !letter.is_ascii_digit()))
        })
    };
    let Some(end) = ends.take_while(is_common).filter(leaves_words).last() else { return };
    for name in names {
        name.replace_range(..end, "");
    }
}

/// Groups the runs of one folder. A group of one run has its name.
fn grouped(runs: Vec<LoadedRun>) -> Vec<(PathBuf, RunGroup)> {
    let group = |(place, runs): (PathBuf, Vec<NamedRun>)| {
        let name = if let [run] = &*runs { run.name.clone() } else { run_folder::folder_name(&place) };
        (place, RunGroup { name, runs })
    };
    grouped_by(runs.into_iter().map(|loaded| (loaded.place, loaded.run))).into_iter().map(group).collect()
}

fn in_order(runs: &mut [LoadedRun], order: RunOrder) {
    let bytes = |run: &Run| run.whole.wire_bytes_per_operation.value().copied().unwrap_or(f64::INFINITY);
    match order {
        RunOrder::Given => {}
        RunOrder::Name => runs.sort_by(|a, b| a.run.name.cmp(&b.run.name)),
        RunOrder::Bytes => runs.sort_by(|a, b| bytes(&a.run.run).total_cmp(&bytes(&b.run.run))),
    }
}

/// Returns the record of a load, if this file is one.
fn load_of(path: &Path) -> Result<Option<Load>> {
    Ok(if run_folder::is_json(path) { load::read_load(path)? } else { None })
}

/// Prints the path of each file on a line.
fn listed(files: &[PathBuf]) -> Result<()> {
    let lines: Vec<String> = files.iter().map(|path| format!("{}\n", OutsideText(path.display()))).collect();
    print::verbatim(&lines.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_split_at_the_run_that_is_known() {
        let of = |text| split_label(text, |run| ["a", "sweep/P=1/run-1", "b=c"].contains(&run));
        assert_eq!(of("a=Redis"), Some(("a", "Redis")));
        assert_eq!(of("sweep/P=1/run-1=P = 1"), Some(("sweep/P=1/run-1", "P = 1")));
        assert_eq!(of("b=c=d=e"), Some(("b=c", "d=e")));
        assert_eq!((of("x=Redis"), of("a="), of("a")), (None, None, None));
    }

    #[test]
    fn names_lose_whole_words_that_all_have() {
        let told = |names: &[&str]| {
            let mut names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            drop_common_prefix(&mut names.iter_mut().collect::<Vec<_>>());
            names
        };
        assert_eq!(told(&["demo-redis-get", "demo-postgres-select"]), ["redis-get", "postgres-select"]);
        assert_eq!(told(&["redis-read", "redis-reads"]), ["read", "reads"]);
        assert_eq!(told(&["redis", "redis8"]), ["redis", "redis8"]);
        assert_eq!(told(&["a-", "a-b"]), ["a-", "a-b"]);
        assert_eq!(told(&["a-b", "a-b"]), ["b", "b"]);
        assert_eq!(told(&["a-b"]), ["a-b"]);
        assert_eq!(told(&["redis-run-1", "redis-run-2"]), ["run-1", "run-2"]);
    }
}
