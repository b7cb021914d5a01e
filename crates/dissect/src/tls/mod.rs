//! TLS below a protocol: its records and, if the keys are known, the protocol within them.
//!
//! [`LayeredDecoder`] is a decoder around a protocol's decoder. It passes everything on until the connection turns to TLS, and takes records
//! from then on. A decrypted record passes its content to a separate engine with the same protocol decoder, and that engine's postings
//! are woven into the records' postings ([`weave`]). Records that cannot be decrypted are counted ([`records`]).
//!
//! Supports TLS 1.2 and 1.3 with the suites in [`suite`] and secrets from a [`KeyLog`].

mod cbc;
mod crypt;
mod hello;
mod kept;
mod keylog;
mod layer;
mod records;
mod session;
mod suite;
#[cfg(test)]
mod tests;
mod weave;

pub use kept::{ConnectionPlace, HandshakeId, KeptCounts, KeptSessions};
pub use keylog::{KeyLog, KeySupply, SecretOrigin};
pub use records::ENCRYPTED;

use crate::proxy;
use kept::MetConnection;
use layer::TlsLayer;
use overhead_decode::engine::{EngineDriver, StreamStates};
use overhead_decode::{Decoder, Input, Malformed, MessageBoundary, Note, Out, Reader, Step};
use overhead_model::{Account, Class, Outcome, Side};
use std::hash::Hasher;
use std::sync::Arc;

/// Secrets for the TLS of one connection.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionKeys {
    log: Arc<KeyLog>,
    /// Absent unless the log shares sessions with those of other captures.
    place: Option<Box<ConnectionPlace>>,
}

impl ConnectionKeys {
    /// `place` has the client's end first; absent if it is not known which end is the client.
    pub(crate) fn new(log: Arc<KeyLog>, place: Option<ConnectionPlace>) -> Self {
        let network_namespace = log.network_namespace;
        let place = place.filter(|_| log.sessions.is_some());
        let place = place.map(|place| Box::new(ConnectionPlace { network_namespace, ..place }));
        Self { log, place }
    }

    /// Returns the connection if its secrets are kept between captures.
    fn met(&self, is_mid_stream: bool) -> Option<Box<MetConnection>> {
        let (sessions, place) = self.log.sessions.as_ref().zip(self.place.as_deref())?;
        Some(Box::new(MetConnection::new(Arc::clone(sessions), *place, is_mid_stream)))
    }
}

/// A protocol's decoder, with or without TLS around it.
#[derive(Debug)]
pub(crate) struct LayeredDecoder<D> {
    /// Stepped directly if there is no TLS.
    decoder: D,
    keys: Option<ConnectionKeys>,
    secured: Option<Box<SecuredStreams>>,
    /// Nothing was decoded yet, so the client may start with TLS.
    is_fresh: bool,
    is_proxied: bool,
}

#[derive(Debug)]
struct SecuredStreams {
    tls: TlsLayer,
    streams: StreamStates,
}

impl<D: Decoder> LayeredDecoder<D> {
    pub(crate) fn new(decoder: D, mid_stream: bool, keys: Option<ConnectionKeys>) -> Self {
        let mut layered = Self { decoder, keys, secured: None, is_fresh: !mid_stream, is_proxied: false };
        let met = layered.keys.as_ref().filter(|_| mid_stream).and_then(|keys| keys.met(true));
        if let Some(met) = met.filter(|met| met.has_secrets()) {
            layered.secure(Some(met));
        }
        layered
    }

    /// Returns whether all bytes are records of TLS.
    pub(crate) fn is_secured(&self) -> bool {
        self.secured.is_some()
    }

    /// Takes the bytes of a connection met open for records of TLS, if it may be one of several captures of the connection.
    pub(crate) fn secure_midway(&mut self) -> bool {
        let is_part = self.keys.as_ref().is_some_and(|keys| keys.log.sessions.is_some());
        if is_part && !self.is_secured() {
            let met = self.keys.as_ref().and_then(|keys| keys.met(true));
            self.secure(met);
        }
        is_part
    }

    fn secure(&mut self, met: Option<Box<MetConnection>>) {
        let is_met_open = met.as_ref().is_some_and(|met| met.is_mid_stream);
        let keys = self.keys.take().map(|keys| keys.log);
        let tls = TlsLayer::new(keys, met);
        self.secured = Some(Box::new(SecuredStreams { tls, streams: StreamStates::new(is_met_open) }));
    }

    /// Posts everything held back, at the end of the connection.
    pub(crate) fn settle_all<R: Reader>(&mut self, reader: &mut R) {
        let Some(SecuredStreams { tls, streams }) = self.secured.as_deref_mut() else { return };
        let mut inner = EngineDriver::new(&mut self.decoder, streams);
        for side in Side::BOTH {
            tls.finish(&mut inner, &mut Out::new(reader, side, None));
        }
        tls.keep();
    }

    pub(crate) fn shrink(&mut self) {
        if let Some(SecuredStreams { tls, streams }) = self.secured.as_deref_mut() {
            streams.shrink();
            tls.shrink();
        }
    }

    /// Takes in a proxy header as an unanswered operation; `None` if there is none.
    #[cold]
    fn proxy<R: Reader>(&mut self, input: Input<'_>, out: &mut Out<'_, R>) -> Option<Step> {
        let len = match proxy::ProxyHeader::detect(input.bytes) {
            proxy::ProxyHeader::Begun if input.opaque == 0 => return Some(Step::More),
            proxy::ProxyHeader::Begun | proxy::ProxyHeader::None => return None,
            proxy::ProxyHeader::Len(len) => len as u64,
        };
        if input.available() < len {
            return Some(Step::Need(len));
        }
        let op = out.open();
        out.charge(op);
        out.label(op, Class::Setup, "PROXY", "");
        out.post(Account::Metadata, "proxy's header", len);
        out.close(op, Outcome::NoReply);
        out.release();
        self.is_proxied = true;
        Some(Step::Progress)
    }

    fn begin<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        out.note(Note::Tls);
        let met = self.keys.as_ref().and_then(|keys| keys.met(false));
        self.secure(met);
    }
}

impl<D: Decoder> Decoder for LayeredDecoder<D> {
    fn step<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> Result<Step, Malformed> {
        if let Some(secured) = &mut self.secured {
            return secured.step(&mut self.decoder, side, input, out);
        }
        if self.is_fresh && side == Side::Request {
            if !self.is_proxied
                && let Some(step) = self.proxy(input, out)
            {
                return Ok(step);
            }
            match hello::client_hello(input.bytes) {
                MessageBoundary::No => self.is_fresh = false,
                MessageBoundary::More if input.opaque == 0 => return Ok(Step::More),
                MessageBoundary::More => {}
                MessageBoundary::Yes => self.begin(out),
            }
            if let Some(secured) = &mut self.secured {
                return secured.step(&mut self.decoder, side, input, out);
            }
        }
        let before = out.posted();
        let step = self.decoder.step(side, input, out);
        self.is_fresh &= out.posted() == before;
        if step == Ok(Step::Tls) {
            self.begin(out);
            return Ok(Step::Progress);
        }
        step
    }

    fn boundary(&self, side: Side, bytes: &[u8]) -> MessageBoundary {
        match &self.secured {
            Some(_) => records::boundary(bytes),
            None => self.decoder.boundary(side, bytes),
        }
    }

    fn resumes_at_turns(&self) -> bool {
        self.secured.is_none() && self.decoder.resumes_at_turns()
    }

    fn lost<R: Reader>(&mut self, side: Side, out: &mut Out<'_, R>) {
        match self.secured.as_deref_mut() {
            Some(SecuredStreams { tls, streams }) => {
                tls.lost(&mut EngineDriver::new(&mut self.decoder, streams), out);
            }
            None => self.decoder.lost(side, out),
        }
    }

    fn abandon<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        match self.secured.as_deref_mut() {
            Some(SecuredStreams { tls, streams }) => {
                let mut inner = EngineDriver::new(&mut self.decoder, streams);
                tls.feed(out, |recorder| inner.abandon(recorder));
            }
            None => self.decoder.abandon(out),
        }
    }

    fn end<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        self.decoder.end(out);
    }

    #[inline]
    fn idle_state(&self) -> Option<u64> {
        if self.is_fresh || self.secured.is_some() { None } else { self.decoder.idle_state() }
    }

    fn feed_state(&self, state: &mut impl Hasher) -> bool {
        self.decoder.feed_state(state)
    }

    #[inline]
    fn held(&self) -> usize {
        self.decoder.held() + self.secured.as_deref().map_or(0, SecuredStreams::held)
    }
}

impl SecuredStreams {
    fn held(&self) -> usize {
        size_of::<Self>() + self.streams.held() + self.tls.held()
    }

    fn step<D: Decoder, R: Reader>(
        &mut self,
        decoder: &mut D,
        side: Side,
        input: Input<'_>,
        out: &mut Out<'_, R>,
    ) -> Result<Step, Malformed> {
        self.tls.step(&mut EngineDriver::new(decoder, &mut self.streams), side, input, out)
    }
}
