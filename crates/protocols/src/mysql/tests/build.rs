//! Builds packets.

use super::super::wire::capability;
use overhead_model::Side;

pub(super) const C: Side = Side::Request;
pub(super) const S: Side = Side::Response;

/// Capabilities of a current client.
pub(super) const USUAL: u64 = capability::LONG_PASSWORD
    | capability::PROTOCOL_41
    | capability::TRANSACTIONS
    | capability::SECURE_CONNECTION
    | capability::PLUGIN_AUTH;
pub(super) const MODERN: u64 = USUAL | capability::DEPRECATE_EOF | capability::SESSION_TRACK;

pub(super) fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_le_bytes();
    [&length[..3], &[sequence], payload].concat()
}

/// Builds consecutive packets from a sequence number on.
pub(super) fn packets(first: u8, payloads: &[Vec<u8>]) -> Vec<u8> {
    let numbers = (0..).map(|index: u8| first.wrapping_add(index));
    payloads.iter().zip(numbers).flat_map(|(payload, number)| packet(number, payload)).collect()
}

pub(super) fn greeting(capabilities: u64) -> Vec<u8> {
    let flags = capabilities.to_le_bytes();
    let extended = if capabilities & capability::LONG_PASSWORD == 0 { flags[4..].to_vec() } else { vec![0; 4] };
    let version: &[u8] =
        if capabilities & capability::LONG_PASSWORD == 0 { b"5.5.5-10.11.14-MariaDB\0" } else { b"8.0.36\0" };
    let payload = [
        &[10],
        version,
        &[9, 0, 0, 0],
        b"abcdefgh",
        &[0, flags[0], flags[1], 0xff, 2, 0, flags[2], flags[3], 21],
        &[0; 6],
        &extended,
        b"ijklmnopqrst\0mysql_native_password\0",
    ];
    packet(0, &payload.concat())
}

pub(super) fn login_packet(capabilities: u64) -> Vec<u8> {
    let flags = capabilities.to_le_bytes();
    let extended = if capabilities & capability::LONG_PASSWORD == 0 { flags[4..].to_vec() } else { vec![0; 4] };
    let rest = b"root\0\x14abcdefghijklmnopqrstmysql_native_password\0";
    let payload = [&flags[..4], &[0, 0, 0, 1, 0xff], &[0; 19], &extended, rest].concat();
    let zstd: &[u8] = if capabilities & capability::ZSTD == 0 { &[] } else { &[3] };
    packet(1, &[payload.as_slice(), zstd].concat())
}

/// Builds a handshake with common capabilities.
pub(super) fn login(capabilities: u64) -> [(Side, Vec<u8>); 3] {
    [(S, greeting(capabilities)), (C, login_packet(capabilities)), (S, packet(2, &ok(0, 0, 2)))]
}

/// Builds an `OK` packet with row count, id and status flags.
pub(super) fn ok(rows: u64, id: u64, flags: u16) -> Vec<u8> {
    let [low, high] = flags.to_le_bytes();
    [vec![0], lenenc(rows), lenenc(id), vec![low, high, 0, 0]].concat()
}

/// Builds the `OK` that ends rows.
pub(super) fn end(flags: u16) -> Vec<u8> {
    let [low, high] = flags.to_le_bytes();
    vec![0xfe, 0, 0, low, high, 0, 0]
}

pub(super) fn eof(flags: u16) -> Vec<u8> {
    let [low, high] = flags.to_le_bytes();
    vec![0xfe, 0, 0, low, high]
}

pub(super) fn err() -> Vec<u8> {
    b"\xff\x28\x04#42000syntax".to_vec()
}

pub(super) fn lenenc(value: u64) -> Vec<u8> {
    let bytes = value.to_le_bytes();
    match value {
        0..251 => vec![bytes[0]],
        251..0x1_0000 => [&[0xfc], &bytes[..2]].concat(),
        0x1_0000..0x100_0000 => [&[0xfd], &bytes[..3]].concat(),
        _ => [&[0xfe], &bytes[..]].concat(),
    }
}

pub(super) fn text(text: &[u8]) -> Vec<u8> {
    [lenenc(text.len() as u64), text.to_vec()].concat()
}

/// Builds the definition of a column `a` of table `t`.
pub(super) fn column(kind: u8) -> Vec<u8> {
    let names: Vec<u8> = [&b"def"[..], b"d", b"t", b"t", b"a", b"a"].into_iter().flat_map(text).collect();
    [names, vec![12, 0x3f, 0, 11, 0, 0, 0, kind, 0, 0, 0, 0, 0]].concat()
}

pub(super) fn query(sql: &str) -> Vec<u8> {
    packet(0, &[b"\x03", sql.as_bytes()].concat())
}

pub(super) fn prepare(sql: &str) -> Vec<u8> {
    packet(0, &[b"\x16", sql.as_bytes()].concat())
}

/// Builds the first packet of the reply to `COM_STMT_PREPARE`.
pub(super) fn prepared(id: u8, columns: u8, parameters: u8) -> Vec<u8> {
    vec![0, id, 0, 0, 0, columns, 0, parameters, 0, 0, 0, 0]
}

/// Builds `COM_STMT_EXECUTE`; `rest` follows the iteration count.
pub(super) fn execute(id: u8, flags: u8, rest: &[u8]) -> Vec<u8> {
    packet(0, &[&[23, id, 0, 0, 0, flags, 1, 0, 0, 0], rest].concat())
}
