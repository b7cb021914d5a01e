#[cfg(feature = "live")]
use overhead_model::frame::Frame;

/// Frames that a live source has delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveTotals {
    pub frames: u64,
    /// Original lengths, in bytes.
    pub wire_bytes: u64,
    /// Latest time of a frame, Unix nanoseconds; `None` without frames.
    pub last_ns: Option<u64>,
}

impl LiveTotals {
    /// Counts a frame, whose time may be earlier than the last one's.
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
    /// Packets that passed the kernel filter, including those dropped for lack of buffer space. On `lo` only the
    /// incoming copy is requested; before Linux 4.20 outgoing ones count as well.
    pub received: u64,
    /// Packets dropped for lack of buffer space.
    pub dropped: u64,
    /// Packets dropped by the interface or its driver, before the filter; 0 if the driver does not count them.
    pub interface_dropped: u64,
}
