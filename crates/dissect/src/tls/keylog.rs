//! Secrets of TLS sessions, as logged by clients and servers (RFC 9850, the `SSLKEYLOGFILE` format of NSS).
//!
//! ```text
//! label SP client random, 64 hex digits SP secret, hex digits LF
//! ```

use crate::limits;
use overhead_model::enum_with;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

/// The 32 random bytes of a `ClientHello`, which identify a session.
pub(super) type ClientRandom = [u8; 32];

enum_with! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub(super) enum SecretLabel, name: &'static str {
        /// The master secret of TLS 1.2 and earlier.
        Master = "CLIENT_RANDOM",
        ClientHandshake = "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
        ServerHandshake = "SERVER_HANDSHAKE_TRAFFIC_SECRET",
        /// TLS 1.3: the client's first application data.
        ClientTraffic = "CLIENT_TRAFFIC_SECRET_0",
        /// TLS 1.3: the server's first application data.
        ServerTraffic = "SERVER_TRAFFIC_SECRET_0",
    }
}

impl SecretLabel {
    fn named(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|label| label.name().as_bytes() == name)
    }
}

/// Length of the longest secret, for suites with SHA-384.
const LONGEST: usize = 48;

/// A secret of 32 or 48 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct TlsSecret {
    bytes: [u8; LONGEST],
    len: u8,
}

impl TlsSecret {
    /// Returns a secret of these bytes; `None` if they are too many.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut secret = Self { bytes: [0; LONGEST], len: bytes.len() as u8 };
        secret.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(secret)
    }

    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

impl fmt::Debug for TlsSecret {
    /// Keeps secrets out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secret bytes", self.len)
    }
}

/// The secrets known so far. More may come during a capture; everyone who shares this sees them at once.
#[derive(Default)]
pub struct KeyLog {
    secrets: RwLock<HashMap<(SecretLabel, ClientRandom), TlsSecret>>,
    generation: AtomicU64,
    missed: AtomicBool,
}

impl KeyLog {
    /// Adds the secrets in `text`, whole lines of a key log, and returns the number of new ones. Skips comments, labels for other uses, and
    /// lines that are not in this format; also secrets beyond [`limits::SECRETS`].
    pub fn add(&self, text: &[u8]) -> usize {
        let mut secrets = self.secrets.write().unwrap_or_else(PoisonError::into_inner);
        let mut added = 0;
        for (key, secret) in text.split(|byte| *byte == b'\n').filter_map(line) {
            if secrets.len() < limits::SECRETS || secrets.contains_key(&key) {
                added += usize::from(secrets.insert(key, secret) != Some(secret));
            }
        }
        if added > 0 {
            self.generation.fetch_add(1, Ordering::Release);
        }
        added
    }

    /// Returns whether a lookup has failed since the last call, so that the log should be read again.
    pub fn take_missed(&self) -> bool {
        self.missed.swap(false, Ordering::AcqRel)
    }

    /// Returns a number that rises when secrets come in.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(super) fn miss(&self) {
        self.missed.store(true, Ordering::Release);
    }

    pub(super) fn get(&self, label: SecretLabel, random: &ClientRandom) -> Option<TlsSecret> {
        let secrets = self.secrets.read().unwrap_or_else(PoisonError::into_inner);
        let found = secrets.get(&(label, *random)).copied();
        if found.is_none() {
            self.miss();
        }
        found
    }
}

impl fmt::Debug for KeyLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secrets = self.secrets.read().unwrap_or_else(PoisonError::into_inner);
        write!(f, "KeyLog of {} secrets", secrets.len())
    }
}

fn line(line: &[u8]) -> Option<((SecretLabel, ClientRandom), TlsSecret)> {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let label = SecretLabel::named(words.next()?)?;
    let mut random = [0; 32];
    hex(words.next()?, &mut random).filter(|len| *len == 32)?;
    let mut secret = [0; LONGEST];
    let len = hex(words.next()?, &mut secret).filter(|len| matches!(len, 32 | 48))?;
    Some(((label, random), TlsSecret::new(secret.get(..len)?)?))
}

/// Decodes hex digits and returns the number of bytes; `None` if `into` is too small or a digit is invalid.
fn hex(digits: &[u8], into: &mut [u8]) -> Option<usize> {
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    for (index, &[high, low]) in pairs.iter().enumerate() {
        *into.get_mut(index)? = (digit(high)? * 16 + digit(low)?) as u8;
    }
    Some(pairs.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_others_passed_over() {
        let log = KeyLog::default();
        let random = "0a".repeat(32);
        let text = format!(
            "# comment\nCLIENT_RANDOM {random} {}\r\nCLIENT_TRAFFIC_SECRET_0 {random} {}\n\nEXPORTER_SECRET {random} {}\nCLIENT_RANDOM 00 11\nSERVER_TRAFFIC_SECRET_0 {random} {}\nSERVER_TRAFFIC_SECRET_0 {random}",
            "AB".repeat(48),
            "01".repeat(32),
            "02".repeat(32),
            "0g".repeat(32),
        );
        assert_eq!(log.add(text.as_bytes()), 2);
        assert_eq!(log.add(text.as_bytes()), 0, "known already");
        assert_eq!(log.get(SecretLabel::Master, &[10; 32]).unwrap().bytes(), [0xab; 48]);
        assert_eq!(log.get(SecretLabel::ClientTraffic, &[10; 32]).unwrap().bytes(), [1; 32]);
        assert!(!log.take_missed());
        assert_eq!(log.get(SecretLabel::ServerTraffic, &[10; 32]), None);
        assert!(log.take_missed());
        assert_eq!(log.add(b"\xff\xfe\0CLIENT_RANDOM"), 0);
    }
}
