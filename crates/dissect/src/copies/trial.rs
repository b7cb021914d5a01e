//! Decides whether a tap repeats frames, as a mirror port does that carries both directions of two ports.
//!
//! A trial starts with the first frame that repeats one. It holds the frames from there on, until enough of them had the time to be
//! repeated.

use super::{Copies, HEADERS, numbers_digest};
use crate::limits;
use crate::moment::CaptureMoment;
use crate::packet::{self, Packet};
use overhead_model::Frame;
use overhead_model::frame::OwnedFrame;
use std::collections::HashMap;
use std::net::SocketAddr;

/// Repeated frames that prove a tap, and that prove it if they have no IP id.
const PROOF: usize = 3;
const PROOF_WITHOUT_ID: usize = 8;
/// Frames that had the time to be repeated, after which a trial ends.
const ENOUGH: usize = 24;
/// Shares of repeated frames in percent: of a tap that repeats them, and of senders who repeat some.
const NEARLY_ALL: usize = 80;
const FEW: usize = 30;
/// Tolerance between the offsets of a tap, in nanoseconds.
const JITTER_NS: u64 = 100_000;

/// The frames of a trial.
#[derive(Debug)]
pub struct TapTrial {
    /// Held until the trial is over.
    pub frames: Vec<(OwnedFrame, CaptureMoment)>,
    /// The tap's interface: that of the first frame.
    pub interface: u32,
    bytes: usize,
}

impl TapTrial {
    pub fn new(first: &Frame<'_>, at: CaptureMoment) -> Self {
        Self { bytes: first.bytes.len(), interface: first.interface, frames: vec![(OwnedFrame::new(first), at)] }
    }

    /// Holds a frame. Returns whether there may be enough of them.
    pub fn hold(&mut self, frame: &Frame<'_>, at: CaptureMoment) -> bool {
        self.bytes += frame.bytes.len();
        self.frames.push((OwnedFrame::new(frame), at));
        self.frames.len().is_multiple_of(limits::TRIAL_FRAMES / 8) || self.is_full()
    }

    /// Returns whether no more frames may be held.
    pub fn is_full(&self) -> bool {
        let times = self.frames.first().zip(self.frames.last());
        let times = times.map(|((first, _), (last, _))| (first.frame().time_ns, last.frame().time_ns));
        self.frames.len() >= limits::TRIAL_FRAMES
            || self.bytes >= limits::TRIAL_BYTES
            || times.is_some_and(|(first_ns, last_ns)| last_ns.saturating_sub(first_ns) >= limits::TRIAL_NS)
    }
}

/// The times between a frame and its copy at one tap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TapOffsets {
    least_ns: u64,
    most_ns: u64,
    new: u64,
    copies: u64,
}

impl TapOffsets {
    pub fn count_new(&mut self) {
        self.new += 1;
    }

    /// Returns whether a repeat after `offset_ns` is a copy. If the frame has no IP id, it may also be a retransmission.
    pub fn is_copy(&mut self, offset_ns: u64, has_id: bool) -> bool {
        let is_copy = has_id || (self.least_ns / 2..=2 * self.most_ns + JITTER_NS).contains(&offset_ns);
        *(if is_copy { &mut self.copies } else { &mut self.new }) += 1;
        is_copy
    }

    /// Returns whether the tap repeated nearly all frames.
    pub fn is_steady(&self) -> bool {
        self.copies.saturating_mul(100) >= self.new.saturating_mul(NEARLY_ALL as u64)
    }
}

/// What a trial found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapVerdict {
    /// Repeats are the senders' own.
    Single,
    /// Nearly every frame is repeated; or some are, and the evidence does not decide.
    Doubled { offsets: TapOffsets, is_certain: bool, from_both_ends: bool },
    /// Too few frames so far.
    Open,
}

/// A frame of a trial, by its numbers.
struct TrialFrame {
    ends: [SocketAddr; 2],
    time_ns: u64,
    seq: u32,
    ack: Option<u32>,
    next_seq: u32,
    has_id: bool,
    repeated_ns: Option<u64>,
}

impl Copies {
    /// Judges the tap of a trial's first frame. `is_last` means that no more frames will come.
    pub fn judge(&self, trial: &TapTrial, is_last: bool) -> TapVerdict {
        let is_last = is_last || trial.is_full();
        let frames = self.new_frames(trial);
        let mut offsets: Vec<u64> =
            frames.iter().filter_map(|frame| Some(frame.repeated_ns?.abs_diff(frame.time_ns))).collect();
        offsets.sort_unstable();
        let (Some(&least_ns), Some(&median_ns)) = (offsets.first(), offsets.get(offsets.len() / 2)) else {
            return if is_last { TapVerdict::Single } else { TapVerdict::Open };
        };
        let most_ns = offsets.get(offsets.len() * 19 / 20).copied().unwrap_or(median_ns);
        let last_ns = trial.frames.last().map_or(0, |(last, _)| last.frame().time_ns);
        let had_time =
            |frame: &&TrialFrame| frame.repeated_ns.is_some() || frame.time_ns.saturating_add(2 * most_ns) < last_ns;
        let judged = frames.iter().filter(had_time).count();
        if judged < ENOUGH && !is_last {
            return TapVerdict::Open;
        }
        let share = offsets.len() * 100 / judged.max(1);
        let has_ids =
            frames.iter().filter(|frame| frame.repeated_ns.is_some() && frame.has_id).count() * 2 > offsets.len();
        let is_proven = offsets.len() >= if has_ids { PROOF } else { PROOF_WITHOUT_ID };
        if !is_proven || share <= FEW {
            return TapVerdict::Single;
        }
        let is_steady = has_ids || most_ns <= 4 * median_ns + JITTER_NS;
        TapVerdict::Doubled {
            offsets: TapOffsets { least_ns, most_ns, new: 0, copies: 0 },
            is_certain: share >= NEARLY_ALL && is_steady,
            from_both_ends: is_of_both_ends(&frames, median_ns),
        }
    }

    /// Returns the frames of a trial that repeat no earlier one, except resets: a sender repeats these at once.
    fn new_frames(&self, trial: &TapTrial) -> Vec<TrialFrame> {
        let mut frames: Vec<TrialFrame> = Vec::new();
        // Those before the trial are beyond the list.
        let mut first_like: HashMap<_, usize> = self.early.iter().map(|(kept, _)| (kept.key(), usize::MAX)).collect();
        let frames_of_tap = trial.frames.iter().map(|(held, _)| held.frame());
        for frame in frames_of_tap.filter(|frame| frame.interface == trial.interface) {
            let Packet::Tcp(segment) = packet::parse(&frame) else { continue };
            if segment.flags.rst {
                continue;
            }
            let ends = [segment.source, segment.destination];
            let key = (numbers_digest(HEADERS, &segment).value(), ends);
            match first_like.get(&key).map(|&at| frames.get_mut(at)) {
                Some(None) => continue,
                Some(Some(like)) if frame.time_ns.abs_diff(like.time_ns) <= limits::COPY_NS => {
                    like.repeated_ns.get_or_insert(frame.time_ns);
                    continue;
                }
                _ => {}
            }
            first_like.insert(key, frames.len());
            frames.push(TrialFrame {
                ends,
                time_ns: frame.time_ns,
                seq: segment.seq,
                ack: segment.flags.ack.then_some(segment.ack),
                next_seq: (segment.seq.wrapping_add(segment.payload_len))
                    .wrapping_add(u32::from(segment.flags.syn || segment.flags.fin)),
                has_id: segment.ip_id != 0,
                repeated_ns: None,
            });
        }
        frames
    }

    /// Applies a verdict to the tap of this interface; no trial starts before frame `number` plus a pause.
    pub fn settle(&mut self, interface: u32, verdict: TapVerdict, number: u64) {
        match verdict {
            TapVerdict::Doubled { offsets, .. } => {
                self.taps.push((interface, offsets));
                self.compare_from_now_on();
            }
            TapVerdict::Single | TapVerdict::Open => {
                self.trials += 1;
                self.next_trial = number.saturating_add(limits::TRIAL_PAUSE << self.trials.min(6));
            }
        }
    }

    /// Returns the number of taps that repeated some frames, but not nearly all.
    pub fn unsteady_taps(&self) -> u64 {
        self.taps.iter().filter(|(_, offsets)| !offsets.is_steady()).count() as u64
    }
}

/// Returns whether the taps are at both ends of a path: no answer comes before the copy of what it answers, and the way between the taps
/// takes most of the time to the fastest answer.
fn is_of_both_ends(frames: &[TrialFrame], median_ns: u64) -> bool {
    let mut fastest_ns = u64::MAX;
    for (at, frame) in frames.iter().enumerate().filter(|(_, frame)| frame.next_seq != frame.seq) {
        let answers = |other: &&TrialFrame| {
            other.ends == [frame.ends[1], frame.ends[0]] && other.ack.is_some_and(|ack| ack == frame.next_seq)
        };
        if let Some(answer) = frames.get(at..).unwrap_or_default().iter().find(answers) {
            fastest_ns = fastest_ns.min(answer.time_ns.saturating_sub(frame.time_ns));
        }
    }
    fastest_ns != u64::MAX && median_ns <= fastest_ns && fastest_ns < median_ns.saturating_mul(3) / 2
}
