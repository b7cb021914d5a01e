//! The times of a run at other round-trip times.

use crate::document::Section;
use crate::grid::Grid;
use crate::number::{DASH, duration, grouped, with_digits};
use crate::sums::label;
use overhead_model::record::{Distance, DistantRow};
use overhead_model::{Measured, Run};

pub(crate) fn sections(run: &Run) -> Vec<Section> {
    run.distances.iter().map(|distance| section(run, distance)).collect()
}

fn section(run: &Run, distance: &Distance) -> Section {
    let time = |value: &Measured<u64>| value.value().map_or_else(|| DASH.to_owned(), |ns| duration(*ns));
    let cells = |row: &DistantRow| {
        let name = label(&row.name, &row.via);
        vec![name, grouped(row.count), time(&row.latency_p50_ns), time(&row.elapsed_ns_per_operation)]
    };
    let mut rows: Vec<_> = distance.operations.iter().map(cells).collect();
    let all = time(&distance.elapsed_ns_per_operation);
    rows.push(vec!["all, with setup".to_owned(), grouped(run.whole.operations), DASH.to_owned(), all]);
    let mut notes = vec![
        "latency: as measured, with this round-trip time instead of the shortest latency; each operation waits at least once"
            .to_owned(),
        "elapsed: round trips at this round-trip time, over the operations; congestion windows are not modelled".to_owned(),
    ];
    if let Some(each) = run.whole.round_trips_per_operation.value() {
        notes.push(format!("{} round trips per operation, with setup", with_digits(*each, 2)));
    }
    Section {
        title: format!("Modelled, not measured: a round-trip time of {}", duration(distance.rtt_ns)),
        table: Grid::new(&["operation"], &["count", "latency\np50", "elapsed\n/op"], rows),
        notes,
    }
}
