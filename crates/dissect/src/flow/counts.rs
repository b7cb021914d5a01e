//! What a connection's frames come to, whomever their bytes are for.

use crate::limits;
use crate::packet::Headers;
use overhead_model::record::TcpTotals;

/// Counts of frames and of what is in them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub frames: u64,
    pub wire_bytes: u64,
    /// Frames with payload.
    pub payload_frames: u64,
    pub tcp: TcpTotals,
}

impl Counts {
    /// Counts a frame with a whole segment, of these lengths.
    #[inline]
    pub fn frame(&mut self, headers: Headers, payload_len: usize) {
        self.frames += 1;
        self.wire_bytes += u64::from(headers.link + headers.ip + headers.tcp) + payload_len as u64;
        self.segment(headers, payload_len as u32, 1);
    }

    /// Counts the payload of a segment that came in so many frames, or that it has none.
    #[inline]
    pub fn segment(&mut self, headers: Headers, payload_len: u32, frames: u32) {
        if payload_len > 0 {
            self.payload_frames += 1;
            self.tcp.payload_bytes += u64::from(payload_len);
        } else {
            self.tcp.control_frames += 1;
        }
        // A packet of several fragments was cut to size already.
        if headers.ip + headers.tcp + payload_len > limits::ETHERNET_MTU && frames == 1 {
            self.oversize(headers, payload_len);
        }
    }

    /// Counts a frame that no Ethernet carries in one piece, and the headers of the further pieces.
    #[cold]
    fn oversize(&mut self, Headers { link, ip, tcp }: Headers, payload_len: u32) {
        let room = limits::ETHERNET_MTU.saturating_sub(ip + tcp);
        if room == 0 {
            return;
        }
        let further = payload_len.div_ceil(room).saturating_sub(1);
        self.tcp.oversize_frames += 1;
        self.tcp.oversize_header_bytes += u64::from(further) * u64::from(link + ip + tcp);
        self.tcp.oversize_longest_bytes = self.tcp.oversize_longest_bytes.max(u64::from(ip + tcp + payload_len));
    }

    /// Adds what came so many times.
    pub fn add(&mut self, part: &Self, times: u64) {
        self.frames += part.frames * times;
        self.wire_bytes += part.wire_bytes * times;
        self.payload_frames += part.payload_frames * times;
        let (sum, tcp) = (&mut self.tcp, &part.tcp);
        sum.payload_bytes += tcp.payload_bytes * times;
        sum.control_frames += tcp.control_frames * times;
        sum.oversize_frames += tcp.oversize_frames * times;
        sum.oversize_header_bytes += tcp.oversize_header_bytes * times;
        if times > 0 {
            sum.oversize_longest_bytes = sum.oversize_longest_bytes.max(tcp.oversize_longest_bytes);
        }
    }
}
