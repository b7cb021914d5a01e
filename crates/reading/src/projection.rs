//! Models the cost of a run's packets on a link with another MTU or on a cable, next to the measured cost.

use crate::inputs::InputPlan;
use crate::keys::KeyReader;
use crate::warnings::Warnings;
use anyhow::Result;
use overhead_dissect::{CHECK_SEQUENCE, Dissector, GAP, LinkModel, PREAMBLE};
use overhead_model::record::{OperationRow, ProjectedRow, Projection};
use overhead_model::{Run, Transport, exit};
use overhead_report::{Aggregate, balance};

/// Adds the model of a link to the record made from `input`.
pub fn read(run: &mut Run, model: LinkModel, input: &InputPlan, keys: &KeyReader) -> Result<()> {
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
