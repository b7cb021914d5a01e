//! Bytes that are free to differ, and states of connections.

use super::super::wire::opcode;
use super::build::*;
use super::*;
use crate::SharedContext;
use overhead_decode::DecoderEngine;
use overhead_testing::free;

const ID: [u8; 4] = [7, 7, 7, 7];

/// Replays turns with every free byte changed; returns how many there are.
fn free_bytes(turns: &[(Vec<u8>, Vec<u8>)]) -> u64 {
    let conversation: Vec<_> = turns
        .iter()
        .flat_map(|(asked, answered)| [(Request, asked.as_slice()), (Response, answered.as_slice())])
        .collect();
    free::check(|| Cql::new(false), &conversation).free
}

struct Connection(DecoderEngine<Cql>, Transcript);

impl Connection {
    fn new(shared: &SharedContext) -> Self {
        Self(DecoderEngine::new(Cql::sharing(false, shared.clone()), false), Transcript::default())
    }

    /// Returns the state after a request and its response.
    fn turn(&mut self, asked: &[u8], answered: &[u8]) -> Option<u64> {
        self.0.bytes(Request, asked, &mut self.1);
        assert_eq!(self.0.idle_state(), None, "a request waits");
        self.0.bytes(Response, answered, &mut self.1);
        self.0.idle_state()
    }
}

fn prepare_select(id: &[u8], result: &[Column<'_>]) -> (Vec<u8>, Vec<u8>) {
    (prepare(0, "SELECT * FROM lab.tab WHERE id = ?"), prepared(0, id, "lab", &[("id", native(BIGINT))], result))
}

#[test]
fn values_cells_and_ids_of_requests_may_differ() {
    let columns = || [("a", native(TEXT)), ("b", list_of(&native(INT)))];
    let cells = || [value(b"some text"), value(&elements(2, &[value(&[1; 4]), value(&[2; 4])]))];
    let execute = |stream| (execute(stream, &ID, 0, &[value(&[5; 8])]), bare_rows(stream, 2, &cells()));
    let several = [execute(3).0, execute(900).0, query(0, "UPDATE lab.tab SET a = 17 WHERE id = 2.5")].concat();
    let answers = [execute(900).1, void(0), execute(3).1].concat();
    let turns = [prepare_select(&ID, &columns()), execute(0), execute(1), execute(0), (several, answers), execute(2)];
    assert!(free_bytes(&turns) > 150);
}

#[test]
fn the_cell_that_names_the_server_stays_as_it_is() {
    let local = |release: &[u8]| {
        let columns = [("key", native(TEXT)), ("release_version", native(TEXT))];
        let answer = rows(0, "system", &columns, &[value(b"key"), value(release), value(b"key"), value(release)]);
        let at = answer.windows(5).position(|part| part == b"\0\x03tab").unwrap();
        let answer = [&answer[..at], &string("local"), &answer[at + 5..]].concat();
        // The table's name is two bytes longer.
        let length = int(answer.len() as u32 - 9);
        (query(0, "SELECT * FROM system.local"), [&answer[..5], &length[..], &answer[9..]].concat())
    };
    assert!(free_bytes(&[local(b"5.0.5"), local(b"4.1.9")]) > 10);
}

#[test]
fn a_state_has_another_number_where_the_same_bytes_would_be_read_otherwise() {
    let of_text = [("a", native(TEXT))];
    let of_list = [("a", list_of(&native(INT)))];
    let turns = [
        (ask(0, opcode::STARTUP, &map(&[("CQL_VERSION", "3.0.0")])), answer(0, opcode::READY, &[])),
        (query(0, "SELECT a FROM lab.tab"), void(0)),
        prepare_select(&ID, &of_text),
        prepare_select(&ID, &of_list),
        prepare_select(&[8], &of_list),
        (query(0, "USE system"), answer(0, opcode::RESULT, &[&int(3)[..], &string("system")].concat())),
        // An unexpected response could have any id.
        (execute(0, &ID, 0, &[value(&[0; 8])]), [void(0), void(5)].concat()),
        ([query(1, "SELECT a"), query(1, "SELECT b")].concat(), [void(1), void(1)].concat()),
    ];
    let mut connection = Connection::new(&SharedContext::default());
    let mut numbers: Vec<_> = turns.iter().map(|(asked, answered)| connection.turn(asked, answered)).collect();
    assert!(numbers.iter().all(Option::is_some));
    let last = numbers.last().copied().unwrap();
    assert_eq!(connection.turn(&query(1, "SELECT a FROM peers"), &void(1)), last);
    numbers.dedup();
    assert_eq!(numbers.len(), turns.len());
    assert!(numbers.is_sorted());
}

#[test]
fn what_others_may_prepare_at_any_moment_is_not_idle() {
    let shared = SharedContext::default();
    let (mut one, mut other) = (Connection::new(&shared), Connection::new(&shared));
    let prepare = |other: &mut Connection, id: &[u8]| {
        let (asked, answered) = prepare_select(id, &[]);
        other.turn(&asked, &answered);
    };
    let ask = |one: &mut Connection, id: &[u8]| one.turn(&execute(0, id, 0, &[value(&[0; 8])]), &void(0));
    prepare(&mut other, &ID);
    let found = ask(&mut one, &ID);
    assert!(found.is_some());
    prepare(&mut other, &[8]);
    assert_eq!(ask(&mut one, &ID), found, "it is its own by now");
    assert_eq!(ask(&mut one, &[9]), None);
    assert_eq!(ask(&mut one, &ID), None);
}

#[test]
fn with_compression_or_segments_nothing_is_idle() {
    let text = query(1, "SELECT a FROM lab.tab");
    let packed = lz4_flex::block::compress(&text[9..]);
    let body = [&int(text.len() as u32 - 9)[..], &packed].concat();
    let start = |version, compression| {
        let options = map(&[("CQL_VERSION", "3.0.0"), ("COMPRESSION", compression)]);
        (message(version, 0, 0, opcode::STARTUP, &options), message(version | 0x80, 0, 0, opcode::READY, &[]))
    };
    let mut connection = Connection::new(&SharedContext::default());
    let (asked, answered) = start(4, "lz4");
    assert!(connection.turn(&asked, &answered).is_some());
    assert_eq!(connection.turn(&message(4, 1, 1, opcode::QUERY, &body), &void(1)), None);
    assert_eq!(connection.turn(&query(1, "SELECT a FROM lab.tab"), &void(1)), None);
    let mut connection = Connection::new(&SharedContext::default());
    let (asked, answered) = start(5, "");
    assert_eq!(connection.turn(&asked, &answered), None);
}
