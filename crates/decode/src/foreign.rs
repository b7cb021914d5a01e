//! Protocols that appear on a selected connection but are not the expected one.

use overhead_model::Protocol;
use std::fmt;

/// The protocol that bytes look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ApparentProtocol {
    /// A protocol that is decoded.
    Ours(Protocol),
    Http2,
    /// TLS whose start was not captured, or that started mid-connection.
    Tls,
    Kafka,
    Tds,
    Amqp,
    Nats,
    Mqtt,
    Zmtp,
    Tns,
    Thrift,
    /// `MySQL`'s X Protocol, which has its own port.
    MysqlX,
    Ssh,
    /// An additional subflow of Multipath TCP, which carries part of a connection's payload (RFC 8684).
    Subflow,
    /// Joined midway, and the rest could belong to a decoded protocol.
    Undecided,
    Unknown,
}

impl fmt::Display for ApparentProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ours(protocol) => protocol.title(),
            Self::Http2 => "HTTP/2",
            Self::Tls => "TLS",
            Self::Kafka => "Kafka",
            Self::Tds => "TDS (SQL Server)",
            Self::Amqp => "AMQP",
            Self::Nats => "NATS",
            Self::Mqtt => "MQTT",
            Self::Zmtp => "ZMTP (ZeroMQ)",
            Self::Tns => "Oracle TNS",
            Self::Thrift => "Thrift",
            Self::MysqlX => "MySQL's X Protocol",
            Self::Ssh => "SSH",
            Self::Subflow => "a subflow of Multipath TCP",
            Self::Undecided => "several protocols",
            Self::Unknown => "another protocol",
        })
    }
}

/// Connections of an unexpected protocol, or of one that is not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ForeignTraffic {
    /// The server's port; 0 for the total of unlisted ones.
    pub port: u16,
    pub look: ApparentProtocol,
    /// The protocol expected on the port; `None` if content decides.
    pub expected: Option<Protocol>,
}

impl ForeignTraffic {
    /// The total of unlisted ones.
    pub const FURTHER: Self = Self { port: 0, look: ApparentProtocol::Unknown, expected: None };
}
