//! Pairs replies with commands.
//!
//! The server answers commands in order, so a queue pairs exactly, pipelines included. The handshake is an operation
//! started by the server.

use crate::statement::StatementSummary;
use overhead_decode::{DecodeStep, Label, Malformed, OpId, Out, PendingRequest, PendingRequests, Reader};
use overhead_model::{Class, Outcome};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpectedResponse {
    /// To a login, up to `OK` or an error: the greeting, then both sides in turn.
    Login,
    /// To `COM_CHANGE_USER`, like a login.
    ChangeUser,
    /// `OK`, an error, or results with rows in text or binary; `None` if the request was not seen.
    Result { is_binary: Option<bool> },
    /// To `COM_STMT_PREPARE`: statement id and definitions.
    Prepare,
    /// Binary rows without definitions.
    Fetch,
    /// Definitions up to an `EOF` packet.
    FieldList,
    /// To `COM_STATISTICS`.
    Text,
    /// The events of a binary log, without end.
    Stream,
}

#[derive(Debug)]
pub(super) struct MysqlPending {
    pub op: OpId,
    pub kind: ExpectedResponse,
    pub statement: Option<u32>,
    /// The statement was prepared before the capture, and its text is not given.
    pub is_unseen: bool,
    pub prepares: StatementSummary,
    /// Parameter types, if the statement was executed before its id was known.
    pub bound: Vec<u8>,
    /// Makes the server forget all statements.
    pub resets: bool,
    pub is_answered: bool,
    /// The outcome once the reply is complete; [`Outcome::NoReply`] if the request was not seen.
    pub outcome: Outcome,
}

impl PendingRequest for MysqlPending {
    #[inline]
    fn op(&self) -> OpId {
        self.op
    }
}

impl MysqlPending {
    fn new(op: OpId, kind: ExpectedResponse) -> Self {
        Self {
            op,
            kind,
            statement: None,
            is_unseen: false,
            prepares: StatementSummary::default(),
            bound: Vec::new(),
            resets: false,
            is_answered: false,
            outcome: Outcome::Ok,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct MysqlPairing {
    pub queue: PendingRequests<MysqlPending>,
    /// Client packets without counterpart.
    stray: Option<OpId>,
    /// Queued operations may have been answered unseen.
    is_unsure: bool,
}

impl MysqlPairing {
    pub fn is_idle(&self) -> bool {
        let Self { queue, stray, is_unsure } = self;
        queue.is_idle() && stray.is_none() && !is_unsure
    }

    /// Returns the operation that the next server packet answers.
    #[inline]
    pub fn front(&mut self) -> Option<&mut MysqlPending> {
        self.queue.front_mut()
    }

    #[inline]
    pub fn kind(&self) -> Option<ExpectedResponse> {
        self.queue.front().map(|front| front.kind)
    }

    /// Returns the last statement being prepared, if its reply is pending.
    pub fn prepares_last(&self) -> Option<StatementSummary> {
        let last = self.queue.iter().rev().find(|pending| pending.kind == ExpectedResponse::Prepare)?;
        Some(last.prepares.clone())
    }

    /// Sets the parameter types of the last statement being prepared, which is executed already.
    pub fn bind_last(&mut self, types: Vec<u8>) {
        if let Some(last) = self.queue.iter_mut().rev().find(|pending| pending.kind == ExpectedResponse::Prepare) {
            last.bound = types;
        }
    }

    /// Returns whether waiting operations must have been answered unseen, given that clients wait for replies.
    pub fn is_given_up(&self) -> bool {
        self.is_unsure && !self.queue.is_empty() && self.queue.is_serial()
    }

    /// Opens an operation for a command and charges it.
    pub fn open<R: Reader>(&mut self, out: &mut Out<'_, R>) -> OpId {
        self.end_stray(out);
        self.is_unsure = false;
        let op = out.open();
        out.charge(op);
        op
    }

    pub fn expect<R: Reader>(
        &mut self,
        op: OpId,
        kind: ExpectedResponse,
        out: &Out<'_, R>,
    ) -> DecodeStep<&mut MysqlPending> {
        let pending = MysqlPending::new(op, kind);
        self.queue.push_within(pending, "more requests without a response than are followed", out)?;
        self.queue.iter_mut().next_back().ok_or(Malformed("a queue that keeps nothing"))
    }

    /// Opens and charges an operation for a reply whose request was not seen.
    pub fn stray_answer<R: Reader>(&mut self, out: &mut Out<'_, R>) -> OpId {
        let op = out.orphan("(response)");
        let pending = MysqlPending {
            outcome: Outcome::NoReply,
            ..MysqlPending::new(op, ExpectedResponse::Result { is_binary: None })
        };
        self.queue.push_front(pending);
        op
    }

    /// Charges client packets without counterpart.
    pub fn charge_stray<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        let op = *self.stray.get_or_insert_with(|| out.orphan("(request)"));
        out.charge(op);
    }

    fn end_stray<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        if let Some(op) = self.stray.take() {
            out.close(op, Outcome::NoReply);
        }
    }

    /// Closes the first operation, whose reply is complete.
    pub fn answered<R: Reader>(&mut self, out: &mut Out<'_, R>) -> Option<MysqlPending> {
        let front = self.queue.pop()?;
        self.is_unsure &= !self.queue.is_empty();
        out.close(front.op, front.outcome);
        Some(front)
    }

    /// Returns whether the first reply's request was not seen.
    pub fn is_stray(&self) -> bool {
        self.queue.front().is_some_and(|front| front.outcome == Outcome::NoReply)
    }

    pub fn drop_front<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        let outcome = if self.is_stray() { Outcome::NoReply } else { Outcome::Unanswered };
        if let Some(front) = self.queue.pop() {
            out.close(front.op, outcome);
        }
    }

    /// A reply could not be decoded: waiting operations may be answered unseen.
    pub fn mark_unsure(&mut self) {
        self.is_unsure |= !self.queue.is_empty();
    }

    /// Drops all waiting operations, whose replies will not be seen.
    pub fn drop_all<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        while !self.queue.is_empty() {
            self.drop_front(out);
        }
        self.is_unsure = false;
    }

    /// Ends the connection: a stream of events counts as answered once it started.
    pub fn finish<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.end_stray(out);
        while self.queue.front().is_some_and(|front| front.kind == ExpectedResponse::Stream && front.is_answered) {
            self.answered(out);
        }
    }
}

/// Labels an operation that executes a statement; `unknown` is its name without a verb.
pub(super) fn label<R: Reader>(
    named: &StatementSummary,
    (unknown, via): (&str, &'static str),
    has_begun: bool,
    out: &mut Out<'_, R>,
) {
    let class = if named.is_settings && !has_begun { Class::Setup } else { Class::Workload };
    out.label_current(Label { class, name: named.verb.or(unknown), via, statement: named.text.as_str() });
}
