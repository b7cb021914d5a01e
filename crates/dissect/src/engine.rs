//! The engine of a connection that may use TLS.

use crate::tls::{ClearPart, KeyLog, Layered};
use overhead_decode::{Decoder, Reader};
use overhead_model::Side;
use std::hash::Hasher;
use std::sync::Arc;

/// Feeds one connection's bytes to its decoder, through TLS where the connection uses it.
#[derive(Debug)]
pub struct Engine<D>(overhead_decode::Engine<Layered<D>>);

impl<D: Decoder> Engine<D> {
    /// Returns an engine for a new connection; `mid_stream` where its handshake was not captured.
    pub fn new(decoder: D, mid_stream: bool) -> Self {
        Self::with_keys(decoder, mid_stream, None)
    }

    /// Returns the same, with the secrets that TLS is decrypted with.
    pub fn with_keys(decoder: D, mid_stream: bool, keys: Option<Arc<KeyLog>>) -> Self {
        Self(overhead_decode::Engine::new(Layered::new(decoder, mid_stream, keys), mid_stream))
    }

    /// Calls of a TLS library are to be expected.
    pub(crate) fn expect_calls(&mut self) {
        self.0.decoder_mut().expect_calls();
    }

    /// Returns where the last bytes end that may begin an operation, and whose content a call of a TLS library is yet to tell.
    pub(crate) fn awaited(&self) -> Option<(Side, u64)> {
        self.0.decoder().awaited()
    }

    /// Takes in a part of what a call of a TLS library has moved.
    pub(crate) fn call<R: Reader>(&mut self, part: ClearPart, reader: &mut R) {
        self.0.decoder_mut().call(part, reader);
    }

    /// The next bytes of `side`.
    #[inline]
    pub fn bytes<R: Reader>(&mut self, side: Side, bytes: &[u8], reader: &mut R) {
        self.0.decoder_mut().hear(side, bytes.len() as u64);
        self.0.bytes(side, bytes, reader);
    }

    /// The next `n` bytes of `side` are on the wire but cannot be read: they were snapped, or are in no captured frame.
    pub fn opaque<R: Reader>(&mut self, side: Side, n: u64, reader: &mut R) {
        self.0.decoder_mut().hear(side, n);
        self.0.opaque(side, n, reader);
    }

    /// Gives back room that nothing is in.
    pub fn shrink(&mut self) {
        self.0.shrink();
        self.0.decoder_mut().shrink();
    }

    /// Nothing of the server is captured: closes what waits for a response as unanswered.
    pub fn abandon<R: Reader>(&mut self, reader: &mut R) {
        self.0.abandon(reader);
    }

    /// The connection is of another protocol: nothing of it is decoded.
    pub fn refuse(&mut self) {
        self.0.refuse();
    }

    /// Returns the number of the decoder's state while the connection is quiet: see [`overhead_decode::Engine::quiet`].
    #[inline]
    pub fn quiet(&self) -> Option<u64> {
        self.0.quiet()
    }

    /// Feeds what that number stands for to `state`, where that can be: see [`Decoder::feed_state`].
    pub fn feed_state(&self, state: &mut impl Hasher) -> bool {
        self.0.feed_state(state)
    }

    /// Returns how many bytes of memory are held for it, roughly, beyond its own size.
    #[inline]
    pub fn held(&self) -> usize {
        self.0.held()
    }

    /// The connection, or the capture, is over: what is left undecoded goes to `unknown`.
    pub fn finish<R: Reader>(&mut self, reader: &mut R) {
        self.0.decoder_mut().settle_all(reader);
        self.0.finish(reader);
    }
}
