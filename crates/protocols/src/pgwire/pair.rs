//! Messages to operations.
//!
//! The server answers in order, so that a queue of what is still to be answered pairs exactly, pipelines included: one
//! entry per request message that has an answer, with the operation (here: *unit*) it belongs to. A unit is a simple
//! query, a function call, or the messages of the extended protocol up to `Execute`, with the `Sync` or `Flush` behind
//! it. It is over when its last request message is known (a `Sync`, or the first message of another unit) and all of
//! them are answered.
//!
//! After an error in the extended protocol the server skips requests up to `Sync`, and so do we: units that were
//! skipped whole are never answered.

mod answers;
mod copying;

use super::copy::CopyReader;
use super::session::{PgPortalId, PgSessionView, PgStatementId, Session};
use super::sql::SqlSummary;
use crate::limits;
use crate::statement::Statement;
use copying::{CopyIn, UnitCopies};
use overhead_decode::{Label, Malformed, OpId, Out, Reader};
use overhead_model::{Class, Outcome};
use std::collections::VecDeque;

/// A kind of request, by what answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PgRequest {
    /// `SSLRequest`: one byte.
    Ssl,
    /// `GSSENCRequest`: one byte.
    Gss,
    /// `StartupMessage`, with all of authentication: up to `ReadyForQuery`.
    Startup,
    /// `Query`: up to `ReadyForQuery`.
    Query,
    /// `FunctionCall`: up to `ReadyForQuery`.
    Function,
    Parse,
    Bind,
    Describe,
    Execute,
    Close,
    /// The end of data that the client sent before it was asked for them. Not answered by itself.
    CopyEnd,
    Sync,
}

impl PgRequest {
    /// Returns whether a response of this type may be (a part of) the answer.
    fn is_answered_by(self, kind: u8) -> bool {
        let kinds: &[u8] = match self {
            Self::Ssl | Self::Gss => b"E",
            Self::CopyEnd => b"",
            Self::Startup => b"RKvEZ",
            Self::Query => b"TDCIEGHWdcZ",
            Self::Function => b"VEZ",
            Self::Parse => b"1E",
            Self::Bind => b"2E",
            Self::Describe => b"tTnE",
            Self::Execute => b"DCIsEGHWdc",
            Self::Close => b"3E",
            Self::Sync => b"EZ",
        };
        kinds.contains(&kind)
    }

    /// Returns whether the answer ends with `ReadyForQuery`.
    fn ends_cycle(self) -> bool {
        matches!(self, Self::Startup | Self::Query | Self::Function | Self::Sync)
    }
}

/// A unit's number; they rise from 0.
pub(super) type PgUnitId = u64;

/// A request message that is not answered yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct PgExpectedReply {
    pub request: PgRequest,
    pub unit: PgUnitId,
    /// What is executed.
    pub portal: Option<PgPortalId>,
    /// What is described.
    pub statement: Option<PgStatementId>,
}

/// How a unit fared so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PgUnitFate {
    Fine,
    Failed,
    /// The server skipped some of it, after an error before it: no answer is due.
    Skipped,
    /// Some of it, or of its answer, was lost.
    Lost,
}

/// What a unit waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PgUnitStage {
    /// Requests.
    Building,
    /// Only a `Sync` or `Flush`, if any, and copy data.
    Complete,
    /// Responses.
    Sealed,
    /// Nothing.
    Closed,
}

/// The most telling message of a unit that executes nothing, the most telling last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PgSetupKind {
    Flush,
    Sync,
    Close,
    Describe,
    Parse,
    /// Not idle for long: what is bound is there to be executed.
    Bind,
}

impl PgSetupKind {
    fn name(self) -> &'static str {
        match self {
            Self::Flush => "FLUSH",
            Self::Sync => "SYNC",
            Self::Close => "CLOSE",
            Self::Describe => "DESCRIBE",
            Self::Parse => "PREPARE",
            Self::Bind => "BIND",
        }
    }
}

/// What the losses of a capture make doubtful.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PgLossState {
    /// Responses may come that answer requests which were not seen.
    misaligned: bool,
    /// Requests in the queue may have been answered out of sight.
    missed_answers: bool,
    /// The client sends requests before it has the answers to earlier ones.
    pipelines: bool,
}

/// What outlives the units, beside the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PgConnectionFacts {
    has_begun: bool,
    replicates: bool,
    losses: PgLossState,
}

#[derive(Debug)]
struct PgUnit {
    op: OpId,
    /// Entries in the queue.
    pending: usize,
    fate: PgUnitFate,
    stage: PgUnitStage,
    /// It has been named.
    labelled: bool,
    /// Its statement was not seen; the command tag may name it.
    via_unknown: Option<&'static str>,
    /// What is prepared or executed, without the values in it.
    statement: Statement,
    /// A response has come.
    answered: bool,
    /// What it is where it never executes anything.
    setup: PgSetupKind,
    /// It is one message, without a `Sync`.
    simple: bool,
    /// What its statement copies; most copy nothing.
    copies: Option<Box<UnitCopies>>,
}

/// Pairing state of one connection.
#[derive(Debug, Default)]
pub(super) struct PgPairing {
    pub session: Session,
    expected: VecDeque<PgExpectedReply>,
    /// Entries of `expected` that `ReadyForQuery` answers.
    cycles: usize,
    units: VecDeque<PgUnit>,
    first_unit: PgUnitId,
    /// The unit that the next request may belong to.
    current: Option<PgUnitId>,
    /// The server skips requests until `Sync`.
    skipping: bool,
    /// The client's data, where it may send some.
    copy_in: Option<CopyIn>,
    /// How the server's data are read.
    copy_out: Option<Box<CopyReader>>,
    /// Operations without counterpart, by side.
    stray: [Option<OpId>; 2],
    /// A statement other than `SET` and `SHOW` was executed, or may have been.
    has_begun: bool,
    /// The connection is a replication connection.
    pub replicates: bool,
    losses: PgLossState,
}

impl PgPairing {
    pub fn new(mid_stream: bool) -> Self {
        Self {
            has_begun: mid_stream,
            losses: PgLossState { misaligned: mid_stream, ..PgLossState::default() },
            ..Self::default()
        }
    }

    /// Returns what the session remembers, while nothing is under way.
    pub fn view(&self) -> Option<PgSessionView<'_>> {
        // All fields are named, so that a further one cannot be left out unseen. Numbers of units tell nothing.
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
            // See `facts`.
            has_begun: _,
            replicates: _,
            losses: _,
        } = self;
        let is_open = !expected.is_empty() || !units.is_empty() || current.is_some() || *skipping;
        let copies = copy_in.is_some() || copy_out.is_some();
        if is_open || copies || stray.iter().any(Option::is_some) { None } else { session.view() }
    }

    /// Returns what outlives the units, beside the session.
    pub fn facts(&self) -> PgConnectionFacts {
        PgConnectionFacts { has_begun: self.has_begun, replicates: self.replicates, losses: self.losses }
    }

    /// Goes from one state in which nothing is under way to another.
    pub fn restore(&mut self, view: &PgSessionView<'_>, facts: PgConnectionFacts) {
        self.session.restore(view);
        PgConnectionFacts { has_begun: self.has_begun, replicates: self.replicates, losses: self.losses } = facts;
    }

    fn unit(&mut self, id: PgUnitId) -> Option<&mut PgUnit> {
        let index = usize::try_from(id.checked_sub(self.first_unit)?).ok()?;
        self.units.get_mut(index)
    }

    /// A new unit, charged.
    fn open<R: Reader>(&mut self, setup: PgSetupKind, out: &mut Out<'_, R>) -> PgUnitId {
        let op = out.open();
        out.charge(op);
        self.units.push_back(PgUnit {
            op,
            pending: 0,
            fate: PgUnitFate::Fine,
            stage: PgUnitStage::Building,
            labelled: false,
            via_unknown: None,
            statement: Statement::None,
            answered: false,
            setup,
            simple: false,
            copies: None,
        });
        self.first_unit + self.units.len() as u64 - 1
    }

    /// The client has moved on: the current unit gets no further requests, and what was sent without counterpart ends.
    fn move_on<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.end_stray(0, out);
        self.copy_in = None;
        if let Some(id) = self.current.take() {
            self.seal(id, out);
        }
        if self.cycles > 0 {
            if self.losses.missed_answers && !self.losses.pipelines {
                self.drop_expected(usize::MAX, PgUnitFate::Lost, out);
                self.skipping = false;
            } else {
                self.losses.pipelines = true;
            }
        }
    }

    fn seal<R: Reader>(&mut self, id: PgUnitId, out: &mut Out<'_, R>) {
        if let Some(unit) = self.unit(id) {
            unit.stage = unit.stage.max(PgUnitStage::Sealed);
        }
        self.label_unexecuted(id, out);
        self.settle(id, out);
    }

    /// Names a unit that executes nothing.
    pub fn label_unexecuted<R: Reader>(&mut self, id: PgUnitId, out: &mut Out<'_, R>) {
        let class = if self.replicates { Class::Background } else { Class::Setup };
        if let Some(unit) = self.unit(id).filter(|unit| !unit.labelled) {
            unit.labelled = true;
            let statement = if unit.setup == PgSetupKind::Parse { unit.statement.as_str() } else { "" };
            out.label_statement(unit.op, Label { class, name: unit.setup.name(), via: "extended", statement });
        }
    }

    /// Closes a unit that is over.
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

    /// A single request that is a unit of its own: `Query`, `FunctionCall`, a start-up packet. Charges it.
    pub fn open_single<R: Reader>(&mut self, request: PgRequest, out: &mut Out<'_, R>) -> Result<PgUnitId, Malformed> {
        self.move_on(out);
        let id = self.open(PgSetupKind::Flush, out);
        self.expect(request, id, None, None)?;
        if let Some(unit) = self.unit(id) {
            unit.stage = PgUnitStage::Sealed;
            unit.labelled = true;
            unit.simple = true;
        }
        Ok(id)
    }

    /// Charges the unit that a message of the extended protocol belongs to, which names it where nothing is executed.
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

    /// Charges the unit that a `Sync` or `Flush` ends, which may be one of its own. A `Flush` between `Bind` and
    /// `Execute` ends nothing.
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

    /// After a `Sync`: its unit gets no further requests.
    pub fn synced<R: Reader>(&mut self, id: PgUnitId, out: &mut Out<'_, R>) -> Result<(), Malformed> {
        if self.awaits_copy_data(id) {
            // While the server copies in, it ignores Sync.
            return Ok(());
        }
        self.skipping = false;
        self.expect(PgRequest::Sync, id, None, None)?;
        if !self.is_copying(id) {
            self.current = None;
            self.seal(id, out);
        }
        Ok(())
    }

    /// Queues a request message for its answer.
    pub fn expect(
        &mut self,
        request: PgRequest,
        unit: PgUnitId,
        portal: Option<PgPortalId>,
        statement: Option<PgStatementId>,
    ) -> Result<(), Malformed> {
        if self.expected.len().max(self.units.len()) >= limits::OUTSTANDING {
            return Err(Malformed("more requests without a response than are followed"));
        }
        let skipping = self.skipping;
        let Some(of) = self.unit(unit) else { return Ok(()) };
        if skipping {
            if of.fate == PgUnitFate::Fine {
                of.fate = PgUnitFate::Skipped;
            }
            return Ok(());
        }
        of.pending += 1;
        self.cycles += usize::from(request.ends_cycle());
        if let Some(portal) = portal {
            self.session.retain_portal(portal);
        }
        if let Some(statement) = statement {
            self.session.retain_statement(statement);
        }
        self.expected.push_back(PgExpectedReply { request, unit, portal, statement });
        Ok(())
    }

    /// Names a unit that is not a statement.
    pub fn label_setup<R: Reader>(
        &mut self,
        id: PgUnitId,
        name: &'static str,
        via: &'static str,
        out: &mut Out<'_, R>,
    ) {
        if let Some(unit) = self.unit(id) {
            unit.labelled = true;
            out.label(unit.op, Class::Setup, name, via);
        }
    }

    /// Names a unit by its statement, once that was executed.
    pub fn label<R: Reader>(
        &mut self,
        id: PgUnitId,
        name: &str,
        settings: bool,
        via: &'static str,
        statement: Statement,
        out: &mut Out<'_, R>,
    ) {
        let class = if self.replicates {
            Class::Background
        } else if name == "PREPARE" || (settings && !self.has_begun) {
            Class::Setup
        } else {
            self.has_begun = true;
            Class::Workload
        };
        if let Some(unit) = self.unit(id) {
            unit.labelled = true;
            unit.statement = statement;
            out.label_statement(unit.op, Label { class, name, via, statement: unit.statement.as_str() });
        }
    }

    /// A unit prepares a statement, which is what it is about unless it executes one.
    pub fn set_prepared(&mut self, id: PgUnitId, statement: Statement) {
        if let Some(unit) = self.unit(id) {
            unit.statement = statement;
        }
    }

    /// Names a unit by an SQL verb; where that is not known, for now by the kind of request.
    pub fn label_verb<R: Reader>(
        &mut self,
        id: PgUnitId,
        summary: &SqlSummary,
        (unknown, via): (&'static str, &'static str),
        out: &mut Out<'_, R>,
    ) {
        let SqlSummary { verb, settings, copies: _, statement } = summary;
        let name = if verb.is_empty() { unknown } else { verb.as_str() };
        self.label(id, name, *settings, via, statement.clone(), out);
        if let Some(unit) = self.unit(id) {
            unit.via_unknown = verb.is_empty().then_some(via);
        }
    }

    /// After an `Execute`: its unit is complete but for a `Sync` or `Flush`.
    pub fn executed(&mut self, id: PgUnitId) {
        if let Some(unit) = self.unit(id) {
            unit.stage = unit.stage.max(PgUnitStage::Complete);
        }
    }

    /// A request that is not answered and stands alone. Charges it; the caller closes it.
    pub fn charge_unanswered<R: Reader>(&mut self, class: Class, name: &str, out: &mut Out<'_, R>) -> OpId {
        self.move_on(out);
        let op = out.open();
        out.label(op, class, name, "");
        out.charge(op);
        op
    }

    /// The client starts the connection up: whatever came before is of no account.
    pub fn restart(&mut self) {
        self.has_begun = false;
        self.losses = PgLossState::default();
    }

    /// Charges the unit of the connection's start-up while it lasts.
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

    /// Charges a stretch of messages without counterpart.
    fn charge_stray<R: Reader>(&mut self, side: usize, name: &str, out: &mut Out<'_, R>) {
        if let Some(stray) = self.stray.get_mut(side) {
            let op = *stray.get_or_insert_with(|| out.orphan(name));
            out.charge(op);
        }
    }

    fn end_stray<R: Reader>(&mut self, side: usize, out: &mut Out<'_, R>) {
        if let Some(op) = self.stray.get_mut(side).and_then(Option::take) {
            out.close(op, Outcome::NoReply);
        }
    }

    /// No message of the server is captured: nothing that waits will be answered.
    pub fn abandon<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.drop_expected(usize::MAX, PgUnitFate::Lost, out);
        self.skipping = false;
    }

    /// Returns about how many bytes of memory it holds.
    pub fn held(&self) -> usize {
        self.expected.capacity() * size_of::<PgExpectedReply>()
            + self.units.capacity() * size_of::<PgUnit>()
            + self.session.held()
    }

    /// Returns the request that the next response answers.
    pub fn front(&self) -> Option<PgExpectedReply> {
        self.expected.front().copied()
    }
}
