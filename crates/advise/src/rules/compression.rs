//! Compression that enlarges messages, or would save bytes.

use super::percent;
use crate::finding::{AdviceFinding, ByteEvidence, Certainty, Example, Remedy, remedies};
use crate::limits;
use crate::rule::{Compressor, Rule};
use crate::seen::{SeenField, SeenOperation, SeenRow, SeenTraffic};
use flate2::{Compress, Compression, FlushCompress, Status};
use overhead_model::{Account, Protocol, Side};
use std::collections::{BTreeMap, HashMap};

/// Minimum number of messages.
const MESSAGES: u64 = 10;
/// Minimum saving that is worth the CPU time, in percent of the row's bytes.
const SHARE: f64 = 10.0;
/// Default of MongoDB (`zstdCompressionLevel`) and `MySQL` (`zstd_compression_level`).
const LEVEL: i32 = 3;

/// Compresses messages as the protocol would.
pub struct MessageCompression {
    /// If set, thresholds do not apply.
    asked: Option<Compressor>,
    tried: u64,
    /// Uncompressed lengths of open operations.
    sizes: HashMap<u64, [u64; 2]>,
    rows: BTreeMap<(usize, Side), MessageSizes>,
}

#[derive(Default)]
struct MessageSizes {
    /// Messages that are uncompressed on the wire, and their bytes; bytes tried, and their compressed size.
    messages: u64,
    bytes: u64,
    tried: u64,
    compressed: u64,
    /// Messages that are compressed on the wire: number, bytes, and bytes before compression.
    on_wire: (u64, u64, u64),
    example: Option<Example>,
}

const CQL: &[Remedy] = remedies! {
    "scylla (Rust), gocql": "SessionBuilder::compression(Some(Compression::Lz4)); ClusterConfig.Compressor (nil to switch it off)",
    "DataStax Java, Python": "advanced.protocol.compression = lz4 (none); Cluster(compression='lz4') (False)",
};
const MONGO: &[Remedy] = remedies! {
    "connection string": "compressors=zstd,snappy (leave it out to switch it off)",
};
const MYSQL: &[Remedy] = remedies! {
    "MySQL, MariaDB": "useCompression=true (Connector/J), --compress: zlib",
    "MySQL 8.0.18": "--compression-algorithms=zstd, for less CPU time; uncompressed to switch it off",
};

impl MessageCompression {
    /// Uses the protocol's usual compressor by default.
    pub fn new(asked: Option<Compressor>) -> Self {
        Self { asked, tried: 0, sizes: HashMap::new(), rows: BTreeMap::new() }
    }

    fn compressor(&self, protocol: Protocol) -> Compressor {
        self.asked.unwrap_or(match protocol {
            Protocol::Cql => Compressor::Lz4,
            // MariaDB has no other.
            Protocol::Mysql => Compressor::Zlib,
            _ => Compressor::Zstd,
        })
    }

    fn add_uncompressed(&mut self, closed: &SeenOperation<'_>, side: Side) {
        let direction = &closed.directions[side as usize];
        let protocol = closed.row.protocol;
        let Some((header, added)) = message_framing(protocol, &direction.message) else { return };
        let body = direction.message.get(header..).unwrap_or_default();
        let compressor = self.compressor(protocol);
        let tries = self.tried < limits::COMPRESSED;
        let sizes = self.rows.entry((closed.row.number, side)).or_default();
        sizes.messages += 1;
        sizes.bytes += direction.message.len() as u64;
        sizes.example.get_or_insert(closed.example);
        if tries {
            self.tried += body.len() as u64;
            sizes.tried += direction.message.len() as u64;
            sizes.compressed += (header + added + compressed(protocol, compressor, body)) as u64;
        }
    }

    fn shrinks(&self, row: &SeenRow, side: Side, sizes: &MessageSizes) -> Option<AdviceFinding> {
        if sizes.tried == 0 {
            return None;
        }
        let after = (u128::from(sizes.compressed) * u128::from(sizes.bytes) / u128::from(sizes.tried)) as u64;
        let saved = sizes.bytes.cast_signed() - after.cast_signed();
        let is_much = saved > 0 && percent(saved.unsigned_abs(), row.wire()) >= SHARE && sizes.messages >= MESSAGES;
        if self.asked.is_none() && (!is_much || !row.is_workload()) {
            return None;
        }
        let (compressor, bytes) = (self.compressor(row.protocol).name(), sizes.bytes);
        let title = format!("{} {}s shrink from {bytes} B to {after} B with {compressor}", sizes.messages, side.name());
        let mut finding = AdviceFinding {
            evidence: vec![ByteEvidence { side, account: Account::Data, field: "messages".to_owned(), bytes }],
            remedies: remedies(row.protocol),
            certainty: Certainty::Modelled,
            computed: format!(
                "each message compressed here with {compressor}, with the framing that the protocol adds; accounts in proportion to their payload{}",
                if sizes.tried < sizes.bytes { "; beyond 256 MiB, at the ratio of those before" } else { "" }
            ),
            unknown: "the CPU time that it costs on both sides; frames that a shorter message does without; another implementation may differ by a few bytes",
            ..AdviceFinding::new(title, row, sizes.messages, sizes.example)
        };
        pro_rata(&mut finding, row, side, -saved);
        Some(finding)
    }

    /// Returns a finding if compressed messages are larger than uncompressed.
    fn enlarges(&self, row: &SeenRow, side: Side, sizes: &MessageSizes) -> Option<AdviceFinding> {
        let (messages, on_wire, before) = sizes.on_wire;
        let lost = on_wire.cast_signed() - before.cast_signed();
        let is_much = lost > 0 && messages >= MESSAGES;
        if !is_much && self.asked.is_none() {
            return None;
        }
        let title = format!("compression makes {on_wire} B of {before} B in {messages} {}s", side.name());
        let mut finding = AdviceFinding {
            evidence: vec![ByteEvidence { side, account: Account::Framing, field: "compressed".to_owned(), bytes: on_wire }],
            remedies: remedies(row.protocol),
            certainty: Certainty::Exact,
            computed: "bytes of compressed messages with the length that precedes them, less their length before; accounts in proportion to their payload".to_owned(),
            unknown: "the CPU time that both sides spend on it",
            ..AdviceFinding::new(title, row, messages, sizes.example)
        };
        pro_rata(&mut finding, row, side, -lost);
        Some(finding)
    }
}

/// Splits a change proportionally between the payload accounts of a side. The largest account takes the rounding error.
fn pro_rata(finding: &mut AdviceFinding, row: &SeenRow, side: Side, bytes: i64) {
    let amounts = &row.amounts[side as usize];
    let payload = amounts.payload().max(1);
    let accounts = Account::ALL.into_iter().filter(|account| account.is_payload());
    let Some(largest) = accounts.clone().max_by_key(|account| amounts[*account]) else { return };
    let mut left = bytes;
    for account in accounts.filter(|account| *account != largest) {
        let share = (i128::from(bytes) * i128::from(amounts[account]) / i128::from(payload)) as i64;
        left -= share;
        finding.change(row.number, side, account, share);
    }
    finding.change(row.number, side, largest, left);
}

fn remedies(protocol: Protocol) -> Vec<Remedy> {
    match protocol {
        Protocol::Cql => CQL.to_vec(),
        Protocol::Mongo => MONGO.to_vec(),
        _ => MYSQL.to_vec(),
    }
}

/// Returns the header's bytes and the bytes that compression adds. `None` if the message is already compressed or
/// cannot be.
fn message_framing(protocol: Protocol, message: &[u8]) -> Option<(usize, usize)> {
    let be = |at: usize| message.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_be_bytes);
    let le = |at: usize| message.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes);
    match protocol {
        // CQL 4 section 2: version, flags (0x01 is compression), stream, opcode, length; section 5: the length before
        // LZ4.
        Protocol::Cql => {
            let plain = matches!(message.first()? & 0x7f, 3 | 4) && message.get(1)? & 1 == 0;
            let whole = be(5)? as usize + 9 == message.len() && message.len() > 9;
            (plain && whole).then_some((9, 4))
        }
        // OP_COMPRESSED precedes the body with the opcode, the size and the compressor.
        Protocol::Mongo => (le(12)? == 2013 && le(0)? as usize == message.len()).then_some((16, 9)),
        // Header of a compressed packet.
        Protocol::Mysql => (!message.is_empty()).then_some((0, 7)),
        _ => None,
    }
}

/// `MySQL` sends shorter packets uncompressed (`MIN_COMPRESS_LENGTH`).
const MYSQL_SHORT: usize = 50;

/// Returns the compressed length.
fn compressed(protocol: Protocol, compressor: Compressor, body: &[u8]) -> usize {
    if protocol == Protocol::Mysql && body.len() < MYSQL_SHORT {
        return body.len();
    }
    let len = match compressor {
        Compressor::Lz4 => lz4_flex::block::compress(body).len(),
        Compressor::Zlib => zlib_len(body),
        Compressor::Zstd => zstd::bulk::compress(body, LEVEL).map_or(body.len(), |compressed| compressed.len()),
    };
    if protocol == Protocol::Mysql { len.min(body.len()) } else { len }
}

/// Returns the length that zlib compresses to at its usual level.
fn zlib_len(body: &[u8]) -> usize {
    let mut out = Vec::with_capacity(body.len() + 64);
    let mut compress = Compress::new(Compression::default(), true);
    match compress.compress_vec(body, &mut out, FlushCompress::Finish) {
        Ok(Status::StreamEnd) => out.len(),
        _ => body.len(),
    }
}

impl Rule for MessageCompression {
    fn wants_field(&self, protocol: Protocol, path: &str) -> bool {
        protocol == Protocol::Cql && path.ends_with("decompressed length")
    }

    fn wants_messages(&self, protocol: Protocol) -> bool {
        matches!(protocol, Protocol::Cql | Protocol::Mongo | Protocol::Mysql)
    }

    fn field(&mut self, field: &SeenField<'_>) {
        let Some(size) = field.bytes.and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes) else { return };
        self.sizes.entry(field.operation).or_default()[field.side as usize] += u64::from(size);
    }

    fn operation(&mut self, closed: &SeenOperation<'_>) {
        let before = self.sizes.remove(&closed.example.operation);
        if !self.wants_messages(closed.row.protocol) {
            return;
        }
        for side in Side::BOTH {
            let (amounts, packed) = closed.group(|of, path| of == side && path.ends_with("compressed"));
            if packed == 0 {
                self.add_uncompressed(closed, side);
            } else if let Some(before) = before.map(|before| before[side as usize]).filter(|before| *before > 0) {
                let sizes = self.rows.entry((closed.row.number, side)).or_default();
                let (messages, on_wire, all) = sizes.on_wire;
                sizes.on_wire = (messages + 1, on_wire + amounts[side as usize].total() + 4, all + before);
                sizes.example.get_or_insert(closed.example);
            }
        }
    }

    fn side_finding(&self, _: &SeenTraffic, row: &SeenRow, side: Side) -> Option<AdviceFinding> {
        let sizes = self.rows.get(&(row.number, side))?;
        if sizes.on_wire.0 > 0 { self.enlarges(row, side, sizes) } else { self.shrinks(row, side, sizes) }
    }
}
