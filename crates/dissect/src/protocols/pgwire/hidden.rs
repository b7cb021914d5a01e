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

/// True where a value of which `bytes` were captured, of `len`, could have structure.
pub(super) fn in_value(bytes: &[u8], len: u64, binary: bool) -> bool {
    let bytes = usize::try_from(len).ok().and_then(|len| bytes.get(..len)).unwrap_or(bytes);
    if binary { in_binary(bytes, len) } else { in_text(bytes) }
}

fn in_text(text: &[u8]) -> bool {
    let mut literal = Literal::default();
    literal.read(text);
    literal.is_structured()
}

/// True where the whole value reads as an array, a composite or a range with something in it; the layouts are in
/// [`super::values`].
fn in_binary(bytes: &[u8], len: u64) -> bool {
    let walk = || Walk { rest: bytes, left: len };
    len >= 5 && (walk().array() || walk().composite() || walk().range() || walk().multirange())
}

/// A tentative reading of a value in binary format. What was not captured could be anything.
#[derive(Clone, Copy)]
struct Walk<'a> {
    rest: &'a [u8],
    left: u64,
}

impl Walk<'_> {
    /// Four bytes; those that were not captured are 0. `None` where the value has fewer.
    fn word(&mut self) -> Option<u32> {
        let mut word = [0; 4];
        word.iter_mut().zip(self.rest).for_each(|(slot, byte)| *slot = *byte);
        self.pass(4)?;
        Some(u32::from_be_bytes(word))
    }

    fn pass(&mut self, n: u64) -> Option<()> {
        self.left = self.left.checked_sub(n)?;
        self.rest = usize::try_from(n).ok().and_then(|n| self.rest.get(n..)).unwrap_or_default();
        Some(())
    }

    /// A length and as many bytes; gives them, none where it is null.
    fn part(&mut self) -> Option<Self> {
        let len = match self.word()? {
            u32::MAX => 0,
            len => u64::from(len),
        };
        let part = Self { left: len, ..*self };
        self.pass(len)?;
        Some(part)
    }

    /// Lengths and values to the end; gives how many. A value that was not captured to its end is not looked at further.
    fn parts(&mut self) -> Option<u64> {
        let mut count = 0;
        while self.left > 0 && !self.rest.is_empty() {
            self.part()?;
            count += 1;
        }
        Some(count)
    }

    fn array(mut self) -> bool {
        let mut read = || {
            let dimensions = self.word().filter(|dimensions| (1..=DIMENSIONS).contains(dimensions))?;
            self.word().filter(|flags| *flags <= 1)?;
            self.word().filter(|element| *element > 0)?;
            let mut elements = 1_u64;
            for _ in 0..dimensions {
                elements = u64::saturating_mul(elements, u64::from(self.word()?));
                self.word()?;
            }
            let whole = self.rest.len() as u64 == self.left;
            self.parts().filter(|count| *count == elements || !whole)
        };
        read().is_some()
    }

    fn composite(mut self) -> bool {
        let mut read = || {
            let fields = self.word().filter(|fields| (1..=FIELDS).contains(fields))?;
            for _ in 0..fields {
                if self.rest.is_empty() && self.left > 0 {
                    return Some(());
                }
                self.word().filter(|oid| *oid > 0)?;
                self.part()?;
            }
            (self.left == 0).then_some(())
        };
        read().is_some()
    }

    fn range(mut self) -> bool {
        let Some(&flags) = self.rest.first() else { return false };
        let bounds = u64::from(flags & 0x8 == 0) + u64::from(flags & 0x10 == 0);
        let mut read = || {
            self.pass(1)?;
            let whole = self.rest.len() as u64 == self.left;
            self.parts().filter(|count| *count == bounds || !whole)
        };
        flags <= RANGE_FLAGS && flags & 1 == 0 && bounds > 0 && read().is_some()
    }

    fn multirange(mut self) -> bool {
        let Some(count @ 1..) = self.word() else { return false };
        for _ in 0..count {
            if self.rest.is_empty() && self.left > 0 {
                return true;
            }
            if !self.part().is_some_and(Self::range) {
                return false;
            }
        }
        self.left == 0
    }
}

/// A text that is read piece by piece, as long as it looks like the literal of an array, a composite or a range.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Literal {
    /// 0 before the first byte.
    first: u8,
    last: u8,
    quoted: bool,
    escaped: bool,
    commas: usize,
    json: Json,
}

/// Whether what stands in braces is an object of JSON, which is no structure of PostgreSQL's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Json {
    /// Only space so far behind the brace.
    #[default]
    Opened,
    /// Within, or behind, what could be the first name.
    Name,
    Yes,
    No,
}

impl Literal {
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
            (Json::Opened, b' ' | b'\n' | b'\t' | b'\r') => Json::Opened,
            (Json::Name, _) if self.quoted => Json::Name,
            (Json::Opened | Json::Name, b'"') | (Json::Name, b' ' | b'\n' | b'\t' | b'\r') => Json::Name,
            (Json::Name, b':') => Json::Yes,
            (Json::Opened | Json::Name, _) => Json::No,
            (known, _) => known,
        };
    }

    /// True where that was the whole text, and could have structure.
    pub fn is_structured(&self) -> bool {
        match (self.first, self.last) {
            (b'{', b'}') => self.json != Json::Yes,
            (b'(', b')') | (b'[', b'}') => true,
            // A range has two bounds; a list of JSON or of an extension's type has any number of elements.
            (b'(' | b'[', b']') | (b'[', b')') => self.commas == 1,
            _ => false,
        }
    }
}
