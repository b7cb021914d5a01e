//! Open operations, and what is remembered of closed ones.

use crate::decode::OpId;
use overhead_model::{Class, Operation, Outcome, RowId, SideTotals};

/// An operation that is not emitted yet.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub sides: [SideTotals; 2],
    pub row: Option<RowId>,
    pub class: Class,
    /// Set once the decoder has closed it.
    pub outcome: Option<Outcome>,
    /// Frames with payload of this operation whose headers are not shared out yet.
    pub pending_frames: u32,
    pub first_ns: Option<u64>,
    pub last_ns: Option<u64>,
}

impl Open {
    const NEW: Self = Self {
        sides: [SideTotals { frames: 0, amounts: overhead_model::Amounts::ZERO }; 2],
        row: None,
        class: Class::Unmatched,
        outcome: None,
        pending_frames: 0,
        first_ns: None,
        last_ns: None,
    };
}

/// Where an operation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Open; index for [`Ops::at`].
    Open(u32),
    /// Emitted to this row.
    Closed(RowId),
    /// Emitted and forgotten.
    Gone,
}

/// Small record of an operation, kept as long as anything refers to it.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Serial number of the operation, so that a reused slot is not taken for it.
    serial: u64,
    state: State,
    /// Runs of bytes that name it as their owner, and the connection's note of its latest operation.
    references: u32,
}

/// All operations of a connection. An [`OpId`] is a serial number and a slot.
#[derive(Debug, Default)]
pub(super) struct Ops {
    serial: u64,
    slots: Vec<Slot>,
    free_slots: Vec<u32>,
    open: Vec<Open>,
    free_open: Vec<u32>,
}

const SLOT_BITS: u32 = 24;

fn slot_of(op: OpId) -> usize {
    (op.0 & ((1 << SLOT_BITS) - 1)) as usize
}

impl Ops {
    pub fn open(&mut self) -> OpId {
        let index = self.free_open.pop().unwrap_or_else(|| {
            self.open.push(Open::NEW);
            self.open.len() as u32 - 1
        });
        if let Some(open) = self.open.get_mut(index as usize) {
            *open = Open::NEW;
        }
        let fresh = Slot { serial: self.serial, state: State::Open(index), references: 0 };
        self.serial += 1;
        let slot = if let Some(slot) = self.free_slots.pop() {
            slot
        } else {
            self.slots.push(fresh);
            self.slots.len() as u32 - 1
        };
        if let Some(place) = self.slots.get_mut(slot as usize) {
            *place = fresh;
        }
        OpId(fresh.serial << SLOT_BITS | u64::from(slot))
    }

    /// Gives back room that no operation is in.
    pub fn shrink(&mut self) {
        if self.free_open.len() == self.open.len() {
            (self.open, self.free_open) = (Vec::new(), Vec::new());
        }
    }

    /// Order of opening.
    pub fn age(op: OpId) -> u64 {
        op.0 >> SLOT_BITS
    }

    fn slot(&mut self, op: OpId) -> Option<&mut Slot> {
        self.slots.get_mut(slot_of(op)).filter(|slot| slot.serial == op.0 >> SLOT_BITS)
    }

    pub fn state(&self, op: OpId) -> State {
        let slot = self.slots.get(slot_of(op)).filter(|slot| slot.serial == op.0 >> SLOT_BITS);
        slot.map_or(State::Gone, |slot| slot.state)
    }

    pub fn at(&mut self, index: u32) -> &mut Open {
        &mut self.open[index as usize]
    }

    pub fn get(&self, op: OpId) -> Option<&Open> {
        match self.state(op) {
            State::Open(index) => self.open.get(index as usize),
            State::Closed(_) | State::Gone => None,
        }
    }

    pub fn get_mut(&mut self, op: OpId) -> Option<&mut Open> {
        match self.state(op) {
            State::Open(index) => self.open.get_mut(index as usize),
            State::Closed(_) | State::Gone => None,
        }
    }

    /// All open operations in order of opening.
    pub fn open_ids(&self) -> Vec<OpId> {
        let open = self.slots.iter().enumerate().filter(|(_, slot)| matches!(slot.state, State::Open(_)));
        let mut ids: Vec<_> = open.map(|(index, slot)| OpId(slot.serial << SLOT_BITS | index as u64)).collect();
        ids.sort_unstable();
        ids
    }

    /// One frame fewer to wait for; true where the operation can be emitted.
    pub fn release_frame(&mut self, op: OpId) -> bool {
        self.get_mut(op).is_some_and(|open| {
            open.pending_frames = open.pending_frames.saturating_sub(1);
            open.pending_frames == 0 && open.outcome.is_some()
        })
    }

    /// Something refers to the operation, and may after it closed.
    pub fn retain(&mut self, op: OpId) {
        if let Some(slot) = self.slot(op) {
            slot.references += 1;
        }
    }

    /// One reference fewer.
    pub fn forget(&mut self, op: OpId) {
        if let Some(slot) = self.slot(op) {
            slot.references = slot.references.saturating_sub(1);
            if slot.references == 0 && matches!(slot.state, State::Closed(_)) {
                slot.state = State::Gone;
                self.free_slots.push(slot_of(op) as u32);
            }
        }
    }

    /// Takes an operation that is over out of the open ones.
    pub fn close(&mut self, op: OpId) -> Option<(RowId, Class, Operation)> {
        let State::Open(index) = self.state(op) else {
            return None;
        };
        let open = self.open.get(index as usize)?;
        let (row, outcome) = (open.row?, open.outcome?);
        let answered = matches!(outcome, Outcome::Ok | Outcome::Error);
        let latency_ns = match (open.first_ns, open.last_ns) {
            (Some(first), Some(last)) if answered => Some(last.saturating_sub(first)),
            _ => None,
        };
        let operation = Operation { sides: open.sides, outcome, latency_ns };
        let class = open.class;
        self.free_open.push(index);
        if let Some(slot) = self.slot(op) {
            slot.state = State::Closed(row);
            if slot.references == 0 {
                slot.state = State::Gone;
                self.free_slots.push(slot_of(op) as u32);
            }
        }
        Some((row, class, operation))
    }
}
