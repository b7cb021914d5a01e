//! What a frame may be whose texts have other lengths than in the turn that was learnt: each is as long as the number before it says.

use super::mask::Pattern;
use overhead_decode::{CountedText, Free};
use overhead_model::{Account, Amounts};
use std::ops::Range;

/// A frame as the texts in it whose lengths are free, and the bytes between them.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Stretch {
    texts: Box<[Text]>,
    rest: Fixed,
}

/// Bytes whose number is fixed.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Fixed {
    len: usize,
    pattern: Pattern,
}

/// A text, and the number that counts its bytes.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Text {
    /// Bytes from the end of the text before to the number.
    before: Fixed,
    /// Those behind the number, with the first ones of the text, which are so many.
    between: Fixed,
    kept: u64,
    most: u64,
    /// All others are digits, and there is one at least; else they may be any.
    are_digits: bool,
    /// Digits of the number and bytes of the text as they were learnt, and where they are posted.
    learnt: [u64; 2],
    accounts: [Account; 2],
}

/// A text in a frame that is like one with such texts.
#[derive(Clone, Copy, Debug)]
pub struct TextFound {
    /// Which frame of the turn, from 0.
    pub frame: usize,
    /// Digits of the number, and bytes of the text.
    lengths: [u64; 2],
}

/// The bits of a payload that are fixed, and the low halves of bytes that are to be digits.
#[derive(Clone, Copy, Debug)]
pub struct Mask<'a> {
    pub payload: &'a [u8],
    pub fixed: &'a [u8],
    pub digits: &'a [u8],
}

impl Fixed {
    fn new(mask: Mask<'_>, place: Range<usize>) -> Option<Self> {
        let [payload, fixed, digits] = [mask.payload, mask.fixed, mask.digits].map(|bytes| bytes.get(place.clone()));
        Some(Self { len: place.len(), pattern: Pattern::new(payload?, fixed?, digits?) })
    }

    /// Moves past bytes like these.
    #[inline]
    fn pass(&self, rest: &mut &[u8]) -> bool {
        let Some((here, behind)) = rest.split_at_checked(self.len) else { return false };
        *rest = behind;
        self.pattern.matches(here)
    }
}

impl Text {
    /// Moves past bytes like these, and returns how many digits the number has, and how many bytes the text.
    #[inline]
    fn pass(&self, rest: &mut &[u8]) -> Option<[u64; 2]> {
        if !self.before.pass(rest) {
            return None;
        }
        let (len, digits) = decimal(rest)?;
        *rest = &rest[digits..];
        let others = len.checked_sub(self.kept)?;
        if len > self.most || !self.between.pass(rest) {
            return None;
        }
        let (text, behind) = rest.split_at_checked(usize::try_from(others).ok()?)?;
        *rest = behind;
        (!self.are_digits || are_digits(text)).then_some([digits as u64, len])
    }
}

impl Stretch {
    /// Returns what a frame may be in which these texts begin, which are given by the place of its first byte among those that are
    /// counted before them; `None` where it has none of them as a whole.
    pub fn new(mask: Mask<'_>, texts: &[CountedText], start: u64) -> Option<Self> {
        let mut stretches = Vec::new();
        let mut end = 0;
        for text in texts {
            let CountedText { ahead, digits, number_account, between, len, account, kept, free, most } = *text;
            let Some(at) = ahead.checked_sub(start).and_then(|at| usize::try_from(at).ok()) else { continue };
            let behind = at + digits as usize;
            let free_at = behind + (between + kept) as usize;
            let text_end = behind + (between + len) as usize;
            if at < end || text_end > mask.payload.len() {
                continue;
            }
            stretches.push(Text {
                before: Fixed::new(mask, end..at)?,
                between: Fixed::new(mask, behind..free_at)?,
                kept,
                most,
                are_digits: free == Free::Digits,
                learnt: [digits, len],
                accounts: [number_account, account],
            });
            end = text_end;
        }
        let stretch = Self { rest: Fixed::new(mask, end..mask.payload.len())?, texts: stretches.into() };
        // What does not keep the rules itself has likes that are unknown.
        (!stretch.texts.is_empty() && stretch.find(mask.payload, 0, &mut Vec::new())).then_some(stretch)
    }

    /// Returns whether the payload of a turn's frame with this number is like it; if so, the lengths of its texts are added to `texts`.
    #[inline]
    pub fn find(&self, payload: &[u8], frame: usize, texts: &mut Vec<TextFound>) -> bool {
        let before = texts.len();
        let mut rest = payload;
        let is_like = self.texts.iter().all(|text| {
            let found = text.pass(&mut rest);
            texts.extend(found.map(|lengths| TextFound { frame, lengths }));
            found.is_some()
        }) && self.rest.pass(&mut rest)
            && rest.is_empty();
        if !is_like {
            texts.truncate(before);
        }
        is_like
    }

    /// Adds by how much more the number and the text of each come to than those that were learnt; the sums wrap where that is less.
    /// Of a frame like the one that was learnt, none was found.
    pub fn add<'a>(&self, found: impl Iterator<Item = &'a TextFound>, amounts: &mut Amounts) {
        for (text, found) in self.texts.iter().zip(found) {
            for ((account, found), learnt) in text.accounts.into_iter().zip(found.lengths).zip(text.learnt) {
                amounts[account] = amounts[account].wrapping_add(found).wrapping_sub(learnt);
            }
        }
    }
}

/// Returns the number that bytes begin with, and its digits: one at least, none of them a zero before others, and as many as
/// [`CountedText::DIGITS`] at most.
#[inline]
fn decimal(bytes: &[u8]) -> Option<(u64, usize)> {
    let digit = |at: usize| bytes.get(at).map(|byte| u64::from(byte.wrapping_sub(b'0'))).filter(|digit| *digit < 10);
    let (mut number, mut digits) = (digit(0)?, 1);
    while let Some(digit) = digit(digits) {
        if number == 0 || digits == CountedText::DIGITS {
            return None;
        }
        (number, digits) = (10 * number + digit, digits + 1);
    }
    Some((number, digits))
}

/// Returns whether there are bytes, and all of them are digits.
#[inline]
fn are_digits(bytes: &[u8]) -> bool {
    // Of a digit the high half is 3, and still is where 6 is added.
    const HIGH: u64 = 0xf0f0_f0f0_f0f0_f0f0;
    const DIGITS: u64 = 0x3030_3030_3030_3030;
    let are = |word: &[u8; 8]| {
        let word = u64::from_le_bytes(*word);
        word & HIGH == DIGITS && word.wrapping_add(0x0606_0606_0606_0606) & HIGH == DIGITS
    };
    match bytes.last_chunk() {
        Some(last) => are(last) && bytes.as_chunks().0.iter().all(are),
        None => !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_number_has_no_zeros_before_it_and_eight_digits() {
        for (text, found) in [
            ("0\r", Some((0, 1))),
            ("7", Some((7, 1))),
            ("1000\r\n", Some((1000, 4))),
            ("12345678\r", Some((12_345_678, 8))),
            ("123456789\r", None),
            ("00\r", None),
            ("07\r", None),
            ("-1\r", None),
            ("", None),
        ] {
            assert_eq!(decimal(text.as_bytes()), found, "{text}");
        }
    }

    /// Of `$LENGTH\r\nTEXT\r\n`, learnt with this text: two bytes of it are kept, others are digits, and there are twelve at most.
    fn counted(text: &str) -> Stretch {
        let payload = format!("${}\r\n{text}\r\n", text.len());
        let digits = text.len().to_string().len() as u64;
        let text = CountedText {
            ahead: 1,
            digits,
            number_account: Account::Framing,
            between: 2,
            len: text.len() as u64,
            account: Account::Query,
            kept: 2,
            free: Free::Digits,
            most: 12,
        };
        let (fixed, digits) = (vec![0xff; payload.len()], vec![0; payload.len()]);
        let mask = Mask { payload: payload.as_bytes(), fixed: &fixed, digits: &digits };
        Stretch::new(mask, &[text], 0).unwrap()
    }

    #[test]
    fn a_text_keeps_its_beginning_its_bytes_and_the_longest_that_it_may_be() {
        let stretch = counted("k:123");
        let found = |payload: &str| {
            let mut texts = Vec::new();
            stretch.find(payload.as_bytes(), 0, &mut texts).then_some(texts)
        };
        for payload in ["$3\r\nk:9\r\n", "$5\r\nk:456\r\n", "$12\r\nk:0123456789\r\n"] {
            assert!(found(payload).is_some(), "{payload:?}");
        }
        for payload in [
            "$13\r\nk:01234567890\r\n",
            "$2\r\nk:\r\n",
            "$1\r\nk\r\n",
            "$5\r\nq:456\r\n",
            "$5\r\nk:4x6\r\n",
            "$5\r\nk:4567\r\n",
            "$6\r\nk:456\r\n",
            "$05\r\nk:456\r\n",
            "$5\r\nk:456\r\n+",
        ] {
            assert!(found(payload).is_none(), "{payload:?}");
        }
        let mut amounts = Amounts::default();
        stretch.add(found("$12\r\nk:0123456789\r\n").unwrap().iter(), &mut amounts);
        assert_eq!((amounts[Account::Framing], amounts[Account::Query]), (1, 7));
    }

    proptest! {
        #[test]
        fn digits_are_told_from_all_other_bytes(
            bytes in proptest::collection::vec(0x2e..0x3c_u8, 0..30),
            other in any::<u8>(),
            at in any::<usize>(),
        ) {
            let mut bytes = bytes;
            prop_assert_eq!(are_digits(&bytes), !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit));
            bytes = bytes.into_iter().map(|byte| b'0' + byte % 10).collect();
            if let Some(place) = at.checked_rem(bytes.len()) {
                prop_assert!(are_digits(&bytes));
                bytes[place] = other;
                prop_assert_eq!(are_digits(&bytes), other.is_ascii_digit());
            }
        }
    }
}
