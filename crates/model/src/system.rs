//! Database systems, and the wire protocols they speak.

use std::fmt;

/// A wire protocol that can be decoded. Its [`Protocol::name`] is what the run record calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// Redis serialization protocol, versions 2 and 3.
    Resp,
    /// Cassandra native protocol.
    Cql,
    /// PostgreSQL frontend/backend protocol 3.
    Pgwire,
    /// MongoDB wire protocol.
    Mongo,
}

impl Protocol {
    /// All protocols, in the order in which content detection tries them.
    pub const ALL: [Self; 4] = [Self::Mongo, Self::Cql, Self::Pgwire, Self::Resp];

    /// The stable identifier of the run record.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resp => "resp",
            Self::Cql => "cql",
            Self::Pgwire => "pgwire",
            Self::Mongo => "mongo",
        }
    }

    /// The server ports on which this protocol is expected, most usual first.
    pub const fn ports(self) -> &'static [u16] {
        match self {
            Self::Resp => &[6379],
            Self::Cql => &[9042, 19042],
            Self::Pgwire => &[5432],
            Self::Mongo => &[27017, 27018, 27019],
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a user can name with `--db`: a system, or a protocol by its own name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct System {
    /// The name on the command line.
    pub name: &'static str,
    /// The protocol it speaks.
    pub protocol: Protocol,
    /// The port it listens on by default.
    pub port: u16,
}

impl System {
    /// Every name that `--db` takes.
    pub const ALL: &'static [Self] = &[
        Self::new("redis", Protocol::Resp, 6379),
        Self::new("redis-server", Protocol::Resp, 6379),
        Self::new("valkey", Protocol::Resp, 6379),
        Self::new("valkey-server", Protocol::Resp, 6379),
        Self::new("keydb", Protocol::Resp, 6379),
        Self::new("dragonfly", Protocol::Resp, 6379),
        Self::new("dragonflydb", Protocol::Resp, 6379),
        Self::new("garnet", Protocol::Resp, 6379),
        Self::new("pika", Protocol::Resp, 9221),
        Self::new("ssdb", Protocol::Resp, 8888),
        Self::new("resp", Protocol::Resp, 6379),
        Self::new("cassandra", Protocol::Cql, 9042),
        Self::new("scylla", Protocol::Cql, 9042),
        Self::new("scylladb", Protocol::Cql, 9042),
        Self::new("cql", Protocol::Cql, 9042),
        Self::new("postgres", Protocol::Pgwire, 5432),
        Self::new("postgresql", Protocol::Pgwire, 5432),
        Self::new("pg", Protocol::Pgwire, 5432),
        Self::new("cockroach", Protocol::Pgwire, 26257),
        Self::new("cockroachdb", Protocol::Pgwire, 26257),
        Self::new("yugabyte", Protocol::Pgwire, 5433),
        Self::new("yugabytedb", Protocol::Pgwire, 5433),
        Self::new("greenplum", Protocol::Pgwire, 5432),
        Self::new("pgwire", Protocol::Pgwire, 5432),
        Self::new("mongodb", Protocol::Mongo, 27017),
        Self::new("mongod", Protocol::Mongo, 27017),
        Self::new("ferretdb", Protocol::Mongo, 27017),
        Self::new("mongo", Protocol::Mongo, 27017),
    ];

    const fn new(name: &'static str, protocol: Protocol, port: u16) -> Self {
        Self { name, protocol, port }
    }

    /// The system with this name, in any letter case; `None` for a name that is not known.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|system| system.name.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_go_by_the_names_that_people_use() {
        for (names, protocol, port) in [
            (&["redis", "Redis", "redis-server", "valkey", "resp"][..], Protocol::Resp, 6379),
            (&["cassandra", "scylla", "scylladb", "cql"], Protocol::Cql, 9042),
            (&["postgres", "postgresql", "pg", "PostgreSQL", "pgwire"], Protocol::Pgwire, 5432),
            (&["cockroach", "cockroachdb"], Protocol::Pgwire, 26257),
            (&["yugabyte", "yugabytedb"], Protocol::Pgwire, 5433),
            (&["mongo", "mongodb", "mongod"], Protocol::Mongo, 27017),
        ] {
            for name in names {
                assert_eq!(
                    System::named(name).map(|system| (system.protocol, system.port)),
                    Some((protocol, port)),
                    "{name}"
                );
            }
        }
    }
}
