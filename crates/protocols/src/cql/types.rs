//! Column types stated by the traffic (section 4.2.5.2, `<type>`). Types without an id in the protocol version have a
//! class name (`VectorType(FloatType , 16)`).

use super::wire::string;
use crate::limits::NESTING;
use overhead_decode::{Cursor, FieldRead, Reader, Short};
use overhead_model::Account;

/// Types kept for one message: far more than any table needs, and a bound on crafted messages.
const NODES: usize = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CqlType {
    /// No inner structure.
    Leaf,
    /// No inner structure and a fixed length; vectors of it omit element lengths.
    Fixed(u32),
    /// List or set.
    List(u32),
    /// Key and value.
    Map(u32, u32),
    /// Tuple or user-defined type: a range of links.
    Tuple { first: u32, count: u32 },
    /// `count` elements of one node.
    Vector { element: u32, count: u32 },
    /// Stated, but with an unknown layout.
    Unknown,
}

/// Types of a row's columns or of bind markers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct CqlTypeTable {
    nodes: Vec<CqlType>,
    /// Nodes of tuple members.
    links: Vec<u32>,
    /// Nodes of columns.
    columns: Vec<u32>,
}

impl CqlTypeTable {
    pub fn clear(&mut self) {
        self.nodes.clear();
        self.links.clear();
        self.columns.clear();
    }

    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Returns the number of entries.
    pub fn weight(&self) -> usize {
        self.nodes.len() + self.links.len() + self.columns.len()
    }

    pub fn column(&self, index: usize) -> Option<u32> {
        self.columns.get(index).copied()
    }

    pub fn node(&self, node: u32) -> CqlType {
        self.nodes.get(node as usize).copied().unwrap_or(CqlType::Unknown)
    }

    pub fn link(&self, link: u32) -> u32 {
        self.links.get(link as usize).copied().unwrap_or(u32::MAX)
    }

    pub fn read_column<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
        let node = self.read(cursor, NESTING)?;
        self.columns.push(node);
        Ok(())
    }

    fn push(&mut self, node: CqlType) -> FieldRead<u32> {
        if self.nodes.len() + self.links.len() >= NODES {
            return Err(Short);
        }
        self.nodes.push(node);
        Ok(self.nodes.len() as u32 - 1)
    }

    /// Reserves links for the members of a tuple.
    fn reserve(&mut self, count: u16) -> FieldRead<u32> {
        let first = self.links.len();
        if self.nodes.len() + first + usize::from(count) >= NODES {
            return Err(Short);
        }
        self.links.resize(first + usize::from(count), u32::MAX);
        Ok(first as u32)
    }

    fn set_link(&mut self, link: u32, node: u32) {
        if let Some(slot) = self.links.get_mut(link as usize) {
            *slot = node;
        }
    }

    fn read<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>, depth: usize) -> FieldRead<u32> {
        if depth == 0 {
            return Err(Short);
        }
        let node = match cursor.u16_be(Account::Schema, "type id")? {
            0x00 => {
                let class = string(cursor, Account::Schema, "type class")?;
                return self.class(class);
            }
            0x20 | 0x22 => CqlType::List(self.read(cursor, depth - 1)?),
            0x21 => CqlType::Map(self.read(cursor, depth - 1)?, self.read(cursor, depth - 1)?),
            0x30 => {
                string(cursor, Account::Schema, "keyspace name")?;
                string(cursor, Account::Schema, "type name")?;
                self.members(cursor, depth, true)?
            }
            0x31 => self.members(cursor, depth, false)?,
            id => native(id),
        };
        self.push(node)
    }

    fn members<R: Reader>(
        &mut self,
        cursor: &mut Cursor<'_, '_, '_, R>,
        depth: usize,
        named: bool,
    ) -> FieldRead<CqlType> {
        let count = cursor.u16_be(Account::Framing, "member count")?;
        let first = self.reserve(count)?;
        for member in 0..u32::from(count) {
            if named {
                string(cursor, Account::Schema, "field name")?;
            }
            let node = self.read(cursor, depth - 1)?;
            self.set_link(first + member, node);
        }
        Ok(CqlType::Tuple { first, count: u32::from(count) })
    }

    /// Adds the type of a class name; a name that does not parse has an unknown layout.
    fn class(&mut self, name: &[u8]) -> FieldRead<u32> {
        let node = CqlClassReader { text: name }.read(self, NESTING).unwrap_or(CqlType::Unknown);
        self.push(node)
    }

    /// Returns the bytes of each value, if fixed; a vector then has no element lengths.
    pub fn fixed(&self, node: u32) -> Option<u64> {
        match self.node(node) {
            CqlType::Fixed(size) => Some(u64::from(size)),
            CqlType::Vector { element, count } => Some(self.fixed(element)?.saturating_mul(u64::from(count))),
            _ => None,
        }
    }
}

/// Native types; fixed are those with a constant `AbstractType.valueLengthIfFixed` in the server.
const fn native(id: u16) -> CqlType {
    match id {
        // boolean
        0x04 => CqlType::Fixed(1),
        // float, int
        0x08 | 0x09 => CqlType::Fixed(4),
        // bigint, double, timestamp
        0x02 | 0x07 | 0x0B => CqlType::Fixed(8),
        // uuid, timeuuid
        0x0C | 0x0F => CqlType::Fixed(16),
        // ascii, blob, counter, decimal, text, varchar, varint, inet, date, time, smallint, tinyint, duration
        0x01 | 0x03 | 0x05 | 0x06 | 0x0A | 0x0D | 0x0E | 0x10..=0x15 => CqlType::Leaf,
        _ => CqlType::Unknown,
    }
}

/// Rest of a class name such as `o.a.c.db.marshal.MapType(…UTF8Type,…Int32Type)`.
struct CqlClassReader<'a> {
    text: &'a [u8],
}

impl<'a> CqlClassReader<'a> {
    fn skip_blanks(&mut self) {
        self.text = self.text.trim_ascii_start();
    }

    /// Skips `punctuation` if it comes next.
    fn eat(&mut self, punctuation: u8) -> Option<()> {
        self.skip_blanks();
        match self.text {
            [first, rest @ ..] if *first == punctuation => {
                self.text = rest;
                Some(())
            }
            _ => None,
        }
    }

    /// Reads what is in parentheses.
    fn inside<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.eat(b'(')?;
        let inside = read(self)?;
        self.eat(b')')?;
        Some(inside)
    }

    /// Returns the next name or number, without its package.
    fn word(&mut self) -> Option<&'a [u8]> {
        self.skip_blanks();
        let inside = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'$');
        let end = self.text.iter().position(|byte| !inside(byte)).unwrap_or(self.text.len());
        let (word, rest) = self.text.split_at_checked(end)?;
        self.text = rest;
        let word = word.rsplit(|&byte| byte == b'.').next()?;
        (!word.is_empty()).then_some(word)
    }

    fn child(&mut self, types: &mut CqlTypeTable, depth: usize) -> Option<u32> {
        let node = self.read(types, depth.checked_sub(1)?)?;
        types.push(node).ok()
    }

    fn read(&mut self, types: &mut CqlTypeTable, depth: usize) -> Option<CqlType> {
        if depth == 0 {
            return None;
        }
        let node = match self.word()? {
            b"FrozenType" | b"ReversedType" => self.inside(|reader| reader.read(types, depth - 1))?,
            b"ListType" | b"SetType" => CqlType::List(self.inside(|reader| reader.child(types, depth))?),
            b"MapType" => self.inside(|reader| {
                let key = reader.child(types, depth)?;
                reader.eat(b',')?;
                Some(CqlType::Map(key, reader.child(types, depth)?))
            })?,
            b"VectorType" => self.inside(|reader| {
                let element = reader.child(types, depth)?;
                reader.eat(b',')?;
                let count = std::str::from_utf8(reader.word()?).ok()?.parse().ok()?;
                Some(CqlType::Vector { element, count })
            })?,
            b"TupleType" => self.members(types, depth)?,
            b"UserType" => self.inside(|reader| {
                reader.word()?;
                reader.eat(b',')?;
                reader.word()?;
                reader.fields(types, depth)
            })?,
            simple => simple_class(simple),
        };
        Some(node)
    }

    fn members(&mut self, types: &mut CqlTypeTable, depth: usize) -> Option<CqlType> {
        let nodes = self.inside(|reader| {
            let mut nodes = vec![reader.child(types, depth)?];
            while reader.eat(b',').is_some() {
                nodes.push(reader.child(types, depth)?);
            }
            Some(nodes)
        })?;
        link_all(types, &nodes)
    }

    /// Reads `,name:Type` as often as it comes; names are hexadecimal.
    fn fields(&mut self, types: &mut CqlTypeTable, depth: usize) -> Option<CqlType> {
        let mut nodes = Vec::new();
        while self.eat(b',').is_some() {
            self.word()?;
            self.eat(b':')?;
            nodes.push(self.child(types, depth)?);
        }
        link_all(types, &nodes)
    }
}

fn link_all(types: &mut CqlTypeTable, nodes: &[u32]) -> Option<CqlType> {
    let count = u16::try_from(nodes.len()).ok()?;
    let first = types.reserve(count).ok()?;
    for (link, &node) in (first..).zip(nodes) {
        types.set_link(link, node);
    }
    Some(CqlType::Tuple { first, count: u32::from(count) })
}

fn simple_class(name: &[u8]) -> CqlType {
    match name {
        b"BooleanType" => CqlType::Fixed(1),
        b"FloatType" | b"Int32Type" => CqlType::Fixed(4),
        b"LongType" | b"DoubleType" | b"TimestampType" | b"DateType" => CqlType::Fixed(8),
        b"UUIDType" | b"TimeUUIDType" | b"LexicalUUIDType" => CqlType::Fixed(16),
        b"AsciiType" | b"UTF8Type" | b"BytesType" | b"CounterColumnType" | b"DecimalType" | b"IntegerType"
        | b"InetAddressType" | b"SimpleDateType" | b"TimeType" | b"ShortType" | b"ByteType" | b"DurationType"
        | b"EmptyType" => CqlType::Leaf,
        _ => CqlType::Unknown,
    }
}
