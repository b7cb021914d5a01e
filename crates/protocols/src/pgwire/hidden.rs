//! Detects values of unknown type that may have an inner structure.
//!
//! A value of unknown type counts as data. That is right for numbers and texts, so only values that look like an array,
//! a composite or a range are reported.

use overhead_decode::{Free, Out, Reader};

/// Most dimensions of an array (`MAXDIM` of the server).
pub(super) const DIMENSIONS: u32 = 6;
/// Most fields of a composite (`MaxTupleAttributeNumber` of the server).
const FIELDS: u32 = 1664;
/// Flags of a range: empty, inclusive bounds, infinite bounds.
const RANGE_FLAGS: u8 = 0x1f;

/// Returns whether a value of `len` bytes, captured as `bytes`, may have a structure.
#[inline(never)]
pub fn may_be_structured(bytes: &[u8], len: u64, binary: bool) -> bool {
    let bytes = usize::try_from(len).ok().and_then(|len| bytes.get(..len)).unwrap_or(bytes);
    if !binary {
        let mut literal = PgLiteralProbe::default();
        literal.read(bytes);
        return literal.is_structured();
    }
    let walk = || PgBinaryProbe { rest: bytes, left: len };
    let verdicts = || [walk().array(), walk().composite(), walk().range(), walk().multirange()];
    len >= 5 && bytes.len() >= 5 && verdicts().into_iter().any(|verdict| verdict.unwrap_or_else(|verdict| verdict))
}

/// Marks the bytes of a value of unknown type, posted next, that cannot make it look structured.
pub fn free_plain<R: Reader>(bytes: &[u8], len: u64, binary: bool, out: &mut Out<'_, R>) {
    let is_whole = bytes.len() as u64 >= len;
    let Some(&first) = bytes.first().filter(|_| is_whole && len > 0) else { return };
    let is_short = len < if binary { 5 } else { 2 };
    match first {
        _ if is_short => out.free(0, len, Free::Any),
        b'0'..=b'9' if !binary => {
            out.free(0, 1, Free::Digits);
            out.free(1, len - 1, Free::Any);
        }
        b'{' | b'(' | b'[' if !binary => {}
        // Long enough only for a range; its first byte gives its shortest length.
        flags if binary && (len >= 12 || range_bounds(flags).is_some_and(|bounds| 4 * bounds < len)) => {}
        _ => out.free(1, len - 1, Free::Any),
    }
}

/// Returns the number of bounds of a range with these flags; `None` for impossible flags and for ranges without bounds.
fn range_bounds(flags: u8) -> Option<u64> {
    let bounds = u64::from(flags & 0x8 == 0) + u64::from(flags & 0x10 == 0);
    (flags <= RANGE_FLAGS && flags & 1 == 0 && bounds > 0).then_some(bounds)
}

/// Reads a binary value tentatively. Its errors are verdicts: `false` for a value that cannot be of this kind, `true`
/// if the captured part fits.
#[derive(Clone, Copy)]
struct PgBinaryProbe<'a> {
    rest: &'a [u8],
    left: u64,
}

impl PgBinaryProbe<'_> {
    fn word(&mut self) -> Result<u32, bool> {
        let word = self.rest.first_chunk().map(|word| u32::from_be_bytes(*word));
        self.pass(4)?;
        word.ok_or(true)
    }

    fn check(&mut self, is_right: impl FnOnce(u32) -> bool) -> Result<u32, bool> {
        let word = self.word()?;
        if is_right(word) { Ok(word) } else { Err(false) }
    }

    fn pass(&mut self, n: u64) -> Result<(), bool> {
        self.left = self.left.checked_sub(n).ok_or(false)?;
        self.rest = usize::try_from(n).ok().and_then(|n| self.rest.get(n..)).unwrap_or_default();
        Ok(())
    }

    /// Reads a length and returns as many bytes; none for a null.
    fn part(&mut self) -> Result<Self, bool> {
        let len = match self.word()? {
            u32::MAX => 0,
            len => u64::from(len),
        };
        let part = Self { left: len, ..*self };
        self.pass(len)?;
        Ok(part)
    }

    /// Reads `count` parts and returns whether they end the value.
    fn parts(&mut self, count: u64) -> Result<bool, bool> {
        for _ in 0..count {
            self.part()?;
        }
        Ok(self.left == 0)
    }

    fn array(mut self) -> Result<bool, bool> {
        let dimensions = self.check(|dimensions| (1..=DIMENSIONS).contains(&dimensions))?;
        self.check(|flags| flags <= 1)?;
        self.check(|element| element > 0)?;
        let mut elements = 1_u64;
        for _ in 0..dimensions {
            elements = elements.saturating_mul(u64::from(self.word()?));
            self.word()?;
        }
        self.parts(elements)
    }

    fn composite(mut self) -> Result<bool, bool> {
        for _ in 0..self.check(|fields| (1..=FIELDS).contains(&fields))? {
            self.check(|oid| oid > 0)?;
            self.part()?;
        }
        Ok(self.left == 0)
    }

    fn range(mut self) -> Result<bool, bool> {
        let flags = *self.rest.first().filter(|_| self.left > 0).ok_or(self.left > 0)?;
        let bounds = range_bounds(flags).ok_or(false)?;
        self.pass(1)?;
        self.parts(bounds)
    }

    fn multirange(mut self) -> Result<bool, bool> {
        for _ in 0..self.check(|ranges| ranges > 0)? {
            if !self.part()?.range()? {
                return Err(false);
            }
        }
        Ok(self.left == 0)
    }
}

/// Checks, piece by piece, whether a text looks like the literal of an array, a composite or a range.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PgLiteralProbe {
    first: u8,
    last: u8,
    quoted: bool,
    escaped: bool,
    commas: usize,
    json: JsonGuess,
}

/// Whether braces enclose a JSON object, which has no structure for PostgreSQL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum JsonGuess {
    /// Nothing but white space since the brace.
    #[default]
    Opened,
    /// Within or after a text that may be the first name.
    Name,
    Yes,
    No,
}

impl PgLiteralProbe {
    /// Reads on; returns at once if the first byte rules out a structure.
    pub fn read(&mut self, text: &[u8]) {
        let mut rest = text;
        if let (0, [first, behind @ ..]) = (self.first, text) {
            (self.first, rest) = (*first, behind);
        }
        if !matches!(self.first, b'{' | b'(' | b'[') {
            return;
        }
        for &byte in rest {
            self.byte(byte);
        }
    }

    fn byte(&mut self, byte: u8) {
        self.last = byte;
        if std::mem::take(&mut self.escaped) {
            return;
        }
        match byte {
            b'\\' => self.escaped = true,
            b'"' => self.quoted = !self.quoted,
            b',' if !self.quoted => self.commas += 1,
            _ => {}
        }
        self.json = match (self.json, byte) {
            (JsonGuess::Opened, b' ' | b'\n' | b'\t' | b'\r') => JsonGuess::Opened,
            (JsonGuess::Name, _) if self.quoted => JsonGuess::Name,
            (JsonGuess::Opened | JsonGuess::Name, b'"') | (JsonGuess::Name, b' ' | b'\n' | b'\t' | b'\r') => {
                JsonGuess::Name
            }
            (JsonGuess::Name, b':') => JsonGuess::Yes,
            (JsonGuess::Opened | JsonGuess::Name, _) => JsonGuess::No,
            (known, _) => known,
        };
    }

    pub fn is_structured(&self) -> bool {
        match (self.first, self.last) {
            (b'{', b'}') => self.json != JsonGuess::Yes,
            (b'(', b')') | (b'[', b'}') => true,
            // A range has two bounds; JSON lists and extensions' types have any number of elements.
            (b'(' | b'[', b']') | (b'[', b')') => self.commas == 1,
            _ => false,
        }
    }
}
