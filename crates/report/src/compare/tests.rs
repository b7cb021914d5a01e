use super::*;
use crate::Style;
use crate::fixture;
use overhead_model::Run;

fn database(name: &str) -> NamedRun {
    fixture::databases(true).into_iter().find(|run| run.name == name).unwrap()
}

/// Gives the rows of a run fields: one per payload account, which holds all of it.
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
fn what_has_no_partner_is_named_and_not_compared() {
    let mut second = database("postgres");
    second.run.operations.retain(|row| row.name != "SELECT");
    let comparison = compare(&database("postgres"), &second);
    assert_eq!(labels(&comparison.pairs), [["INSERT (prepared)", "INSERT (prepared)"]]);
    assert_eq!(comparison.alone[0].len(), 1);
    assert!(table(&comparison, Style::default()).contains("In postgres alone: SELECT (prepared)."));
}

#[test]
fn accounts_and_fields_each_add_up_to_the_difference() {
    let comparison = compare(&with_fields(database("postgres")), &with_fields(database("cassandra")));
    for pair in &comparison.pairs {
        let accounts: f64 = pair.accounts.iter().map(|account| account.difference).sum();
        assert!((accounts - pair.difference()).abs() < 1e-9);
        for account in pair.accounts.iter().filter(|account| account.account.is_payload()) {
            let fields: f64 = pair.fields_of(account).map(|field| field.difference).sum();
            assert!((fields - account.difference).abs() < 1e-9, "{account:?}");
        }
    }
}

#[test]
fn a_run_against_itself_differs_in_nothing() {
    let run = with_fields(database("cassandra"));
    let comparison = compare(&run, &run);
    assert!(comparison.pairs.iter().all(|pair| pair.causes().count() == 0 && pair.difference() == 0.0));
    assert!(comparison.work.iter().all(|work| work.difference == Some(0.0)));
}

#[test]
fn what_was_not_measured_is_absent_with_its_reason() {
    let run: Run = fixture::redis();
    let comparison = compare(&NamedRun::new("file", run), &database("redis"));
    assert!(comparison.work.iter().all(|work| work.difference.is_none()));
    let text = table(&comparison, Style::default());
    assert!(text.contains("file: work of the server not measured: offline."), "{text}");
    assert!(text.contains("Fields: not recorded"), "{text}");
    let value: serde_json::Value = serde_json::from_str(&json(&comparison).unwrap()).unwrap();
    assert_eq!(value["work"][0]["per_operation"][0]["unavailable"], "offline");
}

#[test]
fn comparison_in_words_and_numbers() {
    let comparison = compare(&with_fields(database("postgres")), &with_fields(database("cassandra")));
    insta::assert_snapshot!(table(&comparison, Style::default()));
    insta::assert_snapshot!(markdown(&comparison));
}

#[test]
fn csv_has_each_figure_and_its_difference() {
    let comparison = compare(&with_fields(database("postgres")), &with_fields(database("cassandra")));
    let text = csv(&comparison);
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
    let (text, table) = (markdown(&comparison), table(&comparison, Style::default()));
    for text in [&text, &table] {
        assert!(
            text.contains("request ≥124.0, response ≥248.0 B/op") && text.contains("differences from it are not exact"),
            "{text}"
        );
        assert!(text.contains("request 124.0, response 182.0 B/op"), "{text}");
    }
    assert!(table.contains("≥66.0"), "{table}");
    let json: serde_json::Value = serde_json::from_str(&json(&comparison).unwrap()).unwrap();
    assert!(json["lower_bounds"][0].as_str().unwrap().contains("2,896 bytes in gaps"));
    assert!(json["lower_bounds"][1].is_null());
    assert!(csv(&comparison).lines().skip(1).all(|line| line.contains(",first,")));
}
