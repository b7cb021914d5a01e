//! Finds the verb of a CQL text, and whether it uses the server's keyspaces.

use crate::statement::{StatementDialect, StatementLexer, TokenKind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CqlStatement {
    /// In capitals; `None` if unknown.
    pub verb: Option<&'static str>,
    /// Whether the table's keyspace belongs to the server (`system.peers`); `None` if the text names no keyspace.
    pub system: Option<bool>,
}

const VERBS: [&str; 17] = [
    "SELECT", "INSERT", "UPDATE", "DELETE", "USE", "CREATE", "ALTER", "DROP", "TRUNCATE", "GRANT", "REVOKE", "LIST",
    "DESCRIBE", "PRUNE", "ATTACH", "DETACH", "ADD",
];

/// Keyspaces of the servers (Cassandra, `ScyllaDB`, `DataStax` Enterprise).
const SYSTEM_KEYSPACES: [&str; 16] = [
    "system",
    "system_schema",
    "system_auth",
    "system_distributed",
    "system_distributed_everywhere",
    "system_traces",
    "system_views",
    "system_virtual_schema",
    "system_cluster_metadata",
    "system_metrics",
    "system_replicated_keys",
    "system_audit",
    "system_backups",
    "dse_system",
    "dse_system_local",
    "dse_security",
];

pub fn is_system_keyspace(name: &[u8]) -> bool {
    SYSTEM_KEYSPACES.iter().any(|system| name.eq_ignore_ascii_case(system.as_bytes()))
}

impl CqlStatement {
    pub fn parse(text: &[u8]) -> Self {
        let mut words = StatementLexer::new(text, StatementDialect::Cql);
        let Some((TokenKind::Word, first)) = words.token() else { return Self { verb: None, system: None } };
        let verb = VERBS.iter().copied().find(|verb| is(first, verb)).or_else(|| match () {
            () if is(first, "DESC") => Some("DESCRIBE"),
            () if is(first, "BEGIN") => batch_or_transaction(&mut words),
            () => None,
        });
        let system = match verb {
            Some("SELECT" | "DELETE") => keyspace_after("FROM", &mut words),
            Some("INSERT") => keyspace_after("INTO", &mut words),
            Some("UPDATE") => keyspace(&mut words),
            _ => None,
        };
        Self { verb, system }
    }
}

fn is(word: &[u8], keyword: &str) -> bool {
    word.eq_ignore_ascii_case(keyword.as_bytes())
}

/// After `BEGIN`, distinguishes a batch (`BEGIN UNLOGGED BATCH`) from a transaction of Cassandra 6.
fn batch_or_transaction(words: &mut StatementLexer<'_>) -> Option<&'static str> {
    let names = ["BATCH", "TRANSACTION"];
    (0..2).find_map(|_| words.word().and_then(|word| names.into_iter().find(|name| is(word, name))))
}

/// Returns whether the table after `keyword` is the server's.
fn keyspace_after(keyword: &str, words: &mut StatementLexer<'_>) -> Option<bool> {
    while !is(words.word()?, keyword) {}
    keyspace(words)
}

/// Returns whether the next name is a keyspace of the server; `None` unless a dot follows.
fn keyspace(words: &mut StatementLexer<'_>) -> Option<bool> {
    let ((TokenKind::Word, name) | (TokenKind::Quoted, [_, name @ .., _])) = words.token()? else { return None };
    (words.token()? == (TokenKind::Symbol, b".")).then(|| is_system_keyspace(name))
}

#[cfg(test)]
mod tests {
    use super::CqlStatement;

    fn verb_and_system(text: &str) -> (Option<&'static str>, Option<bool>) {
        let statement = CqlStatement::parse(text.as_bytes());
        (statement.verb, statement.system)
    }

    #[test]
    fn the_verb_is_the_first_word_behind_comments() {
        assert_eq!(verb_and_system("select a from t").0, Some("SELECT"));
        assert_eq!(verb_and_system("\n -- a comment\n /* and /* another */ // third\nInsert INTO t").0, Some("INSERT"));
        assert_eq!(verb_and_system("BEGIN UNLOGGED BATCH INSERT INTO t").0, Some("BATCH"));
        assert_eq!(verb_and_system("begin batch using timestamp 1 update t").0, Some("BATCH"));
        assert_eq!(verb_and_system("BEGIN TRANSACTION LET a = (SELECT * FROM t WHERE k = 1);").0, Some("TRANSACTION"));
        assert_eq!(verb_and_system("BEGIN").0, None);
        assert_eq!(verb_and_system("desc tables").0, Some("DESCRIBE"));
        assert_eq!(verb_and_system("frobnicate"), (None, None));
        assert_eq!(verb_and_system(""), (None, None));
        assert_eq!(verb_and_system("-- nothing else"), (None, None));
        assert_eq!(verb_and_system("/* not closed SELECT"), (None, None));
    }

    #[test]
    fn tables_of_the_server_are_told_by_their_keyspace() {
        assert_eq!(verb_and_system("SELECT a, b FROM system.peers WHERE x = 1").1, Some(true));
        assert_eq!(verb_and_system("SELECT a FROM System_Schema . tables").1, Some(true));
        assert_eq!(verb_and_system("SELECT a FROM \"system_auth\".roles").1, Some(true));
        assert_eq!(verb_and_system("INSERT INTO system_traces.events (a) VALUES (1)").1, Some(true));
        assert_eq!(verb_and_system("UPDATE system.local SET a = 1").1, Some(true));
        assert_eq!(verb_and_system("DELETE a FROM system.local").1, Some(true));
    }

    #[test]
    fn other_tables_are_not_whatever_their_names_remind_of() {
        assert_eq!(verb_and_system("SELECT a FROM lab.system").1, Some(false));
        assert_eq!(verb_and_system("SELECT a FROM system").1, None);
        assert_eq!(
            verb_and_system("SELECT \"FROM\", 'FROM system.local', $$FROM system.peers$$ FROM lab.t").1,
            Some(false)
        );
        assert_eq!(verb_and_system("SELECT a FROM lab.t WHERE b = 'x' AND c = 'FROM system.local'").1, Some(false));
        assert_eq!(verb_and_system("SELECT a FROM").1, None);
        assert_eq!(verb_and_system("SELECT a FROM 'x").1, None);
        assert_eq!(verb_and_system("SELECT a FROM \"not closed").1, None);
    }
}
