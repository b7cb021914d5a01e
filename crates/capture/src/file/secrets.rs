use crate::limits::MAX_SECRETS_BLOCK_BYTES;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// TLS key logs that a file carries (pcapng decryption secrets), as far as it was read. A separate handle, because
/// the secrets before a frame are needed while the frame is borrowed.
#[derive(Clone, Default)]
pub struct DecryptionSecrets(Arc<PendingSecrets>);

#[derive(Default)]
struct PendingSecrets {
    /// Checked before each frame, without the lock.
    any: AtomicBool,
    text: Mutex<Vec<u8>>,
}

impl DecryptionSecrets {
    /// Returns the whole lines read since the last call.
    #[inline]
    pub fn take(&self) -> Vec<u8> {
        if !self.0.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut text = self.0.text.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.any.store(false, Ordering::Release);
        std::mem::take(&mut text)
    }

    /// Adds a key log, unless too many are pending.
    pub(super) fn add(&self, text: &[u8]) {
        let mut held = self.0.text.lock().unwrap_or_else(PoisonError::into_inner);
        if held.len() + text.len() <= MAX_SECRETS_BLOCK_BYTES as usize {
            held.extend_from_slice(text);
            held.push(b'\n');
            self.0.any.store(true, Ordering::Release);
        }
    }
}
