//! Reads capture files as one sequence of frames in order of time.
//!
//! The order of the arguments does not matter. Files of a rotated set are read one after the other; files captured side
//! by side are merged by time. Within a file, frames keep their order even if their times do not rise, so that a set
//! that was split at such a place reads like the unsplit file. A frame in several files is delivered once.

mod clocks;
mod plan;
mod repeats;
mod twins;

pub use plan::InputPlan;

use crate::keys::KeyReader;
use crate::run_folder::{SetPlace, set_place};
use crate::warnings::Warnings;
use anyhow::Result;
use clocks::FrameClocks;
use overhead_capture::{DecryptionSecrets, FileSource, FrameSource};
use overhead_dissect::Dissector;
use overhead_model::frame::OwnedFrame;
use overhead_model::{Frame, Tally};
use overhead_report::text::counted;
use repeats::RepeatFinder;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use twins::{TwinFinder, TwinTaps};

/// Two files that overlap by no more than this still count as consecutive. Frames of several receive queues are out of
/// order by less.
const SLACK_NS: u64 = 100_000_000;
/// Maximum bytes of frames held to decide this.
const SLACK_BYTES: usize = 32 << 20;

const GO_ON: ControlFlow<()> = ControlFlow::Continue(());

/// Receives the frames of several files.
pub trait TakeFrames {
    /// Takes the next frame; `file` is the position of its file among the arguments. `Break` ends the reading.
    fn take(&mut self, file: usize, frame: &Frame<'_>) -> ControlFlow<()>;
}

pub trait Dissect {
    /// Dissects one frame.
    fn frame(&mut self, frame: &Frame<'_>);

    /// Returns whether more frames are useless.
    fn is_over(&mut self) -> bool {
        false
    }
}

impl<T: Tally> Dissect for Dissector<T> {
    #[inline]
    fn frame(&mut self, frame: &Frame<'_>) {
        Self::frame(self, frame);
    }
}

impl<F: FnMut(usize, &Frame<'_>) -> ControlFlow<()>> TakeFrames for F {
    #[inline]
    fn take(&mut self, file: usize, frame: &Frame<'_>) -> ControlFlow<()> {
        self(file, frame)
    }
}

/// Checks the clock and the tap of each frame before passing it on.
struct CheckedFrames<T> {
    clocks: FrameClocks,
    /// Absent if all frames come from one tap.
    twins: Option<TwinFinder>,
    take: T,
}

impl<T: TakeFrames> TakeFrames for CheckedFrames<T> {
    // Inlined into the loop over a file's frames: a call would cost a tenth of the work for most frames.
    #[inline(always)]
    fn take(&mut self, file: usize, frame: &Frame<'_>) -> ControlFlow<()> {
        if let Some(twins) = &mut self.twins {
            twins.frame(file, frame);
        }
        self.clocks.frame(file, frame);
        self.take.take(file, frame)
    }
}

/// Reads all files. Warns of incomplete ends and of frames in several files. Adds TLS secrets in a file to `keys`
/// before the frames that follow them.
fn read(paths: &[PathBuf], keys: &KeyReader, take: impl TakeFrames, warnings: &mut Warnings) -> Result<()> {
    let (waiting, repeats) = (VecDeque::new(), RepeatFinder::default());
    let mut reading = MergedReading { paths, keys, waiting, repeats, is_one_set: false, warnings, dropped: 0 };
    let mut checked = CheckedFrames { clocks: FrameClocks::default(), twins: None, take };
    if let [path] = paths {
        let mut file = File::open(0, path, keys)?;
        reading.note_missing(set_place(&file.source).as_slice());
        // The interfaces are described before the first frame.
        file.fill()?;
        checked.twins = (file.source.interfaces().len() > 1).then(TwinFinder::default);
        if file.rest(&mut checked)?.is_continue() {
            reading.note_end(&file);
        }
    } else {
        reading.survey()?;
        checked.twins = (!reading.is_one_set).then(TwinFinder::default);
        reading.all(&mut checked)?;
    }
    checked.twins.iter().for_each(|twins| reading.note_twins(twins));
    checked.clocks.set_back().into_iter().for_each(|warning| reading.warnings.partial(warning));
    reading.note_repeats();
    Ok(())
}

/// Returns whether the path can be opened more than once. True for missing files and for folders, which the reader
/// reports.
pub fn can_be_read_again(path: &Path) -> bool {
    path.as_os_str() != "-" && (path.is_file() || path.is_dir() || !path.exists())
}

struct MergedReading<'a> {
    paths: &'a [PathBuf],
    keys: &'a KeyReader,
    /// Files not opened yet, in order of their first frames.
    waiting: VecDeque<WaitingFile<'a>>,
    repeats: RepeatFinder,
    /// The files form one capture, so their order is known and no frame occurs twice.
    is_one_set: bool,
    warnings: &'a mut Warnings,
    /// Frames dropped during the captures, according to the files.
    dropped: u64,
}

struct WaitingFile<'a> {
    first_ns: u64,
    index: usize,
    /// The open file, if it can be read only once.
    opened: Option<File<'a>>,
}

struct File<'a> {
    index: usize,
    keys: &'a KeyReader,
    secrets: DecryptionSecrets,
    source: FileSource,
    /// Frames read ahead.
    ahead: VecDeque<OwnedFrame>,
    /// The frame of these delivered last.
    current: Option<OwnedFrame>,
}

/// What to do after a file.
enum FileFlow<'a> {
    /// The file has ended.
    End,
    /// The file overlaps with the next one.
    Beside(Box<File<'a>>),
    /// No more frames are wanted.
    Stop,
}

impl<'a> MergedReading<'a> {
    /// Opens each file and reads its first frame.
    fn survey(&mut self) -> Result<()> {
        let mut waiting = Vec::with_capacity(self.paths.len());
        let mut places = Vec::new();
        for (index, path) in self.paths.iter().enumerate() {
            let mut file = File::open(index, path, self.keys)?;
            places.extend(set_place(&file.source).map(|place| (place, index)));
            let Some(first_ns) = file.look()? else {
                self.note_end(&file);
                continue;
            };
            let opened = if path.is_file() { None } else { Some(file) };
            waiting.push(WaitingFile { first_ns, index, opened });
        }
        waiting.sort_by(|a, b| (a.first_ns, self.paths.get(a.index)).cmp(&(b.first_ns, self.paths.get(b.index))));
        self.waiting = waiting.into();
        self.recognise(places);
        Ok(())
    }

    /// Sorts the files in the order of writing, if they form one capture and none is given twice.
    fn recognise(&mut self, mut places: Vec<(SetPlace, usize)>) {
        places.sort_by_key(|(place, _)| place.part);
        let is_set = places.windows(2).all(
            |pair| matches!(pair, [(before, _), (after, _)] if before.set == after.set && before.part < after.part),
        );
        if !is_set || places.len() < self.paths.len() {
            return;
        }
        self.is_one_set = true;
        let rank = |index: usize| places.iter().position(|(_, of)| *of == index);
        self.waiting.make_contiguous().sort_by_cached_key(|file| rank(file.index));
        let places: Vec<SetPlace> = places.into_iter().map(|(place, _)| place).collect();
        self.note_missing(&places);
    }

    /// Warns of missing files before and between these, which are in order.
    fn note_missing(&mut self, places: &[SetPlace]) {
        let (Some(first), Some(last)) = (places.first(), places.last()) else { return };
        let between = (last.part - first.part + 1).saturating_sub(places.len() as u64);
        let before = first.part.saturating_sub(1);
        if before > 0 {
            self.warnings.partial(format!(
                "the first {} of this capture {} not here (-W deletes the oldest): what follows is read from the middle of its connections",
                counted(before, "packet file"),
                if before == 1 { "is" } else { "are" },
            ));
        }
        if between > 0 {
            self.warnings.partial(format!(
                "{} of this capture {} missing between the given ones: their bytes are gaps",
                counted(between, "packet file"),
                if between == 1 { "is" } else { "are" },
            ));
        }
    }

    fn all(&mut self, take: &mut dyn TakeFrames) -> Result<()> {
        while let Some(file) = self.next_file()? {
            let next_ns = self.next_ns();
            match self.alone(file, next_ns, take)? {
                FileFlow::End => {}
                FileFlow::Stop => return Ok(()),
                FileFlow::Beside(file) => {
                    if self.merge(*file, take)?.is_break() {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the start of the next file, if the current one may overlap with it.
    fn next_ns(&self) -> Option<u64> {
        self.waiting.front().filter(|_| !self.is_one_set).map(|next| next.first_ns)
    }

    fn next_file(&mut self) -> Result<Option<File<'a>>> {
        let Some(WaitingFile { index, opened, .. }) = self.waiting.pop_front() else { return Ok(None) };
        match (opened, self.paths.get(index)) {
            (Some(file), _) => Ok(Some(file)),
            (None, Some(path)) => Ok(Some(File::open(index, path, self.keys)?)),
            (None, None) => Ok(None),
        }
    }

    /// Reads one file until it overlaps with the next, which starts at `next_ns`.
    fn alone(&mut self, mut file: File<'a>, next_ns: Option<u64>, take: &mut dyn TakeFrames) -> Result<FileFlow<'a>> {
        let mut held = VecDeque::new();
        let (mut held_bytes, mut is_beside) = (0, false);
        let index = file.index;
        let flow = file.each(&mut |_: usize, frame: &Frame<'_>| {
            let is_near = next_ns.is_some_and(|next| frame.time_ns.saturating_add(SLACK_NS) >= next);
            let late = next_ns.map_or(0, |next| frame.time_ns.saturating_sub(next));
            if late == 0 && held.is_empty() {
                return if self.repeats.has(index, frame, is_near) { GO_ON } else { take.take(index, frame) };
            }
            held_bytes += frame.bytes.len();
            held.push_back(OwnedFrame::new(frame));
            is_beside = late > SLACK_NS || held_bytes > SLACK_BYTES;
            if is_beside { ControlFlow::Break(()) } else { GO_ON }
        })?;
        if is_beside {
            held.append(&mut file.ahead);
            file.ahead = held;
            return Ok(FileFlow::Beside(Box::new(file)));
        }
        if flow.is_break() {
            return Ok(FileFlow::Stop);
        }
        for kept in held {
            let frame = kept.frame();
            if !self.repeats.has(file.index, &frame, true) && take.take(file.index, &frame).is_break() {
                return Ok(FileFlow::Stop);
            }
        }
        self.note_end(&file);
        Ok(FileFlow::End)
    }

    /// Merges files by time until all have ended. A file joins when its first frame is due.
    fn merge(&mut self, first: File<'a>, take: &mut dyn TakeFrames) -> Result<ControlFlow<()>> {
        let mut files = vec![first];
        // Time and rank of each file's next frame. The rank is the order of joining.
        let mut heads = BinaryHeap::new();
        heads.extend(files.first_mut().map(File::look).transpose()?.flatten().map(|time| Reverse((time, 0))));
        while let Some(&Reverse((time_ns, rank))) = heads.peek() {
            if self.next_ns().is_some_and(|next| next < time_ns)
                && let Some(mut file) = self.next_file()?
            {
                heads.extend(file.look()?.map(|time| Reverse((time, files.len()))));
                files.push(file);
                continue;
            }
            heads.pop();
            let Some(file) = files.get_mut(rank) else { continue };
            let index = file.index;
            if let Some(frame) = file.next()?
                && !self.repeats.has(index, &frame, true)
                && take.take(index, &frame).is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
            match file.look()? {
                Some(time) => heads.push(Reverse((time, rank))),
                None => self.note_end(file),
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Warns if the file is cut off, and counts the frames that were dropped when it was captured.
    fn note_end(&mut self, file: &File<'_>) {
        if let Some(cut) = file.source.end().and_then(|end| end.cut.as_ref()) {
            self.warnings.partial(format!("{} {cut}", file.source.name()));
        }
        let dropped = file.source.recorded_drops().unwrap_or_default();
        self.dropped = self.dropped.saturating_add(dropped);
        self.warnings.dropped_of_files(self.dropped);
    }

    /// Returns the name of a file, as the user gave it.
    fn name(&self, file: usize) -> String {
        self.paths.get(file).map_or_else(String::new, |path| path.display().to_string())
    }

    /// Reports files that repeat frames of others.
    fn note_repeats(&mut self) {
        for (file, before, frames) in self.repeats.counts() {
            let (file, before) = (self.name(file), self.name(before));
            let how = if file == before {
                "were read before, because the file was given twice".to_owned()
            } else {
                format!("are in {before} too, with the same time and bytes")
            };
            self.warnings.remark(format!("{} of {file} {how}: each is counted once", counted(frames, "frame")));
        }
    }

    /// Warns of files, and of interfaces in a file, with the same segments at different times.
    fn note_twins(&mut self, twins: &TwinFinder) {
        for TwinTaps { taps: [(a, first), (b, second)], same, of } in twins.pairs() {
            let taps = if a == b {
                format!("{}: interfaces {first} and {second}", self.name(a))
            } else {
                format!("{} and {}", self.name(a), self.name(b))
            };
            self.warnings.partial(format!(
                "{taps} hold the same segments at other times ({same} of {of} compared): captured at two places, each is counted twice, as a retransmission; analyze one of them"
            ));
        }
    }
}

impl<'a> File<'a> {
    fn open(index: usize, path: &Path, keys: &'a KeyReader) -> Result<Self> {
        let source = FileSource::open(path)?;
        let secrets = source.secrets();
        Ok(Self { index, keys, secrets, source, ahead: VecDeque::new(), current: None })
    }

    /// Passes all frames to `take` until it breaks, including those read ahead.
    fn each(&mut self, take: &mut impl TakeFrames) -> Result<ControlFlow<()>> {
        while let Some(kept) = self.ahead.pop_front() {
            if take.take(self.index, &kept.frame()).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        self.rest(take)
    }

    /// Passes the frames not yet read to `take` until it breaks.
    fn rest(&mut self, take: &mut impl TakeFrames) -> Result<ControlFlow<()>> {
        let index = self.index;
        while let Some(frame) = self.read()? {
            // There are no secrets between buffered frames.
            if take.take(index, &frame).is_break()
                || self.source.buffered_frames(|frame| take.take(index, frame)).is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(GO_ON)
    }

    /// Advances to the next frame and reads the secrets before it. Returns false at the end.
    fn fill(&mut self) -> Result<bool> {
        let is_there = self.source.fill()?;
        self.keys.bring(&self.secrets);
        Ok(is_there)
    }

    /// Returns the next frame of the source, after reading the secrets before it.
    fn read(&mut self) -> Result<Option<Frame<'_>>> {
        self.fill()?;
        Ok(self.source.next_frame()?.frame())
    }

    fn next(&mut self) -> Result<Option<Frame<'_>>> {
        if let Some(kept) = self.ahead.pop_front() {
            return Ok(Some(self.current.insert(kept).frame()));
        }
        self.read()
    }

    /// Returns the time of the next frame.
    fn look(&mut self) -> Result<Option<u64>> {
        if self.ahead.is_empty()
            && let Some(frame) = self.read()?.map(|frame| OwnedFrame::new(&frame))
        {
            self.ahead.push_back(frame);
        }
        Ok(self.ahead.front().map(|kept| kept.frame().time_ns))
    }
}
