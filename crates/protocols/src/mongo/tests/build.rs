//! Builds messages and documents.

pub(super) fn doc(elements: &[Vec<u8>]) -> Vec<u8> {
    let elements = elements.concat();
    let mut bytes = (elements.len() as u32 + 5).to_le_bytes().to_vec();
    bytes.extend(elements);
    bytes.push(0);
    bytes
}

pub(super) fn element(kind: u8, name: &str, value: &[u8]) -> Vec<u8> {
    [&[kind], name.as_bytes(), &[0], value].concat()
}

pub(super) fn text(name: &str, value: &str) -> Vec<u8> {
    element(2, name, &string(value))
}

pub(super) fn string(value: &str) -> Vec<u8> {
    let len = value.len() as u32 + 1;
    [&len.to_le_bytes(), value.as_bytes(), &[0]].concat()
}

pub(super) fn int(name: &str, value: i32) -> Vec<u8> {
    element(0x10, name, &value.to_le_bytes())
}

pub(super) fn long(name: &str, value: i64) -> Vec<u8> {
    element(0x12, name, &value.to_le_bytes())
}

pub(super) fn double(name: &str, value: f64) -> Vec<u8> {
    element(1, name, &value.to_le_bytes())
}

pub(super) fn truth(name: &str, value: bool) -> Vec<u8> {
    element(8, name, &[u8::from(value)])
}

pub(super) fn null(name: &str) -> Vec<u8> {
    element(0x0a, name, &[])
}

pub(super) fn sub(name: &str, elements: &[Vec<u8>]) -> Vec<u8> {
    element(3, name, &doc(elements))
}

pub(super) fn list(name: &str, documents: &[Vec<u8>]) -> Vec<u8> {
    let indexed = documents.iter().enumerate();
    let elements: Vec<_> = indexed.map(|(index, document)| element(3, &index.to_string(), document)).collect();
    element(4, name, &doc(&elements))
}

pub(super) fn ok() -> Vec<u8> {
    double("ok", 1.0)
}

pub(super) fn message(opcode: i32, id: i32, to: i32, body: &[u8]) -> Vec<u8> {
    let len = body.len() as u32 + 16;
    let header = [len, id.cast_unsigned(), to.cast_unsigned(), opcode.cast_unsigned()];
    let header = header.map(u32::to_le_bytes).concat();
    [header.as_slice(), body].concat()
}

pub(super) fn msg(id: i32, to: i32, flags: u32, sections: &[Vec<u8>]) -> Vec<u8> {
    message(2013, id, to, &msg_body(flags, sections))
}

pub(super) fn msg_body(flags: u32, sections: &[Vec<u8>]) -> Vec<u8> {
    [flags.to_le_bytes().as_slice(), &sections.concat()].concat()
}

/// A section of kind 0.
pub(super) fn body(elements: &[Vec<u8>]) -> Vec<u8> {
    [vec![0], doc(elements)].concat()
}

/// A section of kind 1.
pub(super) fn sequence(name: &str, documents: &[Vec<u8>]) -> Vec<u8> {
    let documents = documents.concat();
    let len = (4 + name.len() + 1 + documents.len()) as u32;
    [&[1], len.to_le_bytes().as_slice(), name.as_bytes(), &[0], &documents].concat()
}

pub(super) fn command(id: i32, elements: &[Vec<u8>]) -> Vec<u8> {
    msg(id, 0, 0, &[body(elements)])
}

pub(super) fn reply(to: i32, elements: &[Vec<u8>]) -> Vec<u8> {
    msg(to + 1000, to, 0, &[body(elements)])
}

pub(super) fn query(id: i32, flags: i32, namespace: &str, documents: &[Vec<u8>]) -> Vec<u8> {
    let mut body = flags.to_le_bytes().to_vec();
    body.extend(namespace.as_bytes());
    body.push(0);
    body.extend([0, 0, 0, 0, 255, 255, 255, 255]);
    body.extend(documents.concat());
    message(2004, id, 0, &body)
}

pub(super) fn op_reply(id: i32, to: i32, flags: i32, cursor: i64, documents: &[Vec<u8>]) -> Vec<u8> {
    let mut body = flags.to_le_bytes().to_vec();
    body.extend(cursor.to_le_bytes());
    body.extend(0i32.to_le_bytes());
    body.extend((documents.len() as u32).to_le_bytes());
    body.extend(documents.concat());
    message(1, id, to, &body)
}

/// An `OP_COMPRESSED` around a body of `size` bytes.
pub(super) fn compressed(id: i32, to: i32, opcode: i32, size: usize, compressor: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = opcode.to_le_bytes().to_vec();
    bytes.extend((size as u32).to_le_bytes());
    bytes.push(compressor);
    bytes.extend(body);
    message(2012, id, to, &bytes)
}

/// Builds a document with an element of every type that has no function here.
pub(super) fn every_type() -> Vec<u8> {
    doc(&[
        element(0x06, "undefined", &[]),
        element(0x07, "oid", &[1; 12]),
        element(0x09, "date", &[1; 8]),
        element(0x0b, "regex", b"^a.*\0im\0"),
        element(0x0c, "pointer", &[string("db.c"), vec![2; 12]].concat()),
        element(0x0d, "code", &string("f()")),
        element(0x0e, "symbol", &string("s")),
        element(0x0f, "scope", &{
            let value = [string("f(x)"), doc(&[int("x", 1)])].concat();
            [(value.len() as u32 + 4).to_le_bytes().to_vec(), value].concat()
        }),
        element(0x11, "timestamp", &[1; 8]),
        element(0x13, "decimal", &[1; 16]),
        element(0x05, "old", &[8, 0, 0, 0, 2, 4, 0, 0, 0, 9, 9, 9, 9]),
        element(0x05, "vector", &[3, 0, 0, 0, 9, 1, 1, 1]),
        element(0xff, "min", &[]),
        element(0x7f, "max", &[]),
        null("null"),
    ])
}
