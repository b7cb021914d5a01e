//! Keeps a listener's state per connection while steps of all connections interleave.

use overhead_model::Trace;
use std::collections::HashMap;

/// State by connection, and the current connection.
#[derive(Debug, Default)]
pub struct ConnectionStates<C> {
    connections: HashMap<u64, C>,
    pub connection: u64,
    over: bool,
}

impl<C: Default> ConnectionStates<C> {
    /// Switches to this connection; `over` marks its last turn. The next turn of any connection drops the state of one that is over.
    pub fn turn(&mut self, connection: u64, over: bool) {
        if self.over {
            self.connections.remove(&self.connection);
        }
        (self.connection, self.over) = (connection, over);
    }

    /// Switches to the connection of a step that starts a turn.
    pub fn hear(&mut self, step: &Trace<'_>) {
        match *step {
            Trace::Frame(facts) => self.turn(facts.connection, false),
            Trace::Ending { connection } => self.turn(connection, true),
            _ => {}
        }
    }

    pub fn kept(&mut self) -> &mut C {
        self.connections.entry(self.connection).or_default()
    }
}
