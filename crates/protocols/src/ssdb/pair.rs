//! Requests to operations: answers come in order, one packet each, but for those that go on.

use overhead_decode::{Malformed, OpId, Out, Reader, limits};
use overhead_model::{Class, Outcome};
use std::collections::VecDeque;

/// Commands that are answered by other than one packet, or whose answer names the software.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SsdbRequestKind {
    Plain,
    Info,
    /// Packets up to one that begins with `end`.
    Dump,
    /// Packets without end.
    Sync,
}

impl SsdbRequestKind {
    /// Returns the kind of the command with this name.
    pub fn of(name: &[u8]) -> Self {
        match name {
            b"info" => Self::Info,
            b"dump" => Self::Dump,
            b"sync140" => Self::Sync,
            _ => Self::Plain,
        }
    }
}

/// Whose packet the next one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SsdbReplyTarget {
    pub op: OpId,
    pub kind: SsdbRequestKind,
    /// How it ends where it answers nothing.
    pub unpaired: Option<Outcome>,
}

/// Requests that wait, in order.
#[derive(Debug, Default)]
pub(super) struct SsdbPairing {
    pending: VecDeque<(OpId, SsdbRequestKind)>,
    /// The server sends what changes, of its own accord.
    streams: bool,
}

impl SsdbPairing {
    /// Returns whether nothing waits, and nothing comes unasked.
    pub fn is_quiet(&self) -> bool {
        self.pending.is_empty() && !self.streams
    }

    /// A request is complete.
    ///
    /// # Errors
    ///
    /// [`Malformed`] where more wait than can be kept.
    pub fn request<R: Reader>(
        &mut self,
        op: OpId,
        kind: SsdbRequestKind,
        out: &mut Out<'_, R>,
    ) -> Result<(), Malformed> {
        if kind == SsdbRequestKind::Sync {
            self.streams = true;
            out.close(op, Outcome::NoReply);
            return Ok(());
        }
        if self.pending.len() >= limits::OUTSTANDING {
            return Err(Malformed("more requests wait for answers than can be kept"));
        }
        self.pending.push_back((op, kind));
        Ok(())
    }

    /// Decides whose packet begins.
    pub fn target<R: Reader>(&self, out: &mut Out<'_, R>) -> SsdbReplyTarget {
        if let Some(&(op, kind)) = self.pending.front() {
            out.charge(op);
            return SsdbReplyTarget { op, kind, unpaired: None };
        }
        if self.streams {
            let op = out.open();
            out.label(op, Class::Background, "sync140", "");
            out.charge(op);
            return SsdbReplyTarget { op, kind: SsdbRequestKind::Sync, unpaired: Some(Outcome::Unsolicited) };
        }
        SsdbReplyTarget { op: out.orphan("RESPONSE"), kind: SsdbRequestKind::Plain, unpaired: Some(Outcome::NoReply) }
    }

    /// A packet is over; `first` is what it begins with, as far as it was read.
    pub fn answer<R: Reader>(&mut self, target: SsdbReplyTarget, first: SsdbStatus, out: &mut Out<'_, R>) {
        let goes_on = target.kind == SsdbRequestKind::Dump && first == SsdbStatus::Other;
        match target.unpaired {
            Some(outcome) => out.close(target.op, outcome),
            None if goes_on => {}
            None => {
                self.pending.pop_front();
                out.close(target.op, if first == SsdbStatus::Failed { Outcome::Error } else { Outcome::Ok });
            }
        }
    }

    /// Answers were lost: what waits cannot be told from what was answered in the loss.
    pub fn lost<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        for (op, _) in self.pending.drain(..) {
            out.close(op, Outcome::Unanswered);
        }
    }

    /// Returns about how many bytes of memory it holds.
    pub fn held(&self) -> usize {
        self.pending.capacity() * size_of::<(OpId, SsdbRequestKind)>()
    }
}

/// What the first block of an answer says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SsdbStatus {
    /// `ok`, `not_found`, or the end of a dump.
    Done,
    /// `error`, `fail`, `client_error`, `noauth`.
    Failed,
    /// Anything else, or nothing.
    #[default]
    Other,
}

impl SsdbStatus {
    pub fn of(text: &[u8]) -> Self {
        match text {
            b"ok" | b"not_found" | b"end" => Self::Done,
            b"error" | b"fail" | b"client_error" | b"noauth" => Self::Failed,
            _ => Self::Other,
        }
    }
}
