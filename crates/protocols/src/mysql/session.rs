//! Connection state: negotiated capabilities and prepared statements.

use super::wire::capability;
use crate::limits;
use crate::statement::StatementSummary;
use std::collections::BTreeMap;

/// The id of the last prepared statement (`MariaDB`'s direct execution).
pub(super) const LAST_PREPARED: u32 = u32::MAX;

/// State that outlives an operation.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// Capabilities common to client and server; `None` if the login was not seen.
    pub capabilities: Option<u64>,
    /// Whether `EOF` packets follow column definitions, learnt from a result if the login was not seen.
    pub is_eof_seen: Option<bool>,
    /// A backslash is an ordinary character (`NO_BACKSLASH_ESCAPES`), as reported by the server.
    pub is_unescaped: bool,
    /// A statement other than `SET` was sent, or may have been.
    pub has_begun: bool,
    pub replicates: bool,
    statements: BTreeMap<u32, MysqlStatement>,
    /// Bytes that the statements hold beyond their own size.
    in_statements: usize,
    pub last_prepared: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MysqlStatement {
    pub named: StatementSummary,
    pub parameters: u16,
    /// Parameter types, as last bound.
    pub bound: Vec<u8>,
    /// Indexes of parameters sent by `COM_STMT_SEND_LONG_DATA`.
    pub sent_ahead: Vec<u16>,
    pub columns: Vec<u8>,
}

impl Session {
    /// Returns whether the client has a capability; `None` if the login was not seen.
    pub fn has(&self, capability: u64) -> Option<bool> {
        self.capabilities.map(|capabilities| capabilities & capability != 0)
    }

    /// Returns whether results have the format of before version 4.1.
    pub fn is_old(&self) -> bool {
        self.has(capability::PROTOCOL_41) == Some(false)
    }

    /// Returns whether `EOF` packets follow column definitions, if known.
    pub fn has_eof(&self) -> Option<bool> {
        self.has(capability::DEPRECATE_EOF).map(|is_deprecated| !is_deprecated).or(self.is_eof_seen)
    }

    pub fn statement(&self, id: u32) -> Option<&MysqlStatement> {
        self.statements.get(&self.resolve(id))
    }

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

    /// Remembers a statement. Beyond the limit, forgets the lowest id, which is the oldest.
    pub fn prepared(&mut self, id: u32, statement: MysqlStatement) {
        self.closed(id);
        self.in_statements += statement.held();
        self.statements.insert(id, statement);
        self.last_prepared = Some(id);
        if self.statements.len() > limits::STATEMENTS
            && let Some(&oldest) = self.statements.keys().next()
        {
            self.closed(oldest);
        }
    }

    pub fn closed(&mut self, id: u32) {
        self.in_statements -= self.statements.remove(&id).map_or(0, |statement| statement.held());
    }

    /// Forgets all statements, as the server does when it resets the session.
    pub fn reset(&mut self) {
        self.statements.clear();
        (self.in_statements, self.last_prepared) = (0, None);
    }

    pub fn has_statements(&self) -> bool {
        !self.statements.is_empty()
    }

    pub fn held(&self) -> usize {
        self.statements.len() * (size_of::<MysqlStatement>() + 3 * size_of::<u32>()) + self.in_statements
    }
}

impl MysqlStatement {
    fn held(&self) -> usize {
        self.named.text.held() + self.bound.capacity() + 2 * self.sent_ahead.capacity() + self.columns.capacity()
    }
}
