//! Statements that are prepared on one connection and executed on another.

use super::super::super::Commons;
use super::build::*;
use super::*;
use crate::limits;
use overhead_decode::{Engine, Note};

/// A connection of a capture, and what became of it.
struct Connection {
    commons: Commons,
    engine: Engine<Cql>,
    transcript: Transcript,
}

impl Connection {
    fn of(commons: &Commons) -> Self {
        let engine = Engine::new(Cql::sharing(false, commons.clone()), false);
        Self { commons: commons.clone(), engine, transcript: Transcript::default() }
    }

    /// A request in one frame and its response in the next.
    fn exchange(&mut self, frame: u64, request: &[u8], response: &[u8]) {
        self.commons.at(frame);
        self.engine.bytes(Request, request, &mut self.transcript);
        self.commons.at(frame + 1);
        self.engine.bytes(Response, response, &mut self.transcript);
    }

    fn prepare(&mut self, frame: u64, id: u32, text: &str, bind: &[Column<'_>]) {
        self.exchange(frame, &prepare(0, text), &prepared(0, &int(id), "lab", bind, &[]));
    }

    /// Executes a statement and gives the operation's name and the number of untyped values that could be tuples.
    fn execute(&mut self, frame: u64, id: u32) -> (String, usize) {
        self.exchange(frame, &execute(0, &int(id), 0, &[value(&[0, 0, 0, 4, 1, 2, 3, 4])]), &void(0));
        let untyped = self.transcript.notes.iter().filter(|note| **note == Note::UntypedValue).count();
        (self.transcript.ops.last().unwrap().name().to_owned(), untyped)
    }
}

fn typed() -> Vec<Column<'static>> {
    vec![("id", native(BIGINT))]
}

#[test]
fn a_statement_is_known_on_all_connections() {
    let commons = Commons::default();
    let (mut one, mut other) = (Connection::of(&commons), Connection::of(&commons));
    one.prepare(1, 7, "INSERT INTO lab.tab (id) VALUES (?)", &typed());
    assert_eq!(other.execute(3, 7), ("INSERT".to_owned(), 0));
    assert_eq!(other.execute(5, 8), ("EXECUTE".to_owned(), 1));
    assert_eq!(Connection::of(&Commons::default()).execute(7, 7).0, "EXECUTE", "another capture");
}

#[test]
fn a_frame_knows_of_those_before_it_alone() {
    let commons = Commons::default();
    let mut one = Connection::of(&commons);
    one.prepare(10, 7, "SELECT a FROM lab.tab", &typed());
    one.prepare(20, 7, "DELETE FROM lab.tab", &typed());
    let name = |frame| Connection::of(&commons).execute(frame, 7).0;
    assert_eq!([9, 11, 20, 21].map(name), ["EXECUTE", "SELECT", "SELECT", "DELETE"]);
}

#[test]
fn what_is_known_does_not_depend_on_the_order_in_which_frames_are_taken() {
    let texts = ["SELECT a FROM lab.tab", "SELECT a FROM lab.tab", "DELETE FROM lab.tab", "SELECT a FROM lab.tab"];
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]] {
        let commons = Commons::default();
        for index in order {
            Connection::of(&commons).prepare(10 * index as u64, 7, texts[index], &typed());
        }
        let name = |frame| Connection::of(&commons).execute(frame, 7).0;
        assert_eq!([0, 1, 11, 21, 31].map(name), ["EXECUTE", "SELECT", "SELECT", "DELETE", "SELECT"], "{order:?}");
    }
}

#[test]
fn what_a_connection_forgets_all_of_them_still_know() {
    let mut one = Connection::of(&Commons::default());
    for id in 0..=limits::STATEMENTS as u32 {
        one.prepare(u64::from(id) * 2, id, "SELECT a FROM lab.tab", &typed());
    }
    let last = limits::STATEMENTS as u32;
    assert_eq!([0, 1, last].map(|id| one.execute(1 << 40, id).0), ["SELECT"; 3]);
}

#[test]
fn beyond_the_limit_the_earliest_are_kept() {
    let commons = Commons::default();
    for id in (0..=limits::SHARED_STATEMENTS as u32).rev() {
        Connection::of(&commons).prepare(u64::from(id) * 2, id, "SELECT a FROM lab.tab", &typed());
    }
    let name = |id| Connection::of(&commons).execute(1 << 40, id).0;
    let last = limits::SHARED_STATEMENTS as u32;
    assert_eq!([0, last - 1, last].map(name), ["SELECT", "SELECT", "EXECUTE"]);
}
