//! Sums over the frames that a source delivered.

use overhead_model::frame::{Frame, LinkType};
use overhead_model::record::Input;
use std::collections::BTreeSet;

/// What a source delivered so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Frames.
    pub frames: u64,
    /// Their original lengths, in bytes.
    pub wire_bytes: u64,
    /// Their captured lengths, in bytes.
    pub captured_bytes: u64,
    /// Frames captured shorter than they were.
    pub truncated_frames: u64,
    /// Frames recorded as longer than they were; their captured length was taken for the original one.
    pub overlong_frames: u64,
    /// Frames without a time of their own (pcapng simple packets); they carry the time of the frame before them.
    pub untimed_frames: u64,
    /// Earliest time of a frame, Unix nanoseconds; `None` without timed frames.
    pub first_ns: Option<u64>,
    /// Latest time of a frame, likewise.
    pub last_ns: Option<u64>,
    /// Link types of the frames, whether or not this tool decodes them.
    pub link_types: BTreeSet<LinkType>,
    last_link: Option<LinkType>,
}

impl Totals {
    /// These totals as the record lists an input.
    pub fn input(&self, path: impl Into<String>) -> Input {
        Input { path: path.into(), frames: self.frames, wire_bytes: self.wire_bytes }
    }

    /// Adds a frame; `timed` says whether its time is its own.
    #[inline]
    pub(crate) fn add(&mut self, frame: &Frame<'_>, timed: bool) {
        self.frames += 1;
        self.wire_bytes += u64::from(frame.original_len);
        self.captured_bytes += frame.bytes.len() as u64;
        self.truncated_frames += u64::from(frame.bytes.len() < frame.original_len as usize);
        if self.last_link != Some(frame.link) {
            self.last_link = Some(frame.link);
            self.link_types.insert(frame.link);
        }
        if timed {
            self.first_ns = Some(self.first_ns.map_or(frame.time_ns, |first| first.min(frame.time_ns)));
            self.last_ns = Some(self.last_ns.map_or(frame.time_ns, |last| last.max(frame.time_ns)));
        } else {
            self.untimed_frames += 1;
        }
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
