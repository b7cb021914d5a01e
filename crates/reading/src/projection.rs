//! What a record has from a second reading of its packets: a model of another link, and the fields of messages.

use crate::inputs::InputPlan;
use crate::keys::KeyReader;
use crate::warnings::Warnings;
use anyhow::Result;
use overhead_dissect::explain::{FieldSums, RowName};
use overhead_dissect::{CHECK_SEQUENCE, Dissector, GAP, LinkModel, PREAMBLE};
use overhead_model::record::{Distance, FieldRow, OperationRow, ProjectedRow, Projection};
use overhead_model::{Account, Class, Protocol, Run, Side, Transport, exit};
use overhead_report::{Aggregate, balance};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Adds the model of a link to the record made from `input`.
pub fn read_projection(run: &mut Run, model: LinkModel, input: &InputPlan, keys: &KeyReader) -> Result<()> {
    let tally = Aggregate::new().without_statements();
    let mut dissector = Dissector::new(input.selection.clone(), tally).with_keys(keys.log()).with_model(model);
    // The record has the warnings about the files.
    input.read(&mut dissector, keys, &mut Warnings::default())?;
    add(run, model, dissector);
    Ok(())
}

fn add(run: &mut Run, model: LinkModel, dissector: Dissector<Aggregate>) {
    let modelled = dissector.modelled();
    let (aggregate, totals) = dissector.finish();
    if totals.transport() != Transport::Tcp {
        let why = "nothing was modelled: streams without frames (UNIX sockets, calls of a TLS library) have no link; leave --project and --physical out";
        run.warnings.push(why.to_owned());
        run.exit = run.exit.max(exit::PARTIAL);
        return;
    }
    let ledger = balance(&aggregate, totals.wire_bytes, totals.other);
    if !ledger.balanced {
        run.warnings
            .push("the ledger of the model does not balance: this is a bug in the tool, please report it".to_owned());
        run.exit = run.exit.max(exit::PARTIAL);
    }
    let of_frames = |bytes: u64| if model.is_physical { bytes * totals.frames } else { 0 };
    run.projection = Some(Projection {
        mtu: model.mtu,
        physical: model.is_physical,
        frames: totals.frames,
        wire_bytes: totals.wire_bytes,
        cut_frames: modelled.cut_frames,
        added_frames: modelled.added_frames,
        added_header_bytes: modelled.added_header_bytes,
        ack_frames: modelled.ack_frames,
        ack_bytes: modelled.ack_bytes,
        preamble_bytes: of_frames(PREAMBLE),
        check_sequence_bytes: of_frames(CHECK_SEQUENCE),
        gap_bytes: of_frames(GAP),
        padding_bytes: modelled.padding_bytes,
        ledger,
        operations: aggregate.operations().iter().map(projected).collect(),
    });
}

fn projected(row: &OperationRow) -> ProjectedRow {
    ProjectedRow {
        protocol: row.protocol.clone(),
        class: row.class,
        name: row.name.clone(),
        via: row.via.clone(),
        count: row.samples(),
        request: (&row.request).into(),
        response: (&row.response).into(),
    }
}

/// Adds the times of its operations at other round-trip times.
pub fn add_distances(run: &mut Run, round_trip_times: &[Duration]) {
    let nanoseconds = round_trip_times.iter().map(|rtt| u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX));
    run.distances = nanoseconds.map(|rtt_ns| Distance::new(rtt_ns, &run.operations, &run.whole)).collect();
}

/// Adds the fields of the messages to the record that was made of the same input.
pub fn read_fields(run: &mut Run, input: &InputPlan, keys: &KeyReader) -> Result<()> {
    let mut sums = FieldSums::default();
    // The record has the warnings about the files.
    input.explore(&mut sums, keys, &mut Warnings::default())?;
    add_fields(run, sums);
    Ok(())
}

/// The fields of each statement of a row.
type StatementFields = Vec<(String, Vec<FieldRow>)>;

/// Adds the fields to their rows, and to the statements of rows with several.
fn add_fields(run: &mut Run, sums: FieldSums) {
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
