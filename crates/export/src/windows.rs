//! Dissects each window of a sampled capture separately, into the same tables.

use crate::stop::ExportStop;
use crate::table::runs::SampleRow;
use crate::tally::ExportTally;
use anyhow::{Result, anyhow};
use overhead_dissect::{Dissector, KeyLog, Selection, Totals};
use overhead_model::Frame;
use overhead_reading::{DissectWindows, Schedule, add_window};
use std::sync::Arc;

pub struct ExportWindows {
    selection: Selection,
    keys: Arc<KeyLog>,
    stop: ExportStop,
    /// For the current or the next window.
    dissector: Option<Dissector<ExportTally>>,
    period: Option<u64>,
    ended: Totals,
    windows: u64,
    covered_ns: u64,
}

impl ExportWindows {
    pub fn new(selection: Selection, keys: Arc<KeyLog>, tally: ExportTally, stop: ExportStop) -> Self {
        let mut new = Self {
            selection,
            keys,
            stop,
            dissector: None,
            period: None,
            ended: Totals::default(),
            windows: 0,
            covered_ns: 0,
        };
        new.start_dissector(tally);
        new
    }

    fn start_dissector(&mut self, tally: ExportTally) {
        self.dissector = Some(Dissector::new(self.selection.clone(), tally).with_keys(Arc::clone(&self.keys)));
    }

    pub fn finish(mut self, schedule: Option<&Schedule>) -> Result<(ExportTally, Totals, Option<SampleRow>)> {
        let last =
            self.dissector.take().ok_or_else(|| anyhow!("a window was not ended: this is a bug, please report it"))?;
        let (tally, rest) = last.finish();
        self.ended.append(&rest);
        let sample = schedule.map(|schedule| {
            let [window_ns, period_ns] = schedule.cycle_ns();
            let (windows, covered_ns, span_ns) = (self.windows, self.covered_ns, schedule.span_ns());
            SampleRow { window_ns, period_ns, windows, span_ns, covered_ns }
        });
        Ok((tally, self.ended, sample))
    }
}

impl DissectWindows for ExportWindows {
    #[inline]
    fn frame(&mut self, period: u64, frame: &Frame<'_>) {
        let Some(dissector) = &mut self.dissector else { return };
        if self.period != Some(period) {
            self.period = Some(period);
            dissector.tally_mut().begin_window(period);
        }
        dissector.frame(frame);
    }

    fn end_window(&mut self, covered_ns: u64) {
        self.skip(covered_ns, 1);
        let Some(mut dissector) = self.dissector.take_if(|dissector| dissector.totals().frames > 0) else { return };
        // Report closed connections before open operations are cut.
        dissector.tally();
        dissector.tally_mut().cut_window();
        let (mut tally, totals) = dissector.finish();
        tally.end_window();
        add_window(&mut self.ended, totals);
        self.start_dissector(tally);
    }

    fn skip(&mut self, covered_ns: u64, windows: u64) {
        self.windows += windows;
        self.covered_ns += covered_ns.saturating_mul(windows);
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.stop.should_stop()
    }
}
