//! The cryptographic state of one connection: the epoch of each direction, and the content of its records.
//!
//! A record's number is its position in its epoch, and is not on the wire. Every record with a visible header counts, even an unreadable
//! one. A gap may hide records, so the next numbers are tried after it ([`limits::RECORDS_LOST`]). If none of them opens a record,
//! decryption of its direction ends.

mod early;
mod met;

use super::crypt::{RecordOpener, next_secret};
use super::hello::{HandshakeMessage, HandshakeScanner, ServerHello};
use super::kept::MetConnection;
use super::keylog::{ClientRandom, KeyLog, SecretLabel, SecretObjects, TlsSecret};
use super::records::{APPLICATION_DATA, CHANGE_CIPHER_SPEC, HANDSHAKE};
use super::suite::CipherSuite;
use crate::limits;
use overhead_model::Side;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordContent {
    /// Unprotected, or not readable.
    Closed,
    /// As [`RecordContent::Closed`], for a reason that ends decryption of this direction.
    Failed(&'static str),
    Opened(RecordLayout),
    /// Not captured completely, but with content of known length.
    Unread(RecordLayout),
}

/// Layout of a protected record; lengths in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RecordLayout {
    pub kind: u8,
    /// The part of the nonce or the initialization vector before the content.
    pub explicit: usize,
    pub content: usize,
    /// The content type after the content (TLS 1.3).
    pub type_bytes: usize,
    pub padding: usize,
    /// With CBC, the MAC and the padding.
    pub tag: usize,
}

#[derive(Debug)]
pub(super) struct TlsSession {
    keys: Option<Arc<KeyLog>>,
    /// Secrets may still come, as far as is known.
    is_patient: bool,
    /// The libraries' objects that derived its secrets.
    objects: SecretObjects,
    /// The connection, if its secrets are kept between captures.
    pub(super) met: Option<Box<MetConnection>>,
    client_random: Option<ClientRandom>,
    server: Option<ServerHello>,
    directions: [CipherDirection; 2],
}

#[derive(Debug, Default)]
struct CipherDirection {
    scanner: HandshakeScanner,
    epoch: KeyEpoch,
    /// Number of the next record of the epoch.
    sequence: u64,
    /// Records may be missing before the next one.
    lost: bool,
    /// TLS 1.3 records that could not be read before the end of the handshake was seen.
    unread: u64,
    /// The keys for some of them were not known in time.
    is_late: bool,
    /// Opens TLS 1.2 records, or TLS 1.3 handshake records, once the secret is known.
    opener: Option<RecordOpener>,
    /// Opens TLS 1.3 application data, once the secret is known.
    traffic: Option<TrafficKeys>,
    /// Generation of the key log at the last lookup.
    looked: Option<u64>,
    finished: bool,
}

/// Keys for TLS 1.3 application data.
#[derive(Debug)]
struct TrafficKeys {
    suite: CipherSuite,
    secret: TlsSecret,
    opener: RecordOpener,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum KeyEpoch {
    #[default]
    Clear,
    /// TLS 1.3, before the client knows the server's answer.
    EarlyData,
    Protected,
    Handshake,
    Application,
    /// Unknown, and no longer needed.
    GivenUp,
}

/// A record as on the wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct WireRecord<'a> {
    pub header: [u8; 5],
    pub fragment: &'a [u8],
    /// Length of the fragment on the wire.
    pub length: usize,
}

impl WireRecord<'_> {
    fn kind(&self) -> u8 {
        self.header[0]
    }

    fn is_whole(&self) -> bool {
        self.fragment.len() == self.length
    }
}

impl TlsSession {
    /// Returns a connection before its `ClientHello`, or one met open after its handshake.
    pub fn new(keys: Option<Arc<KeyLog>>, met: Option<Box<MetConnection>>) -> Self {
        let epoch = match &met {
            Some(met) if met.is_mid_stream && met.is_tls12() => KeyEpoch::Protected,
            Some(met) if met.is_mid_stream => KeyEpoch::Application,
            _ => KeyEpoch::Clear,
        };
        let direction = || CipherDirection { epoch, ..CipherDirection::default() };
        Self {
            keys,
            is_patient: true,
            objects: SecretObjects::default(),
            met,
            client_random: None,
            server: None,
            directions: [direction(), direction()],
        }
    }

    /// Returns whether both ends finished their handshake in readable records.
    pub fn is_established(&self) -> bool {
        self.directions.iter().all(|direction| direction.finished)
    }

    /// Returns what the next record of `side` holds, and puts the content of an opened one into `text`.
    pub fn record(&mut self, side: Side, record: WireRecord<'_>, text: &mut Vec<u8>) -> RecordContent {
        text.clear();
        if self.keys.is_none() {
            return RecordContent::Closed;
        }
        let is_tls13 = self.server.is_some_and(|server| server.is_tls13);
        let direction = &self.directions[side as usize];
        if direction.epoch == KeyEpoch::Clear && record.kind() == APPLICATION_DATA {
            if side == Side::Request && self.start_early_data(record, text) {
                self.directions[side as usize].epoch = KeyEpoch::EarlyData;
            } else if is_tls13 {
                self.directions[side as usize].epoch = KeyEpoch::Handshake;
            } else if self.directions[side as usize].lost {
                self.change_cipher(side);
            }
        }
        let content = match self.directions[side as usize].epoch {
            KeyEpoch::Clear => self.clear(side, record),
            KeyEpoch::Protected => self.protected(side, record, text),
            KeyEpoch::GivenUp => RecordContent::Closed,
            _ if record.kind() == APPLICATION_DATA => self.tls13(side, record, text),
            _ => RecordContent::Closed,
        };
        if let RecordContent::Failed(_) = content {
            self.give_up(side);
        }
        if self.met.is_some() && record.kind() == APPLICATION_DATA && !self.pass(side, record, content) {
            return RecordContent::Closed;
        }
        content
    }

    /// Notes that bytes of `side` are missing.
    pub fn lost(&mut self, side: Side) {
        let direction = &mut self.directions[side as usize];
        direction.lost = true;
        direction.scanner.reset();
    }

    fn give_up(&mut self, side: Side) {
        let direction = &mut self.directions[side as usize];
        *direction =
            CipherDirection { epoch: KeyEpoch::GivenUp, finished: direction.finished, ..CipherDirection::default() };
    }

    fn clear(&mut self, side: Side, record: WireRecord<'_>) -> RecordContent {
        match record.kind() {
            HANDSHAKE => self.handshake(side, record.fragment),
            CHANGE_CIPHER_SPEC => self.change_cipher(side),
            _ => {}
        }
        RecordContent::Closed
    }

    /// Switches to the keys of the latest hellos. In TLS 1.3 the record means nothing.
    fn change_cipher(&mut self, side: Side) {
        if self.server.is_some_and(|server| !server.is_tls13) {
            let direction = &mut self.directions[side as usize];
            (direction.epoch, direction.sequence) = (KeyEpoch::Protected, 0);
            (direction.opener, direction.looked) = (None, None);
        }
    }

    fn handshake(&mut self, side: Side, mut bytes: &[u8]) {
        let mut rekeyed = None;
        while let Some(message) = self.directions[side as usize].scanner.next(&mut bytes) {
            match (message, side) {
                (HandshakeMessage::ClientHello(random), Side::Request) => self.client_random = Some(random),
                (HandshakeMessage::ServerHello(hello), Side::Response) => self.server = Some(hello),
                (HandshakeMessage::EndOfEarlyData | HandshakeMessage::Finished | HandshakeMessage::KeyUpdate, _) => {
                    rekeyed = Some(message);
                }
                _ => {}
            }
        }
        let direction = &mut self.directions[side as usize];
        match (rekeyed, direction.epoch) {
            (Some(HandshakeMessage::EndOfEarlyData), KeyEpoch::EarlyData) => {
                (direction.epoch, direction.sequence) = (KeyEpoch::Handshake, 0);
                (direction.opener, direction.looked) = (None, None);
            }
            (Some(HandshakeMessage::Finished), KeyEpoch::Handshake) => {
                direction.finished = true;
                direction.enter_application();
            }
            (Some(HandshakeMessage::Finished), _) => direction.finished = true,
            (Some(HandshakeMessage::KeyUpdate), KeyEpoch::Application) => direction.update(),
            _ => {}
        }
    }

    fn suite(&self) -> Option<(CipherSuite, ServerHello, ClientRandom)> {
        let server = self.server?;
        let suite = CipherSuite { is_mac_last: server.encrypts_then_macs, ..CipherSuite::numbered(server.suite)? };
        Some((suite, server, self.client_random?))
    }

    /// Looks up the secrets that `side` needs, once per generation of the log.
    fn look(&mut self, side: Side) {
        let (Some(keys), Some((suite, server, random))) = (&self.keys, self.suite()) else { return };
        let direction = &mut self.directions[side as usize];
        let wants_opener = direction.opener.is_none() && direction.epoch != KeyEpoch::Application;
        let wants_traffic = direction.traffic.is_none() && direction.epoch != KeyEpoch::Protected;
        if !(wants_opener || wants_traffic) {
            return;
        }
        let generation = keys.generation();
        if direction.looked == Some(generation) {
            return;
        }
        direction.looked = Some(generation);
        let [handshake, traffic] = labels(side);
        if wants_opener && direction.epoch == KeyEpoch::Protected {
            let master = keys.get(SecretLabel::Master, &random);
            let randoms = [&random, &server.random];
            direction.opener = master.and_then(|master| RecordOpener::tls12(suite, &master, randoms, side));
        } else if wants_opener {
            direction.opener = keys.get(handshake, &random).and_then(|secret| RecordOpener::tls13(suite, &secret));
        }
        if wants_traffic {
            direction.traffic = keys.get(traffic, &random).and_then(|secret| TrafficKeys::new(suite, secret));
        }
    }

    /// Puts the content of a protected record into `text`. If its secret is not known, tries those that belong to no session
    /// yet, and waits for more. Returns whether it was opened.
    fn open(&mut self, side: Side, record: WireRecord<'_>, text: &mut Vec<u8>) -> bool {
        if self.met.as_ref().is_some_and(|met| met.is_searching(side)) {
            return self.find(side, record, text);
        }
        let mut is_last = false;
        loop {
            self.look(side);
            let direction = &mut self.directions[side as usize];
            if record.is_whole() && (direction.open(record, text) || direction.open_early(record, text)) {
                return true;
            }
            let lacks_keys = direction.current().is_none() && direction.traffic.is_none();
            let Some(keys) = self.keys.clone().filter(|_| lacks_keys && !is_last && self.suite().is_some()) else {
                return false;
            };
            if self.is_patient && record.is_whole() && self.claim(&keys, side, record, text) {
                return true;
            }
            self.is_patient &= keys.more(self.is_patient);
            is_last = !self.is_patient;
        }
    }

    /// Opens a record with a secret that belongs to no session yet.
    fn claim(&mut self, keys: &KeyLog, side: Side, record: WireRecord<'_>, text: &mut Vec<u8>) -> bool {
        let Some((suite, server, random)) = self.suite() else { return false };
        let (direction, objects) = (&mut self.directions[side as usize], &mut self.objects);
        let mut met = self.met.as_mut();
        let mut claim = |label, fits: &mut dyn FnMut(TlsSecret) -> bool| match &mut met {
            Some(met) => met.claim(label, |secret| fits(secret) && keys.set(label, &random, secret)),
            None => keys.claim((label, &random), objects, fits),
        };
        let [handshake, traffic] = labels(side);
        let is_master = direction.epoch == KeyEpoch::Protected;
        if direction.epoch != KeyEpoch::Application {
            let label = if is_master { SecretLabel::Master } else { handshake };
            let is_opened = claim(label, &mut |secret| {
                direction.opener = if is_master {
                    RecordOpener::tls12(suite, &secret, [&random, &server.random], side)
                } else {
                    RecordOpener::tls13(suite, &secret)
                };
                direction.open(record, text)
            });
            if is_opened {
                return true;
            }
            direction.opener = None;
        }
        // In the handshake, for a secret of it that was lost.
        let is_opened = !is_master
            && claim(traffic, &mut |secret| {
                direction.traffic = TrafficKeys::new(suite, secret);
                direction.open(record, text) || direction.open_early(record, text)
            });
        if !is_opened {
            direction.traffic = None;
        }
        is_opened
    }

    /// Opens a TLS 1.2 record after `ChangeCipherSpec`.
    fn protected(&mut self, side: Side, record: WireRecord<'_>, text: &mut Vec<u8>) -> RecordContent {
        let is_opened = self.open(side, record, text);
        let direction = &mut self.directions[side as usize];
        let Some(opener) = &direction.opener else {
            direction.sequence += 1;
            return RecordContent::Closed;
        };
        let explicit = opener.explicit;
        let layout = |content: usize| {
            let tag = record.length.checked_sub(explicit + content)?;
            Some(RecordLayout { kind: record.kind(), explicit, content, type_bytes: 0, padding: 0, tag })
        };
        if !record.is_whole() {
            direction.sequence += 1;
            let unread = opener.content(record.length).and_then(layout);
            let unread = unread.filter(|_| record.kind() == APPLICATION_DATA);
            return unread.map_or(RecordContent::Closed, RecordContent::Unread);
        }
        let Some(opened) = layout(text.len()).filter(|_| is_opened) else { return RecordContent::Failed(WRONG) };
        match record.kind() {
            HANDSHAKE => self.handshake(side, text),
            CHANGE_CIPHER_SPEC => self.change_cipher(side),
            _ => {}
        }
        RecordContent::Opened(opened)
    }

    /// Opens a protected TLS 1.3 record.
    fn tls13(&mut self, side: Side, record: WireRecord<'_>, text: &mut Vec<u8>) -> RecordContent {
        let is_opened = self.open(side, record, text);
        let direction = &mut self.directions[side as usize];
        if !record.is_whole() {
            return direction.skip_unread();
        }
        if !is_opened && direction.epoch == KeyEpoch::EarlyData {
            return RecordContent::Failed("early data that the server refused, or that is not complete");
        }
        if !is_opened {
            return direction.skip_sealed();
        }
        let tag = direction.current().map_or(0, |opener| opener.tag);
        let inner = text.len();
        // RFC 8446 section 5.4: the type is the last nonzero byte.
        let end = text.iter().rposition(|byte| *byte != 0);
        let kind = end.and_then(|end| text.get(end).copied()).unwrap_or(0);
        let content = end.unwrap_or(0);
        text.truncate(content);
        let type_bytes = usize::from(end.is_some());
        let padding = inner - content - type_bytes;
        if kind == HANDSHAKE {
            self.handshake(side, text);
        }
        RecordContent::Opened(RecordLayout { kind, explicit: 0, content, type_bytes, padding, tag })
    }
}

/// Returns the labels of a side's TLS 1.3 secrets: for the handshake and for application data.
fn labels(side: Side) -> [SecretLabel; 2] {
    match side {
        Side::Request => [SecretLabel::ClientHandshake, SecretLabel::ClientTraffic],
        Side::Response => [SecretLabel::ServerHandshake, SecretLabel::ServerTraffic],
    }
}

const WRONG: &str = "a record that the logged keys do not open";

impl TrafficKeys {
    fn new(suite: CipherSuite, secret: TlsSecret) -> Option<Self> {
        Some(Self { suite, secret, opener: RecordOpener::tls13(suite, &secret)? })
    }
}

impl CipherDirection {
    /// Opens a record with the epoch's keys: the next one or, after a gap, one of several.
    fn open(&mut self, record: WireRecord<'_>, text: &mut Vec<u8>) -> bool {
        let Some(opener) = self.current() else { return false };
        let tries = if self.lost { limits::RECORDS_LOST } else { 1 };
        let found = (self.sequence..self.sequence.saturating_add(tries))
            .find(|sequence| opener.open(*sequence, record.header, record.fragment, text));
        if let Some(sequence) = found {
            (self.sequence, self.lost) = (sequence + 1, false);
        }
        found.is_some()
    }

    fn current(&self) -> Option<&RecordOpener> {
        match self.epoch {
            KeyEpoch::Application => self.traffic.as_ref().map(|traffic| &traffic.opener),
            _ => self.opener.as_ref(),
        }
    }

    /// Opens a TLS 1.3 record as application data before the end of the handshake was seen: its keys came too late, or it is in a gap.
    fn open_early(&mut self, record: WireRecord<'_>, text: &mut Vec<u8>) -> bool {
        let is_possible = self.opener.is_none() || self.lost || self.is_late;
        if self.epoch != KeyEpoch::Handshake || !is_possible {
            return false;
        }
        // Some of the unread records belong to the handshake; a gap may hold more.
        let numbers = if self.lost {
            0..limits::RECORDS_LOST
        } else {
            self.unread.saturating_sub(limits::RECORDS_LOST)..self.unread + 1
        };
        let found = self.traffic.as_ref().and_then(|traffic| {
            numbers.rev().find(|sequence| traffic.opener.open(*sequence, record.header, record.fragment, text))
        });
        let Some(sequence) = found else { return false };
        self.enter_application();
        (self.sequence, self.lost) = (sequence + 1, false);
        true
    }

    /// Ends the TLS 1.3 handshake: its keys give way to those for application data.
    fn enter_application(&mut self) {
        (self.epoch, self.sequence) = (KeyEpoch::Application, 0);
        (self.opener, self.unread, self.is_late) = (None, 0, false);
    }

    /// Moves to the next keys after a `KeyUpdate`.
    fn update(&mut self) {
        let next = self.traffic.as_ref().and_then(|traffic| {
            let secret = next_secret(traffic.suite, &traffic.secret)?;
            TrafficKeys::new(traffic.suite, secret)
        });
        self.traffic = next;
        self.enter_application();
    }

    /// Skips a TLS 1.3 record that was not captured completely. Its type is encrypted, so its content is unknown.
    fn skip_unread(&mut self) -> RecordContent {
        self.sequence += 1;
        // It may have ended the handshake.
        self.lost |= self.epoch == KeyEpoch::Handshake;
        self.unread += 1;
        RecordContent::Closed
    }

    /// Skips a TLS 1.3 record that the known keys do not open. During the handshake it may be early data, or its keys were logged too late.
    fn skip_sealed(&mut self) -> RecordContent {
        self.unread += 1;
        let waiting = self.opener.is_none() && self.traffic.is_none();
        self.sequence += u64::from(waiting);
        self.is_late |= waiting;
        let patient = self.epoch == KeyEpoch::Handshake && !self.lost && self.unread < limits::RECORDS_LOST;
        if waiting || patient { RecordContent::Closed } else { RecordContent::Failed(WRONG) }
    }
}
