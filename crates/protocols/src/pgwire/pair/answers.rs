//! Matches responses to requests and settles their units.

use super::{Class, OpId, Out, PgExpectedReply, PgPairing, PgRequest, PgUnitFate, PgUnitId, PgUnitStage, Reader};
use crate::verb::SqlVerb;
use overhead_decode::PendingVerdict;
use overhead_model::Side;

/// How far to search for the request of an unexpected response after a loss.
const LOOK_AHEAD: usize = 32;

impl PgPairing {
    /// Finds the request that a response of type `kind` answers and charges its unit. Without one, charges a stray
    /// operation.
    pub fn match_response<R: Reader>(&mut self, kind: u8, out: &mut Out<'_, R>) -> Option<PgExpectedReply> {
        if self.align(out).is_none() && !self.expected.is_empty() {
            self.charge_stray(1, "(response)", out);
            return None;
        }
        let mut is_answered = self.is_answered_by(kind);
        if !is_answered {
            if kind == b'Z' {
                self.expect_ignored_sync();
            }
            self.realign(kind, out);
            is_answered = self.is_answered_by(kind);
        }
        let Some(front) = self.front().filter(|_| is_answered) else {
            self.charge_stray(1, "(response)", out);
            return None;
        };
        self.begin_answer(front.unit, out);
        Some(front)
    }

    /// Returns the request that the response at the current position answers, by what acknowledgments prove.
    pub fn align<R: Reader>(&mut self, out: &mut Out<'_, R>) -> Option<PgExpectedReply> {
        let PendingVerdict { lost, is_paired } = self.expected.judge(out);
        if lost > 0 {
            self.drop_expected(lost, PgUnitFate::Lost, out);
            self.skipping = false;
        }
        self.front().filter(|_| is_paired)
    }

    /// Returns whether the next response certainly answers the first request.
    pub fn is_certain(&self) -> bool {
        self.expected.is_certain()
    }

    pub fn begin_answer<R: Reader>(&mut self, id: PgUnitId, out: &mut Out<'_, R>) {
        self.facts.misaligned = false;
        self.end_stray(1, out);
        if let Some(unit) = self.unit(id) {
            unit.answered = true;
        }
        self.charge_unit(id, out);
    }

    fn is_answered_by(&mut self, kind: u8) -> bool {
        let Some(&PgExpectedReply { request, unit, .. }) = self.expected.front() else { return false };
        // A `Query` is answered by more than `ReadyForQuery`, so this one belongs to another request.
        let early = kind == b'Z'
            && self.facts.misaligned
            && request == PgRequest::Query
            && self.unit(unit).is_some_and(|unit| !unit.answered);
        request.answers().contains(&kind) && !early
    }

    /// Handles `ReadyForQuery` while requests are skipped: a `Sync` thought to be ignored during a copy was read after
    /// the copy failed.
    #[cold]
    fn expect_ignored_sync(&mut self) {
        if !self.skipping || !self.expected.is_empty() {
            return;
        }
        self.skipping = false;
        if let Some(id) = self.current
            && let Some(unit) = self.unit(id).filter(|unit| unit.fate == PgUnitFate::Failed)
        {
            unit.pending += 1;
            self.cycles += 1;
            self.expected.push_front(PgExpectedReply::to(PgRequest::Sync, id));
        }
    }

    /// Drops requests whose answers must have been lost because `kind` answers a later one.
    #[cold]
    fn realign<R: Reader>(&mut self, kind: u8, out: &mut Out<'_, R>) {
        if self.facts.misaligned || (kind == b'Z' && self.cycles == 0) {
            return;
        }
        let reach = if kind == b'Z' { self.expected.len() } else { LOOK_AHEAD };
        let found = self.expected.iter().take(reach).position(|entry| entry.request.answers().contains(&kind));
        if let Some(lost) = found {
            self.drop_expected(lost, PgUnitFate::Lost, out);
        }
    }

    /// Drops up to `n` requests, marking their units with `fate`.
    #[cold]
    pub(super) fn drop_expected<R: Reader>(&mut self, n: usize, fate: PgUnitFate, out: &mut Out<'_, R>) {
        for _ in 0..n.min(self.expected.len()) {
            if let Some(front) = self.front()
                && let Some(unit) = self.unit(front.unit)
                && unit.fate == PgUnitFate::Fine
            {
                unit.fate = fate;
            }
            self.pop_one(out);
        }
        while self.is_at_copy_end() {
            self.pop_one(out);
        }
    }

    /// Removes the first request, and those without an answer behind it.
    pub fn pop<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.pop_one(out);
        while self.is_at_copy_end() {
            self.pop_one(out);
        }
    }

    #[inline]
    fn is_at_copy_end(&self) -> bool {
        self.expected.front().is_some_and(|next| next.request == PgRequest::CopyEnd)
    }

    fn pop_one<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        let Some(front) = self.expected.pop() else { return };
        self.forget(front);
        let Some(unit) = self.unit(front.unit) else { return };
        unit.pending -= 1;
        if unit.pending == 0 {
            self.settle(front.unit, out);
        }
    }

    /// Releases what a removed entry refers to.
    pub(super) fn forget(&mut self, entry: PgExpectedReply) {
        self.cycles -= usize::from(entry.request.ends_cycle());
        if let Some(portal) = entry.portal {
            self.session.release_portal(portal);
        }
        if let Some(statement) = entry.statement {
            self.session.release_statement(statement);
        }
    }

    pub fn ready_for_query<R: Reader>(&mut self, answered: Option<PgExpectedReply>, out: &mut Out<'_, R>) {
        if let Some(front) = answered {
            self.end_copy_requests(front.unit);
            self.pop(out);
        } else {
            self.end_stray(1, out);
        }
    }

    /// The command tag names the unit if its statement is unknown.
    pub fn command_complete<R: Reader>(&mut self, id: PgUnitId, tag: &[u8], out: &mut Out<'_, R>) {
        self.end_copy_requests(id);
        if let Some(unit) = self.unit(id)
            && let Some(via) = unit.via_unknown.take()
        {
            let verb = SqlVerb::from_tag(tag);
            if verb.is_empty() {
                return;
            }
            let statement = unit.statement.clone();
            self.label(id, verb.as_str(), false, via, statement, out);
        }
    }

    /// Handles an error. After a fatal one, the server sends nothing more.
    pub fn fail<R: Reader>(&mut self, front: PgExpectedReply, fatal: bool, out: &mut Out<'_, R>) {
        self.end_copy_requests(front.unit);
        self.copy_out = None;
        let copying = self.is_copying(front.unit);
        if let Some(unit) = self.unit(front.unit) {
            unit.fate = PgUnitFate::Failed;
            if fatal && !copying {
                unit.stage = unit.stage.max(PgUnitStage::Sealed);
            }
        }
        if fatal {
            if let Some(current) = self.current.take_if(|current| !copying || *current != front.unit) {
                self.seal(current, out);
            }
            self.drop_expected(usize::MAX, PgUnitFate::Lost, out);
            return;
        }
        match front.request {
            PgRequest::Query | PgRequest::Function | PgRequest::Sync => {}
            PgRequest::Startup | PgRequest::Ssl | PgRequest::Gss => self.pop(out),
            _ => {
                let next_sync = self.expected.iter().position(|entry| entry.request == PgRequest::Sync);
                self.skipping = next_sync.is_none();
                self.drop_expected(next_sync.unwrap_or(usize::MAX), PgUnitFate::Skipped, out);
            }
        }
    }

    /// Charges an asynchronous message to the unit being answered if `within`; otherwise opens an operation for the
    /// caller to close.
    pub fn charge_asynchronous<R: Reader>(&mut self, name: &str, within: bool, out: &mut Out<'_, R>) -> Option<OpId> {
        if let Some(front) = self.front().filter(|_| within) {
            self.charge_unit(front.unit, out);
            return None;
        }
        Some(out.begin(Class::Background, name, ""))
    }

    pub fn note_loss<R: Reader>(&mut self, of_client: bool, out: &mut Out<'_, R>) {
        self.expected.lose(if of_client { Side::Request } else { Side::Response }, out);
        self.skipping = false;
        self.copy_lost(of_client);
        if of_client {
            self.end_stray(0, out);
            if let Some(id) = self.current.take() {
                if let Some(unit) = self.unit(id).filter(|unit| unit.stage == PgUnitStage::Building) {
                    // Cut off by the loss, so it stays unnamed.
                    unit.labelled = true;
                    unit.fate = PgUnitFate::Lost;
                }
                self.seal(id, out);
            }
        } else {
            self.end_stray(1, out);
        }
    }
}
