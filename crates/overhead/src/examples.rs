//! Parts of a report page that only the packets provide: advice, activity over time, and operations byte by byte.

use crate::{advise, explain, print};
use anyhow::Result;
use overhead_advise::AdviceFinding;
use overhead_model::Run;
use overhead_reading::time::duration;
use overhead_reading::{DecodePlan, InputPlan, KeptRun, Warnings};
use overhead_report::text::counted;
use overhead_report::{NamedRun, PageExample, PageExtras, PageFinding, RunSeries, workload_names};
use std::path::{Path, PathBuf};

/// Maximum bytes of packets that a report reads again on its own; this takes a few seconds.
const PACKETS: u64 = 256 << 20;

/// Operations per run to show byte by byte, the largest first. Each requires a search in the packets.
const EXAMPLES: usize = 6;

/// A run and its path.
pub struct LoadedRun {
    /// The path as given on the command line.
    pub path: PathBuf,
    /// The folder of its sweep or repetitions; the path for any other run.
    pub place: PathBuf,
    pub run: NamedRun,
}

/// Returns the parts that the packets of these runs provide, if they still exist. Includes examples only on request.
pub fn extras(runs: &[LoadedRun], decode: &DecodePlan, examples: bool) -> Result<PageExtras> {
    let mut extras = PageExtras::default();
    let mut shown = false;
    // All runs use the same time step, so that their lines are comparable.
    let lengths = runs.iter().map(|loaded| length_ns(&loaded.run.run));
    let step_ns = RunSeries::step_ns(lengths.max().unwrap_or(0));
    for loaded in runs {
        let Some(input) = packets(&loaded.path, decode)? else { continue };
        let size: u64 = input.files.iter().filter_map(|file| Some(file.metadata().ok()?.len())).sum();
        if size > PACKETS {
            let path = loaded.path.display();
            print::warn(&[format!(
                "{path}: too many packets to read again: the report has no figures over time and no savings; for savings: overhead advise {path}"
            )]);
        } else {
            let run = if runs.len() > 1 { loaded.run.name.clone() } else { String::new() };
            let mut series = series(&run, &loaded.run.run, step_ns);
            let advice = advise::read(&input, &mut series)?;
            extras.findings.extend(advice.findings.iter().map(|finding| told(&run, finding)));
            // A sample says nothing about the time between its windows.
            extras.series.extend(Some(series).filter(|_| loaded.run.run.sample.is_none()));
        }
        if examples {
            shown = true;
            extras.examples.extend(run_examples(loaded, runs.len() > 1, &input)?);
        }
    }
    if examples && !shown {
        print::warn(&["--bytes: of no run are the packets there".to_owned()]);
    }
    Ok(extras)
}

fn length_ns(run: &Run) -> u64 {
    run.source.last_ns.saturating_sub(run.source.first_ns)
}

/// Returns a series for a run, still without operations.
fn series(name: &str, run: &Run, step_ns: u64) -> RunSeries {
    let mut series = RunSeries::new(name, run.source.first_ns, run.source.last_ns, step_ns);
    let command = run.environment.as_ref().map(|machine| machine.command_line.as_slice());
    series.warmup_ns = command.and_then(warmup_ns).unwrap_or(0);
    series
}

/// Returns the length of a capture's warm-up, according to its command line.
fn warmup_ns(command: &[String]) -> Option<u64> {
    const OPTION: &str = "--warmup";
    // Arguments after `--` belong to another program.
    let own = command.split(|word| word == "--").next()?;
    let at = own
        .iter()
        .position(|word| word.strip_prefix(OPTION).is_some_and(|rest| rest.is_empty() || rest.starts_with('=')))?;
    let length =
        own[at].split_once('=').map(|(_, length)| length).or_else(|| own.get(at + 1).map(|length| &**length))?;
    u64::try_from(duration(length).ok()?.as_nanos()).ok()
}

/// Returns the packets of a run; `None` if they are not kept.
fn packets(path: &Path, decode: &DecodePlan) -> Result<Option<InputPlan>> {
    let kept = match KeptRun::open(path) {
        Ok(None) if path.is_file() => None,
        Ok(kept @ Some(_)) => kept,
        Ok(None) | Err(_) => return Ok(None),
    };
    InputPlan::new(vec![path.to_owned()], kept, decode).map(Some)
}

fn told(run: &str, finding: &AdviceFinding) -> PageFinding {
    let saving = finding.saving;
    let known = |figure: Option<String>| figure.unwrap_or_else(|| "-".to_owned());
    let has_bytes = (saving.bytes != 0).then_some(());
    PageFinding {
        run: run.to_owned(),
        subject: advise::label(&finding.subject),
        rule: finding.rule,
        title: finding.title.clone(),
        cost: [
            known(has_bytes.map(|()| format!("{:.1}", saving.bytes_per_operation))),
            known(has_bytes.map(|()| format!("{:.1}%", saving.percent_of_wire))),
            known(saving.ms_per_operation.map(|ms| format!("{ms:.3}"))),
            known(saving.percent_of_waiting.map(|percent| format!("{percent:.1}%"))),
        ],
        certainty: advise::certainty(finding),
        facts: advise::facts(finding, None),
        known_by: advise::known_by(finding),
    }
}

/// Returns the first operation of each of the largest kinds of a run.
fn run_examples(loaded: &LoadedRun, several: bool, input: &InputPlan) -> Result<Vec<PageExample>> {
    let names = workload_names(&loaded.run.run);
    if names.len() > EXAMPLES {
        let more = counted((names.len() - EXAMPLES) as u64, "more operation");
        print::warn(&[format!("--bytes: {}: {more} not shown byte by byte", loaded.path.display())]);
    }
    let keys = input.read_keys(&mut Warnings::default())?;
    let mut examples = Vec::new();
    for name in names.into_iter().take(EXAMPLES) {
        if let Some(mut example) = explain::example(input, &keys, name)? {
            if several {
                example.title = format!("{}: {}", loaded.run.name, example.title);
            }
            examples.push(example);
        }
    }
    Ok(examples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warm_up_is_that_of_the_capture_and_not_of_what_runs_under_it() {
        let told = |command: &str| warmup_ns(&command.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(told("overhead capture -i lo --warmup 2s -- redis-benchmark"), Some(2_000_000_000));
        assert_eq!(told("overhead capture --warmup=500ms -i lo"), Some(500_000_000));
        assert_eq!(told("overhead capture -i lo -- bench --warmup 2s"), None);
        assert_eq!(told("overhead capture --warmup-runs 3 -i lo"), None);
        assert_eq!(told("overhead capture -i lo --warmup"), None);
    }
}
