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

fn labels(pairs: &[Pair]) -> Vec<[String; 2]> {
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
