//! Pairs messages into operations.
//!
//! The server answers in order, so one queue of unanswered request messages pairs exactly, even with pipelining. Each
//! entry names its operation, called a *unit* here: a simple query, a function call, or the messages of the extended
//! protocol up to `Execute` and the `Sync` or `Flush` after it. A unit ends when its last request is known (a `Sync`,
//! or the first message of another unit) and all its requests are answered.
//!
//! After an error in the extended protocol, the server skips requests up to `Sync`. Units skipped entirely get no
//! answer.

mod answers;
mod copying;
mod unit;

use super::copy::CopyReader;
use super::session::{PgPortalId, PgSessionView, PgStatementId, Session};
use crate::limits;
use crate::statement::{StatementSummary, StatementText};
use copying::CopyIn;
use overhead_decode::{DecodeStep, Label, Malformed, OpId, Out, PendingRequest, PendingRequests, Reader};
use overhead_model::{Class, Outcome, enum_with};
use std::collections::VecDeque;
pub(super) use unit::{PgSetupKind, PgUnitId};
use unit::{PgUnit, PgUnitFate, PgUnitStage};

enum_with! {
    /// Kinds of requests, with the types of the messages that can be part of the answer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum PgRequest, answers: &'static [u8] {
        Ssl = b"E",
        Gss = b"E",
        /// Including authentication, up to `ReadyForQuery`.
        Startup = b"RKvEZ",
        Query = b"TDCIEGHWdcZ",
        Function = b"VEZ",
        Parse = b"1E",
        Bind = b"2E",
        Describe = b"tTnE",
        Execute = b"DCIsEGHWdc",
        Close = b"3E",
        /// The client ended its data before the server asked for it. Has no answer.
        CopyEnd = b"",
        Sync = b"EZ",
    }
}

impl PgRequest {
    fn ends_cycle(self) -> bool {
        matches!(self, Self::Startup | Self::Query | Self::Function | Self::Sync)
    }
}

/// An unanswered request message.
#[derive(Clone, Copy, Debug)]
pub(super) struct PgExpectedReply {
    pub request: PgRequest,
    pub unit: PgUnitId,
    /// The portal of an `Execute`.
    pub portal: Option<PgPortalId>,
    /// The statement of a `Describe`.
    pub statement: Option<PgStatementId>,
}

impl PgExpectedReply {
    pub fn to(request: PgRequest, unit: PgUnitId) -> Self {
        Self { request, unit, portal: None, statement: None }
    }
}

impl PendingRequest for PgExpectedReply {
    #[inline]
    fn op(&self) -> OpId {
        OpId(self.unit)
    }
}

/// Facts that outlive units and are not part of the session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact about the connection, independent of the others")]
pub(super) struct PgConnectionFacts {
    /// A statement other than `SET` and `SHOW` may have been executed.
    has_begun: bool,
    pub replicates: bool,
    /// The capture joined midway, and responses to unseen requests may follow.
    misaligned: bool,
    /// See [`PendingRequests::habit`]; up to date in [`PgPairing::lasting_facts`].
    habit: u64,
    /// The server's last authentication request.
    pub authentication: u32,
    /// The client sent its name.
    pub client_named: bool,
    /// The server named its product in `crdb_version`.
    pub server_named: bool,
}

#[derive(Debug, Default)]
pub(super) struct PgPairing {
    pub session: Session,
    expected: PendingRequests<PgExpectedReply>,
    /// Entries of `expected` answered by `ReadyForQuery`.
    cycles: usize,
    units: VecDeque<PgUnit>,
    first_unit: PgUnitId,
    /// The unit that may get the next request.
    current: Option<PgUnitId>,
    /// The server skips requests until `Sync`.
    skipping: bool,
    /// Set if the client may send copy data.
    copy_in: Option<CopyIn>,
    /// Set while the server sends copy data whose start was captured.
    pub copy_out: Option<Box<CopyReader>>,
    /// Operations without a counterpart, by side.
    stray: [Option<OpId>; 2],
    pub facts: PgConnectionFacts,
}

impl PgPairing {
    pub fn new(mid_stream: bool) -> Self {
        let facts = PgConnectionFacts { has_begun: mid_stream, misaligned: mid_stream, ..PgConnectionFacts::default() };
        Self { facts, ..Self::default() }
    }

    /// Returns the facts that decoding depends on between requests.
    pub fn lasting_facts(&self) -> PgConnectionFacts {
        PgConnectionFacts { habit: self.expected.habit(), ..self.facts }
    }

    /// Returns what the session remembers; `None` if a request is in progress.
    pub fn view(&self) -> Option<PgSessionView<'_>> {
        // All fields are named, so that a new one cannot be missed. Unit numbers do not affect decoding.
        let Self {
            session,
            expected,
            cycles: _,
            units,
            first_unit: _,
            current,
            skipping,
            copy_in,
            copy_out,
            stray,
            facts: _,
        } = self;
        let is_open = !expected.is_idle() || !units.is_empty() || current.is_some() || *skipping;
        let copies = copy_in.is_some() || copy_out.is_some();
        if is_open || copies || stray.iter().any(Option::is_some) { None } else { session.view() }
    }

    fn unit(&mut self, id: PgUnitId) -> Option<&mut PgUnit> {
        let index = usize::try_from(id.checked_sub(self.first_unit)?).ok()?;
        self.units.get_mut(index)
    }

    /// Opens a unit and charges it.
    fn open<R: Reader>(&mut self, setup: PgSetupKind, out: &mut Out<'_, R>) -> PgUnitId {
        let op = out.open();
        out.charge(op);
        self.units.push_back(PgUnit { op, setup, ..PgUnit::default() });
        self.first_unit + self.units.len() as u64 - 1
    }

    /// Ends the current unit's requests and the client's stray messages.
    fn move_on<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.end_stray(0, out);
        self.copy_in = None;
        if let Some(id) = self.current.take() {
            self.seal(id, out);
        }
    }

    fn seal<R: Reader>(&mut self, id: PgUnitId, out: &mut Out<'_, R>) {
        if let Some(unit) = self.unit(id) {
            unit.stage = unit.stage.max(PgUnitStage::Sealed);
        }
        self.label_unexecuted(id, out);
        self.settle(id, out);
    }

    pub fn label_unexecuted<R: Reader>(&mut self, id: PgUnitId, out: &mut Out<'_, R>) {
        let class = if self.facts.replicates { Class::Background } else { Class::Setup };
        if let Some(unit) = self.unit(id).filter(|unit| !unit.labelled) {
            unit.labelled = true;
            let statement = unit.statement.as_str();
            out.label_statement(unit.op, Label { class, name: unit.setup.name(), via: "extended", statement });
        }
    }

    /// Closes a unit that is complete and answered.
    pub fn settle<R: Reader>(&mut self, id: PgUnitId, out: &mut Out<'_, R>) {
        let Some(unit) = self.unit(id) else { return };
        if unit.stage != PgUnitStage::Sealed || unit.pending > 0 {
            return;
        }
        unit.stage = PgUnitStage::Closed;
        let outcome = match unit.fate {
            PgUnitFate::Failed => Outcome::Error,
            PgUnitFate::Lost => Outcome::Unanswered,
            PgUnitFate::Fine if unit.answered => Outcome::Ok,
            PgUnitFate::Fine | PgUnitFate::Skipped => Outcome::NoReply,
        };
        out.close(unit.op, outcome);
        while self.units.front().is_some_and(|unit| unit.stage == PgUnitStage::Closed) {
            self.units.pop_front();
            self.first_unit += 1;
        }
    }

    /// Opens and charges a unit of one request: `Query`, `FunctionCall`, or a start-up packet.
    pub fn open_single<R: Reader>(&mut self, request: PgRequest, out: &mut Out<'_, R>) -> DecodeStep<PgUnitId> {
        self.move_on(out);
        let id = self.open(PgSetupKind::Flush, out);
        self.expect_at(PgExpectedReply::to(request, id), false, out)?;
        if let Some(unit) = self.unit(id) {
            unit.stage = PgUnitStage::Sealed;
            unit.labelled = true;
            unit.simple = true;
        }
        Ok(id)
    }

    /// Charges the unit of an extended-protocol message, and names the unit after it if nothing is executed.
    pub fn charge_extended<R: Reader>(&mut self, setup: PgSetupKind, out: &mut Out<'_, R>) -> PgUnitId {
        if let Some(id) = self.current
            && let Some(unit) = self.unit(id).filter(|unit| unit.stage == PgUnitStage::Building)
        {
            unit.setup = unit.setup.max(setup);
            out.charge(unit.op);
            return id;
        }
        self.move_on(out);
        let id = self.open(setup, out);
        self.current = Some(id);
        id
    }

    /// Charges the unit that a `Sync` or `Flush` ends, opening one if needed. A `Flush` between `Bind` and `Execute`
    /// ends nothing.
    pub fn charge_ending<R: Reader>(&mut self, setup: PgSetupKind, out: &mut Out<'_, R>) -> PgUnitId {
        let id = match self.current {
            Some(id) => id,
            None => self.charge_extended(setup, out),
        };
        let Some(unit) = self.unit(id) else { return id };
        out.charge(unit.op);
        if setup == PgSetupKind::Sync || unit.setup != PgSetupKind::Bind {
            unit.stage = unit.stage.max(PgUnitStage::Complete);
            self.label_unexecuted(id, out);
        }
        id
    }

    /// Ends the requests of a unit after its `Sync`.
    pub fn synced<R: Reader>(&mut self, id: PgUnitId, out: &mut Out<'_, R>) -> DecodeStep<()> {
        if self.awaits_copy_data(id) {
            // The server ignores `Sync` while it waits for copy data.
            return Ok(());
        }
        self.skipping = false;
        self.expect(PgExpectedReply::to(PgRequest::Sync, id), out)?;
        if !self.is_copying(id) {
            self.current = None;
            self.seal(id, out);
        }
        Ok(())
    }

    /// Adds a request whose message is posted.
    pub fn expect<R: Reader>(&mut self, reply: PgExpectedReply, out: &Out<'_, R>) -> DecodeStep<()> {
        self.expect_at(reply, true, out)
    }

    /// Adds a request whose message `is_posted`, or is posted next.
    fn expect_at<R: Reader>(&mut self, reply: PgExpectedReply, is_posted: bool, out: &Out<'_, R>) -> DecodeStep<()> {
        if self.expected.len().max(self.units.len()) >= limits::OUTSTANDING {
            return Err(Malformed("more requests without a response than are followed"));
        }
        let skipping = self.skipping;
        let Some(of) = self.unit(reply.unit) else { return Ok(()) };
        if skipping {
            if of.fate == PgUnitFate::Fine {
                of.fate = PgUnitFate::Skipped;
            }
            return Ok(());
        }
        of.pending += 1;
        self.cycles += usize::from(reply.request.ends_cycle());
        if let Some(portal) = reply.portal {
            self.session.retain_portal(portal);
        }
        if let Some(statement) = reply.statement {
            self.session.retain_statement(statement);
        }
        if is_posted {
            self.expected.push(reply, out);
        } else {
            self.expected.push_ahead(reply, out);
        }
        Ok(())
    }

    pub fn label_setup<R: Reader>(&mut self, id: PgUnitId, name: &str, out: &mut Out<'_, R>) {
        if let Some(unit) = self.unit(id) {
            unit.labelled = true;
            out.label(unit.op, Class::Setup, name, "");
        }
    }

    /// Names an executed unit after its statement.
    pub fn label<R: Reader>(
        &mut self,
        id: PgUnitId,
        name: &str,
        settings: bool,
        via: &'static str,
        statement: StatementText,
        out: &mut Out<'_, R>,
    ) {
        let class = if self.facts.replicates {
            Class::Background
        } else if name == "PREPARE" || (settings && !self.facts.has_begun) {
            Class::Setup
        } else {
            self.facts.has_begun = true;
            Class::Workload
        };
        if let Some(unit) = self.unit(id) {
            unit.labelled = true;
            unit.statement = statement;
            out.label_statement(unit.op, Label { class, name, via, statement: unit.statement.as_str() });
        }
    }

    /// Sets the statement that a unit prepares, or that it describes or closes; the latter only if there is no other.
    pub fn set_statement(&mut self, id: PgUnitId, statement: StatementText, is_prepared: bool) {
        let may_set = |unit: &&mut PgUnit| is_prepared || unit.statement == StatementText::None;
        if let Some(unit) = self.unit(id).filter(may_set) {
            unit.statement = statement;
        }
    }

    /// Names a unit after its SQL verb; an unknown verb leaves the kind of request until the command tag arrives.
    pub fn label_verb<R: Reader>(
        &mut self,
        id: PgUnitId,
        summary: &StatementSummary,
        (unknown, via): (&'static str, &'static str),
        out: &mut Out<'_, R>,
    ) {
        let StatementSummary { verb, is_settings, text } = summary;
        self.label(id, verb.or(unknown), *is_settings, via, text.clone(), out);
        if let Some(unit) = self.unit(id) {
            unit.via_unknown = verb.is_empty().then_some(via);
        }
    }

    /// Names a unit by the columns of its answer, too, if its statement was prepared before the capture.
    pub fn describe_unseen<R: Reader>(&mut self, id: PgUnitId, described: Option<PgStatementId>, out: &mut Out<'_, R>) {
        let Some(described) = described.and_then(|id| self.session.statement(id)) else { return };
        let text = described.summary.text.clone();
        if let Some(unit) = self.unit(id).filter(|unit| unit.statement.is_unseen() && unit.statement != text)
            && let Some(via) = unit.via_unknown
        {
            let statement = unit.statement.described(text.columns());
            self.label(id, "EXECUTE", false, via, statement, out);
        }
    }

    /// After an `Execute`, only a `Sync` or `Flush` can still join the unit.
    pub fn executed(&mut self, id: PgUnitId) {
        if let Some(unit) = self.unit(id) {
            unit.stage = unit.stage.max(PgUnitStage::Complete);
        }
    }

    /// Opens and charges an operation for a request without an answer. The caller closes it.
    pub fn charge_unanswered<R: Reader>(&mut self, class: Class, name: &str, out: &mut Out<'_, R>) -> OpId {
        self.move_on(out);
        out.begin(class, name, "")
    }

    /// Forgets the connection before this start-up packet.
    pub fn restart(&mut self) {
        self.facts.has_begun = false;
        self.facts.misaligned = false;
    }

    pub fn charge_authentication<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        match self.expected.front().copied() {
            Some(front) if front.request == PgRequest::Startup => self.charge_unit(front.unit, out),
            _ => self.charge_stray(0, "(password)", out),
        }
    }

    fn charge_unit<R: Reader>(&mut self, id: PgUnitId, out: &mut Out<'_, R>) {
        match self.unit(id) {
            Some(unit) => out.charge(unit.op),
            None => self.charge_stray(1, "(response)", out),
        }
    }

    /// Charges a run of messages without a counterpart.
    fn charge_stray<R: Reader>(&mut self, side: usize, name: &str, out: &mut Out<'_, R>) {
        if let Some(stray) = self.stray.get_mut(side) {
            let op = *stray.get_or_insert_with(|| out.orphan(name));
            out.charge(op);
        }
    }

    pub fn end_stray<R: Reader>(&mut self, side: usize, out: &mut Out<'_, R>) {
        if let Some(op) = self.stray.get_mut(side).and_then(Option::take) {
            out.close(op, Outcome::NoReply);
        }
    }

    /// Gives up on all answers, for captures without server messages.
    pub fn abandon<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.drop_expected(usize::MAX, PgUnitFate::Lost, out);
        self.skipping = false;
    }

    pub fn held(&self) -> usize {
        self.expected.held() + self.units.capacity() * size_of::<PgUnit>() + self.session.held()
    }

    pub fn front(&self) -> Option<PgExpectedReply> {
        self.expected.front().copied()
    }
}
