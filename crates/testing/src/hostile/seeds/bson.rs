//! Writes documents and messages of MongoDB's protocol (MongoDB's wire protocol reference; bsonspec.org).

pub(crate) fn int(name: &str, value: i32) -> Vec<u8> {
    [&[0x10], name.as_bytes(), &[0], &value.to_le_bytes()].concat()
}

pub(crate) fn long(name: &str, value: i64) -> Vec<u8> {
    [&[0x12], name.as_bytes(), &[0], &value.to_le_bytes()].concat()
}

pub(crate) fn string(name: &str, value: &str) -> Vec<u8> {
    [&[2], name.as_bytes(), &[0], &(value.len() as u32 + 1).to_le_bytes(), value.as_bytes(), &[0]].concat()
}

/// A document or an array within another.
pub(crate) fn sub(kind: u8, name: &str, elements: &[Vec<u8>]) -> Vec<u8> {
    [&[kind], name.as_bytes(), &[0], &doc(elements)].concat()
}

pub(crate) fn doc(elements: &[Vec<u8>]) -> Vec<u8> {
    let elements = elements.concat();
    [&(elements.len() as u32 + 5).to_le_bytes(), elements.as_slice(), &[0]].concat()
}

pub(crate) fn opcode(opcode: u32, id: u32, to: u32, body: &[u8]) -> Vec<u8> {
    let header = [body.len() as u32 + 16, id, to, opcode].map(u32::to_le_bytes);
    [header.concat().as_slice(), body].concat()
}
