//! `overhead advise`: savings that the traffic leaves open, and the settings for them.

mod text;

use crate::options::{Color, PriceArgs};
use crate::{print, terminal};
use overhead_advise::{
    Advice, AdviceFinding, AdviceObserver, Certainty, Compressor, FindingSubject, SeenTraffic, WhatIf, WhatIfOptions,
    all,
};
use overhead_dissect::explain::CaptureReading;
use overhead_model::outside::to_json;
use overhead_model::record::ViewRow;
use overhead_model::{
    Class, ConnectionSummary, Listener, Operation, RowId, RowKey, Side, SideTotals, Tally, bail_usage,
};
use overhead_options::DecodeArgs;
use overhead_reading::{InputPlan, KeptRun, Warnings};
use overhead_report::{RunSeries, window_ns};
pub use text::{certainty, facts, known_by, label};

use anyhow::Result;
use clap::{Args, ValueEnum};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::str::FromStr;

const RULES: &str = "\
You get the five findings that save the most, each with the statement, its evidence, the setting that \
fixes it, and what you would save: bytes, time spent waiting and, with --price, money. --all shows the \
others. No rule fires below its threshold: see docs/advise.md.

--what-if shows the ledger as if you had applied a rule's remedy, if that can be computed.

Examples:
  overhead advise trace.pcap
  overhead advise trace.pcap '#3'
  overhead advise trace.pcap --price 0.02/GB --per month
  overhead advise runs/get --format markdown
  overhead advise trace.pcap --what-if column-metadata
  overhead advise trace.pcap --what-if pipelining=16 --format json";

/// Arguments of `advise`.
#[derive(Args, Debug)]
#[command(after_help = RULES)]
pub struct AdviseArgs {
    /// A run folder, its record, or pcap or pcapng files, plain or compressed; then '#3' for a statement's operations alone
    #[arg(required = true, value_name = "RUN|FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    decode: DecodeArgs,
    #[command(flatten)]
    pricing: PriceArgs,
    /// Show more than five findings, and those that save less than 2%
    #[arg(long)]
    all: bool,
    /// The ledger as if you had done this: the name of a rule, pipelining=N, compression=lz4, zlib or zstd
    #[arg(long, value_name = "RULE")]
    what_if: Option<Hypothesis>,
    /// Form of the result on standard output
    #[arg(long, value_enum, default_value = "table")]
    format: AdviceForm,
    /// Colours
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    color: Color,
}

/// Form of advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum AdviceForm {
    /// For people
    Table,
    /// For programs
    Json,
    /// For documents
    Markdown,
}

#[derive(Clone, Copy, Debug)]
struct Hypothesis {
    rule: &'static str,
    suppositions: WhatIfOptions,
}

impl FromStr for Hypothesis {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let rules = all(WhatIfOptions::default());
        let names = || rules.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let rule = rules.iter().map(|(name, _)| *name).find(|rule| *rule == name);
        let rule = rule.ok_or_else(|| format!("no such rule; choose one of {}", names()))?;
        let mut suppositions = WhatIfOptions::default();
        match (rule, value) {
            ("pipelining", Some(depth)) => {
                let depth = depth.parse().ok().filter(|depth| (1..=1_000_000).contains(depth));
                suppositions.depth = Some(depth.ok_or("the depth is a number from 1 to 1,000,000: pipelining=16")?);
            }
            ("compression", Some("lz4")) => suppositions.compressor = Some(Compressor::Lz4),
            ("compression", Some("zlib")) => suppositions.compressor = Some(Compressor::Zlib),
            ("compression", Some("zstd")) => suppositions.compressor = Some(Compressor::Zstd),
            ("compression", _) => return Err("name the compressor: compression=lz4, zlib or zstd".to_owned()),
            (_, Some(_)) => return Err(format!("{rule} takes no value")),
            (_, None) => {}
        }
        Ok(Self { rule, suppositions })
    }
}

impl AdviseArgs {
    /// Prints what was found in one reading, with numbers of statements if the files can be read again for them.
    pub fn run(mut self) -> Result<u8> {
        let mut warnings = Warnings::default();
        let is_number = |file: &mut PathBuf| file.to_str().and_then(overhead_reading::number).is_some();
        let number = if self.files.len() > 1 { self.files.pop_if(is_number) } else { None };
        let number = number.map(|number| number.display().to_string());
        let input = InputPlan::open(self.files, &self.decode.plan())?;
        if let (Some(number), Some(pipe)) = (&number, input.pipe()) {
            bail_usage!(
                "finding {number} takes two readings, and {} can be read only once: save it to a file first",
                pipe.display()
            );
        }
        let is_shown = self.format != AdviceForm::Json && self.what_if.is_none();
        let is_numbered = input.pipe().is_none() && (is_shown || number.is_some());
        let statements = if is_numbered { overhead_reading::statements(&input)? } else { Vec::new() };
        let only = number.map(|number| overhead_reading::statement(&statements, &number)).transpose()?;
        let suppositions = self.what_if.map(|hypothesis| hypothesis.suppositions).unwrap_or_default();
        let mut observer = AdviceObserver::new(all(suppositions));
        let totals = input.explore(&mut observer, &input.read_keys(&mut warnings)?, &mut warnings)?;
        let (mut advice, seen) = observer.into_advice();
        advice.findings.retain(|finding| only.as_ref().is_none_or(|row| is_about(&finding.subject, row)));
        let price = self.pricing.price();
        let read_ns = || totals.last_ns.zip(totals.first_ns).map_or(0, |(last, first)| last - first);
        let window_ns = input.kept.as_ref().and_then(KeptRun::kept_record).map_or_else(read_ns, window_ns);
        for saving in advice.findings.iter_mut().map(|finding| &mut finding.saving) {
            saving.cost = price.as_ref().and_then(|price| price.cost_per_period(saving.bytes as f64, window_ns));
        }
        warnings.warn_of_totals(&totals);
        if seen.wire() + totals.other != totals.wire_bytes && advice.unlisted_operations == 0 {
            warnings.partial("what is shown differs from the ledger: this is a defect");
        }
        if advice.unlisted_operations > 0 {
            let unlisted = advice.unlisted_operations;
            warnings.partial(format!("{unlisted} operations were not looked at: they are of too many kinds, or too many were under way at once"));
        }
        let what_if = self.what_if.map(|hypothesis| applied(hypothesis.rule, &seen, &advice)).transpose()?;
        let view = text::AdviceView { statements: &statements, price: price.as_ref(), is_whole: self.all };
        let document = || what_if.as_ref().map_or_else(|| view.document(&advice), text::what_if);
        print::verbatim(&match (&what_if, self.format) {
            (Some(what_if), AdviceForm::Json) => to_json(what_if)?,
            (None, AdviceForm::Json) => to_json(&advice)?,
            (_, AdviceForm::Markdown) => document().markdown(),
            (_, AdviceForm::Table) => document().terminal(terminal::style(self.color.wanted())),
        })?;
        Ok(print::settled(warnings))
    }
}

/// Returns whether a finding is about a statement, or about its name.
fn is_about(subject: &FindingSubject, row: &ViewRow) -> bool {
    let statement = row.statement.as_deref().filter(|text| !text.starts_with('('));
    (&*row.protocol, &*row.name, Class::Workload.name()) == (subject.protocol, &*subject.name, subject.class)
        && (subject.statement.is_empty() || statement.is_none_or(|text| text == subject.statement))
}

/// Finds advice in the packets, and adds each workload operation to `series`, in one reading.
pub fn read(input: &InputPlan, series: &mut RunSeries) -> Result<Advice> {
    let mut both =
        OverTime { observer: AdviceObserver::new(all(WhatIfOptions::default())), series, workload: BTreeSet::new() };
    // The record has the warnings about the packets.
    let mut unsaid = Warnings::default();
    input.explore(&mut both, &input.read_keys(&mut unsaid)?, &mut unsaid)?;
    Ok(both.observer.into_advice().0)
}

/// An observer that also adds the start of each workload operation to a series.
struct OverTime<'a> {
    observer: AdviceObserver,
    series: &'a mut RunSeries,
    /// Workload rows, as the observer numbers them.
    workload: BTreeSet<RowId>,
}

impl CaptureReading for OverTime<'_> {}

impl Tally for OverTime<'_> {
    fn row(&mut self, key: RowKey<'_>) -> RowId {
        let is_workload = key.class == Class::Workload;
        let row = self.observer.row(key);
        if is_workload {
            self.workload.insert(row);
        }
        row
    }
    fn operation(&mut self, row: RowId, operation: &Operation) {
        self.observer.operation(row, operation);
    }
    fn wants_each(&self) -> bool {
        true
    }
    fn each(&mut self, row: RowId, operation: &Operation, start_ns: Option<u64>) {
        if let Some(start_ns) = start_ns.filter(|_| self.workload.contains(&row)) {
            self.series.add(start_ns, operation.latency_ns);
        }
    }
    fn late(&mut self, row: RowId, side: Side, totals: &SideTotals) {
        self.observer.late(row, side, totals);
    }
    fn connection(&mut self, summary: ConnectionSummary) {
        self.observer.connection(summary);
    }
    fn listener(&mut self) -> Option<&mut dyn Listener> {
        self.observer.listener()
    }
}

/// Applies a rule, or says why it cannot be applied. A rule without findings changes nothing.
fn applied(rule: &'static str, seen: &SeenTraffic, advice: &Advice) -> Result<WhatIf> {
    let findings: Vec<&AdviceFinding> = advice.findings.iter().filter(|finding| finding.rule == rule).collect();
    let guessed = findings.iter().find(|finding| finding.certainty == Certainty::AtMost);
    let saves_time = findings.iter().any(|finding| finding.saving.ns.is_some_and(|ns| ns > 0));
    let reason = match guessed {
        Some(finding) => Some(format!("not known: {}", finding.unknown)),
        None if saves_time && findings.iter().all(|finding| finding.changes.is_empty()) => {
            Some("it saves time, not bytes".to_owned())
        }
        None => None,
    };
    if let Some(reason) = reason {
        bail_usage!("--what-if {rule}: the ledger cannot be computed for it: {reason}");
    }
    Ok(WhatIf::new(rule, seen, &advice.findings))
}
