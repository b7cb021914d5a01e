//! An explanation as JSON.

use super::Explanation;
use super::text::hex;
use anyhow::Result;
use overhead_dissect::explain::{ByteVisibility, FieldPiece, FrameItem, FrameView};
use overhead_model::outside::to_json;
use overhead_model::{Amounts, Class, Outcome};
use schemars::JsonSchema;
use serde::Serialize;

/// Returns the JSON schema of an explanation.
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(ExplanationRecord<'static>)
}

/// Returns an array of explanations, in the order of the arguments.
pub fn several(texts: &[String]) -> String {
    let texts: Vec<&str> = texts.iter().map(|text| text.trim_end()).collect();
    format!("[{}]\n", texts.join(",\n"))
}

#[derive(Serialize, JsonSchema)]
struct ExplanationRecord<'a> {
    schema_version: u32,
    operation: About<'a>,
    connection: Option<JsonConnection>,
    frames: Vec<JsonFrame<'a>>,
    /// Sums over the whole operation, by side.
    accounts: Sides,
    /// The part of `accounts` known when the operation closed, as in a run's distributions.
    accounts_at_close: Sides,
    /// The part of `accounts` that exceeds the limits on frames and fields.
    unlisted: Sides,
    /// The listed bytes match the ledger.
    balanced: bool,
}

#[derive(Serialize, JsonSchema)]
struct About<'a> {
    number: u64,
    of: u64,
    protocol: Option<&'static str>,
    class: &'static str,
    name: &'a str,
    via: &'static str,
    outcome: Option<&'static str>,
    latency_ns: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
struct JsonConnection {
    number: u64,
    client: String,
    server: String,
    server_software: Option<String>,
    client_software: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Sides {
    request: Amounts,
    response: Amounts,
}

#[derive(Serialize, JsonSchema)]
struct JsonFrame<'a> {
    /// Absent for bytes that no captured frame contains.
    number: Option<u64>,
    side: &'static str,
    #[serde(flatten)]
    facts: Option<JsonFacts>,
    /// The operation's share of bytes other than new payload.
    shares: Amounts,
    payload: Vec<JsonEntry<'a>>,
}

#[derive(Serialize, JsonSchema)]
struct JsonFacts {
    time_ns: u64,
    wire_bytes: u32,
    link: u32,
    ip: u32,
    tcp: u32,
    payload_bytes: u32,
    flags: Vec<&'static str>,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum JsonEntry<'a> {
    Others { other_operations: u64 },
    Field(JsonField<'a>),
}

#[derive(Serialize, JsonSchema)]
struct JsonField<'a> {
    #[serde(rename = "field")]
    path: &'a str,
    account: &'static str,
    /// Counted from the first captured byte of this direction.
    stream_offset: u64,
    length: u64,
    #[serde(rename = "field_length")]
    whole: u64,
    #[serde(rename = "field_offset")]
    at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
    /// `hex` is plaintext; the wire carries its ciphertext.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    decrypted: bool,
    /// Why `hex` is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    absent: Option<&'static str>,
}

/// Returns the explanation as indented JSON with a final newline.
pub fn render(explanation: &Explanation) -> Result<String> {
    let explained = &explanation.explained;
    let connection = explained.connection.as_ref().map(|summary| JsonConnection {
        number: explanation.found.connection,
        client: summary.client_name(),
        server: summary.server_name(),
        server_software: summary.server_software.clone(),
        client_software: summary.client_software.clone(),
    });
    let document = ExplanationRecord {
        schema_version: 1,
        operation: about(explanation),
        connection,
        frames: explained.views().iter().map(|view| frame(explanation, view)).collect(),
        accounts: sides(explained.amounts),
        accounts_at_close: sides(explained.at_close),
        unlisted: sides(explained.unlisted),
        balanced: explained.is_balanced(),
    };
    Ok(to_json(&document)?)
}

fn sides([request, response]: [Amounts; 2]) -> Sides {
    Sides { request, response }
}

fn about(explanation: &Explanation) -> About<'_> {
    let explained = &explanation.explained;
    let (class, name, via) = explained.label.as_ref().map_or((Class::Unmatched, "", ""), |(c, n, v)| (*c, n, v));
    About {
        number: explanation.found.number,
        of: explanation.count,
        protocol: explained.connection.as_ref().map(|summary| summary.protocol.name()),
        class: class.name(),
        name,
        via,
        outcome: explained.outcome().map(Outcome::name),
        latency_ns: explained.operation.and_then(|operation| operation.latency_ns),
    }
}

fn frame<'a>(explanation: &Explanation, view: &FrameView<'a>) -> JsonFrame<'a> {
    let facts = view.frame.and_then(|number| explanation.frames.get(&number)).map(|facts| {
        let [link, ip, tcp] = facts.headers;
        let flags = facts.flags;
        let set = [(flags.syn, "syn"), (flags.fin, "fin"), (flags.rst, "rst"), (flags.ack, "ack")];
        JsonFacts {
            time_ns: facts.time_ns,
            wire_bytes: facts.wire_len,
            link,
            ip,
            tcp,
            payload_bytes: facts.payload_len,
            flags: set.into_iter().filter(|(set, _)| *set).map(|(_, name)| name).collect(),
        }
    });
    let side = view.side.name();
    JsonFrame { number: view.frame, side, facts, shares: view.charges, payload: view.items.iter().map(entry).collect() }
}

fn entry(item: &FrameItem) -> JsonEntry<'_> {
    match item {
        FrameItem::Others(len) => JsonEntry::Others { other_operations: *len },
        FrameItem::Piece(piece) => JsonEntry::Field(field(piece)),
    }
}

fn field(piece: &FieldPiece) -> JsonField<'_> {
    JsonField {
        path: &piece.path,
        account: piece.account.name(),
        stream_offset: piece.offset,
        length: piece.len,
        whole: piece.field_len,
        at: piece.field_at,
        hex: piece.seen.is_at_hand().then(|| hex(&piece.bytes, "")),
        decrypted: piece.seen == ByteVisibility::Decrypted,
        absent: match piece.seen {
            ByteVisibility::Captured | ByteVisibility::Decrypted => None,
            ByteVisibility::Snapped => Some("snapped"),
            ByteVisibility::Gap => Some("gap"),
            ByteVisibility::NotKept => Some("not kept"),
        },
    }
}
