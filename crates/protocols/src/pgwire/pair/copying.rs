//! Assigns copy data to copies, and tracks its format.
//!
//! A client may send data before the server asks for it, and keeps sending after the server fails. So only the client's
//! messages decide: its data belongs to the last copy requested, until the client ends the data or requests something
//! else. The unit stays open until then.

use super::super::copy::{CopyFormat, CopyReader, CopyTransfers};
use super::{Out, PgExpectedReply, PgPairing, PgRequest, PgUnit, PgUnitFate, PgUnitId, PgUnitStage, Reader};
use overhead_model::{Outcome, Side};

#[derive(Debug)]
pub(super) struct CopyIn {
    unit: PgUnitId,
    /// Copies for which the server requested data.
    asked: usize,
    /// Copies whose data the client ended.
    ended: usize,
    data: Option<Box<CopyReader>>,
}

impl CopyIn {
    fn new(unit: PgUnitId) -> Self {
        Self { unit, asked: 0, ended: 0, data: None }
    }
}

#[derive(Debug)]
pub(super) struct UnitCopies {
    all: CopyTransfers,
    /// Copies that the server started to send.
    sent: usize,
}

impl UnitCopies {
    /// Returns the format of copy `index` from `sender`. An opaque one stands for any number: a base backup before
    /// version 15 has one copy per table space, and one for the manifest.
    fn format(&self, sender: Side, index: usize) -> Option<CopyFormat> {
        let mut sent = self.all.iter().filter(|copy| copy.sender == sender);
        let stated =
            sent.clone().nth(index).or_else(|| sent.next_back().filter(|last| last.format == CopyFormat::Opaque));
        stated.map(|copy| copy.format.clone())
    }
}

/// Returns how many copies the client sends; assumes one for an unknown statement.
fn count_in(unit: &PgUnit) -> usize {
    let Some(copies) = &unit.copies else { return 1 };
    copies.all.iter().filter(|copy| copy.sender == Side::Request).count()
}

impl PgPairing {
    #[cold]
    pub fn start_copies(&mut self, id: PgUnitId, copies: CopyTransfers) {
        let takes = copies.iter().any(|copy| copy.sender == Side::Request);
        if let Some(unit) = self.unit(id) {
            unit.copies = Some(Box::new(UnitCopies { all: copies, sent: 0 }));
        }
        if takes {
            self.open_copy_in(id);
        }
    }

    /// Keeps the unit open for the client's data.
    #[cold]
    fn open_copy_in(&mut self, id: PgUnitId) {
        self.copy_in = Some(CopyIn::new(id));
        if let Some(unit) = self.unit(id) {
            unit.stage = PgUnitStage::Complete;
        }
        self.current = Some(id);
    }

    #[inline]
    pub(super) fn is_copying(&mut self, id: PgUnitId) -> bool {
        let Some((of, ended)) = self.copy_in.as_ref().map(|copy| (copy.unit, copy.ended)) else { return false };
        of == id && self.unit(id).is_some_and(|unit| ended < count_in(unit))
    }

    /// Returns whether the server is known to wait for data, and so ignores `Sync`.
    #[inline]
    pub(super) fn awaits_copy_data(&self, id: PgUnitId) -> bool {
        self.copy_in.as_ref().is_some_and(|copy| copy.unit == id && copy.asked > copy.ended)
    }

    /// Charges the unit of the client's copy data and returns its reader; `None` for stray data.
    pub fn client_copy<R: Reader>(&mut self, out: &mut Out<'_, R>) -> Option<&mut CopyReader> {
        let last = (self.first_unit + self.units.len() as u64).checked_sub(1);
        let id = self.copy_in.as_ref().map(|copy| copy.unit).filter(|id| self.is_open(*id)).or(last);
        let Some(unit) = id.and_then(|id| self.unit(id)).filter(|unit| unit.stage != PgUnitStage::Closed) else {
            self.charge_stray(0, "COPY", out);
            return None;
        };
        out.charge(unit.op);
        let id = id?;
        let mut copy = self.copy_in.take().filter(|copy| copy.unit == id).unwrap_or_else(|| CopyIn::new(id));
        if copy.data.is_none() {
            let copies = self.unit(id).and_then(|unit| unit.copies.as_ref());
            let format = copies.and_then(|copies| copies.format(Side::Request, copy.ended));
            copy.data = Some(Box::new(CopyReader::Begin(format)));
        }
        self.copy_in.insert(copy).data.as_deref_mut()
    }

    fn is_open(&self, id: PgUnitId) -> bool {
        let index = id.checked_sub(self.first_unit).and_then(|index| usize::try_from(index).ok());
        index.and_then(|index| self.units.get(index)).is_some_and(|unit| unit.stage != PgUnitStage::Closed)
    }

    pub fn client_copy_done<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        let Some(copy) = &mut self.copy_in else { return };
        copy.data = None;
        copy.ended += 1;
        let (id, early) = (copy.unit, copy.ended > copy.asked);
        if early && !self.expected.is_empty() {
            // Data sent early: up to here, the server reads everything as copy data.
            let _ = self.expect(PgExpectedReply::to(PgRequest::CopyEnd, id), out);
        }
        let copying = self.is_copying(id);
        if self.unit(id).is_some_and(|unit| unit.simple) && !copying && self.current == Some(id) {
            self.current = None;
            self.seal(id, out);
        }
    }

    /// Handles the server's request for copy data. The server ignores a `Sync` that the client has already sent.
    #[cold]
    pub fn begin_copy_in<R: Reader>(&mut self, front: PgExpectedReply, out: &mut Out<'_, R>) {
        if self.copy_in.as_ref().is_none_or(|copy| copy.unit != front.unit) {
            let is_last = front.unit + 1 == self.first_unit + self.units.len() as u64;
            if is_last && self.current.is_none_or(|current| current == front.unit) {
                self.open_copy_in(front.unit);
            }
        }
        if let Some(copy) = self.copy_in.as_mut().filter(|copy| copy.unit == front.unit) {
            copy.asked += 1;
        }
        while let Some(next) = self.expected.get(1).copied().filter(|next| next.request == PgRequest::Sync) {
            self.expected.remove(1);
            self.forget(next);
            if let Some(unit) = self.unit(next.unit) {
                unit.pending -= 1;
            }
            self.settle(next.unit, out);
        }
    }

    /// Handles the start of the server's copy data, in one or both directions.
    #[cold]
    pub fn begin_copy_out(&mut self, front: PgExpectedReply, format: u8) {
        let Some(unit) = self.unit(front.unit) else { return };
        let stated = unit.copies.as_mut().and_then(|copies| {
            copies.sent += 1;
            copies.format(Side::Response, copies.sent - 1)
        });
        let format = match stated {
            Some(CopyFormat::Rows(_) | CopyFormat::Binary) | None if format == 1 => Some(CopyFormat::Binary),
            Some(CopyFormat::Binary) => None,
            stated => stated,
        };
        self.copy_out = Some(Box::new(CopyReader::Begin(format)));
    }

    /// Notes that the server expects no more data for this unit.
    pub(super) fn end_copy_requests(&mut self, id: PgUnitId) {
        if let Some(copy) = self.copy_in.as_mut().filter(|copy| copy.unit == id) {
            copy.asked = copy.asked.min(copy.ended);
        }
    }

    pub(super) fn copy_lost(&mut self, of_client: bool) {
        let copy_in = self.copy_in.as_mut().and_then(|copy| copy.data.as_deref_mut());
        let data = if of_client { copy_in } else { self.copy_out.as_deref_mut() };
        if let Some(data) = data {
            data.lost();
        }
    }

    /// The connection ended, so no more copy data can follow.
    pub fn finish<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        if self.copy_in.take().is_some()
            && let Some(id) = self.current.take()
        {
            self.seal(id, out);
        }
        // After a fatal error, servers close without `ReadyForQuery`.
        let failed = |unit: &&PgUnit| unit.fate == PgUnitFate::Failed && unit.stage != PgUnitStage::Closed;
        self.units.iter().filter(failed).for_each(|unit| out.close(unit.op, Outcome::Error));
        self.units.clear();
    }
}
