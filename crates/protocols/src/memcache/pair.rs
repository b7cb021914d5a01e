//! Pairs replies with requests.
//!
//! Servers answer in order. A quiet request (meta commands with `q`, binary opcodes ending in `Q`) may have no reply;
//! the next reply that cannot belong to it shows that: by its word, by the opaque or key that it repeats, or by opcode
//! and opaque.

use super::IncompleteRequest;
use crate::limits;
use overhead_decode::{DecodeStep, Note, OpId, Out, PendingRequest, PendingRequests, Reader};
use overhead_model::{Outcome, Side};

/// Requests by the replies they may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemcacheRequestKind {
    /// `VALUE` blocks up to `END`.
    Values,
    Store,
    Delete,
    Count,
    Touch,
    /// Lines up to `END`, or a single line.
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
    /// Arithmetic that creates missing keys; creation is reported even if quiet.
    MetaCreate,
    MetaNoop,
    MetaDebug,
    /// Any single line.
    Other,
    /// Not a command of memcached.
    Unknown,
    Binary(u8),
}

/// Replies by their first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyKeyword {
    Value,
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
    /// `CLIENT_ERROR`.
    Refusal,
    Other,
}

impl ReplyKeyword {
    pub fn is_error(self) -> bool {
        matches!(self, Self::Error | Self::Refusal)
    }

    /// Returns whether it starts the reply to a meta command, which may repeat the key.
    pub fn is_meta(self) -> bool {
        matches!(self, Self::Fetched | Self::Done | Self::Miss | Self::Absent | Self::Refused)
    }
}

impl MemcacheRequestKind {
    /// Returns whether a reply with this word can answer this request.
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
            // Servers before 1.6.10 answered `mn` this way.
            ReplyKeyword::Miss => matches!(self, Self::MetaGet | Self::MetaDebug | Self::MetaNoop | Self::List),
            ReplyKeyword::Absent | ReplyKeyword::Refused => {
                matches!(self, Self::MetaSet | Self::MetaDelete | Self::MetaCount | Self::MetaCreate)
            }
            ReplyKeyword::Debug => self == Self::MetaDebug,
            ReplyKeyword::Noop => self == Self::MetaNoop,
            ReplyKeyword::Error | ReplyKeyword::Refusal => true,
            ReplyKeyword::Other => !matches!(self, Self::Values | Self::MetaNoop | Self::MetaDebug | Self::Version),
        }
    }

    /// Returns whether a quiet request has such a reply at all: hits for retrieval, errors for the others.
    fn may_be_quietly(self, word: ReplyKeyword) -> bool {
        match self {
            Self::MetaGet => matches!(word, ReplyKeyword::Fetched | ReplyKeyword::Done) || word.is_error(),
            Self::MetaCreate => self.may_be(word),
            _ => self.may_be(word) && !matches!(word, ReplyKeyword::Fetched | ReplyKeyword::Done),
        }
    }
}

/// The id of a request that was alone, so that no id was read.
pub(super) const UNTOLD: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
pub(super) struct MemcachePending {
    pub op: OpId,
    pub ask: MemcacheRequestKind,
    /// Not always answered.
    pub quiet: bool,
    /// A meta command that requests the value.
    pub fetches: bool,
    /// Distinguishes its reply from others: a fingerprint of the opaque or key that the reply repeats (0: neither), or
    /// a binary opaque with half a fingerprint of the key above it (0: not repeated). [`UNTOLD`] if it was not needed.
    pub id: u64,
    /// Fingerprint of a quiet request's key. Quiet requests with the same key are interchangeable in the totals.
    pub key: u64,
    /// Requests without a reply were sent before it; servers answer them with some errors anyway.
    pub is_behind_silent: bool,
}

/// The last request with `noreply`. It stays open until another one, or until what follows it is answered.
#[derive(Clone, Copy, Debug)]
struct SilentRequest {
    op: OpId,
    /// How many requests that are always answered followed it.
    followers: usize,
    /// Servers never refuse the first of these.
    is_before_sound: bool,
}

/// Closes a request that will have no answer, or lets it close once it was sent.
fn drop_request<R: Reader>(lost: MemcachePending, sent: &mut Option<IncompleteRequest>, out: &mut Out<'_, R>) {
    let outcome = if lost.quiet { Outcome::NoReply } else { Outcome::Unanswered };
    match sent {
        Some(sent) if sent.op == lost.op => sent.answered = Some(outcome),
        _ => out.close(lost.op, outcome),
    }
}

impl PendingRequest for MemcachePending {
    #[inline]
    fn op(&self) -> OpId {
        self.op
    }
}

impl MemcachePending {
    /// Returns a request that will be answered and waits alone.
    pub const fn new(op: OpId, ask: MemcacheRequestKind) -> Self {
        Self { op, ask, quiet: false, fetches: false, id: UNTOLD, key: 0, is_behind_silent: false }
    }

    /// Returns whether a reply with this word can answer this request.
    fn may_be(&self, word: ReplyKeyword) -> bool {
        let has_value = match word {
            ReplyKeyword::Fetched => self.fetches,
            ReplyKeyword::Done => !self.fetches,
            _ => true,
        };
        has_value && if self.quiet { self.ask.may_be_quietly(word) } else { self.ask.may_be(word) }
    }
}

/// Returns whether the binary request with id `request` can have the reply with id `answer`.
pub(super) fn is_same(request: u64, reply: u64) -> bool {
    request as u32 == reply as u32 && (request == reply || request >> 32 == 0 || reply >> 32 == 0)
}

#[derive(Clone, Copy, Debug)]
pub(super) struct MemcacheReplyTarget {
    pub op: OpId,
    pub ask: MemcacheRequestKind,
    pub id: u64,
    /// The outcome so far.
    pub outcome: Outcome,
    /// No request matches.
    pub is_orphan: bool,
}

#[derive(Debug)]
pub(super) struct MemcachePairing {
    pub pending: PendingRequests<MemcachePending>,
    quiet: usize,
    /// How many waiting requests are searched for a reply; reduced until none waits after a failed search, and if replies
    /// keep coming far out of order.
    reach: usize,
    /// Requests searched beyond [`SEARCHED_PER_REQUEST`] for each one sent.
    excess: usize,
    /// Requests without a reply were sent after all waiting ones.
    pub has_silent: bool,
    silent: Option<SilentRequest>,
}

/// Number of requests searched once `reach` is reduced.
const NEAR: usize = 64;
/// Servers that answer out of order have hundreds of requests in hand.
const SEARCHED_PER_REQUEST: usize = 256;
/// Number of requests behind a quiet one that are searched for another owner of its reply.
const REACH_OF_AMBIGUITY: usize = 1024;

/// Has room for one request: most clients wait for each reply.
impl Default for MemcachePairing {
    fn default() -> Self {
        Self {
            pending: PendingRequests::with_room(),
            quiet: 0,
            reach: limits::QUIET,
            excess: 0,
            has_silent: false,
            silent: None,
        }
    }
}

impl MemcachePairing {
    /// Returns whether no request waits and pairing is certain.
    pub fn is_idle(&self) -> bool {
        let Self { pending, quiet: _, reach: _, excess: _, has_silent: _, silent } = self;
        pending.is_idle() && silent.is_none()
    }

    /// Returns whether a quiet request waits, so that a reply must be identified by more than its position.
    pub fn has_quiet(&self) -> bool {
        self.quiet > 0
    }

    /// Adds a waiting request. Fails if too many wait.
    pub fn push<R: Reader>(&mut self, mut pending: MemcachePending, out: &mut Out<'_, R>) -> DecodeStep<()> {
        pending.is_behind_silent = std::mem::take(&mut self.has_silent);
        if self.quiet >= limits::QUIET && self.pending.front().is_some_and(|front| front.quiet) {
            self.pop(Outcome::NoReply, out);
        }
        self.pending.push_within(pending, "more requests wait for answers than can be kept", out)?;
        self.quiet += usize::from(pending.quiet);
        self.excess = self.excess.saturating_sub(SEARCHED_PER_REQUEST);
        if let Some(silent) = &mut self.silent {
            silent.followers += 1;
        }
        Ok(())
    }

    /// Notes that a request follows, which is always answered, and whether servers never refuse it.
    pub fn follow_silent(&mut self, is_sound: impl FnOnce() -> bool) {
        if let Some(silent) = self.silent.as_mut().filter(|silent| silent.followers == 0) {
            silent.is_before_sound = is_sound();
        }
    }

    /// Adds a request with `noreply`.
    pub fn push_silent<R: Reader>(&mut self, op: OpId, out: &mut Out<'_, R>) {
        self.close_silent(out);
        self.silent = Some(SilentRequest { op, followers: 0, is_before_sound: false });
    }

    /// Closes the last request with `noreply`, whose value is complete.
    fn close_silent<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        if let Some(silent) = self.silent.take() {
            out.close(silent.op, Outcome::NoReply);
        }
    }

    /// Returns the request with `noreply` that a reply answers; closes it if the reply answers what followed it.
    fn silent_answer<R: Reader>(
        &mut self,
        word: ReplyKeyword,
        has_front: bool,
        out: &mut Out<'_, R>,
    ) -> Option<MemcacheReplyTarget> {
        let silent = self.silent.filter(|silent| self.pending.len() <= silent.followers)?;
        let is_its = if has_front {
            word == ReplyKeyword::Refusal && silent.is_before_sound && self.pending.is_certain()
        } else {
            word.is_error() && self.pending.is_idle()
        };
        if !is_its {
            self.close_silent(out);
            return None;
        }
        self.silent = None;
        out.charge(silent.op);
        let ask = MemcacheRequestKind::Unknown;
        Some(MemcacheReplyTarget { op: silent.op, ask, id: 0, outcome: Outcome::Ok, is_orphan: false })
    }

    /// Removes the request answered by a reply that starts with `word`. `id` computes what the reply repeats (0:
    /// nothing), if that is needed.
    pub fn answer<R: Reader>(
        &mut self,
        word: ReplyKeyword,
        id: impl Fn() -> u64,
        sent: &mut Option<IncompleteRequest>,
        out: &mut Out<'_, R>,
    ) -> MemcacheReplyTarget {
        let front = self.front(sent, out);
        if self.silent.is_some()
            && let Some(target) = self.silent_answer(word, front.is_some(), out)
        {
            return target;
        }
        let place = match front {
            Some(front) if !front.quiet && front.may_be(word) => {
                if word.is_error() && front.is_behind_silent {
                    out.note(Note::Ambiguous);
                }
                Some(0)
            }
            Some(_) => {
                let id = if self.has_quiet() { id() } else { 0 };
                let may_be = |it: &MemcachePending| it.may_be(word);
                // A reply does not repeat an id without being asked to, and a quiet request that asked for one gets it.
                let same =
                    |it: &MemcachePending| it.id == UNTOLD || id == it.id || id == 0 && (!it.quiet || word.is_error());
                // A request that is always answered takes the reply whatever it repeats.
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

    /// Removes the request answered by a binary reply; `id` is as in [`MemcachePending`].
    pub fn binary_answer<R: Reader>(
        &mut self,
        (opcode, id): (u8, u64),
        sent: &mut Option<IncompleteRequest>,
        out: &mut Out<'_, R>,
    ) -> MemcacheReplyTarget {
        if self.front(sent, out).is_none() {
            return self.take(None, false, out);
        }
        let is_it = |it: &MemcachePending| it.ask == MemcacheRequestKind::Binary(opcode) && is_same(it.id, id);
        let place = self.find(is_it);
        if place.is_some_and(|place| self.is_ambiguous(place, ReplyKeyword::Other, is_it)) {
            out.note(Note::Ambiguous);
        }
        self.take(place, false, out)
    }

    /// Returns the first request, unless the reply at the current position answers an unknown one. Closes those that will have none.
    fn front<R: Reader>(
        &mut self,
        sent: &mut Option<IncompleteRequest>,
        out: &mut Out<'_, R>,
    ) -> Option<MemcachePending> {
        let quiet = &mut self.quiet;
        let drop = |lost: MemcachePending, out: &mut Out<'_, R>| {
            *quiet -= usize::from(lost.quiet);
            drop_request(lost, sent, out);
        };
        self.pending.answer(out, drop).copied()
    }

    /// Closes all waiting requests.
    pub fn abandon<R: Reader>(&mut self, sent: &mut Option<IncompleteRequest>, out: &mut Out<'_, R>) {
        self.close_silent(out);
        self.pending.drain().for_each(|pending| drop_request(pending, sent, out));
        self.quiet = 0;
    }

    /// Returns whether the reply taken by the request at `place` could belong to a waiting request of another kind or
    /// key; `is_it` checks one. Requests after one that is always answered cannot be answered before it.
    fn is_ambiguous(&self, place: usize, word: ReplyKeyword, is_it: impl Fn(&MemcachePending) -> bool) -> bool {
        let mut behind = self.pending.iter().take(self.reach).skip(place).take(REACH_OF_AMBIGUITY);
        let Some(taken) = behind.next() else { return false };
        let mut must_answer = !taken.quiet;
        let others = behind.take_while(|it| !std::mem::replace(&mut must_answer, !it.quiet));
        let is_ambiguous_error = word.is_error() && taken.is_behind_silent;
        is_ambiguous_error
            || others
                .filter(|it| (it.ask, it.key, it.quiet) != (taken.ask, taken.key, true))
                // A request that is always answered has a reply of its own, which would be missing if it took the error.
                .filter(|it| it.quiet || !word.is_error())
                .any(is_it)
    }

    fn find(&mut self, is_it: impl Fn(&MemcachePending) -> bool) -> Option<usize> {
        let place = self.pending.iter().take(self.reach).position(is_it);
        self.excess += place.unwrap_or_default();
        if place.is_none() && !self.pending.is_empty() || self.excess > limits::QUIET {
            self.reach = NEAR;
        }
        place
    }

    /// Removes the request at `place`. Quiet requests before it have no reply; with `in_order`, neither have the
    /// others.
    fn take<R: Reader>(&mut self, place: Option<usize>, in_order: bool, out: &mut Out<'_, R>) -> MemcacheReplyTarget {
        let Some(mut place) = place else {
            let (op, ask) = (out.orphan("RESPONSE"), MemcacheRequestKind::Unknown);
            return MemcacheReplyTarget { op, ask, id: 0, outcome: Outcome::Ok, is_orphan: true };
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
            (self.reach, self.excess) = (limits::QUIET, 0);
        }
        out.charge(found.op);
        MemcacheReplyTarget { op: found.op, ask: found.ask, id: found.id, outcome: Outcome::Ok, is_orphan: false }
    }

    fn pop<R: Reader>(&mut self, outcome: Outcome, out: &mut Out<'_, R>) {
        if let Some(front) = self.pending.pop() {
            self.quiet -= usize::from(front.quiet);
            out.close(front.op, outcome);
        }
    }

    /// Bytes of `side` were lost.
    pub fn lost<R: Reader>(&mut self, side: Side, out: &mut Out<'_, R>) {
        self.close_silent(out);
        self.pending.lose(side, out);
        self.has_silent = false;
    }

    /// Ends the connection: waiting quiet requests have no reply.
    pub fn end<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.close_silent(out);
        for pending in self.pending.drain().filter(|pending| pending.quiet) {
            out.close(pending.op, Outcome::NoReply);
        }
        self.quiet = 0;
    }
}
