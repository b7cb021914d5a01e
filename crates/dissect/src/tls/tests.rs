//! Sessions sealed here, record by record, and the vectors of RFC 8448.

use super::crypt::{RecordOpener, next_secret, test::Sealer};
use super::keylog::{SecretLabel, TlsSecret};
use super::suite::CipherSuite;
use super::*;
use crate::engine::ConnectionEngine;
use crate::limits;
use overhead_decode::Note;
use overhead_model::Account;
use overhead_protocols::SharedContext;
use overhead_protocols::mongo::Mongo;
use overhead_protocols::pgwire::Pgwire;
use overhead_protocols::resp::Resp;
use overhead_testing::transcript::{Transcript, check};
use proptest::prelude::*;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};

const CLIENT: [u8; 32] = [1; 32];
const SERVER: [u8; 32] = [2; 32];

fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// RFC 8448 section 3: the client's application data, and the key that follows its secret.
#[test]
fn the_record_of_rfc_8448_opens() {
    let secret = hex("9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5");
    let record = hex(
        "1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5b46b395bd54a9a20441e2b62974e1f5a6292a2977014bd1e3deae63aeebb21694915e4",
    );
    let suite = CipherSuite::numbered(0x1301).unwrap();
    let opener = RecordOpener::tls13(suite, &TlsSecret::new(&secret).unwrap()).unwrap();
    let (header, fragment) = record.split_first_chunk::<5>().unwrap();
    let mut text = Vec::new();
    assert!(opener.open(0, *header, fragment, &mut text));
    let sent: Vec<u8> = (0..50).chain([23]).collect();
    assert_eq!(text, sent);
    assert!(!opener.open(1, *header, fragment, &mut text), "the number is part of the nonce");
    assert_ne!(next_secret(suite, &TlsSecret::new(&secret).unwrap()).unwrap().bytes(), secret);
}

/// A session under construction: the bytes each side sends, and the keys.
struct Lab {
    suite: u16,
    is_tls13: bool,
    padding: usize,
    log: String,
    wire: Vec<(Side, Vec<u8>)>,
    sealers: [Sealer; 2],
    secrets: [TlsSecret; 2],
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32).to_be_bytes();
    [&[kind], &length[1..], body].concat()
}

fn record(kind: u8, fragment: &[u8]) -> Vec<u8> {
    [&[kind, 3, 3], &(fragment.len() as u16).to_be_bytes()[..], fragment].concat()
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |digits, byte| format!("{digits}{byte:02x}"))
}

impl Lab {
    fn new(suite: u16, is_tls13: bool) -> Self {
        Self::padded(suite, is_tls13, 2)
    }

    /// Returns such a session with this much zero padding after each TLS 1.3 content.
    fn padded(suite: u16, is_tls13: bool, padding: usize) -> Self {
        // Servers of suites with even numbers encrypt first.
        let known = CipherSuite { is_mac_last: suite.is_multiple_of(2), ..CipherSuite::numbered(suite).unwrap() };
        let long = if known.hash == suite::SuiteHash::Sha384 { 48 } else { 32 };
        let secret = |seed: u8| TlsSecret::new(&vec![seed; long]).unwrap();
        let mut lab = Self {
            suite,
            is_tls13,
            padding,
            log: String::new(),
            wire: Vec::new(),
            sealers: if is_tls13 {
                [secret(10), secret(11)].map(|secret| Sealer::tls13(known, &secret, padding))
            } else {
                Sealer::tls12(known, &TlsSecret::new(&[9; 48]).unwrap(), [&CLIENT, &SERVER])
            },
            secrets: [secret(12), secret(13)],
        };
        lab.hello();
        if is_tls13 {
            lab.finish13(known);
        } else {
            lab.finish12();
        }
        lab
    }

    fn log(&mut self, label: &str, secret: &TlsSecret) {
        let line = [label, &digits(&CLIENT), &digits(secret.bytes())].join(" ");
        self.log = [self.log.as_str(), &line, "\n"].concat();
    }

    fn hello(&mut self) {
        let client = message(1, &[&[3, 3], &CLIENT[..], &[0, 0, 2], &self.suite.to_be_bytes(), &[1, 0, 0, 0]].concat());
        let extensions: &[u8] = match (self.is_tls13, self.suite % 2) {
            (true, _) => &[0, 6, 0, 43, 0, 2, 3, 4],
            (false, 0) => &[0, 4, 0, 22, 0, 0],
            (false, _) => &[],
        };
        let server = message(2, &[&[3, 3], &SERVER[..], &[0], &self.suite.to_be_bytes(), &[0], extensions].concat());
        self.wire.push((Side::Request, record(22, &client)));
        self.wire.push((Side::Response, record(22, &server)));
    }

    fn finish13(&mut self, suite: CipherSuite) {
        for (label, seed) in [("CLIENT_HANDSHAKE_TRAFFIC_SECRET", 10), ("SERVER_HANDSHAKE_TRAFFIC_SECRET", 11)] {
            let len = self.secrets[0].bytes().len();
            self.log(label, &TlsSecret::new(&vec![seed; len]).unwrap());
        }
        self.log("CLIENT_TRAFFIC_SECRET_0", &self.secrets[0].clone());
        self.log("SERVER_TRAFFIC_SECRET_0", &self.secrets[1].clone());
        self.wire.push((Side::Response, record(20, &[1])));
        self.seal(Side::Response, 22, &[message(8, &[0, 0]), message(11, &[7; 300])].concat());
        self.seal(Side::Response, 22, &message(20, &[4; 32]));
        self.seal(Side::Request, 22, &message(20, &[5; 32]));
        self.sealers = [0, 1].map(|side: usize| Sealer::tls13(suite, &self.secrets[side], self.padding));
        self.seal(Side::Response, 22, &message(4, &[6; 100]));
    }

    fn finish12(&mut self) {
        self.log("CLIENT_RANDOM", &TlsSecret::new(&[9; 48]).unwrap());
        self.wire.push((Side::Response, record(22, &message(11, &[7; 300]))));
        for side in Side::BOTH {
            self.wire.push((side, record(20, &[1])));
            self.seal(side, 22, &message(20, &[4; 12]));
        }
    }

    fn seal(&mut self, side: Side, kind: u8, content: &[u8]) {
        let sealed = self.sealers[side as usize].seal(kind, content);
        self.wire.push((side, sealed));
    }

    fn update(&mut self, side: Side) {
        self.seal(side, 22, &message(24, &[0]));
        let suite = CipherSuite::numbered(self.suite).unwrap();
        let next = next_secret(suite, &self.secrets[side as usize]).unwrap();
        self.secrets[side as usize] = next;
        self.sealers[side as usize] = Sealer::tls13(suite, &next, self.padding);
    }

    fn transcript(&self, log: &str) -> Transcript {
        let mut transcript = Transcript::default();
        let mut engine = Self::engine(log);
        for (side, bytes) in &self.wire {
            engine.bytes(*side, bytes, &mut transcript);
        }
        engine.finish(&mut transcript);
        transcript
    }

    fn engine(log: &str) -> ConnectionEngine<Resp> {
        let keys = KeyLog::default();
        keys.add(log.as_bytes());
        ConnectionEngine::with_keys(Resp::new(false), false, Some(Arc::new(keys)))
    }

    fn sent(&self, side: Side) -> u64 {
        self.wire.iter().filter(|(of, _)| *of == side).map(|(_, bytes)| bytes.len() as u64).sum()
    }
}

const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n";
const VALUE: &[u8] = b"$5\r\nvalue\r\n";

/// Returns the operations without TLS rows and the TLS account.
fn without_tls(transcript: &Transcript) -> Vec<String> {
    let mut plain = transcript.clone();
    plain.ops.retain(|op| op.name() != "TLS");
    for op in &mut plain.ops {
        for side in &mut op.amounts {
            side[Account::Tls] = 0;
        }
    }
    plain.summary()
}

const SUITES: [(u16, bool); 15] = [
    (0x1301, true),
    (0x1302, true),
    (0x1303, true),
    (0x1304, true),
    (0x1305, true),
    (0xc02f, false),
    (0xc030, false),
    (0xcca8, false),
    (0xc09e, false),
    (0x002f, false),
    (0x003c, false),
    (0x003d, false),
    (0x0035, false),
    (0xc014, false),
    (0xc028, false),
];

#[test]
fn every_suite_shows_the_session_within() {
    for (suite, is_tls13) in SUITES {
        let mut lab = Lab::new(suite, is_tls13);
        lab.seal(Side::Request, 23, GET);
        lab.seal(Side::Response, 23, VALUE);
        lab.seal(Side::Request, 21, &[1, 0]);
        let transcript = lab.transcript(&lab.log);
        let plain = Transcript::of(Resp::new(false), &[(Side::Request, GET), (Side::Response, VALUE)]);
        assert_eq!(without_tls(&transcript), plain.summary(), "{suite:04x}");
        for side in Side::BOTH {
            assert_eq!(transcript.total(side), lab.sent(side), "{suite:04x}");
        }
        assert!(transcript.notes.iter().all(|note| *note == Note::Tls), "{suite:04x}: {:?}", transcript.notes);
    }
}

/// TLS 1.1 has the same suites with CBC, but other keys.
#[test]
fn versions_before_tls_12_stay_encrypted() {
    let mut lab = Lab::new(0x002f, false);
    lab.seal(Side::Request, 23, GET);
    lab.seal(Side::Response, 23, VALUE);
    let (_, hello) = &mut lab.wire[1];
    hello[9..11].copy_from_slice(&[3, 2]);
    let notes = lab.transcript(&lab.log).notes;
    assert!(notes.contains(&Note::Encrypted), "{notes:?}");
    assert!(!notes.iter().any(|note| matches!(note, Note::Undecryptable(_))), "{notes:?}");
}

/// Returns a session whose client asks before the server's first answer. The server accepts it, or has it come again.
fn early(suite: u16, is_accepted: bool) -> Lab {
    let mut lab = Lab::new(suite, true);
    let secret = TlsSecret::new(&vec![14; lab.secrets[0].bytes().len()]).unwrap();
    let mut sealer = Sealer::tls13(CipherSuite::numbered(suite).unwrap(), &secret, 0);
    lab.log("CLIENT_EARLY_TRAFFIC_SECRET", &secret);
    lab.wire.insert(1, (Side::Request, sealer.seal(23, GET)));
    let finished = lab.wire.iter().rposition(|(side, _)| *side == Side::Request).unwrap();
    if is_accepted {
        lab.wire.insert(finished, (Side::Request, sealer.seal(22, &message(5, &[]))));
    } else {
        lab.seal(Side::Request, 23, GET);
    }
    lab.seal(Side::Response, 23, VALUE);
    lab
}

#[test]
fn early_data_is_opened() {
    for (suite, _) in SUITES.into_iter().take(3) {
        let lab = early(suite, true);
        let plain = Transcript::of(Resp::new(false), &[(Side::Request, GET), (Side::Response, VALUE)]);
        let opened = lab.transcript(&lab.log);
        assert_eq!(without_tls(&opened), plain.summary(), "{suite:04x}");
        let keys = KeyLog::default();
        keys.set_time(1000);
        add_unclaimed(&keys, &lab.log);
        assert_eq!(lab.transcript_with(keys).0.postings, opened.postings, "{suite:04x}: found by trial");
    }
}

#[test]
fn early_data_that_comes_again_counts_once() {
    let lab = early(0x1301, false);
    let transcript = lab.transcript(&lab.log);
    assert_eq!(transcript.ops.iter().filter(|op| op.name() == "GET").count(), 1);
    assert!(transcript.notes.iter().any(|note| matches!(note, Note::Undecryptable(_))), "{:?}", transcript.notes);
}

#[test]
fn records_are_posted_in_the_order_of_the_wire() {
    let mut lab = Lab::new(0xc02f, false);
    let handshake = lab.sent(Side::Request);
    lab.seal(Side::Request, 23, GET);
    let transcript = lab.transcript(&lab.log);
    let mut at = 0;
    let postings = transcript.postings[0].iter().filter(|posting| {
        at += posting.len;
        at > handshake
    });
    let shown: Vec<String> =
        postings.map(|posting| format!("{} {} {}", posting.path, posting.account, posting.len)).collect();
    assert_eq!(
        shown[..4],
        ["record type tls 1", "record version tls 2", "record length tls 2", "explicit nonce tls 8"]
    );
    assert_eq!(shown.last().unwrap(), "authentication tag tls 16");
}

#[test]
fn operations_of_one_record_share_what_surrounds_it() {
    let mut lab = Lab::new(0x1301, true);
    lab.seal(Side::Request, 23, &GET.repeat(2));
    lab.seal(Side::Response, 23, &VALUE.repeat(2));
    let transcript = lab.transcript(&lab.log);
    let shares: Vec<_> = transcript.ops.iter().filter(|op| op.name() == "GET").collect();
    assert_eq!(shares.len(), 2);
    for op in shares {
        assert_eq!(op.amounts.map(|side| side[Account::Tls]), [12, 12]);
    }
}

#[test]
fn tickets_key_updates_and_alerts_are_no_operations() {
    let mut lab = Lab::new(0x1301, true);
    lab.seal(Side::Request, 23, &GET[..5]);
    lab.update(Side::Request);
    lab.seal(Side::Request, 23, &GET[5..]);
    lab.update(Side::Response);
    lab.seal(Side::Response, 23, VALUE);
    lab.seal(Side::Response, 21, &[1, 0]);
    let transcript = lab.transcript(&lab.log);
    let tls: Vec<_> = transcript.ops.iter().filter(|op| op.name() == "TLS").map(|op| op.outcome.unwrap()).collect();
    assert_eq!(
        tls,
        [Outcome::Ok, Outcome::Unsolicited, Outcome::Unsolicited, Outcome::Unsolicited, Outcome::Unsolicited]
    );
    let gets: Vec<_> = transcript.ops.iter().filter(|op| op.name() == "GET").map(|op| op.outcome.unwrap()).collect();
    assert_eq!(gets, [Outcome::Ok]);
}

#[test]
fn an_operation_that_is_over_before_its_record_is_closed_with_it() {
    let mut lab = Lab::new(0x1301, true);
    let (whole, half) = (GET.len(), GET.len() / 2);
    lab.seal(Side::Request, 23, &[GET, &GET[..half]].concat());
    lab.seal(Side::Response, 23, VALUE);
    lab.seal(Side::Request, 23, &GET[half..whole]);
    lab.seal(Side::Response, 23, VALUE);
    let transcript = lab.transcript(&lab.log);
    let gets: Vec<_> = transcript.ops.iter().filter(|op| op.name() == "GET").collect();
    assert_eq!(gets.iter().map(|op| op.outcome.unwrap()).collect::<Vec<_>>(), [Outcome::Ok; 2]);
    assert_eq!(gets.iter().map(|op| op.amounts[0][Account::Tls]).sum::<u64>(), 48);
}

#[test]
fn wrong_keys_end_the_decryption_and_decode_nothing() {
    for (suite, is_tls13) in [(0x1301, true), (0xc02f, false)] {
        let mut lab = Lab::new(suite, is_tls13);
        lab.seal(Side::Request, 23, GET);
        lab.seal(Side::Response, 23, VALUE);
        let wrong: Vec<_> = lab.log.lines().map(|line| format!("{}ff", &line[..line.len() - 2])).collect();
        let wrong = wrong.join("\n");
        let transcript = lab.transcript(&wrong);
        assert!(
            transcript.ops.iter().all(|op| ["TLS", "(encrypted)"].contains(&op.name())),
            "{:?}",
            transcript.summary()
        );
        assert!(transcript.notes.contains(&Note::Encrypted));
        let unkeyed = lab.transcript("");
        assert_eq!(unkeyed.summary(), transcript.summary());
        assert!(!unkeyed.notes.iter().any(|note| matches!(note, Note::Undecryptable(_))));
    }
}

#[test]
fn a_damaged_record_ends_the_decryption_of_its_direction() {
    let mut lab = Lab::new(0x1303, true);
    for _ in 0..3 {
        lab.seal(Side::Request, 23, GET);
        lab.seal(Side::Response, 23, VALUE);
    }
    let at = lab.wire.len() - 3;
    lab.wire[at].1[20] ^= 1;
    let transcript = lab.transcript(&lab.log);
    let answered = transcript.ops.iter().filter(|op| op.name() == "GET" && op.outcome == Some(Outcome::Ok)).count();
    assert_eq!(answered, 1);
    assert!(transcript.notes.iter().any(|note| matches!(note, Note::Undecryptable(_))));
    for side in Side::BOTH {
        assert_eq!(transcript.total(side), lab.sent(side));
    }
}

#[test]
fn after_a_gap_the_next_records_are_found() {
    for (suite, is_tls13) in [(0x1302, true), (0xcca8, false)] {
        let mut lab = Lab::new(suite, is_tls13);
        for _ in 0..6 {
            lab.seal(Side::Request, 23, GET);
            lab.seal(Side::Response, 23, VALUE);
        }
        // Two requests and their answers are lost, starting inside a record.
        let first = lab.wire.len() - 12;
        let mut transcript = Transcript::default();
        let mut engine = Lab::engine(&lab.log);
        for (at, (side, bytes)) in lab.wire.iter().enumerate() {
            match at {
                _ if at == first + 2 || at == first + 3 => {
                    engine.bytes(*side, &bytes[..3], &mut transcript);
                    engine.opaque(*side, bytes.len() as u64 - 3, &mut transcript);
                }
                _ if at == first + 4 || at == first + 5 => engine.opaque(*side, bytes.len() as u64, &mut transcript),
                _ => engine.bytes(*side, bytes, &mut transcript),
            }
        }
        engine.finish(&mut transcript);
        let answered = transcript.ops.iter().filter(|op| op.name() == "GET" && op.outcome == Some(Outcome::Ok)).count();
        assert_eq!(answered, 4, "{suite:04x}: {:#?}", transcript.summary());
        for side in Side::BOTH {
            assert_eq!(transcript.total(side), lab.sent(side));
        }
    }
}

#[test]
fn keys_that_come_late_are_used_from_then_on() {
    for (suite, is_tls13) in [(0x1301, true), (0xc02f, false)] {
        let mut lab = Lab::new(suite, is_tls13);
        let begin = lab.wire.len();
        for _ in 0..3 {
            lab.seal(Side::Request, 23, GET);
            lab.seal(Side::Response, 23, VALUE);
        }
        let keys = Arc::new(KeyLog::default());
        let mut engine = ConnectionEngine::with_keys(Resp::new(false), false, Some(Arc::clone(&keys)));
        let mut transcript = Transcript::default();
        for (at, (side, bytes)) in lab.wire.iter().enumerate() {
            if at == begin + 2 {
                keys.add(lab.log.as_bytes());
            }
            engine.bytes(*side, bytes, &mut transcript);
        }
        engine.finish(&mut transcript);
        let answered = transcript.ops.iter().filter(|op| op.name() == "GET" && op.outcome == Some(Outcome::Ok)).count();
        assert_eq!(answered, 2, "{suite:04x}: {:#?}", transcript.summary());
    }
}

/// Adds the lab's secrets without their randoms, between those of other sessions.
fn add_unclaimed(keys: &KeyLog, log: &str) {
    for (at, line) in log.lines().enumerate() {
        let mut words = line.split(' ');
        let (label, secret) = (words.next().unwrap(), hex(words.nth(1).unwrap()));
        for (decoy, time_ns) in [(true, 900), (false, 1000), (true, 1000), (false, 1100)] {
            let seed = (at as u8) ^ (time_ns as u8) ^ 0x5a;
            let secret = if decoy { vec![seed; secret.len()] } else { secret.clone() };
            keys.add_secret(label, None, &secret, SecretOrigin { time_ns, object: 0 });
        }
    }
}

/// A talk in each suite, and what keys show of it.
fn talks() -> impl Iterator<Item = (Lab, Transcript)> {
    SUITES.into_iter().map(|(suite, is_tls13)| {
        let mut lab = Lab::new(suite, is_tls13);
        for _ in 0..3 {
            lab.seal(Side::Request, 23, GET);
            lab.seal(Side::Response, 23, VALUE);
        }
        let opened = lab.transcript(&lab.log);
        (lab, opened)
    })
}

impl Lab {
    fn transcript_with(&self, keys: KeyLog) -> (Transcript, Arc<KeyLog>) {
        let keys = Arc::new(keys);
        let mut engine = ConnectionEngine::with_keys(Resp::new(false), false, Some(Arc::clone(&keys)));
        let mut transcript = Transcript::default();
        for (side, bytes) in &self.wire {
            engine.bytes(*side, bytes, &mut transcript);
        }
        engine.finish(&mut transcript);
        (transcript, keys)
    }
}

#[test]
fn secrets_without_random_show_what_a_key_log_shows() {
    for (lab, opened) in talks() {
        let keys = KeyLog::default();
        keys.set_time(1000);
        add_unclaimed(&keys, &lab.log);
        let (transcript, keys) = lab.transcript_with(keys);
        assert_eq!(transcript.postings, opened.postings, "{:04x}", lab.suite);
        let mut lines: Vec<_> = lab.log.lines().collect();
        let text = keys.text();
        let mut claimed: Vec<_> = text.lines().collect();
        lines.sort_unstable();
        claimed.sort_unstable();
        assert_eq!(claimed, lines, "{:04x}: each belongs to the session", lab.suite);
    }
}

#[test]
fn records_wait_for_secrets_that_come_late() {
    for (lab, opened) in talks() {
        for has_random in [true, false] {
            let keys = Arc::new(KeyLog::default());
            keys.set_time(1000);
            let (late, log, asked) = (Arc::downgrade(&keys), lab.log.clone(), AtomicU32::new(0));
            keys.set_supply(Box::new(move |frame_ns| {
                assert_eq!(frame_ns, Some(1000), "it may wait");
                let line = log.lines().nth(asked.fetch_add(1, Ordering::Relaxed) as usize / 2);
                let (Some(line), Some(keys)) = (line, late.upgrade()) else { return false };
                if has_random {
                    keys.add(line.as_bytes());
                } else {
                    add_unclaimed(&keys, line);
                }
                true
            }));
            let mut engine = ConnectionEngine::with_keys(Resp::new(false), false, Some(keys));
            let mut transcript = Transcript::default();
            for (side, bytes) in &lab.wire {
                engine.bytes(*side, bytes, &mut transcript);
            }
            engine.finish(&mut transcript);
            assert_eq!(transcript.postings, opened.postings, "{:04x}", lab.suite);
        }
    }
}

#[test]
fn records_wait_once_for_secrets_that_never_come() {
    for (lab, _) in talks() {
        let keys = KeyLog::default();
        add_unclaimed(&keys, &lab.log.replace("SECRET", "TERCES").replace("CLIENT_RANDOM", "OTHER"));
        let asked = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&asked);
        keys.set_supply(Box::new(move |frame_ns| frame_ns.is_some() && count.fetch_add(1, Ordering::Relaxed) < 9));
        let (transcript, _) = lab.transcript_with(keys);
        assert_eq!(transcript.postings, lab.transcript("").postings, "{:04x}", lab.suite);
        assert_eq!(asked.load(Ordering::Relaxed), 10, "{:04x}", lab.suite);
    }
}

#[test]
fn a_snapped_record_of_tls_12_keeps_the_length_of_its_content() {
    let mut lab = Lab::new(0xc02f, false);
    lab.seal(Side::Request, 23, GET);
    let body = [b"$3000\r\n".as_slice(), &[b'x'; 3000], b"\r\n"].concat();
    for piece in body.chunks(1500) {
        lab.seal(Side::Response, 23, piece);
    }
    lab.seal(Side::Request, 23, GET);
    lab.seal(Side::Response, 23, VALUE);
    let snapped = lab.wire.len() - 4;
    let mut transcript = Transcript::default();
    let mut engine = Lab::engine(&lab.log);
    for (at, (side, bytes)) in lab.wire.iter().enumerate() {
        if at == snapped {
            engine.bytes(*side, &bytes[..100], &mut transcript);
            engine.opaque(*side, bytes.len() as u64 - 100, &mut transcript);
        } else {
            engine.bytes(*side, bytes, &mut transcript);
        }
    }
    engine.finish(&mut transcript);
    let data: u64 = transcript.ops.iter().map(|op| op.amounts[1][Account::Data]).sum();
    assert_eq!(data, 3005, "{:#?}", transcript.summary());
}

#[test]
fn labels_tell_directions_apart() {
    let keys = KeyLog::default();
    let lab = Lab::new(0x1301, true);
    keys.add(lab.log.as_bytes());
    assert_ne!(keys.get(SecretLabel::ClientTraffic, &CLIENT), keys.get(SecretLabel::ServerTraffic, &CLIENT));
}

proptest! {
    /// The session is the same for any division of content into records and records into segments.
    #[test]
    fn cuts_do_not_matter(
        suite in prop::sample::select(SUITES.to_vec()),
        records in prop::collection::vec(1usize..60, 1..12),
        segments in prop::collection::vec(1usize..90, 1..12),
        commands in 1usize..12,
    ) {
        let (requests, responses) = (GET.repeat(commands), VALUE.repeat(commands));
        let mut lab = Lab::new(suite.0, suite.1);
        for (side, bytes) in [(Side::Request, &requests), (Side::Response, &responses)] {
            let mut rest = bytes.as_slice();
            for len in records.iter().cycle() {
                if rest.is_empty() { break }
                let (now, after) = rest.split_at(rest.len().min(*len));
                lab.seal(side, 23, now);
                rest = after;
            }
        }
        let mut transcript = Transcript::default();
        let mut engine = Lab::engine(&lab.log);
        let mut cuts = segments.iter().cycle();
        for (side, bytes) in &lab.wire {
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                let (now, after) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
                engine.bytes(*side, now, &mut transcript);
                rest = after;
            }
        }
        engine.finish(&mut transcript);
        let plain = Transcript::of(Resp::new(false), &[(Side::Request, &requests), (Side::Response, &responses)]);
        prop_assert_eq!(without_tls(&transcript), plain.summary());
        prop_assert_eq!(&transcript.postings, &lab.transcript(&lab.log).postings);
        for side in Side::BOTH {
            prop_assert_eq!(transcript.total(side), lab.sent(side));
        }
    }

    /// For any session content, nothing panics and every byte is posted once.
    #[test]
    fn damage_is_survived(
        suite in prop::sample::select(SUITES.to_vec()),
        flips in prop::collection::vec((0usize..4000, any::<u8>()), 1..6),
    ) {
        let mut lab = Lab::new(suite.0, suite.1);
        for _ in 0..4 {
            lab.seal(Side::Request, 23, &GET.repeat(3)[..60]);
            lab.seal(Side::Response, 23, VALUE);
        }
        let total: usize = lab.wire.iter().map(|(_, bytes)| bytes.len()).sum();
        for (at, byte) in flips {
            let mut at = at % total;
            for (_, bytes) in &mut lab.wire {
                if at < bytes.len() {
                    bytes[at] ^= byte;
                    break;
                }
                at -= bytes.len();
            }
        }
        let transcript = lab.transcript(&lab.log);
        for side in Side::BOTH {
            prop_assert_eq!(transcript.total(side), lab.sent(side));
        }
    }
}

/// Returns a new connection of this protocol, with TLS but without keys.
fn layered<D: Decoder>(decoder: D) -> LayeredDecoder<D> {
    LayeredDecoder::new(decoder, false, None)
}

const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

#[test]
fn encryption_asked_for_and_accepted() {
    let hello = [22, 3, 1, 0, 2, 1, 0];
    let data = [23, 3, 3, 0, 3, 9, 9, 9];
    let conversation: [(Side, &[u8]); 4] =
        [(Side::Request, &SSL_REQUEST), (Side::Response, b"S"), (Side::Request, &hello), (Side::Response, &data)];
    assert_eq!(
        check(|| layered(Pgwire::sharing(false, &SharedContext::default())), &conversation).summary(),
        [
            "setup SSLREQUEST [] ok: framing 8 | status 1",
            "setup TLS [] ok: tls 7 | ",
            "unmatched (encrypted) [] open:  | tls 5, unknown 3",
        ]
    );
}

#[test]
fn encryption_without_a_request() {
    let hello = [&[22, 3, 1, 0, 42, 1, 0, 0, 38][..], &[7; 38]].concat();
    let transcript = check(|| layered(Pgwire::sharing(false, &SharedContext::default())), &[(Side::Request, &hello)]);
    assert_eq!(transcript.summary(), ["setup TLS [] open: tls 47 | "]);
}

#[test]
fn a_client_hello_is_not_taken_for_an_inline_command() {
    let hello = [22u8, 3, 1, 0, 5, 1, 0, 0, 1, 3];
    let transcript = check(|| layered(Resp::new(false)), &[(Side::Request, &hello)]);
    assert!(transcript.notes.contains(&Note::Tls), "{:?}", transcript.notes);
}

#[test]
fn a_client_hello_is_not_taken_for_a_message_with_a_length() {
    let hello = [22, 3, 1, 0, 8, 1, 0, 0, 4, 3, 3, 0, 0];
    let transcript = check(|| layered(Mongo::sharing(false, &SharedContext::default())), &[(Side::Request, &hello)]);
    assert_eq!(transcript.ops[0].name(), "TLS");
}

/// A connection of which captures see parts.
struct Parts {
    lab: Lab,
    sessions: Arc<KeptSessions>,
    /// TCP's numbers of the bytes that each side sends next.
    next: [u32; 2],
    /// Requests so far.
    requests: usize,
}

impl Parts {
    fn new(suite: u16) -> Self {
        let mut lab = Lab::new(suite, true);
        lab.wire.clear();
        let parts = Self { lab, sessions: Arc::default(), next: [u32::MAX - 9_000, 77], requests: 0 };
        // Another handshake of the process ends at the same time.
        for (object, [client, server]) in [(1, [[8; 48], [9; 48]]), (2, parts.lab.secrets.map(|secret| secret.bytes))] {
            let id = HandshakeId { pid: 7, object, ..HandshakeId::default() };
            let len = parts.lab.secrets[0].bytes().len();
            parts.sessions.add_secret(id, "CLIENT_TRAFFIC_SECRET_0", &client[..len], 1);
            // The numbers are those before the client's last record.
            let next = [parts.next[0] - 74, parts.next[1]];
            parts.sessions.add_connection(&id, Self::place(Self::ends(), next).swapped());
            parts.sessions.add_secret(id, "SERVER_TRAFFIC_SECRET_0", &server[..len], 1);
        }
        parts
    }

    fn place(ends: [SocketAddr; 2], next: [u32; 2]) -> ConnectionPlace {
        ConnectionPlace { network_namespace: 7, ends, next }
    }

    fn ends() -> [SocketAddr; 2] {
        ["10.0.0.9:40000", "10.0.0.1:6379"].map(|end| end.parse().unwrap())
    }

    /// Sends requests and their answers.
    fn talk(&mut self, requests: usize) -> Vec<(Side, Vec<u8>)> {
        for _ in 0..requests {
            self.requests += 1;
            let value = "x".repeat(self.requests % 37);
            self.lab.seal(
                Side::Request,
                23,
                format!("*2\r\n$3\r\nGET\r\n$3\r\n{:03}\r\n", self.requests % 1000).as_bytes(),
            );
            self.lab.seal(Side::Response, 23, format!("${}\r\n{value}\r\n", value.len()).as_bytes());
        }
        let sent = std::mem::take(&mut self.lab.wire);
        for (side, bytes) in &sent {
            let next = &mut self.next[*side as usize];
            *next = next.wrapping_add(bytes.len() as u32);
        }
        sent
    }

    /// Returns what a capture shows of the next requests: how many have an answer, and how many bytes are encrypted.
    fn capture(&mut self, requests: usize) -> (usize, u64) {
        let place = Self::place(Self::ends(), self.next);
        let keys = ConnectionKeys::new(Arc::new(KeyLog::for_part(Arc::clone(&self.sessions), 7)), Some(place));
        self.sessions.begin_capture(2);
        let mut engine = ConnectionEngine::at(Resp::new(true), true, Some(keys));
        engine.secure_midway();
        let (mut transcript, sent) = (Transcript::default(), self.talk(requests));
        for (side, bytes) in &sent {
            engine.bytes(*side, bytes, &mut transcript);
        }
        engine.finish(&mut transcript);
        let bytes: usize = sent.iter().map(|(_, bytes)| bytes.len()).sum();
        assert_eq!(Side::BOTH.map(|side| transcript.total(side)).iter().sum::<u64>(), bytes as u64);
        let gets = transcript.ops.iter().filter(|op| op.name() == "GET" && op.outcome == Some(Outcome::Ok)).count();
        let encrypted = transcript.ops.iter().filter(|op| op.name() == ENCRYPTED);
        (gets, encrypted.flat_map(|op| op.amounts).map(|side| side[Account::Unknown]).sum())
    }
}

#[test]
fn captures_of_parts_find_the_numbers_of_records() {
    for suite in [0x1301, 0x1302, 0x1303] {
        let mut parts = Parts::new(suite);
        for unseen in [400, 0, 900, 3] {
            parts.talk(unseen);
            assert_eq!(parts.capture(5), (5, 0), "{suite:04x}, after {unseen}");
        }
        assert_eq!(parts.sessions.counts(), KeptCounts { kept: 1, ..KeptCounts::default() });
        parts.sessions.erase(Parts::place(Parts::ends(), [0; 2]));
        assert!(matches!(parts.capture(5), (0, 1..)), "its keys are erased");
        assert_eq!(parts.sessions.counts(), KeptCounts::default());
    }
}

#[test]
fn without_its_secrets_a_part_is_encrypted() {
    let mut parts = Parts::new(0x1301);
    parts.sessions.erase_all();
    assert!(matches!(parts.capture(5), (0, 1..)));
    assert_eq!(parts.sessions.counts(), KeptCounts::default(), "that is no miss");
}

#[test]
fn a_key_update_in_a_part_is_kept_and_one_between_parts_is_a_miss() {
    let mut parts = Parts::new(0x1302);
    parts.talk(20);
    parts.lab.update(Side::Request);
    assert_eq!(parts.capture(5), (5, 0), "the first record is the update");
    parts.talk(20);
    assert_eq!(parts.capture(5), (5, 0));
    parts.lab.update(Side::Response);
    parts.talk(20);
    for misses in 1..=limits::KEPT_MISSES {
        assert!(matches!(parts.capture(1), (0, 1..)));
        assert_eq!(parts.sessions.counts().missed, u64::from(misses));
    }
    assert_eq!(parts.sessions.counts().kept, 0, "its keys are given up");
}

#[test]
fn objects_that_are_used_again_have_new_secrets() {
    let sessions = KeptSessions::default();
    let id = HandshakeId { pid: 7, object: 1, ..HandshakeId::default() };
    let ends = |port| [SocketAddr::from(([10, 0, 0, 9], port)), Parts::ends()[1]];
    for (port, seed) in [(1, 10), (2, 20)] {
        sessions.add_secret(id, "CLIENT_TRAFFIC_SECRET_0", &[seed; 32], 1);
        sessions.add_connection(&id, Parts::place(ends(port), [0; 2]));
    }
    let book = format!("{sessions:?}");
    assert!(!book.contains("10, 10") && book.contains("32 secret bytes"), "{book}");
    sessions.erase(Parts::place(ends(1), [0; 2]));
    assert_eq!(sessions.counts().kept, 1);
}

#[test]
fn each_network_namespace_has_loopback_connections_of_its_own() {
    let sessions = KeptSessions::default();
    let id = HandshakeId { pid: 7, object: 1, ..HandshakeId::default() };
    sessions.add_secret(id, "CLIENT_TRAFFIC_SECRET_0", &[1; 32], 1);
    let place = |network_namespace, client: [u8; 4]| {
        let ends = [SocketAddr::from((client, 40_000)), SocketAddr::from(([127, 0, 0, 1], 6379))];
        ConnectionPlace { network_namespace, ends, next: [0; 2] }
    };
    sessions.add_connection(&id, place(7, [127, 0, 0, 1]));
    sessions.add_connection(&id, place(8, [127, 0, 0, 1]));
    sessions.erase(place(9, [127, 0, 0, 1]));
    assert_eq!(sessions.counts().kept, 2);
    sessions.erase(place(8, [127, 0, 0, 1]));
    assert_eq!(sessions.counts().kept, 1);
}
