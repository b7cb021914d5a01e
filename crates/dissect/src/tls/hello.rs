//! The parts of handshake messages that records depend on (RFC 8446 section 4, RFC 5246 section 7.4).
//!
//! ```text
//! type u8 | length u24 | body
//! ClientHello: version u16 | random 32 | …
//! ServerHello: version u16 | random 32 | session id u8 + n | cipher suite u16 | compression u8 | extensions u16 + n
//! ```

use super::keylog::ClientRandom;
use crate::limits;
use overhead_decode::MessageBoundary;

const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const END_OF_EARLY_DATA: u8 = 5;
const FINISHED: u8 = 20;
const KEY_UPDATE: u8 = 24;

const ENCRYPT_THEN_MAC: u16 = 22;
const SUPPORTED_VERSIONS: u16 = 43;
/// Also that of TLS 1.3 in this place.
const TLS12: [u8; 2] = [3, 3];
const TLS13: u16 = 0x0304;

/// The random of a `HelloRetryRequest`, which has the form of a `ServerHello`.
const RETRY: ClientRandom = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2, 0xa2, 0x11,
    0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// Returns whether a new connection starts with a record that carries a `ClientHello`. This takes nine bytes: the start of a
/// MongoDB message can look the same up to the length of the handshake message, which is 0 there.
pub(crate) fn client_hello(bytes: &[u8]) -> MessageBoundary {
    match bytes {
        [22, 3, 0..=4, _, _, CLIENT_HELLO, high, middle, low, ..] => {
            MessageBoundary::yes_if(*high == 0 && [*middle, *low] != [0, 0])
        }
        [22, 3, 0..=4, behind @ ..] => MessageBoundary::more_if(behind.get(2).is_none_or(|kind| *kind == CLIENT_HELLO)),
        [22, 3] | [22] => MessageBoundary::More,
        _ => MessageBoundary::No,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServerHello {
    pub random: ClientRandom,
    /// 0 before TLS 1.2, which derives other keys.
    pub suite: u16,
    pub is_tls13: bool,
    /// The MACs of CBC suites cover encrypted records (RFC 7366).
    pub encrypts_then_macs: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandshakeMessage {
    ClientHello(ClientRandom),
    ServerHello(ServerHello),
    EndOfEarlyData,
    Finished,
    KeyUpdate,
    Other,
}

/// Splits the handshake of one direction into messages, which may span records.
#[derive(Debug, Default)]
pub(super) struct HandshakeScanner {
    header: [u8; 4],
    /// Bytes of `header` received.
    begun: usize,
    /// Bytes of the body still to come.
    left: usize,
    body: Vec<u8>,
}

impl HandshakeScanner {
    /// Consumes `bytes` up to the end of the next message; `None` if that is not reached.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Option<HandshakeMessage> {
        while self.begun < self.header.len() {
            let (&byte, rest) = bytes.split_first()?;
            *self.header.get_mut(self.begun)? = byte;
            *bytes = rest;
            self.begun += 1;
            let [_, high, middle, low] = self.header;
            self.left = u32::from_be_bytes([0, high, middle, low]) as usize;
        }
        let (here, rest) = bytes.split_at(self.left.min(bytes.len()));
        *bytes = rest;
        self.left -= here.len();
        let kind = self.header[0];
        if matches!(kind, CLIENT_HELLO | SERVER_HELLO) {
            let room = limits::HELLO.saturating_sub(self.body.len()).min(here.len());
            self.body.extend_from_slice(here.get(..room).unwrap_or_default());
        }
        if self.left > 0 {
            return None;
        }
        self.begun = 0;
        let body = std::mem::take(&mut self.body);
        Some(read(kind, &body))
    }

    /// Starts over after a loss.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

fn read(kind: u8, body: &[u8]) -> HandshakeMessage {
    let hello = match kind {
        CLIENT_HELLO => body.get(2..34).and_then(|random| random.try_into().ok()).map(HandshakeMessage::ClientHello),
        SERVER_HELLO => server_hello(body).filter(|hello| hello.random != RETRY).map(HandshakeMessage::ServerHello),
        END_OF_EARLY_DATA => Some(HandshakeMessage::EndOfEarlyData),
        FINISHED => Some(HandshakeMessage::Finished),
        KEY_UPDATE => Some(HandshakeMessage::KeyUpdate),
        _ => None,
    };
    hello.unwrap_or(HandshakeMessage::Other)
}

fn server_hello(body: &[u8]) -> Option<ServerHello> {
    let (version, rest) = body.split_first_chunk::<2>()?;
    let (random, rest) = rest.split_first_chunk::<32>()?;
    let (&session, rest) = rest.split_first()?;
    let (suite, rest) = rest.get(usize::from(session)..)?.split_first_chunk::<2>()?;
    let mut extensions = rest.get(3..).unwrap_or_default();
    let (mut is_tls13, mut encrypts_then_macs) = (false, false);
    while let Some((&[kind_high, kind_low, high, low], rest)) = extensions.split_first_chunk::<4>() {
        let length = usize::from(u16::from_be_bytes([high, low]));
        let Some(value) = rest.get(..length) else { break };
        match u16::from_be_bytes([kind_high, kind_low]) {
            SUPPORTED_VERSIONS => is_tls13 = value == TLS13.to_be_bytes(),
            ENCRYPT_THEN_MAC => encrypts_then_macs = true,
            _ => {}
        }
        extensions = rest.get(length..).unwrap_or_default();
    }
    let suite = if *version == TLS12 { u16::from_be_bytes(*suite) } else { 0 };
    Some(ServerHello { random: *random, suite, is_tls13, encrypts_then_macs })
}
