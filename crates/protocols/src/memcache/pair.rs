//! Requests to operations: which answer is whose.
//!
//! Servers answer in order. What is not answered in every case (`q` of meta commands, binary opcodes in `Q`) is told by the next
//! answer that cannot be its own: by its word, by the opaque or key that it repeats, or by opcode and opaque.

use crate::limits;
use overhead_decode::{Malformed, Note, OpId, Out, Reader};
use overhead_model::Outcome;
use std::collections::VecDeque;

/// What a request asks for, as far as it says which answers it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemcacheRequestKind {
    /// `VALUE` blocks up to `END`.
    Values,
    Store,
    Delete,
    Count,
    Touch,
    /// Lines up to `END`, or one line.
    List,
    /// One line of a list.
    Item,
    Version,
    Watch,
    Quit,
    MetaGet,
    MetaSet,
    MetaDelete,
    MetaCount,
    /// Arithmetic that makes what is not there, and answers that even where it is quiet.
    MetaCreate,
    MetaNoop,
    MetaDebug,
    /// One line, whichever.
    Other,
    /// A command that no server of memcached has.
    Unknown,
    /// A binary request with this opcode.
    Binary(u8),
}

/// What the first word of an answer says of what it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyKeyword {
    /// `VALUE`.
    Value,
    /// `END`.
    End,
    /// `STAT` and other lines of a list.
    Item,
    /// `STORED`, `NOT_STORED`, `EXISTS`.
    Stored,
    Deleted,
    Touched,
    NotFound,
    Number,
    Version,
    /// `VA`.
    Fetched,
    /// `HD`.
    Done,
    /// `EN`.
    Miss,
    /// `NF`.
    Absent,
    /// `NS`, `EX`.
    Refused,
    /// `ME`.
    Debug,
    /// `MN`.
    Noop,
    Error,
    /// Any other line.
    Other,
}

impl MemcacheRequestKind {
    /// Returns whether an answer that begins so can be one to this.
    fn may_be(self, word: ReplyKeyword) -> bool {
        if self == Self::Unknown {
            return true;
        }
        match word {
            ReplyKeyword::Value => self == Self::Values,
            ReplyKeyword::End => matches!(self, Self::Values | Self::List),
            ReplyKeyword::Item => matches!(self, Self::List | Self::Item),
            ReplyKeyword::Stored => self == Self::Store,
            ReplyKeyword::Deleted => self == Self::Delete,
            ReplyKeyword::Touched => self == Self::Touch,
            ReplyKeyword::NotFound => matches!(self, Self::Store | Self::Delete | Self::Count | Self::Touch),
            ReplyKeyword::Number => self == Self::Count,
            ReplyKeyword::Version => self == Self::Version,
            ReplyKeyword::Fetched => matches!(self, Self::MetaGet | Self::MetaCount | Self::MetaCreate),
            ReplyKeyword::Done => {
                matches!(self, Self::MetaGet | Self::MetaSet | Self::MetaDelete | Self::MetaCount | Self::MetaCreate)
            }
            // Servers before 1.6.10 answered `mn` so.
            ReplyKeyword::Miss => matches!(self, Self::MetaGet | Self::MetaDebug | Self::MetaNoop | Self::List),
            ReplyKeyword::Absent | ReplyKeyword::Refused => {
                matches!(self, Self::MetaSet | Self::MetaDelete | Self::MetaCount | Self::MetaCreate)
            }
            ReplyKeyword::Debug => self == Self::MetaDebug,
            ReplyKeyword::Noop => self == Self::MetaNoop,
            ReplyKeyword::Error => true,
            ReplyKeyword::Other => !matches!(self, Self::Values | Self::MetaNoop | Self::MetaDebug | Self::Version),
        }
    }

    /// Returns whether a quiet one has such an answer at all: hits of what fetches, and what went wrong for others.
    fn may_be_quietly(self, word: ReplyKeyword) -> bool {
        match self {
            Self::MetaGet => matches!(word, ReplyKeyword::Fetched | ReplyKeyword::Done | ReplyKeyword::Error),
            Self::MetaCreate => self.may_be(word),
            _ => self.may_be(word) && !matches!(word, ReplyKeyword::Fetched | ReplyKeyword::Done),
        }
    }
}

/// The id of a request that waited alone.
pub(super) const UNTOLD: u64 = u64::MAX;

/// A request that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemcachePending {
    pub op: OpId,
    pub ask: MemcacheRequestKind,
    /// It has an answer in some cases alone.
    pub quiet: bool,
    /// A meta command that asks for the value.
    pub fetches: bool,
    /// By which its answer is told from others, where any could be another's: a fingerprint of the opaque or key that is repeated (0:
    /// neither is), or a binary opaque with half a fingerprint of the key above it (0: it is not repeated). [`UNTOLD`] where it was
    /// not looked for.
    pub id: u64,
    /// Of a quiet one, a fingerprint of the key: which of several with one key is answered makes no difference to what is counted.
    pub key: u64,
    /// Before it, requests were sent that are told to have no answer, which some errors of servers have all the same.
    pub is_behind_silent: bool,
}

impl MemcachePending {
    /// Returns one that has to be answered, and waits alone as far as is known.
    pub const fn new(op: OpId, ask: MemcacheRequestKind) -> Self {
        Self { op, ask, quiet: false, fetches: false, id: UNTOLD, key: 0, is_behind_silent: false }
    }

    /// Returns whether an answer that begins so can be one to this.
    fn may_be(&self, word: ReplyKeyword) -> bool {
        let has_value = match word {
            ReplyKeyword::Fetched => self.fetches,
            ReplyKeyword::Done => !self.fetches,
            _ => true,
        };
        has_value && if self.quiet { self.ask.may_be_quietly(word) } else { self.ask.may_be(word) }
    }
}

/// Returns whether the binary request with the first of these ids may have the answer with the second.
pub(super) fn is_same(request: u64, answer: u64) -> bool {
    request as u32 == answer as u32 && (request == answer || request >> 32 == 0 || answer >> 32 == 0)
}

/// The request that an answer is being read to.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemcacheReplyTarget {
    pub op: OpId,
    pub ask: MemcacheRequestKind,
    /// As in [`MemcachePending`].
    pub id: u64,
    /// How it ends, as far as was read.
    pub outcome: Outcome,
    /// Nothing asked for it.
    pub is_orphan: bool,
}

/// Requests that wait, in order.
#[derive(Debug)]
pub(super) struct MemcachePairing {
    pending: VecDeque<MemcachePending>,
    /// Of these, the quiet ones.
    quiet: usize,
    /// How many that wait are looked at for an answer: fewer after nothing was found, until none waits.
    reach: usize,
    /// Requests were sent that are told to have no answer, behind all that wait.
    has_silent: bool,
}

/// How many are looked at where an answer was not found before.
const NEAR: usize = 64;

impl MemcachePairing {
    /// No request waits. There is room for one: most clients wait for each answer.
    pub fn new() -> Self {
        Self { pending: VecDeque::with_capacity(1), quiet: 0, reach: limits::QUIET, has_silent: false }
    }

    /// Returns whether no request waits.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns whether any waits that need not be answered, so that an answer must say more than that it is the next.
    pub fn has_quiet(&self) -> bool {
        self.quiet > 0
    }

    /// A request waits for its answer.
    ///
    /// # Errors
    ///
    /// [`Malformed`] where more wait than can be kept.
    pub fn push<R: Reader>(&mut self, mut pending: MemcachePending, out: &mut Out<'_, R>) -> Result<(), Malformed> {
        pending.is_behind_silent = std::mem::take(&mut self.has_silent);
        if self.quiet >= limits::QUIET && self.pending.front().is_some_and(|front| front.quiet) {
            self.pop(Outcome::NoReply, out);
        }
        if self.pending.len() >= limits::OUTSTANDING {
            return Err(Malformed("more requests wait for answers than can be kept"));
        }
        self.quiet += usize::from(pending.quiet);
        self.pending.push_back(pending);
        Ok(())
    }

    /// Takes out the request that an answer is to which begins with `word`. `id` says what the answer repeats (0: nothing), where
    /// that is needed.
    pub fn answer<R: Reader>(
        &mut self,
        word: ReplyKeyword,
        id: impl Fn() -> u64,
        out: &mut Out<'_, R>,
    ) -> MemcacheReplyTarget {
        let front = self.pending.front().copied();
        let place = match front {
            Some(front) if !front.quiet && front.may_be(word) => {
                if word == ReplyKeyword::Error && front.is_behind_silent {
                    out.note(Note::Ambiguous);
                }
                Some(0)
            }
            Some(_) => {
                let id = if self.has_quiet() { id() } else { 0 };
                let may_be = |it: &MemcachePending| it.may_be(word);
                // What was not asked for is not repeated; nor is a request quietly answered that does not repeat what was.
                let same = |it: &MemcachePending| {
                    it.id == UNTOLD || id == it.id || id == 0 && (!it.quiet || word == ReplyKeyword::Error)
                };
                // One that has to be answered is, whatever is repeated.
                let place = self.find(|it| may_be(it) && same(it)).or_else(|| self.find(|it| may_be(it) && !it.quiet));
                if place.is_some_and(|place| self.is_ambiguous(place, word, |it| may_be(it) && same(it))) {
                    out.note(Note::Ambiguous);
                }
                place
            }
            None => None,
        };
        self.take(place, true, out)
    }

    /// The same of a binary answer. `id` is as in [`MemcachePending`].
    pub fn binary_answer<R: Reader>(&mut self, opcode: u8, id: u64, out: &mut Out<'_, R>) -> MemcacheReplyTarget {
        let is_it = |it: &MemcachePending| it.ask == MemcacheRequestKind::Binary(opcode) && is_same(it.id, id);
        let place = self.find(is_it);
        if place.is_some_and(|place| self.is_ambiguous(place, ReplyKeyword::Other, is_it)) {
            out.note(Note::Ambiguous);
        }
        self.take(place, false, out)
    }

    /// Returns whether the answer that the request at `place` is taken to have could be another's of another kind or key, which
    /// `is_it` says of those that wait. Behind one that has to be answered, nobody is answered before it.
    fn is_ambiguous(&self, place: usize, word: ReplyKeyword, is_it: impl Fn(&MemcachePending) -> bool) -> bool {
        let mut behind = self.pending.iter().take(self.reach).skip(place);
        let Some(taken) = behind.next() else { return false };
        let mut must_answer = !taken.quiet;
        let others = behind.take_while(|it| !std::mem::replace(&mut must_answer, !it.quiet));
        let is_told = word == ReplyKeyword::Error && taken.is_behind_silent;
        is_told
            || others
                .filter(|it| (it.ask, it.key, it.quiet) != (taken.ask, taken.key, true))
                // Of one that has to be answered, the answer of its own is missing where the error is its.
                .filter(|it| it.quiet || word != ReplyKeyword::Error)
                .any(is_it)
    }

    /// A request was sent that is told to have no answer.
    pub fn push_silent(&mut self) {
        self.has_silent = true;
    }

    /// Returns whether one was sent behind all that wait.
    pub fn has_silent(&self) -> bool {
        self.has_silent
    }

    fn find(&mut self, is_it: impl Fn(&MemcachePending) -> bool) -> Option<usize> {
        let place = self.pending.iter().take(self.reach).position(is_it);
        if place.is_none() && !self.pending.is_empty() {
            self.reach = NEAR;
        }
        place
    }

    /// Takes out the request at `place`. Those before it that need no answer have none, and nor have others where answers come
    /// `in_order`.
    fn take<R: Reader>(&mut self, place: Option<usize>, in_order: bool, out: &mut Out<'_, R>) -> MemcacheReplyTarget {
        let Some(mut place) = place else {
            let op = out.orphan("RESPONSE");
            return MemcacheReplyTarget {
                op,
                ask: MemcacheRequestKind::Unknown,
                id: 0,
                outcome: Outcome::Ok,
                is_orphan: true,
            };
        };
        while place > 0 && self.pending.front().is_some_and(|front| front.quiet || in_order) {
            let quiet = self.pending.front().is_some_and(|front| front.quiet);
            self.pop(if quiet { Outcome::NoReply } else { Outcome::Unanswered }, out);
            place -= 1;
        }
        let found = self
            .pending
            .remove(place)
            .unwrap_or(MemcachePending { id: 0, ..MemcachePending::new(OpId(0), MemcacheRequestKind::Unknown) });
        self.quiet -= usize::from(found.quiet);
        if self.pending.is_empty() {
            self.reach = limits::QUIET;
        }
        out.charge(found.op);
        MemcacheReplyTarget { op: found.op, ask: found.ask, id: found.id, outcome: Outcome::Ok, is_orphan: false }
    }

    fn pop<R: Reader>(&mut self, outcome: Outcome, out: &mut Out<'_, R>) {
        if let Some(front) = self.pending.pop_front() {
            self.quiet -= usize::from(front.quiet);
            out.close(front.op, outcome);
        }
    }

    /// Answers were lost: what waits cannot be told from what was answered in the loss. Keeps the one whose request `is_sent`
    /// still, if it waits.
    pub fn lost<R: Reader>(&mut self, is_sent: Option<OpId>, out: &mut Out<'_, R>) {
        let kept = self.pending.back().copied().filter(|last| Some(last.op) == is_sent);
        if kept.is_some() {
            self.pending.pop_back();
        }
        for pending in self.pending.drain(..) {
            out.close(pending.op, Outcome::Unanswered);
        }
        self.pending.extend(kept);
        (self.quiet, self.reach) = (usize::from(kept.is_some_and(|kept| kept.quiet)), limits::QUIET);
        self.has_silent = false;
    }

    /// The connection is over: what needed no answer has none.
    pub fn end<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        for pending in self.pending.drain(..).filter(|pending| pending.quiet) {
            out.close(pending.op, Outcome::NoReply);
        }
        self.quiet = 0;
    }

    /// Returns about how many bytes of memory it holds.
    pub fn held(&self) -> usize {
        self.pending.capacity() * size_of::<MemcachePending>()
    }
}
