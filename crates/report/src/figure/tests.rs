//! Charts as documents, and their content.

use super::*;
use crate::fixture;
use crate::report::report_markdown;
use overhead_model::record::{OperationRow, SideRow};
use overhead_model::{Account, Amounts, Class};
use scene::{Mark, Text};

const TITLE: &str = "Overhead per operation";

fn svg(runs: &[NamedRun], options: &ReportOptions) -> String {
    let [svg, _] = draw(runs, TITLE, options).unwrap();
    String::from_utf8(svg).unwrap()
}

/// Returns the sets of runs that the tests draw.
fn sets() -> Vec<(&'static str, Vec<NamedRun>)> {
    let four = fixture::databases(true);
    let eight: Vec<NamedRun> = fixture::databases(false).into_iter().chain(fixture::databases(false)).collect();
    let mixed = vec![fixture::redis_live(), fixture::warned(), fixture::files().remove(1)];
    let mut empty = fixture::files().remove(0);
    empty.run.operations.clear();
    vec![
        ("one", vec![fixture::redis_live()]),
        ("three", fixture::databases(true).into_iter().take(3).collect()),
        ("four", four),
        ("eight", eight),
        ("twelve", (0..3).flat_map(|_| fixture::databases(true)).collect()),
        ("files", fixture::files()),
        ("warned", vec![fixture::warned()]),
        ("mixed", mixed),
        ("empty", vec![empty]),
        ("long names", vec![long_names()]),
        ("benchmark", vec![benchmark(), fixture::databases(true).remove(1)]),
    ]
}

/// Returns twelve operations with names that do not fit into a line.
fn long_names() -> NamedRun {
    let mut named = fixture::warned();
    let row = named.run.operations.iter().find(|row| row.class == Class::Workload).unwrap().clone();
    named.run.operations = (0..12)
        .map(|number| {
            let mut row = row.clone();
            row.name = format!("FT.AGGREGATE OF INDEX {number} WITH {}", "A SUBCOMMAND THAT GOES ON ".repeat(number));
            row.via = "pipelined".to_owned();
            row
        })
        .collect();
    named
}

/// Returns twenty operations with nearly all bytes in a few, like a complete benchmark.
fn benchmark() -> NamedRun {
    let mut named = fixture::redis_live();
    let get = named.run.operations.iter().find(|row| row.name == "GET").unwrap().clone();
    let large = (0..8).map(|number| {
        let mut row = get.clone();
        row.name = format!("LRANGE_{number}");
        row.response.accounts[Account::Data] = 50_000_000;
        row
    });
    let small = (0..10).map(|number| {
        let mut row = get.clone();
        row.name = format!("RARE_{number}");
        row.count = 1;
        row
    });
    named.run.operations.extend(large.chain(small));
    named
}

fn chart_of(runs: &[NamedRun], operations_per_run: Option<usize>) -> Chart {
    Chart::choosing(runs, operations_per_run, &[])
}

fn scene_of(runs: &[NamedRun]) -> Scene {
    scene_as_wide(runs, 800.0)
}

fn scene_as_wide(runs: &[NamedRun], width: f64) -> Scene {
    layout::scene(&chart_of(runs, None), Some(TITLE), &caption::paragraphs(runs, false), width)
}

fn texts(scene: &Scene) -> Vec<&Text> {
    fn text(mark: &Mark) -> Option<&Text> {
        if let Mark::Text(text) = mark { Some(text) } else { None }
    }
    scene.marks.iter().filter_map(text).collect()
}

/// Returns the left, top, right and bottom of a line of text.
fn area(text: &Text) -> [f64; 4] {
    let left = text.left();
    [
        left,
        text.baseline - 0.74 * text.face.size,
        left + text.face.width(&text.line),
        text.baseline + 0.2 * text.face.size,
    ]
}

fn said(runs: &[NamedRun]) -> String {
    let scene = scene_of(runs);
    texts(&scene).iter().map(|text| text.line.as_str()).collect::<Vec<_>>().join(" ")
}

#[test]
fn no_two_labels_overlap_and_none_leaves_the_image() {
    let widths = [320.0, 344.0, 640.0, 800.0, 1_600.0];
    for ((name, runs), width) in sets().iter().flat_map(|set| widths.map(|width| (set, width))) {
        let scene = scene_as_wide(runs, width);
        let texts = texts(&scene);
        for (at, text) in texts.iter().enumerate() {
            let [left, top, right, bottom] = area(text);
            assert!(
                left >= 0.0 && top >= 0.0 && right <= scene.width && bottom <= scene.height,
                "{name}: {}",
                text.line
            );
            for other in &texts[..at] {
                let [l, t, r, b] = area(other);
                let apart = left >= r || l >= right || top >= b || t >= bottom;
                assert!(apart, "{name}: {:?} lies on {:?}", text.line, other.line);
            }
        }
    }
}

#[test]
fn nothing_covers_a_label() {
    for ((name, runs), width) in sets().iter().flat_map(|set| [344.0, 800.0].map(|width| (set, width))) {
        let marks = scene_as_wide(runs, width).marks;
        for (at, mark) in marks.iter().enumerate() {
            let Mark::Text(text) = mark else { continue };
            let [left, top, right, bottom] = area(text);
            let covers = |mark: &&Mark| match mark {
                Mark::Rect { x, y, width, height, .. } => {
                    x + width > left && *x < right && y + height > top && *y < bottom
                }
                _ => false,
            };
            let cover = marks[at..].iter().find(covers);
            assert!(cover.is_none(), "{name}: {:?} under {cover:?}", text.line);
        }
    }
}

#[test]
fn an_svg_is_well_formed_and_carries_text_and_fonts() {
    for (name, runs) in sets() {
        let svg = svg(&runs, &ReportOptions::default());
        let document = roxmltree::Document::parse(&svg).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(document.root_element().attribute("width"), Some("800"), "{name}");
        let style = document.descendants().find(|node| node.has_tag_name("style")).unwrap().text().unwrap();
        assert_eq!(style.matches("@font-face").count(), 2);
        let texts: Vec<&str> =
            document.descendants().filter(|node| node.has_tag_name("text")).filter_map(|node| node.text()).collect();
        for expected in ["Bytes per operation", TITLE] {
            assert!(texts.contains(&expected), "{name}: {expected}: {texts:?}");
        }
    }
}

#[test]
fn a_png_is_as_wide_as_it_says_and_not_blank() {
    let runs = fixture::databases(false);
    let [_, file] = draw(&runs, TITLE, &ReportOptions::default()).unwrap();
    let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!(info.width, 1_600);
    assert_eq!(info.height, (scene_of(&runs).height * 2.0).round() as u32);
    let data = palette::account(Account::Data);
    assert!(pixels.chunks(3).any(|pixel| pixel == [data.0, data.1, data.2]));
}

#[test]
fn the_same_runs_give_the_same_image() {
    let images = || draw(&fixture::databases(true), TITLE, &ReportOptions::default()).unwrap();
    assert_eq!(images(), images());
}

#[test]
fn what_was_not_measured_is_said_and_not_drawn_as_zero() {
    assert_eq!(chart_of(&fixture::files(), None).panels.len(), 1, "no room for panels without bars");
    let offline = said(&fixture::files());
    assert!(offline.contains("syscalls and CPU not measured (offline)"), "{offline}");

    let remote = said(&[fixture::warned()]);
    assert!(remote.contains("client not measured (not on this host (10.0.0.7))"), "{remote}");
    assert!(remote.contains("CPU time per operation") && !remote.contains("CPU cycles per operation"), "{remote}");
}

#[test]
fn a_caption_states_the_conditions_and_says_common_ones_once() {
    let caption = said(&fixture::databases(true));
    assert_eq!(caption.matches("0 frames dropped, 0 B in gaps").count(), 1, "{caption}");
    assert!(caption.contains("window 1.25 s, 2,000 operations"), "{caption}");
    assert!(caption.contains("command: overhead bench cassandra --ops 1000 --value-size 100"), "{caption}");
    assert!(said(&[fixture::warned()]).contains("The ledger is off by 1234 bytes."));
}

#[test]
fn runs_of_different_data_are_warned_about() {
    let runs = fixture::databases(false);
    assert!(said(&runs).contains("not the share of data"));
    assert!(!said(&runs[..1]).contains("not the share of data"));
    let mixed = [fixture::redis_live(), runs[1].clone()];
    assert!(!said(&mixed).contains("not the share of data"), "means of other operations are not alike");
}

#[test]
fn what_is_beyond_the_limit_is_counted() {
    let chart = chart_of(&[fixture::warned()], Some(1));
    assert_eq!(chart.rows.len(), 1);
    let remainder = chart.rows[0].remainder.as_deref().unwrap();
    assert!(remainder.starts_with("and 2 more operations not drawn, "), "{remainder}");
    assert!(chart_of(&[fixture::warned()], None).rows.iter().all(|row| row.remainder.is_none()));
}

#[test]
fn what_is_asked_once_beside_a_benchmark_is_not_drawn() {
    let mut named = fixture::warned();
    let mut once = named.run.operations.iter().find(|row| row.class == Class::Workload).unwrap().clone();
    once.name = "CONFIG GET".to_owned();
    once.count = 1;
    for side in [&mut once.request, &mut once.response] {
        side.accounts = Amounts::new(Account::Framing, 20);
    }
    let before = chart_of(std::slice::from_ref(&named), None).rows.len();
    named.run.operations.push(once);
    let chart = chart_of(std::slice::from_ref(&named), None);
    assert_eq!(chart.rows.len(), before);
    assert!(chart.rows.iter().all(|row| row.remainder.is_none()), "nor is it worth a line");
}

#[test]
fn what_is_asked_often_is_drawn_beside_what_is_large() {
    let chart = chart_of(&[benchmark()], None);
    let drawn: Vec<&str> = chart.rows.iter().map(|row| row.operation.as_str()).collect();
    assert!(drawn.contains(&"GET · array") && drawn.contains(&"SET · array") && drawn.len() == 10, "{drawn:?}");
    let remainder = chart.rows.iter().find_map(|row| row.remainder.as_deref()).unwrap();
    assert_eq!(remainder, "and 10 more operations not drawn, 0.8% of the bytes");
}

/// The note on omissions appears in full for any number of them.
#[test]
fn what_is_left_out_is_told_in_full() {
    let mut named = benchmark();
    let rare = named.run.operations.iter().find(|row| row.name == "RARE_0").unwrap().clone();
    named
        .run
        .operations
        .extend((10..4_000).map(|number| OperationRow { name: format!("RARE_{number}"), ..rare.clone() }));
    let said = said(&[named]);
    let (_, told) = said.split_once("more operations not drawn, ").unwrap();
    assert!(told.split_once(" of the bytes").is_some_and(|(share, _)| share.ends_with('%')), "{told}");
}

#[test]
fn comparable_operations_stand_in_the_same_order() {
    let runs: Vec<NamedRun> = fixture::databases(true);
    let chart = chart_of(&runs, None);
    let names: Vec<&str> = chart.rows.iter().filter_map(|row| row.operation.split(' ').next()).collect();
    assert_eq!(names, ["SET", "GET", "INSERT", "SELECT", "INSERT", "SELECT", "insert", "find"]);
}

#[test]
fn names_are_never_cut() {
    let runs = [long_names()];
    let chart = chart_of(&runs, None);
    assert_eq!(chart.rows.len(), 12);
    let bare = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    let said = bare(&said(&runs));
    for row in &chart.rows {
        assert!(!row.first || said.contains(&bare(&row.run)), "{} is not in {said}", row.run);
        assert!(said.contains(&bare(&row.operation)), "{} is not in {said}", row.operation);
    }
    assert!(chart.rows[5].operation.ends_with("· pipelined"), "{}", chart.rows[5].operation);
}

#[test]
fn a_system_call_has_the_same_colour_in_every_figure() {
    let mut colors: std::collections::BTreeMap<String, Rgb> = std::collections::BTreeMap::new();
    for (_, runs) in sets() {
        for (name, color) in chart_of(&runs, None).panels.get(1).into_iter().flat_map(|panel| panel.legend.clone()) {
            let known = *colors.entry(name.clone()).or_insert(color);
            assert_eq!(known, color, "{name}");
        }
    }
    assert!(colors.len() > 5, "{colors:?}");
}

#[test]
fn bytes_of_a_lossy_run_are_marked_as_lower_bounds() {
    let said_of = said(&[fixture::warned()]);
    assert!(said_of.contains("≥1,898 B/op") && !said_of.contains(" 1,898 B/op"), "{said_of}");
    assert!(said_of.contains("byte counts are lower bounds: 2,896 bytes in gaps"), "{said_of}");
    assert!(!said(&[fixture::redis_live()]).contains('≥'));
}

#[test]
fn a_direction_that_was_not_captured_is_absent_and_not_zero() {
    let mut named = fixture::redis_live();
    named.run.tcp.request_only = 1;
    for row in &mut named.run.operations {
        row.response = SideRow { unseen: Some("no frame of the server was captured".to_owned()), ..SideRow::default() };
    }
    let said_of = said(&[named.clone()]);
    assert!(said_of.contains("not measured: no frame of the server") && said_of.contains("≥124 B/op"), "{said_of}");
    let report = report_markdown(&[named]);
    assert!(report.contains("| ≥124.0 | ≥124.0 |"), "{report}");
}

#[test]
fn what_is_not_the_workloads_is_said_to_be_left_out() {
    let said = said(&[fixture::redis_live()]);
    assert!(said.contains("setup, background and other traffic (0.1% of the wire bytes) not drawn"), "{said}");
}

/// Each text keeps its layout width in whatever font a viewer uses.
#[test]
fn each_text_of_an_svg_brings_its_width_and_fonts_to_fall_back_on() {
    let runs = fixture::databases(true);
    let svg = svg(&runs, &ReportOptions::default());
    let document = roxmltree::Document::parse(&svg).unwrap();
    let scene = scene_of(&runs);
    let drawn: Vec<_> = document.descendants().filter(|node| node.has_tag_name("text")).collect();
    let laid_out = texts(&scene);
    assert_eq!(drawn.len(), laid_out.len());
    for (node, text) in drawn.iter().zip(laid_out) {
        assert_eq!(node.text(), Some(text.line.as_str()));
        let width: f64 = node.attribute("textLength").unwrap().parse().unwrap();
        assert!((width - 2.0 * text.face.width(&text.line)).abs() < 0.1, "{}", text.line);
        assert!(node.attribute("font-family").unwrap().ends_with(",Arial,sans-serif"));
    }
}

#[test]
fn reference_and_hardware_cycles_are_not_drawn_on_one_axis() {
    let mixed = vec![fixture::redis_live(), fixture::databases(false).remove(1)];
    assert_eq!(chart_of(&mixed, None).panels[2].unit, "µs on a CPU");
    assert_eq!(chart_of(&mixed[..1], None).panels[2].unit, "thousand hardware cycles");
    assert_eq!(chart_of(&mixed[1..], None).panels[2].unit, "µs on a CPU", "reference cycles say no more than time");
}

#[test]
fn nothing_to_draw_is_an_error() {
    assert!(matches!(draw(&[], TITLE, &ReportOptions::default()), Err(ReportError::NoRuns)));
}

/// Writes every chart into `overhead-figures` under the temporary folder for manual review.
#[test]
#[ignore = "writes sample charts for review"]
fn write_samples() {
    for (name, runs) in sets() {
        let folder = std::env::temp_dir().join("overhead-figures").join(name);
        let folder = overhead_files::OutputFolder::open_or_make(&folder, 0o777, None).unwrap();
        crate::write_report(&runs, &folder).unwrap();
    }
}

#[test]
fn a_dark_figure_has_no_white_and_other_text_than_a_light_one() {
    let runs = fixture::databases(true);
    let options = ReportOptions { width: Some(1_000), theme: Some(Theme::Dark), ..ReportOptions::default() };
    let dark = svg(&runs, &options);
    assert!(dark.contains("width=\"1000\""));
    let light = svg(&runs, &ReportOptions::default());
    assert!(light.contains(&palette::PAPER.hex()) && !dark.contains(&palette::PAPER.hex()));
    assert!(dark.contains(&palette::PAPER.dark().hex()) && dark.contains(&palette::INK.dark().hex()));
}

#[test]
fn a_figure_without_a_caption_keeps_its_warnings() {
    let words = |of: NamedRun| caption::paragraphs(&[of], true).concat().into_iter().map(|(word, _)| word).collect();
    let (whole, warned): (Vec<String>, Vec<String>) = (words(fixture::redis_live()), words(fixture::warned()));
    assert!(whole.is_empty(), "{whole:?}");
    assert!(warned.iter().any(|word| word == "Warning:"), "{warned:?}");
}

/// A bar of repeated runs is that of the run with the median, and the line below it reaches over all.
#[test]
fn repeated_runs_share_a_row_with_their_median_and_range() {
    let runs: Vec<NamedRun> = [1, 3, 2]
        .into_iter()
        .map(|times| {
            let mut named = NamedRun { name: "repeated".to_owned(), ..fixture::redis_live() };
            named.run.operations.retain(|row| row.name == "GET");
            for row in &mut named.run.operations {
                row.response.accounts[Account::Data] *= times;
            }
            named
        })
        .collect();
    let [one, three, two] = [0, 1, 2].map(|at| chart_of(&runs[at..=at], None));
    let all = chart_of(&runs, None);
    assert_eq!(all.rows.len(), one.rows.len(), "the runs share their rows");
    let response = |chart: &Chart| chart.panels[0].rows[0].as_ref().unwrap()[1].clone().unwrap();
    assert_eq!(response(&all).parts, response(&two).parts);
    let sum = |chart: &Chart| response(chart).parts.iter().map(|part| part.value).sum::<f64>();
    assert_eq!((response(&all).range, response(&one).range), (Some((sum(&one), sum(&three))), None));
    assert!(all.rows[0].count.ends_with(", 3 runs") && all.rows[0].total.contains('('), "{:?}", all.rows[0].total);
    assert!(said(&runs).contains("Of repeated runs, each bar is that of the median"));
    let long = scene_of(&runs).marks.len() - scene_of(&runs[2..]).marks.len();
    assert!(long > 0, "the range is drawn");
}
