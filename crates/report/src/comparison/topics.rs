//! What the fields of protocols are for, in words that all of them share. A topic is as fine as an explanation needs it:
//! lengths of the elements of a list are one, names of columns another.

use overhead_model::record::{FieldRow, OperationRow};
use overhead_model::{Account, Protocol, Side};
use std::collections::BTreeMap;

/// What bytes are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Topic {
    /// Types, versions, lengths and identifiers of messages.
    Messages,
    /// Which statement or command: its identifier, its name or its text.
    Statement,
    /// How it is to be done.
    Steering,
    /// The session that a request belongs to.
    Session,
    /// Names and values that wrap a request or an answer without being the user's.
    Envelope,
    /// Keyspace and table, or collection, repeated.
    Namespace,
    /// Names and types of columns.
    Columns,
    /// Lengths, types and counts of values.
    Values,
    /// Lengths, types or indices of the elements of a list.
    Elements,
    /// How it went.
    Outcome,
    /// What the user stored.
    Data,
    /// Bytes that have no field of their own: compressed, encrypted, undecoded.
    Opaque,
}

impl Topic {
    /// In a table.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Messages => "message headers and ends",
            Self::Statement => "which statement",
            Self::Steering => "how to do it",
            Self::Session => "session id",
            Self::Envelope => "names and values of the envelope",
            Self::Namespace => "keyspace, table or collection",
            Self::Columns => "names and types of columns",
            Self::Values => "lengths and types of values",
            Self::Elements => "lengths, types or indices of the list's elements",
            Self::Outcome => "outcome",
            Self::Data => "the user's data",
            Self::Opaque => "compressed or undecoded",
        }
    }

    /// Returns the topic of a field.
    pub(super) fn of(protocol: &str, field: &FieldRow) -> Self {
        let path = field.field.as_str();
        match field.account {
            _ if leaf(path) == "compressed" => return Self::Opaque,
            account @ (Account::Unknown | Account::Tls | Account::Data | Account::Status) => {
                return Self::of_account(account);
            }
            _ => {}
        }
        match Protocol::named(protocol) {
            Some(Protocol::Resp) => resp(path),
            Some(Protocol::Cql) => cql(path),
            Some(Protocol::Pgwire) => pgwire(path),
            Some(Protocol::Mongo) => mongo(path),
            // Its fields are not told apart here: what is said of the account holds for any protocol.
            _ => Self::of_account(field.account),
        }
    }
}

impl Topic {
    /// Returns the topic of what is posted to an account, as far as the account tells.
    const fn of_account(account: Account) -> Self {
        match account {
            Account::Query => Self::Statement,
            Account::Metadata => Self::Steering,
            Account::Schema => Self::Columns,
            Account::Status => Self::Outcome,
            Account::Data => Self::Data,
            Account::Unknown | Account::Tls => Self::Opaque,
            _ => Self::Messages,
        }
    }
}

/// Returns the last of the names in a path.
fn leaf(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

fn cql(path: &str) -> Topic {
    match leaf(path) {
        "keyspace name" | "table name" => Topic::Namespace,
        "element length" | "element count" => Topic::Elements,
        "value length" | "value count" | "row count" => Topic::Values,
        "statement id" | "result metadata id" | "statement" => Topic::Statement,
        _ if path.contains(".metadata.") => Topic::Columns,
        "consistency" | "serial consistency" | "page size" | "timestamp" => Topic::Steering,
        "flags" if path.starts_with("EXECUTE") || path.starts_with("QUERY") => Topic::Steering,
        "string length" if path.starts_with("EXECUTE") || path.starts_with("QUERY") => Topic::Statement,
        _ => Topic::Messages,
    }
}

fn pgwire(path: &str) -> Topic {
    let in_list = path.contains(".value.") && leaf(path) != "value length";
    match leaf(path) {
        _ if in_list => Topic::Elements,
        "value length" | "parameter count" | "column count" if !path.contains("description") => Topic::Values,
        "statement name" | "portal name" | "statement" => Topic::Statement,
        _ if path.starts_with("describe") => Topic::Columns,
        "parameter type" => Topic::Columns,
        _ if path.contains("description") || path.starts_with("no data") => Topic::Columns,
        "format code" | "format count" | "row limit" => Topic::Steering,
        _ => Topic::Messages,
    }
}

/// Rows lie in `reply.cursor.document` (the batch, an array) or in `documents`; a list of a row is a document within.
fn mongo(path: &str) -> Topic {
    let row = ["OP_MSG.sections.reply.cursor.document.document.", "OP_MSG.sections.documents.document."];
    if let Some(inside) = row.iter().find_map(|prefix| path.strip_prefix(prefix)) {
        return match leaf(inside) {
            _ if inside.starts_with("document.") => Topic::Elements,
            "field name" => Topic::Columns,
            _ => Topic::Values,
        };
    }
    match leaf(path) {
        "command name" | "collection" => Topic::Statement,
        "field name" => Topic::Columns,
        _ if path.contains(".options.") => Topic::Session,
        _ if path.contains(".header.") || ["OP_MSG.flags", "OP_MSG.sections.section kind"].contains(&path) => {
            Topic::Messages
        }
        _ => Topic::Envelope,
    }
}

fn resp(path: &str) -> Topic {
    match leaf(path) {
        "command" | "subcommand" | "option" => Topic::Statement,
        "argument length" | "length" | "count" => Topic::Values,
        "null" => Topic::Outcome,
        _ => Topic::Messages,
    }
}

/// Bytes per operation of a row by side and topic; `None` where its fields were not recorded.
pub(super) fn topics(row: &OperationRow) -> Option<BTreeMap<(Side, Topic), f64>> {
    let mut sums = BTreeMap::new();
    for field in row.fields.as_ref()? {
        let topic = Topic::of(&row.protocol, field);
        *sums.entry((field.side, topic)).or_default() += field.bytes as f64 / row.samples().max(1) as f64;
    }
    Some(sums)
}
