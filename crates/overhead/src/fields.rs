//! The fields of a run's messages: from its packets into its record.

use crate::inputs;
use crate::keys::KeyReader;
use anyhow::Result;
use overhead_dissect::explain::{FieldSums, Reading, RowName};
use overhead_dissect::{Dissector, Selection};
use overhead_model::Run;
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Reads whole files, and adds the fields in them to the record that was made of the same files.
pub fn read(run: &mut Run, files: &[PathBuf], selection: Selection, keys: &KeyReader) -> Result<()> {
    let mut sums = FieldSums::default();
    let mut dissector = dissector(&mut sums, selection, keys);
    inputs::read(files, keys, |_, frame| {
        keys.commit();
        dissector.frame(frame);
        ControlFlow::Continue(())
    })?;
    dissector.finish();
    add(run, sums);
    Ok(())
}

/// Returns a dissector that sums fields up.
pub fn dissector<'a>(
    sums: &'a mut FieldSums,
    selection: Selection,
    keys: &KeyReader,
) -> Dissector<&'a mut dyn Reading> {
    Dissector::new(selection, sums as &mut dyn Reading).with_keys(keys.log())
}

/// Adds the fields to the rows that they are of.
pub fn add(run: &mut Run, sums: FieldSums) {
    let mut fields = sums.into_rows();
    for row in &mut run.operations {
        let is_this = |name: &RowName| {
            name.class == row.class
                && name.name == row.name
                && name.via == row.via
                && name.protocol.name() == row.protocol
        };
        let name = fields.keys().find(|name| is_this(name)).cloned();
        row.fields = name.and_then(|name| fields.remove(&name));
    }
}
