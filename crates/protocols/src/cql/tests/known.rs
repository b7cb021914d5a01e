//! Statements prepared on one connection and executed on another.

use super::super::super::SharedContext;
use super::build::*;
use super::*;
use crate::limits;
use overhead_decode::{DecoderEngine, Note};

struct Connection {
    engine: DecoderEngine<Cql>,
    transcript: Transcript,
}

impl Connection {
    fn new(shared: &SharedContext) -> Self {
        let engine = DecoderEngine::new(Cql::sharing(false, shared.clone()), false);
        Self { engine, transcript: Transcript::default() }
    }

    fn exchange(&mut self, request: &[u8], response: &[u8]) {
        self.engine.bytes(Request, request, &mut self.transcript);
        self.engine.bytes(Response, response, &mut self.transcript);
    }

    fn prepare(&mut self, id: u32, text: &str, bind: &[Column<'_>]) {
        self.exchange(&prepare(0, text), &prepared(0, &int(id), "lab", bind, &[]));
    }

    /// Executes a statement; returns its name and the number of untyped values that may be tuples.
    fn execute(&mut self, id: u32) -> (String, usize) {
        self.exchange(&execute(0, &int(id), 0, &[value(&[0, 0, 0, 4, 1, 2, 3, 4])]), &void(0));
        let untyped = self.transcript.notes.iter().filter(|note| **note == Note::UntypedValue).count();
        (self.transcript.ops.last().unwrap().name().to_owned(), untyped)
    }
}

fn typed() -> Vec<Column<'static>> {
    vec![("id", native(BIGINT))]
}

#[test]
fn a_statement_is_known_on_all_connections() {
    let shared = SharedContext::default();
    let (mut one, mut other) = (Connection::new(&shared), Connection::new(&shared));
    one.prepare(7, "INSERT INTO lab.tab (id) VALUES (?)", &typed());
    assert_eq!(other.execute(7), ("INSERT".to_owned(), 0));
    assert_eq!(other.execute(8), ("EXECUTE".to_owned(), 1));
    assert_eq!(Connection::new(&SharedContext::default()).execute(7).0, "EXECUTE", "another capture");
}

#[test]
fn a_statement_is_known_as_it_was_prepared_last() {
    let shared = SharedContext::default();
    let name = || Connection::new(&shared).execute(7).0;
    assert_eq!(name(), "EXECUTE");
    Connection::new(&shared).prepare(7, "SELECT a FROM lab.tab", &typed());
    assert_eq!(name(), "SELECT");
    Connection::new(&shared).prepare(7, "DELETE FROM lab.tab", &typed());
    assert_eq!(name(), "DELETE");
}

#[test]
fn what_the_end_of_a_connection_brings_is_its_own() {
    let shared = SharedContext::default();
    shared.statements.withhold(true);
    Connection::new(&shared).prepare(7, "SELECT a FROM lab.tab", &typed());
    shared.statements.withhold(false);
    assert_eq!(Connection::new(&shared).execute(7).0, "EXECUTE");
}

#[test]
fn what_a_connection_forgets_all_of_them_still_know() {
    let mut one = Connection::new(&SharedContext::default());
    for id in 0..=limits::STATEMENTS as u32 {
        one.prepare(id, "SELECT a FROM lab.tab", &typed());
    }
    let last = limits::STATEMENTS as u32;
    assert_eq!([0, 1, last].map(|id| one.execute(id).0), ["SELECT"; 3]);
}

#[test]
fn beyond_the_limit_the_first_are_kept() {
    let shared = SharedContext::default();
    for id in 0..=limits::SHARED_STATEMENTS as u32 {
        Connection::new(&shared).prepare(id, "SELECT a FROM lab.tab", &typed());
    }
    let name = |id| Connection::new(&shared).execute(id).0;
    let last = limits::SHARED_STATEMENTS as u32;
    assert_eq!([0, last - 1, last].map(name), ["SELECT", "SELECT", "EXECUTE"]);
}
