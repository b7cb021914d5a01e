//! Duty cycles (`--sample 10s/5m`): captures or reads one window of each period and skips the rest.
//!
//! Each window lies at a random place in its period, so that an event every five minutes appears in proportion, neither always
//! nor never. Each window is dissected as a separate capture that starts in the middle of its connections. Traffic between
//! windows was not captured and does not count as lost.

mod dissection;

use crate::inputs::Dissect;
use crate::schedule::{DutyCycle, Windows};
use crate::{inputs, run_folder};
use anyhow::Result;
pub use dissection::{DissectPlan, Dissection};
use overhead_capture::FileSource;
use overhead_decode::Note;
use overhead_dissect::{Dissector, Totals};
use overhead_model::bail_usage;
use overhead_model::record::Sample;
use overhead_model::{Frame, Run};
use overhead_report::{Aggregate, Clusters, WindowTotals};
use std::path::{Path, PathBuf};

/// A choice to read only part of the time.
#[derive(Clone, Copy, Debug, Default)]
pub struct SamplePlan {
    /// A window of each period; absent to read all.
    pub cycle: Option<DutyCycle>,
    /// Seed for the random places of the windows.
    pub seed: Option<u64>,
}

impl SamplePlan {
    /// Returns the windows that the user asked for, or that the files were captured in.
    pub fn chosen(&self, files: &[PathBuf]) -> Result<Option<Chosen>> {
        let windows = |file: &PathBuf| if inputs::can_be_read_again(file) { run_folder::windows(file) } else { None };
        let noted = files.first().and_then(windows);
        if let Some(other) = files.iter().skip(1).find(|file| windows(file) != noted) {
            bail_usage!(
                "{} was captured in other windows than {}: read each capture separately",
                other.display(),
                files.first().map(|first| first.display().to_string()).unwrap_or_default()
            );
        }
        match (self.cycle, noted) {
            (Some(_), Some(_)) => {
                bail_usage!(
                    "--sample: the file was captured in windows already, which are found in it: leave --sample out"
                )
            }
            (Some(cycle), None) => Ok(Some(Chosen::Asked(cycle, self.seed.unwrap_or_default()))),
            (None, noted) => Ok(noted.map(Chosen::Noted)),
        }
    }
}

/// Returns the windows of a capture file as one word: `all` for a continuous capture, `unreadable` for a file that is not a
/// capture.
pub fn windows_of(file: &Path) -> String {
    if FileSource::open(file).is_err() {
        return "unreadable".to_owned();
    }
    run_folder::windows(file).map_or_else(|| "all".to_owned(), |windows| windows.note())
}

/// The windows to keep.
#[derive(Clone, Copy, Debug)]
pub enum Chosen {
    /// Requested windows, placed by a seed.
    Asked(DutyCycle, u64),
    /// Windows noted in a capture file.
    Noted(Windows),
}

/// Dissects one window after another, each as a separate capture.
pub trait DissectWindows {
    /// Takes a frame from the window of `period`.
    fn frame(&mut self, period: u64, frame: &Frame<'_>);

    /// Ends a window; `covered_ns` of it lay within the run.
    fn end_window(&mut self, covered_ns: u64);

    /// Skips `windows` windows without frames, each `covered_ns` long.
    fn skip(&mut self, covered_ns: u64, windows: u64);

    /// Returns whether further frames are useless.
    fn is_over(&self) -> bool {
        false
    }
}

type Make = Box<dyn Fn(Aggregate) -> Dissector<Aggregate> + Send>;

/// Passes on the frames that lie within windows.
pub struct Sampler<D = AggregateWindows> {
    cycle: DutyCycle,
    seed: u64,
    /// Absent until the first frame, if periods begin with it.
    windows: Option<Windows>,
    dissection: D,
    /// The period whose window is still open.
    period: u64,
    last_ns: u64,
}

/// Dissects windows into one aggregate and sums their totals.
pub struct AggregateWindows {
    make: Make,
    /// Dissector for the current or next window.
    dissector: Dissector<Aggregate>,
    /// Frames and connections of the windows that have ended.
    ended: Totals,
    clusters: Clusters,
}

/// Adds the totals of a window. Message boundaries are unknown at its start, so a lost boundary there is no lost message.
pub fn add_window(sum: &mut Totals, mut totals: Totals) {
    if let Some(lost) = totals.notes.remove(&Note::LostBoundary) {
        *totals.notes.entry(Note::MidMessage).or_default() += lost;
    }
    totals.notes.remove(&Note::OneWay);
    sum.append(&totals);
}

/// Results for the windows of a run.
pub struct Sampled {
    clusters: Clusters,
    schedule: Schedule,
}

/// Placement of a run's windows in time.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    windows: Windows,
    /// End of the run, Unix nanoseconds.
    end_ns: u64,
}

impl<D: DissectWindows> Sampler<D> {
    /// Returns a sampler that passes the frames of these windows to `dissection`. Periods of requested windows begin with
    /// the first frame.
    pub fn new(chosen: Chosen, dissection: D) -> Self {
        let (cycle, seed, windows) = match chosen {
            Chosen::Asked(cycle, seed) => (cycle, seed, None),
            Chosen::Noted(windows) => (windows.cycle, windows.seed, Some(windows)),
        };
        Self { cycle, seed, windows, dissection, period: 0, last_ns: windows.map_or(0, |windows| windows.start_ns) }
    }

    /// Takes a frame if it lies within a window.
    #[inline]
    pub fn take(&mut self, frame: &Frame<'_>) {
        let (cycle, seed) = (self.cycle, self.seed);
        let windows = *self.windows.get_or_insert_with(|| Windows::new(cycle, seed, frame.time_ns));
        self.last_ns = self.last_ns.max(frame.time_ns);
        // Frames from several queues are slightly out of order: a frame too late for its window counts as outside.
        let period = windows.period_of(frame.time_ns);
        self.close_before(&windows, period);
        if self.period == period && windows.window(period).contains(&frame.time_ns) {
            self.dissection.frame(period, frame);
        }
    }

    /// Ends the windows of all periods before `period`. A clock change, or a file with distant times, can make millions of
    /// them.
    fn close_before(&mut self, windows: &Windows, period: u64) {
        if self.period < period {
            self.close(windows, u64::MAX);
            self.dissection.skip(self.cycle.window_ns, period - self.period);
            self.period = period;
        }
    }

    /// Ends the window of the current period, cut off at `end_ns`.
    fn close(&mut self, windows: &Windows, end_ns: u64) {
        let covered_ns = windows.length_before(self.period, end_ns);
        self.period += 1;
        if covered_ns > 0 {
            self.dissection.end_window(covered_ns);
        }
    }

    /// Ends the last window at `end_ns`, or else with the last frame. Returns the schedule; `None` if there was no frame.
    pub fn end(mut self, end_ns: Option<u64>) -> (D, Option<Schedule>) {
        let end_ns = end_ns.unwrap_or(self.last_ns + 1);
        if let Some(windows) = self.windows {
            let last = windows.period_of(end_ns);
            self.close_before(&windows, last);
            if self.period == last {
                self.close(&windows, end_ns);
            }
        }
        (self.dissection, self.windows.map(|windows| Schedule { windows, end_ns }))
    }
}

impl<D: DissectWindows> Dissect for Sampler<D> {
    #[inline]
    fn frame(&mut self, frame: &Frame<'_>) {
        self.take(frame);
    }

    #[inline]
    fn is_over(&mut self) -> bool {
        self.dissection.is_over()
    }
}

impl Sampler {
    /// Ends the last window, at `end_ns` or else with the last frame.
    pub fn finish(self, end_ns: Option<u64>) -> (Aggregate, Totals, Option<Sampled>) {
        let (AggregateWindows { dissector, mut ended, clusters, .. }, schedule) = self.end(end_ns);
        let (tally, rest) = dissector.finish();
        ended.append(&rest);
        (tally, ended, schedule.map(|schedule| Sampled { clusters, schedule }))
    }
}

impl AggregateWindows {
    /// Returns a dissection that adds windows to a tally; `make` builds a dissector for each window.
    pub fn new(tally: Aggregate, make: Make) -> Self {
        let dissector = make(tally);
        Self { make, dissector, ended: Totals::default(), clusters: Clusters::default() }
    }
}

impl DissectWindows for AggregateWindows {
    #[inline]
    fn frame(&mut self, _: u64, frame: &Frame<'_>) {
        self.dissector.frame(frame);
    }

    fn end_window(&mut self, covered_ns: u64) {
        let (frames, wire_bytes) = (self.dissector.totals().frames, self.dissector.totals().wire_bytes);
        if frames == 0 {
            return self.clusters.add_empty(covered_ns, 1);
        }
        let whole = self.dissector.tally().operations();
        let ended = std::mem::replace(&mut self.dissector, (self.make)(Aggregate::new()));
        let (tally, totals) = ended.finish();
        self.clusters.add(WindowTotals { covered_ns, frames, wire_bytes }, &whole, tally.operations());
        add_window(&mut self.ended, totals);
        self.dissector = (self.make)(tally);
    }

    fn skip(&mut self, covered_ns: u64, windows: u64) {
        self.clusters.add_empty(covered_ns, windows);
    }
}

impl Schedule {
    /// Returns the lengths of a window and of a period, in nanoseconds.
    pub fn cycle_ns(&self) -> [u64; 2] {
        [self.windows.cycle.window_ns, self.windows.cycle.period_ns]
    }

    /// Returns the times before the first window and after the last, in nanoseconds.
    fn unseen_ns(&self) -> [u64; 2] {
        let Self { windows, end_ns } = *self;
        let last = windows.period_of(end_ns);
        let last = if windows.length_before(last, end_ns) == 0 { last.saturating_sub(1) } else { last };
        let before_ns = windows.window(0).start.min(end_ns).saturating_sub(windows.start_ns);
        [before_ns, end_ns.saturating_sub(windows.window(last).end)]
    }

    /// Returns the time from the start of the first period to the end of the run, in nanoseconds.
    pub fn span_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.windows.start_ns)
    }
}

impl Sampled {
    /// Adds the estimates to the record.
    pub fn report(&self, run: &mut Run) {
        let ([window_ns, period_ns], span_ns) = (self.schedule.cycle_ns(), self.schedule.span_ns());
        let Windows { seed, start_ns, .. } = self.schedule.windows;
        let sample = Sample { window_ns, period_ns, seed, start_ns, span_ns, ..Sample::default() };
        self.clusters.report(run, sample, self.schedule.unseen_ns());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::duty_cycle;
    use overhead_model::record::Selected;

    fn windows(seed: u64) -> Windows {
        Windows::new(duty_cycle("10s/5m").unwrap(), seed, 7_000_000_000)
    }

    /// A capture without frames that has this comment.
    fn with_comment(text: &str) -> Vec<u8> {
        let mut comment = [&1_u16.to_le_bytes()[..], &(text.len() as u16).to_le_bytes(), text.as_bytes()].concat();
        comment.resize(comment.len().next_multiple_of(4) + 4, 0);
        let len = 28 + comment.len() as u32;
        let section = [0x0a0d_0d0a_u32, len, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX].map(u32::to_le_bytes).concat();
        let interface = [1_u32, 20, 1, 0, 20].map(u32::to_le_bytes).concat();
        [&section[..], &comment, &len.to_le_bytes(), &interface].concat()
    }

    #[test]
    fn captures_in_other_windows_are_not_read_together() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, seed: Option<u64>| {
            let path = folder.path().join(name);
            let windows = seed.map(windows);
            std::fs::write(&path, with_comment(&run_folder::note(&Selected::default(), None, windows.as_ref())))
                .unwrap();
            path
        };
        let (one, again, other, all) = (file("a", Some(1)), file("b", Some(1)), file("c", Some(2)), file("d", None));
        let chosen = |files: &[&PathBuf]| {
            let files: Vec<PathBuf> = files.iter().copied().cloned().collect();
            SamplePlan::default().chosen(&files).map(|chosen| chosen.is_some())
        };
        assert!(matches!(chosen(&[&one, &again]), Ok(true)));
        assert!(matches!(chosen(&[&all]), Ok(false)));
        assert!(chosen(&[&one, &other]).is_err());
        assert!(chosen(&[&all, &one]).is_err());
        std::fs::write(&again, "no capture").unwrap();
        assert_eq!(
            [&one, &all, &again].map(|path| windows_of(path)),
            [windows(1).note(), "all".into(), "unreadable".into()]
        );
    }
}
