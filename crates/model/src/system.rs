//! Database systems and their wire protocols.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// Generates [`Protocol`] and the list of systems.
macro_rules! protocols {
    ($($(#[$doc:meta])* $variant:ident {
        name: $name:literal,
        title: $title:literal,
        ports: $ports:expr,
        schemes: $schemes:expr,
        tls_schemes: $tls_schemes:expr,
        otel_names: $otel_names:expr,
        has_tables: $has_tables:literal,
        systems: { $($system:literal: $port:literal),+ $(,)? },
    })+) => {
        /// A wire protocol that can be decoded, identified in records by [`Protocol::name`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Protocol {
            $($(#[$doc])* $variant,)+
        }

        impl Protocol {
            pub const COUNT: usize = [$(Self::$variant),+].len();

            const fn facts(self) -> Facts {
                match self {
                    $(Self::$variant => Facts {
                        name: $name,
                        title: $title,
                        ports: &$ports,
                        schemes: &$schemes,
                        tls_schemes: &$tls_schemes,
                        otel_names: &$otel_names,
                        has_tables: $has_tables,
                    },)+
                }
            }
        }

        impl System {
            /// All names that `--db` accepts, grouped by protocol, most common first.
            pub const ALL: &'static [Self] =
                &[$($(Self { name: $system, protocol: Protocol::$variant, port: $port },)+)+];
        }
    };
}

protocols! {
    Resp {
        name: "resp",
        title: "Redis (RESP)",
        ports: [6379],
        schemes: ["redis", "valkey"],
        tls_schemes: ["rediss", "valkeys"],
        otel_names: [],
        has_tables: false,
        systems: {
            "redis": 6379, "redis-server": 6379, "valkey": 6379, "valkey-server": 6379, "keydb": 6379,
            "dragonfly": 6379, "dragonflydb": 6379, "garnet": 6379, "pika": 9221, "resp": 6379,
        },
    }
    Cql {
        name: "cql",
        title: "Cassandra (CQL)",
        ports: [9042, 19042],
        schemes: ["cql", "cassandra", "scylla"],
        tls_schemes: [],
        otel_names: [],
        has_tables: true,
        systems: { "cassandra": 9042, "scylla": 9042, "scylladb": 9042, "cql": 9042 },
    }
    Pgwire {
        name: "pgwire",
        title: "PostgreSQL",
        ports: [5432],
        schemes: ["postgres", "postgresql"],
        tls_schemes: [],
        otel_names: [("postgres", "postgresql")],
        has_tables: true,
        systems: {
            "postgres": 5432, "postgresql": 5432, "pg": 5432, "cockroach": 26257, "cockroachdb": 26257,
            "yugabyte": 5433, "yugabytedb": 5433, "greenplum": 5432, "pgwire": 5432,
        },
    }
    Mysql {
        name: "mysql",
        title: "MySQL",
        ports: [3306],
        schemes: ["mysql", "mariadb"],
        tls_schemes: [],
        otel_names: [],
        has_tables: true,
        systems: {
            "mysql": 3306, "mysqld": 3306, "mariadb": 3306, "percona": 3306, "tidb": 4000, "oceanbase": 2881,
            "polardb-x": 8527,
        },
    }
    Mongo {
        name: "mongo",
        title: "MongoDB",
        ports: [27017, 27018, 27019],
        schemes: ["mongodb"],
        tls_schemes: [],
        otel_names: [],
        has_tables: false,
        systems: { "mongodb": 27017, "mongod": 27017, "ferretdb": 27017, "mongo": 27017 },
    }
    Http {
        name: "http",
        title: "HTTP",
        ports: [80, 8080],
        schemes: ["http"],
        tls_schemes: ["https"],
        otel_names: [],
        has_tables: false,
        systems: {
            "http": 80, "https": 443, "rocksserver": 5577, "elasticsearch": 9200, "couchdb": 5984,
            "clickhouse": 8123,
        },
    }
    Ssdb {
        name: "ssdb",
        title: "SSDB",
        ports: [8888],
        schemes: ["ssdb"],
        tls_schemes: [],
        otel_names: [],
        has_tables: false,
        systems: { "ssdb": 8888 },
    }
    Memcache {
        name: "memcache",
        title: "memcached",
        ports: [11211],
        schemes: ["memcache", "memcached"],
        tls_schemes: [],
        otel_names: [("memcache", "memcached")],
        has_tables: false,
        systems: { "memcached": 11211, "pogocache": 9401, "memcache": 11211 },
    }
}

/// Names and ports of a protocol.
struct Facts {
    name: &'static str,
    title: &'static str,
    ports: &'static [u16],
    schemes: &'static [&'static str],
    tls_schemes: &'static [&'static str],
    /// Names of systems or of the protocol, and their values of `db.system.name` in OpenTelemetry's semantic conventions, if these
    /// differ.
    otel_names: &'static [(&'static str, &'static str)],
    has_tables: bool,
}

impl Protocol {
    /// All protocols in the order of content detection: the most conclusive first bytes come first.
    pub const ALL: [Self; Self::COUNT] =
        [Self::Mongo, Self::Cql, Self::Mysql, Self::Pgwire, Self::Http, Self::Ssdb, Self::Memcache, Self::Resp];

    /// Returns the name in records and on the command line.
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// Finds a protocol by its name in records.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.name() == name)
    }

    /// Returns the readable name, usually of the system it was made for.
    pub const fn title(self) -> &'static str {
        self.facts().title
    }

    /// Returns the usual server ports, most common first.
    pub const fn ports(self) -> &'static [u16] {
        self.facts().ports
    }

    /// Returns the URL schemes of its servers.
    pub fn schemes(self) -> impl Iterator<Item = &'static str> {
        self.facts().schemes.iter().chain(self.facts().tls_schemes).copied()
    }

    /// Returns whether its statements are texts that name tables, as in SQL.
    pub const fn has_tables(self) -> bool {
        self.facts().has_tables
    }

    /// Returns whether URLs with this scheme request TLS.
    pub fn is_tls_scheme(self, scheme: &str) -> bool {
        self.facts().tls_schemes.contains(&scheme)
    }
}

const _: () = assert!(is_permutation(Protocol::ALL), "each protocol is tried once");

const fn is_permutation(all: [Protocol; Protocol::COUNT]) -> bool {
    let (mut seen, mut at) = ([false; Protocol::COUNT], 0);
    while at < all.len() {
        if seen[all[at] as usize] {
            return false;
        }
        seen[all[at] as usize] = true;
        at += 1;
    }
    true
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An argument of `--db`: a system, or a protocol by its own name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct System {
    pub name: &'static str,
    pub protocol: Protocol,
    /// The usual port of its servers.
    pub port: u16,
}

impl Serialize for Protocol {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Protocol {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::named(&name).ok_or_else(|| de::Error::custom(format_args!("unknown protocol {name}")))
    }
}

impl System {
    /// Finds a system by name, in any letter case.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|system| system.name.eq_ignore_ascii_case(name))
    }

    /// Returns the value of OpenTelemetry's `db.system.name` for the name of a system or protocol.
    pub fn otel_name(name: &str) -> &str {
        let mut differing = Protocol::ALL.iter().flat_map(|protocol| protocol.facts().otel_names);
        differing.find(|(own, _)| *own == name).map_or(name, |(_, value)| value)
    }

    /// A TLS library that passes its secrets to no key log.
    pub const JAVA: &'static str = "Java's own TLS";

    /// Returns the library with which its usual builds encrypt; `None` if builds differ, or it does not encrypt.
    pub fn tls_library(self) -> Option<&'static str> {
        Some(match self.name {
            "redis" | "redis-server" | "valkey" | "valkey-server" | "keydb" | "postgres" | "postgresql" | "pg"
            | "greenplum" | "mysql" | "mysqld" | "mariadb" | "percona" | "mongodb" | "mongod" | "mongo"
            | "memcached" => "OpenSSL",
            "cassandra" | "elasticsearch" => Self::JAVA,
            "scylla" | "scylladb" => "GnuTLS",
            "cockroach" | "cockroachdb" | "ferretdb" | "tidb" => "Go's crypto/tls",
            _ => return None,
        })
    }

    /// Returns the most common system of a protocol.
    pub fn default_for(protocol: Protocol) -> Option<Self> {
        Self::ALL.iter().copied().find(|system| system.protocol == protocol)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_used_once_and_each_protocol_goes_by_its_own() {
        for (index, system) in System::ALL.iter().enumerate() {
            assert!(System::ALL[..index].iter().all(|other| other.name != system.name), "{}", system.name);
        }
        for protocol in Protocol::ALL {
            let named = System::named(protocol.name()).map(|system| (system.protocol, system.port));
            assert_eq!(named, protocol.ports().first().map(|&port| (protocol, port)), "{protocol}");
            assert_eq!(Protocol::named(protocol.name()), Some(protocol));
        }
    }

    #[test]
    fn no_port_and_no_scheme_is_of_two_protocols() {
        for protocol in Protocol::ALL {
            for other in Protocol::ALL.into_iter().filter(|other| *other != protocol) {
                assert!(protocol.ports().iter().all(|port| !other.ports().contains(port)), "{protocol} {other}");
                assert!(protocol.schemes().all(|scheme| other.schemes().all(|of| of != scheme)), "{protocol} {other}");
            }
        }
    }

    #[test]
    fn systems_go_by_the_names_that_people_use() {
        for (names, protocol, port) in [
            (&["redis", "Redis", "redis-server", "valkey", "resp"][..], Protocol::Resp, 6379),
            (&["cassandra", "scylla", "scylladb", "cql"], Protocol::Cql, 9042),
            (&["postgres", "postgresql", "pg", "PostgreSQL", "pgwire"], Protocol::Pgwire, 5432),
            (&["cockroach", "cockroachdb"], Protocol::Pgwire, 26257),
            (&["yugabyte", "yugabytedb"], Protocol::Pgwire, 5433),
            (&["mysql", "mysqld", "mariadb", "Percona"], Protocol::Mysql, 3306),
            (&["tidb"], Protocol::Mysql, 4000),
            (&["oceanbase"], Protocol::Mysql, 2881),
            (&["polardb-x"], Protocol::Mysql, 8527),
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
