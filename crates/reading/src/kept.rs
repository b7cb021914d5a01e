//! A run whose packets are read again: its folder, its packets and its record.

use crate::choice::ConnectionChoice;
use crate::run_folder::{PART, RECORD, folder_name, has_record, noted, packets, packets_in, selected};
use crate::run_record::Circumstances;
use crate::warnings::Warnings;
use anyhow::{Context, Result, bail};
use overhead_files::{FileOwner, OutputFolder};
use overhead_model::record::{Connection, Run, Source, SourceKind};
use overhead_model::{Measured, bail_usage};
use overhead_report::text::{counted, grouped};
use overhead_report::{load_run, text};
use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

/// A run whose packets are read again.
#[derive(Clone, Debug)]
pub struct KeptRun {
    folder: PathBuf,
    /// The packet files.
    pub packets: Vec<PathBuf>,
    /// The record of these packets; `None` if the capture was aborted.
    record: Option<Run>,
    /// The capture was still running when the packets were found.
    running: bool,
    /// The packets end before the recorded run does.
    is_cut: bool,
}

impl KeptRun {
    /// Opens a run folder, or the folder of a record; returns `None` for anything else.
    pub fn open(path: &Path) -> Result<Option<Self>> {
        if has_record(path) {
            let run = load_run(path)?;
            let mut packets = packets(path, &run);
            // When its disk is full, a capture names no file and leaves the packets written so far.
            let is_cut = packets.is_empty() && run.source.inputs.is_empty();
            if is_cut {
                packets = packets_in(path);
            }
            if packets.is_empty() {
                let path = path.display();
                bail_usage!(
                    "{path}: there are no packets to read again: name the capture itself, or see the record with `overhead report {path}`"
                );
            }
            let folder = if path.is_dir() { Some(path) } else { path.parent() };
            return Ok(Some(Self {
                folder: folder.unwrap_or(path).to_owned(),
                packets,
                record: Some(run),
                running: false,
                is_cut,
            }));
        }
        let packets = packets_in(path);
        Ok((!packets.is_empty()).then(|| {
            let lock = File::open(path).map(|folder| folder.try_lock());
            let running = matches!(lock, Ok(Err(TryLockError::WouldBlock)));
            Self { folder: path.to_owned(), packets, record: None, running, is_cut: false }
        }))
    }

    /// Returns when a sampled capture ended, in Unix nanoseconds; `None` if it was continuous.
    pub fn sample_end_ns(&self) -> Option<u64> {
        let sample = self.record.as_ref()?.sample.as_ref()?;
        Some(sample.start_ns + sample.span_ns)
    }

    /// Returns the record of the packets; `None` if the capture was aborted or is running.
    pub fn kept_record(&self) -> Option<&Run> {
        self.record.as_ref()
    }

    /// Returns whether the capture ended before it could write its record.
    pub fn is_aborted(&self) -> bool {
        self.record.is_none() && !self.running
    }

    /// Returns the user's choice of connections, or else the capture's.
    pub fn connections(&self, asked: &ConnectionChoice) -> ConnectionChoice {
        if !asked.is_default() {
            return asked.clone();
        }
        let selected = match &self.record {
            Some(run) => selected(run),
            None => self.packets.first().and_then(|packets| noted(packets)).unwrap_or_default().asked,
        };
        ConnectionChoice { selected, statements: asked.statements.clone() }
    }

    /// Adds the recorded facts about the run to `facts`. Counters cover the whole capture, so a part of it (`is_part`) has
    /// none.
    pub fn facts(&self, facts: Circumstances, is_part: bool, warnings: &mut Warnings) -> Circumstances {
        let Some(run) = self.record.clone() else { return unfinished(facts, self.running, warnings) };
        if run.source.kind == SourceKind::File {
            return facts;
        }
        warnings.dropped_of_record(run.source.kernel_drops.value().copied().unwrap_or_default());
        let rotation = run.source.rotation;
        let is_part = is_part || rotation.is_some_and(|rotation| rotation.deleted_files > 0);
        let mut inputs = facts.source.inputs;
        if self.is_cut {
            let kept: u64 = inputs.iter().map(|input| input.frames).sum();
            warnings.partial(format!(
                "writing packets failed before the run ended: {} of {} are kept; {} covers all",
                grouped(kept),
                counted(run.source.frames, "frame"),
                self.folder.join(RECORD).display()
            ));
        }
        for (input, before) in inputs.iter_mut().zip(run.source.inputs) {
            input.path = before.path;
        }
        let counters = if is_part || self.is_cut {
            Measured::unavailable("counters were taken over the whole capture, not over this part of it")
        } else {
            run.counters
        };
        let only_command = run.source.only_command;
        if let Some(only) = only_command {
            warnings.warn_of_only_command(only);
        }
        let kernel_drops = run.source.kernel_drops;
        let source = Source { kind: SourceKind::Live, inputs, rotation, only_command, kernel_drops, ..facts.source };
        Circumstances { source, environment: run.environment, counters, bpf_ns: run.observer.bpf_ns, ..facts }
    }

    /// Copies TCP's counters of the connections that have the same bytes as in the record.
    pub fn copy_tcp_counters(&self, run: &mut Run) {
        let Some(recorded) = &self.record else { return };
        let key = |row: &Connection| (row.client.clone(), row.server.clone(), row.wire_bytes);
        let recorded: HashMap<_, _> = recorded.connections.iter().map(|row| (key(row), &row.kernel)).collect();
        for row in &mut run.connections {
            if let Some(kernel) = recorded.get(&key(row)) {
                row.kernel = Measured::clone(kernel);
            }
        }
    }

    /// Writes the record into the folder, whole or not at all, and returns its path.
    pub fn write(&self, run: &Run) -> Result<PathBuf> {
        let path = self.folder.join(RECORD);
        if self.is_cut {
            bail!("{} is of the whole run, and the packets are of a part of it: it stays as it is", path.display());
        }
        let json = text::json(run)?;
        let folder = OutputFolder::open_or_make(&self.folder, 0o700, FileOwner::sudo_caller())
            .with_context(|| format!("{} cannot be written", path.display()))?;
        if !folder.lock() {
            bail!(
                "{}: the capture into this folder is running, and writes its record itself: end it first",
                path.display()
            );
        }
        if self.record.is_none() && folder.holds(RECORD) {
            bail!("{}: the capture has written its record meanwhile", path.display());
        }
        // A capture that was killed leaves its reserved space behind.
        let written = folder.write(RECORD, json.as_bytes()).and_then(|path| folder.remove(PART).map(|()| path));
        written.with_context(|| format!("{} cannot be written", path.display()))
    }

    /// Returns the folder's name, which is also the run's.
    pub fn name(&self) -> String {
        folder_name(&self.folder)
    }
}

/// Describes a capture without a record, which is still running or was aborted.
fn unfinished(facts: Circumstances, running: bool, warnings: &mut Warnings) -> Circumstances {
    let reason = if running { "the capture is still running" } else { "the capture was aborted" };
    warnings.partial(format!(
        "{reason}: this is the record of the packets that were kept, without counters, drops, machine and command"
    ));
    let why = || reason.to_owned();
    let mut inputs = facts.source.inputs;
    for input in &mut inputs {
        if let Some(name) = Path::new(&input.path).file_name() {
            input.path = name.to_string_lossy().into_owned();
        }
    }
    let kernel_drops = Measured::unavailable(why());
    let source = Source { kind: SourceKind::Live, inputs, kernel_drops, ..facts.source };
    let (counters, bpf_ns) = (Measured::unavailable(why()), Measured::unavailable(why()));
    Circumstances { source, counters, bpf_ns, ..facts }
}
