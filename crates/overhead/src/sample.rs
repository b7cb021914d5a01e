//! Duty cycles (`--sample 10s/5m`): captures or reads one window of each period and skips the rest.
//!
//! Each window lies at a random place in its period, so that an event every five minutes appears in proportion, neither always
//! nor never. Each window is dissected as a separate capture that starts in the middle of its connections. Traffic between
//! windows was not captured and does not count as lost.

use crate::exit::bail_usage;
use crate::inputs::Dissect;
use crate::time::duration;
use crate::{inputs, runs};
use anyhow::Result;
use clap::Args;
use overhead_capture::FileSource;
use overhead_decode::Note;
use overhead_dissect::{Dissector, KeyLog, Selection, Totals};
use overhead_model::record::{Measured, Sample};
use overhead_model::{Class, Frame, Run};
use overhead_report::text::{counted, grouped};
use overhead_report::{Aggregate, Clusters, WindowTotals};
use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Shortest window, in nanoseconds: a shorter one would hold less than a batch of frames.
const SHORTEST_NS: u64 = 1_000_000;

/// How a part of the time is chosen.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct SampleArgs {
    /// Take a window of each period alone, as in 10s/5m
    #[arg(long = "sample", value_name = "WINDOW/PERIOD", value_parser = duty_cycle)]
    pub cycle: Option<DutyCycle>,
    /// Choose where windows lie in their periods by this number
    #[arg(long, value_name = "N", requires = "cycle")]
    pub sample_seed: Option<u64>,
}

impl SampleArgs {
    /// Returns the windows that the user asked for, or that the files were captured in.
    pub fn chosen(&self, files: &[PathBuf]) -> Result<Option<Chosen>> {
        let of = |file: &PathBuf| if inputs::can_be_read_again(file) { runs::windows(file) } else { None };
        let noted = files.first().and_then(of);
        if let Some(other) = files.iter().skip(1).find(|file| of(file) != noted) {
            bail_usage!(
                "{} was captured in other windows than {}: read each capture by itself",
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
            (Some(cycle), None) => Ok(Some(Chosen::Asked(cycle, self.sample_seed.unwrap_or_default()))),
            (None, noted) => Ok(noted.map(Chosen::Noted)),
        }
    }
}

/// Returns the windows of a capture file as one word: `all` for a continuous capture, `unreadable` for a file that is no
/// capture.
pub fn windows_of(file: &Path) -> String {
    if FileSource::open(file).is_err() {
        return "unreadable".to_owned();
    }
    runs::windows(file).map_or_else(|| "all".to_owned(), |windows| windows.note())
}

/// The windows to keep.
#[derive(Clone, Copy, Debug)]
pub enum Chosen {
    /// Requested windows, placed by a seed.
    Asked(DutyCycle, u64),
    /// Windows noted in a capture file.
    Noted(Windows),
}

impl Chosen {
    /// Returns a sampler that passes the frames of these windows to `dissection`.
    pub fn sampler<D: DissectWindows>(self, dissection: D) -> Sampler<D> {
        match self {
            Self::Asked(cycle, seed) => Sampler::new(cycle, seed, dissection),
            Self::Noted(windows) => Sampler::of(windows, dissection),
        }
    }
}

/// Slower ways to the same result, and less to tell apart: for tests and measurements.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct DissectArgs {
    /// Send every frame the general way; the result is the same
    #[arg(long, hide = true)]
    no_memo: bool,
    /// Tell no statements apart, to see what that costs
    #[arg(long, hide = true)]
    pub no_statements: bool,
}

impl DissectArgs {
    /// Returns what adds up the selected connections, or what of them lies within windows, in this tally.
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
            Some(chosen) => Dissection::Windows(Box::new(chosen.sampler(AggregateWindows::new(tally, Box::new(make))))),
            None => Dissection::Whole(Box::new(make(tally))),
        }
    }
}

/// Adds up frames.
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
}

#[cfg(feature = "live")]
impl Dissection {
    /// Lets the listener hear of operations from now on, or no longer. With windows nothing is counted, and nobody listens.
    pub fn listen(&mut self, is_listening: bool) {
        if let Self::Whole(dissector) = self {
            dissector.listen(is_listening);
        }
    }

    /// Returns what was tallied so far.
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
                let (before, current) = (&ended.totals, dissector.totals());
                (before.frames + current.frames, before.wire_bytes + current.wire_bytes)
            }
        }
    }
}

impl Dissect for Dissection {
    #[inline]
    fn frame(&mut self, frame: &Frame<'_>) {
        match self {
            Self::Whole(dissector) => dissector.frame(frame),
            Self::Windows(sampler) => sampler.take(frame),
        }
    }
}

/// A window of each period, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DutyCycle {
    window_ns: u64,
    period_ns: u64,
}

fn duty_cycle(text: &str) -> Result<DutyCycle, String> {
    let (window, period) = text.split_once('/').ok_or_else(|| format!("{text} is no duty cycle: give 10s/5m"))?;
    let length = |text: &str| u64::try_from(duration(text)?.as_nanos()).map_err(|_| format!("{text} is too long"));
    let (window_ns, period_ns) = (length(window)?, length(period)?);
    if window_ns < SHORTEST_NS {
        return Err(format!("a window of {window} is too short: give 1ms or more"));
    }
    if window_ns >= period_ns {
        return Err(format!("a window of {window} in a period of {period} leaves nothing out: leave --sample out"));
    }
    Ok(DutyCycle { window_ns, period_ns })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    cycle: DutyCycle,
    seed: u64,
    /// Start of the first period, Unix nanoseconds.
    start_ns: u64,
}

impl Windows {
    pub fn new(cycle: DutyCycle, seed: u64, start_ns: u64) -> Self {
        Self { cycle, seed, start_ns }
    }

    /// Parses the text that [`Windows::note`] returns.
    pub fn noted(text: &str) -> Option<Self> {
        let numbers: Vec<u64> = text.split('/').map(str::parse).collect::<Result<_, _>>().ok()?;
        let &[window_ns, period_ns, seed, start_ns] = numbers.as_slice() else { return None };
        (0 < window_ns && window_ns < period_ns).then_some(Self {
            cycle: DutyCycle { window_ns, period_ns },
            seed,
            start_ns,
        })
    }

    /// Returns the text that a packet file stores for these windows.
    pub fn note(&self) -> String {
        let Self { cycle: DutyCycle { window_ns, period_ns }, seed, start_ns } = self;
        format!("{window_ns}/{period_ns}/{seed}/{start_ns}")
    }

    /// Returns the number of the period that contains `time_ns`, from 0.
    fn period_of(&self, time_ns: u64) -> u64 {
        time_ns.saturating_sub(self.start_ns) / self.cycle.period_ns
    }

    fn window(&self, period: u64) -> Range<u64> {
        let DutyCycle { window_ns, period_ns } = self.cycle;
        let offset = mixed(self.seed ^ mixed(period)) % (period_ns - window_ns + 1);
        let begin = self.start_ns.saturating_add(period.saturating_mul(period_ns)).saturating_add(offset);
        begin..begin.saturating_add(window_ns)
    }

    /// Returns the window at `time_ns`, or else the next one.
    #[cfg(feature = "live")]
    pub fn at_or_after(&self, time_ns: u64) -> Range<u64> {
        let period = self.period_of(time_ns);
        let window = self.window(period);
        if time_ns < window.end { window } else { self.window(period + 1) }
    }

    /// Returns how much of a window lies before `end_ns`, in nanoseconds.
    fn length_before(&self, period: u64, end_ns: u64) -> u64 {
        let window = self.window(period);
        end_ns.min(window.end).saturating_sub(window.start)
    }

    /// Returns the total time within windows until `end_ns`, in nanoseconds.
    #[cfg(feature = "live")]
    pub fn covered_ns(&self, end_ns: u64) -> u64 {
        let period = self.period_of(end_ns);
        period * self.cycle.window_ns + self.length_before(period, end_ns)
    }
}

/// Returns a pseudorandom number (Steele, Lea and Flood, *Fast splittable pseudorandom number generators*, 2014).
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
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
    outside: u64,
    last_ns: u64,
}

/// Dissects windows into one aggregate and sums their totals.
pub struct AggregateWindows {
    make: Make,
    /// Dissector for the current or next window.
    dissector: Dissector<Aggregate>,
    ended: EndedWindows,
    clusters: Clusters,
}

/// Totals of the windows that have ended.
#[derive(Debug, Default)]
pub struct EndedWindows {
    /// Their frames and connections.
    pub totals: Totals,
    /// Connections that a window first met in the middle of a message.
    pub met_midway: u64,
}

impl EndedWindows {
    /// Adds the totals of a window. Message boundaries are unknown at its start, so a lost boundary there is no lost message.
    pub fn append(&mut self, mut totals: Totals) {
        self.met_midway += totals.notes.remove(&Note::LostBoundary).unwrap_or_default();
        totals.notes.remove(&Note::OneWay);
        self.totals.append(&totals);
    }
}

/// Results for the windows of a run.
pub struct Sampled {
    clusters: Clusters,
    schedule: Schedule,
    met_midway: u64,
}

/// Placement of a run's windows in time.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    windows: Windows,
    /// End of the run, Unix nanoseconds.
    end_ns: u64,
    /// Frames left out between windows.
    outside: u64,
}

impl<D: DissectWindows> Sampler<D> {
    /// Returns a sampler whose periods begin with the first frame.
    pub fn new(cycle: DutyCycle, seed: u64, dissection: D) -> Self {
        Self { cycle, seed, windows: None, dissection, period: 0, outside: 0, last_ns: 0 }
    }

    /// Returns a sampler for known windows.
    pub fn of(windows: Windows, dissection: D) -> Self {
        let last_ns = windows.start_ns;
        Self { windows: Some(windows), last_ns, ..Self::new(windows.cycle, windows.seed, dissection) }
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
        } else {
            self.outside += 1;
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
        let outside = self.outside;
        (self.dissection, self.windows.map(|windows| Schedule { windows, end_ns, outside }))
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
        ended.totals.append(&rest);
        let EndedWindows { totals, met_midway } = ended;
        (tally, totals, schedule.map(|schedule| Sampled { clusters, schedule, met_midway }))
    }
}

impl AggregateWindows {
    /// Returns a dissection that adds windows to a tally; `make` builds a dissector for each window.
    pub fn new(tally: Aggregate, make: Make) -> Self {
        let dissector = make(tally);
        Self { make, dissector, ended: EndedWindows::default(), clusters: Clusters::default() }
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
        self.clusters.add(WindowTotals { covered_ns, frames, wire_bytes }, &whole, &tally.operations());
        self.ended.append(totals);
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

    /// Returns the time from the start of the first period to the end of the run, in nanoseconds.
    pub fn span_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.windows.start_ns)
    }

    /// Returns a sentence about how much of the time the windows cover, and what became of the other frames.
    pub fn said(&self, windows: u64, covered_ns: u64, then: &str) -> String {
        let [window_ns, period_ns] = self.cycle_ns();
        let share = if self.span_ns() == 0 { 1.0 } else { (covered_ns as f64 / self.span_ns() as f64).min(1.0) };
        let mut said = format!(
            "{} of {} in periods of {} cover {:.3}% of the time: {then}",
            counted(windows, "window"),
            seconds(window_ns),
            seconds(period_ns),
            share * 100.0
        );
        if self.outside > 0 {
            let _ = write!(said, "; {} outside are not counted", counted(self.outside, "frame"));
        }
        said
    }
}

impl Sampled {
    /// Adds the estimates, and warnings about them, to the record.
    pub fn report(&self, run: &mut Run) {
        let ([window_ns, period_ns], span_ns) = (self.schedule.cycle_ns(), self.schedule.span_ns());
        let Windows { seed, start_ns, .. } = self.schedule.windows;
        let absent = || Measured::unavailable("no window");
        let sample = Sample {
            window_ns,
            period_ns,
            seed,
            start_ns,
            windows: 0,
            span_ns,
            covered_ns: 0,
            covered_share: 0.0,
            cut_operations: 0,
            frames_per_second: absent(),
            wire_bytes_per_second: absent(),
        };
        self.clusters.report(run, sample);
        let Some(sample) = &run.sample else { return };
        let then = "figures are of what was seen in them, and what they say of all of it, with its error, is in `sample` and `sampled`";
        let mut remarks = vec![self.schedule.said(sample.windows, sample.covered_ns, then)];
        remarks.extend(run.operations.iter().filter(|row| row.class == Class::Workload).filter_map(|row| {
            let estimate = row.sampled.as_ref()?.per_second.value()?;
            let bytes = row.sampled.as_ref()?.response_wire_bytes.value()?;
            Some(format!(
                "{}: {} operations a second, between {} and {} at 95% confidence; {:.1} bytes of response, between {:.1} and {:.1}",
                row.name,
                grouped(estimate.value.round() as u64),
                grouped(estimate.low.round() as u64),
                grouped(estimate.high.round() as u64),
                bytes.value,
                bytes.low,
                bytes.high
            ))
        }).take(ROWS_SAID));
        if sample.cut_operations > 0 || self.met_midway > 0 {
            remarks.push(format!(
                "windows cut {} at their ends, which count as unanswered, and met {} in the middle of a message at their beginnings",
                counted(sample.cut_operations, "operation"),
                counted(self.met_midway, "connection")
            ));
        }
        run.warnings.splice(0..0, remarks);
    }
}

/// Rows whose estimates appear in messages; the record has all of them.
const ROWS_SAID: usize = 5;

fn seconds(ns: u64) -> String {
    format!("{} s", ns as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(feature = "live")]
    use overhead_model::record::Selected;

    const SECOND: u64 = 1_000_000_000;

    fn windows(seed: u64) -> Windows {
        Windows::new(duty_cycle("10s/5m").unwrap(), seed, 7 * SECOND)
    }

    /// A capture without frames that has this comment.
    #[cfg(feature = "live")]
    fn with_comment(text: &str) -> Vec<u8> {
        let mut comment = [&1_u16.to_le_bytes()[..], &(text.len() as u16).to_le_bytes(), text.as_bytes()].concat();
        comment.resize(comment.len().next_multiple_of(4) + 4, 0);
        let len = 28 + comment.len() as u32;
        let section = [0x0a0d_0d0a_u32, len, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX].map(u32::to_le_bytes).concat();
        let interface = [1_u32, 20, 1, 0, 20].map(u32::to_le_bytes).concat();
        [&section[..], &comment, &len.to_le_bytes(), &interface].concat()
    }

    #[cfg(feature = "live")]
    #[test]
    fn captures_in_other_windows_are_not_read_together() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, seed: Option<u64>| {
            let path = folder.path().join(name);
            let windows = seed.map(windows);
            std::fs::write(&path, with_comment(&runs::note(&Selected::default(), None, windows.as_ref()))).unwrap();
            path
        };
        let (one, again, other, all) = (file("a", Some(1)), file("b", Some(1)), file("c", Some(2)), file("d", None));
        let chosen = |files: &[&PathBuf]| {
            let files: Vec<PathBuf> = files.iter().copied().cloned().collect();
            SampleArgs::default().chosen(&files).map(|chosen| chosen.is_some())
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

    #[test]
    fn a_duty_cycle_is_a_window_of_a_period() {
        assert_eq!(duty_cycle("10s/5m"), Ok(DutyCycle { window_ns: 10 * SECOND, period_ns: 300 * SECOND }));
        for wrong in ["10s", "10s/10s", "5m/10s", "0/1s", "1us/1s", "a/b"] {
            assert!(duty_cycle(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_period_has_one_window_anywhere_in_it() {
        let mut offsets: Vec<u64> = Vec::new();
        for period in 0..1_000 {
            let window = windows(1).window(period);
            assert_eq!(window.end - window.start, 10 * SECOND);
            let offset = window.start - (7 + period * 300) * SECOND;
            assert!(offset <= 290 * SECOND);
            offsets.push(offset);
        }
        let mean = offsets.iter().sum::<u64>() as f64 / 1e3 / 1e9;
        assert!((mean - 145.0).abs() < 8.0, "{mean}");
        assert_ne!(windows(1).window(0), windows(2).window(0));
    }

    #[cfg(feature = "live")]
    #[test]
    fn a_note_is_read_as_it_was_written() {
        let windows = windows(3);
        assert_eq!(Windows::noted(&windows.note()), Some(windows));
        assert_eq!(Windows::noted("1/2/3"), None);
        assert_eq!(Windows::noted("2/1/3/4"), None);
        assert_eq!(windows.covered_ns(7 * SECOND + 600 * SECOND), 20 * SECOND);
    }
}
