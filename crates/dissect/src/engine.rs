//! The engine of a connection that may use TLS.

use crate::tls::{ConnectionKeys, KeyLog, LayeredDecoder};
use overhead_decode::{Decoder, Reader};
use overhead_model::Side;
use std::hash::Hasher;
use std::sync::Arc;

/// Feeds one connection's bytes to its decoder, through TLS if the connection uses it.
#[derive(Debug)]
pub struct ConnectionEngine<D>(overhead_decode::DecoderEngine<LayeredDecoder<D>>);

impl<D: Decoder> ConnectionEngine<D> {
    /// Returns an engine for a new connection; `mid_stream` if its handshake was not captured.
    pub fn new(decoder: D, mid_stream: bool) -> Self {
        Self::at(decoder, mid_stream, None)
    }

    /// Returns an engine that decrypts TLS with these secrets.
    pub fn with_keys(decoder: D, mid_stream: bool, keys: Option<Arc<KeyLog>>) -> Self {
        Self::at(decoder, mid_stream, keys.map(|log| ConnectionKeys::new(log, None)))
    }

    pub(crate) fn at(decoder: D, mid_stream: bool, keys: Option<ConnectionKeys>) -> Self {
        Self(overhead_decode::DecoderEngine::new(LayeredDecoder::new(decoder, mid_stream, keys), mid_stream))
    }

    #[inline]
    pub fn bytes<R: Reader>(&mut self, side: Side, bytes: &[u8], reader: &mut R) {
        self.0.bytes(side, bytes, reader);
    }

    /// Skips the next `n` bytes of `side`, which were on the wire but are snapped or in no captured frame.
    pub fn opaque<R: Reader>(&mut self, side: Side, n: u64, reader: &mut R) {
        self.0.opaque(side, n, reader);
    }

    pub fn shrink(&mut self) {
        self.0.shrink();
        self.0.decoder.shrink();
    }

    /// Closes outstanding requests as unanswered, since nothing from the server is captured.
    pub fn abandon<R: Reader>(&mut self, reader: &mut R) {
        self.0.abandon(reader);
    }

    /// Stops decoding, since the connection uses another protocol.
    pub fn refuse(&mut self) {
        self.0.refuse();
    }

    /// See [`LayeredDecoder::is_secured`].
    pub(crate) fn is_secured(&self) -> bool {
        self.0.decoder.is_secured()
    }

    /// See [`LayeredDecoder::secure_midway`].
    pub(crate) fn secure_midway(&mut self) -> bool {
        self.0.decoder.secure_midway()
    }

    /// Returns the decoder's state number while the connection is idle: see [`overhead_decode::DecoderEngine::idle_state`].
    #[inline]
    pub fn idle_state(&self) -> Option<u64> {
        self.0.idle_state()
    }

    /// Feeds that number's meaning to `state`, if possible: see [`Decoder::feed_state`].
    pub fn feed_state(&self, state: &mut impl Hasher) -> bool {
        self.0.feed_state(state)
    }

    /// Returns the approximate memory it holds in bytes, beyond its own size.
    #[inline]
    pub fn held(&self) -> usize {
        self.0.held()
    }

    /// Ends the connection or the capture: undecoded bytes go to `unknown`.
    pub fn finish<R: Reader>(&mut self, reader: &mut R) {
        self.0.decoder.settle_all(reader);
        self.0.finish(reader);
    }
}
