//! Statements without their literals.

use super::super::wire::opcode;
use super::build::*;
use super::*;

const SELECT: &str = "SELECT a FROM t WHERE b = 550e8400-e29b-41d4-a716-446655440000 AND c = 'hunter2'";
const SELECTS: &str = "SELECT a FROM t WHERE b = ? AND c = ?";

fn statements(transcript: &Transcript) -> Vec<(&str, &str)> {
    transcript.ops.iter().map(|op| (op.name(), op.statement.as_str())).collect()
}

#[test]
fn texts_and_what_was_prepared_are_told_alike() {
    let transcript = decode(&[
        (Request, &query(1, SELECT)),
        (Response, &void(1)),
        (Request, &prepare(1, SELECT)),
        (Response, &prepared(1, b"id", "ks", &[], &[("a", native(INT))])),
        (Request, &execute(1, b"id", 0, &[])),
        (Response, &void(1)),
        (Request, &execute(1, b"other", 0, &[])),
        (Response, &void(1)),
    ]);
    assert_eq!(
        statements(&transcript),
        [
            ("SELECT", SELECTS),
            ("PREPARE", SELECTS),
            ("SELECT", SELECTS),
            ("EXECUTE", "(prepared before the capture: 6f74686572)")
        ]
    );
}

#[test]
fn a_statement_prepared_before_is_told_by_the_columns_of_its_rows() {
    let columns = [("a", native(INT)), ("f(a, 'hunter2')", native(INT))];
    let cells = [value(&[0; 4]), value(&[0; 4])];
    let transcript = decode(&[
        (Request, &[execute(1, b"id", 0, &[]), execute(2, b"id", 0, &[]), execute(3, b"lwt", 0, &[])].concat()),
        (Response, &rows(1, "ks", &columns, &cells)),
        (Response, &rows(2, "ks", &columns, &cells)),
        (Response, &rows(3, "ks", &[("[applied]", native(INT))], &cells[1..])),
        (Request, &execute(1, b"id", 2, &[])),
        (Response, &bare_rows(1, 2, &cells)),
    ]);
    let select = ("SELECT", "(prepared before the capture: 6964, tab.a)");
    let other = ("EXECUTE", "(prepared before the capture: 6c7774)");
    assert_eq!(statements(&transcript), [select, select, other, select]);
}

#[test]
fn a_batch_is_told_by_each_of_its_statements_once() {
    let text = |text: &str| [&[0][..], &long_string(text), &short(0)].concat();
    let known = [&[1][..], &short(2), b"id", &short(0)].concat();
    let unknown = [&[1][..], &short(2), b"no", &short(0)].concat();
    let insert = |secret: &str| text(&format!("INSERT INTO t (a) VALUES ('{secret}')"));
    let inside = [&[0][..], &short(5), &insert("hunter2"), &insert("hunter3"), &known, &known, &unknown, &[0, 1, 0]];
    let transcript = decode(&[
        (Request, &prepare(1, SELECT)),
        (Response, &prepared(1, b"id", "ks", &[], &[("a", native(INT))])),
        (Request, &ask(1, opcode::BATCH, &inside.concat())),
        (Response, &void(1)),
    ]);
    let batch = format!("INSERT INTO t(a) VALUES (…); {SELECTS}; (prepared before the capture: 6e6f)");
    assert_eq!(statements(&transcript), [("PREPARE", SELECTS), ("BATCH", batch.as_str())]);
}
