//! Finds the verb of a CQL text, and whether it uses the server's keyspaces.

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

pub(super) fn is_system_keyspace(name: &[u8]) -> bool {
    SYSTEM_KEYSPACES.iter().any(|system| name.eq_ignore_ascii_case(system.as_bytes()))
}

impl CqlStatement {
    pub fn of(text: &[u8]) -> Self {
        let mut tokens = CqlLexer { text };
        let Some(CqlToken::Word(first)) = tokens.next() else {
            return Self { verb: None, system: None };
        };
        let verb = VERBS.iter().copied().find(|verb| is(first, verb)).or_else(|| {
            if is(first, "DESC") {
                Some("DESCRIBE")
            } else {
                is(first, "BEGIN").then(|| tokens.batch_or_transaction()).flatten()
            }
        });
        let system = match verb {
            Some("SELECT" | "DELETE") => tokens.keyspace_after("FROM"),
            Some("INSERT") => tokens.keyspace_after("INTO"),
            Some("UPDATE") => {
                let first = tokens.next();
                tokens.keyspace_of(first)
            }
            _ => None,
        };
        Self { verb, system }
    }
}

fn is(word: &[u8], keyword: &str) -> bool {
    word.eq_ignore_ascii_case(keyword.as_bytes())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CqlToken<'a> {
    /// A keyword, a name or a number.
    Word(&'a [u8]),
    /// A name in double quotes, without them.
    Quoted(&'a [u8]),
    /// A string in single quotes or dollars.
    Text,
    Mark(u8),
}

struct CqlLexer<'a> {
    text: &'a [u8],
}

impl<'a> CqlLexer<'a> {
    /// After `BEGIN`, distinguishes a batch (`BEGIN UNLOGGED BATCH`) from a transaction of Cassandra 6.
    fn batch_or_transaction(&mut self) -> Option<&'static str> {
        let names = ["BATCH", "TRANSACTION"];
        self.take(2)
            .find_map(|token| names.into_iter().find(|name| matches!(token, CqlToken::Word(word) if is(word, name))))
    }

    /// Returns whether the table after `keyword` is the server's.
    fn keyspace_after(&mut self, keyword: &str) -> Option<bool> {
        loop {
            match self.next()? {
                CqlToken::Word(word) if is(word, keyword) => break,
                _ => {}
            }
        }
        let name = self.next();
        self.keyspace_of(name)
    }

    /// Returns whether `name` is a keyspace of the server; `None` unless a dot follows.
    fn keyspace_of(&mut self, name: Option<CqlToken<'a>>) -> Option<bool> {
        let (CqlToken::Word(name) | CqlToken::Quoted(name)) = name? else {
            return None;
        };
        (self.next()? == CqlToken::Mark(b'.')).then(|| is_system_keyspace(name))
    }

    fn skip_to(&mut self, end: Option<usize>) {
        self.text = end.and_then(|end| self.text.get(end..)).unwrap_or_default();
    }

    /// Skips white space and comments.
    fn skip_blanks(&mut self) {
        loop {
            self.text = self.text.trim_ascii_start();
            match self.text {
                [b'-', b'-', ..] | [b'/', b'/', ..] => self.skip_to(memchr::memchr(b'\n', self.text)),
                [b'/', b'*', ..] => self.skip_to(memchr::memmem::find(self.text, b"*/").map(|at| at + 2)),
                _ => return,
            }
        }
    }
}

impl<'a> Iterator for CqlLexer<'a> {
    type Item = CqlToken<'a>;

    fn next(&mut self) -> Option<CqlToken<'a>> {
        self.skip_blanks();
        let text = self.text;
        match *text.first()? {
            quote @ (b'\'' | b'"') => {
                let inside = text.get(1..)?;
                let end = memchr::memchr(quote, inside);
                self.skip_to(end.map(|end| end + 2));
                let inside = inside.get(..end.unwrap_or(inside.len())).unwrap_or_default();
                Some(if quote == b'"' { CqlToken::Quoted(inside) } else { CqlToken::Text })
            }
            b'$' if text.starts_with(b"$$") => {
                let end = memchr::memmem::find(text.get(2..)?, b"$$");
                self.skip_to(end.map(|end| end + 4));
                Some(CqlToken::Text)
            }
            byte if byte.is_ascii_alphanumeric() || byte == b'_' => {
                let inside = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
                let end = text.iter().position(|byte| !inside(byte)).unwrap_or(text.len());
                let (word, rest) = text.split_at_checked(end)?;
                self.text = rest;
                Some(CqlToken::Word(word))
            }
            mark => {
                self.skip_to(Some(1));
                Some(CqlToken::Mark(mark))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CqlStatement;

    fn of(text: &str) -> (Option<&'static str>, Option<bool>) {
        let statement = CqlStatement::of(text.as_bytes());
        (statement.verb, statement.system)
    }

    #[test]
    fn the_verb_is_the_first_word_behind_comments() {
        assert_eq!(of("select a from t").0, Some("SELECT"));
        assert_eq!(of("\n -- a comment\n /* and /* another */ // third\nInsert INTO t").0, Some("INSERT"));
        assert_eq!(of("BEGIN UNLOGGED BATCH INSERT INTO t").0, Some("BATCH"));
        assert_eq!(of("begin batch using timestamp 1 update t").0, Some("BATCH"));
        assert_eq!(of("BEGIN TRANSACTION LET a = (SELECT * FROM t WHERE k = 1);").0, Some("TRANSACTION"));
        assert_eq!(of("BEGIN").0, None);
        assert_eq!(of("desc tables").0, Some("DESCRIBE"));
        assert_eq!(of("frobnicate"), (None, None));
        assert_eq!(of(""), (None, None));
        assert_eq!(of("-- nothing else"), (None, None));
        assert_eq!(of("/* not closed SELECT"), (None, None));
    }

    #[test]
    fn tables_of_the_server_are_told_by_their_keyspace() {
        assert_eq!(of("SELECT a, b FROM system.peers WHERE x = 1").1, Some(true));
        assert_eq!(of("SELECT a FROM System_Schema . tables").1, Some(true));
        assert_eq!(of("SELECT a FROM \"system_auth\".roles").1, Some(true));
        assert_eq!(of("INSERT INTO system_traces.events (a) VALUES (1)").1, Some(true));
        assert_eq!(of("UPDATE system.local SET a = 1").1, Some(true));
        assert_eq!(of("DELETE a FROM system.local").1, Some(true));
    }

    #[test]
    fn other_tables_are_not_whatever_their_names_remind_of() {
        assert_eq!(of("SELECT a FROM lab.system").1, Some(false));
        assert_eq!(of("SELECT a FROM system").1, None);
        assert_eq!(of("SELECT \"FROM\", 'FROM system.local', $$FROM system.peers$$ FROM lab.t").1, Some(false));
        assert_eq!(of("SELECT a FROM lab.t WHERE b = 'x' AND c = 'FROM system.local'").1, Some(false));
        assert_eq!(of("SELECT a FROM").1, None);
        assert_eq!(of("SELECT a FROM 'x").1, None);
        assert_eq!(of("SELECT a FROM \"not closed").1, None);
    }
}
