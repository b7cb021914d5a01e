//! Totals of a connection's frames, whatever operations they belong to.

use crate::limits;
use crate::packet::Headers;
use overhead_model::record::TcpTotals;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    pub frames: u64,
    /// Frames of repeated turns among them.
    pub recalled: u64,
    pub wire_bytes: u64,
    pub payload_frames: u64,
    control_frames: u64,
    /// Payload bytes, including repeats.
    payload_bytes: u64,
    /// Absent without any, as on most connections.
    rare: Option<Box<RareCounts>>,
}

/// Counts that few connections need; see [`TcpTotals`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RareCounts {
    pub retransmitted_bytes: u64,
    pub out_of_order_frames: u64,
    pub snapped_bytes: u64,
    oversize_frames: u64,
    oversize_header_bytes: u64,
    oversize_longest_bytes: u64,
}

impl FlowCounts {
    /// Counts a frame with a whole segment of these lengths.
    #[inline]
    pub fn count_frame(&mut self, headers: Headers, payload_len: usize) {
        self.frames += 1;
        self.wire_bytes += headers.total() + payload_len as u64;
        self.segment(headers, payload_len as u32, 1);
    }

    /// Counts the payload of a segment, if any, that came in this many frames.
    #[inline]
    pub fn segment(&mut self, headers: Headers, payload_len: u32, frames: u32) {
        if payload_len > 0 {
            self.payload_frames += 1;
            self.payload_bytes += u64::from(payload_len);
        } else {
            self.control_frames += 1;
        }
        // A fragmented packet was already cut to size, and a stream without packets needs no cutting.
        if headers.ip > 0 && headers.ip + headers.tcp + payload_len > limits::ETHERNET_MTU && frames == 1 {
            self.oversize(headers, payload_len);
        }
    }

    /// Returns the payload bytes that were on the wire but not captured.
    pub fn snapped_bytes(&self) -> u64 {
        self.rare.as_ref().map_or(0, |rare| rare.snapped_bytes)
    }

    /// Counts a frame too long for one Ethernet frame, and the headers of its further pieces.
    #[cold]
    fn oversize(&mut self, Headers { link, ip, tcp }: Headers, payload_len: u32) {
        let room = limits::ETHERNET_MTU.saturating_sub(ip + tcp);
        if room == 0 {
            return;
        }
        let further = payload_len.div_ceil(room).saturating_sub(1);
        let rare = self.rare();
        rare.oversize_frames += 1;
        rare.oversize_header_bytes += u64::from(further) * u64::from(link + ip + tcp);
        rare.oversize_longest_bytes = rare.oversize_longest_bytes.max(u64::from(ip + tcp + payload_len));
    }

    pub fn rare(&mut self) -> &mut RareCounts {
        self.rare.get_or_insert_default()
    }

    /// Adds `times` repetitions of a turn, at least one. Oversize frames are the only rare counts in turns.
    pub fn add_turns(&mut self, part: &Self, times: u64) {
        self.frames += part.frames * times;
        self.recalled += part.frames * times;
        self.wire_bytes += part.wire_bytes * times;
        self.payload_frames += part.payload_frames * times;
        self.control_frames += part.control_frames * times;
        self.payload_bytes += part.payload_bytes * times;
        if let Some(part) = &part.rare {
            let sum = self.rare();
            sum.oversize_frames += part.oversize_frames * times;
            sum.oversize_header_bytes += part.oversize_header_bytes * times;
            sum.oversize_longest_bytes = sum.oversize_longest_bytes.max(part.oversize_longest_bytes);
        }
    }

    pub fn totals(&self) -> TcpTotals {
        let rare = self.rare.as_deref().copied().unwrap_or_default();
        TcpTotals {
            connections: 1,
            frames: self.frames,
            payload_bytes: self.payload_bytes,
            retransmitted_bytes: rare.retransmitted_bytes,
            out_of_order_frames: rare.out_of_order_frames,
            control_frames: self.control_frames,
            snapped_bytes: rare.snapped_bytes,
            oversize_frames: rare.oversize_frames,
            oversize_header_bytes: rare.oversize_header_bytes,
            oversize_longest_bytes: rare.oversize_longest_bytes,
            ..TcpTotals::default()
        }
    }
}
