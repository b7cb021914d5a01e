//! Pairs responses with requests, and follows switches to protocols that are not decoded.

use super::head::HttpMethod;
use overhead_decode::{Note, OpId, Out, PendingRequest, PendingRequests, Reader, Step};
use overhead_model::Account::Unknown;
use overhead_model::Outcome;

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
    pub pending: PendingRequests<HttpPending>,
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
    /// Returns the protocol that the last request offers to switch to.
    pub fn asked_to_switch(&self) -> Option<&'static str> {
        self.pending.iter().next_back()?.switches_to
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
}
