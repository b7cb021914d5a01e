//! What the published comparison asked and could not answer.

use super::bytes as costs;
use super::page::{MarkdownPage, bytes, signed_bytes};
use super::study::Study;
use super::topics::Topic;
use super::writeup::{row, steady};
use crate::summary::per_operation;
use overhead_model::Side;
use overhead_model::record::OperationRow;

/// The open questions of the published comparison.
pub(super) fn answers(page: &mut MarkdownPage, study: &Study) {
    page.heading(2, "The open questions");
    page.heading(3, "Why is the answer in CQL so fat?");
    for text in fat_answer(study) {
        page.paragraph(&text);
    }
    page.heading(3, "Why does PostgreSQL beat it?");
    for text in why_postgres(study) {
        page.paragraph(&text);
    }
    page.heading(3, "Why do two databases that speak the same protocol to the same driver differ?");
    for text in same_protocol(study) {
        page.paragraph(&text);
    }
}

fn fat_answer(study: &Study) -> Vec<String> {
    let Some(read) = row(study, "cassandra", "read") else { return vec![ABSENT.to_owned()] };
    let of = |topic| costs::amount(read, Side::Response, topic);
    let all = per_operation(read.response.accounts.payload(), read.samples()).unwrap_or(0.0);
    let described = of(Topic::Columns) + of(Topic::Namespace);
    let mut said = vec![format!(
        "The payload of the answer to a `read` has {} B, of which {} are the user's data. Lengths and the count of the list's \
         elements take {} ({}); the description of the columns, sent with each answer, {} ({}, {}); lengths of values {}; header and \
         kind of the result {}.",
        bytes(all),
        bytes(of(Topic::Data)),
        bytes(of(Topic::Elements)),
        costs::fields(read, Side::Response, Topic::Elements),
        bytes(described),
        costs::fields(read, Side::Response, Topic::Namespace),
        costs::fields(read, Side::Response, Topic::Columns),
        bytes(of(Topic::Values)),
        bytes(of(Topic::Messages)),
    )];
    let empty = row(study, "cassandra", "empty").map(|row| {
        costs::amount(row, Side::Response, Topic::Columns) + costs::amount(row, Side::Response, Topic::Namespace)
    });
    if let Some(empty) = empty {
        said.push(format!(
            "The description is there without a row as well: {} B of the answer to an `empty`.",
            bytes(empty)
        ));
    }
    let skipped = study.settings().into_iter().filter(|setting| setting.with.load.settings.skip_metadata == Some(true));
    for setting in skipped {
        let (Some(default), Some(with)) = (setting.default.row(), setting.with.row()) else { continue };
        said.push(format!(
            "With the metadata of results skipped, `{}` takes {} B/op instead of {}: {}.",
            setting.with.operation(),
            bytes(steady(with)),
            bytes(steady(default)),
            signed_bytes(steady(with) - steady(default))
        ));
    }
    said.push(
        "The lengths of the elements belong to the type: a `list<int>` has them by specification. Cassandra 5 also has \
         `vector<int, 16>`, whose elements of fixed size have none; that was not measured here."
            .to_owned(),
    );
    said
}

fn why_postgres(study: &Study) -> Vec<String> {
    let rows = ["postgres", "cassandra"].map(|db| row(study, db, "read"));
    let [Some(postgres), Some(cassandra)] = rows else { return vec![ABSENT.to_owned()] };
    let response = |row: &OperationRow| per_operation(row.response.accounts.payload(), row.samples()).unwrap_or(0.0);
    let described =
        |row| costs::amount(row, Side::Response, Topic::Columns) + costs::amount(row, Side::Response, Topic::Namespace);
    let elements = |row| costs::amount(row, Side::Response, Topic::Elements);
    let mut said = vec![format!(
        "Not by its encoding of the row: around the elements of the array it has {} B, Cassandra {}. But it describes a prepared \
         statement once, when it is prepared: its answer to a `read` has {} B of description, Cassandra's {}. So the payload of the \
         answer is {} B instead of {}.",
        bytes(elements(postgres)),
        bytes(elements(cassandra)),
        bytes(described(postgres)),
        bytes(described(cassandra)),
        bytes(response(postgres)),
        bytes(response(cassandra)),
    )];
    for setting in study
        .settings()
        .iter()
        .filter(|setting| setting.with.load.db == "postgres" && setting.with.operation() == "read")
        .filter(|setting| {
            setting.with.load.settings.prepared == Some(false) && setting.with.load.settings.binary != Some(false)
        })
    {
        let (Some(default), Some(with)) = (setting.default.row(), setting.with.row()) else { continue };
        said.push(format!(
            "It is a matter of preparing, not of the protocol: a driver that has its statement described each time pays {} B/op more \
             for `{}` ({} instead of {}).",
            bytes(steady(with) - steady(default)),
            setting.with.operation(),
            bytes(steady(with)),
            bytes(steady(default)),
        ));
    }
    let skipped = study
        .settings()
        .into_iter()
        .find(|setting| setting.with.load.settings.skip_metadata == Some(true) && setting.with.operation() == "read");
    if let Some(with) = skipped.as_ref().and_then(|setting| setting.with.row()) {
        let (cql, pg) = (steady(with), steady(postgres));
        let verdict = if cql < pg {
            "less than"
        } else if cql > pg {
            "still more than"
        } else {
            "as much as"
        };
        said.push(format!(
            "With its metadata skipped, Cassandra takes {} B/op, {verdict} PostgreSQL's {}.",
            bytes(cql),
            bytes(pg)
        ));
    }
    said
}

const ABSENT: &str = "It was not measured here.";

fn same_protocol(study: &Study) -> Vec<String> {
    let Some(read) = row(study, "cassandra", "read") else { return vec![ABSENT.to_owned()] };
    let parts = [Topic::Namespace, Topic::Columns, Topic::Messages];
    let choices: f64 = parts.into_iter().map(|topic| costs::amount(read, Side::Response, topic)).sum();
    vec![
        format!(
            "In the published comparison these are Cassandra and ScyllaDB. There is no ScyllaDB in the package registries, so their \
             difference is not measured here. What can be said is where it can lie: the driver sends both the same requests, and a \
             server may choose, in the {} B of an answer that are header and description, whether keyspace and table are given once \
             or per column, whether it adds a custom payload, warnings, or the id of the metadata. Rows themselves leave it no choice.",
            bytes(choices)
        ),
        "Two captures and one `overhead compare` name the field; the commands are at the end of this page.".to_owned(),
    ]
}
