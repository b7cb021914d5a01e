//! Bytes that are free to differ, and states of connections.

use super::*;
use overhead_testing::free;

type Exchange = (Vec<Vec<u8>>, Vec<Vec<u8>>);

/// Replays turns with every free byte changed; returns how many there are.
fn free_bytes(turns: &[Exchange]) -> u64 {
    let mut conversation = vec![(C, startup()), (S, welcome())];
    for (asked, answered) in turns {
        conversation.extend([(C, asked.concat()), (S, answered.concat())]);
    }
    let conversation: Vec<_> = conversation.iter().map(|(side, bytes)| (*side, bytes.as_slice())).collect();
    free::check(|| Pgwire::new(false), &conversation).free
}

/// Returns the state after a first statement and after each turn.
fn states(turns: &[Exchange]) -> Vec<Option<u64>> {
    let mut engine = DecoderEngine::new(Pgwire::new(false), false);
    let mut transcript = Transcript::default();
    engine.bytes(C, &startup(), &mut transcript);
    engine.bytes(S, &welcome(), &mut transcript);
    assert_eq!(engine.idle_state(), None, "a connection that was not used");
    engine.bytes(C, &query("BEGIN"), &mut transcript);
    engine.bytes(S, &[tag("BEGIN"), ready()].concat(), &mut transcript);
    let mut states = vec![engine.idle_state()];
    for (asked, answered) in turns {
        engine.bytes(C, &asked.concat(), &mut transcript);
        assert_eq!(engine.idle_state(), None, "a request waits");
        engine.bytes(S, &answered.concat(), &mut transcript);
        states.push(engine.idle_state());
    }
    states
}

fn simple(sql: &str, answer: Vec<Vec<u8>>) -> Exchange {
    (vec![query(sql)], answer.into_iter().chain([ready()]).collect())
}

/// Parse, bind, describe, execute and sync, answered with one row.
fn extended(name: &str, sql: &str, types: &[u32], value: &[u8]) -> Exchange {
    let cell = [&u32::try_from(value.len()).unwrap().to_be_bytes()[..], value].concat();
    let bind = msg(b'B', &[b"\0", name.as_bytes(), b"\0\0\0\0\x01", &cell, b"\0\0"].concat());
    let asked = vec![parse(name, sql), bind, describe(b'P', ""), execute(), sync()];
    let answer = vec![msg(b'1', b""), msg(b'2', b""), columns(types), row(&[Some(value)]), tag("SELECT 1"), ready()];
    (asked, answer)
}

#[test]
fn numbers_in_a_statement_and_in_its_tag_and_the_cells_of_its_rows_may_differ() {
    let answer = || vec![columns(&[23, 25]), row(&[Some(b"7"), Some(b"a text")]), tag("SELECT 1")];
    let turns = [
        simple("SELECT abalance, note FROM pgbench_accounts WHERE aid = 12345;", answer()),
        simple("SELECT abalance, note FROM pgbench_accounts WHERE aid = 54321;", answer()),
        simple("INSERT INTO t2 VALUES (1.5, 'x 10', $1, $$ 7 $$)", vec![tag("INSERT 0 1")]),
        simple("UPDATE a1 SET b = 1", vec![msg(b'E', b"SERROR\0VERROR\0C22012\0Mkey 123 is 4\0L17\0\0")]),
    ];
    assert!(free_bytes(&turns) >= 20);
    let numbers = states(&turns);
    assert_eq!(numbers[1], numbers[4], "a result's columns are what is remembered");
    assert!(numbers.iter().all(Option::is_some));
}

#[test]
fn parameters_may_differ_where_no_structure_is_looked_for_in_them() {
    let turns = [
        extended("", "SELECT a FROM t WHERE b = $1", &[25], b"12345"),
        extended("", "SELECT a FROM t WHERE b = $1", &[25], b"-12345"),
        extended("", "SELECT a FROM t WHERE b = $1", &[1007], b"{1,2}"),
        extended("", "SELECT a FROM t WHERE b = $1", &[16_400], b"(1,2)"),
        extended("", "SELECT a FROM t WHERE b = $1", &[16_400], b"a"),
    ];
    assert!(free_bytes(&turns) >= 15);
}

#[test]
fn preparing_the_same_again_without_a_name_leads_to_the_same_state() {
    let one = || extended("", "SELECT a FROM t WHERE b = $1", &[23], b"1");
    let other = || extended("", "UPDATE t SET a = $1", &[25, 25], b"1");
    let numbers = states(&[one(), one(), one(), other(), one(), other()]);
    assert_ne!(numbers[0], numbers[1]);
    assert_eq!((numbers[1], numbers[1]), (numbers[2], numbers[3]));
    // The old portal's statement is gone while the next one is prepared, but not afterwards.
    assert_eq!((numbers[1], numbers[4]), (numbers[5], numbers[6]));
    assert_ne!(numbers[1], numbers[4]);
}

#[test]
fn a_state_has_another_number_where_the_same_bytes_would_be_read_otherwise() {
    let named = |name: &str, sql: &str| {
        let asked = vec![parse(name, sql), describe(b'S', name), sync()];
        (asked, vec![msg(b'1', b""), msg(b't', b"\0\x01\0\0\0\x17"), columns(&[23]), ready()])
    };
    let close = (vec![msg(b'C', b"Ss1\0"), sync()], vec![msg(b'3', b""), ready()]);
    let describe =
        |types: &[u32]| (vec![describe(b'S', "s1"), sync()], vec![msg(b't', b"\0\0"), columns(types), ready()]);
    let turns = [
        named("s1", "SELECT 1"),
        named("s1", "UPDATE t SET a = 1"),
        named("s2", "SELECT 1"),
        describe(&[1007]),
        close,
        simple("SELECT a", vec![columns(&[25]), tag("SELECT 0")]),
        simple("SELECT a", vec![columns(&[1007]), tag("SELECT 0")]),
        extended("", "SELECT a", &[25], b"1"),
        extended("", "SELECT a", &[1007], b"1"),
    ];
    let mut numbers = states(&turns);
    assert!(numbers.iter().all(Option::is_some));
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), turns.len() + 1);
}

#[test]
fn a_connection_is_idle_when_nothing_is_under_way() {
    let mut engine = DecoderEngine::new(Pgwire::new(false), false);
    let mut transcript = Transcript::default();
    let mut step = |side: Side, bytes: &[u8]| {
        engine.bytes(side, bytes, &mut transcript);
        engine.idle_state().is_some()
    };
    assert!(!step(C, &startup()));
    assert!(!step(S, &welcome()), "a connection that was not used");
    assert!(!step(C, &query("SELECT 1")));
    assert!(step(S, &[tag("SELECT 1"), ready()].concat()));
    assert!(!step(C, &[query("COPY t FROM STDIN")].concat()));
    assert!(!step(S, &msg(b'G', b"\0\0\0")));
    assert!(!step(C, &[msg(b'd', b"1\n"), msg(b'c', b"")].concat()));
    assert!(!step(S, &[tag("COPY 1"), ready()].concat()), "the client might send more");
    assert!(!step(C, &query("SELECT 1")));
    assert!(!step(S, &tag("SELECT 1")));
    assert!(step(S, &ready()));
    assert!(!step(S, &ready()[..3]), "a message is cut off");
    let bind = msg(b'B', b"portal\0\0\0\0\0\0\0\0");
    assert!(step(S, &ready()[3..]));
    assert!(!step(S, &tag("SELECT 1")), "a response without a request");
    assert!(step(S, &ready()));
    assert!(!step(C, &[bind, execute(), sync()].concat()));
    assert!(!step(S, &[msg(b'2', b""), tag("SELECT 0"), ready()].concat()), "a portal has a name");
}
