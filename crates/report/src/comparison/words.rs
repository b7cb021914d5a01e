//! Why each protocol has the bytes that it has. Causes are written here; amounts never are.

use super::topics::Topic;
use crate::text::clean;
use overhead_model::Side;
use overhead_model::record::OperationRow;

/// `SELECT (prepared)`.
pub(super) fn label(row: &OperationRow) -> String {
    let name = clean(&row.name);
    if row.via.is_empty() { name } else { format!("{name} ({})", clean(&row.via)) }
}

/// Why a protocol has bytes of this topic, as the beginning of a sentence; `None` where the fields speak for themselves.
pub(super) fn reason(protocol: &str, topic: Topic, side: Side) -> Option<&'static str> {
    let because = match (protocol, topic, side) {
        ("cql", Topic::Columns, _) => {
            "the columns are described in every answer, because the driver does not ask the server to leave that out"
        }
        ("cql", Topic::Namespace, _) => {
            "the description begins with keyspace and table, though the statement names them"
        }
        ("cql", Topic::Elements, _) => {
            "a list is a count and, before each element, its length, though all of them are `int`"
        }
        ("cql", Topic::Statement, _) => "a prepared statement is named by 16 bytes, a hash that the server made",
        ("cql", Topic::Steering, _) => "each request carries its consistency levels and flags",
        ("cql", Topic::Messages, Side::Response) => "header, and the kind of the result",
        ("cql", Topic::Values, _) => "each value has its length before it, values of fixed size too",
        ("pgwire", Topic::Columns, Side::Request) => "the driver asks for a description of the statement",
        ("pgwire", Topic::Columns, _) => "the statement is described in the answer, because the driver asked",
        ("pgwire", Topic::Elements, _) => {
            "an array has a header of dimensions, bounds and element type and, before each element, its length"
        }
        ("pgwire", Topic::Statement, _) => "a prepared statement is named by the short name that the driver gave it",
        ("pgwire", Topic::Steering, _) => "formats of parameters and results, and a limit of rows",
        ("pgwire", Topic::Messages, Side::Request) => {
            "three messages, Bind, Execute and Sync, each with a type and a length"
        }
        ("pgwire", Topic::Messages, _) => "a message for every step: bound, rows, completed, ready",
        ("pgwire", Topic::Values, _) => "each value has its length before it",
        ("pgwire", Topic::Outcome, _) => "a command tag in words, and the state of the transaction",
        ("mongo", Topic::Session, _) => {
            "the driver opens a session of its own accord, and each request names it by a UUID"
        }
        ("mongo", Topic::Envelope, Side::Request) => "a command is a document, with the names of its options in it",
        ("mongo", Topic::Envelope, _) => {
            "an answer is a document: a cursor with its id, its namespace and its first batch"
        }
        ("mongo", Topic::Columns, _) => "each document carries the names of its own fields",
        ("mongo", Topic::Elements, _) => "an element of an array has a type byte and its index as text with a NUL",
        ("mongo", Topic::Values, _) => "a type byte, a NUL behind each name, lengths of documents and strings",
        ("mongo", Topic::Statement, _) => "there are no prepared statements: command and collection by name",
        ("mongo", Topic::Messages, _) => "a header of 16 bytes, flags, the kind of the section",
        ("mongo", Topic::Outcome, _) => "`ok` and counts, by name",
        ("resp", Topic::Messages, _) => "an argument count, and a CRLF behind every part",
        ("resp", Topic::Values, _) => "lengths in decimal digits",
        ("resp", Topic::Statement, _) => "the command word",
        ("resp", Topic::Data, _) => "the row is one value, which the server does not look into; keys are decimal text",
        _ => return None,
    };
    Some(because)
}
