//! Numbers the operations of a capture.

use super::turns::ConnectionStates;
use overhead_model::Trace;

/// Numbers operations of all classes from 1, ordered by when their first byte is decoded. A connection's `CONNECT` gets its number at the
/// first frame without payload.
#[derive(Debug, Default)]
pub struct Numbering {
    pub count: u64,
    turns: ConnectionStates<SeenConnection>,
}

#[derive(Debug, Default)]
struct SeenConnection {
    decoding: bool,
    /// Whether anything was posted to `CONNECT`.
    touched: bool,
    numbered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BegunOperation {
    /// In the capture, from 1.
    pub number: u64,
    /// On the connection; `None` for `CONNECT`.
    pub op: Option<u64>,
}

impl Numbering {
    pub fn connection(&self) -> u64 {
        self.turns.connection
    }

    /// Handles a step and returns any operation that starts with it.
    pub fn hear(&mut self, step: &Trace<'_>) -> Option<BegunOperation> {
        self.turns.hear(step);
        match *step {
            Trace::Decoding { .. } => self.connect(|connection| connection.decoding = true),
            Trace::Posted { op: None, .. } | Trace::Charged { op: None, .. } => {
                self.connect(|connection| connection.touched = true)
            }
            Trace::Opened { op } => Some(self.number(Some(op))),
            _ => None,
        }
    }

    fn connect(&mut self, note: fn(&mut SeenConnection)) -> Option<BegunOperation> {
        let connection = self.turns.kept();
        note(connection);
        let begins = connection.decoding && connection.touched && !connection.numbered;
        connection.numbered |= begins;
        begins.then(|| self.number(None))
    }

    fn number(&mut self, op: Option<u64>) -> BegunOperation {
        self.count += 1;
        BegunOperation { number: self.count, op }
    }
}
