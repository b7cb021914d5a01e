//! The tables `agent_flows` and `agent_statements`, whose rows `overhead agent` hands over.

use super::{ExportField, columns};
use overhead_model::agent_rows::{AgentFlowRow, AgentRowKey, AgentStatementRow};

/// Returns the columns that both tables have. All rows of a file are of the same time.
fn key_fields<R: 'static>(span_ns: [u64; 2], key: fn(&R) -> &AgentRowKey) -> Vec<ExportField<Vec<R>>> {
    let time = |name, about, ns: u64| {
        ExportField::integers(name, "ns", about, move |rows: &Vec<R>| vec![super::integer(ns); rows.len()])
    };
    let text = |name, about, of: fn(&AgentRowKey) -> &str| {
        ExportField::texts(name, about, move |rows: &Vec<R>| rows.iter().map(|row| super::text(of(key(row)))).collect())
    };
    vec![
        time("start_ns", "beginning of the row's time, Unix time", span_ns[0]),
        time("end_ns", "its end", span_ns[1]),
        text("seen_at", "whose sockets were counted: server, or client if the server is elsewhere", |key| &key.seen_at),
        text("server", "address:port of the server, or :port if the agent leaves out addresses", |key| &key.server),
        text("system", "system of the server, or the protocol that usually has its port", |key| &key.system),
        text("container", "container of the server; empty if it is in none", |key| &key.container),
        text("client_zone", "zone of the client's address", |key| &key.client_zone),
        text("server_zone", "zone of the server's address", |key| &key.server_zone),
    ]
}

const COST: &str = "billionths of the price's unit: what the bytes cost; absent without a price";

pub fn flow_fields(span_ns: [u64; 2]) -> Vec<ExportField<Vec<AgentFlowRow>>> {
    type FlowField = ExportField<Vec<AgentFlowRow>>;
    let mut fields = key_fields(span_ns, |row: &AgentFlowRow| &row.key);
    fields.extend(columns! { FlowField |row|
        text "client", "address of the client; (other) for clients that share a row" => row.client.as_str().into();
        text "client_name", "name of the client's service or process; empty if it has none" => row.client_name.as_str().into();
        text "client_container",
            "container of the client; empty if it is in none of this host" => row.client_container.as_str().into();
        number "request_wire_bytes" ["bytes"], "bytes on the wire, client to server" => row.wire_bytes[0];
        number "response_wire_bytes" ["bytes"], "bytes on the wire, server to client" => row.wire_bytes[1];
        number "request_payload_bytes" ["bytes"], "TCP payload, client to server" => row.payload_bytes[0];
        number "response_payload_bytes" ["bytes"], "TCP payload, server to client" => row.payload_bytes[1];
        number "request_segments" ["1"], "TCP segments, client to server" => row.segments[0];
        number "response_segments" ["1"], "TCP segments, server to client" => row.segments[1];
        number "retransmitted_segments" ["1"], "segments that this host sent again" => row.retransmitted_segments;
        number "connections_opened" ["1"], "connections opened" => row.opened;
        number "connections_closed" ["1"], "connections closed" => row.closed;
        number "round_trip_us" ["us"], "sum of TCP's smoothed round-trip times" => row.round_trip_us;
        number "round_trips" ["1"], "round-trip times in this sum" => row.round_trips;
        maybe "cost_nano" ["1e-9"], COST => row.cost_nano;
    });
    fields
}

pub fn statement_fields(span_ns: [u64; 2]) -> Vec<ExportField<Vec<AgentStatementRow>>> {
    type StatementField = ExportField<Vec<AgentStatementRow>>;
    let mut fields = key_fields(span_ns, |row: &AgentStatementRow| &row.key);
    fields.extend(columns! { StatementField |row|
        text "class", "workload, setup, background or unmatched; empty if unknown" => row.class.as_str().into();
        text "protocol", "protocol; empty if unknown" => row.protocol.as_str().into();
        text "name", "name of the operations; (other), (unfinished) or (unknown)" => row.name.as_str().into();
        text "text", "the statement, without user data; empty if there is none" => row.text.as_str().into();
        number "request_wire_bytes" ["bytes"],
            "estimated bytes on the wire, client to server; all rows add up to those of agent_flows" => row.wire_bytes[0];
        number "response_wire_bytes" ["bytes"], "estimated bytes on the wire, server to client" => row.wire_bytes[1];
        maybe "wire_bytes_interval" ["bytes"],
            "half of the 95% interval of the bytes, both ways; absent if too few windows have the statement" => row.wire_bytes_interval;
        number "operations" ["1"], "estimated operations" => row.operations;
        maybe "operations_interval" ["1"], "half of their 95% interval; absent likewise" => row.operations_interval;
        maybe "cost_nano" ["1e-9"], COST => row.cost_nano;
    });
    fields
}
