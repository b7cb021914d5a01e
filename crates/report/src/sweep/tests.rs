use super::*;
use crate::figure::ReportOptions;
use crate::fixture;
use crate::grid::Style;
use crate::reported::{Reported, ReportedLatency};
use overhead_files::OutputFolder;
use overhead_model::record::{Selected, Tool, Within};
use overhead_model::sweep::SweepParameter;
use overhead_model::{Measured, Run};
use std::fs;

fn run(ms: u64) -> Run {
    let mut run = fixture::redis_live().run;
    run.ledger.other = 0;
    run.source.last_ns = run.source.first_ns + ms * 1_000_000;
    run
}

fn made(number: usize, record: Result<Run, String>) -> PointRun {
    let test = Reported {
        program: "redis-benchmark",
        name: "GET".to_owned(),
        per_second: Some(1_000.0 * number as f64),
        latency_ns: ReportedLatency { p50: Some(250_000.0), ..ReportedLatency::default() },
    };
    PointRun { folder: format!("P=1/run-{number}"), record, reported: vec![test] }
}

/// Returns points of three runs each; the second point's runs take half as long.
fn sweep_of(points: usize) -> Sweep {
    let values = ["1", "10"].map(str::to_owned);
    let point_of = |value: &String| {
        let half = if value == "10" { 2 } else { 1 };
        let runs: Vec<PointRun> =
            [1_000, 2_000, 4_000].into_iter().zip(1..).map(|(ms, number)| made(number, Ok(run(ms / half)))).collect();
        point(vec![value.clone()], format!("P={value}"), &runs)
    };
    Sweep {
        schema_version: SWEEP_VERSION,
        tool: Tool { name: "overhead".to_owned(), version: "0.1.0".to_owned() },
        command: ["redis-benchmark", "-P", "{P}"].map(str::to_owned).into(),
        settings: Vec::new(),
        selection: Selected::default(),
        environment: fixture::redis_live().run.environment,
        servers: vec!["Redis 7.0.15".to_owned()],
        parameters: vec![SweepParameter { name: "P".to_owned(), values: values.to_vec() }],
        runs: 3,
        points: values.iter().take(points).map(point_of).collect(),
        partial: (points < 2).then(|| "ended after 3 of 6 runs".to_owned()),
    }
}

fn named(name: &str, sweep: &Sweep) -> NamedSweep {
    NamedSweep { name: name.to_owned(), sweep: sweep.clone() }
}

fn figures_of(sweep: &Sweep) -> Vec<(&'static str, crate::figure::LineFigure)> {
    figures::figures(&[named("redis", sweep)])
}

fn median(figure: &Measured<overhead_model::Spread>) -> Option<f64> {
    figure.value().map(|spread| spread.median)
}

#[test]
fn a_point_has_the_median_of_its_runs() {
    let sweep = sweep_of(2);
    let total = &sweep.points[0].total;
    let count = median(&total.operations).unwrap();
    assert_eq!(median(&total.per_second), Some(count / 2.0), "the run of 2 s is the median");
    assert_eq!(median(&sweep.points[1].total.per_second), Some(count));
    let per_second = total.per_second.value().unwrap();
    assert_eq!((per_second.runs, per_second.min, per_second.max), (3, count / 4.0, count));
    let names: Vec<&str> = sweep.points[0].operations.iter().map(|operation| &*operation.name).collect();
    assert_eq!(names, ["SET", "GET"], "the largest by bytes first");
    assert_eq!(median(&total.server.syscalls), Some(3.006));
    assert_eq!(median(&sweep.points[0].reported[0].per_second), Some(2_000.0));
    let said = &sweep.points[0].reported[0].latency_ns;
    assert_eq!((median(&said.p50), said.p99.reason()), (Some(250_000.0), Some("redis-benchmark does not say")));
}

#[test]
fn a_run_that_failed_does_not_count_and_is_named() {
    let runs = [made(1, Ok(run(1_000))), made(2, Err("the command ended with status 1".to_owned()))];
    let point = point(vec!["1".to_owned()], "P=1".to_owned(), &runs);
    assert_eq!(point.total.operations.value().unwrap().runs, 1);
    assert_eq!(median(&point.reported[0].per_second), Some(1_000.0), "nor does what its command said");
    let sweep = Sweep { points: vec![point], ..sweep_of(2) };
    assert_eq!(remarks(&sweep), ["P=1/run-2 does not count: the command ended with status 1"]);
    assert!(table(&sweep, Style::default()).contains("1 of 3"));
}

#[test]
fn without_any_run_every_figure_has_a_reason() {
    let point = point(vec!["1".to_owned()], "P=1".to_owned(), &[made(1, Err("failed".to_owned()))]);
    assert_eq!(point.total.per_second.reason(), Some("no run"));
    let sweep = Sweep { points: vec![point], ..sweep_of(2) };
    assert!(figures_of(&sweep).is_empty());
    assert!(csv(&sweep).contains(",no run"));
}

#[test]
fn what_lost_frames_is_marked_in_every_form() {
    let mut lossy = run(1_000);
    lossy.source.kernel_drops = Measured::Value(7);
    let runs = [made(1, Ok(lossy)), made(2, Ok(run(1_000)))];
    let sweep = Sweep { points: vec![point(vec!["1".to_owned()], "P=1".to_owned(), &runs)], ..sweep_of(2) };
    assert_eq!(sweep.points[0].lower_bounds, ["P=1/run-1: 7 frames dropped by the kernel"]);
    assert!(table(&sweep, Style::default()).contains('≥') && markdown(&sweep).contains('≥'));
    let bytes = csv(&sweep).lines().find(|line| line.contains("request_bytes")).unwrap().to_owned();
    assert!(bytes.contains(",true,"), "{bytes}");
}

#[test]
fn csv_has_a_line_for_each_figure_and_json_reads_back() {
    let sweep = sweep_of(2);
    let text = csv(&sweep);
    let header = text.lines().next().unwrap();
    assert_eq!(
        header,
        "vary_P,of,protocol,operation,via,figure,unit,runs,lower_bound,median,q1,q3,min,max,unavailable"
    );
    assert!(text.lines().all(|line| line.matches(',').count() >= header.matches(',').count()));
    assert!(text.contains("10,operation,resp,GET,array,latency_p50,ns,3,false,"));
    let path = std::env::temp_dir().join(format!("overhead-sweep-{}-read", std::process::id()));
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join(SWEEP_RECORD), json(&sweep).unwrap()).unwrap();
    assert_eq!(load_sweep(&path).unwrap(), sweep);
    fs::write(path.join(SWEEP_RECORD), "{\"schema_version\": 9}").unwrap();
    assert!(matches!(load_sweep(&path), Err(ReportError::Version { found: 9, .. })));
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_report_has_a_figure_for_each_quantity_and_replaces_an_earlier_one_alone() {
    let path = std::env::temp_dir().join(format!("overhead-sweep-{}-drawn", std::process::id()));
    let folder = OutputFolder::open_or_make(&path, 0o777, None).unwrap();
    let mut sweep = sweep_of(2);
    sweep.points[0].operations[0].latency_within = vec![Within { ns: 1_000_000, count: 4 }];
    let files = write_sweeps(&[named("redis", &sweep)], &folder, &ReportOptions::default()).unwrap();
    let mut names: Vec<_> = files.iter().filter_map(|file| file.file_name()?.to_str()).collect();
    names.sort_unstable();
    let mut wanted = SWEEP_FILES;
    wanted.sort_unstable();
    assert_eq!(names, wanted);
    assert_eq!(replaced_by_sweep(&folder), None);
    // A sweep without counters removes an earlier sweep's counter figures.
    let mut uncounted = run(1_000);
    uncounted.counters = Measured::unavailable("not asked for");
    let points = vec![point(vec!["1".to_owned()], "P=1".to_owned(), &[made(1, Ok(uncounted))])];
    let files =
        write_sweeps(&[named("redis", &Sweep { points, ..sweep_of(2) })], &folder, &ReportOptions::default()).unwrap();
    assert!(files.len() < SWEEP_FILES.len() && !path.join("calls.png").exists());
    fs::write(path.join(SWEEP_FILES[0]), "# My own notes\n").unwrap();
    assert!(replaced_by_sweep(&folder).is_some());
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn the_distribution_is_a_line_for_each_operation_and_point_up_to_where_all_of_them_are() {
    let mut sweep = sweep_of(2);
    let within = |pairs: &[(u64, u64)]| pairs.iter().map(|&(ns, count)| Within { ns, count }).collect::<Vec<_>>();
    for (at, point) in sweep.points.iter_mut().enumerate() {
        point.operations.retain(|operation| operation.name == "GET");
        point.operations[0].latency_within = if at == 0 {
            within(&[(500_000, 1), (1_000_000, 4)])
        } else {
            within(&[(1_000_000, 1), (2_000_000, 3), (3_000_000, 3)])
        };
    }
    let (name, figure) = figures_of(&sweep).pop().unwrap();
    assert_eq!((name, figure.places.join(", ")), ("distribution", "500 µs, 1 ms, 2 ms".to_owned()));
    let third = 1.0 / 3.0 * 100.0;
    let shown = |share: f64| Some(share.into());
    assert_eq!(
        figure.lines,
        [
            ("P = 1".to_owned(), [25.0, 100.0, 100.0].map(shown).into()),
            ("P = 10".to_owned(), [0.0, third, 100.0].map(shown).into())
        ]
    );
    // Use more time limits than fit; the limit that includes all operations must appear.
    let many: Vec<Within> = (1..=40).map(|ms| Within { ns: ms * 1_000_000, count: ms }).collect();
    sweep.points[0].operations[0].latency_within = many;
    let (_, figure) = figures_of(&sweep).pop().unwrap();
    assert_eq!((figure.places.len(), &*figure.places[13]), (14, "40 ms"));
    for point in &mut sweep.points {
        point.operations[0].latency_within.clear();
    }
    assert!(figures_of(&sweep).iter().all(|(name, _)| *name != "distribution"));
}

#[test]
fn a_run_that_is_partial_is_named_whatever_the_reason() {
    let mut partial = run(1_000);
    partial.exit = overhead_model::exit::PARTIAL;
    let points = vec![point(vec!["1".to_owned()], "P=1".to_owned(), &[made(1, Ok(partial)), made(2, Ok(run(1_000)))])];
    let sweep = Sweep { points, ..sweep_of(2) };
    assert_eq!(remarks(&sweep), ["P=1/run-1 is partial: its record says why"]);
}

#[test]
fn an_operation_is_one_line_however_it_is_sent() {
    let mut sweep = sweep_of(2);
    for operation in &mut sweep.points[1].operations {
        operation.via = "inline".to_owned();
    }
    let (_, bytes) = figures_of(&sweep).remove(0);
    let drawn: Vec<(&str, usize)> =
        bytes.lines.iter().map(|(name, values)| (&**name, values.iter().flatten().count())).collect();
    assert_eq!(drawn, [("SET", 2), ("GET", 2)]);
    assert!(table(&sweep, Style::default()).contains("GET (inline)"), "the table tells them apart");
}

#[test]
fn what_a_program_never_says_has_no_column() {
    let text = table(&sweep_of(2), Style::default());
    let reported = text.split("As the command reported").nth(1).unwrap();
    assert!(reported.contains("p50") && !reported.contains("p99"), "{reported}");
}

#[test]
fn an_unfinished_sweep_says_so_in_its_table() {
    let text = table(&sweep_of(1), Style::default());
    assert!(text.contains("warning: ended after 3 of 6 runs"), "{text}");
}

#[test]
fn several_sweeps_have_a_line_each_and_a_run_a_level_one() {
    let mut get = sweep_of(2);
    for point in &mut get.points {
        point.operations.retain(|operation| operation.name == "GET");
    }
    let mut valkey = get.clone();
    valkey.parameters[0].values = ["10", "100"].map(str::to_owned).to_vec();
    (valkey.points[0].values, valkey.points[1].values) = (vec!["10".to_owned()], vec!["100".to_owned()]);
    let mut alone = NamedRun { run: run(1_000), ..fixture::redis_live() };
    alone.run.operations.retain(|row| row.name == "GET");
    let level = NamedSweep::from_run(NamedRun { name: "alone".to_owned(), ..alone });
    let sweeps = [named("redis", &get), named("valkey", &valkey), level];
    let figures = figures::figures(&sweeps);
    let drawn: Vec<&str> = figures.iter().map(|(name, _)| *name).collect();
    assert_eq!(drawn, ["bytes", "frames", "calls", "cpu", "rate", "latency"]);
    for (name, figure) in &figures {
        let values = figure.lines.iter().map(|(system, values)| (&**system, values.iter().flatten().count()));
        assert_eq!(values.collect::<Vec<_>>(), [("redis", 2), ("valkey", 2), ("alone", 3)], "{name}");
        assert_eq!(figure.places, ["1", "10", "100"]);
    }
    let folder = std::env::temp_dir().join(format!("overhead-sweeps-{}", std::process::id()));
    let files = OutputFolder::open_or_make(&folder, 0o777, None).unwrap();
    write_sweeps(&sweeps, &files, &ReportOptions::default()).unwrap();
    let page = fs::read_to_string(folder.join("index.html")).unwrap();
    assert_eq!(page.matches(">How to read the charts</h2>").count(), 1);
    assert!(page.contains("redis, valkey and alone: sweep of P") && page.matches("Squares are medians").count() == 1);
    let svg = fs::read_to_string(folder.join("bytes.svg")).unwrap();
    assert!(svg.contains("redis, valkey and alone: bytes per GET"));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn figures_over_all_operations_are_of_sweeps_of_the_same_operations_alone() {
    let all = sweep_of(2);
    let mut get = all.clone();
    for point in &mut get.points {
        point.operations.retain(|operation| operation.name == "GET");
    }
    let drawn: Vec<&str> =
        figures::figures(&[named("all", &all), named("get", &get)]).into_iter().map(|(name, _)| name).collect();
    assert_eq!(drawn, ["bytes", "latency"]);
}
