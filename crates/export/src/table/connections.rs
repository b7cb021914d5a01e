//! The table `connections`.

use super::{Column, Field, Kind, Values, WINDOW, column, integer, text};
use overhead_model::{ConnectionSummary, DecidedBy};
use parquet::data_type::ByteArray;

/// Connections that are written together.
pub const ROWS: usize = 1 << 13;

/// A connection that has ended, with its number in the capture.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its number.
    pub number: u64,
    /// The period whose window it is of; `None` where all of the time was captured.
    pub window: Option<u64>,
    /// What there is to say of it.
    pub summary: ConnectionSummary,
}

/// Returns the column of the window that it was captured in.
fn window() -> Field<Vec<Ended>> {
    let numbers = |list: &Vec<Ended>| list.iter().map(|ended| ended.window.and_then(integer)).collect();
    Field::new(column("window", Kind::Integer, "", WINDOW), move |list| Values::Integers(numbers(list))).nullable()
}

/// Returns the columns.
pub fn fields() -> Vec<Field<Vec<Ended>>> {
    fn integers(column: Column, of: fn(&Ended) -> u64) -> Field<Vec<Ended>> {
        Field::new(column, move |list: &Vec<Ended>| {
            Values::Integers(list.iter().map(|ended| integer(of(ended))).collect())
        })
    }
    fn texts(name: &str, description: &str, of: fn(&ConnectionSummary) -> Option<ByteArray>) -> Field<Vec<Ended>> {
        let values = move |list: &Vec<Ended>| Values::Texts(list.iter().map(|ended| of(&ended.summary)).collect());
        Field::new(column(name, Kind::Text, "", description), values)
    }
    let counts = |name: &str, unit, description: &str, of| integers(column(name, Kind::Integer, unit, description), of);
    vec![
        counts("connection_id", "", "number of the connection in its run, in the order of first frames", |ended| {
            ended.number
        }),
        window(),
        texts("client", "address:port of the client, or the name of its process", |summary| {
            text(&summary.client_name())
        }),
        texts("server", "address:port of the server, or the path of its socket", |summary| {
            text(&summary.server_name())
        }),
        texts("protocol", "protocol that it was decoded as", |summary| text(summary.protocol.name())),
        texts("transport", "tcp, unix or tls-plaintext", |summary| text(summary.transport.name())),
        texts("server_software", "as the server named itself; absent where it did not", |summary| {
            summary.server_software.as_deref().and_then(text)
        })
        .nullable(),
        texts("client_software", "as the client or its driver named itself; absent where it did not", |summary| {
            summary.client_software.as_deref().and_then(text)
        })
        .nullable(),
        Field::new(column("tls", Kind::Flag, "", "TLS records were seen"), |list: &Vec<Ended>| {
            Values::Flags(list.iter().map(|ended| Some(ended.summary.tls)).collect())
        }),
        texts("server_decided_by", "how the server's side was told: syn, port, content or socket", |summary| {
            text(match summary.server_decided_by {
                DecidedBy::Syn => "syn",
                DecidedBy::Port => "port",
                DecidedBy::Content => "content",
                DecidedBy::Socket => "socket",
            })
        }),
        counts("first_ns", "ns", "capture time of its first frame, Unix time", |Ended { summary, .. }| {
            summary.first_ns
        }),
        counts(
            "operations",
            "1",
            "operations on it, CONNECT and the class unmatched left out",
            |Ended { summary, .. }| summary.operations,
        ),
        counts("wire_bytes", "bytes", "bytes of its frames on the wire, both ways", |Ended { summary, .. }| {
            summary.wire_bytes
        }),
        counts("payload_bytes", "bytes", "TCP payload, both ways, each byte once", |Ended { summary, .. }| {
            summary.payload_bytes
        }),
    ]
}
