//! Edits DEFLATE in place: replaces a literal with another byte whose code is as long.
//!
//! A block is a list of literals and repetitions. Repetitions stay, and so do the lengths of the literals' codes, so the
//! length never changes. In a block with its own codes, few bytes may share a length; a byte without an alternative stays,
//! so the caller must check the result.

use crate::fill::class;

/// Bits of the longest code (RFC 1951 section 3.2.7).
const LONGEST: usize = 15;
const LITERALS: usize = 288;
const DISTANCES: usize = 32;
const END: u16 = 256;
/// Returns the shortest length of a symbol from 257 on, and its number of extra bits.
fn length_of(symbol: u16) -> Option<(usize, u32)> {
    let number = usize::from(symbol).checked_sub(257)?;
    match number {
        0..8 => Some((3 + number, 0)),
        8..28 => {
            let extra = number / 4 - 1;
            Some((3 + ((4 + number % 4) << extra), extra as u32))
        }
        28 => Some((258, 0)),
        _ => None,
    }
}
/// The order of the lengths of the code for lengths (RFC 1951 section 3.2.7).
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
/// Bytes of zlib's header (RFC 1950 section 2.2).
const HEADER: usize = 2;

/// A parsed zlib stream.
#[derive(Debug, Default)]
pub struct Deflated {
    /// For each byte of the content, the literal that it comes from.
    sources: Vec<u32>,
    literals: Vec<Literal>,
    codes: Vec<Codes>,
}

#[derive(Clone, Copy, Debug)]
struct Literal {
    /// Bit position of its code.
    bit: usize,
    byte: u8,
    /// Index of its block's codes.
    codes: usize,
}

/// Canonical codes: the length of each symbol's code, and the code.
#[derive(Debug)]
struct Codes {
    lengths: Vec<u8>,
    words: Vec<u16>,
    /// By length: symbols in the order of their codes.
    symbols: Vec<Vec<u16>>,
    /// By length: the first code.
    first: [u16; LONGEST + 1],
}

impl Codes {
    fn new(lengths: &[u8]) -> Self {
        let mut symbols = vec![Vec::new(); LONGEST + 1];
        for (symbol, &length) in lengths.iter().enumerate().filter(|(_, length)| **length > 0) {
            if let Some(symbols) = symbols.get_mut(usize::from(length)) {
                symbols.push(symbol as u16);
            }
        }
        let (mut first, mut codes, mut code) = ([0; LONGEST + 1], vec![0; lengths.len()], 0_u16);
        for ((length, symbols), first) in symbols.iter().enumerate().zip(&mut first) {
            code = if length == 0 { 0 } else { code.wrapping_mul(2) };
            *first = code;
            for symbol in symbols {
                if let Some(place) = codes.get_mut(usize::from(*symbol)) {
                    *place = code;
                }
                code = code.wrapping_add(1);
            }
        }
        Self { lengths: lengths.to_vec(), words: codes, symbols, first }
    }

    fn fixed() -> Self {
        let length = |symbol: usize| match symbol {
            144..=255 => 9,
            256..=279 => 7,
            _ => 8,
        };
        Self::new(&(0..LITERALS).map(length).collect::<Vec<u8>>())
    }

    /// Stored bytes are written as they are, lowest bit first, so their codes are their reversed bits.
    fn stored() -> Self {
        let mut codes = Self::new(&[8; 256]);
        codes.words = (0..=255_u8).map(|byte| u16::from(byte.reverse_bits())).collect();
        codes
    }

    fn length(&self, byte: u8) -> u8 {
        self.lengths.get(usize::from(byte)).copied().unwrap_or_default()
    }

    /// Returns a replacement with a code of the same length: `wanted`, or a byte of the same class.
    fn instead(&self, byte: u8, wanted: u8) -> u8 {
        if self.length(byte) == self.length(wanted) {
            return wanted;
        }
        let same =
            |other: &u8| self.length(*other) == self.length(byte) && *other != byte && (*other == 0) == (byte == 0);
        let (first, count) = class(byte);
        let close: Vec<u8> = (first..=first.saturating_add(count - 1)).filter(same).collect();
        let is_word = byte.is_ascii_alphanumeric();
        let others = || (0..=255_u8).filter(|other| other.is_ascii_alphanumeric() == is_word).filter(same).collect();
        let choice: Vec<u8> =
            if close.is_empty() && (is_word || !(0x20..0x80).contains(&byte)) { others() } else { close };
        choice.get(usize::from(wanted) % choice.len().max(1)).copied().unwrap_or(byte)
    }
}

/// Reads bits, the lowest of each byte first.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn one(&mut self) -> Option<u16> {
        let byte = self.bytes.get(self.at / 8)?;
        let bit = byte >> (self.at % 8) & 1;
        self.at += 1;
        Some(u16::from(bit))
    }

    /// Reads a number, lowest bit first.
    fn number(&mut self, bits: u32) -> Option<usize> {
        (0..bits).try_fold(0, |number, bit| Some(number | usize::from(self.one()?) << bit))
    }

    /// Reads a symbol, highest bit first.
    fn symbol(&mut self, codes: &Codes) -> Option<u16> {
        let mut code = 0;
        for length in 1..=LONGEST {
            code = code << 1 | self.one()?;
            let place = code.checked_sub(*codes.first.get(length)?);
            if let Some(symbol) = place.and_then(|place| codes.symbols.get(length)?.get(usize::from(place))) {
                return Some(*symbol);
            }
        }
        None
    }
}

impl Deflated {
    /// Parses a zlib stream that decompresses to `len` bytes; `None` if it is something else.
    pub fn parse(wire: &[u8], len: usize) -> Option<Self> {
        let mut bits = Bits { bytes: wire.get(..wire.len().checked_sub(4)?)?, at: HEADER * 8 };
        let mut deflated = Self::default();
        let mut is_last = false;
        while !is_last {
            is_last = bits.one()? == 1;
            match bits.number(2)? {
                0 => deflated.stored(&mut bits, len)?,
                1 => deflated.block(&mut bits, (Codes::fixed(), &Codes::new(&[5; DISTANCES])), len)?,
                2 => {
                    let (literals, distances) = described(&mut bits)?;
                    deflated.block(&mut bits, (literals, &distances), len)?;
                }
                _ => return None,
            }
        }
        (deflated.sources.len() == len).then_some(deflated)
    }

    fn stored(&mut self, bits: &mut Bits<'_>, len: usize) -> Option<()> {
        bits.at = bits.at.next_multiple_of(8);
        let count = bits.number(16)?;
        bits.number(16)?;
        self.codes.push(Codes::stored());
        for _ in 0..count {
            let bit = bits.at;
            let byte = bits.number(8)? as u8;
            self.literal(bit, byte, len)?;
        }
        Some(())
    }

    fn literal(&mut self, bit: usize, byte: u8, len: usize) -> Option<()> {
        self.sources.push(self.literals.len() as u32);
        self.literals.push(Literal { bit, byte, codes: self.codes.len().checked_sub(1)? });
        (self.sources.len() <= len).then_some(())
    }

    fn block(&mut self, bits: &mut Bits<'_>, (literals, distances): (Codes, &Codes), len: usize) -> Option<()> {
        self.codes.push(literals);
        loop {
            let bit = bits.at;
            match bits.symbol(self.codes.last()?)? {
                END => return Some(()),
                symbol @ ..END => self.literal(bit, symbol as u8, len)?,
                symbol => {
                    let (shortest, extra) = length_of(symbol)?;
                    let count = shortest + bits.number(extra)?;
                    let distance = distance(bits.symbol(distances)?, bits)?;
                    repeat(&mut self.sources, distance, count, len)?;
                }
            }
        }
    }

    /// Returns as many bytes as `wire` has, which decompress to `content` as far as possible. Bytes marked in `stays` keep
    /// their value. Every other byte changes, unless no other byte has a code of that length, or the same literal is used
    /// for a byte that stays.
    pub fn with(&self, wire: &[u8], content: &[u8], stays: &[bool]) -> Vec<u8> {
        let wanted = wanted(&self.sources, content, stays, self.literals.len());
        let mut packed = wire.to_vec();
        for (literal, wanted) in self.literals.iter().zip(wanted) {
            let Some(codes) = self.codes.get(literal.codes) else { continue };
            put(&mut packed, literal.bit, codes, codes.instead(literal.byte, wanted.unwrap_or(literal.byte)));
        }
        packed
    }
}

/// Returns the byte that each of `count` literals is to be, which several bytes of the content may come from; `None` if
/// it must stay.
pub fn wanted(sources: &[u32], content: &[u8], stays: &[bool], count: usize) -> Vec<Option<u8>> {
    let mut wanted = vec![None; count];
    let places = || sources.iter().zip(content.iter().zip(stays));
    let staying = places().filter(|(_, (_, stays))| **stays).map(|(source, _)| (source, None));
    for (source, byte) in places().rev().map(|(source, (byte, _))| (source, Some(*byte))).chain(staying) {
        if let Some(wanted) = wanted.get_mut(*source as usize) {
            *wanted = byte;
        }
    }
    wanted
}

/// Appends a repetition to the literals that bytes come from, of which there may be `len`.
pub fn repeat(sources: &mut Vec<u32>, offset: usize, count: usize, len: usize) -> Option<()> {
    let start = sources.len().checked_sub(offset).filter(|_| offset > 0 && sources.len() + count <= len)?;
    for at in start..start + count {
        sources.push(*sources.get(at)?);
    }
    Some(())
}

/// Writes the code of a byte at a bit position.
fn put(packed: &mut [u8], bit: usize, codes: &Codes, byte: u8) {
    let length = usize::from(codes.length(byte));
    let code = codes.words.get(usize::from(byte)).copied().unwrap_or_default();
    for number in 0..length {
        let (place, mask) = ((bit + number) / 8, 1 << ((bit + number) % 8));
        let Some(place) = packed.get_mut(place) else { return };
        if code >> (length - 1 - number) & 1 == 1 { *place |= mask } else { *place &= !mask }
    }
}

fn distance(symbol: u16, bits: &mut Bits<'_>) -> Option<usize> {
    match symbol {
        0..4 => Some(usize::from(symbol) + 1),
        4..30 => {
            let extra = u32::from(symbol) / 2 - 1;
            Some(((2 + usize::from(symbol % 2)) << extra) + bits.number(extra)? + 1)
        }
        _ => None,
    }
}

/// Reads the code descriptions of a block: literals and lengths, distances.
fn described(bits: &mut Bits<'_>) -> Option<(Codes, Codes)> {
    let literals = bits.number(5)? + 257;
    let distances = bits.number(5)? + 1;
    let count = bits.number(4)? + 4;
    let mut lengths = [0; ORDER.len()];
    for place in ORDER.iter().take(count) {
        *lengths.get_mut(*place)? = bits.number(3)? as u8;
    }
    let codes = Codes::new(&lengths);
    let mut lengths: Vec<u8> = Vec::with_capacity(literals + distances);
    while lengths.len() < literals + distances {
        let (length, times) = match bits.symbol(&codes)? {
            symbol @ ..16 => (symbol as u8, 1),
            16 => (*lengths.last()?, 3 + bits.number(2)?),
            17 => (0, 3 + bits.number(3)?),
            _ => (0, 11 + bits.number(7)?),
        };
        lengths.resize(lengths.len() + times, length);
    }
    let (literals, distances) = lengths.split_at_checked(literals)?;
    Some((Codes::new(literals), Codes::new(distances)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};
    use proptest::prelude::*;

    fn compressed(content: &[u8], level: u32) -> Vec<u8> {
        let mut packed = Vec::with_capacity(content.len() + 1024);
        let mut state = Compress::new(Compression::new(level), true);
        state.compress_vec(content, &mut packed, FlushCompress::Finish).unwrap();
        packed
    }

    /// Decompresses a stream without a checksum.
    fn content_of(wire: &[u8], len: usize) -> Vec<u8> {
        let mut content = Vec::with_capacity(len + 1);
        Decompress::new(false).decompress_vec(&wire[HEADER..], &mut content, FlushDecompress::Finish).unwrap();
        content
    }

    proptest! {
        #[test]
        fn what_was_compressed_is_taken_apart_and_put_together(
            content in "[a-c]{0,20}[A-Za-z0-9 ]{1,400}[a-c]{0,300}",
            level in 0..10_u32,
        ) {
            let content = content.as_bytes();
            let wire = compressed(content, level);
            let deflated = Deflated::parse(&wire, content.len()).unwrap();
            let read: Vec<u8> = deflated.sources.iter().map(|source| deflated.literals[*source as usize].byte).collect();
            prop_assert_eq!(&read, &content);
            prop_assert_eq!(deflated.with(&wire, content, &vec![false; content.len()]), wire);
        }

        #[test]
        fn what_stays_stays_and_the_rest_is_replaced_where_a_code_is_as_long(content in "[a-z]{1,300}", level in 0..10_u32) {
            let content = content.as_bytes();
            let wire = compressed(content, level);
            let other: Vec<u8> = content.iter().map(|byte| if *byte < b'n' { *byte } else { b'n' + (byte - b'n' + 1) % 13 }).collect();
            let stays: Vec<bool> = content.iter().map(|byte| *byte < b'n').collect();
            let anew = Deflated::parse(&wire, content.len()).unwrap().with(&wire, &other, &stays);
            prop_assert_eq!(anew.len(), wire.len());
            let read = content_of(&anew, content.len());
            prop_assert_eq!(read.len(), content.len());
            for ((is, was), other) in read.iter().zip(content).zip(&other) {
                prop_assert!(*was >= b'n' || is == was);
                prop_assert!(is.is_ascii_lowercase() || level == 0 && is == other);
            }
        }

        #[test]
        fn no_bytes_make_it_fail(bytes in prop::collection::vec(any::<u8>(), 0..200), len in 0..1000_usize) {
            Deflated::parse(&bytes, len);
        }
    }

    #[test]
    fn fixed_codes_let_any_letter_take_the_place_of_another() {
        let content = b"a short text with a word";
        let wire = compressed(content, 9);
        let other: Vec<u8> = content.iter().map(|byte| if *byte == b' ' { b' ' } else { b'q' }).collect();
        let anew = Deflated::parse(&wire, content.len()).unwrap().with(&wire, &other, &vec![false; content.len()]);
        assert_eq!(content_of(&anew, content.len()), b"q qqqqq qqqq qqqq q qqqq");
    }
}
