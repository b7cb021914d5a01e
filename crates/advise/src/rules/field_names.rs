//! Field names repeated in every document.

use super::percent;
use crate::finding::{AdviceFinding, Certainty, Remedy};
use crate::rule::Rule;
use crate::seen::SeenTraffic;
use overhead_model::{Account, Amounts, Protocol, Side};

/// Minimum number of names.
const NAMES: u64 = 40;
/// Minimum percentage of the row's payload.
const SHARE: f64 = 10.0;
/// Length of a replacement name: two letters give 2,704 names.
const LETTERS: u64 = 2;

/// BSON documents (bsonspec.org): each element has its name.
pub struct FieldNames;

const REMEDIES: [Remedy; 3] = [
    Remedy {
        at: "object mappers",
        setting: "short names in the database: Spring Data @Field(\"a\"), Mongoose alias, MongoEngine db_field, bson:\"a\" (Go)",
    },
    Remedy { at: "queries", setting: "a projection that leaves out fields that are not used" },
    Remedy {
        at: "connection string",
        setting: "compressors=zstd: repeated names nearly vanish in answers of many documents",
    },
];

impl Rule for FieldNames {
    fn name(&self) -> &'static str {
        "field-names"
    }

    fn findings(&self, seen: &SeenTraffic) -> Vec<AdviceFinding> {
        let rows = seen.workload().filter(|(_, row)| row.protocol == Protocol::Mongo);
        rows.filter_map(|(number, row)| {
            let group = seen.group(row, |_, path| path.ends_with("field name"));
            let payload: u64 = row.amounts.iter().map(Amounts::payload).sum();
            let is_much = percent(group.bytes(), payload) >= SHARE && group.bytes() > LETTERS * group.times;
            if group.times < NAMES || !is_much {
                return None;
            }
            let title = format!(
                "{:.0}% of the payload is names of fields, {} of them with {:.1} letters on average",
                percent(group.bytes(), payload),
                group.times,
                group.bytes() as f64 / group.times as f64
            );
            let mut finding = AdviceFinding {
                operations: group.operations,
                example: group.example,
                evidence: group.evidence.clone(),
                remedies: REMEDIES.to_vec(),
                certainty: Certainty::Modelled,
                computed: format!("all names, less {LETTERS} letters each"),
                unknown: "whether the names can be changed; what they are worth to people",
                ..AdviceFinding::new(self.name(), title, row.subject())
            };
            for side in Side::BOTH {
                let of = seen.group(row, |at, path| at == side && path.ends_with("field name"));
                finding.change(
                    number,
                    side,
                    Account::Schema,
                    (LETTERS * of.times).cast_signed() - of.bytes().cast_signed(),
                );
            }
            Some(finding)
        })
        .collect()
    }
}
