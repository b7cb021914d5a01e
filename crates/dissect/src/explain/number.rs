//! Numbers the operations of a capture.

use super::turns::Turns;
use overhead_model::Trace;

/// Gives every operation its number: from 1, in the order in which the first byte of each was decoded, all classes
/// included. A connection's `CONNECT` comes with its first frame that carries no payload.
#[derive(Debug, Default)]
pub struct Numbering {
    count: u64,
    turns: Turns<SeenConnection>,
}

#[derive(Debug, Default)]
struct SeenConnection {
    /// Its protocol is known.
    decoding: bool,
    /// Something was posted to it.
    touched: bool,
    numbered: bool,
}

/// An operation that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// Its number in the capture.
    pub number: u64,
    /// Its number on the connection; `None` for `CONNECT`.
    pub op: Option<u64>,
}

impl Numbering {
    /// Returns how many operations there are so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of the connection that steps are of.
    pub fn connection(&self) -> u64 {
        self.turns.connection()
    }

    /// Takes a step in, and returns the operation that begins with it.
    pub fn hear(&mut self, step: &Trace<'_>) -> Option<Begun> {
        match *step {
            Trace::Frame(facts) => self.turns.turn(facts.connection, false),
            Trace::Ending { connection } => self.turns.turn(connection, true),
            Trace::Decoding { .. } => return self.connect(|connection| connection.decoding = true),
            Trace::Posted { op: None, .. } | Trace::Charged { op: None, .. } => {
                return self.connect(|connection| connection.touched = true);
            }
            Trace::Opened { op } => return Some(self.number(Some(op))),
            _ => {}
        }
        None
    }

    fn connect(&mut self, note: fn(&mut SeenConnection)) -> Option<Begun> {
        let connection = self.turns.kept();
        note(connection);
        let begins = connection.decoding && connection.touched && !connection.numbered;
        if begins {
            connection.numbered = true;
        }
        begins.then(|| self.number(None))
    }

    fn number(&mut self, op: Option<u64>) -> Begun {
        self.count += 1;
        Begun { number: self.count, op }
    }
}
