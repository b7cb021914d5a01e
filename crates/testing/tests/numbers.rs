//! Numbers that are the same each time.

/// A small generator of numbers (xorshift64*), so that inputs depend on nothing but their test and the seeds.
pub struct Numbers(pub u64);

impl Numbers {
    /// Returns a number below the limit, or 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit.max(1)
    }
}
