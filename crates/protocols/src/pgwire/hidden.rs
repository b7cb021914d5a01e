//! Whether a value of unknown type could have an inner structure.
//!
//! Such a value is data as a whole. That misleads nobody where it cannot be anything but a number or a text, so that only
//! those are reported which look like an array, a composite or a range.

/// Longest header of an array that is looked at: six dimensions.
const DIMENSIONS: u32 = 6;
/// Fields that a composite can have (`MaxTupleAttributeNumber` of the server).
const FIELDS: u32 = 1664;
/// Flags that a range can have: empty, inclusive and infinite bounds.
const RANGE_FLAGS: u8 = 0x1f;

/// Returns whether a value of which `bytes` were captured, of `len`, could have structure.
#[inline(never)]
pub(super) fn may_be_structured(bytes: &[u8], len: u64, binary: bool) -> bool {
    let bytes = usize::try_from(len).ok().and_then(|len| bytes.get(..len)).unwrap_or(bytes);
    if binary { in_binary(bytes, len) } else { in_text(bytes) }
}

/// How a value begins, where that alone tells that it could have no structure, whatever follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PgPlainStart {
    /// With any byte.
    Any,
    /// With any digit.
    Digit,
    /// With this byte.
    Byte,
}

/// Returns how a value begins that could have no structure by [`may_be_structured`]; `None` where it takes more than the first byte to
/// tell that.
pub(super) fn plain_start(bytes: &[u8], len: u64, binary: bool) -> Option<PgPlainStart> {
    let is_whole = bytes.len() as u64 >= len;
    let first = bytes.first().copied().filter(|_| is_whole && len > 0)?;
    if binary { binary_start(first, len) } else { text_start(first, len) }
}

/// Returns the same of a value in text.
fn text_start(first: u8, len: u64) -> Option<PgPlainStart> {
    match first {
        _ if len == 1 => Some(PgPlainStart::Any),
        b'0'..=b'9' => Some(PgPlainStart::Digit),
        b'{' | b'(' | b'[' => None,
        _ => Some(PgPlainStart::Byte),
    }
}

/// Returns the same of a value in binary format.
fn binary_start(first: u8, len: u64) -> Option<PgPlainStart> {
    match len {
        0..5 => Some(PgPlainStart::Any),
        // Too short for anything but a range, whose first byte says how long it is at least.
        5..12 => range_bounds(first).is_none_or(|bounds| 1 + 4 * bounds > len).then_some(PgPlainStart::Byte),
        _ => None,
    }
}

/// Returns how many bounds a range with these flags has; `None` where no range with any has such.
fn range_bounds(flags: u8) -> Option<u64> {
    let bounds = u64::from(flags & 0x8 == 0) + u64::from(flags & 0x10 == 0);
    (flags <= RANGE_FLAGS && flags & 1 == 0 && bounds > 0).then_some(bounds)
}

fn in_text(text: &[u8]) -> bool {
    let mut literal = PgLiteralProbe::default();
    literal.read(text);
    literal.is_structured()
}

/// Returns whether the whole value reads as an array, a composite or a range with something in it, as far as it was captured;
/// the layouts are in [`super::values`].
fn in_binary(bytes: &[u8], len: u64) -> bool {
    let walk = || PgBinaryProbe { rest: bytes, left: len };
    let verdicts = || [walk().array(), walk().composite(), walk().range(), walk().multirange()];
    // Nothing is shorter, and of less nothing can be said.
    len >= 5 && bytes.len() >= 5 && verdicts().into_iter().any(|verdict| verdict.unwrap_or_else(|verdict| verdict))
}

/// A tentative reading of a value in binary format. Its errors are verdicts: it cannot be such a value, or it can, as far
/// as it was captured.
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

    /// A word that must be as `is_right` says.
    fn check(&mut self, is_right: impl FnOnce(u32) -> bool) -> Result<u32, bool> {
        let word = self.word()?;
        if is_right(word) { Ok(word) } else { Err(false) }
    }

    fn pass(&mut self, n: u64) -> Result<(), bool> {
        self.left = self.left.checked_sub(n).ok_or(false)?;
        self.rest = usize::try_from(n).ok().and_then(|n| self.rest.get(n..)).unwrap_or_default();
        Ok(())
    }

    /// A length and as many bytes; gives them, none where it is null.
    fn part(&mut self) -> Result<Self, bool> {
        let len = match self.word()? {
            u32::MAX => 0,
            len => u64::from(len),
        };
        let part = Self { left: len, ..*self };
        self.pass(len)?;
        Ok(part)
    }

    /// So many lengths and values, and nothing behind them.
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

/// A text that is read piece by piece, as long as it looks like the literal of an array, a composite or a range.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PgLiteralProbe {
    /// 0 before the first byte.
    first: u8,
    last: u8,
    quoted: bool,
    escaped: bool,
    commas: usize,
    json: JsonGuess,
}

/// Whether what stands in braces is an object of JSON, which is no structure of PostgreSQL's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum JsonGuess {
    /// Only space so far behind the brace.
    #[default]
    Opened,
    /// Within, or behind, what could be the first name.
    Name,
    Yes,
    No,
}

impl PgLiteralProbe {
    /// Reads on. Costs nothing where the first byte tells.
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

    /// Returns whether that was the whole text, and could have structure.
    pub fn is_structured(&self) -> bool {
        match (self.first, self.last) {
            (b'{', b'}') => self.json != JsonGuess::Yes,
            (b'(', b')') | (b'[', b'}') => true,
            // A range has two bounds; a list of JSON or of an extension's type has any number of elements.
            (b'(' | b'[', b']') | (b'[', b')') => self.commas == 1,
            _ => false,
        }
    }
}
