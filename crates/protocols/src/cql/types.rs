//! Column types stated by the traffic (section 4.2.5.2, `<type>`). Types without an id in the protocol version have a
//! class name (`VectorType(FloatType , 16)`).

use super::wire::string;
use crate::limits::NESTING;
use overhead_decode::{Cursor, FieldRead, Reader, Short};
use overhead_model::Account;

/// Types kept for one message: far more than any table needs, and a bound on crafted messages.
const NODES: usize = 64 << 10;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum CqlType {
    /// No inner structure.
    Leaf,
    /// No inner structure and a fixed length; vectors of it omit element lengths.
    Fixed(u32),
    /// List or set.
    List(Box<Self>),
    /// Key and value.
    Map(Box<[Self; 2]>),
    /// Tuple or user-defined type.
    Tuple(Box<[Self]>),
    /// A number of elements of one type.
    Vector(Box<Self>, u32),
    /// Stated, but with an unknown layout.
    Unknown,
}

impl CqlType {
    /// Returns the bytes of each value, if fixed; a vector then has no element lengths.
    pub fn fixed(&self) -> Option<u64> {
        match self {
            Self::Fixed(size) => Some(u64::from(*size)),
            Self::Vector(element, count) => Some(element.fixed()?.saturating_mul(u64::from(*count))),
            _ => None,
        }
    }
}

/// Types of a row's columns or of bind markers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct CqlTypeTable {
    pub columns: Vec<CqlType>,
    /// The number of types, including inner ones.
    pub nodes: usize,
}

impl CqlTypeTable {
    pub fn clear(&mut self) {
        self.columns.clear();
        self.nodes = 0;
    }

    pub fn read<R: Reader>(&mut self, cursor: &mut Cursor<'_, '_, '_, R>, depth: usize) -> FieldRead<CqlType> {
        if depth == 0 || self.nodes >= NODES {
            return Err(Short);
        }
        self.nodes += 1;
        Ok(match cursor.u16_be(Account::Schema, "type id")? {
            0x00 => {
                let text = string(cursor, Account::Schema, "type class")?;
                // A name that does not parse has an unknown layout.
                CqlClassReader { text, nodes: &mut self.nodes }.read(NESTING).unwrap_or(CqlType::Unknown)
            }
            0x20 | 0x22 => CqlType::List(Box::new(self.read(cursor, depth - 1)?)),
            0x21 => CqlType::Map(Box::new([self.read(cursor, depth - 1)?, self.read(cursor, depth - 1)?])),
            0x30 => {
                string(cursor, Account::Schema, "keyspace name")?;
                string(cursor, Account::Schema, "type name")?;
                self.members(cursor, depth, true)?
            }
            0x31 => self.members(cursor, depth, false)?,
            id => native(id),
        })
    }

    fn members<R: Reader>(
        &mut self,
        cursor: &mut Cursor<'_, '_, '_, R>,
        depth: usize,
        named: bool,
    ) -> FieldRead<CqlType> {
        let mut members = Vec::new();
        for _ in 0..cursor.u16_be(Account::Framing, "member count")? {
            if named {
                string(cursor, Account::Schema, "field name")?;
            }
            members.push(self.read(cursor, depth - 1)?);
        }
        Ok(CqlType::Tuple(members.into()))
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
struct CqlClassReader<'a, 'n> {
    text: &'a [u8],
    /// The number of types in the message so far.
    nodes: &'n mut usize,
}

impl<'a> CqlClassReader<'a, '_> {
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

    fn read(&mut self, depth: usize) -> Option<CqlType> {
        if depth == 0 || *self.nodes >= NODES {
            return None;
        }
        *self.nodes += 1;
        Some(match self.word()? {
            b"FrozenType" | b"ReversedType" => self.inside(|reader| reader.read(depth - 1))?,
            b"ListType" | b"SetType" => CqlType::List(Box::new(self.inside(|reader| reader.read(depth - 1))?)),
            b"MapType" => self.inside(|reader| {
                let key = reader.read(depth - 1)?;
                reader.eat(b',')?;
                Some(CqlType::Map(Box::new([key, reader.read(depth - 1)?])))
            })?,
            b"VectorType" => self.inside(|reader| {
                let element = reader.read(depth - 1)?;
                reader.eat(b',')?;
                let count = std::str::from_utf8(reader.word()?).ok()?.parse().ok()?;
                Some(CqlType::Vector(Box::new(element), count))
            })?,
            b"TupleType" => self.inside(|reader| {
                let mut members = vec![reader.read(depth - 1)?];
                while reader.eat(b',').is_some() {
                    members.push(reader.read(depth - 1)?);
                }
                Some(CqlType::Tuple(members.into()))
            })?,
            b"UserType" => self.inside(|reader| {
                reader.word()?;
                reader.eat(b',')?;
                reader.word()?;
                let mut members = Vec::new();
                // `,name:Type` as often as it comes; names are hexadecimal.
                while reader.eat(b',').is_some() {
                    reader.word()?;
                    reader.eat(b':')?;
                    members.push(reader.read(depth - 1)?);
                }
                Some(CqlType::Tuple(members.into()))
            })?,
            simple => simple_class(simple),
        })
    }
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
