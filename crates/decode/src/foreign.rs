//! What bytes of another protocol look like, as a note says it.

use overhead_model::Protocol;
use std::fmt;

/// What bytes look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Look {
    /// One of the protocols that are decoded.
    Ours(Protocol),
    /// HTTP/2.
    Http2,
    /// TLS whose beginning was not captured, or on a connection that had begun without.
    Tls,
    /// Kafka.
    Kafka,
    /// The X Protocol of `MySQL`, on a port of its own.
    MysqlX,
    /// SSH.
    Ssh,
    /// A further subflow of Multipath TCP, which has a part of a connection's payload (RFC 8684).
    Subflow,
    /// None of these.
    Unknown,
}

impl fmt::Display for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ours(protocol) => protocol.title(),
            Self::Http2 => "HTTP/2",
            Self::Tls => "TLS",
            Self::Kafka => "Kafka",
            Self::MysqlX => "MySQL's X Protocol",
            Self::Ssh => "SSH",
            Self::Subflow => "a subflow of Multipath TCP",
            Self::Unknown => "another protocol",
        })
    }
}

/// Connections of another protocol than was expected, or of none that is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Foreign {
    /// The server's port; 0 for the sum of what is not counted apart.
    pub port: u16,
    /// What their bytes look like.
    pub look: Look,
    /// The protocol that the port was to be decoded as; `None` where the protocol was to be told by content.
    pub expected: Option<Protocol>,
}

impl Foreign {
    /// What is not counted apart.
    pub const FURTHER: Self = Self { port: 0, look: Look::Unknown, expected: None };
}
