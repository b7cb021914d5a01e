//! Masks: patterns for payloads of the same length.

/// A pattern for payloads of one length, in words of sixteen bytes with bits that may differ.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub struct PayloadMask {
    /// Words without fixed bits are left out; the others may overlap.
    words: Box<[MaskWord]>,
}

/// A word's value and its fixed bits, in halves that vector instructions take together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct MaskWord {
    value: [u64; 2],
    mask: [u64; 2],
    /// The low halves of bytes that must be digits. The mask covers their high halves.
    digits: [u64; 2],
    at: usize,
}

const WORD: usize = 16;

impl PayloadMask {
    /// Returns the pattern of this payload, with these fixed bits, and the low halves of digits.
    pub fn new(payload: &[u8], mask: &[u8], digits: &[u8]) -> Self {
        let at_place = |at: usize| {
            let (value, mask, digits) = (word_at(payload, at), word_at(mask, at), word_at(digits, at));
            MaskWord { value: [value[0] & mask[0], value[1] & mask[1]], mask, digits, at }
        };
        let (mut words, mut from) = (Vec::with_capacity(payload.len().div_ceil(WORD)), 0);
        while let Some(fixed) = mask.get(from..).and_then(|rest| rest.iter().position(|bits| *bits != 0)) {
            let at = (from + fixed).min(payload.len().saturating_sub(WORD));
            words.push(at_place(at));
            from = at + WORD;
        }
        Self { words: words.into() }
    }

    /// Returns whether a payload of the same length matches.
    #[inline(always)]
    pub fn matches(&self, payload: &[u8]) -> bool {
        if payload.len() < WORD {
            let short = short(payload);
            return are_like(&self.words, |_| Some(short));
        }
        are_like(&self.words, |at| halves(payload, at))
    }
}

/// Returns whether words match the contents that `found` returns for their positions.
#[inline]
fn are_like(words: &[MaskWord], found: impl Fn(usize) -> Option<[u64; 2]>) -> bool {
    // Adding 6 takes values above 9 to at least 16.
    let (mut differ, mut and_six) = ([0; 2], [0; 2]);
    for word in words {
        let Some(found) = found(word.at) else { return false };
        for half in 0..2 {
            differ[half] |= (found[half] & word.mask[half]) ^ word.value[half];
            and_six[half] |= (found[half] & word.digits[half]) + 0x0606_0606_0606_0606;
        }
    }
    differ == [0; 2] && (and_six[0] | and_six[1]) & 0x1010_1010_1010_1010 == 0
}

/// Returns sixteen bytes, in halves.
#[inline]
pub fn halves(bytes: &[u8], at: usize) -> Option<[u64; 2]> {
    let word: &[u8; WORD] = bytes.get(at..)?.first_chunk()?;
    let ([one, other], _) = word.as_chunks() else { return None };
    Some([u64::from_le_bytes(*one), u64::from_le_bytes(*other)])
}

/// Returns sixteen bytes, or all if they are fewer.
#[inline(always)]
fn word_at(bytes: &[u8], at: usize) -> [u64; 2] {
    if let Some(halves) = halves(bytes, at) { halves } else { short(bytes) }
}

/// Returns all bytes, if they are fewer than a word.
#[inline(always)]
fn short(bytes: &[u8]) -> [u64; 2] {
    [bytes.first_chunk().map_or(0, |first| u64::from_le_bytes(*first)), last_word(bytes)]
}

/// Returns up to the last sixteen bytes, in halves.
#[inline(always)]
pub fn last_halves(bytes: &[u8]) -> [u64; 2] {
    match bytes.len().checked_sub(WORD).and_then(|at| halves(bytes, at)) {
        Some(halves) => halves,
        None => short(bytes),
    }
}

/// Returns up to the last eight bytes, in an order that depends only on the length of the payload.
#[inline]
fn last_word(bytes: &[u8]) -> u64 {
    if let Some(last) = bytes.last_chunk() {
        return u64::from_le_bytes(*last);
    }
    match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) => u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last)),
        _ => bytes.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests every byte at every position, in payloads shorter and longer than a word.
    #[test]
    fn digits_are_those_bytes_and_no_others() {
        for len in 1..20 {
            for place in 0..len {
                let is_digit = |at: usize| at == place || at.is_multiple_of(3);
                let text = |free: u8, fixed: u8| {
                    (0..len).map(|at| if is_digit(at) { free } else { fixed }).collect::<Vec<u8>>()
                };
                let mut payload = text(b'7', b'x');
                let pattern = PayloadMask::new(&payload, &text(0xf0, 0xff), &text(0x0f, 0));
                for byte in 0..=u8::MAX {
                    payload[place] = byte;
                    assert_eq!(pattern.matches(&payload), byte.is_ascii_digit(), "{byte} at {place} of {len}");
                }
            }
        }
    }
}
