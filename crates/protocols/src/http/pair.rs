//! Messages to operations, and what a connection goes on with that is not decoded.

use super::head::HttpMethod;
use crate::limits;
use overhead_decode::{Malformed, Note, OpId, Out, Reader, Step};
use overhead_model::Account::Unknown;
use overhead_model::Outcome;
use std::collections::VecDeque;

/// A request that waits for its response.
#[derive(Clone, Copy, Debug)]
pub(super) struct HttpPending {
    pub op: OpId,
    pub method: HttpMethod,
    /// What the connection goes on with if the server grants it.
    pub switches_to: Option<&'static str>,
}

/// What is outstanding on a connection.
#[derive(Debug, Default)]
pub(super) struct HttpPairing {
    pending: VecDeque<HttpPending>,
    switched: Option<SwitchedProtocol>,
}

/// Another protocol that the connection has changed to.
#[derive(Clone, Copy, Debug)]
struct SwitchedProtocol {
    name: &'static str,
    /// What its bytes are posted to, once there are any.
    op: Option<OpId>,
}

impl HttpPairing {
    /// A request begins.
    ///
    /// # Errors
    ///
    /// [`Malformed`] where more wait than can be kept.
    pub fn request(&mut self, request: HttpPending) -> Result<(), Malformed> {
        if self.pending.len() >= limits::OUTSTANDING {
            return Err(Malformed("more requests wait for responses than can be kept"));
        }
        self.pending.push_back(request);
        Ok(())
    }

    /// Returns the request that the next response answers.
    pub fn front(&self) -> Option<HttpPending> {
        self.pending.front().copied()
    }

    /// The response to the first of them begins.
    pub fn answered(&mut self) {
        self.pending.pop_front();
    }

    /// Returns whether no response to `op` has begun.
    pub fn waits_for(&self, op: OpId) -> bool {
        self.pending.iter().any(|pending| pending.op == op)
    }

    /// Returns what the connection is to go on with behind the last request, if that is granted.
    pub fn asked_to_switch(&self) -> Option<&'static str> {
        self.pending.back()?.switches_to
    }

    /// The connection goes on with another protocol.
    pub fn switch(&mut self, name: &'static str) {
        self.switched.get_or_insert(SwitchedProtocol { name, op: None });
    }

    /// Returns whether the connection goes on with another protocol.
    #[inline]
    pub fn has_switched(&self) -> bool {
        self.switched.is_some()
    }

    /// Posts `len` bytes of the protocol that it goes on with.
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

    /// Responses were lost: what waits cannot be told from what was answered in the loss, but for the request being sent.
    pub fn lost<R: Reader>(&mut self, being_sent: Option<OpId>, out: &mut Out<'_, R>) {
        self.pending.retain(|pending| {
            let stays = Some(pending.op) == being_sent;
            if !stays {
                out.close(pending.op, Outcome::Unanswered);
            }
            stays
        });
    }

    /// The connection is over.
    pub fn end<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        if let Some(op) = self.switched.and_then(|switched| switched.op) {
            out.close(op, Outcome::NoReply);
        }
    }

    /// Returns whether nothing is outstanding, and all that comes is decoded.
    pub fn is_quiet(&self) -> bool {
        self.pending.is_empty() && self.switched.is_none()
    }

    /// Returns about how many bytes of memory it holds.
    pub fn held(&self) -> usize {
        self.pending.capacity() * size_of::<HttpPending>()
    }
}
