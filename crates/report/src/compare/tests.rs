use super::*;
use crate::Style;
use crate::fixture;
use overhead_model::record::{OperationRow, StatementRow, WorkUnits};
use overhead_model::{Measured, Run};

fn database(name: &str) -> NamedRun {
    fixture::databases(true).into_iter().find(|run| run.name == name).unwrap()
}

fn details() -> ComparisonOptions {
    ComparisonOptions { has_details: true, ..ComparisonOptions::default() }
}

/// Gives a run's rows one field per payload account, which holds all of the account.
fn with_fields(mut run: NamedRun) -> NamedRun {
    for row in &mut run.run.operations {
        let sides = [(Side::Request, row.request.accounts), (Side::Response, row.response.accounts)];
        let fields = sides.into_iter().flat_map(|(side, amounts)| {
            let payload =
                amounts.iter().filter(|(account, bytes)| account.is_payload() && *bytes > 0).collect::<Vec<_>>();
            payload.into_iter().map(move |(account, bytes)| FieldRow {
                side,
                account,
                field: format!("all.{account}"),
                bytes,
            })
        });
        row.fields = Some(fields.collect());
    }
    run
}

fn labels(pairs: &[KindPair]) -> Vec<[String; 2]> {
    pairs.iter().map(|pair| pair.operations.each_ref().map(Subject::label)).collect()
}

#[test]
fn a_get_stands_against_a_select_and_a_set_against_an_insert() {
    let comparison = compare(&database("redis"), &database("mongodb"));
    assert_eq!(labels(&comparison.pairs), [["GET (array)", "find"], ["SET (array)", "insert"]]);
    assert_eq!(comparison.alone, [vec![], vec![]]);
}

#[test]
fn a_get_of_memcached_stands_against_one_of_redis() {
    let mut memcached = database("redis");
    for row in memcached.run.operations.iter_mut().filter(|row| row.class == Class::Workload) {
        (row.protocol, row.name) = ("memcache".to_owned(), row.name.to_lowercase());
        row.via = "text".to_owned();
    }
    let comparison = compare(&database("redis"), &memcached);
    assert_eq!(labels(&comparison.pairs), [["SET (array)", "set (text)"], ["GET (array)", "get (text)"]]);
}

#[test]
fn what_has_no_partner_is_named_and_not_compared() {
    let mut second = database("postgres");
    second.run.operations.retain(|row| row.name != "SELECT");
    let comparison = compare(&database("postgres"), &second);
    assert_eq!(labels(&comparison.pairs), [["INSERT (prepared)", "INSERT (prepared)"]]);
    assert_eq!(comparison.alone[0].len(), 1);
    assert!(
        table(&comparison.clone().into(), &details(), Style::default())
            .contains("In postgres alone: 1,000 × SELECT (prepared).")
    );
}

#[test]
fn accounts_and_fields_each_add_up_to_the_difference() {
    let comparison = compare(&with_fields(database("postgres")), &with_fields(database("cassandra")));
    for pair in &comparison.pairs {
        let accounts: f64 = pair.accounts.iter().map(|account| account.difference).sum();
        assert!((accounts - pair.difference()).abs() < 1e-9);
        for account in pair.accounts.iter().filter(|account| account.account.is_payload()) {
            let fields: f64 = pair
                .fields
                .iter()
                .flatten()
                .filter(|field| (field.side, field.account) == (account.side, account.account))
                .map(|field| field.difference)
                .sum();
            assert!((fields - account.difference).abs() < 1e-9, "{account:?}");
        }
    }
}

#[test]
fn a_run_against_itself_differs_in_nothing() {
    let run = with_fields(database("cassandra"));
    let comparison = compare(&run, &run);
    assert!(
        comparison
            .pairs
            .iter()
            .all(|pair| pair.accounts.iter().all(|account| account.difference == 0.0) && pair.difference() == 0.0)
    );
    assert!(comparison.work.iter().all(|work| work.difference == Some(0.0)));
    let text = table(&comparison.into(), &details(), Style::default());
    assert!(text.contains("each below 1%") && !text.contains("of them"), "{text}");
}

#[test]
fn what_was_not_measured_is_absent_with_its_reason() {
    let run: Run = fixture::redis();
    let comparison = compare(&NamedRun::new("file", run), &database("redis"));
    assert!(comparison.work.iter().all(|work| work.difference.is_none()));
    let text = table(&comparison.clone().into(), &details(), Style::default());
    assert!(text.contains("file: work of the server not measured: offline."), "{text}");
    assert!(text.contains("Fields: not recorded"), "{text}");
    let value: serde_json::Value =
        serde_json::from_str(&json(&Comparisons::from(comparison.clone())).unwrap()).unwrap();
    assert_eq!(value["work"][0]["per_operation"][0]["unavailable"], "offline");
}

#[test]
fn comparison_in_words_and_numbers() {
    let comparison = compare(&with_fields(database("postgres")), &with_fields(database("cassandra")));
    insta::assert_snapshot!(table(&comparison.clone().into(), &details(), Style::default()));
    insta::assert_snapshot!(markdown(&comparison.clone().into(), &details()));
}

#[test]
fn csv_has_each_figure_and_its_difference() {
    let comparison = compare(&with_fields(database("postgres")), &with_fields(database("cassandra")));
    let text = csv(&comparison.clone().into());
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let rows: Vec<BTreeMap<&str, &str>> =
        lines.map(|line| header.iter().copied().zip(line.split(',')).collect()).collect();
    for pair in &comparison.pairs {
        let name = pair.operations[0].name.as_str();
        let accounts = rows.iter().filter(|row| row["row"] == "account" && row["first_operation"] == name);
        let sum: f64 = accounts.map(|row| row["difference"].parse::<f64>().unwrap()).sum();
        assert!((sum - pair.difference()).abs() < 1e-9, "{name}: {sum}");
        let wire = rows.iter().filter(|row| row["figure"] == "wire_bytes" && row["first_operation"] == name);
        let sum: f64 = wire.map(|row| row["difference"].parse::<f64>().unwrap()).sum();
        assert!((sum - pair.difference()).abs() < 1e-9, "{name}: {sum}");
    }
    assert!(rows.iter().any(|row| row["row"] == "work" && row["figure"] == "of them recvfrom"));
    assert!(rows.iter().any(|row| row["row"] == "field" && row["figure"] == "all.schema"));
}

#[test]
fn a_lossy_run_has_lower_bounds_in_every_form() {
    let comparison = compare(&fixture::warned(), &database("redis"));
    let (text, table) = (
        markdown(&comparison.clone().into(), &details()),
        table(&comparison.clone().into(), &details(), Style::default()),
    );
    for text in [&text, &table] {
        assert!(
            text.contains("request ≥124.0, response ≥248.0 B/op") && text.contains("differences from it are not exact"),
            "{text}"
        );
        assert!(text.contains("request 124.0, response 182.0 B/op"), "{text}");
    }
    assert!(table.contains("≥66.0"), "{table}");
    let json: serde_json::Value = serde_json::from_str(&json(&Comparisons::from(comparison.clone())).unwrap()).unwrap();
    assert!(json["lower_bounds"][0].as_str().unwrap().contains("2,896 bytes in gaps"));
    assert!(json["lower_bounds"][1].is_null());
    assert!(csv(&comparison.clone().into()).lines().skip(1).all(|line| line.contains(",first,")));
}

/// Returns a run with one operation name and these counts by way of sending.
fn ways(name: &str, ways: &[(&str, u64)]) -> NamedRun {
    let mut named = database("postgres");
    named.name = name.to_owned();
    let select = named.run.operations.iter().find(|row| row.name == "SELECT").unwrap().clone();
    named.run.operations.retain(|row| row.class != Class::Workload);
    named.run.operations.extend(ways.iter().map(|(via, count)| OperationRow {
        via: (*via).to_owned(),
        count: *count,
        ..select.clone()
    }));
    named
}

#[test]
fn simple_stands_against_prepared_and_not_against_a_few_simple_ones() {
    let (simple, prepared) =
        (ways("simple", &[("simple", 4_002)]), ways("prepared", &[("simple", 2), ("prepared", 4_000)]));
    let comparison = compare(&simple, &prepared);
    assert_eq!(labels(&comparison.pairs), [["SELECT (simple)", "SELECT (prepared)"]]);
    assert_eq!(comparison.alone[1].iter().map(Subject::label).collect::<Vec<_>>(), ["SELECT (simple)"]);
    let comparison = compare(&prepared, &simple);
    assert_eq!(labels(&comparison.pairs), [["SELECT (prepared)", "SELECT (simple)"]]);
    let both = ways("both", &[("simple", 3), ("prepared", 4_000)]);
    assert_eq!(
        labels(&compare(&prepared, &both).pairs),
        [["SELECT (prepared)", "SELECT (prepared)"], ["SELECT (simple)", "SELECT (simple)"]]
    );
}

/// Returns a run of SELECTs sent in one way, with the count and `data` size of each statement.
fn statements(name: &str, via: &str, statements: &[(&str, u64, u64)]) -> NamedRun {
    let mut named = ways(name, &[(via, statements.iter().map(|statement| statement.1).sum())]);
    let row = named.run.operations.last_mut().unwrap();
    row.statements = statements
        .iter()
        .map(|(text, count, data)| {
            let mut statement = StatementRow { text: (*text).to_owned(), ..StatementRow::default() };
            statement.count = *count;
            statement.response.accounts[Account::Data] = data * count;
            statement.response.wire_bytes = data * count;
            statement
        })
        .collect();
    named
}

#[test]
fn statements_stand_against_their_like_whatever_their_placeholders_look_like() {
    let simple = statements(
        "simple",
        "simple",
        &[("SELECT a FROM t WHERE id = ?", 4_000, 100), ("SELECT count(*) FROM t", 2, 9), ("SELECT x", 100, 1)],
    );
    let prepared = statements(
        "prepared",
        "prepared",
        &[("SELECT a FROM t WHERE id = $1", 4_000, 90), ("SELECT count(*) FROM t", 2, 5_000), ("SELECT y", 100, 1)],
    );
    let comparison = compare(&simple, &prepared);
    let texts: Vec<_> = comparison.pairs.iter().map(|pair| pair.operations[1].statement.as_deref().unwrap()).collect();
    assert_eq!(texts, ["SELECT a FROM t WHERE id = $1", "SELECT count(*) FROM t"]);
    assert_eq!(comparison.pairs[0].sentence, "response 10 B smaller (−10.0%): data −10; request alike");
    let alone = comparison.alone.each_ref().map(|subjects| subjects[0].statement.as_deref());
    assert_eq!(alone, [Some("SELECT x"), Some("SELECT y")]);
    let text = table(&comparison.into(), &details(), Style::default());
    assert!(text.contains("SELECT a FROM t WHERE id = ? (simple and prepared)"), "{text}");
    let [first, second] = [simple, prepared].map(RunGroup::single);
    assert_eq!(compare_groups(&first, &second, By::Name).pairs.len(), 1);
}

#[test]
fn a_rare_operation_does_not_lead_however_much_it_differs() {
    let mut second = database("postgres");
    for row in &mut second.run.operations {
        let (more, count) = if row.name == "INSERT" { (10_000_000, 3) } else { (3_000, row.count) };
        row.response.accounts[Account::Schema] += more;
        row.count = count;
    }
    let mut first = database("postgres");
    first.run.operations.iter_mut().filter(|row| row.name == "INSERT").for_each(|row| row.count = 3);
    let pairs = compare(&first, &second).pairs;
    assert_eq!(labels(&pairs)[0][0], "SELECT (prepared)");
    assert!(pairs[1].effect_bytes > pairs[0].effect_bytes);
}

#[test]
fn what_is_not_workload_stands_beside_it() {
    let run = database("postgres");
    let comparison = compare(&run, &run);
    assert!(comparison.pairs.iter().all(|pair| pair.class() == Class::Workload));
    assert_eq!(labels(&comparison.beside), [["CONNECT", "CONNECT"]]);
}

#[test]
fn a_sentence_says_how_much_and_of_what() {
    let mut second = with_fields(database("postgres"));
    for row in &mut second.run.operations {
        row.response.accounts[Account::Schema] += 33 * row.count;
        row.response.accounts[Account::Framing] += 10 * row.count;
        let field = |account, name: &str, each: u64| FieldRow {
            side: Side::Response,
            account,
            field: format!("row description.column.{name}"),
            bytes: each * row.count,
        };
        let more = [
            field(Account::Schema, "name", 20),
            field(Account::Schema, "type", 13),
            field(Account::Framing, "end", 10),
        ];
        row.fields.as_mut().unwrap().extend(more);
    }
    let comparison = compare(&second, &with_fields(database("postgres")));
    assert_eq!(
        comparison.pairs[0].sentence,
        "response 43 B smaller (−12.5%): schema −33, framing −10 (row description.column); request alike"
    );
    let same = compare(&database("postgres"), &database("postgres"));
    assert!(same.pairs[0].sentence.starts_with("alike on the wire: request "), "{}", same.pairs[0].sentence);
}

#[test]
fn each_further_run_stands_against_the_first() {
    let groups = ["postgres", "cassandra", "mongodb"].map(|name| RunGroup::single(database(name)));
    let comparisons = compare_all(&groups, By::Statement).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json(&comparisons).unwrap()).unwrap();
    assert_eq!(json["runs"], serde_json::json!(["postgres", "cassandra"]));
    assert_eq!(json["further"][0]["runs"], serde_json::json!(["postgres", "mongodb"]));
    assert!(compare_all(&groups[..1], By::Statement).is_none());
    let two = super::json(&Comparisons::from(compare(&database("postgres"), &database("redis")))).unwrap();
    assert!(!two.contains("further"));
}

/// Returns database runs with these numbers of server system calls.
fn repeated(name: &str, calls: &[u64]) -> RunGroup {
    let run = |calls: &u64| {
        let mut named = database(name);
        let Measured::Value(counters) = &mut named.run.counters else { panic!("no counters") };
        let Measured::Value(server) = &mut counters.server else { panic!("no server") };
        server.syscalls.values_mut().next().unwrap().count = *calls;
        named
    };
    RunGroup { name: name.to_owned(), runs: calls.iter().map(run).collect() }
}

#[test]
fn runs_that_are_repeated_show_a_difference_or_none() {
    let (few, many) = (repeated("postgres", &[2_000, 2_010, 1_990]), repeated("postgres", &[4_000, 4_020, 3_980]));
    let comparison = compare_groups(&few, &many, By::Statement);
    let calls = &comparison.work[0];
    let interval = calls.repeated.as_ref().unwrap();
    assert!(interval.shown && interval.interval[0] < 1.0 && interval.interval[1] > 1.0, "{interval:?}");
    let text = table(&comparison.clone().into(), &details(), Style::default());
    assert!(text.contains("95% interval") && text.contains("no difference shown"), "{text}");
    assert!(!text.contains("account"), "{text}");
    let apart = compare_groups(&few, &repeated("cassandra", &[2_000, 2_010]), By::Statement);
    assert!(table(&apart.into(), &details(), Style::default()).contains("B/op in each run"));
    let once = compare(&few.runs[0], &many.runs[0]);
    assert!(once.work[0].repeated.is_none());
    assert!(!table(&once.into(), &details(), Style::default()).contains("95% interval"));
    assert_eq!(comparison.pairs[0].operations[0].count, 3_000);
}

#[test]
fn a_run_without_a_link_is_compared_by_payload() {
    let tcp = database("redis");
    let mut unix = tcp.clone();
    unix.name = "unix".to_owned();
    unix.run.transport = overhead_model::Transport::Unix;
    for row in &mut unix.run.operations {
        for side in [&mut row.request, &mut row.response] {
            for account in Account::ALL.into_iter().filter(|account| !account.is_payload()) {
                side.accounts[account] = 0;
            }
            side.wire_bytes = side.payload_bytes;
        }
    }
    let comparison = compare(&tcp, &unix);
    assert!(!comparison.pairs.is_empty());
    for pair in &comparison.pairs {
        assert!(pair.accounts.iter().all(|account| account.bytes[0].total_cmp(&account.bytes[1]).is_eq()), "{pair:?}");
    }
    assert_eq!(comparison.remarks[0], "unix has no link (unix): both are compared by payload, frames aside.");
    assert!(compare(&tcp, &tcp).remarks.iter().all(|remark| !remark.contains("no link")));
}

/// Returns a run in which each SELECT is prepared anew.
fn with_preparation(mut named: NamedRun) -> NamedRun {
    let run = &mut named.run;
    let mut prepare = run.operations.iter().find(|row| row.name == "SELECT").unwrap().clone();
    (prepare.class, prepare.name) = (Class::Setup, "PREPARE".to_owned());
    run.operations.push(prepare);
    run.whole = Whole::new(&run.operations, &run.tcp);
    named
}

#[test]
fn preparation_counts_though_the_operations_are_alike() {
    let (first, second) = (database("postgres"), with_preparation(database("postgres")));
    let comparison = compare(&first, &second);
    let text = table(&comparison.clone().into(), &ComparisonOptions::default(), Style::default());
    let answer = text.lines().nth(2).unwrap();
    assert!(answer.starts_with("Whole cost: postgres") && answer.contains('+'), "{text}");
    assert!(text.contains("setup: PREPARE") && text.lines().count() <= 40, "{text}");
    assert_eq!(comparison.changes[0].operations[0], None);
    let [mine, theirs] = [&first, &second].map(|named| named.run.whole.wire_bytes);
    assert_eq!(comparison.changes.iter().map(|change| change.bytes[1]).sum::<u64>(), theirs);
    assert_eq!(comparison.changes.iter().map(|change| change.bytes[0]).sum::<u64>(), mine);
}

#[test]
fn work_divides_both_sides() {
    let units = |mut named: NamedRun, units: f64| {
        named.run.whole.work = Some(WorkUnits { units, name: "page".to_owned() });
        named
    };
    let comparison = compare(&units(database("postgres"), 400.0), &units(database("postgres"), 200.0));
    let text = table(&comparison.into(), &ComparisonOptions::default(), Style::default());
    assert!(text.contains("B/page (+100.0%)"), "{text}");
}
