//! Pages as documents, and their agreement with the other outputs.

use super::*;
use crate::figure::{HOW_TO_READ, draw_inline};
use crate::grid::Style;
use crate::number::decimal;
use crate::run::NamedRun;
use crate::summary::{both_sides, per_operation, workload};
use crate::text::table::TableRows;
use crate::text::{self, Columns};
use crate::{ReportOptions, fixture, report_markdown};
use overhead_model::record::{RowTotals, SideRow, SideSums, StatementRow, Syscall};
use overhead_model::{Account, Amounts, Class, Measured, Run};
use runs::Shown;

fn page_of(runs: &[NamedRun]) -> String {
    let svg = draw_inline(runs, "overhead", "Overhead per operation", &ReportOptions::default()).unwrap();
    let narrow = draw_inline(runs, "overhead-narrow", "Overhead per operation", &ReportOptions::default()).unwrap();
    let figure = PageFigure {
        name: "overhead".to_owned(),
        title: "The figure".to_owned(),
        method: HOW_TO_READ.to_owned(),
        svg,
        narrow,
        width: 800,
    };
    render_runs(runs, &[figure], None, "Overhead per operation", &PageExtras::default()).unwrap()
}

/// Returns a page without its style sheet and its script, which are not XML.
fn bare(page: &str) -> String {
    let mut out = page.to_owned();
    for (begin, end) in [("<style>", "</style>"), ("<script>", "</script>")] {
        while let Some(from) = out.find(begin) {
            let to = out[from..].find(end).unwrap() + from + end.len();
            out.replace_range(from..to, "");
        }
    }
    out.replacen("<!doctype html>", "", 1)
}

/// Returns the headers and cells of the table with this id.
fn table_of(page: &str, id: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let bare = bare(page);
    let document = roxmltree::Document::parse(&bare).unwrap();
    let table = document.descendants().find(|node| node.attribute("id") == Some(id)).unwrap();
    let said = |node: roxmltree::Node<'_, '_>| {
        let cells = node.children().filter(|cell| cell.has_tag_name("th") || cell.has_tag_name("td"));
        cells.map(|cell| cell.text().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let head = table.descendants().find(|node| node.has_tag_name("thead")).unwrap();
    let headers = said(head.descendants().find(|node| node.has_tag_name("tr")).unwrap());
    let rows = table.children().filter(|node| node.has_tag_name("tbody"));
    let rows = rows.map(|body| said(body.children().find(|node| node.has_tag_name("tr")).unwrap()));
    (headers, rows.collect())
}

fn cell<'a>(headers: &[String], row: &'a [String], name: &str) -> &'a str {
    let at = headers.iter().position(|header| header == name).unwrap_or_else(|| panic!("{name} in {headers:?}"));
    &row[at]
}

/// Returns the sets of runs that the tests make pages of.
fn sets() -> Vec<(&'static str, Vec<NamedRun>)> {
    let mut empty = fixture::files().remove(0);
    empty.run.operations.clear();
    let mut one_way = fixture::redis_live();
    one_way.run.tcp.request_only = 1;
    for row in &mut one_way.run.operations {
        row.response = SideRow { unseen: Some("no frame of the server was captured".to_owned()), ..SideRow::default() };
    }
    vec![
        ("one", vec![fixture::redis_live()]),
        ("four", fixture::databases(true)),
        ("files", fixture::files()),
        ("warned", vec![fixture::warned()]),
        ("empty", vec![empty]),
        ("one way", vec![one_way]),
    ]
}

#[test]
fn a_page_is_well_formed_and_asks_nothing_of_a_network() {
    for (name, runs) in sets() {
        let page = page_of(&runs);
        assert!(page.as_bytes().starts_with(PAGE_START), "{name}");
        let bare = bare(&page);
        let document = roxmltree::Document::parse(&bare).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut ids: Vec<&str> = document.descendants().filter_map(|node| node.attribute("id")).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "{name}: an id is there twice");
        for node in document.descendants() {
            assert!(node.attribute("src").is_none(), "{name}");
            for name in node.attribute("aria-labelledby").into_iter().flat_map(str::split_whitespace) {
                assert!(ids.contains(&name), "{name} names nothing");
            }
            if let Some(target) = node.attribute("href") {
                let inside = target.strip_prefix('#').is_some_and(|id| ids.contains(&id));
                assert!(inside || ["overhead.svg", "overhead.png"].contains(&target), "{name}: {target}");
            }
        }
        assert!(!page.contains("@REGULAR@") && !page.contains("url(http"), "{name}");
    }
}

#[test]
fn the_first_paragraphs_are_sentences_with_figures() {
    for (name, runs) in sets() {
        let sentences = sentences(&runs);
        assert!((1..=3).contains(&sentences.len()), "{name}: {sentences:?}");
        assert!(
            sentences.iter().all(|said| said.ends_with('.') && said.chars().any(|c| c.is_ascii_digit()))
                || ["files", "empty"].contains(&name),
            "{name}: {sentences:?}"
        );
    }
    let said = sentences(&[fixture::redis_live()]).join(" ");
    assert!(said.contains("2,000 operations") && said.contains("system calls"), "{said}");
}

#[test]
fn sentences_compare_like_with_like_or_say_nothing() {
    let live = fixture::redis_live();
    let only = |name: &str| {
        let mut named = NamedRun { name: name.to_owned(), ..live.clone() };
        named.run.operations.retain(|row| row.class != Class::Workload || row.name == name);
        named
    };
    let [get, set] = ["GET", "SET"].map(only);
    assert_eq!(sentences(&[get.clone(), set.clone()]).len(), 1, "a GET is not a SET");
    let mut large = NamedRun { name: "large".to_owned(), ..get.clone() };
    large.run.operations.iter_mut().for_each(|row| row.response.accounts += Amounts::new(Account::Data, 4_000_000));
    let said = sentences(&[get.clone(), large]).join(" ");
    assert!(said.contains("GET takes the fewest bytes on the wire in GET"), "{said}");
    let mixed = sentences(&[get, live.clone()]).join(" ");
    assert!(!mixed.contains("CPU time for an operation"), "{mixed}");
    assert!(sentences(&[live]).join(" ").contains("all operations together cost"));
}

#[test]
fn runs_with_the_same_operations_are_compared_by_their_whole_cost() {
    let costing = |name: &str, bytes: f64, size: &str| {
        let mut named = NamedRun { name: name.to_owned(), ..fixture::redis_live() };
        named.run.whole.wire_bytes_per_operation = Measured::Value(bytes);
        named.run.whole.round_trips_per_operation = Measured::Value(1.25);
        named.run.parameters.insert("size".to_owned(), size.to_owned());
        named
    };
    let said = sentences(&[costing("a", 250.0, "16"), costing("b", 500.0, "16")]).join(" ");
    assert!(said.contains("At size = 16, setup and background included, an operation takes"), "{said}");
    assert!(
        said.contains("a (250 B and 1.25 round trips) and the most in b (500 B and 1.25 round trips, 2.00 times"),
        "{said}"
    );
    let said = sentences(&[costing("a", 250.0, "16"), costing("b", 500.0, "100")]).join(" ");
    assert!(said.contains("Over 2,000 operations a run, setup and background included"), "{said}");
}

#[test]
fn statements_are_rows_by_share_of_the_wire_and_have_the_numbers_of_other_commands() {
    let runs = [large()];
    let (headers, rows) = table_of(&page_of(&runs), "statements");
    assert_eq!(headers[..5], ["statement", "#", "of wire", "total B/op", "request B/op"]);
    let numbers: Vec<&str> = rows.iter().map(|row| cell(&headers, row, "#")).collect();
    assert_eq!(numbers[..3], ["#1", "#2", "#3"]);
    let share = |row: &Vec<String>| cell(&headers, row, "of wire").trim_end_matches('%').parse::<f64>().unwrap();
    assert!(rows[..5].windows(2).all(|pair| share(&pair[0]) >= share(&pair[1])));
    let (headers, _) = table_of(&page_of(&fixture::files()), "operations");
    assert!(!headers.iter().any(String::is_empty));
}

/// All outputs agree on an operation.
#[test]
fn table_json_csv_markdown_and_page_have_the_same_figures() {
    for runs in [vec![fixture::redis_live()], vec![fixture::warned()], fixture::databases(true)] {
        let (headers, rows) = table_of(&page_of(&runs), "operations");
        let mut shown = rows.iter();
        for named in &runs {
            let table = text::table(named, &Columns::All, Style::default());
            let markdown = text::markdown(named, &Columns::All);
            let report = report_markdown(std::slice::from_ref(named));
            let record: Run = serde_json::from_str(&text::json(&named.run).unwrap()).unwrap();
            let csv = text::csv(std::slice::from_ref(named));
            for row in workload(&record) {
                let cells = shown.next().unwrap();
                assert_eq!(cell(&headers, cells, "operation"), text::clean(&row.name));
                if text::markdown_cell(&row.name) != row.name {
                    // Each format has different escapes.
                    continue;
                }
                let total = both_sides(row).total();
                let figure = cell(&headers, cells, "total B/op");
                let bound = if crate::bounds::LowerBounds::new(&record).wire { "≥" } else { "" };
                assert_eq!(figure, format!("{bound}{}", decimal(per_operation(total, row.samples()).unwrap())));
                let has = |text: &str| text.lines().any(|line| line.contains(&row.name) && line.contains(figure));
                assert!(has(&table) && has(&markdown) && has(&report), "{figure} of {}", row.name);
                let p99 = cell(&headers, cells, "p99 µs");
                let line = |text: &str| text.lines().any(|line| line.contains(&row.name) && line.contains(p99));
                assert!(line(&table) && line(&markdown) && line(&report), "{p99} of {}", row.name);
                let count = cell(&headers, cells, "count");
                assert!(markdown.lines().any(|line| line.contains(&row.name) && line.contains(count)));
                // An unbalanced ledger has no single total.
                assert!(!record.ledger.balanced || wire_bytes(&csv, &row.name) == total, "{}", row.name);
            }
        }
        assert_eq!(shown.next(), None);
    }
}

/// Returns an operation's bytes in a CSV, summed over both directions.
fn wire_bytes(csv: &str, name: &str) -> u64 {
    let mut lines = csv.lines();
    let headers: Vec<&str> = lines.next().unwrap().split(',').collect();
    let at = |name: &str| headers.iter().position(|header| *header == name).unwrap();
    let cells = lines.map(|line| line.split(',').collect::<Vec<_>>());
    let of = cells.filter(|cells| cells[at("row")] == "operation" && cells[at("operation")] == name);
    of.map(|cells| cells[at("wire_bytes")].parse::<u64>().unwrap()).sum()
}

#[test]
fn system_calls_that_are_rare_are_one_row_that_unfolds_to_all_of_them() {
    let runs = fixture::databases(true);
    let mut with = runs[0].clone();
    let Measured::Value(counters) = &mut with.run.counters else { panic!("no counters") };
    let Measured::Value(server) = &mut counters.server else { panic!("no server") };
    for (name, count, ns) in [("uname", 1, Measured::Value(300)), ("brk", 3, Measured::Value(500))] {
        server.syscalls.insert(name.to_owned(), Syscall { count, errors: 1, ns });
    }
    let page = page_of(&[with, runs[1].clone()]);
    let (headers, rows) = table_of(&page, "calls");
    let others = rows.iter().find(|row| cell(&headers, row, "call").ends_with(" others")).unwrap();
    let id = page.split_once("id=\"calls-0-0-0\"").map(|_| "calls-0-0-0").unwrap();
    let bare = bare(&page);
    let document = roxmltree::Document::parse(&bare).unwrap();
    let table = document.descendants().find(|node| node.attribute("id") == Some(id)).unwrap();
    let inner = table.descendants().filter(|node| node.has_tag_name("tr")).skip(1);
    let inner: Vec<Vec<&str>> = inner.map(|row| row.children().filter_map(|cell| cell.text()).collect()).collect();
    let number = |text: &str| text.replace(',', "").parse::<u64>().unwrap();
    assert!(inner.iter().any(|row| row[0] == "brk" && row[3] == "3" && row[5] == "167"), "{inner:?}");
    assert_eq!(cell(&headers, others, "call"), format!("{} others", inner.len()));
    assert_eq!(number(cell(&headers, others, "calls")), inner.iter().map(|row| number(row[3])).sum::<u64>());
    assert_eq!(number(cell(&headers, others, "errors")), inner.iter().map(|row| number(row[4])).sum::<u64>());
    assert!(rows.iter().all(|row| cell(&headers, row, "call") != "brk"));
}

#[test]
fn bars_of_an_operation_add_up_to_it() {
    for named in [fixture::redis_live(), fixture::warned()] {
        for row in workload(&named.run) {
            for side in detail::row_detail(row, "x".to_owned(), &TableRows::new(&named.run)).sides {
                let shares: f64 = side.parts.iter().map(|part| part.share.parse::<f64>().unwrap()).sum();
                assert!((shares - 100.0).abs() < 0.1 || side.parts.is_empty(), "{shares}");
                let number = |text: &str| text.replace([',', '≥'], "").parse::<f64>().unwrap();
                let parts: f64 = side.parts.iter().map(|part| number(&part.bytes)).sum();
                assert!((parts - number(&side.total)).abs() < 1.0, "{parts} of {}", side.total);
            }
        }
    }
}

#[test]
fn what_comes_from_the_wire_is_text_and_never_markup() {
    let mut named = fixture::warned();
    let hostile = "</script><script>alert(1)</script><b a=\"'&";
    named.name = hostile.to_owned();
    named.run.warnings.push(hostile.to_owned());
    named.run.operations.iter_mut().for_each(|row| row.name = hostile.to_owned());
    let page = page_of(&[named.clone()]);
    assert_eq!(page.matches("<script").count(), 2, "the record and ours");
    assert!(!page.contains("<b a="));
    let (_, rows) = table_of(&page, "operations");
    assert_eq!(rows[0][0], hostile);
    assert_eq!(records_of(&page), [named.run].map(|run| shown_of(&run)));
}

fn records_of(page: &str) -> Vec<Run> {
    let begin = "<script type=\"application/json\"";
    let parts = page.split(begin).skip(1);
    let json = parts.map(|part| part.split_once('>').unwrap().1.split_once("</script>").unwrap().0);
    json.map(|json| serde_json::from_str(json).unwrap()).collect()
}

fn shown_of(run: &Run) -> Run {
    runs::shortened(&NamedRun::new("", run.clone()), Shown::LEVELS[0]).run
}

/// Returns a run of twelve operations with long names, a hundred statements each, and many connections.
fn large() -> NamedRun {
    let mut named = fixture::redis_live();
    let row = named.run.operations.iter().find(|row| row.class == Class::Workload).unwrap().clone();
    let statement = |number: u64| {
        let side = SideSums { accounts: Amounts::new(Account::Data, 100_000 - number), ..SideSums::default() };
        StatementRow {
            text: format!("SELECT {} FROM t{number} WHERE id = ?", "a_column_with_a_long_name, ".repeat(5)),
            totals: RowTotals { count: 1, request: side.clone(), response: side, ..RowTotals::default() },
            ..StatementRow::default()
        }
    };
    named.run.operations = (0..12)
        .map(|number| {
            let mut row = row.clone();
            row.name = format!("FT.AGGREGATE {number} {}", "A SUBCOMMAND THAT GOES ON ".repeat(number / 2));
            row.statements = (0..100).map(statement).collect();
            row
        })
        .collect();
    named
}

#[test]
fn ten_large_runs_make_less_than_a_megabyte_and_sums_stay() {
    let runs: Vec<NamedRun> = (0..10).map(|number| NamedRun { name: format!("run {number}"), ..large() }).collect();
    let page = page_of(&runs);
    assert!(page.len() < PAGE_BYTES, "{}", page.len());
    let records = records_of(&page);
    assert_eq!(records.len(), 10);
    for (record, named) in records.iter().zip(&runs) {
        for (row, whole) in record.operations.iter().zip(&named.run.operations) {
            let sum = |row: &overhead_model::record::OperationRow| -> (u64, u64) {
                let bytes = row.statements.iter().map(|of| of.request.accounts.total() + of.response.accounts.total());
                (row.statements.iter().map(|of| of.count).sum(), bytes.sum())
            };
            assert_eq!(sum(row), sum(whole));
            assert!(row.statements.len() < whole.statements.len() && row.statements.last().unwrap().text == "(other)");
        }
    }
}

/// A page stays small for any wire input, and states its omissions.
#[test]
fn ten_runs_of_many_long_names_make_less_than_a_megabyte() {
    let row = fixture::redis_live().run.operations.iter().find(|row| row.class == Class::Workload).unwrap().clone();
    let rows = |class| {
        let row = row.clone();
        move |number: u64| {
            let mut row = row.clone();
            row.class = class;
            row.name = format!("{number} {}", "é<&\" ".repeat(1_000));
            row.request.accounts += Amounts::new(Account::Data, number);
            row
        }
    };
    let runs: Vec<NamedRun> = (0..10)
        .map(|number| {
            let mut named = fixture::redis_live();
            named.name = format!("run {number}");
            named.run.operations = (0..60).map(rows(Class::Workload)).chain((0..60).map(rows(Class::Setup))).collect();
            if let Some(machine) = &mut named.run.environment {
                machine.command_line = vec!["x".repeat(1_000); 100];
            }
            named
        })
        .collect();
    let page = page_of(&runs);
    assert!(page.len() < PAGE_BYTES, "{}", page.len());
    assert!(records_of(&page).is_empty() && page.contains("The records of these runs are too large for a page"));
    let (headers, rows) = table_of(&page, "operations");
    let shown = |run: &str| rows.iter().filter(|row| cell(&headers, row, "run") == run).count();
    let shown: Vec<usize> = runs.iter().map(|named| shown(&named.name)).collect();
    assert!(shown.iter().all(|count| (5..60).contains(count)), "{shown:?}");
    let left_out = 600 - shown.iter().sum::<usize>();
    let note = format!("{left_out} operations with fewer bytes left out");
    assert!(page.contains(&note), "{note}");
}

#[test]
fn doubts_are_said_on_top_and_what_runs_share_once() {
    let page = page_of(&[fixture::warned()]);
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
    assert!(at("byte counts are lower bounds") < at("class=\"lead\""));
    assert!(!page_of(&[fixture::redis_live()]).contains("Before you believe it"));
    let mut runs = fixture::databases(true);
    for named in &mut runs {
        named.run.warnings = vec!["the clock was set".to_owned()];
    }
    let page = page_of(&runs);
    assert_eq!(bare(&page).matches("<li><b>all runs:</b> the clock was set</li>").count(), 1);
    for named in &mut runs {
        named.run.warnings = vec!["without: `ip <link>`, or `x`".to_owned()];
    }
    let said = "<li><b>all runs:</b> without: <code>ip &lt;link&gt;</code>, or <code>x</code></li>";
    assert_eq!(bare(&page_of(&runs)).matches(said).count(), 1);
}

#[test]
fn findings_beyond_the_first_unfold() {
    let finding = |number: usize| PageFinding {
        title: format!("finding {number}"),
        cost: std::array::from_fn(|_| "-".to_owned()),
        ..PageFinding::default()
    };
    let page = |count| {
        let extras = PageExtras { findings: (0..count).map(finding).collect(), ..PageExtras::default() };
        let runs = [NamedRun::new("redis", fixture::redis())];
        render_runs(&runs, &[], None, "Overhead per operation", &extras).unwrap()
    };
    assert!(!page(FINDINGS_SHOWN).contains("which save less"));
    let many = page(FINDINGS_SHOWN + 2);
    let unfold = many.find("<summary>2 more, which save less</summary>").unwrap();
    let title = |number: usize| many.find(&format!("<h3>finding {number}</h3>")).unwrap();
    assert!(title(FINDINGS_SHOWN - 1) < unfold && unfold < title(FINDINGS_SHOWN));
}
