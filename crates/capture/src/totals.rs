//! Sums over the frames that a live source delivered.

#[cfg(feature = "live")]
use overhead_model::frame::Frame;

/// What a live source delivered so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveTotals {
    /// Frames.
    pub frames: u64,
    /// Their original lengths, in bytes.
    pub wire_bytes: u64,
    /// Latest time of a frame, Unix nanoseconds; `None` without frames.
    pub last_ns: Option<u64>,
}

impl LiveTotals {
    /// Adds a frame.
    #[cfg(feature = "live")]
    pub fn add(&mut self, frame: &Frame<'_>) {
        self.frames += 1;
        self.wire_bytes += u64::from(frame.wire_len());
        self.last_ns = Some(self.last_ns.map_or(frame.time_ns, |last| last.max(frame.time_ns)));
    }
}

/// Counters of the kernel's packet socket since the capture was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelStats {
    /// Packets that passed the kernel filter, those dropped for want of buffer included. Of what passes `lo`, the kernel
    /// is asked for what comes in alone; before Linux 4.20 this counts each packet going out as well.
    pub received: u64,
    /// Packets dropped for want of room in the capture buffer.
    pub dropped: u64,
    /// Packets dropped by the interface or its driver, whether or not they would have passed the filter; 0 where the
    /// driver does not count.
    pub interface_dropped: u64,
}
