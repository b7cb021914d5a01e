//! `overhead analyze`: capture files to a run record.

use crate::cli::{Output, Which};
use crate::doubts::Doubts;
use crate::keys::{KeyFiles, KeyReader};
use crate::{ledger, print};
use anyhow::Result;
use clap::Args;
use overhead_capture::{FileSource, Next, Source};
use overhead_dissect::Dissector;
use overhead_model::Measured;
use overhead_model::record::{Input, SourceKind};
use overhead_report::{Aggregate, NamedRun};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Arguments of `analyze`.
#[derive(Args, Debug)]
pub struct Analyze {
    /// pcap or pcapng files, plain or compressed, in order of time; - for standard input
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
}

impl Analyze {
    /// Reads the files and prints the result.
    pub fn run(self) -> Result<u8> {
        let started = Instant::now();
        let mut doubts = Doubts::default();
        let keys = KeyReader::read(&self.keys, &mut doubts)?;
        let mut dissector = Dissector::new(self.which.selection()?, Aggregate::new()).with_keys(keys.log());
        let mut inputs = Vec::new();
        let mut left = self.count.unwrap_or(u64::MAX);
        for path in &self.files {
            inputs.push(read(path, &mut dissector, &keys, &mut left, &mut doubts)?);
        }
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
        let run = ledger::run(&aggregate, &totals, doubts, facts);
        let named = NamedRun::new(name(&self.files), run);
        print::warnings(&named, &self.output);
        print::result(&named, &self.output)?;
        Ok(named.run.exit)
    }
}

/// Feeds one file, or `left` frames of it, to the dissector.
fn read(
    path: &Path,
    dissector: &mut Dissector<Aggregate>,
    keys: &KeyReader,
    left: &mut u64,
    doubts: &mut Doubts,
) -> Result<Input> {
    let mut source = FileSource::open(path)?;
    let secrets = source.secrets();
    while *left > 0 {
        let Next::Frame(frame) = source.next_frame()? else {
            break;
        };
        keys.add(&secrets);
        dissector.frame(&frame);
        *left -= 1;
    }
    if let Some(cut) = source.end().and_then(|end| end.cut.as_ref()) {
        doubts.partial(format!("{} {cut}", source.name()));
    }
    Ok(source.input(path.display().to_string()))
}

/// What a table calls the result: the file's name, or the first and how many more.
fn name(files: &[PathBuf]) -> String {
    let first = files.first().map_or_else(String::new, |path| path.display().to_string());
    match files.len() {
        0 | 1 => first,
        n => format!("{first} and {} more", n - 1),
    }
}
