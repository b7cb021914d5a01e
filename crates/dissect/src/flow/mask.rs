//! What a payload is to be that is like another one of its length: its mask.

/// What a payload of a certain length is to be, in words of sixteen bytes of which bits may be free to differ.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// Where no bit is fixed, there is none; those that are there may overlap.
    words: Box<[Word]>,
}

/// What a word is to be, and the bits in which it is to be it. In halves, which vector instructions take together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Word {
    value: [u64; 2],
    mask: [u64; 2],
    /// The low halves of bytes that are to be digits. Their high halves are in the mask.
    digits: [u64; 2],
    /// Where it begins.
    at: usize,
}

/// Bytes of a word.
const WORD: usize = 16;

impl Pattern {
    /// Of this payload, with these bits fixed, and the low halves of digits.
    pub fn new(payload: &[u8], mask: &[u8], digits: &[u8]) -> Self {
        let at_place = |at: usize| {
            let [value, mask, digits] = [payload, mask, digits].map(|bytes| halves(bytes, at).unwrap_or(short(bytes)));
            Word { value: [value[0] & mask[0], value[1] & mask[1]], mask, digits, at }
        };
        let (mut words, mut from) = (Vec::new(), 0);
        while let Some(fixed) = mask.get(from..).and_then(|rest| rest.iter().position(|bits| *bits != 0)) {
            let at = (from + fixed).min(payload.len().saturating_sub(WORD));
            words.push(at_place(at));
            from = at + WORD;
        }
        Self { words: words.into() }
    }

    /// Returns whether a payload of the same length is like it.
    #[inline(always)]
    pub fn matches(&self, payload: &[u8]) -> bool {
        if payload.len() < WORD {
            // There is one word at most.
            let short = short(payload);
            return are_like(&self.words, |_| Some(short));
        }
        are_like(&self.words, |at| halves(payload, at))
    }
}

/// Returns whether words are what they are to be, which `found` gives by their places.
#[inline]
fn are_like(words: &[Word], found: impl Fn(usize) -> Option<[u64; 2]>) -> bool {
    // What is more than 9 comes to 16 and more where 6 is added.
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

/// Returns the sixteen bytes from a place on, in halves.
#[inline]
pub fn halves(bytes: &[u8], at: usize) -> Option<[u64; 2]> {
    let word: &[u8; WORD] = bytes.get(at..)?.first_chunk()?;
    let ([one, other], _) = word.as_chunks() else { return None };
    Some([u64::from_le_bytes(*one), u64::from_le_bytes(*other)])
}

/// Returns all bytes, where they are fewer than those of a word.
#[inline(always)]
fn short(bytes: &[u8]) -> [u64; 2] {
    [bytes.first_chunk().map_or(0, |first| u64::from_le_bytes(*first)), last_word(bytes)]
}

/// Returns the last sixteen bytes in halves, or as many as there are.
#[inline(always)]
pub fn last_halves(bytes: &[u8]) -> [u64; 2] {
    bytes.len().checked_sub(WORD).and_then(|at| halves(bytes, at)).unwrap_or_else(|| short(bytes))
}

/// The last eight bytes, or as many as there are: the same bytes in the same places for all of one length.
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

    /// Every byte in every place, of payloads shorter and longer than a word.
    #[test]
    fn digits_are_those_bytes_and_no_others() {
        for len in 1..20 {
            for place in 0..len {
                let is_digit = |at: usize| at == place || at.is_multiple_of(3);
                let text = |free: u8, fixed: u8| {
                    (0..len).map(|at| if is_digit(at) { free } else { fixed }).collect::<Vec<u8>>()
                };
                let mut payload = text(b'7', b'x');
                let pattern = Pattern::new(&payload, &text(0xf0, 0xff), &text(0x0f, 0));
                for byte in 0..=u8::MAX {
                    payload[place] = byte;
                    assert_eq!(pattern.matches(&payload), byte.is_ascii_digit(), "{byte} at {place} of {len}");
                }
            }
        }
    }
}
