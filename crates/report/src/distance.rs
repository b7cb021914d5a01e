//! A chart of modelled waiting over the round-trip time: a line per run.

use crate::figure::{PanelFigure, PanelLine, PanelPoint, PlotPanel, left_out};
use crate::run::NamedRun;
use overhead_model::Spread;

pub(crate) const NAME: &str = "distance";

/// Round-trip times of the model, in milliseconds: from a loopback's to another continent's.
const RTTS: [f64; 8] = [0.1, 0.5, 1.0, 5.0, 20.0, 50.0, 100.0, 200.0];

/// Returns the chart, or `None` unless several runs differ in their round trips.
pub(crate) fn figure(runs: &[NamedRun]) -> Option<PanelFigure> {
    let waits = |named: &NamedRun| Some((named.name.clone(), *named.run.whole.round_trips_per_operation.value()?));
    let mut waits: Vec<(String, f64)> = runs.iter().filter_map(waits).filter(|(_, waits)| *waits > 0.0).collect();
    let more = left_out(&mut waits, "run");
    let most = waits.iter().map(|(_, waits)| *waits).fold(0.0, f64::max);
    let least = waits.iter().map(|(_, waits)| *waits).fold(f64::INFINITY, f64::min);
    let line = |(series, (_, waits)): (usize, &(String, f64))| {
        let point = |rtt: &f64| Some(PanelPoint { spread: Spread::from(waits * rtt), is_incomplete: false });
        PanelLine { series, points: RTTS.iter().map(point).collect(), level: None }
    };
    let lines: Vec<PanelLine> = waits.iter().enumerate().map(line).collect();
    let panel = |lines: &[PanelLine]| PlotPanel { lines: lines.to_vec(), ..PlotPanel::default() };
    (most > least * DIFFERENT).then(|| PanelFigure {
        title: "Waiting per operation, by distance".to_owned(),
        description: "Lines: modelled waiting per operation against the round-trip time, one for each run.".to_owned(),
        x_title: "round-trip time in ms".to_owned(),
        y_title: "ms of waiting per operation, modelled".to_owned(),
        places: RTTS.iter().map(ToString::to_string).collect(),
        series: waits.iter().map(|(name, _)| name.clone()).collect(),
        panels: lines.chunks(PlotPanel::LINES).map(panel).collect(),
        columns: 1,
        note: format!(
            "Modelled, not measured: the round trips of everything on the connections, setup included, divided by the operations, \
             times the round-trip time. The congestion window, lost packets and the servers' own time are not in it. {more}"
        )
        .trim_end()
        .to_owned(),
        ..PanelFigure::default()
    })
}

/// Ratio of round trips from which runs differ.
const DIFFERENT: f64 = 1.05;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use overhead_model::Measured;

    #[test]
    fn runs_that_wait_alike_have_no_chart_and_others_a_line_each() {
        let mut runs = [fixture::redis_live(), fixture::redis_live()];
        let mut wait = |at: usize, waits: f64| runs[at].run.whole.round_trips_per_operation = Measured::Value(waits);
        wait(0, 1.0);
        wait(1, 1.0);
        assert!(figure(&runs).is_none());
        runs[1].run.whole.round_trips_per_operation = Measured::Value(3.0);
        let figure = figure(&runs).unwrap();
        let last = |at: usize| figure.panels[0].lines[at].points[7].unwrap().spread.median;
        assert_eq!((last(0), last(1)), (200.0, 600.0));
    }
}
