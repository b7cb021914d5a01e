//! Dissects all frames, or those within windows.

use super::{AggregateWindows, Chosen, Sampled, Sampler};
use crate::inputs::Dissect;
use overhead_dissect::{Dissector, KeyLog, Selection, Totals};
use overhead_model::Frame;
use overhead_report::Aggregate;
use std::sync::Arc;

/// Slower ways to the same result, and coarser ones, for tests and measurements.
#[derive(Clone, Copy, Debug, Default)]
pub struct DissectPlan {
    /// Sends every frame the general way; the result is the same.
    pub no_memo: bool,
    /// Keeps rows by name only.
    pub no_statements: bool,
}

impl DissectPlan {
    /// Returns a dissection of the selected connections, limited to `windows` if given, that adds operations to
    /// `tally`.
    pub fn dissection(
        self,
        selection: &Selection,
        keys: Arc<KeyLog>,
        tally: Aggregate,
        windows: Option<Chosen>,
    ) -> Dissection {
        let tally = if self.no_statements { tally.without_statements() } else { tally };
        let selection = selection.clone();
        let make = move |tally| {
            let dissector = Dissector::new(selection.clone(), tally).with_keys(Arc::clone(&keys));
            if self.no_memo { dissector.without_memo() } else { dissector }
        };
        match windows {
            Some(chosen) => {
                Dissection::Windows(Box::new(Sampler::new(chosen, AggregateWindows::new(tally, Box::new(make)))))
            }
            None => Dissection::Whole(Box::new(make(tally))),
        }
    }
}

/// Dissects frames and adds up the results.
pub enum Dissection {
    /// All frames.
    Whole(Box<Dissector<Aggregate>>),
    /// Frames of windows.
    Windows(Box<Sampler>),
}

impl Dissection {
    /// Ends the last window, at `end_ns` or else with the last frame.
    pub fn finish(self, end_ns: Option<u64>) -> (Aggregate, Totals, Option<Sampled>) {
        match self {
            Self::Whole(dissector) => {
                let (aggregate, totals) = dissector.finish();
                (aggregate, totals, None)
            }
            Self::Windows(sampler) => sampler.finish(end_ns),
        }
    }

    /// Dissects a frame, for other crates: called, not inlined, so that the decoders are compiled in this crate only.
    #[inline(never)]
    pub fn dissect(&mut self, frame: &Frame<'_>) {
        self.frame(frame);
    }

    /// Starts or stops telling the listener of operations. With windows there is no listener.
    pub fn listen(&mut self, is_listening: bool) {
        if let Self::Whole(dissector) = self {
            dissector.listen(is_listening);
        }
    }

    /// Returns the tally so far.
    pub fn tally(&mut self) -> &Aggregate {
        match self {
            Self::Whole(dissector) => dissector.tally(),
            Self::Windows(sampler) => sampler.dissection.dissector.tally(),
        }
    }

    /// Returns frames and their bytes on the wire so far.
    pub fn frames(&self) -> (u64, u64) {
        match self {
            Self::Whole(dissector) => (dissector.totals().frames, dissector.totals().wire_bytes),
            Self::Windows(sampler) => {
                let AggregateWindows { ended, dissector, .. } = &sampler.dissection;
                let (before, current) = (ended, dissector.totals());
                (before.frames + current.frames, before.wire_bytes + current.wire_bytes)
            }
        }
    }
}

impl Dissect for Dissection {
    // Inlined into the loop over a file's frames.
    #[inline(always)]
    fn frame(&mut self, frame: &Frame<'_>) {
        match self {
            Self::Whole(dissector) => dissector.frame(frame),
            Self::Windows(sampler) => sampler.take(frame),
        }
    }
}
