//! Statements without their values.

use super::*;

/// Returns the statements of the operations after the login.
fn statements(talk: &[(Side, &[u8])]) -> Vec<(String, String)> {
    let said = said(USUAL, talk).ops.split_off(1);
    said.into_iter().map(|op| (op.name().to_owned(), op.statement)).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, statement)| ((*name).to_owned(), (*statement).to_owned())).collect()
}

#[test]
fn a_text_is_told_without_its_literals() {
    let answer = packet(1, &ok(0, 0, 2));
    let talk: [(Side, &[u8]); 4] = [
        (C, &query("select a from t where b = \"hunter2\" /* hunter2 */ and c in (1,2,3)")),
        (S, &answer),
        (C, &query("SET PASSWORD = 'hunter2'; SELECT 'hunter2")),
        (S, &answer),
    ];
    assert_eq!(
        statements(&talk),
        pairs(&[("SELECT", "SELECT a FROM t WHERE b = ? AND c IN (…)"), ("SET", "SET (not parsed)")])
    );
}

#[test]
fn an_execution_is_told_by_what_was_prepared() {
    let long = [&b"\x18\x01\0\0\0"[..], &[0, 0], b"hunter2"].concat();
    let talk: [(Side, &[u8]); 9] = [
        (C, &prepare("UPDATE t SET a = ? WHERE b = 5")),
        (S, &packets(1, &[prepared(1, 0, 1), column(253), eof(2)])),
        (C, &packet(0, &long)),
        (C, &execute(1, 0, &[0, 1, 253, 0])),
        (S, &packet(1, &ok(1, 0, 2))),
        (C, &packet(0, &[25, 1, 0, 0, 0])),
        (C, &execute(1, 0, &[])),
        (S, &packet(1, &err())),
        (C, &packet(0, &[1])),
    ];
    let update = "UPDATE t SET a = ? WHERE b = ?";
    assert_eq!(
        statements(&talk),
        pairs(&[
            ("PREPARE", update),
            ("LONG DATA", update),
            ("UPDATE", update),
            ("CLOSE", update),
            ("EXECUTE", "(prepared before the capture: 1)"),
            ("TERMINATE", ""),
        ])
    );
}
