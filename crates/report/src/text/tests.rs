//! Snapshots of every text, for runs with and without counters.

use super::*;
use crate::Style;
use crate::fixture;
use crate::run::NamedRun;
use overhead_model::record::{Counters, ProtocolCounters, Role, StatementRow};
use overhead_model::{Account, Measured, Run};

const PLAIN: Style = Style { color: false, width: None, prose: None, legend: true };
const NARROW: Style = Style { color: false, width: Some(80), prose: Some(80), legend: true };

fn whole(named: &NamedRun) -> String {
    table(named, &Columns::All, PLAIN)
}

fn offline() -> NamedRun {
    NamedRun::new("redis-rust-read", fixture::redis())
}

#[test]
fn table_of_a_live_run() {
    insta::assert_snapshot!(whole(&fixture::redis_live()));
}

#[test]
fn table_of_a_file() {
    insta::assert_snapshot!(whole(&offline()));
}

#[test]
fn table_in_reference_cycles() {
    insta::assert_snapshot!(whole(&fixture::databases(true).remove(1)));
}

#[test]
fn table_with_every_warning() {
    insta::assert_snapshot!(whole(&fixture::warned()));
}

/// Returns a run whose server counters do not belong to its operations.
fn withheld() -> NamedRun {
    let mut named = fixture::redis_live();
    if let Measured::Value(Counters { server: Measured::Value(server), .. }) = &mut named.run.counters {
        server.coverage = Measured::Value(0.15);
        server.withheld = Some("the capture saw 15.0% of the 20000 bytes".to_owned());
    }
    named
}

/// Returns a run that counted without packets.
fn without_packets() -> NamedRun {
    let mut named = fixture::redis_live();
    named.run.operations.clear();
    named.run.source.frames = 0;
    named.run.environment = None;
    named
}

/// Returns a run with connections of two protocols.
fn of_two_protocols() -> NamedRun {
    let mut named = fixture::redis_live();
    if let Measured::Value(counters) = &mut named.run.counters {
        let reason = "the captured connections are of resp and pgwire: the counters of each are given apart";
        let protocol = |protocol: &str, server: &Measured<Role>| ProtocolCounters {
            protocol: protocol.to_owned(),
            server: server.clone(),
            client: Measured::unavailable("the same processes have connections of both"),
        };
        counters.protocols = vec![protocol("resp", &counters.server), protocol("pgwire", &counters.server)];
        if let Measured::Value(server) = &mut counters.server {
            server.withheld = Some(reason.to_owned());
        }
    }
    named
}

#[test]
fn counters_that_do_not_belong_to_the_operations_are_shown_as_counted_and_nowhere_per_operation() {
    let named = withheld();
    let text = whole(&named);
    assert!(text.contains("server: withheld: the capture saw 15.0%"), "{text}");
    assert!(!text.contains("server syscalls/op") && text.contains("client syscalls/op"), "{text}");
    let counted = text.split("As counted in the window").nth(1).unwrap();
    assert!(counted.contains("6,012"), "3.006 calls for each of 2,000 operations: {text}");
    let page = markdown(&named, &Columns::All);
    assert!(
        page.contains("- server: withheld: the capture saw 15.0%") && page.contains("| server | 6,012 |"),
        "{page}"
    );
    assert!(csv(std::slice::from_ref(&named)).contains("the capture saw 15.0%"));
}

#[test]
fn a_run_without_packets_shows_what_it_counted_and_no_table_of_dashes() {
    let named = without_packets();
    for text in [table(&named, &Columns::Fitting, NARROW), markdown(&named, &Columns::All)] {
        // The server made 6,012 calls in 1.25 s.
        for figure in ["6,012", "4,809.6", "recvfrom", "2,000", "1,600.0"] {
            assert!(text.contains(figure), "{figure}: {text}");
        }
        assert!(!text.contains("/op") && !text.contains("posted"), "{text}");
    }
}

#[test]
fn two_protocols_have_counters_of_their_own() {
    let text = whole(&of_two_protocols());
    assert!(text.contains("server (resp) syscalls/op: epoll_wait 1.00"), "{text}");
    // No operation in the fixture has this protocol.
    assert!(text.contains("server (pgwire) syscalls/op: -"), "{text}");
    assert!(text.contains("client (resp): not measured: the same processes"), "{text}");
    assert!(!text.contains("server syscalls/op"), "{text}");
}

#[test]
fn table_on_a_narrow_terminal() {
    insta::assert_snapshot!(table(&fixture::redis_live(), &Columns::Fitting, NARROW));
}

#[test]
fn table_with_every_warning_on_a_narrow_terminal() {
    insta::assert_snapshot!(table(&fixture::warned(), &Columns::Fitting, NARROW));
}

/// Returns a live run with statements of two ways of sending, as a table shows it.
fn with_statements(by_way: bool) -> NamedRun {
    let mut named = fixture::redis_live();
    let totals = named.run.operations.iter().find(|row| row.name == "GET").unwrap().totals();
    let statement =
        |text: &str| StatementRow { text: text.to_owned(), totals: totals.clone(), ..StatementRow::default() };
    named.run.operations.iter_mut().for_each(|row| "pgwire".clone_into(&mut row.protocol));
    let row = named.run.operations.iter_mut().find(|row| row.name == "GET").unwrap();
    "SELECT".clone_into(&mut row.name);
    let texts = ["SELECT a, b FROM customer WHERE id = ?", "SELECT count(*) FROM \"order\"", "(other)"];
    row.statements = texts.map(statement).into();
    let mut other = row.clone();
    "simple".clone_into(&mut other.via);
    other.statements.truncate(1);
    named.run.operations.push(other);
    let by = overhead_model::record::By::Statement;
    let options = crate::ViewOptions { by, is_compact: true, by_way, ..crate::ViewOptions::default() };
    named.run.view = Some(crate::view(&named.run, &options));
    named
}

#[test]
fn the_first_screen_is_a_line_for_each_statement() {
    let text = table(&with_statements(false), &Columns::Fitting, Style { legend: false, ..NARROW });
    assert!(text.lines().count() < 25 && longest(&text) <= 80, "{text}");
    let line = |number: &str| text.lines().find(|line| line.starts_with(number)).unwrap_or_else(|| panic!("{text}"));
    assert!(line("#1").contains("SELECT customer") && line("#1").contains("2,000"), "{text}");
    assert!(text.contains("SELECT \"order\"") && text.contains("SELECT (other)"), "{text}");
    assert!(text.contains("    setup  ") && text.contains("100.0%") && !text.contains("CONNECT"), "{text}");
    let split = table(&with_statements(true), &Columns::Fitting, NARROW);
    assert_eq!(split.lines().filter(|line| line.starts_with("#1 ")).count(), 2, "{split}");
    insta::assert_snapshot!(text);
}

#[test]
fn statements_with_the_same_short_name_have_their_texts_below() {
    let mut named = with_statements(false);
    let first_screen = |named: &NamedRun| table(named, &Columns::Fitting, Style { legend: false, ..NARROW });
    assert!(!first_screen(&named).contains("#1: "));
    let texts = named.run.view.as_mut().unwrap().rows.iter_mut().filter_map(|row| row.statement.as_mut());
    texts.filter(|text| text.contains("order")).for_each(|text| "SELECT 1 FROM customer".clone_into(text));
    let text = first_screen(&named);
    assert!(text.contains("\n#1: SELECT a, b FROM customer WHERE id = ?\n"), "{text}");
    assert!(text.contains(": SELECT 1 FROM customer\n"), "{text}");
}

/// Returns the longest line's length, ignoring the command and run name, which users copy.
fn longest(text: &str) -> usize {
    let lines = text.lines().skip(1).filter(|line| !line.starts_with("command: "));
    lines.map(|line| line.chars().count()).max().unwrap()
}

#[test]
fn a_table_fits_the_terminal_and_grows_with_it() {
    let runs = [fixture::redis_live(), fixture::warned(), fixture::databases(true).remove(1), offline()];
    for named in runs {
        let text = |width| table(&named, &Columns::Fitting, Style { width: Some(width), prose: Some(width), ..PLAIN });
        let mut before = 0;
        for width in [80, 100, 120, 300] {
            let text = text(width);
            assert!(longest(&text) <= width, "{width}:\n{text}");
            let (header, _) = text.split_once('─').unwrap();
            let columns = header.lines().last().unwrap().split_whitespace().count();
            assert!(columns >= before, "{width}:\n{text}");
            before = columns;
        }
        assert!(!text(300).contains("not shown:"), "{}", text(300));
        let (_, narrow) = text(80).split_once("\nOperations\n").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        assert!(narrow.contains("not shown: ") && narrow.contains("p50"), "{narrow}");
    }
}

#[test]
fn columns_are_those_that_were_listed() {
    let listed = ["total", "operation", "tls", "p999"].map(|name| OperationColumn::named(name).unwrap());
    let text = table(&fixture::redis_live(), &Columns::Listed(listed.to_vec()), NARROW);
    let (header, rest) = text.split_once('─').unwrap();
    let names: Vec<&str> = header.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(names, ["B/op", "operation", "B/op", "µs"], "{text}");
    assert!(rest.contains("311.0  SET") && !rest.contains("not shown:"), "{text}");
    let markdown = markdown(&fixture::redis_live(), &Columns::Listed(listed.to_vec()));
    assert!(markdown.contains("| total B/op | operation | tls B/op | p999 µs |"), "{markdown}");
}

#[test]
fn a_legend_says_what_the_columns_mean_and_only_those() {
    let text = table(&fixture::redis_live(), &Columns::Fitting, NARROW).replace("\n  ", " ");
    for wanted in [
        "headers: link, IP and TCP headers, acknowledgments",
        "latency: from the frame with the first byte of the request to the frame with the last byte of the response, at the \
         capture point, not the client's",
    ] {
        assert!(text.contains(wanted), "{text}");
    }
    assert!(!text.contains("frame: link, IP"), "{text}");
    assert!(whole(&fixture::redis_live()).contains("frame: link, IP and TCP headers"));
}

#[test]
fn lower_bounds_are_marked_wherever_bytes_are_shown() {
    let lossy = fixture::warned();
    let tables = [whole(&lossy), table(&lossy, &Columns::Fitting, NARROW), markdown(&lossy, &Columns::All)];
    for text in tables {
        assert!(
            text.contains("≥1,898.0") && text.contains("≥: byte counts are lower bounds: 2,896 bytes in gaps"),
            "{text}"
        );
        assert!(!text.contains(" 1,898.0"), "{text}");
    }
    let report = crate::report_markdown(&[lossy]);
    assert!(report.contains("≥1,898.0") && !report.contains(" 1,898.0"), "{report}");
    assert!(!whole(&fixture::redis_live()).contains('≥'));
}

#[test]
fn colour_is_only_ever_asked_for() {
    assert!(!whole(&fixture::warned()).contains('\x1b'));
    let colourful = table(&fixture::warned(), &Columns::All, Style { color: true, ..PLAIN });
    assert!(colourful.contains("\x1b[1;31mwarning: 12 frames were snapped"), "{colourful}");
    assert!(!colourful.contains("EVAL|<b>\x1b"), "a name of the wire steers the terminal");
}

#[test]
fn markdown_of_runs() {
    insta::assert_snapshot!("markdown_of_a_live_run", markdown(&fixture::redis_live(), &Columns::All));
    insta::assert_snapshot!("markdown_with_every_warning", markdown(&fixture::warned(), &Columns::All));
}

#[test]
fn report_of_several_runs() {
    let runs = vec![fixture::redis_live(), fixture::warned(), offline()];
    insta::assert_snapshot!(crate::report_markdown(&runs));
}

#[test]
fn csv_of_a_run() {
    insta::assert_snapshot!(csv(&[fixture::redis_live()]));
}

/// Returns the rows of a table by column name. Cells of the fixtures have no line breaks.
fn rows(text: &str) -> Vec<std::collections::BTreeMap<&str, &str>> {
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    lines.map(|line| header.iter().copied().zip(line.split(',')).collect()).collect()
}

#[test]
fn csv_has_a_row_for_each_operation_and_side_and_adds_up_to_the_wire() {
    let named = fixture::redis_live();
    let text = csv(std::slice::from_ref(&named));
    let rows = rows(&text);
    let of = |kind: &str| rows.iter().filter(|row| row["row"] == kind).collect::<Vec<_>>();
    assert_eq!(of("operation").len(), 2 * named.run.operations.len());
    let bytes: u64 = rows.iter().filter_map(|row| row["wire_bytes"].parse::<u64>().ok()).sum();
    assert_eq!(bytes, named.run.source.wire_bytes);
    for (row, operation) in of("operation").chunks(2).zip(&named.run.operations) {
        let accounts = |row: &std::collections::BTreeMap<&str, &str>| {
            Account::ALL.into_iter().map(|account| row[account.name()].parse::<u64>().unwrap()).sum::<u64>()
        };
        assert_eq!(accounts(row[0]), operation.request.accounts.total());
        assert_eq!(row[1]["wire_p999"], operation.response.wire_bytes.p999.to_string());
        assert_eq!(row[0]["frames"], operation.request.frames.to_string());
        assert_eq!(row[0]["latency_p9999_ns"], operation.latency_ns.or_empty().p9999.to_string());
    }
    let server = named.run.counters.value().unwrap().server.value().unwrap().clone();
    let calls: u64 = of("syscall")
        .iter()
        .filter(|row| row["side"] == "server")
        .map(|row| row["syscalls"].parse::<u64>().unwrap())
        .sum();
    assert_eq!(calls, server.syscalls.values().map(|call| call.count).sum::<u64>());
    assert_eq!(of("counters")[0]["socket_send_bytes"], server.socket.value().unwrap().send_bytes.to_string());
}

#[test]
fn csv_says_what_is_absent_and_what_is_a_lower_bound() {
    let text = csv(&[fixture::warned()]);
    assert!(text.contains("counters: not on this host (10.0.0.7)"), "{text}");
    let rows = rows(&text);
    assert!(rows.iter().any(|row| row["row"] == "operation" && row["wire_lower_bound"] == "true"));
    assert!(csv(&[offline()]).contains("kernel_drops: offline"));
}

/// The table must include every quantity of the record.
#[test]
fn csv_has_a_column_for_each_quantity_of_the_record() {
    let named = fixture::redis_live();
    let text = csv(std::slice::from_ref(&named));
    let columns: Vec<&str> = text.lines().next().unwrap().split(',').collect();
    let record = serde_json::to_value(&named.run).unwrap();
    let role = &record["counters"]["server"];
    for part in
        [&record["source"], &record["tcp"], &record["observer"], &record["operations"][0], role, &role["socket"]]
    {
        for (name, _) in part.as_object().unwrap().iter().filter(|(_, value)| value.is_number()) {
            assert!(columns.iter().any(|column| column.ends_with(name.as_str())), "{name} has no column");
        }
    }
}

#[test]
fn no_cell_of_a_csv_is_a_formula() {
    let mut named = fixture::redis_live();
    named.name = "=HYPERLINK(\"http://x\",\"a\")".to_owned();
    named.run.operations[0].name = "@SUM(A1)".to_owned();
    let text = csv(std::slice::from_ref(&named));
    assert!(text.lines().skip(1).all(|line| line.starts_with("\"'=HYPERLINK(\"\"http://x\"\",")), "{text}");
    assert!(text.contains(",'@SUM(A1),") && !text.contains(",@SUM"), "{text}");
}

#[test]
fn json_is_the_record() {
    let run = fixture::redis_live().run;
    let text = json(&run).unwrap();
    assert!(text.ends_with("}\n"));
    assert_eq!(serde_json::from_str::<Run>(&text).unwrap(), run);
}

fn viewed() -> NamedRun {
    let mut named = of_two_protocols();
    let price = crate::view::price("0.02/GB").unwrap();
    let options = crate::ViewOptions { top: Some(1), price: Some(price), ..crate::ViewOptions::default() };
    named.run.view = Some(crate::view(&named.run, &options));
    named
}

#[test]
fn table_of_the_largest_rows_with_a_price_on_a_narrow_terminal() {
    insta::assert_snapshot!(table(&viewed(), &Columns::Fitting, NARROW));
}

#[test]
fn markdown_of_the_largest_rows_with_a_price() {
    insta::assert_snapshot!(markdown(&viewed(), &Columns::Fitting));
}

#[test]
fn csv_of_the_largest_rows_adds_up_too() {
    let whole = of_two_protocols();
    let of = |named: &NamedRun| {
        let text = csv(std::slice::from_ref(named));
        let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
        let header = lines.next().unwrap();
        let at = |column: &str| header.iter().position(|name| name == column).unwrap();
        let (row, wire) = (at("row"), at("wire_bytes"));
        let rows = lines.filter(|cells| cells[row] == "operation");
        rows.filter_map(|cells| cells[wire].parse::<u64>().ok()).fold((0, 0), |sum, bytes| (sum.0 + 1, sum.1 + bytes))
    };
    let ((rows, bytes), (all, sum)) = (of(&viewed()), of(&whole));
    assert_eq!((rows, bytes), (4, sum));
    assert!(all > rows);
}
