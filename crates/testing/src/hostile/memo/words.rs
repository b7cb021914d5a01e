//! Generates contents of messages: reproducible for a script, but different at each call.

/// A generator of contents (xorshift64*).
#[derive(Clone, Debug)]
pub(crate) struct Words(u64);

impl Words {
    /// Starts the sequence for a seed.
    pub fn new(seed: u64) -> Self {
        Self(0x6f76_6572_6865_6164 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).max(1))
    }

    /// Returns a number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit.max(1)
    }

    /// Returns a byte below `limit`.
    pub fn byte(&mut self, limit: u8) -> u8 {
        self.below(usize::from(limit)) as u8
    }

    /// Returns a number below `limit`, in the type that messages use.
    pub fn int(&mut self, limit: u16) -> i32 {
        i32::from(self.below(usize::from(limit)) as u16)
    }

    /// Returns `len` letters and digits.
    pub fn text(&mut self, len: usize) -> String {
        const OF: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";
        (0..len).map(|_| char::from(OF[self.below(OF.len())])).collect()
    }

    /// Returns a number of `len` digits that does not start with 0.
    pub fn digits(&mut self, len: usize) -> String {
        (0..len).map(|at| char::from(b'0' + if at == 0 { 1 + self.below(9) } else { self.below(10) } as u8)).collect()
    }

    /// Returns `len` arbitrary bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.below(256) as u8).collect()
    }
}
