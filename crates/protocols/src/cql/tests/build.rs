//! Builds messages byte by byte.

use super::super::segment::{SegmentFormat, crc24, segment_checksum};
use super::super::wire::opcode;

pub const VERSION: u8 = 4;

pub fn message(version: u8, flags: u8, stream: i16, opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![version, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.push(opcode);
    bytes.extend((body.len() as u32).to_be_bytes());
    bytes.extend(body);
    bytes
}

/// Version 4.
pub fn ask(stream: i16, opcode: u8, body: &[u8]) -> Vec<u8> {
    message(VERSION, 0, stream, opcode, body)
}

/// Version 4.
pub fn answer(stream: i16, opcode: u8, body: &[u8]) -> Vec<u8> {
    message(VERSION | 0x80, 0, stream, opcode, body)
}

pub fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes(), text.as_bytes()].concat()
}

pub fn long_string(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
}

/// `[bytes]` and `[value]`.
pub fn value(contents: &[u8]) -> Vec<u8> {
    [&(contents.len() as u32).to_be_bytes(), contents].concat()
}

pub fn null() -> Vec<u8> {
    (-1_i32).to_be_bytes().to_vec()
}

pub fn unset() -> Vec<u8> {
    (-2_i32).to_be_bytes().to_vec()
}

pub fn int(value: u32) -> [u8; 4] {
    value.to_be_bytes()
}

pub fn short(value: u16) -> [u8; 2] {
    value.to_be_bytes()
}

/// The elements of a list, set or map.
pub fn elements(count: u32, elements: &[Vec<u8>]) -> Vec<u8> {
    [&int(count), elements.concat().as_slice()].concat()
}

pub fn map(pairs: &[(&str, &str)]) -> Vec<u8> {
    let pairs = pairs.iter().map(|(key, value)| [string(key), string(value)].concat());
    [short(pairs.len() as u16).to_vec(), pairs.collect::<Vec<_>>().concat()].concat()
}

/// `QUERY` with consistency ONE and no parameters.
pub fn query(stream: i16, text: &str) -> Vec<u8> {
    ask(stream, opcode::QUERY, &[long_string(text), vec![0, 1, 0]].concat())
}

pub fn prepare(stream: i16, text: &str) -> Vec<u8> {
    ask(stream, opcode::PREPARE, &long_string(text))
}

/// `EXECUTE` with consistency ONE; adds the values flag to `flags`.
pub fn execute(stream: i16, id: &[u8], flags: u8, values: &[Vec<u8>]) -> Vec<u8> {
    let count = short(values.len() as u16).to_vec();
    let id = [short(id.len() as u16).to_vec(), id.to_vec()].concat();
    ask(stream, opcode::EXECUTE, &[id, vec![0, 1, flags | 1], count, values.concat()].concat())
}

/// Name and type.
pub type Column<'a> = (&'a str, Vec<u8>);

pub fn native(id: u16) -> Vec<u8> {
    short(id).to_vec()
}

pub const BIGINT: u16 = 2;
pub const INT: u16 = 9;
pub const TEXT: u16 = 13;

pub fn list_of(of: &[u8]) -> Vec<u8> {
    [&short(0x20), of].concat()
}

pub fn map_of(key: &[u8], of: &[u8]) -> Vec<u8> {
    [&short(0x21), key, of].concat()
}

pub fn tuple_of(members: &[Vec<u8>]) -> Vec<u8> {
    [short(0x31).as_slice(), &short(members.len() as u16), &members.concat()].concat()
}

pub fn class_of(name: &str) -> Vec<u8> {
    [short(0).to_vec(), string(name)].concat()
}

fn specs(keyspace: &str, table: &str, columns: &[Column<'_>]) -> Vec<u8> {
    let columns = columns.iter().map(|(name, of)| [string(name), of.clone()].concat());
    [string(keyspace), string(table), columns.collect::<Vec<_>>().concat()].concat()
}

/// `RESULT` with rows and metadata.
pub fn rows(stream: i16, keyspace: &str, columns: &[Column<'_>], cells: &[Vec<u8>]) -> Vec<u8> {
    let count = if columns.is_empty() { 0 } else { cells.len() / columns.len() };
    let body = [
        int(2).to_vec(),
        int(1).to_vec(),
        int(columns.len() as u32).to_vec(),
        specs(keyspace, "tab", columns),
        int(count as u32).to_vec(),
        cells.concat(),
    ];
    answer(stream, opcode::RESULT, &body.concat())
}

/// `RESULT` with rows, without metadata.
pub fn bare_rows(stream: i16, columns: u32, cells: &[Vec<u8>]) -> Vec<u8> {
    let count = (cells.len() as u32).checked_div(columns).unwrap_or(0);
    let body = [int(2).to_vec(), int(4).to_vec(), int(columns).to_vec(), int(count).to_vec(), cells.concat()];
    answer(stream, opcode::RESULT, &body.concat())
}

pub fn void(stream: i16) -> Vec<u8> {
    answer(stream, opcode::RESULT, &int(1))
}

/// `RESULT` of a `PREPARE`; empty `result` means no rows.
pub fn prepared(stream: i16, id: &[u8], keyspace: &str, bind: &[Column<'_>], result: &[Column<'_>]) -> Vec<u8> {
    let id = [short(id.len() as u16).to_vec(), id.to_vec()].concat();
    let bind = [
        int(1).to_vec(),
        int(bind.len() as u32).to_vec(),
        int(1).to_vec(),
        short(0).to_vec(),
        specs(keyspace, "tab", bind),
    ];
    let result = if result.is_empty() {
        [int(4), int(0)].concat()
    } else {
        [int(1).to_vec(), int(result.len() as u32).to_vec(), specs(keyspace, "tab", result)].concat()
    };
    answer(stream, opcode::RESULT, &[int(4).to_vec(), id, bind.concat(), result].concat())
}

/// Version 5, uncompressed.
pub fn segment(self_contained: bool, payload: &[u8]) -> Vec<u8> {
    let bits = payload.len() as u32 | u32::from(self_contained) << 17;
    finish_segment(&bits.to_le_bytes()[..SegmentFormat::Plain.header() - 3], payload)
}

/// Segment of a compressed connection; `decompressed` is 0 for an uncompressed payload.
pub fn packed_segment(self_contained: bool, decompressed: usize, payload: &[u8]) -> Vec<u8> {
    let bits = payload.len() as u64 | (decompressed as u64) << 17 | u64::from(self_contained) << 34;
    finish_segment(&bits.to_le_bytes()[..SegmentFormat::Compressed.header() - 3], payload)
}

fn finish_segment(fields: &[u8], payload: &[u8]) -> Vec<u8> {
    let header = &crc24(fields).to_le_bytes()[..3];
    [fields, header, payload, &segment_checksum(payload).to_le_bytes()].concat()
}
