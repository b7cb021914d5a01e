//! Secrets of TLS that a capture file carries.

use crate::limits::MAX_SECRETS_BLOCK_BYTES;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Key logs that a file carries (pcapng decryption secrets), as far as it was read. A handle of its own, so that the
/// secrets before a frame can be had while the frame is borrowed.
#[derive(Clone, Default)]
pub struct DecryptionSecrets(Arc<PendingSecrets>);

#[derive(Default)]
struct PendingSecrets {
    /// There is something: asked for before each frame.
    any: AtomicBool,
    text: Mutex<Vec<u8>>,
}

impl DecryptionSecrets {
    /// Returns what was read and not taken before: whole lines, empty where there is nothing new.
    #[inline]
    pub fn take(&self) -> Vec<u8> {
        if !self.0.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut text = self.0.text.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.any.store(false, Ordering::Release);
        std::mem::take(&mut text)
    }

    /// Adds a key log, unless too many wait already.
    pub(super) fn add(&self, text: &[u8]) {
        let mut held = self.0.text.lock().unwrap_or_else(PoisonError::into_inner);
        if held.len() + text.len() <= MAX_SECRETS_BLOCK_BYTES as usize {
            held.extend_from_slice(text);
            held.push(b'\n');
            self.0.any.store(true, Ordering::Release);
        }
    }
}

impl fmt::Debug for DecryptionSecrets {
    /// Secrets are not to get into logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}
