//! Field names repeated in every document.

use super::percent;
use crate::finding::{AdviceFinding, Certainty, Remedy, remedies};
use crate::rule::Rule;
use crate::seen::{SeenRow, SeenTraffic};
use overhead_model::{Account, Amounts, Protocol, Side};

/// Minimum number of names.
const NAMES: u64 = 40;
/// Minimum percentage of the row's payload.
const SHARE: f64 = 10.0;
/// Length of a replacement name: two letters give 2,704 names.
const LETTERS: u64 = 2;

/// BSON documents (bsonspec.org): each element has its name.
pub struct FieldNames;

const REMEDIES: &[Remedy] = remedies! {
    "object mappers": "short names in the database: Spring Data @Field(\"a\"), Mongoose alias, MongoEngine db_field, bson:\"a\" (Go)",
    "queries": "a projection that leaves out fields that are not used",
    "connection string": "compressors=zstd: repeated names nearly vanish in answers of many documents",
};

impl Rule for FieldNames {
    fn row_finding(&self, seen: &SeenTraffic, row: &SeenRow) -> Option<AdviceFinding> {
        let group = seen.group(row, |_, path| path.ends_with("field name"));
        let payload: u64 = row.amounts.iter().map(Amounts::payload).sum();
        let share = percent(group.bytes(), payload);
        let is_much = share >= SHARE && group.bytes() > LETTERS * group.times;
        if !row.is_workload() || row.protocol != Protocol::Mongo || group.times < NAMES || !is_much {
            return None;
        }
        let title = format!(
            "{share:.0}% of the payload is field names: {}, with {:.1} letters on average",
            group.times,
            group.bytes() as f64 / group.times as f64
        );
        let mut finding = AdviceFinding {
            evidence: group.evidence,
            remedies: REMEDIES.to_vec(),
            certainty: Certainty::Modelled,
            computed: format!("all names, less {LETTERS} letters each"),
            unknown: "whether the names can be changed; what they are worth to people",
            ..AdviceFinding::new(title, row, group.operations, group.example)
        };
        for side in Side::BOTH {
            let of = seen.group(row, |at, path| at == side && path.ends_with("field name"));
            let bytes = (LETTERS * of.times).cast_signed() - of.bytes().cast_signed();
            finding.change(row.number, side, Account::Schema, bytes);
        }
        Some(finding)
    }
}
