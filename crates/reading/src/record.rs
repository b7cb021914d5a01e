//! From captures to a run record.

use crate::inputs::InputPlan;
use crate::kept::KeptRun;
use crate::keys::{KeyFiles, KeyReader};
use crate::projection::{add_distances, read_fields, read_projection};
use crate::run_record;
use crate::sample::{DissectPlan, SamplePlan};
use crate::time::TimeWindow;
use crate::warnings::Warnings;
use anyhow::Result;
use overhead_dissect::{Dissector, LinkModel, Selection};
use overhead_model::Measured;
use overhead_model::record::{By, Run, Selected, Source, WorkUnits};
use overhead_report::Aggregate;
use std::path::Path;
use std::time::Duration;

/// How captures become a record.
#[derive(Clone, Debug)]
pub struct RecordPlan {
    pub input: InputPlan,
    pub sample: SamplePlan,
    pub dissect: DissectPlan,
    /// Further grouping of operations, in addition to their names.
    pub by: By,
    /// Adds up the fields of messages, in a second reading.
    pub fields: bool,
    /// Link to model in another reading.
    pub model: Option<LinkModel>,
    /// Round-trip times to model.
    pub round_trip_times: Vec<Duration>,
    /// The caller's units of work.
    pub work: Option<WorkUnits>,
    /// Counts operations by latency.
    pub distribution: bool,
}

impl RecordPlan {
    /// Plans a record that needs one reading.
    pub fn new(input: InputPlan) -> Self {
        let (sample, dissect, by) = (SamplePlan::default(), DissectPlan::default(), By::default());
        Self {
            input,
            sample,
            dissect,
            by,
            fields: false,
            model: None,
            round_trip_times: Vec::new(),
            work: None,
            distribution: false,
        }
    }

    /// Returns a plan that ignores keys and run folder, and computes nothing that needs another reading.
    #[must_use]
    pub fn without_keys(&self) -> Self {
        let input = InputPlan { keys: KeyFiles::none(), kept: None, ..self.input.clone() };
        Self { input, by: By::default(), fields: false, model: None, ..self.clone() }
    }

    /// Returns the plan for a copy of the frames that this one reads.
    #[must_use]
    pub fn for_copy(&self, copy: &Path) -> Self {
        let (files, window) = (vec![copy.to_owned()], TimeWindow::default());
        let input = InputPlan { files, window, count: None, ..self.input.clone() };
        Self { input, ..self.clone() }
    }

    /// Reads the captures into a record.
    pub fn record(&self) -> Result<Run> {
        let Self { input, .. } = self;
        let started = run_record::Beginning::at_process_start();
        let mut warnings = Warnings::default();
        let windows = self.sample.chosen(&input.files)?;
        let keys = input.read_keys(&mut warnings)?;
        let tally = Aggregate::new().with_rows_by(self.by);
        let mut dissection = self.dissect.dissection(&input.selection, keys.log(), tally, windows);
        let inputs = input.read(&mut dissection, &keys, &mut warnings)?;
        let end_ns = input.kept.as_ref().and_then(KeptRun::sample_end_ns);
        let (aggregate, totals, sampled) = dissection.finish(end_ns);
        let mut facts = run_record::Circumstances {
            source: Source {
                inputs,
                selection: input.connections.selected.clone(),
                kernel_drops: Measured::unavailable("offline"),
                ..Source::default()
            },
            environment: None,
            counters: Measured::unavailable("offline: counters are taken while a capture runs"),
            bpf_ns: Measured::unavailable("offline"),
            started,
        };
        if let Some(kept) = &input.kept {
            facts = kept.facts(facts, input.is_part(), &mut warnings);
        }
        warnings.warn_of_totals(&totals);
        if facts.source.selection == Selected::default() {
            warnings.warn_of_detection(aggregate.connections().iter().map(|connection| connection.protocol.as_str()));
        }
        if warnings.is_nothing() && !input.connections.is_default() && input.pipe().is_none() {
            self.look_for_others(&keys, &mut warnings)?;
        }
        let interface = facts.environment.as_ref().and_then(|environment| environment.interface.as_ref());
        warnings.warn_of_frame_sizes(&totals, interface);
        let aggregate = aggregate.with_distributions(self.distribution);
        let mut run = run_record::run(&aggregate, &totals, warnings, facts);
        input.kept.iter().for_each(|kept| kept.copy_tcp_counters(&mut run));
        if let Some(sampled) = sampled {
            sampled.report(&mut run);
        }
        if self.fields {
            read_fields(&mut run, input, &keys)?;
        }
        if let Some(model) = self.model {
            read_projection(&mut run, model, input, &keys)?;
        }
        add_distances(&mut run, &self.round_trip_times);
        run.whole.work.clone_from(&self.work);
        Ok(run)
    }

    /// Warns of other traffic in files without the requested connections, and says how to read it.
    fn look_for_others(&self, keys: &KeyReader, warnings: &mut Warnings) -> Result<()> {
        let tally = Aggregate::new().without_statements();
        let mut dissector = Dissector::new(Selection::default(), tally).with_keys(keys.log());
        self.input.read(&mut dissector, keys, &mut Warnings::default())?;
        let (aggregate, _) = dissector.finish();
        warnings.warn_of_others(&aggregate.connections());
        Ok(())
    }
}
