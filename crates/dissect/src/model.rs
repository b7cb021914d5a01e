//! Models a link: segments of another size, and Ethernet's overhead per frame.
//!
//! Captured segments are cut to the link's size. Each piece gets the whole segment's headers and is then handled like any other
//! segment, so the modelled ledger differs from the measured one only in headers.

use crate::packet::{Headers, Segment};
use overhead_model::TcpFlags;

/// Bytes of a preamble with start delimiter (IEEE 802.3 section 3.1.1); with check sequence and gap, what Ethernet adds to a frame.
pub const PREAMBLE: u64 = 8;
pub const CHECK_SEQUENCE: u64 = 4;
/// Bytes of the gap between frames (IEEE 802.3 section 4.4.2).
pub const GAP: u64 = 12;
/// Minimum frame length without check sequence; shorter frames are padded.
const SHORTEST: u64 = 60;

/// The link to model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkModel {
    /// Largest IP packet in bytes; `None` leaves segments as captured.
    pub mtu: Option<u32>,
    /// Whether to add Ethernet's bytes on the cable.
    pub is_physical: bool,
}

/// Totals that the model has added to the capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelTotals {
    pub cut_frames: u64,
    /// Frames added by cutting.
    pub added_frames: u64,
    pub added_header_bytes: u64,
    /// Acknowledgments of every second cut segment, except those at the end of a captured frame. No ledger contains them: a receiver may
    /// send fewer.
    pub ack_frames: u64,
    pub ack_bytes: u64,
    /// Modelled padding of short frames in bytes.
    pub padding_bytes: u64,
    /// All bytes that Ethernet adds, including padding.
    pub physical_bytes: u64,
    /// The share of `physical_bytes` added to segments; the rest belongs to frames without one.
    placed_bytes: u64,
}

impl ModelTotals {
    /// Returns the share of [`ModelTotals::physical_bytes`] in frames without a segment.
    pub fn elsewhere(&self) -> u64 {
        self.physical_bytes.saturating_sub(self.placed_bytes)
    }

    /// Counts and returns the bytes that Ethernet adds to a frame of this length.
    fn physical(&mut self, wire_len: u64) -> u64 {
        let padding = SHORTEST.saturating_sub(wire_len);
        self.padding_bytes += padding;
        let bytes = PREAMBLE + CHECK_SEQUENCE + GAP + padding;
        self.physical_bytes += bytes;
        bytes
    }
}

impl LinkModel {
    /// Counts a captured frame of this length, whatever its content.
    pub fn count_frame(self, wire_len: u32, modelled: &mut ModelTotals) {
        if self.is_physical {
            modelled.physical(u64::from(wire_len));
        }
    }

    /// Returns a captured segment's pieces on the link, in order.
    pub fn pieces<'a>(self, segment: &Segment<'a>, modelled: &mut ModelTotals) -> Vec<Segment<'a>> {
        let mut pieces = self.cut(segment, modelled);
        if self.is_physical {
            for (number, piece) in pieces.iter_mut().enumerate() {
                let bytes = match number {
                    // Its frames are already counted.
                    0 => ethernet_bytes(segment),
                    _ => modelled.physical(u64::from(piece.wire_len)),
                };
                let added = bytes as u32;
                piece.headers.link += added;
                piece.wire_len += added;
                modelled.placed_bytes += bytes;
            }
        }
        pieces
    }

    fn cut<'a>(self, segment: &Segment<'a>, modelled: &mut ModelTotals) -> Vec<Segment<'a>> {
        let Headers { link, ip, tcp } = segment.headers;
        let room = self.mtu.map_or(0, |mtu| mtu.saturating_sub(ip + tcp));
        // A fragmented packet is already cut to size.
        if room == 0 || segment.payload_len <= room || segment.frames != 1 {
            return vec![*segment];
        }
        let count = segment.payload_len.div_ceil(room);
        let headers = link + ip + tcp;
        modelled.cut_frames += 1;
        modelled.added_frames += u64::from(count - 1);
        modelled.added_header_bytes += u64::from(count - 1) * u64::from(headers);
        let acks = u64::from((count - 1) / 2);
        modelled.ack_frames += acks;
        modelled.ack_bytes += acks * u64::from(headers);
        (0..count).map(|number| piece(segment, number * room, room)).collect()
    }
}

/// Returns the bytes that Ethernet adds to a captured segment's frames. The padding of single fragments is unknown, and counts with
/// frames without a segment.
fn ethernet_bytes(segment: &Segment<'_>) -> u64 {
    let padding = if segment.frames == 1 { SHORTEST.saturating_sub(u64::from(segment.wire_len)) } else { 0 };
    u64::from(segment.frames) * (PREAMBLE + CHECK_SEQUENCE + GAP) + padding
}

/// Returns at most `room` bytes of a segment, from `at` on, as a separate segment.
fn piece<'a>(segment: &Segment<'a>, at: u32, room: u32) -> Segment<'a> {
    let payload_len = room.min(segment.payload_len - at);
    let (is_first, is_last) = (at == 0, at + payload_len == segment.payload_len);
    let payload = segment.payload.get(at as usize..).unwrap_or_default();
    let TcpFlags { syn, fin, rst, ack } = segment.flags;
    Segment {
        wire_len: segment.headers.total() as u32 + payload_len,
        // A SYN takes one sequence number before the payload (RFC 9293 section 3.4).
        seq: segment.seq.wrapping_add(at).wrapping_add(u32::from(syn && !is_first)),
        flags: TcpFlags { syn: syn && is_first, fin: fin && is_last, rst: rst && is_last, ack },
        payload_len,
        payload: payload.get(..payload_len as usize).unwrap_or(payload),
        ..*segment
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    const BYTES: [u8; 4_000] = [7; 4_000];

    fn segment(payload_len: u32) -> Segment<'static> {
        let end = |port| SocketAddr::from(([10, 0, 0, 1], port));
        Segment {
            time_ns: 1,
            wire_len: 66 + payload_len,
            frames: 1,
            headers: Headers { link: 14, ip: 20, tcp: 32 },
            source: end(40_000),
            destination: end(6_379),
            ip_id: 1,
            seq: u32::MAX - 100,
            ack: 5,
            flags: TcpFlags { syn: false, fin: true, rst: false, ack: true },
            window: 1,
            options: &[],
            payload_len,
            payload: &BYTES[..payload_len.min(4_000) as usize],
            stream: None,
        }
    }

    #[test]
    fn a_long_segment_is_cut_and_a_short_one_is_not() {
        let model = LinkModel { mtu: Some(1_500), is_physical: false };
        let mut modelled = ModelTotals::default();
        assert_eq!(model.pieces(&segment(1_448), &mut modelled).len(), 1);
        assert_eq!(modelled, ModelTotals::default());
        let pieces = model.pieces(&segment(4_000), &mut modelled);
        assert_eq!(pieces.iter().map(|piece| piece.payload_len).collect::<Vec<_>>(), [1_448, 1_448, 1_104]);
        assert_eq!(pieces.iter().map(|piece| piece.payload.len()).sum::<usize>(), 4_000);
        assert_eq!(pieces.iter().map(|piece| piece.flags.fin).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(pieces[1].seq, (u32::MAX - 100).wrapping_add(1_448));
        assert_eq!(pieces.iter().map(|piece| u64::from(piece.wire_len)).sum::<u64>(), 4_000 + 3 * 66);
        let ModelTotals { cut_frames, added_frames, added_header_bytes, ack_frames, ack_bytes, .. } = modelled;
        assert_eq!((cut_frames, added_frames, added_header_bytes, ack_frames, ack_bytes), (1, 2, 132, 1, 66));
    }

    #[test]
    fn what_was_not_captured_of_a_segment_is_missing_in_its_last_pieces() {
        let model = LinkModel { mtu: Some(1_500), is_physical: false };
        let pieces = model.pieces(&segment(5_000), &mut ModelTotals::default());
        assert_eq!(pieces.iter().map(|piece| piece.payload_len).collect::<Vec<_>>(), [1_448, 1_448, 1_448, 656]);
        assert_eq!(pieces.iter().map(|piece| piece.payload.len()).collect::<Vec<_>>(), [1_448, 1_448, 1_104, 0]);
    }

    #[test]
    fn a_link_too_small_for_headers_cuts_nothing() {
        let model = LinkModel { mtu: Some(52), is_physical: false };
        assert_eq!(model.pieces(&segment(4_000), &mut ModelTotals::default()).len(), 1);
    }

    #[test]
    fn ethernet_adds_to_each_frame_and_pads_short_ones() {
        let model = LinkModel { mtu: None, is_physical: true };
        let mut modelled = ModelTotals::default();
        for payload_len in [0, 100] {
            let mut short = segment(payload_len);
            (short.headers.tcp, short.wire_len) = (20, 54 + payload_len);
            model.count_frame(short.wire_len, &mut modelled);
            let pieces = model.pieces(&short, &mut modelled);
            let padding = if payload_len == 0 { 6 } else { 0 };
            assert_eq!((pieces.len(), pieces[0].wire_len), (1, 54 + payload_len + 24 + padding));
        }
        model.count_frame(42, &mut modelled);
        assert_eq!((modelled.padding_bytes, modelled.physical_bytes, modelled.elsewhere()), (24, 96, 42));
    }

    #[test]
    fn what_is_cut_is_physical_in_each_piece() {
        let model = LinkModel { mtu: Some(1_500), is_physical: true };
        let mut modelled = ModelTotals::default();
        let whole = segment(4_000);
        model.count_frame(whole.wire_len, &mut modelled);
        let pieces = model.pieces(&whole, &mut modelled);
        assert_eq!(pieces.iter().map(|piece| u64::from(piece.wire_len)).sum::<u64>(), 4_000 + 3 * (66 + 24));
        assert_eq!((modelled.physical_bytes, modelled.elsewhere()), (72, 0));
    }
}
