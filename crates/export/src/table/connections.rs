//! The table `connections`.

use super::{ExportField, WINDOW, integer, text};
use overhead_model::{ConnectionSummary, DecidedBy};

/// Connections per batch.
pub const ROWS: usize = 1 << 13;

#[derive(Clone, Debug)]
pub struct ConnectionRow {
    /// Number in the capture.
    pub number: u64,
    /// Period of its window; `None` without sampling.
    pub window: Option<u64>,
    pub summary: ConnectionSummary,
}

type ConnectionField = ExportField<Vec<ConnectionRow>>;

pub fn fields() -> Vec<ConnectionField> {
    let (number, label) = (ConnectionField::integer, ConnectionField::text);
    vec![
        number("connection_id", "", "number of the connection in its run, in the order of first frames", |row| {
            integer(row.number)
        }),
        number("window", "", WINDOW, |row| row.window.and_then(integer)).nullable(),
        label("client", "address:port of the client, or the name of its process", |row| {
            text(&row.summary.client_name())
        }),
        label("server", "address:port of the server, or the path of its socket", |row| {
            text(&row.summary.server_name())
        }),
        label("protocol", "protocol that it was decoded as", |row| text(row.summary.protocol.name())),
        label("transport", "tcp, unix or tls-plaintext", |row| text(row.summary.transport.name())),
        label("server_software", "as the server named itself; absent if it did not", |row| {
            row.summary.server_software.as_deref().and_then(text)
        })
        .nullable(),
        label("client_software", "as the client or its driver named itself; absent if it did not", |row| {
            row.summary.client_software.as_deref().and_then(text)
        })
        .nullable(),
        ConnectionField::flag("tls", "TLS records were seen", |row| Some(row.summary.tls)),
        label("server_decided_by", "how the server's side was found: syn, port, content or socket", |row| {
            text(match row.summary.server_decided_by {
                DecidedBy::Syn => "syn",
                DecidedBy::Port => "port",
                DecidedBy::Content => "content",
                DecidedBy::Socket => "socket",
            })
        }),
        number("first_ns", "ns", "capture time of its first frame, Unix time", |row| integer(row.summary.first_ns)),
        number("operations", "1", "operations on it, CONNECT and the class unmatched left out", |row| {
            integer(row.summary.operations)
        }),
        number("wire_bytes", "bytes", "bytes of its frames on the wire, both ways", |row| {
            integer(row.summary.wire_bytes)
        }),
        number("payload_bytes", "bytes", "TCP payload, both ways, each byte once", |row| {
            integer(row.summary.payload_bytes)
        }),
    ]
}
