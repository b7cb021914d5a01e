//! Explains the columns present in an operations table.

use super::columns::OperationColumn;
use super::rows::TableRows;
use crate::bounds::lower_bounds;
use OperationColumn as Of;
use overhead_model::record::Price;

/// Start and end of a latency.
const LATENCY: &str = "latency: from the frame with the first byte of the request to the frame with the last byte of the \
response, at the capture point, not the client's";

/// Explains these columns, one line for each that needs it.
pub(crate) fn legend(table: &TableRows<'_>, columns: &[OperationColumn]) -> Vec<String> {
    let has = |wanted: &[OperationColumn]| wanted.iter().any(|column| columns.contains(column));
    let latency = columns.iter().any(|column| matches!(column, Of::Latency(_)));
    let lines = [
        (has(&[Of::Via]), "via: how the operation was sent (array or inline; simple, prepared, batch, …)"),
        (
            has(&[Of::Request, Of::Response, Of::Total]),
            "B/op: bytes on the wire per operation, headers and acknowledgments included",
        ),
        (has(&[Of::Frame]), "frame: link, IP and TCP headers of frames with payload"),
        (has(&[Of::Waste]), "ack + retrans: frames without payload, and payload sent again"),
        (has(&[Of::Protocol]), "protocol: all decoded payload that is not the user's own data"),
        (has(&[Of::Share, Of::Data]), "data: the user's own keys, parameters and values, both ways"),
        (has(&[Of::Unknown]), "unknown: payload that was not decoded"),
        (has(&[Of::Unanswered]), "unanswered: no complete answer in the capture, though one was due"),
        (latency, LATENCY),
    ];
    let mut said: Vec<String> =
        lines.into_iter().filter(|(there, _)| *there).map(|(_, line)| line.to_owned()).collect();
    let common = table.common_server.as_ref().filter(|_| has(&[Of::Operation]));
    said.extend(common.map(|server| format!("connection: by the client's end; the server's is {server} of all")));
    said.extend(table.price.filter(|_| has(&[Of::CostOfMillion, Of::CostOfDay])).map(cost));
    said.extend(lower_bounds(table.run));
    said
}

fn cost(price: &Price) -> String {
    format!(
        "cost: of all bytes on the wire at {}, per million operations and per day at the rate of this run",
        price.text
    )
}
