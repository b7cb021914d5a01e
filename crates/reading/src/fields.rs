//! Reads the fields of a run's messages from its packets into its record.

use crate::inputs::InputPlan;
use crate::keys::KeyReader;
use crate::warnings::Warnings;
use anyhow::Result;
use overhead_dissect::explain::{FieldSums, RowName};
use overhead_model::record::{FieldRow, OperationRow};
use overhead_model::{Account, Class, Protocol, Run, Side};
use std::collections::{BTreeMap, HashMap};

/// Adds the fields of the messages to the record that was made of the same input.
pub fn read(run: &mut Run, input: &InputPlan, keys: &KeyReader) -> Result<()> {
    let mut sums = FieldSums::default();
    // The record has the warnings about the files.
    input.explore(&mut sums, keys, &mut Warnings::default())?;
    add(run, sums);
    Ok(())
}

/// The fields of each statement of a row.
type StatementFields = Vec<(String, Vec<FieldRow>)>;

/// Adds the fields to their rows, and to the statements of rows with several.
fn add(run: &mut Run, sums: FieldSums) {
    let mut rows: HashMap<(Protocol, Class, String, &str), StatementFields> = HashMap::new();
    for (RowName { protocol, class, name, via, statement }, fields) in sums.into_rows() {
        rows.entry((protocol, class, name, via)).or_default().push((statement, fields));
    }
    for ((protocol, class, name, via), statements) in rows {
        let is_this = |row: &&mut OperationRow| {
            row.class == class && row.name == name && row.via == via && row.protocol == protocol.name()
        };
        let Some(row) = run.operations.iter_mut().find(is_this) else { continue };
        if let [_, _, ..] = row.statements.as_slice() {
            for named in &mut row.statements {
                let same = statements.iter().find(|(statement, _)| *statement == named.text);
                // For a statement distinguished only during part of the run, the fields cover more operations than it counts.
                let all = named.request.payload_bytes + named.response.payload_bytes;
                let is_whole = |fields: &[FieldRow]| fields.iter().map(|field| field.bytes).sum::<u64>() == all;
                named.fields = same.filter(|(_, fields)| is_whole(fields)).map(|(_, fields)| fields.clone());
            }
        }
        row.fields = Some(added(statements.into_iter().flat_map(|(_, fields)| fields)));
    }
}

/// Sums up equal fields, in order of side, account and name.
fn added(fields: impl Iterator<Item = FieldRow>) -> Vec<FieldRow> {
    let mut sums: BTreeMap<(Side, Account, String), u64> = BTreeMap::new();
    for FieldRow { side, account, field, bytes } in fields {
        *sums.entry((side, account, field)).or_default() += bytes;
    }
    let row = |((side, account, field), bytes)| FieldRow { side, account, field, bytes };
    sums.into_iter().map(row).collect()
}
