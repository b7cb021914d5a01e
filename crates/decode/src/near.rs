//! Finds a byte that is close: names and header lines are short.

/// Words searched before the vector search starts.
const NEAR: usize = 3;
const ONES: u64 = u64::from_le_bytes([1; 8]);
const TOPS: u64 = u64::from_le_bytes([0x80; 8]);

/// Returns the position of the first `byte`.
#[inline]
pub fn find(byte: u8, bytes: &[u8]) -> Option<usize> {
    let (words, rest) = bytes.as_chunks();
    for (index, word) in words.iter().take(NEAR).enumerate() {
        // The lowest remaining top bit marks the first zero (S. E. Anderson, "Bit Twiddling Hacks").
        let word = u64::from_le_bytes(*word) ^ (ONES * u64::from(byte));
        let zeros = word.wrapping_sub(ONES) & !word & TOPS;
        if zeros != 0 {
            return Some(8 * index + zeros.trailing_zeros() as usize / 8);
        }
    }
    if words.len() < NEAR {
        return rest.iter().position(|&other| other == byte).map(|at| 8 * words.len() + at);
    }
    let far = bytes.get(8 * NEAR..).unwrap_or_default();
    memchr::memchr(byte, far).map(|at| 8 * NEAR + at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_found_is_the_first(byte: u8, bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0_u8..3, Just(0x80)], 0..64)) {
            for byte in [byte, 0, 1, 0x80] {
                prop_assert_eq!(find(byte, &bytes), bytes.iter().position(|&other| other == byte));
            }
        }
    }
}
