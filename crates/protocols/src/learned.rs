//! Statements whose preparation one capture saw, for later captures of parts of the same connections.

use crate::limits;
use crate::statement::StatementSummary;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A network namespace, and the ends of a connection as it shows them, the lesser first.
type ConnectionId = (u32, [SocketAddr; 2]);

/// Size of an entry beside its texts, in bytes.
const ENTRY_BYTES: usize = 128;

/// Numbers of remembered statements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LearnedCounts {
    pub statements: u64,
    /// Statements without room, since the start.
    pub without_room: u64,
}

/// Remembers statements by connection and by name or id, with their literals replaced.
#[derive(Debug, Default)]
pub struct LearnedStatements(Mutex<LearnedBook>);

#[derive(Debug, Default)]
struct LearnedBook {
    connections: HashMap<ConnectionId, LearnedConnection>,
    bytes: usize,
    without_room: u64,
}

#[derive(Debug, Default)]
struct LearnedConnection {
    /// Identifies its socket; absent until [`LearnedStatements::check`].
    socket: Option<u64>,
    statements: HashMap<String, StatementSummary>,
}

fn entry_bytes(name: &str, summary: &StatementSummary) -> usize {
    ENTRY_BYTES + name.len() + summary.text.held()
}

impl LearnedStatements {
    /// Returns whether connections of a network namespace have statements.
    pub fn has_any(&self, network_namespace: u32) -> bool {
        self.book().connections.keys().any(|(number, _)| *number == network_namespace)
    }

    /// Compares the connections of a network namespace with the sockets that are open now, by their ends, the lesser first, and forgets
    /// those whose socket is gone or another one.
    pub fn check(&self, network_namespace: u32, sockets: &HashMap<[SocketAddr; 2], u64>) {
        let mut book = self.book();
        let LearnedBook { connections, bytes, .. } = &mut *book;
        connections.retain(|(number, ends), connection| {
            let now = sockets.get(ends).copied();
            let is_same = now.is_some() && connection.socket.is_none_or(|before| Some(before) == now);
            if *number != network_namespace || is_same {
                connection.socket = connection.socket.or(now.filter(|_| *number == network_namespace));
                return true;
            }
            *bytes -= connection.statements.iter().map(|(name, summary)| entry_bytes(name, summary)).sum::<usize>();
            false
        });
    }

    pub fn counts(&self) -> LearnedCounts {
        let book = self.book();
        let statements = book.connections.values().map(|connection| connection.statements.len() as u64).sum();
        LearnedCounts { statements, without_room: book.without_room }
    }

    fn book(&self) -> MutexGuard<'_, LearnedBook> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The statements of the connections in one network namespace.
#[derive(Clone, Debug)]
pub(crate) struct LearnedPart {
    pub statements: Arc<LearnedStatements>,
    pub network_namespace: u32,
}

impl LearnedPart {
    fn id(&self, [one, other]: [SocketAddr; 2]) -> ConnectionId {
        (self.network_namespace, if one <= other { [one, other] } else { [other, one] })
    }

    /// Remembers a statement, if there is room. It replaces one with the same name.
    pub fn learn(&self, ends: [SocketAddr; 2], name: &str, summary: &StatementSummary) {
        self.forget(ends, name);
        let (mut book, bytes) = (self.statements.book(), entry_bytes(name, summary));
        if book.bytes + bytes > limits::LEARNED_BYTES {
            book.without_room += 1;
            return;
        }
        book.bytes += bytes;
        let connection = book.connections.entry(self.id(ends)).or_default();
        connection.statements.insert(name.to_owned(), summary.clone());
    }

    pub fn forget(&self, ends: [SocketAddr; 2], name: &str) {
        let (mut book, id) = (self.statements.book(), self.id(ends));
        let Some(connection) = book.connections.get_mut(&id) else { return };
        let Some(summary) = connection.statements.remove(name) else { return };
        if connection.statements.is_empty() {
            book.connections.remove(&id);
        }
        book.bytes -= entry_bytes(name, &summary);
    }

    pub fn find(&self, ends: [SocketAddr; 2], name: &str) -> Option<StatementSummary> {
        self.statements.book().connections.get(&self.id(ends))?.statements.get(name).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::StatementDialect;

    fn ends(port: u16) -> [SocketAddr; 2] {
        [([10, 0, 0, 9], port).into(), ([10, 0, 0, 1], 5432).into()]
    }

    fn summary(text: &str) -> StatementSummary {
        StatementSummary::new(text.as_bytes(), true, StatementDialect::Postgres, true).0
    }

    fn part(statements: &Arc<LearnedStatements>, network_namespace: u32) -> LearnedPart {
        LearnedPart { statements: Arc::clone(statements), network_namespace }
    }

    #[test]
    fn statements_belong_to_the_socket_that_prepared_them() {
        let learned = Arc::<LearnedStatements>::default();
        let (part, elsewhere) = (part(&learned, 7), part(&learned, 8));
        for (port, text) in [(1, "SELECT 1"), (2, "DELETE FROM t WHERE k = 'secret'")] {
            part.learn(ends(port), "_pg3_0", &summary(text));
        }
        let found = |port| part.find(ends(port), "_pg3_0").map(|found| found.text.as_str().to_owned());
        assert_eq!(found(2).as_deref(), Some("DELETE FROM t WHERE k = ?"));
        assert!(elsewhere.find(ends(2), "_pg3_0").is_none() && !learned.has_any(8));
        let [[one, other], second] = [ends(1), ends(2)];
        let sorted = |[one, other]: [SocketAddr; 2]| if one <= other { [one, other] } else { [other, one] };
        let sockets =
            |open: &[([SocketAddr; 2], u64)]| open.iter().map(|(ends, socket)| (sorted(*ends), *socket)).collect();
        learned.check(7, &sockets(&[([other, one], 100), (second, 200)]));
        learned.check(8, &sockets(&[]));
        assert_eq!(learned.counts().statements, 2);
        // The ends are used again, by another socket.
        learned.check(7, &sockets(&[([one, other], 101), (second, 200)]));
        assert_eq!((found(1), found(2).is_some()), (None, true));
        learned.check(7, &sockets(&[]));
        assert_eq!((learned.counts().statements, learned.book().bytes), (0, 0));
    }

    #[test]
    fn what_has_no_room_is_counted() {
        let learned = Arc::<LearnedStatements>::default();
        let part = part(&learned, 7);
        let long = summary(&format!("SELECT {}", "a, ".repeat(300)));
        let each = entry_bytes("S_1000000", &long);
        let most = limits::LEARNED_BYTES / each;
        (0..most + 5).for_each(|number| part.learn(ends(1), &format!("S_{}", 1_000_000 + number), &long));
        assert_eq!(learned.counts(), LearnedCounts { statements: most as u64, without_room: 5 });
        part.learn(ends(1), "S_1000000", &summary("SELECT 1"));
        part.forget(ends(1), "S_1000001");
        assert_eq!(learned.counts().statements, most as u64 - 1);
        assert!(learned.book().bytes < limits::LEARNED_BYTES);
    }
}
