//! Pairs responses with requests, and follows switches to protocols that are not decoded.

use super::head::HttpMethod;
use crate::limits;
use overhead_decode::{DecodeStep, Malformed, Note, OpId, Out, Reader, Step};
use overhead_model::Account::Unknown;
use overhead_model::Outcome;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
pub(super) struct HttpPending {
    pub op: OpId,
    pub method: HttpMethod,
    /// The protocol to switch to if the server agrees.
    pub switches_to: Option<&'static str>,
}

#[derive(Debug, Default)]
pub(super) struct HttpPairing {
    pending: VecDeque<HttpPending>,
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
    pub fn request(&mut self, request: HttpPending) -> DecodeStep<()> {
        if self.pending.len() >= limits::OUTSTANDING {
            return Err(Malformed("more requests wait for responses than can be kept"));
        }
        self.pending.push_back(request);
        Ok(())
    }

    pub fn front(&self) -> Option<HttpPending> {
        self.pending.front().copied()
    }

    /// The response to the first request starts.
    pub fn answered(&mut self) {
        self.pending.pop_front();
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

    /// Responses were lost: every waiting request except the one being sent may have been answered.
    pub fn lost<R: Reader>(&mut self, being_sent: Option<OpId>, out: &mut Out<'_, R>) {
        self.pending.retain(|pending| {
            let stays = Some(pending.op) == being_sent;
            if !stays {
                out.close(pending.op, Outcome::Unanswered);
            }
            stays
        });
    }

    pub fn end<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        if let Some(op) = self.switched.and_then(|switched| switched.op) {
            out.close(op, Outcome::NoReply);
        }
    }

    /// Returns whether nothing is outstanding and the connection is still decoded.
    pub fn is_idle(&self) -> bool {
        let Self { pending, switched } = self;
        pending.is_empty() && switched.is_none()
    }

    pub fn held(&self) -> usize {
        self.pending.capacity() * size_of::<HttpPending>()
    }
}
