//! Time within a capture.

/// A segment's position in the capture.
#[derive(Clone, Copy, Debug)]
pub struct CaptureMoment {
    /// Its frame's number, from 1; the last fragment's if fragmented.
    pub number: u64,
    /// Latest time of all frames so far, Unix nanoseconds.
    pub clock_ns: u64,
}
