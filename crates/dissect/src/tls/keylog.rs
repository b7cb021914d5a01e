//! Secrets of TLS sessions, as logged by clients and servers (RFC 9850, the `SSLKEYLOGFILE` format of NSS).
//!
//! ```text
//! label SP client random, 64 hex digits SP secret, hex digits LF
//! RSA SP Session-ID: id SP Master-Key: secret, hex digits LF
//! ```
//!
//! Agents for Java log TLS 1.2 in the second form. If the server gives out tickets, no packet has this id.

use super::kept::KeptSessions;
use crate::limits;
use overhead_model::enum_with;
use std::collections::{HashMap, VecDeque};
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

/// The 32 random bytes of a `ClientHello`, which identify a session.
pub(super) type ClientRandom = [u8; 32];

enum_with! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub(super) enum SecretLabel, name: &'static str {
        /// The master secret of TLS 1.2 and earlier.
        Master = "CLIENT_RANDOM",
        /// TLS 1.3: what the client sends before the `ServerHello`.
        ClientEarly = "CLIENT_EARLY_TRAFFIC_SECRET",
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
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TlsSecret {
    pub(super) bytes: [u8; LONGEST],
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

/// Brings further secrets while a capture runs. With the time of the frame that needs one, Unix nanoseconds, it may wait,
/// and returns whether it makes sense to ask again; with `None` it must not wait.
pub type KeySupply = Box<dyn Fn(Option<u64>) -> bool + Send + Sync>;

/// The secrets known so far. More may come during a capture; everyone who shares this sees them at once.
#[derive(Default)]
pub struct KeyLog {
    secrets: RwLock<HashMap<(SecretLabel, ClientRandom), KnownSecret>>,
    unclaimed: Mutex<UnclaimedSecrets>,
    /// Rises when secrets come in.
    generation: AtomicU64,
    supply: OnceLock<KeySupply>,
    /// Time of the frame being dissected, Unix nanoseconds.
    frame_ns: AtomicU64,
    /// Absent unless the capture is one of several.
    pub(super) sessions: Option<Arc<KeptSessions>>,
    /// That of the capture; 0 if unknown.
    pub(super) network_namespace: u32,
}

struct KnownSecret {
    secret: TlsSecret,
    /// A session has asked for it.
    is_used: AtomicBool,
}

/// When and where a secret was derived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecretOrigin {
    /// Unix nanoseconds.
    pub time_ns: u64,
    /// Number of the connection in its process, perhaps not the only one with it; 0 if unknown.
    pub object: u64,
}

/// The objects of both ends that derived a secret; 0 for none.
pub(super) type SecretObjects = [u64; 2];

/// Secrets whose client random is not known: a secret belongs to the connection whose record it opens.
#[derive(Default)]
struct UnclaimedSecrets {
    waiting: VecDeque<UnclaimedSecret>,
    /// Recent secrets in order, with their times.
    recent: VecDeque<(u64, TlsSecret)>,
    /// Recent secrets: whether they wait. The other end of a connection has the same, and so does a resumed session of TLS
    /// 1.2.
    known: HashMap<TlsSecret, bool>,
    unmatched: u64,
}

struct UnclaimedSecret {
    label: SecretLabel,
    secret: TlsSecret,
    /// When it was derived, Unix nanoseconds.
    time_ns: u64,
    objects: SecretObjects,
    /// There is or was an equal one.
    is_repeated: bool,
}

impl KeyLog {
    /// Returns a log without secrets of its own, for one of several captures that share sessions. `network_namespace` is the
    /// capture's.
    pub fn for_part(sessions: Arc<KeptSessions>, network_namespace: u32) -> Self {
        Self { sessions: Some(sessions), network_namespace, ..Self::default() }
    }

    /// Adds the secrets in `text`, whole lines of a key log, and returns the number of new ones. Skips comments, labels for other uses, and
    /// lines that are not in this format; also secrets beyond [`limits::SECRETS`].
    pub fn add(&self, text: &[u8]) -> usize {
        let lines = text.split(|byte| *byte == b'\n').filter_map(line);
        lines.filter(|(label, random, secret)| self.keep(*label, *random, *secret, SecretOrigin::default())).count()
    }

    /// Adds a secret that a process has derived. Without a random, it waits for the
    /// connection whose records it opens. Labels for other uses and secrets of other lengths are skipped.
    pub fn add_secret(&self, label: &str, random: Option<&[u8; 32]>, secret: &[u8], origin: SecretOrigin) {
        let label = SecretLabel::named(label.as_bytes());
        let secret = TlsSecret::new(secret).filter(|_| matches!(secret.len(), 32 | 48));
        if let Some((label, secret)) = label.zip(secret) {
            self.keep(label, random.copied(), secret, origin);
        }
    }

    /// Returns whether the secret is new.
    fn keep(&self, label: SecretLabel, random: Option<ClientRandom>, secret: TlsSecret, origin: SecretOrigin) -> bool {
        if let Some(random) = random {
            return self.insert((label, random), secret);
        }
        let SecretOrigin { time_ns, object } = origin;
        let is_new =
            self.unclaimed().add(UnclaimedSecret { label, secret, time_ns, objects: [object, 0], is_repeated: false });
        self.generation.fetch_add(is_new.into(), Ordering::Release);
        is_new
    }

    /// Returns the secrets that sessions have used so far, in the format of a key log: one session after the other, so that the
    /// same secrets are the same text.
    pub fn text(&self) -> String {
        let secrets = self.secrets.read().unwrap_or_else(PoisonError::into_inner);
        let mut used: Vec<_> = secrets.iter().filter(|(_, known)| known.is_used.load(Ordering::Relaxed)).collect();
        used.sort_unstable_by_key(|((label, random), _)| (*random, *label as u8));
        let mut text = String::new();
        for ((label, random), known) in used {
            text.push_str(label.name());
            for bytes in [random, known.secret.bytes()] {
                text.push(' ');
                for byte in bytes {
                    // Writing to a string cannot fail.
                    let _ = write!(text, "{byte:02x}");
                }
            }
            text.push('\n');
        }
        text
    }

    /// Returns how many secrets opened no record within [`limits::UNCLAIMED_NS`].
    pub fn unmatched(&self) -> u64 {
        let unclaimed = self.unclaimed();
        unclaimed.unmatched + unclaimed.waiting.iter().filter(|it| !it.is_repeated).count() as u64
    }

    /// Asks `supply` for secrets that are missing from now on. Only the first call counts.
    pub fn set_supply(&self, supply: KeySupply) {
        let _ = self.supply.set(supply);
    }

    /// Notes the time of the next frame, Unix nanoseconds.
    #[inline]
    pub fn set_time(&self, time_ns: u64) {
        self.frame_ns.store(time_ns, Ordering::Relaxed);
    }

    /// Asks for further secrets. Returns whether to ask again if they are not the right ones.
    pub(super) fn more(&self, may_wait: bool) -> bool {
        let frame_ns = may_wait.then(|| self.frame_ns.load(Ordering::Relaxed));
        self.supply.get().is_some_and(|supply| supply(frame_ns))
    }

    /// Returns a number that rises when secrets come in.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(super) fn get(&self, label: SecretLabel, random: &ClientRandom) -> Option<TlsSecret> {
        let secrets = self.secrets.read().unwrap_or_else(PoisonError::into_inner);
        let known = secrets.get(&(label, *random))?;
        known.is_used.store(true, Ordering::Relaxed);
        Some(known.secret)
    }

    /// Passes waiting secrets to `fits` until one opens the session's record: those of `objects`, to which the secret's are
    /// added, then those nearest to the frame in time. It belongs to the session with this random from then on.
    pub(super) fn claim(
        &self,
        (label, random): (SecretLabel, &ClientRandom),
        objects: &mut SecretObjects,
        mut fits: impl FnMut(TlsSecret) -> bool,
    ) -> bool {
        let mut unclaimed = self.unclaimed();
        let near = unclaimed.nearest(label, objects, self.frame_ns.load(Ordering::Relaxed));
        let fitting = near.into_iter().find(|at| unclaimed.waiting.get(*at).is_some_and(|it| fits(it.secret)));
        let Some(claimed) = fitting.and_then(|at| unclaimed.waiting.remove(at)) else { return false };
        unclaimed.known.insert(claimed.secret, false);
        objects.iter_mut().zip(claimed.objects).filter(|(_, new)| *new > 0).for_each(|(object, new)| *object = new);
        drop(unclaimed);
        self.insert((label, *random), claimed.secret);
        self.get(label, random).is_some()
    }

    /// Adds the secret of a session. Returns true.
    pub(super) fn set(&self, label: SecretLabel, random: &ClientRandom, secret: TlsSecret) -> bool {
        self.insert((label, *random), secret);
        true
    }

    /// Returns whether the secret is new.
    fn insert(&self, key: (SecretLabel, ClientRandom), secret: TlsSecret) -> bool {
        let mut secrets = self.secrets.write().unwrap_or_else(PoisonError::into_inner);
        if secrets.get(&key).is_some_and(|known| known.secret == secret) {
            return false;
        }
        if secrets.len() >= limits::SECRETS && !secrets.contains_key(&key) {
            // Those of connections elsewhere may be many.
            secrets.retain(|_, known| known.is_used.load(Ordering::Relaxed));
        }
        let has_room = secrets.len() < limits::SECRETS || secrets.contains_key(&key);
        if has_room {
            secrets.insert(key, KnownSecret { secret, is_used: AtomicBool::new(false) });
            self.generation.fetch_add(1, Ordering::Release);
        }
        has_room
    }

    fn unclaimed(&self) -> MutexGuard<'_, UnclaimedSecrets> {
        self.unclaimed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnclaimedSecrets {
    /// Adds a secret, unless it is that of the other end, and erases old ones.
    fn add(&mut self, mut new: UnclaimedSecret) -> bool {
        let is_old = |time_ns: u64| new.time_ns.saturating_sub(time_ns) > limits::UNCLAIMED_NS;
        while let Some((time_ns, secret)) = self.recent.front()
            && (is_old(*time_ns) || self.recent.len() >= limits::UNCLAIMED)
        {
            self.known.remove(secret);
            self.recent.pop_front();
        }
        let room = self.waiting.len() < limits::UNCLAIMED;
        while let Some(old) = self.waiting.pop_front_if(|it| is_old(it.time_ns) || !room) {
            self.unmatched += u64::from(!old.is_repeated);
            if !room {
                break;
            }
        }
        let before = self.known.insert(new.secret, true);
        if before == Some(true)
            && let Some(same) = self.waiting.iter_mut().rev().find(|it| it.secret == new.secret)
        {
            same.objects[1] = new.objects[0];
        }
        match before {
            None => self.recent.push_back((new.time_ns, new.secret)),
            Some(waits) if new.label != SecretLabel::Master => {
                self.known.insert(new.secret, waits);
                return false;
            }
            // A resumed session may have it, whose first one was perhaps not dissected yet.
            Some(_) => new.is_repeated = true,
        }
        self.waiting.push_back(new);
        true
    }

    /// Returns the indices of secrets with this label: those of the objects, then those derived nearest to this time.
    fn nearest(&self, label: SecretLabel, objects: &SecretObjects, time_ns: u64) -> Vec<usize> {
        let split = self.waiting.partition_point(|it| it.time_ns < time_ns);
        let is_it = |at: &usize| self.waiting.get(*at).is_some_and(|it| it.label == label);
        let distance = |at: usize| self.waiting.get(at).map_or(u64::MAX, |it| it.time_ns.abs_diff(time_ns));
        let mut before = (0..split).rev().filter(is_it).peekable();
        let mut after = (split..self.waiting.len()).filter(is_it).peekable();
        let next = || match (before.peek(), after.peek()) {
            (Some(earlier), Some(later)) if distance(*earlier) < distance(*later) => before.next(),
            (Some(_), None) => before.next(),
            _ => after.next(),
        };
        let is_ours = |it: &UnclaimedSecret| it.objects.iter().any(|object| *object > 0 && objects.contains(object));
        let ours = self.waiting.iter().enumerate().filter(|(_, it)| it.label == label && is_ours(it)).map(|(at, _)| at);
        ours.chain(std::iter::from_fn(next)).take(limits::TRIED_SECRETS).collect()
    }
}

impl fmt::Debug for KeyLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secrets = self.secrets.read().unwrap_or_else(PoisonError::into_inner);
        write!(f, "KeyLog of {} secrets", secrets.len())
    }
}

fn line(line: &[u8]) -> Option<(SecretLabel, Option<ClientRandom>, TlsSecret)> {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let (name, key, digits) = (words.next()?, words.next()?, words.next()?);
    let (mut random, mut secret) = ([0; 32], [0; LONGEST]);
    let (label, random, digits) = if name == b"RSA" && key.starts_with(b"Session-ID:") {
        (SecretLabel::Master, None, digits.strip_prefix(b"Master-Key:")?)
    } else {
        hex(key, &mut random).filter(|len| *len == 32)?;
        (SecretLabel::named(name)?, Some(random), digits)
    };
    let len = hex(digits, &mut secret).filter(|len| matches!(len, 32 | 48))?;
    Some((label, random, TlsSecret::new(secret.get(..len)?)?))
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
mod tests;
