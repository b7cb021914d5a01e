//! What a listener keeps of each connection while steps of all of them come in turn.

use std::collections::HashMap;

/// State by connection, and the connection whose turn it is.
#[derive(Debug, Default)]
pub struct Turns<C> {
    connections: HashMap<u64, C>,
    connection: u64,
    over: bool,
}

impl<C: Default> Turns<C> {
    /// What follows is of this connection, whose last turn it is where it is `over`. A connection that is over is forgotten
    /// when the next has its turn.
    pub fn turn(&mut self, connection: u64, over: bool) {
        if self.over {
            self.connections.remove(&self.connection);
        }
        (self.connection, self.over) = (connection, over);
    }

    /// Returns the number of the connection.
    pub fn connection(&self) -> u64 {
        self.connection
    }

    /// Returns what is kept of it.
    pub fn kept(&mut self) -> &mut C {
        self.connections.entry(self.connection).or_default()
    }
}
