//! Time within a capture.

/// Where a segment stands in the capture.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The number of its frame, from 1; of fragments, that of the last one.
    pub number: u64,
    /// The latest time of any frame up to it, Unix nanoseconds.
    pub clock_ns: u64,
}
