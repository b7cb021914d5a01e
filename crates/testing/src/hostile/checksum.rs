//! Checksums of data that is often compared and only shown if it differs.

/// Adds a value to a checksum (FNV-1a on words).
pub(crate) fn mix(sum: u64, value: u64) -> u64 {
    (sum ^ value).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23)
}

/// Returns a checksum of a sequence of numbers. Every bit depends on every number (the last steps come from
/// `SplitMix64`), so that sums of such checksums, in any order, differ if the data does.
pub(crate) fn of(numbers: impl Iterator<Item = u64>) -> u64 {
    let sum = numbers.fold(0x6f76_6572_6865_6164, mix);
    let sum = (sum ^ sum >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let sum = (sum ^ sum >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    sum ^ sum >> 31
}
