//! Open operations, and what is remembered of closed ones.

use overhead_decode::OpId;
use overhead_model::{Class, Operation, Outcome, RowId, Side, SideTotals};

/// An operation that was not emitted yet.
#[derive(Clone, Debug)]
pub(super) struct OpenOperation {
    /// Its result, with the outcome it would have if it ended now.
    pub operation: Operation,
    pub row: Option<RowId>,
    pub class: Class,
    pub is_over: bool,
    /// Runs of its bytes in frames not shared out yet, plus scattered frames with some of its bytes.
    pub unshared: u32,
    pub first_ns: Option<u64>,
    pub last_ns: Option<u64>,
    /// Number of the round trip in which its latest request bytes were sent; 0 without any.
    pub round: u64,
}

impl OpenOperation {
    const NEW: Self = Self {
        operation: Operation {
            sides: [SideTotals { frames: 0, amounts: overhead_model::Amounts::ZERO }; 2],
            outcome: Outcome::Unanswered,
            latency_ns: None,
            round_trips: 0,
        },
        row: None,
        class: Class::Unmatched,
        is_over: false,
        unshared: 0,
        first_ns: None,
        last_ns: None,
        round: 0,
    };

    /// Resets it to [`OpenOperation::NEW`] in place.
    #[inline]
    fn renew(&mut self) {
        let Self { operation, row, class, is_over, unshared, first_ns, last_ns, round } = self;
        operation.sides.fill(SideTotals::default());
        (operation.outcome, operation.latency_ns, operation.round_trips) = (Outcome::Unanswered, None, 0);
        (*row, *class, *is_over, *unshared) = (None, Class::Unmatched, false, 0);
        (*first_ns, *last_ns, *round) = (None, None, 0);
    }

    /// Counts frames with its payload, the last one at `time_ns`.
    #[inline]
    pub fn touch(&mut self, side: Side, frames: u32, time_ns: u64) {
        self.operation.sides[side as usize].frames += u64::from(frames);
        match side {
            Side::Request => _ = self.first_ns.get_or_insert(time_ns),
            Side::Response => self.last_ns = Some(time_ns),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Open; index for [`OperationTable::at`].
    Open(u32),
    /// Emitted to this row.
    Closed(RowId),
    /// Emitted and forgotten.
    Gone,
}

/// Small record of an operation, kept while anything refers to it.
#[derive(Clone, Copy, Debug)]
struct OperationSlot {
    /// Serial number of the operation, which exposes a reused slot.
    serial: u64,
    state: State,
    /// Runs of bytes owned by it, plus the connection's note of its latest operation.
    references: u32,
}

/// All operations of a connection. An [`OpId`] is a serial number and a slot.
#[derive(Debug, Default)]
pub(super) struct OperationTable {
    serial: u64,
    slots: Vec<OperationSlot>,
    free_slots: Vec<u32>,
    open: Vec<OpenOperation>,
    free_open: Vec<u32>,
}

const SLOT_BITS: u32 = 24;

/// Closed operations of a row without individual records. Their [`OpId`] belongs to no operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClosedOperations {
    pub row: RowId,
    /// Their number, at most [`ClosedOperations::MOST`].
    pub count: u32,
}

impl ClosedOperations {
    /// Largest number distinguished.
    pub const MOST: u32 = (1 << 15) - 1;
    const TAG: u64 = 1 << 63;
    const ROW_BITS: u32 = 48;

    #[inline]
    pub fn op(self) -> OpId {
        OpId(Self::TAG | u64::from(self.count) << Self::ROW_BITS | self.row.0)
    }

    /// Returns the id with its row's new number if it stands for closed operations; otherwise the id itself.
    pub fn renumbered(op: OpId, number: &impl Fn(RowId) -> RowId) -> OpId {
        Self::from_id(op).map_or(op, |closed| Self { row: number(closed.row), ..closed }.op())
    }

    /// Returns the closed operations that the id stands for, if any.
    #[inline]
    pub fn from_id(op: OpId) -> Option<Self> {
        let row = RowId(op.0 & ((1 << Self::ROW_BITS) - 1));
        (op.0 >= Self::TAG).then_some(Self { row, count: (op.0 >> Self::ROW_BITS) as u32 & Self::MOST })
    }
}

/// Adds an item. Doubles a full capacity, starting at 1: most connections have one operation at a time. Many make room for a quarter more.
fn push_growing<T>(items: &mut Vec<T>, item: T) {
    if items.len() == items.capacity() {
        items.reserve_exact(if items.len() < 1 << 12 { items.len().max(1) } else { items.len() / 4 });
    }
    items.push(item);
}

fn slot_of(op: OpId) -> usize {
    (op.0 & ((1 << SLOT_BITS) - 1)) as usize
}

impl OperationTable {
    /// Opens an operation with this many references.
    pub fn open(&mut self, references: u32) -> OpId {
        let index = if let Some(index) = self.free_open.pop() {
            if let Some(open) = self.open.get_mut(index as usize) {
                open.renew();
            }
            index
        } else {
            push_growing(&mut self.open, OpenOperation::NEW);
            self.open.len() as u32 - 1
        };
        let fresh = OperationSlot { serial: self.serial, state: State::Open(index), references };
        self.serial += 1;
        let slot = if let Some(slot) = self.free_slots.pop() {
            slot
        } else {
            push_growing(&mut self.slots, fresh);
            self.slots.len() as u32 - 1
        };
        if let Some(place) = self.slots.get_mut(slot as usize) {
            *place = fresh;
        }
        OpId(fresh.serial << SLOT_BITS | u64::from(slot))
    }

    pub fn outstanding(&self) -> usize {
        self.open.len() - self.free_open.len()
    }

    /// Returns the memory they take, in bytes.
    #[inline]
    pub fn held(&self) -> usize {
        self.open.capacity() * (size_of::<OpenOperation>() + size_of::<u32>())
            + self.slots.capacity() * (size_of::<OperationSlot>() + size_of::<u32>())
    }

    /// Replaces row ids after the tally renumbered its rows.
    pub fn renumber(&mut self, number: &impl Fn(RowId) -> RowId) {
        self.open.iter_mut().filter_map(|open| open.row.as_mut()).for_each(|row| *row = number(*row));
        for slot in &mut self.slots {
            if let State::Closed(row) = &mut slot.state {
                *row = number(*row);
            }
        }
    }

    pub fn shrink(&mut self) {
        if self.free_open.len() == self.open.len() {
            (self.open, self.free_open) = (Vec::new(), Vec::new());
        }
    }

    #[inline]
    fn slot(&mut self, op: OpId) -> Option<&mut OperationSlot> {
        self.slots.get_mut(slot_of(op)).filter(|slot| slot.serial == op.0 >> SLOT_BITS)
    }

    #[inline]
    pub fn state(&self, op: OpId) -> State {
        let slot = self.slots.get(slot_of(op)).filter(|slot| slot.serial == op.0 >> SLOT_BITS);
        match slot {
            Some(slot) => slot.state,
            None => ClosedOperations::from_id(op).map_or(State::Gone, |closed| State::Closed(closed.row)),
        }
    }

    #[inline]
    pub fn at(&mut self, index: u32) -> &mut OpenOperation {
        &mut self.open[index as usize]
    }

    #[inline]
    pub fn get(&self, op: OpId) -> Option<&OpenOperation> {
        match self.state(op) {
            State::Open(index) => self.open.get(index as usize),
            State::Closed(_) | State::Gone => None,
        }
    }

    #[inline]
    pub fn get_mut(&mut self, op: OpId) -> Option<&mut OpenOperation> {
        match self.state(op) {
            State::Open(index) => self.open.get_mut(index as usize),
            State::Closed(_) | State::Gone => None,
        }
    }

    /// Returns all open operations in order of opening.
    pub fn open_ids(&self) -> Vec<OpId> {
        let open = self.slots.iter().enumerate().filter(|(_, slot)| matches!(slot.state, State::Open(_)));
        let mut ids: Vec<_> = open.map(|(index, slot)| OpId(slot.serial << SLOT_BITS | index as u64)).collect();
        ids.sort_unstable();
        ids
    }

    /// Adds `times` references to the operation. Returns its index for [`OperationTable::at`]; `None` if it is not open.
    #[inline]
    pub fn hold(&mut self, op: OpId, times: u32) -> Option<u32> {
        let slot = self.slot(op)?;
        slot.references += times;
        if let State::Open(index) = slot.state { Some(index) } else { None }
    }

    pub fn forget(&mut self, op: OpId) {
        if let Some(slot) = self.slot(op) {
            slot.references = slot.references.saturating_sub(1);
            if slot.references == 0 && matches!(slot.state, State::Closed(_)) {
                slot.state = State::Gone;
                self.free_slots.push(slot_of(op) as u32);
            }
        }
    }

    /// Removes an operation from the open ones once it is over and shared out.
    #[inline]
    pub fn close(&mut self, op: OpId) -> Option<(RowId, &OpenOperation)> {
        let slot = self.slots.get_mut(slot_of(op)).filter(|slot| slot.serial == op.0 >> SLOT_BITS)?;
        let State::Open(index) = slot.state else { return None };
        let open = self.open.get_mut(index as usize).filter(|open| open.is_over && open.unshared == 0)?;
        let row = open.row?;
        self.free_open.push(index);
        slot.state = State::Closed(row);
        if slot.references == 0 {
            slot.state = State::Gone;
            self.free_slots.push(slot_of(op) as u32);
        }
        let answered = matches!(open.operation.outcome, Outcome::Ok | Outcome::Error);
        open.operation.latency_ns = match (open.first_ns, open.last_ns) {
            // None if the clock was set back meanwhile.
            (Some(first), Some(last)) if answered => last.checked_sub(first),
            _ => None,
        };
        Some((row, open))
    }
}
