//! Pairs replies with requests: in order, one packet each, except for dumps and replication.

use overhead_decode::{DecodeStep, OpId, Out, PendingRequests, Reader};
use overhead_model::{Class, Outcome};

/// Commands answered by several packets, or whose reply names the software.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SsdbRequestKind {
    Plain,
    Info,
    /// Packets up to one that starts with `end`.
    Dump,
    /// An endless sequence of packets.
    Sync,
}

impl SsdbRequestKind {
    pub fn from_name(name: &[u8]) -> Self {
        match name {
            b"info" => Self::Info,
            b"dump" => Self::Dump,
            b"sync140" => Self::Sync,
            _ => Self::Plain,
        }
    }
}

/// The operation that the next packet belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SsdbReplyTarget {
    pub op: OpId,
    pub kind: SsdbRequestKind,
    /// The outcome of a packet that answers no request.
    pub unpaired: Option<Outcome>,
}

#[derive(Debug, Default)]
pub(super) struct SsdbPairing {
    pub pending: PendingRequests<(OpId, SsdbRequestKind)>,
    /// The server streams changes.
    streams: bool,
}

impl SsdbPairing {
    /// Returns whether nothing waits and the server streams nothing.
    pub fn is_idle(&self) -> bool {
        let Self { pending, streams } = self;
        pending.is_idle() && !streams
    }

    /// Adds a complete request. Fails if too many wait.
    pub fn request<R: Reader>(&mut self, op: OpId, kind: SsdbRequestKind, out: &mut Out<'_, R>) -> DecodeStep<()> {
        if kind == SsdbRequestKind::Sync {
            self.streams = true;
            out.close(op, Outcome::NoReply);
            return Ok(());
        }
        self.pending.push_within((op, kind), "more requests wait for answers than can be kept", out)
    }

    /// Returns the operation that the start packet belongs to.
    pub fn target<R: Reader>(&mut self, out: &mut Out<'_, R>) -> SsdbReplyTarget {
        if let Some(&(op, kind)) = self.pending.answer(out, |(op, _), out| out.close(op, Outcome::Unanswered)) {
            out.charge(op);
            return SsdbReplyTarget { op, kind, unpaired: None };
        }
        if self.streams {
            let op = out.begin(Class::Background, "sync140", "");
            return SsdbReplyTarget { op, kind: SsdbRequestKind::Sync, unpaired: Some(Outcome::Unsolicited) };
        }
        SsdbReplyTarget { op: out.orphan("RESPONSE"), kind: SsdbRequestKind::Plain, unpaired: Some(Outcome::NoReply) }
    }

    /// Ends a packet that started with `first`.
    pub fn answer<R: Reader>(&mut self, target: SsdbReplyTarget, first: SsdbStatus, out: &mut Out<'_, R>) {
        let goes_on = target.kind == SsdbRequestKind::Dump && first == SsdbStatus::Other;
        match target.unpaired {
            Some(outcome) => out.close(target.op, outcome),
            None if goes_on => {}
            None => {
                self.pending.pop();
                out.close(target.op, if first == SsdbStatus::Failed { Outcome::Error } else { Outcome::Ok });
            }
        }
    }
}

/// The first block of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SsdbStatus {
    /// `ok`, `not_found`, or the end of a dump.
    Done,
    /// `error`, `fail`, `client_error`, `noauth`.
    Failed,
    #[default]
    Other,
}

impl SsdbStatus {
    pub fn from_word(text: &[u8]) -> Self {
        match text {
            b"ok" | b"not_found" | b"end" => Self::Done,
            b"error" | b"fail" | b"client_error" | b"noauth" => Self::Failed,
            _ => Self::Other,
        }
    }
}
