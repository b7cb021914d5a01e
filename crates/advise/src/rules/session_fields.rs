//! Redundant command elements: session, cluster time, default concerns.

use super::percent;
use crate::finding::{AdviceFinding, ByteEvidence, Certainty, Example, Remedy, remedies};
use crate::rule::Rule;
use crate::seen::{SeenField, SeenOperation, SeenRow, SeenTraffic};
use overhead_model::{Account, Amounts, Protocol, Side};
use std::collections::{BTreeMap, HashMap};

/// Minimum number of operations.
const OPERATIONS: u64 = 10;
/// Minimum percentage of the row's bytes.
const SHARE: f64 = 2.0;
/// Elements that commands do not need unless the application relies on them.
const NAMES: [&str; 7] =
    ["lsid", "$clusterTime", "readConcern", "writeConcern", "$readPreference", "txnNumber", "apiVersion"];

/// MongoDB's generic command arguments.
#[derive(Default)]
pub struct SessionFields {
    open: HashMap<u64, CommandWalk>,
    rows: BTreeMap<usize, BTreeMap<&'static str, Amounts>>,
    examples: BTreeMap<usize, (u64, Example)>,
}

/// Finds the elements of one command.
#[derive(Default)]
struct CommandWalk {
    current: Option<&'static str>,
    /// Framing bytes, and bytes of the name and values.
    found: Vec<(&'static str, Amounts)>,
}

const REMEDIES: &[Remedy] = remedies! {
    "connection string": "retryWrites=false (txnNumber), no readConcernLevel, readPreference=primary: what is the server's default is then not sent",
    "drivers": "no explicit session with causal consistency (start_session(causal_consistency=False)): no afterClusterTime",
    "drivers": "no serverApi / Stable API unless needed (apiVersion)",
    "drivers":
        "lsid comes with every acknowledged command wherever the server offers sessions: fewer, larger commands (insert_many, bulk_write, larger batch_size)",
};

impl Rule for SessionFields {
    fn wants_field(&self, protocol: Protocol, path: &str) -> bool {
        protocol == Protocol::Mongo && path.contains("sections.command.")
    }

    fn field(&mut self, field: &SeenField<'_>) {
        if field.side != Side::Request {
            return;
        }
        let walk = self.open.entry(field.operation).or_default();
        let Some((_, at)) = field.path.split_once("sections.command.") else { return };
        walk.step(at, field.len, field.bytes);
    }

    fn operation(&mut self, closed: &SeenOperation<'_>) {
        let Some(walk) = self.open.remove(&closed.example.operation) else { return };
        if !closed.row.is_workload() || walk.found.is_empty() {
            return;
        }
        let row = self.rows.entry(closed.row.number).or_default();
        for (name, element) in walk.found {
            *row.entry(name).or_default() += element;
        }
        self.examples.entry(closed.row.number).or_insert((0, closed.example)).0 += 1;
    }

    fn row_finding(&self, _: &SeenTraffic, row: &SeenRow) -> Option<AdviceFinding> {
        let elements = self.rows.get(&row.number)?;
        let &(operations, example) = self.examples.get(&row.number)?;
        let mut request = Amounts::ZERO;
        for element in elements.values() {
            request += *element;
        }
        if operations < OPERATIONS || percent(request.total(), row.wire()) < SHARE {
            return None;
        }
        let names: Vec<&str> = elements.keys().copied().collect();
        let title = format!("every command carries {}", names.join(", "));
        let evidence = elements.iter().map(|(name, element)| ByteEvidence {
            side: Side::Request,
            account: Account::Metadata,
            field: format!("command.{name}, with its framing"),
            bytes: element.total(),
        });
        Some(AdviceFinding {
            evidence: evidence.collect(),
            remedies: REMEDIES.to_vec(),
            certainty: Certainty::AtMost,
            computed: "these elements of the command document: type, name, value".to_owned(),
            unknown: "which the application needs (causal reads, retryable writes and transactions depend on them)",
            ..AdviceFinding::new(title, row, operations, Some(example)).without(row.number, &[request, Amounts::ZERO])
        })
    }
}

impl CommandWalk {
    /// Handles a field of the command document; `at` is its path below that document.
    fn step(&mut self, at: &str, len: u64, bytes: Option<&[u8]>) {
        match at {
            // Starts a top-level element.
            "element type" => self.current = None,
            "name" | "command name" => {
                self.current = NAMES.into_iter().find(|name| bytes == Some(name.as_bytes()));
                if let Some(name) = self.current {
                    // Its type byte came before the name.
                    let mut element = Amounts::new(Account::Metadata, len);
                    element[Account::Framing] = 1;
                    self.found.push((name, element));
                }
            }
            _ => {
                let Some((_, element)) = self.current.and_then(|_| self.found.last_mut()) else { return };
                let is_framing = ["type", "terminator", "length", "index"].iter().any(|end| at.ends_with(end));
                element[if is_framing { Account::Framing } else { Account::Metadata }] += len;
            }
        }
    }
}
