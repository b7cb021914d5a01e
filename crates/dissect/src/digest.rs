//! Fast digests of a few words and short byte strings. They distinguish things, but do not withstand deliberate collisions.

/// Arbitrary odd numbers (fractional parts of the square roots of 2 and 3).
const KEYS: [u64; 2] = [0x6a09_e667_f3bc_c909, 0xbb67_ae85_84ca_a73b];

#[derive(Clone, Copy, Debug)]
pub struct Digest(u64);

impl Digest {
    /// Returns an empty digest of this kind.
    pub fn new(kind: u64) -> Self {
        Self(kind)
    }

    #[inline]
    pub fn words(&mut self, first: u64, second: u64) {
        self.0 = fold(first ^ KEYS[0], second ^ KEYS[1] ^ self.0.rotate_left(29));
    }

    /// Adds bytes and their number.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        let (pieces, rest) = bytes.as_chunks::<16>();
        for piece in pieces {
            let (first, second) = halves(piece);
            self.words(first, second);
        }
        let (first, second) = match (rest.first_chunk::<8>(), rest.last_chunk::<8>()) {
            (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
            _ => match (rest.first_chunk::<4>(), rest.last_chunk::<4>()) {
                (Some(first), Some(last)) => (u32::from_le_bytes(*first).into(), u32::from_le_bytes(*last).into()),
                _ => (rest.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)), 0),
            },
        };
        self.words(first, second ^ (bytes.len() as u64) << 40);
    }

    #[inline]
    pub fn value(self) -> u64 {
        fold(self.0, KEYS[1])
    }
}

/// Combines both halves of a product.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

#[inline]
fn halves(bytes: &[u8; 16]) -> (u64, u64) {
    let both = u128::from_le_bytes(*bytes);
    (both as u64, (both >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn digest(bytes: &[u8]) -> u64 {
        let mut digest = Digest::new(0);
        digest.bytes(bytes);
        digest.value()
    }

    proptest! {
        #[test]
        fn any_change_shows(bytes in prop::collection::vec(any::<u8>(), 0..80), at in any::<prop::sample::Index>(), with in 1u8..) {
            let mut longer = bytes.clone();
            longer.push(0);
            prop_assert_ne!(digest(&longer), digest(&bytes));
            let mut changed = longer.clone();
            *at.get_mut(&mut changed) ^= with;
            prop_assert_ne!(digest(&changed), digest(&longer));
        }
    }
}
