//! Pairs responses with requests, and follows switches to protocols that are not decoded.

use super::head::HttpMethod;
use crate::limits;
use overhead_decode::{DecodeStep, Malformed, Note, OpId, Out, PendingRequest, PendingRequests, Reader, Step};
use overhead_model::Account::Unknown;
use overhead_model::{Outcome, Side};

#[derive(Clone, Copy, Debug)]
pub(super) struct HttpPending {
    pub op: OpId,
    pub method: HttpMethod,
    /// The protocol to switch to if the server agrees.
    pub switches_to: Option<&'static str>,
}

impl PendingRequest for HttpPending {
    fn op(&self) -> OpId {
        self.op
    }
}

#[derive(Debug, Default)]
pub(super) struct HttpPairing {
    pending: PendingRequests<HttpPending>,
    switched: Option<SwitchedProtocol>,
}

/// The protocol the connection switched to.
#[derive(Clone, Copy, Debug)]
struct SwitchedProtocol {
    name: &'static str,
    /// The operation its bytes are posted to, once there are any.
    op: Option<OpId>,
}

impl HttpPairing {
    /// Adds a request. Fails if too many wait.
    pub fn request<R: Reader>(&mut self, request: HttpPending, out: &Out<'_, R>) -> DecodeStep<()> {
        if self.pending.len() >= limits::OUTSTANDING {
            return Err(Malformed("more requests wait for responses than can be kept"));
        }
        self.pending.push(request, out);
        Ok(())
    }

    pub fn front(&self) -> Option<HttpPending> {
        self.pending.front().copied()
    }

    /// Returns the request that the response at the current position answers.
    pub fn answer<R: Reader>(
        &mut self,
        out: &mut Out<'_, R>,
        mut drop: impl FnMut(OpId, &mut Out<'_, R>),
    ) -> Option<HttpPending> {
        self.pending.answer(out, |pending, out| drop(pending.op, out)).copied()
    }

    /// The response to the first request starts.
    pub fn answered(&mut self) {
        self.pending.pop();
    }

    pub fn waits_for(&self, op: OpId) -> bool {
        self.pending.iter().any(|pending| pending.op == op)
    }

    /// Returns the protocol that the last request offers to switch to.
    pub fn asked_to_switch(&self) -> Option<&'static str> {
        self.pending.back()?.switches_to
    }

    pub fn switch(&mut self, name: &'static str) {
        self.switched.get_or_insert(SwitchedProtocol { name, op: None });
    }

    #[inline]
    pub fn has_switched(&self) -> bool {
        self.switched.is_some()
    }

    /// Posts `len` bytes of the protocol switched to.
    pub fn foreign<R: Reader>(&mut self, len: u64, out: &mut Out<'_, R>) -> Step {
        if let Some(SwitchedProtocol { name, op }) = &mut self.switched {
            let op = *op.get_or_insert_with(|| {
                out.note(Note::Switched(name));
                out.orphan("(switched)")
            });
            out.charge(op);
        }
        out.post(Unknown, "another protocol", len);
        Step::Progress
    }

    /// Bytes of `side` were lost, with the rest of the response to `current`.
    pub fn lost<R: Reader>(&mut self, side: Side, current: Option<OpId>, out: &mut Out<'_, R>) {
        self.pending.lose_answer(side, current, out);
    }

    /// Removes all waiting requests.
    pub fn abandon(&mut self) -> impl Iterator<Item = OpId> {
        self.pending.drain().map(|pending| pending.op)
    }

    pub fn end<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        if let Some(op) = self.switched.and_then(|switched| switched.op) {
            out.close(op, Outcome::NoReply);
        }
    }

    /// Returns whether nothing is outstanding and the connection is still decoded.
    pub fn is_idle(&self) -> bool {
        let Self { pending, switched } = self;
        pending.is_idle() && switched.is_none()
    }

    /// See [`PendingRequests::habit`].
    pub fn habit(&self) -> u64 {
        self.pending.habit()
    }

    pub fn held(&self) -> usize {
        self.pending.held()
    }
}
