//! Packets to operations.
//!
//! The server answers one command after the other, so that a queue of what is still to be answered pairs exactly, pipelines
//! included. The handshake is an operation like the others, which the server begins.

use super::sql;
use crate::limits;
use crate::statement::StatementText;
use crate::verb::SqlVerb;
use overhead_decode::{Label, Malformed, OpId, Out, Reader};
use overhead_model::{Class, Outcome};
use std::collections::VecDeque;

/// What an answer looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpectedResponse {
    /// Of a login, up to `OK` or an error: the server's greeting, then both sides in turn.
    Login,
    /// Of `COM_CHANGE_USER`, as of a login.
    ChangeUser,
    /// `OK`, an error, or results, with rows of text or in binary; `None` where the request was not seen.
    Result { is_binary: Option<bool> },
    /// Of `COM_STMT_PREPARE`: the statement's id, and definitions.
    Prepare,
    /// Rows in binary without definitions.
    Fetch,
    /// Definitions up to an `EOF` packet.
    FieldList,
    /// A text.
    Text,
    /// The events of a binary log, without end.
    Stream,
}

/// An operation that is not answered yet.
#[derive(Debug)]
pub(super) struct MysqlPending {
    pub op: OpId,
    pub kind: ExpectedResponse,
    /// The statement that is executed or fetched.
    pub statement: Option<u32>,
    /// What is prepared.
    pub prepares: StatementSummary,
    /// Types of its parameters, where it was executed before its number was known.
    pub bound: Vec<u8>,
    /// It makes the server forget all statements.
    pub resets: bool,
    /// Some of the answer has come.
    pub is_answered: bool,
    /// What it comes to once the answer is whole. Of an answer whose request was not seen, [`Outcome::NoReply`].
    pub outcome: Outcome,
}

impl MysqlPending {
    fn new(op: OpId, kind: ExpectedResponse) -> Self {
        Self {
            op,
            kind,
            statement: None,
            prepares: StatementSummary::default(),
            bound: Vec::new(),
            resets: false,
            is_answered: false,
            outcome: Outcome::Ok,
        }
    }
}

/// Pairing state of one connection.
#[derive(Debug, Default)]
pub(super) struct MysqlPairing {
    queue: VecDeque<MysqlPending>,
    /// Packets of the client without counterpart.
    stray: Option<OpId>,
    /// Operations in the queue may have been answered out of sight.
    is_doubtful: bool,
}

impl MysqlPairing {
    /// Returns whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.stray.is_none() && !self.is_doubtful
    }

    /// Returns what the next packet of the server answers.
    #[inline]
    pub fn front(&mut self) -> Option<&mut MysqlPending> {
        self.queue.front_mut()
    }

    /// Returns the kind of what the next packet of the server answers.
    #[inline]
    pub fn kind(&self) -> Option<ExpectedResponse> {
        self.queue.front().map(|front| front.kind)
    }

    /// Returns the statement that is prepared by the last command of the kind, where it is not answered yet.
    pub fn prepares_last(&self) -> Option<StatementSummary> {
        let last = self.queue.iter().rev().find(|pending| pending.kind == ExpectedResponse::Prepare)?;
        Some(last.prepares.clone())
    }

    /// The statement that is prepared by the last command of the kind is executed with parameters of these types.
    pub fn bind_last(&mut self, types: Vec<u8>) {
        if let Some(last) = self.queue.iter_mut().rev().find(|pending| pending.kind == ExpectedResponse::Prepare) {
            last.bound = types;
        }
    }

    /// Returns whether something waits for an answer.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Returns whether what waits was answered out of sight, where the client goes on and waits for answers, as most do.
    pub fn is_given_up(&self) -> bool {
        self.is_doubtful && self.is_waiting()
    }

    /// A command: opens an operation and charges it.
    pub fn open<R: Reader>(&mut self, out: &mut Out<'_, R>) -> OpId {
        self.end_stray(out);
        self.is_doubtful = false;
        let op = out.open();
        out.charge(op);
        op
    }

    /// Queues an operation for its answer.
    pub fn expect(&mut self, op: OpId, kind: ExpectedResponse) -> Result<&mut MysqlPending, Malformed> {
        if self.queue.len() >= limits::OUTSTANDING {
            return Err(Malformed("more requests without a response than are followed"));
        }
        self.queue.push_back(MysqlPending::new(op, kind));
        self.queue.back_mut().ok_or(Malformed("a queue that keeps nothing"))
    }

    /// An answer to a request that was not seen: opens an operation for it, and charges it.
    pub fn stray_answer<R: Reader>(&mut self, out: &mut Out<'_, R>) -> OpId {
        let op = out.orphan("(response)");
        let pending = MysqlPending {
            outcome: Outcome::NoReply,
            ..MysqlPending::new(op, ExpectedResponse::Result { is_binary: None })
        };
        self.queue.push_front(pending);
        op
    }

    /// Charges a stretch of packets of the client without counterpart.
    pub fn charge_stray<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        let op = *self.stray.get_or_insert_with(|| out.orphan("(request)"));
        out.charge(op);
    }

    fn end_stray<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        if let Some(op) = self.stray.take() {
            out.close(op, Outcome::NoReply);
        }
    }

    /// The answer at the front is whole: closes its operation.
    pub fn answered<R: Reader>(&mut self, out: &mut Out<'_, R>) -> Option<MysqlPending> {
        let front = self.queue.pop_front()?;
        self.is_doubtful &= !self.queue.is_empty();
        out.close(front.op, front.outcome);
        Some(front)
    }

    /// Returns whether the answer at the front is to a request that was not seen.
    pub fn is_stray(&self) -> bool {
        self.queue.front().is_some_and(|front| front.outcome == Outcome::NoReply)
    }

    /// Returns whether a request waits behind the one at the front.
    pub fn has_next(&self) -> bool {
        self.queue.len() > 1
    }

    /// The answer at the front is given up.
    pub fn drop_front<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        let outcome = if self.is_stray() { Outcome::NoReply } else { Outcome::Unanswered };
        if let Some(front) = self.queue.pop_front() {
            out.close(front.op, outcome);
        }
    }

    /// Bytes were lost: what waits may be answered without being seen.
    pub fn doubt(&mut self) {
        self.is_doubtful |= !self.queue.is_empty();
    }

    /// Nothing that waits will be seen answered.
    pub fn drop_all<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        for pending in self.queue.drain(..) {
            let is_stray = pending.outcome == Outcome::NoReply;
            out.close(pending.op, if is_stray { Outcome::NoReply } else { Outcome::Unanswered });
        }
        self.is_doubtful = false;
    }

    /// The connection is over: a stream of events is answered as far as there was one.
    pub fn finish<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.end_stray(out);
        while self.queue.front().is_some_and(|front| front.kind == ExpectedResponse::Stream && front.is_answered) {
            self.answered(out);
        }
    }

    /// Returns about how many bytes of memory it holds.
    pub fn held(&self) -> usize {
        self.queue.capacity() * size_of::<MysqlPending>()
    }
}

/// What a statement in text is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StatementSummary {
    pub verb: SqlVerb,
    /// It does nothing but `SET`.
    pub is_settings: bool,
    /// It without the values in it.
    pub statement: StatementText,
}

impl StatementSummary {
    /// From the text of a statement, which says whether it is `normalised`.
    pub fn of(text: &[u8], is_unescaped: bool, normalised: impl FnOnce(SqlVerb) -> StatementText) -> Self {
        let verb = sql::verb(text, is_unescaped);
        let is_settings = verb.is(b"SET") && sql::is_settings(text, is_unescaped);
        Self { verb, is_settings, statement: normalised(verb) }
    }

    /// Returns what is said of a statement that was prepared out of sight.
    pub fn unseen() -> Self {
        Self { statement: StatementText::PreparedBefore, ..Self::default() }
    }

    /// Labels an operation that executes it. `unknown` is its name where there is no verb.
    pub fn label<R: Reader>(
        &self,
        op: OpId,
        (unknown, via): (&str, &'static str),
        has_begun: bool,
        out: &mut Out<'_, R>,
    ) {
        let class = if self.is_settings && !has_begun { Class::Setup } else { Class::Workload };
        let name = if self.verb.is_empty() { unknown } else { self.verb.as_str() };
        out.label_statement(op, Label { class, name, via, statement: self.statement.as_str() });
    }
}
