//! What a connection remembers: what was negotiated, and prepared statements.

use super::pair::StatementSummary;
use super::wire::capability;
use crate::limits;
use std::collections::BTreeMap;

/// Names the statement that was prepared last (`MariaDB`'s direct execution).
pub(super) const LAST_PREPARED: u32 = u32::MAX;

/// State that outlives an operation.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact about the connection, independent of the others")]
pub(super) struct Session {
    /// The client's capabilities, of those that the server has; `None` where the login was not seen.
    pub capabilities: Option<u64>,
    /// Whether an `EOF` packet stands behind column definitions, where the login was not seen and a result has told.
    pub is_eof_seen: Option<bool>,
    /// A backslash in a statement is a character like others (`NO_BACKSLASH_ESCAPES`), as the server has said.
    pub is_unescaped: bool,
    /// A statement other than `SET` was sent, or may have been.
    pub has_begun: bool,
    /// The client sends commands before it has the answers to earlier ones.
    pub pipelines: bool,
    /// The connection is that of a replica.
    pub replicates: bool,
    statements: BTreeMap<u32, MysqlStatement>,
    /// Bytes that the statements hold beyond their own size.
    in_statements: usize,
    /// What was prepared last.
    pub last_prepared: Option<u32>,
}

/// A prepared statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MysqlStatement {
    pub named: StatementSummary,
    /// How many parameters it has.
    pub parameters: u16,
    /// Types of its parameters, as they were bound last.
    pub bound: Vec<u8>,
    /// Parameters that were sent ahead by `COM_STMT_SEND_LONG_DATA`.
    pub sent_ahead: Vec<u16>,
    /// Types of the columns of its result.
    pub columns: Vec<u8>,
}

impl Session {
    /// Returns whether the client has this capability; `None` where the login was not seen.
    pub fn has(&self, capability: u64) -> Option<bool> {
        self.capabilities.map(|capabilities| capabilities & capability != 0)
    }

    /// Returns whether results are as before version 4.1.
    pub fn is_old(&self) -> bool {
        self.has(capability::PROTOCOL_41) == Some(false)
    }

    /// Returns whether an `EOF` packet stands behind column definitions; `None` where that is not known.
    pub fn has_eof(&self) -> Option<bool> {
        self.has(capability::DEPRECATE_EOF).map(|is_deprecated| !is_deprecated).or(self.is_eof_seen)
    }

    /// Returns the statement with this id.
    pub fn statement(&self, id: u32) -> Option<&MysqlStatement> {
        self.statements.get(&self.resolve(id))
    }

    /// Changes the statement with this id, if there is one.
    pub fn change_statement(&mut self, id: u32, change: impl FnOnce(&mut MysqlStatement)) {
        let id = self.resolve(id);
        let Some(statement) = self.statements.get_mut(&id) else { return };
        self.in_statements -= statement.held();
        change(statement);
        self.in_statements += statement.held();
    }

    fn resolve(&self, id: u32) -> u32 {
        if id == LAST_PREPARED { self.last_prepared.unwrap_or(id) } else { id }
    }

    /// Remembers a statement; beyond the limit, the one with the lowest id is forgotten, which is the oldest.
    pub fn prepared(&mut self, id: u32, statement: MysqlStatement) {
        self.in_statements += statement.held();
        let replaced = self.statements.insert(id, statement);
        self.last_prepared = Some(id);
        let is_full = self.statements.len() > limits::STATEMENTS;
        let oldest = is_full.then(|| self.statements.pop_first()).flatten();
        let forgotten = replaced.into_iter().chain(oldest.map(|(_, statement)| statement));
        self.in_statements -= forgotten.map(|statement| statement.held()).sum::<usize>();
    }

    /// Forgets a statement.
    pub fn closed(&mut self, id: u32) {
        self.in_statements -= self.statements.remove(&id).map_or(0, |statement| statement.held());
    }

    /// Forgets all statements, as the server does where the session begins anew.
    pub fn reset(&mut self) {
        self.statements.clear();
        (self.in_statements, self.last_prepared) = (0, None);
    }

    /// Returns whether there are statements.
    pub fn has_statements(&self) -> bool {
        !self.statements.is_empty()
    }

    /// Returns about how many bytes of memory it holds.
    pub fn held(&self) -> usize {
        self.statements.len() * (size_of::<MysqlStatement>() + 3 * size_of::<u32>()) + self.in_statements
    }
}

impl MysqlStatement {
    fn held(&self) -> usize {
        self.named.statement.held() + self.bound.capacity() + 2 * self.sent_ahead.capacity() + self.columns.capacity()
    }
}
