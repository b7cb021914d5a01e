//! Messages of the binary protocol: a header of 24 bytes, extras, a key, a value.

use super::opcodes::{self, BinaryExtras, BinaryOpcode};
use super::pair::{MemcachePending, MemcacheReplyTarget, MemcacheRequestKind, is_same};
use super::{IncompleteRequest, Memcache, MemcacheStage, PartialValue, reply, wire};
use overhead_decode::{Cursor, DecodeStep, FieldRead, Free, Input, Malformed, MaybeStep, Out, Reader, Step};
use overhead_model::{Account, Outcome, Side};

const HEADER: u64 = 24;

/// Longest version text of a server.
const VERSION: u64 = 256;

#[derive(Clone, Copy, Debug)]
struct Header {
    opcode: u8,
    key: u64,
    extras: u64,
    /// Only in replies.
    status: u16,
    /// Length of extras, key and value together.
    body: u64,
    opaque: u32,
}

impl Header {
    fn read(bytes: &[u8]) -> Option<Self> {
        let &[_, opcode, k0, k1, extras, _, s0, s1, b0, b1, b2, b3, o0, o1, o2, o3] = bytes.first_chunk::<16>()?;
        Some(Self {
            opcode,
            key: u64::from(u16::from_be_bytes([k0, k1])),
            extras: u64::from(extras),
            status: u16::from_be_bytes([s0, s1]),
            body: u64::from(u32::from_be_bytes([b0, b1, b2, b3])),
            opaque: u32::from_be_bytes([o0, o1, o2, o3]),
        })
    }

    fn value(&self) -> u64 {
        self.body - self.extras - self.key
    }

    /// Returns the id that pairs a reply with its request; see [`MemcachePending::id`].
    fn id(&self, bytes: &[u8]) -> u64 {
        let key = self.key(bytes);
        let repeated = if key.is_empty() || !opcodes::repeats_key(self.opcode) { 0 } else { wire::fingerprint(key) };
        repeated << 32 | u64::from(self.opaque)
    }

    /// Returns the key; empty if it was not captured completely.
    fn key<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let behind = bytes.get((HEADER + self.extras) as usize..).unwrap_or_default();
        behind.get(..self.key as usize).unwrap_or_default()
    }
}

impl Memcache {
    /// Decodes header, extras and key; the value is posted separately.
    pub(super) fn binary<R: Reader>(&mut self, input: &mut Input<'_>, out: &mut Out<'_, R>) -> MaybeStep {
        let Some(header) = Header::read(input.bytes) else {
            return input.await_more("a header that was not captured").map(Some);
        };
        if header.body < header.key + header.extras {
            return Err(Malformed("a body shorter than its parts"));
        }
        let is_version = out.side() == Side::Response && header.opcode == opcodes::VERSION && header.value() <= VERSION;
        let total = HEADER + if is_version { header.body } else { header.extras + header.key };
        if input.available() < total {
            return Ok(Some(Step::Need(total)));
        }
        match out.side() {
            Side::Request => self.binary_request(header, *input, out)?,
            Side::Response => self.binary_answer(header, is_version, *input, out),
        }
        input.advance(total);
        Ok(None)
    }

    fn binary_request<R: Reader>(&mut self, header: Header, input: Input<'_>, out: &mut Out<'_, R>) -> DecodeStep<()> {
        let BinaryOpcode { name, quiet, extras } = opcodes::from_code(header.opcode);
        let op = out.open();
        out.charge(op);
        let mut cursor = Cursor::new(input, HEADER + header.extras + header.key, out);
        let _ = post_header(Side::Request, &mut cursor).and_then(|()| post_extras(extras, header.extras, &mut cursor));
        let is_sasl = opcodes::is_sasl(header.opcode);
        let (account, field) = if is_sasl { (Account::Metadata, "mechanism") } else { (Account::Data, "key") };
        self.keys.clear();
        let is_looked_at = header.key > 0 && !is_sasl && cursor.out().wants_statements();
        if is_looked_at {
            let key = input.bytes.get((HEADER + header.extras) as usize..).unwrap_or_default();
            let key = key.get(..header.key as usize).unwrap_or(key);
            self.keys.push_piece(key, header.key);
            self.keys.end_pieces();
        }
        let free = if is_looked_at { Free::Digits } else { Free::Any };
        post_key(&header, account, field, free, &mut cursor);
        cursor.finish();
        let id = header.id(input.bytes);
        let key = if quiet { wire::fingerprint(header.key(input.bytes)) } else { 0 };
        let ask = MemcacheRequestKind::Binary(header.opcode);
        let pending = MemcachePending { quiet, id, key, ..MemcachePending::new(op, ask) };
        self.pairing.push(pending, out)?;
        self.sent = Some(IncompleteRequest { op, name, is_silent: false, answered: None });
        let account = if is_sasl { Account::Metadata } else { Account::Data };
        self.begin(header.value(), account, out);
        Ok(())
    }

    fn binary_answer<R: Reader>(&mut self, header: Header, is_version: bool, input: Input<'_>, out: &mut Out<'_, R>) {
        let (ask, id) = (MemcacheRequestKind::Binary(header.opcode), header.id(input.bytes));
        if self.target.is_some_and(|target| !target.is_orphan && (target.ask != ask || !is_same(target.id, id))) {
            self.end_reply(out);
        }
        let target = match self.target {
            Some(target) => target,
            None => self.pairing.binary_answer((header.opcode, id), &mut self.sent, out),
        };
        out.charge(target.op);
        let is_error = opcodes::is_error(header.status);
        self.target =
            Some(MemcacheReplyTarget { outcome: if is_error { Outcome::Error } else { Outcome::Ok }, ..target });
        let mut cursor = Cursor::new(input, HEADER + header.extras + header.key, out);
        let _ = post_header(Side::Response, &mut cursor);
        let _ = cursor.skip_free(header.extras, Account::Metadata, "client flags", Free::Any);
        post_key(&header, Account::Data, "key", Free::Any, &mut cursor);
        cursor.finish();
        let has_status = header.status != 0 || opcodes::counts(header.opcode);
        let account = match header.opcode {
            opcode if opcodes::is_sasl(opcode) => Account::Metadata,
            _ if has_status => Account::Status,
            _ => Account::Data,
        };
        if is_version {
            let value = input.bytes.get((HEADER + header.extras + header.key) as usize..).unwrap_or_default();
            let value = value.get(..header.value() as usize).filter(|_| header.status == 0);
            out.post(account, "value", header.value());
            reply::report_version(value, out);
            return self.end_reply(out);
        }
        let goes_on = header.opcode == opcodes::STATS && header.status == 0 && header.body > 0;
        if goes_on && header.value() == 0 {
            return;
        }
        self.begin(header.value(), account, out);
        if goes_on && let MemcacheStage::Value(value) = &mut self.stages[1] {
            value.is_last = false;
        }
    }

    /// Starts the value; without one, ends the message.
    fn begin<R: Reader>(&mut self, left: u64, account: Account, out: &mut Out<'_, R>) {
        let side = out.side();
        if left > 0 {
            self.stages[side as usize] =
                MemcacheStage::Value(PartialValue { left, account, has_end: false, is_last: true });
        } else if side == Side::Request {
            self.end_request(out);
        } else {
            self.end_reply(out);
        }
    }
}

/// Posts the key of a message; its content matters if it pairs replies with requests.
fn post_key<R: Reader>(
    header: &Header,
    account: Account,
    field: &'static str,
    free: Free,
    cursor: &mut Cursor<'_, '_, '_, R>,
) {
    cursor.out().set_read(opcodes::repeats_key(header.opcode) || opcodes::from_code(header.opcode).quiet);
    let _ = cursor.skip_free(header.key, account, field, free);
    cursor.out().set_read(false);
}

fn post_header<R: Reader>(side: Side, cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
    cursor.skip(1, Account::Framing, "magic")?;
    cursor.skip(1, Account::Query, "opcode")?;
    cursor.skip(4, Account::Framing, "lengths")?;
    match side {
        Side::Request => cursor.skip_free(2, Account::Metadata, "vbucket", Free::Any)?,
        Side::Response => cursor.skip(2, Account::Status, "status")?,
    }
    cursor.skip(4, Account::Framing, "body length")?;
    cursor.skip_free(4, Account::Metadata, "opaque", Free::Id(0xff))?;
    cursor.skip_free(8, Account::Metadata, "CAS", Free::Any)
}

fn post_extras<R: Reader>(extras: BinaryExtras, len: u64, cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
    match (extras, len) {
        (BinaryExtras::Store, 8) => {
            cursor.skip_free(4, Account::Metadata, "client flags", Free::Any)?;
            cursor.skip_free(4, Account::Data, "time to live", Free::Any)
        }
        (BinaryExtras::Count, 20) => {
            cursor.skip_free(16, Account::Data, "delta", Free::Any)?;
            cursor.skip_free(4, Account::Data, "time to live", Free::Any)
        }
        (BinaryExtras::Time, 4) => cursor.skip_free(4, Account::Data, "time to live", Free::Any),
        _ => cursor.skip_free(len, Account::Metadata, "extras", Free::Any),
    }
}
