//! TLS sessions of connections of which captures see only parts, such as the windows of an agent: their secrets, and the number of each
//! direction's next record.
//!
//! A record's number is not on the wire. Between two parts, TCP's sequence numbers give the bytes that have passed, up to 4 GiB, and these
//! an estimate of the records. The numbers around it are tried, at most [`limits::RECORDS_SEARCHED`].

use super::crypt::RecordOpener;
use super::keylog::{ClientRandom, SecretLabel, TlsSecret};
use super::suite::CipherSuite;
use crate::limits;
use overhead_model::Side;
use std::collections::HashMap;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Identifies a handshake at one end while it is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HandshakeId {
    pub pid: u32,
    /// Address of the library's object; 0 if unknown.
    pub object: u64,
    /// The client's random; zeros if unknown.
    pub random: [u8; 32],
}

/// A TCP connection, and the sequence numbers of the bytes that each end sends next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionPlace {
    /// Number of that of the ends; only loopback addresses need it, of which each namespace has its own.
    pub network_namespace: u32,
    pub ends: [SocketAddr; 2],
    pub next: [u32; 2],
}

impl ConnectionPlace {
    /// Puts the lesser end first. Returns whether that swapped the ends.
    fn sorted(self) -> (Self, bool) {
        if self.ends[0] <= self.ends[1] { (self, false) } else { (self.swapped(), true) }
    }

    pub(crate) fn swapped(self) -> Self {
        let Self { network_namespace, ends: [one, other], next: [first, second] } = self;
        Self { network_namespace, ends: [other, one], next: [second, first] }
    }

    /// Returns what identifies the connection, and whether the first end is the second one there.
    fn key(self) -> (SessionKey, bool) {
        let (Self { network_namespace, ends, .. }, is_swapped) = self.sorted();
        let is_loopback = ends.iter().any(|end| end.ip().is_loopback());
        ((if is_loopback { network_namespace } else { 0 }, ends), is_swapped)
    }
}

/// A network namespace, or 0, and the ends of a connection, the lesser first.
type SessionKey = (u32, [SocketAddr; 2]);

/// Secrets of one handshake, as far as known.
#[derive(Debug, Default)]
pub(super) struct SessionSecrets {
    master: OnceLock<TlsSecret>,
    client: OnceLock<TlsSecret>,
    server: OnceLock<TlsSecret>,
    /// They have opened a record of a connection.
    is_claimed: AtomicBool,
}

impl SessionSecrets {
    fn place(&self, label: SecretLabel) -> Option<&OnceLock<TlsSecret>> {
        match label {
            SecretLabel::Master => Some(&self.master),
            SecretLabel::ClientTraffic => Some(&self.client),
            SecretLabel::ServerTraffic => Some(&self.server),
            SecretLabel::ClientEarly | SecretLabel::ClientHandshake | SecretLabel::ServerHandshake => None,
        }
    }

    pub fn get(&self, label: SecretLabel) -> Option<TlsSecret> {
        self.place(label)?.get().copied()
    }

    fn is_same(&self, other: &Self) -> bool {
        let same = |label| self.get(label).is_some_and(|secret| Some(secret) == other.get(label));
        same(SecretLabel::Master) || same(SecretLabel::ClientTraffic)
    }
}

/// How the records of a direction are encrypted.
#[derive(Clone, Copy, Debug)]
pub(super) enum RecordKeys {
    Tls13 { suite: CipherSuite, secret: TlsSecret },
    Tls12 { suite: CipherSuite, master: TlsSecret, randoms: [ClientRandom; 2] },
}

impl RecordKeys {
    pub fn opener(&self, side: Side) -> Option<RecordOpener> {
        match self {
            Self::Tls13 { suite, secret } => RecordOpener::tls13(*suite, secret),
            Self::Tls12 { suite, master, randoms } => RecordOpener::tls12(*suite, master, randoms.each_ref(), side),
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct KeptHalf {
    /// TCP's number of a byte at or near the start of record `sequence`.
    position: u32,
    sequence: u64,
    /// Mean length of its records, in bytes; 0 if unknown.
    mean_bytes: u64,
    keys: Option<RecordKeys>,
}

#[derive(Clone, Debug, Default)]
struct KeptSession {
    /// Handshakes that may be its own; one once it has opened a record.
    candidates: Vec<Arc<SessionSecrets>>,
    /// By sender, the lesser end first.
    halves: [KeptHalf; 2],
    /// Captures in a row in which records were not opened.
    misses: u32,
}

impl KeptSession {
    fn is_certain(&self) -> bool {
        self.halves.iter().any(|half| half.keys.is_some())
    }
}

/// Numbers of sessions; those missed and without room since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptCounts {
    /// Connections with secrets now.
    pub kept: u64,
    /// How often the numbers of a connection's records were not found, or no secret opened one.
    pub missed: u64,
    /// Connections without room for their secrets.
    pub without_room: u64,
}

#[derive(Debug, Default)]
struct SessionBook {
    sessions: HashMap<SessionKey, KeptSession>,
    /// With the time of their first secret, Unix nanoseconds.
    handshakes: HashMap<HandshakeId, (u64, Arc<SessionSecrets>)>,
    counts: KeptCounts,
}

/// The sessions of connections that are open. Shared by all captures of parts.
#[derive(Debug, Default)]
pub struct KeptSessions {
    book: Mutex<SessionBook>,
    /// Bytes that the current capture may still decrypt to find numbers of records.
    effort: AtomicU64,
}

impl KeptSessions {
    /// Adds a secret that a process derived at this time, Unix nanoseconds. Labels for other uses are skipped.
    pub fn add_secret(&self, id: HandshakeId, label: &str, secret: &[u8], time_ns: u64) {
        let label = SecretLabel::ALL.into_iter().find(|known| known.name() == label);
        let Some((label, secret)) = label.zip(TlsSecret::new(secret)) else { return };
        let mut book = self.book();
        if book.handshakes.len() >= limits::KEPT_HANDSHAKES {
            book.handshakes.retain(|_, (since_ns, _)| time_ns.saturating_sub(*since_ns) < limits::UNCLAIMED_NS);
        }
        if book.handshakes.len() >= limits::KEPT_HANDSHAKES {
            return;
        }
        let (since_ns, secrets) = book.handshakes.entry(id).or_insert_with(|| (time_ns, Arc::default()));
        let Some(place) = secrets.place(label) else { return };
        if *place.get_or_init(|| secret) != secret {
            // An object that is used again.
            let new = SessionSecrets::default();
            new.place(label).into_iter().for_each(|place| _ = place.set(secret));
            (*since_ns, *secrets) = (time_ns, Arc::new(new));
        }
    }

    /// Adds a connection that may be the handshake's.
    pub fn add_connection(&self, id: &HandshakeId, place: ConnectionPlace) {
        let mut book = self.book();
        let Some((_, secrets)) = book.handshakes.get(id) else { return };
        let (secrets, (key, _), (place, _)) = (Arc::clone(secrets), place.key(), place.sorted());
        if book.sessions.len() >= limits::KEPT_SESSIONS && !book.sessions.contains_key(&key) {
            book.counts.without_room += 1;
            return;
        }
        let at = |position| KeptHalf { position, ..KeptHalf::default() };
        let new = || KeptSession { halves: place.next.map(at), ..KeptSession::default() };
        let session = book.sessions.entry(key).or_insert_with(new);
        let is_known = session.candidates.iter().any(|known| known.is_same(&secrets));
        if !is_known && !session.is_certain() && session.candidates.len() < limits::TRIED_SECRETS {
            session.candidates.push(secrets);
        }
    }

    /// Erases the secrets of a connection that has ended.
    pub fn erase(&self, place: ConnectionPlace) {
        let (key, _) = place.key();
        let mut book = self.book();
        let ended = book.sessions.remove(&key);
        if let Some(secrets) = ended.iter().flat_map(|session| &session.candidates).next() {
            book.handshakes.retain(|_, (_, recent)| !Arc::ptr_eq(recent, secrets));
        }
    }

    /// Erases all secrets: the ends of some connections were not seen.
    pub fn erase_all(&self) {
        let mut book = self.book();
        (book.sessions, book.handshakes) = (HashMap::new(), HashMap::new());
    }

    /// Allows the next capture its effort to find numbers, and erases the secrets of handshakes without a connection.
    pub fn begin_capture(&self, time_ns: u64) {
        self.effort.store(limits::SEARCHED_BYTES, Ordering::Relaxed);
        let is_recent = |since_ns: u64| time_ns.saturating_sub(since_ns) < limits::UNCLAIMED_NS;
        self.book().handshakes.retain(|_, (since_ns, _)| is_recent(*since_ns));
    }

    pub fn counts(&self) -> KeptCounts {
        let book = self.book();
        KeptCounts { kept: book.sessions.len() as u64, ..book.counts }
    }

    fn book(&self) -> MutexGuard<'_, SessionBook> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one try to open a record of this length from the effort. Returns whether it may be tried.
    fn spend(&self, record_bytes: usize) -> bool {
        let cost = limits::TRY_BYTES + record_bytes as u64;
        self.effort.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(cost)).is_ok()
    }
}

/// One direction of a connection in a capture.
#[derive(Clone, Copy, Debug, Default)]
struct MetHalf {
    half: KeptHalf,
    /// TCP's number of the first byte.
    first: u32,
    /// Bytes of records before the current one, and their number.
    passed: u64,
    records: u64,
    /// The record numbers are known.
    is_found: bool,
}

/// A connection of [`KeptSessions`] in one capture.
#[derive(Debug)]
pub(super) struct MetConnection {
    sessions: Arc<KeptSessions>,
    /// Client first.
    place: ConnectionPlace,
    /// Its handshake was not captured.
    pub is_mid_stream: bool,
    candidates: Vec<Arc<SessionSecrets>>,
    halves: [MetHalf; 2],
    /// A record was not opened, so requests and answers can't be paired any more.
    is_suspended: bool,
}

impl MetConnection {
    /// Returns the connection at this place, the client's end first, as far as it is known.
    pub fn new(sessions: Arc<KeptSessions>, place: ConnectionPlace, is_mid_stream: bool) -> Self {
        let mut met = Self {
            sessions,
            place,
            is_mid_stream,
            candidates: Vec::new(),
            halves: place.next.map(|first| MetHalf { first, ..MetHalf::default() }),
            is_suspended: false,
        };
        met.look();
        met
    }

    /// Returns whether there are secrets that may be the connection's.
    pub fn has_secrets(&self) -> bool {
        !self.candidates.is_empty()
    }

    /// Looks up the secrets, unless some are known.
    pub fn look(&mut self) {
        if self.has_secrets() {
            return;
        }
        let (key, is_swapped) = self.place.key();
        let book = self.sessions.book();
        let Some(session) = book.sessions.get(&key) else { return };
        let is_free = |secrets: &&Arc<SessionSecrets>| !secrets.is_claimed.load(Ordering::Relaxed);
        let free: Vec<_> = session.candidates.iter().filter(is_free).cloned().collect();
        self.candidates = if session.is_certain() || free.is_empty() { session.candidates.clone() } else { free };
        for (index, met) in self.halves.iter_mut().enumerate() {
            let [lesser, greater] = session.halves;
            met.half = if (index == 1) == is_swapped { lesser } else { greater };
        }
    }

    /// Returns whether the session was TLS 1.2 when it was last seen.
    pub fn is_tls12(&self) -> bool {
        self.halves.iter().any(|met| matches!(met.half.keys, Some(RecordKeys::Tls12 { .. })))
    }

    /// Passes the secrets of the handshakes to `fits` until one opens a record: that handshake is the connection's.
    pub fn claim(&mut self, label: SecretLabel, mut fits: impl FnMut(TlsSecret) -> bool) -> bool {
        self.look();
        let fitting = self.candidates.iter().position(|secrets| secrets.get(label).is_some_and(&mut fits));
        fitting.is_some_and(|at| self.choose(at))
    }

    fn choose(&mut self, at: usize) -> bool {
        let chosen = self.candidates.swap_remove(at);
        chosen.is_claimed.store(true, Ordering::Relaxed);
        self.candidates = vec![chosen];
        true
    }

    /// Returns whether numbers must be searched to open a record of this side.
    pub fn is_searching(&self, side: Side) -> bool {
        self.is_mid_stream && !self.halves[side as usize].is_found
    }

    /// Finds the keys and the number of a record. `open` tries to open it.
    pub fn find(
        &mut self,
        side: Side,
        record_bytes: usize,
        mut open: impl FnMut(&RecordOpener, u64) -> bool,
    ) -> Option<(RecordKeys, u64)> {
        let met = self.halves[side as usize];
        // Tried again when the mean length of the records is better known.
        if !met.records.is_power_of_two() && met.records > 0 {
            return None;
        }
        let keys = self.keys(side);
        let openers: Vec<_> = keys.iter().filter_map(|(_, keys)| keys.opener(side)).collect();
        let estimate = met.estimate(record_bytes as u64);
        let mut tries = around(estimate, limits::RECORDS_SEARCHED);
        let (at, number) = tries.find_map(|number| {
            let opens = |opener: &RecordOpener| self.sessions.spend(record_bytes) && open(opener, number);
            openers.iter().position(opens).map(|at| (at, number))
        })?;
        let (candidate, found) = keys.get(at).copied()?;
        self.choose(candidate);
        self.halves[side as usize].is_found = true;
        Some((found, number))
    }

    /// Returns the possible keys of a side, with the indices of their candidates.
    fn keys(&self, side: Side) -> Vec<(usize, RecordKeys)> {
        if let Some(keys) = self.halves[side as usize].half.keys {
            return vec![(0, keys)];
        }
        let label = if side == Side::Request { SecretLabel::ClientTraffic } else { SecretLabel::ServerTraffic };
        let secrets = self.candidates.iter().enumerate().filter_map(|(at, secrets)| Some((at, secrets.get(label)?)));
        let with_suites = |(at, secret): (usize, TlsSecret)| {
            let suites = CipherSuite::usual_of_tls13().filter(move |suite| suite.hash.bytes() == secret.bytes().len());
            suites.map(move |suite| (at, RecordKeys::Tls13 { suite, secret }))
        };
        secrets.flat_map(with_suites).collect()
    }

    /// Notes a record of application data: with its number and keys if it was opened. Returns whether its content can be decoded.
    pub fn pass(&mut self, side: Side, record_bytes: u64, opened: Option<(u64, Option<RecordKeys>)>) -> bool {
        let met = &mut self.halves[side as usize];
        let start = met.first.wrapping_add(met.passed as u32);
        met.passed += record_bytes;
        met.records += 1;
        let Some((number, keys)) = opened else {
            self.is_suspended = true;
            return false;
        };
        met.half.position = start;
        met.half.sequence = number;
        met.half.keys = keys.or(met.half.keys);
        met.half.mean_bytes = met.passed / met.records;
        !(self.is_mid_stream && self.is_suspended)
    }

    /// Keeps what the capture has found.
    pub fn keep(&self, handshake: Option<RecordKeys>) {
        let (key, is_swapped) = self.place.key();
        let mut book = self.sessions.book();
        let SessionBook { sessions, counts, .. } = &mut *book;
        // It may have ended.
        let Some(session) = sessions.get_mut(&key).filter(|_| self.has_secrets()) else { return };
        if !self.is_mid_stream {
            if handshake.is_some() {
                session.candidates.clone_from(&self.candidates);
                session.halves.iter_mut().for_each(|half| half.keys = handshake);
            }
            return;
        }
        let has_missed = self.halves.iter().any(|met| met.records > 0 && !met.is_found);
        for (index, met) in self.halves.iter().enumerate().filter(|(_, met)| met.is_found) {
            let at = usize::from((index == 1) != is_swapped);
            session.halves.get_mut(at).into_iter().for_each(|half| *half = met.half);
            session.candidates.clone_from(&self.candidates);
        }
        counts.missed += u64::from(self.is_suspended);
        session.misses = if has_missed { session.misses + 1 } else { 0 };
        if session.misses >= limits::KEPT_MISSES {
            sessions.remove(&key);
        }
    }
}

impl MetHalf {
    /// Returns the probable number of the current record, which has this length.
    fn estimate(&self, record_bytes: u64) -> u64 {
        let here = self.first.wrapping_add(self.passed as u32);
        let gone = u64::from(here.wrapping_sub(self.half.position));
        let mean = match (self.half.mean_bytes, self.records) {
            (mean @ 1.., 0) => mean,
            _ => (self.passed + record_bytes) / (self.records + 1),
        };
        // A handshake's last bytes may lie before the position that was noted at its end.
        let is_before = gone > u64::from(u32::MAX - limits::HANDSHAKE_BYTES);
        if is_before { self.half.sequence } else { self.half.sequence + gone / mean.max(1) }
    }
}

/// Returns numbers from the nearest to `estimate` on, alternately above and below.
fn around(estimate: u64, tries: u64) -> impl Iterator<Item = u64> {
    let step = move |index: u64| {
        let distance = index.div_ceil(2);
        if index % 2 == 1 { estimate.checked_add(distance) } else { estimate.checked_sub(distance) }
    };
    (0..2 * tries).filter_map(step).take(usize::try_from(tries).unwrap_or(usize::MAX))
}
