//! TLS records without their keys (RFC 8446 section 5, RFC 5246 section 6.2).
//!
//! ```text
//! type u8 | legacy version u16 | length u16 | fragment
//! ```

use overhead_decode::{Cursor, Input, Malformed, MessageBoundary, Note, OpId, Out, Reader, Short};
use overhead_model::{Account, Class, Outcome, Side};

/// Operation of the application data that was not decrypted.
pub const ENCRYPTED: &str = "(encrypted)";
const HEADER: u64 = 5;
/// 2^14 plus the largest expansion that TLS 1.2 allows.
const MAX_FRAGMENT: u16 = (1 << 14) + 2048;

pub(super) const CHANGE_CIPHER_SPEC: u8 = 20;
pub(super) const ALERT: u8 = 21;
pub(super) const HANDSHAKE: u8 = 22;
pub(super) const APPLICATION_DATA: u8 = 23;
const HEARTBEAT: u8 = 24;

/// Returns the common name of TLS content of this type, other than application data.
pub(super) fn content_name(kind: u8) -> &'static str {
    match kind {
        CHANGE_CIPHER_SPEC => "change cipher spec",
        ALERT => "alert",
        APPLICATION_DATA => "application data",
        _ => "handshake",
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RecordHeader {
    pub bytes: [u8; 5],
}

impl RecordHeader {
    /// Reads a header; `None` if it is incomplete.
    pub fn read(input: Input<'_>) -> Result<Option<Self>, Malformed> {
        let Some(&bytes) = input.bytes.first_chunk() else {
            return if input.opaque > 0 {
                Err(Malformed("a TLS record header that was not captured"))
            } else {
                Ok(None)
            };
        };
        if is_header(bytes) { Ok(Some(Self { bytes })) } else { Err(Malformed("not a TLS record")) }
    }

    pub fn kind(self) -> u8 {
        self.bytes[0]
    }

    pub fn length(self) -> usize {
        let [.., high, low] = self.bytes;
        usize::from(u16::from_be_bytes([high, low]))
    }

    pub fn total(self) -> u64 {
        HEADER + self.length() as u64
    }

    /// Returns the captured part of the fragment.
    pub fn fragment(self, input: Input<'_>) -> &[u8] {
        let fragment = input.bytes.get(HEADER as usize..).unwrap_or_default();
        fragment.get(..self.length()).unwrap_or(fragment)
    }
}

/// Returns what TLS 1.2 authenticates before `length` bytes: number, type, version and length (RFC 5246 section 6.2.3).
pub(super) fn numbered(sequence: u64, [kind, major, minor, ..]: [u8; 5], length: usize) -> [u8; 13] {
    let [high, low] = (length as u16).to_be_bytes();
    let mut numbered = [0, 0, 0, 0, 0, 0, 0, 0, kind, major, minor, high, low];
    numbered.iter_mut().zip(sequence.to_be_bytes()).for_each(|(place, byte)| *place = byte);
    numbered
}

fn is_header([kind, major, _, high, low]: [u8; 5]) -> bool {
    (CHANGE_CIPHER_SPEC..=HEARTBEAT).contains(&kind) && major == 3 && u16::from_be_bytes([high, low]) <= MAX_FRAGMENT
}

/// Returns whether a record starts here, judging by its header.
pub(super) fn boundary(bytes: &[u8]) -> MessageBoundary {
    match bytes.first_chunk::<5>() {
        Some(&header @ [_, _, 0..=4, ..]) if is_header(header) && !header.ends_with(&[0, 0]) => MessageBoundary::Yes,
        Some(_) => MessageBoundary::No,
        None => MessageBoundary::More,
    }
}

/// The operations of the handshake, and of records that are not decrypted.
#[derive(Debug, Default)]
pub(super) struct RecordOperations {
    handshake: Option<OpId>,
    pub is_handshake_over: bool,
    encrypted: Option<OpId>,
    /// Whether each side encrypts, and whether it has sent a record of the handshake since, its last one before TLS 1.3.
    encrypts: [bool; 2],
    has_finished: [bool; 2],
    /// The client's last flight of the handshake of TLS 1.3, which needs no reply and looks like application data.
    last_flight: Option<OpId>,
    awaits_last_flight: bool,
}

impl RecordOperations {
    /// Returns the operations of a connection, perhaps met after its handshake.
    pub fn new(is_handshake_over: bool) -> Self {
        Self { is_handshake_over, ..Self::default() }
    }
    pub fn handshake<R: Reader>(&mut self, out: &mut Out<'_, R>) -> OpId {
        *self.handshake.get_or_insert_with(|| {
            let op = out.open();
            out.label(op, Class::Setup, "TLS", "");
            op
        })
    }

    /// Ends the handshake, and returns its operation if it must be closed.
    pub fn end_handshake(&mut self) -> Option<OpId> {
        if std::mem::replace(&mut self.is_handshake_over, true) { None } else { self.handshake }
    }

    pub fn post<R: Reader>(&mut self, side: Side, header: RecordHeader, input: Input<'_>, out: &mut Out<'_, R>) {
        self.settle(side, header.kind(), out);
        let is_last_flight = side == Side::Request && self.awaits_last_flight;
        let op = if is_last_flight {
            *self.last_flight.get_or_insert_with(|| out.orphan(ENCRYPTED))
        } else {
            self.operation(header.kind(), out)
        };
        out.charge(op);
        let mut cursor = Cursor::new(input, header.total(), out);
        let _ = record(header.kind(), &mut cursor);
        cursor.finish();
        if is_last_flight && header.kind() == APPLICATION_DATA {
            self.awaits_last_flight = false;
            out.close(op, Outcome::NoReply);
        }
        self.note_finished(side, header.kind(), out);
    }

    /// Ends the handshake before TLS 1.3: at the last record of the side that finishes last.
    fn note_finished<R: Reader>(&mut self, side: Side, kind: u8, out: &mut Out<'_, R>) {
        self.encrypts[side as usize] |= kind == CHANGE_CIPHER_SPEC;
        self.has_finished[side as usize] |= self.encrypts[side as usize] && kind == HANDSHAKE;
        if self.has_finished == [true; 2]
            && let Some(op) = self.end_handshake()
        {
            out.close(op, Outcome::Ok);
        }
    }

    fn operation<R: Reader>(&mut self, kind: u8, out: &mut Out<'_, R>) -> OpId {
        if kind == APPLICATION_DATA || self.is_handshake_over {
            *self.encrypted.get_or_insert_with(|| {
                out.note(Note::Encrypted);
                out.orphan(ENCRYPTED)
            })
        } else {
            self.handshake(out)
        }
    }

    /// Ends the handshake of TLS 1.3 at the server's first protected record, or any at its alert.
    fn settle<R: Reader>(&mut self, side: Side, kind: u8, out: &mut Out<'_, R>) {
        let outcome = match kind {
            APPLICATION_DATA => Outcome::Ok,
            ALERT => Outcome::Error,
            _ => return,
        };
        if side == Side::Response
            && let Some(op) = self.end_handshake()
        {
            out.close(op, outcome);
            self.awaits_last_flight = kind == APPLICATION_DATA;
        }
    }
}

fn record<R: Reader>(kind: u8, cursor: &mut Cursor<'_, '_, '_, R>) -> Result<(), Short> {
    cursor.skip(1, Account::Tls, "record type")?;
    cursor.skip(2, Account::Tls, "record version")?;
    cursor.skip(2, Account::Tls, "record length")?;
    match kind {
        APPLICATION_DATA => cursor.rest(Account::Unknown, "ciphertext"),
        kind => cursor.rest(Account::Tls, content_name(kind)),
    }
    Ok(())
}
