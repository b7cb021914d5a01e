//! Replaces names, secrets and random data in TLS handshake messages (RFC 5246 section 7.4, RFC 8446 section 4), and keeps
//! what controls the connection. No key log matches afterwards.

use crate::fill::Filler;

const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
/// Extensions whose content stays: groups, signatures, versions and flags.
const PUBLIC_EXTENSIONS: [u16; 10] = [5, 10, 11, 13, 22, 23, 43, 45, 50, 0xff01];
/// Server name (RFC 6066 section 3).
const SERVER_NAME: u16 = 0;
/// ALPN protocols, each with its length before it (RFC 7301 section 3.1).
const PROTOCOLS: u16 = 16;
const KNOWN_PROTOCOLS: [&[u8]; 5] = [b"h2", b"http/1.1", b"http/1.0", b"postgresql", b"mongodb"];
/// Start of the random bytes of a `HelloRetryRequest` (RFC 8446 section 4.1.3).
const RETRY: [u8; 8] = [0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11];

/// Replaces the handshake messages in a record. Anything else is replaced as a whole.
pub fn handshake(filler: &Filler, mut bytes: &mut [u8]) {
    loop {
        let &[kind @ (0..=24 | 254), high, middle, low, ..] = &*bytes else { return filler.binary(bytes) };
        let len = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        if bytes.len() < 4 + len {
            // The header of a certificate that continues in the next record.
            let is_begun = matches!(kind, 4 | 11 | 12 | 13 | 22) && len < 1 << 17;
            return filler.binary(bytes.get_mut(if is_begun { 4 } else { 0 }..).unwrap_or_default());
        }
        let (message, behind) = bytes.split_at_mut(4 + len);
        let body = message.get_mut(4..).unwrap_or_default();
        match kind {
            CLIENT_HELLO | SERVER_HELLO => hello(filler, body, kind == CLIENT_HELLO),
            _ => filler.binary(body),
        }
        if behind.is_empty() {
            return;
        }
        bytes = behind;
    }
}

/// Version, random, session id; cipher suites and compression methods, or the server's choice; extensions.
fn hello(filler: &Filler, body: &mut [u8], is_clients: bool) {
    let Some((head, rest)) = body.split_at_mut_checked(35) else { return filler.binary(body) };
    let random = head.get_mut(2..34).unwrap_or_default();
    if !random.starts_with(&RETRY) {
        filler.binary(random);
    }
    let session = usize::from(head.last().copied().unwrap_or_default());
    let Some((id, rest)) = rest.split_at_mut_checked(session) else { return filler.binary(rest) };
    filler.binary(id);
    let mut at = if is_clients { 2 + length(rest) } else { 2 };
    at += if is_clients { 1 + usize::from(rest.get(at).copied().unwrap_or_default()) } else { 1 };
    extensions(filler, rest.get_mut(at + 2..).unwrap_or_default());
}

fn extensions(filler: &Filler, mut bytes: &mut [u8]) {
    while let &[a, b, high, low, ..] = &*bytes {
        let (kind, len) = (u16::from_be_bytes([a, b]), usize::from(u16::from_be_bytes([high, low])));
        if bytes.len() < 4 + len {
            break;
        }
        let (extension, behind) = bytes.split_at_mut(4 + len);
        let content = extension.get_mut(4..).unwrap_or_default();
        match kind {
            SERVER_NAME => filler.text(content.get_mut(5..).unwrap_or_default()),
            PROTOCOLS => protocols(filler, content.get_mut(2..).unwrap_or_default()),
            _ if PUBLIC_EXTENSIONS.contains(&kind) => {}
            _ => filler.binary(content),
        }
        bytes = behind;
    }
    filler.binary(bytes);
}

fn protocols(filler: &Filler, mut bytes: &mut [u8]) {
    while let Some((len, rest)) = bytes.split_first_mut() {
        let len = usize::from(*len).min(rest.len());
        let (name, behind) = rest.split_at_mut(len);
        if !KNOWN_PROTOCOLS.contains(&&*name) {
            filler.data(name);
        }
        bytes = behind;
    }
}

fn length(bytes: &[u8]) -> usize {
    bytes.first_chunk().map_or(0, |length| usize::from(u16::from_be_bytes(*length)))
}
