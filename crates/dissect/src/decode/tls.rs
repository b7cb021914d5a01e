//! TLS records (RFC 8446 section 5, RFC 5246 section 6.2), without their keys.
//!
//! ```text
//! type u8 | legacy version u16 | length u16 | fragment
//! ```

use super::{Boundary, Cursor, Decoder, Input, Malformed, Note, OpId, Out, Reader, Short, Step};
use overhead_model::{Account, Class, Outcome, Side};

const HEADER: u64 = 5;
/// 2^14 plus the largest expansion that TLS 1.2 allows.
const MAX_FRAGMENT: u16 = (1 << 14) + 2048;

const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const APPLICATION_DATA: u8 = 23;

/// True where `bytes` begin a TLS handshake record that carries a `ClientHello`.
pub(crate) fn is_client_hello(bytes: &[u8]) -> bool {
    matches!(bytes, [22, 3, 0..=4, _, _, 1, ..])
}

/// Both directions of an encrypted connection.
#[derive(Debug, Default)]
pub(super) struct Tls {
    handshake: Option<OpId>,
    handshake_over: bool,
    encrypted: Option<OpId>,
}

impl Tls {
    /// The operation that a record of this type belongs to.
    fn charge<R: Reader>(&mut self, kind: u8, out: &mut Out<'_, R>) {
        if kind == APPLICATION_DATA || self.handshake_over {
            let op = *self.encrypted.get_or_insert_with(|| out.orphan("(encrypted)"));
            out.charge(op);
        } else {
            let op = *self.handshake.get_or_insert_with(|| {
                let op = out.open();
                out.label(op, Class::Setup, "TLS", "");
                op
            });
            out.charge(op);
        }
    }

    /// The handshake is over with the server's first protected record, or with its alert.
    fn settle<R: Reader>(&mut self, side: Side, kind: u8, out: &mut Out<'_, R>) {
        let outcome = match kind {
            APPLICATION_DATA => Outcome::Ok,
            ALERT => Outcome::Error,
            _ => return,
        };
        if side == Side::Response && !self.handshake_over {
            self.handshake_over = true;
            if let Some(op) = self.handshake {
                out.close(op, outcome);
            }
        }
    }
}

fn record<R: Reader>(kind: u8, cursor: &mut Cursor<'_, '_, '_, R>) -> Result<(), Short> {
    cursor.skip(1, Account::Tls, "record type")?;
    cursor.skip(2, Account::Tls, "record version")?;
    cursor.skip(2, Account::Tls, "record length")?;
    match kind {
        APPLICATION_DATA => cursor.rest(Account::Unknown, "ciphertext"),
        CHANGE_CIPHER_SPEC => cursor.rest(Account::Tls, "change cipher spec"),
        ALERT => cursor.rest(Account::Tls, "alert"),
        _ => cursor.rest(Account::Tls, "handshake"),
    }
    Ok(())
}

impl Decoder for Tls {
    fn step<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> Result<Step, Malformed> {
        let &[kind, major, _, high, low, ..] = input.bytes else {
            return if input.opaque > 0 {
                Err(Malformed("a TLS record header that was not captured"))
            } else {
                Ok(Step::More)
            };
        };
        let length = u16::from_be_bytes([high, low]);
        if !(CHANGE_CIPHER_SPEC..=24).contains(&kind) || major != 3 || length > MAX_FRAGMENT {
            return Err(Malformed("not a TLS record"));
        }
        let total = HEADER + u64::from(length);
        if input.available() < total {
            return Ok(Step::Need(total));
        }
        out.note(Note::Tls);
        self.settle(side, kind, out);
        self.charge(kind, out);
        let mut cursor = Cursor::new(input, total, out);
        let _ = record(kind, &mut cursor);
        cursor.finish();
        Ok(Step::Progress)
    }

    fn boundary(&self, _: Side, bytes: &[u8]) -> Boundary {
        match bytes {
            [20..=24, 3, 0..=4, ..] => Boundary::Yes,
            [_, _, _, ..] => Boundary::No,
            _ => Boundary::More,
        }
    }

    fn lost<R: Reader>(&mut self, _: Side, _: &mut Out<'_, R>) {}
}
