//! Records the result of a turn on the general path, so that it can be repeated.

use super::ConnectionLedger;
use super::direction::LedgerDirection;
use super::ops::ClosedOperations;
use super::rounds::{RepeatedRoundTrips, RoundTrips};
use overhead_decode::{Free, OpId};
use overhead_model::{Operation, RowId, Side};

/// Bytes of a turn that may differ.
#[derive(Clone, Copy, Debug)]
pub struct FreeBytes {
    pub side: Side,
    pub op: OpId,
    /// Distance from the first byte of the turn in this direction.
    pub offset: u64,
    pub len: u64,
    pub free: Free,
}

#[derive(Clone, Debug)]
pub struct RecordedOperation {
    pub op: OpId,
    pub row: RowId,
    pub operation: Operation,
    pub first_ns: Option<u64>,
    pub last_ns: Option<u64>,
}

#[derive(Debug, Default)]
pub struct TurnRecording {
    pub free: Vec<FreeBytes>,
    pub operations: Vec<RecordedOperation>,
    /// Start and owner of each run of bytes, in order.
    runs: [Vec<(u64, OpId)>; 2],
    /// Start and end of the turn in each direction.
    begun: [u64; 2],
    ended: [u64; 2],
    counted: u64,
    /// At the start.
    rounds: RoundTrips,
    /// What changed in them.
    round_trips: Option<RepeatedRoundTrips>,
    /// Round trips up to the first answer of the turn.
    to_answer: Option<u64>,
    /// The latest operation at the start and at the end.
    latest: [Option<OpId>; 2],
    /// Something happened that cannot be repeated with the turn.
    pub(super) is_spoilt: bool,
}

/// Entries that the books repeat with a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepeatedEntries {
    /// Runs of bytes in each direction: length, the row of the operations that own them, and the number of those operations.
    runs: [Box<[(u64, RowId, u32)]>; 2],
    counted: u64,
    round_trips: Option<RepeatedRoundTrips>,
    to_answer: Option<u64>,
    latest: Option<RowId>,
}

impl TurnRecording {
    /// Records a closed operation, with the times of its first and last payload.
    pub(super) fn closed(&mut self, closed: RecordedOperation) {
        self.operations.push(closed);
    }

    /// Returns the entries to repeat; `None` if the turn cannot be repeated.
    pub fn repeat(&self) -> Option<RepeatedEntries> {
        if self.is_spoilt {
            return None;
        }
        let row = |op: OpId| self.operations.iter().find(|recorded| recorded.op == op).map(|recorded| recorded.row);
        let of_side = |side: Side| {
            let (runs, ended) = (&self.runs[side as usize], self.ended[side as usize]);
            let begun_with_first = runs.first().map_or(ended, |&(start, _)| start);
            if begun_with_first != self.begun[side as usize] {
                return None;
            }
            let ends = runs.iter().skip(1).map(|&(start, _)| start).chain([ended]);
            let mut rows = Vec::<(u64, RowId, u32)>::with_capacity(1);
            for (&(start, op), end) in runs.iter().zip(ends) {
                let row = row(op)?;
                match rows.last_mut() {
                    Some((len, of, count)) if *of == row => (*len, *count) = (*len + end - start, *count + 1),
                    _ => rows.push((end - start, row, 1)),
                }
            }
            Some(rows.into_boxed_slice())
        };
        let latest = match self.latest {
            [before, after] if before == after => None,
            [_, after] => Some(row(after?)?),
        };
        let runs = [of_side(Side::Request)?, of_side(Side::Response)?];
        let &Self { counted, round_trips, to_answer, .. } = self;
        Some(RepeatedEntries { runs, counted, round_trips, to_answer, latest })
    }
}

impl ConnectionLedger {
    /// Returns whether nothing is open, announced or waited for.
    pub fn is_idle(&self) -> bool {
        self.ops.outstanding() == 0 && self.directions.iter().all(LedgerDirection::is_idle)
    }

    /// Starts recording the turn that starts.
    pub fn record(&mut self) {
        let begun = self.directions.each_ref().map(|direction| direction.posted);
        let (counted, rounds, latest) = (self.operations, self.rounds, [self.latest; 2]);
        // Most turns have one, and it is large.
        let operations = Vec::with_capacity(1);
        let none = TurnRecording::default();
        self.recording = Some(Box::new(TurnRecording { operations, begun, counted, rounds, latest, ..none }));
    }

    #[inline]
    pub(super) fn is_recording(&self) -> bool {
        self.recording.is_some()
    }

    /// Stops recording and returns the recording.
    pub fn recorded(&mut self) -> Option<Box<TurnRecording>> {
        let mut recording = self.recording.take()?;
        recording.ended = self.directions.each_ref().map(|direction| direction.posted);
        recording.counted = self.operations - recording.counted;
        recording.round_trips = self.rounds.since(&recording.rounds, &self.directions[Side::Response as usize]);
        recording.latest[1] = self.latest;
        Some(recording)
    }

    /// Notes that an operation of the application was answered.
    pub(super) fn note_answer(&mut self) {
        let total = self.round_trips();
        self.round_trips_to_answer.get_or_insert(total);
        if let Some(recording) = &mut self.recording {
            recording.to_answer.get_or_insert(self.rounds.total - recording.rounds.total);
        }
    }

    /// Marks the recording as unrepeatable.
    #[inline]
    pub(super) fn spoil(&mut self) {
        if let Some(recording) = &mut self.recording {
            recording.is_spoilt = true;
        }
    }

    /// Records that bytes may differ, starting `ahead` bytes after the posted ones.
    #[inline]
    pub(super) fn free(&mut self, side: Side, op: OpId, ahead: u64, len: u64, free: Free) {
        if let Some(recording) = &mut self.recording {
            let offset = self.directions[side as usize].posted + ahead - recording.begun[side as usize];
            recording.free.push(FreeBytes { side, op, offset, len, free });
        }
    }

    #[inline]
    pub(super) fn record_run(&mut self, side: Side, op: OpId) {
        if let Some(recording) = &mut self.recording {
            recording.runs[side as usize].push((self.directions[side as usize].posted, op));
        }
    }

    /// Adds the bytes of a turn's repetitions in one direction to their owners.
    pub fn repeat(&mut self, side: Side, repeat: &RepeatedEntries, times: u64) {
        match *repeat.runs[side as usize] {
            [] => {}
            [(len, row, count)] => {
                self.directions[side as usize].repeat(len * times, row, u64::from(count) * times);
                self.forget_owners(side);
            }
            ref runs => {
                for _ in 0..times {
                    for &(len, row, count) in runs {
                        self.directions[side as usize].repeat(len, row, count.into());
                    }
                    self.forget_owners(side);
                }
            }
        }
    }

    /// Adds the operations of the repetitions.
    pub fn repeat_counts(&mut self, repeat: &RepeatedEntries, times: u64) {
        self.operations += repeat.counted * times;
        if let Some(to_answer) = repeat.to_answer {
            let before = self.round_trips();
            self.round_trips_to_answer.get_or_insert(before + to_answer);
        }
        if let Some(round_trips) = repeat.round_trips {
            self.rounds.repeat(round_trips, times, &self.directions[Side::Response as usize]);
        }
        if let Some(row) = repeat.latest
            && let Some(before) = self.latest.replace(ClosedOperations { row, count: 1 }.op())
        {
            self.ops.forget(before);
        }
    }
}
