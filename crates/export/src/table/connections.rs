//! The table `connections`.

use super::{ExportField, WINDOW, columns};
use overhead_model::ConnectionSummary;

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
    columns! { ConnectionField |row|
        number "connection_id" [""], "number of the connection in its run, in the order of first frames" => row.number;
        maybe "window" [""], WINDOW => row.window;
        text "client", "address:port of the client, or the name of its process" => row.summary.client_name().into();
        text "server", "address:port of the server, or the path of its socket" => row.summary.server_name().into();
        text "protocol", "protocol that it was decoded as" => row.summary.protocol.name().into();
        text "transport", "tcp, unix or tls-plaintext" => row.summary.transport.name().into();
        maybe_text "server_software",
            "as the server named itself; absent if it did not" => row.summary.server_software.as_deref();
        maybe_text "client_software",
            "as the client or its driver named itself; absent if it did not" => row.summary.client_software.as_deref();
        flag "tls", "TLS records were seen" => row.summary.tls;
        text "server_decided_by",
            "how the server's side was found: syn, port, content or socket" => row.summary.server_decided_by.name().into();
        number "first_ns" ["ns"], "capture time of its first frame, Unix time" => row.summary.first_ns;
        number "operations" ["1"],
            "operations on it, CONNECT and the class unmatched left out" => row.summary.operations;
        number "wire_bytes" ["bytes"], "bytes of its frames on the wire, both ways" => row.summary.wire_bytes;
        number "payload_bytes" ["bytes"], "TCP payload, both ways, each byte once" => row.summary.payload_bytes;
    }
}
