//! Statements without their literals.

use super::*;

/// Names and statements of operations after start-up.
fn statements(turns: &[(Side, Vec<Vec<u8>>)]) -> Vec<(String, String)> {
    let said = transcript(turns).ops.split_off(1);
    said.into_iter().map(|op| (op.name().to_owned(), op.statement)).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, statement)| ((*name).to_owned(), (*statement).to_owned())).collect()
}

#[test]
fn a_text_is_told_without_its_literals() {
    let turns = [
        (C, vec![query("select a from t where b=17 and c = 'hunter2' -- hunter2")]),
        (S, vec![tag("SELECT 1"), ready()]),
        (C, vec![query("")]),
        (S, vec![msg(b'I', b""), ready()]),
        (C, vec![query("ALTER USER u PASSWORD 'hunter2")]),
        (S, vec![error("ERROR"), ready()]),
        (C, vec![query("BEGIN; INSERT INTO t VALUES (1, $$hunter2$$)")]),
        (S, vec![tag("BEGIN"), tag("INSERT 0 1"), ready()]),
    ];
    assert_eq!(
        statements(&turns),
        pairs(&[
            ("SELECT", "SELECT a FROM t WHERE b = ? AND c = ?"),
            ("EMPTY", ""),
            ("ALTER", "ALTER (not parsed)"),
            ("BEGIN", "BEGIN; INSERT INTO t VALUES (…)"),
        ])
    );
}

#[test]
fn an_execution_is_told_by_what_was_prepared_under_its_name_or_without_one() {
    let turns = [
        (C, vec![parse("s", "SELECT 'hunter2', $1"), sync()]),
        (S, vec![msg(b'1', b""), ready()]),
        (C, vec![bind("s"), execute(), sync()]),
        (S, vec![msg(b'2', b""), tag("SELECT 1"), ready()]),
        (C, vec![parse("", "SELECT 2"), bind(""), execute(), sync()]),
        (S, vec![msg(b'1', b""), msg(b'2', b""), tag("SELECT 1"), ready()]),
        (C, vec![bind(""), execute(), sync()]),
        (S, vec![msg(b'2', b""), tag("SELECT 1"), ready()]),
        (C, vec![parse("s", "DELETE FROM t"), bind("s"), execute(), sync()]),
        (S, vec![msg(b'1', b""), msg(b'2', b""), tag("DELETE 1"), ready()]),
        (C, vec![bind("unseen"), execute(), sync()]),
        (S, vec![msg(b'2', b""), tag("UPDATE 1"), ready()]),
        (C, vec![describe(b'S', "s"), sync()]),
        (S, vec![msg(b't', &[0, 0]), msg(b'n', b""), ready()]),
    ];
    assert_eq!(
        statements(&turns),
        pairs(&[
            ("PREPARE", "SELECT ?, $1"),
            ("SELECT", "SELECT ?, $1"),
            ("SELECT", "SELECT ?"),
            ("SELECT", "SELECT ?"),
            ("DELETE", "DELETE FROM t"),
            ("UPDATE", "(prepared before the capture: unseen, 0 parameters)"),
            ("DESCRIBE", "DELETE FROM t"),
        ])
    );
}

#[test]
fn a_statement_prepared_before_is_told_by_the_columns_of_its_rows() {
    let run = |more: Vec<Vec<u8>>| [vec![bind("s")], more, vec![execute(), sync()]].concat();
    let mut expression = columns(&[23]);
    expression.splice(11..15, [0; 4]);
    let turns = [
        (C, run(vec![describe(b'P', "")])),
        (S, vec![msg(b'2', b""), columns(&[23, 23]), tag("SELECT 0"), ready()]),
        (C, run(Vec::new())),
        (S, vec![msg(b'2', b""), tag("SELECT 0"), ready()]),
        (C, [run(vec![describe(b'S', "s")]), run(vec![describe(b'P', "")])].concat()),
        (S, vec![msg(b'2', b""), msg(b't', &[0, 0]), columns(&[23]), error("ERROR"), ready()]),
        (S, vec![msg(b'2', b""), expression, tag("SELECT 0"), ready()]),
    ];
    let told = |columns: &str| format!("(prepared before the capture: s, 0 parameters{columns})");
    assert_eq!(
        statements(&turns),
        pairs(&[
            ("SELECT", &told(", col, col")),
            ("SELECT", &told(", col, col")),
            ("EXECUTE", &told(", col")),
            ("SELECT", &told("")),
        ])
    );
}

#[test]
fn a_text_of_which_the_end_was_not_captured_is_told_by_its_beginning() {
    let message = query("SELECT a FROM t WHERE b = 'hunter2' AND c = 5");
    let mut engine = DecoderEngine::new(Pgwire::new(false), false);
    let mut transcript = Transcript::default();
    engine.bytes(C, &startup(), &mut transcript);
    engine.bytes(S, &welcome(), &mut transcript);
    let (seen, unseen) = message.split_at(36);
    engine.bytes(C, seen, &mut transcript);
    engine.opaque(C, unseen.len() as u64, &mut transcript);
    engine.finish(&mut transcript);
    assert_eq!(transcript.ops[1].statement, "SELECT a FROM t WHERE b = …");
}
