use super::figures::{NamedFigure, figures};
use super::summary::{Sweep, SweepPoint};
use super::*;
use crate::figure::{ChartAxes, PlotPanel, ReportOptions};
use crate::fixture;
use crate::grid::Style;
use crate::run::{NamedRun, RunGroup};
use crate::{PageExtras, replaced_by_report, write_report_as};
use overhead_files::OutputFolder;
use overhead_model::record::{Connection, ReportedTest, Within, Workload};
use overhead_model::{Account, Measured, Run, Spread};
use std::collections::BTreeMap;
use std::fs;

/// A run that took this long, with a report of its benchmark.
fn run(ms: u64, parameters: &[(&str, &str)]) -> Run {
    let mut run = fixture::redis_live().run;
    run.source.last_ns = run.source.first_ns + ms * 1_000_000;
    run.parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    run.reported = vec![ReportedTest {
        program: "redis-benchmark".to_owned(),
        name: "GET".to_owned(),
        per_second: Measured::Value(ms as f64),
        latency_ns: BTreeMap::from([("p50".to_owned(), 250_000.0)]),
    }];
    run
}

fn group(name: &str, runs: impl IntoIterator<Item = Run>) -> RunGroup {
    let named = |(number, run): (usize, Run)| NamedRun::new(format!("{name}/run-{}", number + 1), run);
    RunGroup { name: name.to_owned(), runs: runs.into_iter().enumerate().map(named).collect() }
}

/// Three runs each of two values; those of the second take half as long.
fn two() -> RunGroup {
    let runs = |(value, part): (&'static str, u64)| [1_000, 2_000, 4_000].map(|ms| run(ms / part, &[("P", value)]));
    group("redis", [("1", 1), ("10", 2)].into_iter().flat_map(runs))
}

fn made(groups: &[RunGroup]) -> Sweep {
    Sweep::new(groups, &ChartAxes::default()).unwrap()
}

fn of_system(group: &mut RunGroup, system: &str) {
    let connection: Connection = serde_json::from_value(serde_json::json!({
        "client": "127.0.0.1:40000", "server": "127.0.0.1:6379", "protocol": "resp", "server_software": system,
        "client_software": null, "tls": false, "server_decided_by": "syn", "operations": 1, "wire_bytes": 1
    }))
    .unwrap();
    group.runs.iter_mut().for_each(|named| named.run.connections = vec![connection.clone()]);
}

fn median(figure: &Measured<Spread>) -> Option<f64> {
    figure.value().map(|spread| spread.median)
}

fn named<'f>(figures: &'f [NamedFigure], name: &str) -> &'f crate::figure::PanelFigure {
    figures.iter().find(|(known, _)| *known == name).map(|(_, figure)| figure).unwrap()
}

/// Returns how many points each line of a panel has.
fn drawn(panel: &PlotPanel) -> Vec<(usize, usize)> {
    panel.lines.iter().map(|line| (line.series, line.points.iter().flatten().count())).collect()
}

#[test]
fn a_point_has_the_median_of_its_runs() {
    let sweep = made(&[two()]);
    let [first, second] = sweep.points.as_slice() else { panic!("{:?}", sweep.points) };
    let total = &first.total;
    let count: f64 = first.operations.iter().map(|operation| operation.count.median).sum();
    assert_eq!(median(&total.per_second), Some(count / 2.0), "the run of 2 s is the median");
    assert_eq!(median(&second.total.per_second), Some(count));
    let per_second = total.per_second.value().unwrap();
    assert_eq!((per_second.runs, per_second.min, per_second.max), (3, count / 4.0, count));
    let names: Vec<&str> = first.operations.iter().map(|operation| &*operation.name).collect();
    assert_eq!(names, ["SET", "GET"], "the largest by bytes first");
    assert_eq!(median(&total.work[0].syscalls), Some(3.006));
    assert_eq!(median(&first.reported[0].per_second), Some(2_000.0));
    let [_, p50, _, _, p99, ..] = &first.reported[0].latency_ns;
    assert_eq!((median(p50), p99.reason()), (Some(250_000.0), Some("redis-benchmark does not print it")));
    let whole = run(1_000, &[]).whole;
    assert_eq!(median(&total.wire_bytes), whole.wire_bytes_per_operation.value().copied());
    let sum: f64 = total.accounts.iter().map(|(_, bytes)| bytes).sum();
    assert!((sum - whole.wire_bytes_per_operation.value().unwrap()).abs() < 1e-6, "the accounts are the whole cost");
}

#[test]
fn a_run_whose_command_failed_does_not_count_and_is_named() {
    let mut failed = run(9_000, &[("P", "1")]);
    let machine = failed.environment.as_mut().unwrap();
    machine.workload = Some(Workload { exit_code: Some(7), ..Workload::default() });
    let group = group("redis", [run(1_000, &[("P", "1")]), failed, run(1_000, &[("P", "2")])]);
    let sweep = made(&[group]);
    assert_eq!(sweep.points[0].total.wire_bytes.value().unwrap().runs, 1);
    assert_eq!(median(&sweep.points[0].reported[0].per_second), Some(1_000.0), "nor does what its command printed");
    let said = remarks(&sweep);
    assert!(
        said.len() == 1 && said[0].starts_with("redis/run-2 does not count: its command ended with status 7"),
        "{said:?}"
    );
    assert!(table(&sweep, Style::default()).contains("1 of 2"));
}

#[test]
fn what_lost_frames_is_marked_in_every_form() {
    let mut lossy = run(1_000, &[("P", "1")]);
    lossy.source.kernel_drops = Measured::Value(7);
    let sweep = made(&[group("redis", [lossy, run(1_000, &[("P", "1")]), run(1_000, &[("P", "2")])])]);
    assert_eq!(sweep.points[0].lower_bounds, ["redis/run-1: 7 frames dropped by the kernel"]);
    assert!(table(&sweep, Style::default()).contains('≥') && markdown(&sweep).contains('≥'));
    let figures = figures(&sweep);
    let bytes = named(&figures, "bytes");
    let hollow: Vec<bool> = bytes.panels[0].lines[0].points.iter().flatten().map(|point| point.is_incomplete).collect();
    assert_eq!(hollow, [true, false]);
    assert!(bytes.note.contains("Hollow: redis/run-1: 7 frames dropped by the kernel."), "{}", bytes.note);
}

#[test]
fn a_run_that_is_partial_is_named_whatever_the_reason() {
    let mut partial = run(1_000, &[("P", "1")]);
    partial.exit = overhead_model::exit::PARTIAL;
    let sweep = made(&[group("redis", [partial, run(1_000, &[("P", "2")])])]);
    assert_eq!(remarks(&sweep), ["redis/run-1 is partial: its record says why"]);
    assert!(sweep.points[0].doubt().is_some() && sweep.points[1].doubt().is_none());
}

#[test]
fn a_report_has_a_chart_for_each_quantity_and_replaces_an_earlier_one_alone() {
    let path = std::env::temp_dir().join(format!("overhead-sweep-{}-drawn", std::process::id()));
    let folder = OutputFolder::open_or_make(&path, 0o777, None).unwrap();
    let mut groups = [two()];
    let within = vec![Within { ns: 1_000_000, count: 4 }];
    for named in &mut groups[0].runs {
        named.run.operations.iter_mut().for_each(|row| row.latency_within = Some(within.clone()));
    }
    let write = |groups: &[RunGroup], options: &ReportOptions| {
        let files = write_report_as(groups, &folder, options, &PageExtras::default()).unwrap();
        files.iter().filter_map(|file| Some(file.file_stem()?.to_str()?.to_owned())).collect::<Vec<_>>()
    };
    let titled = ReportOptions { title: Some("My article".to_owned()), ..ReportOptions::default() };
    let mut names = write(&groups, &titled);
    names.dedup();
    let charts =
        ["bytes", "accounts", "operations", "round-trips", "frames", "calls", "cpu", "rate", "latency", "distribution"];
    assert_eq!(names[2..], charts);
    assert_eq!(replaced_by_report(&folder), None);
    let page = fs::read_to_string(path.join("index.html")).unwrap();
    assert!(page.contains("<h1>My article</h1>") && page.matches("Points are medians").count() == 1);
    assert!(fs::read_to_string(path.join("bytes.svg")).unwrap().contains("My article: bytes per operation"));
    // A sweep without counters removes an earlier sweep's charts of them.
    groups[0].runs.iter_mut().for_each(|named| named.run.counters = Measured::unavailable("not requested"));
    write(&groups, &ReportOptions::default());
    assert!(!path.join("calls.png").exists());
    fs::write(path.join("report.md"), "# My own notes\n").unwrap();
    assert!(replaced_by_report(&folder).is_some());
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn the_distribution_is_a_line_for_each_place_up_to_where_all_operations_are() {
    let mut groups = [two()];
    for named in &mut groups[0].runs {
        let is_first = named.run.parameters["P"] == "1";
        named.run.operations.retain(|row| row.name == "GET");
        let within: &[(u64, u64)] =
            if is_first { &[(500_000, 1), (1_000_000, 4)] } else { &[(1_000_000, 1), (2_000_000, 3), (3_000_000, 3)] };
        named.run.operations[0].latency_within = Some(within.iter().map(|&(ns, count)| Within { ns, count }).collect());
    }
    let all = figures(&made(&groups));
    let figure = named(&all, "distribution");
    assert_eq!(
        (figure.places.join(", "), figure.series.join(", ")),
        ("500 µs, 1 ms, 2 ms".to_owned(), "P = 1, P = 10".to_owned())
    );
    let share = |at: usize| -> Vec<f64> {
        figure.panels[0].lines[at].points.iter().flatten().map(|point| point.spread.median).collect()
    };
    assert_eq!((share(0), share(1)), (vec![25.0, 100.0, 100.0], vec![0.0, 1.0 / 3.0 * 100.0, 100.0]));
    for named in &mut groups[0].runs {
        named.run.operations[0].latency_within = None;
    }
    assert!(figures(&made(&groups)).iter().all(|(name, _)| *name != "distribution"));
}

#[test]
fn an_operation_is_one_line_however_it_is_sent() {
    let mut group = two();
    let inline = group.runs.iter_mut().filter(|named| named.run.parameters["P"] == "10");
    inline.flat_map(|named| &mut named.run.operations).for_each(|row| row.via = "inline".to_owned());
    let sweep = made(&[group]);
    let figures = figures(&sweep);
    let operations = named(&figures, "operations");
    let drawn: Vec<_> = operations.panels.iter().map(|panel| (&*panel.name, drawn(panel))).collect();
    assert_eq!(drawn, [("SET", vec![(0, 2)]), ("GET", vec![(0, 2)])]);
    assert!(table(&sweep, Style::default()).contains("GET (inline)"), "the table tells them apart");
}

#[test]
fn what_a_program_never_prints_has_no_column() {
    let text = table(&made(&[two()]), Style::default());
    let reported = text.split("As the command reported").nth(1).unwrap();
    assert!(reported.contains("p50") && !reported.contains("p99"), "{reported}");
}

#[test]
fn an_unfinished_sweep_prints_so_in_its_table() {
    let mut sweep = made(&[two()]);
    sweep.partial = Some("ended after 3 of 6 runs".to_owned());
    let text = table(&sweep, Style::default());
    assert!(text.contains("warning: ended after 3 of 6 runs"), "{text}");
}

#[test]
fn systems_have_a_line_each_and_a_run_without_the_parameter_a_level_one() {
    let mut valkey = two();
    valkey.name = "valkey".to_owned();
    valkey.runs.iter_mut().for_each(|named| {
        let value = if named.run.parameters["P"] == "1" { "10" } else { "100" };
        named.run.parameters.insert("P".to_owned(), value.to_owned());
    });
    of_system(&mut valkey, "Valkey 9.0");
    let mut alone = group("alone", [run(1_000, &[])]);
    of_system(&mut alone, "Garnet 1.0");
    let sweep = made(&[two(), valkey, alone]);
    let all = figures(&sweep);
    for (name, figure) in all.iter().filter(|(name, _)| *name != "accounts") {
        assert_eq!((figure.places.join(" "), figure.series.len()), ("1 10 100".to_owned(), 3), "{name}");
        assert_eq!(figure.series[1..], ["Valkey 9.0", "Garnet 1.0"], "{name}");
        for panel in &figure.panels {
            assert_eq!(drawn(panel), [(0, 2), (1, 2), (2, 0)], "{name}: no point where nothing was measured");
            assert!(panel.lines[2].level.is_some() && panel.lines[0].level.is_none(), "{name}");
        }
    }
    let accounts = named(&all, "accounts");
    assert_eq!(accounts.panels.iter().map(|panel| panel.level.is_empty()).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(accounts.panels[0].bands.iter().map(Vec::is_empty).collect::<Vec<_>>(), [false, false, true]);
    assert!(accounts.panels[0].bands[0].iter().any(|(account, bytes)| *account == Account::Data && *bytes > 0.0));
}

#[test]
fn charts_over_all_operations_are_of_runs_of_the_same_operations_alone() {
    let mut get = two();
    get.name = "get".to_owned();
    get.runs.iter_mut().for_each(|named| named.run.operations.retain(|row| row.name == "GET"));
    let sweep = made(&[two(), get]);
    let names: Vec<&str> = figures(&sweep).iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["bytes", "accounts", "operations", "round-trips", "latency"]);
    let series: Vec<&str> = sweep.keys.series.iter().map(|key| &*key.name).collect();
    assert_eq!(series, ["run"], "two folders of one system are told apart by their names");
}

/// Returns the names of the keys: of the lines, of the panels, of the horizontal axis.
fn keys(sweep: &Sweep) -> (Vec<&str>, Option<&str>, Option<&str>) {
    let keys = &sweep.keys;
    let name = |key: &Option<axes::Key>| key.as_ref().map(|key| key.name.clone());
    let leak = |name: Option<String>| name.map(|name| &*name.leak());
    (keys.series.iter().map(|key| &*key.name).collect(), leak(name(&keys.facet)), leak(name(&keys.x)))
}

#[test]
fn axes_suit_the_runs_and_can_be_chosen() {
    let runs = || {
        let values = ["16", "100"].iter().flat_map(|size| ["1", "4", "64"].map(|depth| (*size, depth)));
        values.map(|(size, depth)| run(1_000, &[("size", size), ("depth", depth)])).collect::<Vec<_>>()
    };
    let (mut redis, mut valkey) = (group("redis", runs()), group("valkey", runs()));
    of_system(&mut redis, "Redis 7");
    of_system(&mut valkey, "Valkey 9.0");
    let groups = [redis, valkey];
    assert_eq!(keys(&made(&groups)), (vec!["system"], Some("size"), Some("depth")));
    assert_eq!(keys(&made(&groups[..1])), (vec!["size"], None, Some("depth")));
    let chosen = |x: &str, series: &str, facet: &str| {
        let some = |name: &str| Some(name.to_owned()).filter(|name| !name.is_empty());
        Sweep::new(&groups, &ChartAxes { x: some(x), series: some(series), facet: some(facet) })
    };
    assert_eq!(keys(&chosen("size", "", "system").unwrap()), (vec!["depth"], Some("system"), Some("size")));
    assert_eq!(keys(&chosen("", "depth", "").unwrap()), (vec!["depth", "system"], None, Some("size")));
    let refused = chosen("dept", "", "").unwrap_err();
    assert_eq!(refused, "--x dept: dept is no key of these runs; their keys are system, run, depth, size");
    assert!(chosen("size", "size", "").unwrap_err().contains("--series size: size is used already"));
    let places: Vec<_> = made(&groups).points.iter().map(|point: &SweepPoint| point.values.clone()).collect();
    assert_eq!(places[..2].iter().map(|of| of[2].clone().unwrap()).collect::<Vec<_>>(), ["1", "4"]);
    assert_eq!(places.iter().map(|of| of[1].clone().unwrap()).collect::<Vec<_>>()[2..4], ["16", "100"]);
}

#[test]
fn a_panel_has_five_lines_at_most() {
    let runs = (0..7).map(|c| run(1_000, &[("P", "1"), ("c", ["a", "b", "c", "d", "e", "f", "g"][c])]));
    let others = (0..7).map(|c| run(1_000, &[("P", "2"), ("c", ["a", "b", "c", "d", "e", "f", "g"][c])]));
    let sweep = Sweep::new(
        &[group("redis", runs.chain(others))],
        &ChartAxes { x: Some("P".to_owned()), series: Some("c".to_owned()), facet: None },
    );
    let all = figures(&sweep.unwrap());
    assert_eq!(named(&all, "bytes").panels.iter().map(|panel| panel.lines.len()).collect::<Vec<_>>(), [5, 2]);
}

#[test]
fn sentences_compare_the_whole_cost_and_name_their_conditions() {
    let (mut redis, mut postgres) = (two(), two());
    of_system(&mut redis, "Redis 7");
    postgres.name = "postgres".to_owned();
    of_system(&mut postgres, "PostgreSQL 17");
    let said = sentences(&made(&[redis, postgres]));
    assert!(said[0].starts_with("12 runs, up to 3 of each combination (system: "), "{said:?}");
    assert!(said[1].starts_with("At P = 10, ") && said[1].contains("setup included, "), "{said:?}");
    assert!(said[1].contains("PostgreSQL 17 ") && said[1].contains(" B and "), "{said:?}");
    assert!(said[2].contains("do not tell the rates apart"), "{said:?}");
    let alone = sentences(&made(&[two()]));
    assert!(alone[1].contains(" at P = 1") || alone[1].contains("needs"), "{alone:?}");
}
