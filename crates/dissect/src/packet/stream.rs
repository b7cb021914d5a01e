//! Turns pieces of byte streams without frames into segments without headers.

use super::{Headers, Segment};
use overhead_model::{Frame, StreamPiece, TcpFlags};

/// Returns the segment for a piece from a packet whose tags end at `at`.
pub fn segment<'a>(frame: &Frame<'a>, piece: &'a StreamPiece<'a>, at: usize) -> Segment<'a> {
    let (source, destination) = piece.direction();
    let payload_len = frame.original_len - at as u32;
    Segment {
        time_ns: frame.time_ns,
        wire_len: payload_len,
        frames: 1,
        headers: Headers::default(),
        source,
        destination,
        ip_id: 0,
        seq: piece.offset as u32,
        ack: 0,
        // Nothing follows in either direction.
        flags: TcpFlags { rst: piece.ends, ..TcpFlags::default() },
        window: 0,
        options: &[],
        payload_len,
        payload: frame.bytes.get(at..).unwrap_or_default(),
        stream: Some(piece),
    }
}
