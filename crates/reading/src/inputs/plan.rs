//! The plan of a reading: turns files, run folders, connections and keys into frames.

use super::{Dissect, TakeFrames, can_be_read_again};
use crate::choice::{ConnectionChoice, DecodePlan};
use crate::kept::KeptRun;
use crate::keys::{KeyFiles, KeyReader};
use crate::time::TimeWindow;
use crate::warnings::Warnings;
use anyhow::Result;
use overhead_dissect::explain::CaptureReading;
use overhead_dissect::{Dissector, Selection, Totals};
use overhead_model::record::InputFile;
use overhead_model::{Frame, bail_usage};
use overhead_report::text::counted;
use std::ops::{Bound, ControlFlow, RangeBounds};
use std::path::{Path, PathBuf};

/// Captures to read together, and how.
#[derive(Clone, Debug)]
pub struct InputPlan {
    /// Paths in any order; `-` is standard input.
    pub files: Vec<PathBuf>,
    /// The choice of connections, as stored in records.
    pub connections: ConnectionChoice,
    /// The same choice, as the dissector takes it.
    pub selection: Selection,
    /// Key logs that decrypt TLS.
    pub keys: KeyFiles,
    /// The run folder that contains the files, if any.
    pub kept: Option<KeptRun>,
    /// Frames outside this window are skipped.
    pub window: TimeWindow,
    /// Maximum number of frames to read.
    pub count: Option<u64>,
}

impl InputPlan {
    /// Opens captures, or the packets of a single run folder or record.
    pub fn open(files: Vec<PathBuf>, decode: &DecodePlan) -> Result<Self> {
        let kept = match files.as_slice() {
            [path] => {
                let kept = KeptRun::open(path)?;
                if let (None, Some(runs)) = (&kept, folder_of_runs(path)) {
                    bail_usage!("{runs}");
                }
                kept
            }
            _ => None,
        };
        Self::new(files, kept, decode)
    }

    /// Plans to read the packets of a run, decoded by the user's choice or else as captured, or these files.
    pub fn new(files: Vec<PathBuf>, kept: Option<KeptRun>, decode: &DecodePlan) -> Result<Self> {
        let keys = decode.keys.clone();
        match kept {
            Some(kept) => {
                let plan = Self::whole(kept.packets.clone(), kept.connections(&decode.connections), keys)?;
                Ok(Self { kept: Some(kept), ..plan })
            }
            None => Self::whole(files, decode.connections.clone(), keys),
        }
    }

    /// Plans to read whole captures.
    pub fn whole(files: Vec<PathBuf>, connections: ConnectionChoice, keys: KeyFiles) -> Result<Self> {
        let selection = connections.selection()?;
        Ok(Self { files, connections, selection, keys, kept: None, window: TimeWindow::default(), count: None })
    }

    /// Returns a name for the result: the run's, or the first file's with the number of others.
    pub fn name(&self) -> String {
        match (&self.kept, self.files.as_slice()) {
            (Some(kept), _) => kept.name(),
            (None, []) => String::new(),
            (None, [file]) => file.display().to_string(),
            (None, [first, more @ ..]) => format!("{} and {} more", first.display(), more.len()),
        }
    }

    /// Returns whether some frames are skipped.
    pub fn is_part(&self) -> bool {
        self.count.is_some() || !self.window.is_all()
    }

    /// Returns the first file that can be read only once.
    pub fn pipe(&self) -> Option<&Path> {
        self.files.iter().map(PathBuf::as_path).find(|file| !can_be_read_again(file))
    }

    /// Reads the key logs.
    pub fn read_keys(&self, warnings: &mut Warnings) -> Result<KeyReader> {
        KeyReader::read(&self.keys, warnings)
    }

    /// Passes the selected frames to `dissection`, and TLS secrets in the files to `keys`. Returns the frames and bytes
    /// taken from each file.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or the window cannot contain a frame.
    pub fn read(
        &self,
        dissection: &mut impl Dissect,
        keys: &KeyReader,
        warnings: &mut Warnings,
    ) -> Result<Vec<InputFile>> {
        self.window.check()?;
        let input = |path: &PathBuf| InputFile { path: path.display().to_string(), frames: 0, wire_bytes: 0 };
        let mut intake = Intake {
            dissection,
            keys,
            wanted: &self.window,
            is_all: self.window.is_all(),
            window: None,
            left: self.count.unwrap_or(u64::MAX),
            outside: 0,
            inputs: self.files.iter().map(input).collect(),
        };
        super::read(&self.files, keys, &mut intake, warnings)?;
        warnings.outside(intake.outside, self.window.options());
        Ok(intake.inputs)
    }

    /// Dissects the frames for `reading` until it has enough. Returns the totals.
    pub fn explore(
        &self,
        reading: &mut dyn CaptureReading,
        keys: &KeyReader,
        warnings: &mut Warnings,
    ) -> Result<Totals> {
        let mut exploring = Exploring(Dissector::new(self.selection.clone(), reading).with_keys(keys.log()));
        self.read(&mut exploring, keys, warnings)?;
        Ok(exploring.0.finish().1)
    }
}

/// Says what to do instead of reading a folder of runs; `None` for anything else.
fn folder_of_runs(folder: &Path) -> Option<String> {
    let entries = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let mut runs: Vec<_> = entries.filter(|entry| matches!(KeptRun::open(entry), Ok(Some(_)))).collect();
    runs.sort();
    let (name, first) = (folder.display(), runs.first()?.display());
    let count = counted(runs.len() as u64, "run");
    Some(format!(
        "{name} is a folder of {count}: name one of them, such as {first}, or see all with `overhead report {name}/*`"
    ))
}

struct Exploring<'a>(Dissector<&'a mut dyn CaptureReading>);

impl Dissect for Exploring<'_> {
    fn frame(&mut self, frame: &Frame<'_>) {
        self.0.frame(frame);
    }

    fn is_over(&mut self) -> bool {
        self.0.tally_mut().is_done()
    }
}

/// Passes the selected frames to a dissection.
struct Intake<'a, D> {
    dissection: &'a mut D,
    keys: &'a KeyReader,
    wanted: &'a TimeWindow,
    /// Whether frames of all times are selected.
    is_all: bool,
    /// The window in Unix nanoseconds, once the first frame is known.
    window: Option<(Bound<u64>, Bound<u64>)>,
    /// Maximum number of frames still to pass on.
    left: u64,
    /// Number of frames outside the window.
    outside: u64,
    /// Selected frames of each file.
    inputs: Vec<InputFile>,
}

impl<D: Dissect> TakeFrames for &mut Intake<'_, D> {
    #[inline(always)]
    fn take(&mut self, file: usize, frame: &Frame<'_>) -> ControlFlow<()> {
        if self.left == 0 || self.dissection.is_over() {
            return ControlFlow::Break(());
        }
        if !self.is_all && !self.is_within(frame.time_ns) {
            self.outside += 1;
            return ControlFlow::Continue(());
        }
        if let Some(input) = self.inputs.get_mut(file) {
            input.frames += 1;
            input.wire_bytes += u64::from(frame.wire_len());
        }
        if self.keys.has_brought() {
            self.keys.commit();
        }
        self.dissection.frame(frame);
        self.left -= 1;
        ControlFlow::Continue(())
    }
}

impl<D: Dissect> Intake<'_, D> {
    #[inline(never)]
    fn is_within(&mut self, time_ns: u64) -> bool {
        self.window.get_or_insert_with(|| self.wanted.bounds(time_ns)).contains(&time_ns)
    }
}
