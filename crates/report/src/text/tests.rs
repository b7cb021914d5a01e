//! Snapshots of every text, for runs with and without counters.

use super::*;
use crate::fixture;
use crate::run::NamedRun;

const PLAIN: Style = Style { color: false, width: None };

fn offline() -> NamedRun {
    NamedRun::new("redis-rust-read", fixture::redis())
}

#[test]
fn table_of_a_live_run() {
    insta::assert_snapshot!(table(&fixture::redis_live(), PLAIN));
}

#[test]
fn table_of_a_file() {
    insta::assert_snapshot!(table(&offline(), PLAIN));
}

#[test]
fn table_in_reference_cycles() {
    insta::assert_snapshot!(table(&fixture::databases(true).remove(1), PLAIN));
}

#[test]
fn table_with_every_doubt() {
    insta::assert_snapshot!(table(&fixture::doubtful(), PLAIN));
}

#[test]
fn table_on_a_narrow_terminal() {
    let text = table(&fixture::redis_live(), Style { color: false, width: Some(80) });
    insta::assert_snapshot!(text);
}

#[test]
fn blocks_of_a_table_fit_the_terminal() {
    let text = table(&fixture::redis_live(), Style { color: false, width: Some(80) });
    let tables = text.lines().filter(|line| line.contains("  ") && !line.starts_with(char::is_uppercase));
    assert!(tables.clone().count() > 10);
    assert!(tables.clone().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn colour_is_only_ever_asked_for() {
    assert!(!table(&fixture::doubtful(), PLAIN).contains('\x1b'));
    let colourful = table(&fixture::doubtful(), Style { color: true, width: None });
    assert!(colourful.contains("\x1b[1;31mNOT BALANCED"), "{colourful}");
    assert!(!colourful.contains("EVAL|<b>\x1b"), "a name of the wire steers the terminal");
}

#[test]
fn markdown_of_runs() {
    insta::assert_snapshot!("markdown_of_a_live_run", markdown(&fixture::redis_live()));
    insta::assert_snapshot!("markdown_with_every_doubt", markdown(&fixture::doubtful()));
}

#[test]
fn report_of_several_runs() {
    let runs = vec![fixture::redis_live(), fixture::doubtful(), offline()];
    insta::assert_snapshot!(crate::report_markdown(&runs));
}

#[test]
fn csv_of_a_run() {
    insta::assert_snapshot!(csv(&[offline()]));
}

#[test]
fn csv_quotes_what_would_break_a_cell_and_sums_to_the_wire() {
    let mut named = fixture::redis_live();
    named.name = "a \"quoted\", name".to_owned();
    let text = csv(std::slice::from_ref(&named));
    assert!(text.lines().nth(1).unwrap().starts_with(r#""a ""quoted"", name",resp,"#));
    let bytes = text.lines().skip(1).map(|line| line.rsplit(',').nth(1).unwrap().parse::<u64>().unwrap());
    assert_eq!(bytes.sum::<u64>(), named.run.source.wire_bytes);
}

#[test]
fn json_is_the_record() {
    let run = fixture::redis_live().run;
    let text = json(&run).unwrap();
    assert!(text.ends_with("}\n"));
    assert_eq!(serde_json::from_str::<Run>(&text).unwrap(), run);
}
