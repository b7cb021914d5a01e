//! `overhead analyze`: capture files to a run record.

use crate::cli::{Output, Which};
use crate::doubts::Doubts;
use crate::exit::Fault;
use crate::keys::{KeyFiles, KeyReader};
use crate::time::Window;
use crate::{fields, inputs, ledger, print};
use anyhow::Result;
use clap::Args;
use overhead_dissect::Dissector;
use overhead_dissect::explain::FieldSums;
use overhead_model::record::{Input, SourceKind};
use overhead_model::{Measured, Tally};
use overhead_report::{Aggregate, NamedRun};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

/// Arguments of `analyze`.
#[derive(Args, Debug)]
pub struct Analyze {
    /// pcap or pcapng files, plain or compressed, in any order; - for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    keys: KeyFiles,
    #[command(flatten)]
    output: Output,
    /// Stop after this many frames
    #[arg(short = 'c', long = "count", value_name = "N")]
    count: Option<u64>,
    #[command(flatten)]
    window: Window,
    /// Also sum up the fields of the messages, in a second reading
    #[arg(long)]
    fields: bool,
}

impl Analyze {
    /// Reads the files and prints the result.
    pub fn run(self) -> Result<u8> {
        let started = Instant::now();
        if let Some(file) = self.files.iter().find(|file| self.fields && !inputs::can_be_read_again(file)) {
            let file = file.display();
            return Err(Fault::usage(format!("{file}: --fields reads twice: save a pipe to a file first")).into());
        }
        let mut doubts = Doubts::default();
        let keys = KeyReader::read(&self.keys, &mut doubts)?;
        let mut dissector = Dissector::new(self.which.selection()?, Aggregate::new()).with_keys(keys.log());
        let inputs = self.read(&mut dissector, &keys, &mut doubts)?;
        let (aggregate, totals) = dissector.finish();
        doubts.of_totals(&totals);
        let facts = ledger::Facts {
            kind: SourceKind::File,
            inputs,
            kernel_drops: Measured::unavailable("offline"),
            environment: None,
            counters: Measured::unavailable("offline: counters are taken while a capture runs"),
            bpf_ns: Measured::unavailable("offline"),
            started,
        };
        let mut run = ledger::run(&aggregate, &totals, doubts, facts);
        if self.fields {
            let mut sums = FieldSums::default();
            let mut dissector = fields::dissector(&mut sums, self.which.selection()?, &keys);
            self.read(&mut dissector, &keys, &mut Doubts::default())?;
            dissector.finish();
            fields::add(&mut run, sums);
        }
        let named = NamedRun::new(name(&self.files), run);
        print::warnings(&named, &self.output);
        print::result(&named, &self.output)?;
        Ok(named.run.exit)
    }

    /// Feeds the frames that are asked for to the dissector; gives what each file had of them.
    fn read<T: Tally>(
        &self,
        dissector: &mut Dissector<T>,
        keys: &KeyReader,
        doubts: &mut Doubts,
    ) -> Result<Vec<Input>> {
        self.window.check()?;
        let input = |path: &PathBuf| Input { path: path.display().to_string(), frames: 0, wire_bytes: 0 };
        let mut inputs: Vec<Input> = self.files.iter().map(input).collect();
        let mut window = None;
        let (mut left, mut outside) = (self.count.unwrap_or(u64::MAX), 0);
        let cuts = inputs::read(&self.files, keys, |file, frame| {
            if left == 0 {
                return ControlFlow::Break(());
            }
            let window = window.get_or_insert_with(|| self.window.of(frame.time_ns));
            if !window.contains(&frame.time_ns) {
                outside += 1;
                return ControlFlow::Continue(());
            }
            if let Some(input) = inputs.get_mut(file) {
                input.frames += 1;
                input.wire_bytes += u64::from(frame.original_len);
            }
            dissector.frame(frame);
            left -= 1;
            ControlFlow::Continue(())
        })?;
        for cut in cuts {
            doubts.partial(cut);
        }
        doubts.outside(outside);
        Ok(inputs)
    }
}

/// What a table calls the result: the file's name, or the first and how many more.
fn name(files: &[PathBuf]) -> String {
    let first = files.first().map_or_else(String::new, |path| path.display().to_string());
    match files.len() {
        0 | 1 => first,
        n => format!("{first} and {} more", n - 1),
    }
}
