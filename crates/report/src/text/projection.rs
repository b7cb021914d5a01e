//! Modelled link traffic next to the measured traffic.

use crate::document::Section;
use crate::grid::Grid;
use crate::number::{counted, decimal, grouped};
use crate::summary::{Families, both_sides, per_operation};
use overhead_model::record::{OperationRow, ProjectedRow, Projection};
use overhead_model::{Account, Amounts, Class, Run};

pub(crate) fn section(run: &Run) -> Option<Section> {
    let projection = run.projection.as_ref()?;
    Some(Section { title: title(projection), table: grid(run, projection), notes: lines(run, projection) })
}

fn title(projection: &Projection) -> String {
    let mtu = projection.mtu.map(|mtu| format!("a link of MTU {}", grouped(u64::from(mtu))));
    let cable = projection.physical.then(|| "Ethernet on the cable".to_owned());
    let what: Vec<String> = mtu.into_iter().chain(cable).collect();
    format!("Modelled, not measured: {}", what.join(", "))
}

/// Returns the workload operations as measured and as modelled.
fn grid(run: &Run, projection: &Projection) -> Grid {
    let headers =
        ["frames/op", "headers B/op", "total B/op"].map(|name| [format!("{name}\nmeasured"), "\nmodelled".to_owned()]);
    let headers: Vec<&str> = headers.iter().flatten().map(String::as_str).collect();
    let mut rows: Vec<(&OperationRow, &ProjectedRow)> = projection
        .operations
        .iter()
        .filter(|row| row.class == Class::Workload)
        .filter_map(|row| Some((measured(run, row)?, row)))
        .collect();
    rows.sort_by_key(|(row, _)| std::cmp::Reverse(both_sides(row).total()));
    let cells = |(row, modelled): &(&OperationRow, &ProjectedRow)| {
        let mut amounts = modelled.request.accounts;
        amounts += modelled.response.accounts;
        let frames = [row.request.frames + row.response.frames, modelled.request.frames + modelled.response.frames];
        let sums = [both_sides(row), amounts];
        let counts = [row.samples(), modelled.count];
        let mean = |at: usize, total: u64| per_operation(total, counts[at]).map_or_else(String::new, decimal);
        let pair = |of: &dyn Fn(usize) -> u64| [0, 1].map(|at| mean(at, of(at)));
        let figures =
            [pair(&|at| frames[at]), pair(&|at| Families::new(&sums[at]).frame), pair(&|at| sums[at].total())];
        [row.name.clone(), row.via.clone()].into_iter().chain(figures.concat()).collect()
    };
    Grid::new(&["operation", "via"], &headers, rows.iter().map(cells).collect())
}

fn lines(run: &Run, projection: &Projection) -> Vec<String> {
    let Projection { frames, wire_bytes, cut_frames, added_frames, .. } = *projection;
    let mut lines = vec![format!(
        "in all: {} of {} B measured, {} of {} B modelled",
        counted(run.source.frames, "frame"),
        grouped(run.source.wire_bytes),
        counted(frames, "frame"),
        grouped(wire_bytes)
    )];
    if projection.mtu.is_some() {
        lines.push(format!(
            "{} cut, which adds {} with {} B of headers",
            counted(cut_frames, "captured frame") + if cut_frames == 1 { " is" } else { " are" },
            counted(added_frames, "frame"),
            grouped(projection.added_header_bytes)
        ));
    }
    if projection.ack_frames > 0 {
        lines.push(format!(
            "a receiver that acknowledges every second segment would also send {} of {} B, which this table leaves out",
            counted(projection.ack_frames, "acknowledgment"),
            grouped(projection.ack_bytes)
        ));
    }
    if projection.physical {
        lines.push(format!(
            "on the cable: {} B of preambles, {} B of check sequences, {} B of gaps, {} B of padding; in headers, or with frames \
             without payload",
            grouped(projection.preamble_bytes),
            grouped(projection.check_sequence_bytes),
            grouped(projection.gap_bytes),
            grouped(projection.padding_bytes)
        ));
        let other: Vec<&str> =
            run.source.link_types.iter().map(String::as_str).filter(|link| *link != "EN10MB").collect();
        if !other.is_empty() {
            lines.push(format!(
                "frames of {} have their own link header in the model, not Ethernet's",
                other.join(", ")
            ));
        }
    }
    lines
}

/// Returns the measured row that matches a modelled one.
fn measured<'run>(run: &'run Run, row: &ProjectedRow) -> Option<&'run OperationRow> {
    run.operations
        .iter()
        .find(|of| of.class == row.class && (&of.protocol, &of.name, &of.via) == (&row.protocol, &row.name, &row.via))
}

/// Returns the accounts that a model changes, with their bytes.
pub(crate) fn changed(amounts: &Amounts) -> [(&'static str, u64); 4] {
    [Account::Link, Account::Ip, Account::Tcp, Account::Control].map(|account| (account.name(), amounts[account]))
}
