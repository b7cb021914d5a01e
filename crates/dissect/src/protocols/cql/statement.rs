//! What a CQL text asks for: its verb, and whether it is about the server's own keyspaces.

/// A statement's verb and target, as far as naming and classing its operation needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Statement {
    /// Verb in capitals; `None` where the text begins with none that is known.
    pub verb: Option<&'static str>,
    /// True where the table is in a keyspace of the server (`system.peers`), false where it is in another, `None`
    /// where no keyspace is named.
    pub system: Option<bool>,
}

const VERBS: [&str; 17] = [
    "SELECT", "INSERT", "UPDATE", "DELETE", "USE", "CREATE", "ALTER", "DROP", "TRUNCATE", "GRANT", "REVOKE", "LIST",
    "DESCRIBE", "PRUNE", "ATTACH", "DETACH", "ADD",
];

/// Keyspaces that the servers keep for themselves (Cassandra, `ScyllaDB`, `DataStax` Enterprise).
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

/// True for the name of a keyspace of the server.
pub(super) fn is_system_keyspace(name: &[u8]) -> bool {
    SYSTEM_KEYSPACES
        .iter()
        .any(|system| name.eq_ignore_ascii_case(system.as_bytes()))
}

impl Statement {
    /// Reads as much of `text` as it takes.
    pub fn of(text: &[u8]) -> Self {
        let mut tokens = Tokens { text };
        let Some(Token::Word(first)) = tokens.next() else {
            return Self {
                verb: None,
                system: None,
            };
        };
        let verb = VERBS.iter().copied().find(|verb| is(first, verb)).or_else(|| {
            if is(first, "BEGIN") {
                Some("BATCH")
            } else {
                is(first, "DESC").then_some("DESCRIBE")
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
enum Token<'a> {
    /// A keyword, a name or a number.
    Word(&'a [u8]),
    /// A name in double quotes, without them.
    Quoted(&'a [u8]),
    /// A string in single quotes or dollars.
    Text,
    /// Any other character.
    Mark(u8),
}

struct Tokens<'a> {
    text: &'a [u8],
}

impl<'a> Tokens<'a> {
    /// Whether the table that follows `keyword` is the server's own.
    fn keyspace_after(&mut self, keyword: &str) -> Option<bool> {
        loop {
            match self.next()? {
                Token::Word(word) if is(word, keyword) => break,
                _ => {}
            }
        }
        let name = self.next();
        self.keyspace_of(name)
    }

    /// Whether `name`, where it is followed by a dot, is a keyspace of the server.
    fn keyspace_of(&mut self, name: Option<Token<'a>>) -> Option<bool> {
        let (Token::Word(name) | Token::Quoted(name)) = name? else {
            return None;
        };
        (self.next()? == Token::Mark(b'.')).then(|| is_system_keyspace(name))
    }

    fn skip_to(&mut self, end: Option<usize>) {
        self.text = end.and_then(|end| self.text.get(end..)).unwrap_or_default();
    }

    /// Passes blanks and comments.
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

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        self.skip_blanks();
        let text = self.text;
        match *text.first()? {
            quote @ (b'\'' | b'"') => {
                let inside = text.get(1..)?;
                let end = memchr::memchr(quote, inside);
                self.skip_to(end.map(|end| end + 2));
                let inside = inside.get(..end.unwrap_or(inside.len())).unwrap_or_default();
                Some(if quote == b'"' {
                    Token::Quoted(inside)
                } else {
                    Token::Text
                })
            }
            b'$' if text.starts_with(b"$$") => {
                let end = memchr::memmem::find(text.get(2..)?, b"$$");
                self.skip_to(end.map(|end| end + 4));
                Some(Token::Text)
            }
            byte if byte.is_ascii_alphanumeric() || byte == b'_' => {
                let inside = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
                let end = text.iter().position(|byte| !inside(byte)).unwrap_or(text.len());
                let (word, rest) = text.split_at_checked(end)?;
                self.text = rest;
                Some(Token::Word(word))
            }
            mark => {
                self.skip_to(Some(1));
                Some(Token::Mark(mark))
            }
        }
    }
}
