//! Which of several parts has a connection.

use crate::bounds::Company;
use crate::digest::Digest;
use crate::packet::{Plain, Segment};
use crate::select::Selection;
use overhead_model::{Protocol, Transport};
use overhead_protocols::know_of_one_another;
use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;

/// What is spoken on a port, as far as it is known.
const IS_KNOWN: u8 = 1;
/// Something whose connections know of one another may be.
const IS_SHARED: u8 = 2;

/// Which parts are to have a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// The one of this number, from 0.
    Part(usize),
    /// All of them.
    All,
}

/// Which of several parts, each dissected by a thread, has a connection.
///
/// [`Splitter`](crate::Splitter) is given all frames: it knows what depends on all of them, such as which are second copies. Each part
/// is given those of its connections, with their [`Moment`](crate::Moment)s. So the result does not depend on the number of parts. All that
/// may be of a protocol whose connections know of one another is of the first part, in its order: what they share depends on
/// nothing else then, and nobody waits for anybody.
#[derive(Clone, Debug)]
pub struct Routes {
    /// What there is to know of each port.
    ports: Arc<[u8]>,
    /// Something whose connections know of one another may be spoken at paths.
    are_paths_shared: bool,
    parts: usize,
    company: Arc<Company>,
}

/// The part of connections that know of one another.
const SHARED: usize = 0;

impl Routes {
    /// Divides what is selected among so many parts.
    pub fn among(parts: NonZero<usize>, selection: &Selection) -> Self {
        Self {
            ports: (0..=u16::MAX).map(|port| about(selection, port)).collect(),
            are_paths_shared: selection.candidates_at(0).into_iter().any(know_of_one_another),
            parts: parts.get(),
            company: Arc::default(),
        }
    }

    /// Returns whether the threads may have reached a bound of a run together. What is given up then depends on the order
    /// of frames, which only one thread sees: the result of several is to be discarded.
    pub fn is_over(&self) -> bool {
        self.company.is_over()
    }

    pub(crate) fn company(&self) -> Arc<Company> {
        Arc::clone(&self.company)
    }

    /// Returns the part that has the connection of this segment.
    pub(crate) fn of(&self, segment: &Segment<'_>) -> usize {
        if segment.stream.is_some_and(|piece| piece.transport == Transport::Unix) && self.are_paths_shared {
            return SHARED;
        }
        self.of_ends([segment.source, segment.destination])
    }

    /// Returns the part that has the TCP connection between these ends.
    pub(crate) fn of_ends(&self, ends: [SocketAddr; 2]) -> usize {
        self.between(ends.map(|end| end.port()), || ends.map(end_of))
    }

    /// The same of a frame with the usual headers.
    #[inline]
    pub(crate) fn of_plain(&self, plain: &Plain<'_>) -> usize {
        self.between(plain.ports(), || plain.ends())
    }

    #[inline]
    fn between(&self, [source, destination]: [u16; 2], ends: impl FnOnce() -> [u64; 2]) -> usize {
        let about = self.about(source) | self.about(destination);
        // What is told by content may be of any protocol.
        if about & IS_SHARED != 0 || about & IS_KNOWN == 0 {
            return SHARED;
        }
        let [a, b] = ends();
        // The same for both directions.
        let mut digest = Digest::new(0);
        digest.words(a ^ b, a.wrapping_add(b));
        ((u128::from(digest.value()) * self.parts as u128) >> 64) as usize
    }

    #[inline]
    fn about(&self, port: u16) -> u8 {
        self.ports.get(usize::from(port)).copied().unwrap_or_default()
    }
}

fn about(selection: &Selection, port: u16) -> u8 {
    match selection.candidates_on(port) {
        Some(protocols) if protocols.iter().copied().any(know_of_one_another) => IS_KNOWN | IS_SHARED,
        None if selection.ports.is_empty() && Protocol::ALL.into_iter().any(know_of_one_another) => 0,
        // With ports selected, the others are nobody's.
        Some(_) | None => IS_KNOWN,
    }
}

/// One end of a connection in a word; [`Plain::ends`] gives the same.
fn end_of(end: SocketAddr) -> u64 {
    match end {
        SocketAddr::V4(end) => u64::from(end.ip().to_bits()) << 16 | u64::from(end.port()),
        SocketAddr::V6(end) => {
            let (bits, mut digest) = (end.ip().to_bits(), Digest::new(u64::from(end.port())));
            digest.words((bits >> 64) as u64, bits as u64);
            digest.value()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Headers;
    use overhead_model::{Frame, LinkType, TcpFlags};

    fn segment(source: &str, destination: &str) -> Segment<'static> {
        Segment {
            time_ns: 0,
            wire_len: 54,
            frames: 1,
            headers: Headers::default(),
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            ip_id: 0,
            seq: 0,
            ack: 0,
            flags: TcpFlags::default(),
            window: 0,
            options: &[],
            payload_len: 0,
            payload: &[],
            stream: None,
        }
    }

    fn among(parts: usize, selection: &Selection) -> Routes {
        Routes::among(NonZero::new(parts).unwrap(), selection)
    }

    fn parts_of(routes: &Routes, server: &str) -> Vec<usize> {
        let parts = (40_000..40_100).map(|port| {
            let client = format!("127.0.0.1:{port}");
            let there = routes.of(&segment(&client, server));
            assert_eq!(there, routes.of(&segment(server, &client)), "both directions are of one connection");
            there
        });
        let mut parts: Vec<usize> = parts.collect();
        parts.sort_unstable();
        parts.dedup();
        parts
    }

    #[test]
    fn connections_that_know_of_one_another_have_one_part_and_the_others_have_all() {
        let all = among(3, &Selection::default());
        assert_eq!(parts_of(&all, "127.0.0.1:6379"), [0, 1, 2]);
        assert_eq!(parts_of(&all, "[::1]:6379"), [0, 1, 2]);
        assert_eq!(parts_of(&all, "127.0.0.1:9042"), [0]);
        assert_eq!(parts_of(&all, "127.0.0.1:7777"), [0], "it may be CQL");
    }

    #[test]
    fn what_is_selected_says_what_may_be_spoken() {
        let ports = vec![(7777, vec![Protocol::Resp]), (7778, vec![Protocol::Resp, Protocol::Cql])];
        let selected = among(3, &Selection { ports });
        assert_eq!(parts_of(&selected, "127.0.0.1:7777"), [0, 1, 2]);
        assert_eq!(parts_of(&selected, "127.0.0.1:7778"), [0]);
        assert_eq!(parts_of(&selected, "127.0.0.1:9042"), [0, 1, 2], "it is not selected, and not decoded");
    }

    #[test]
    fn the_usual_frame_goes_where_its_segment_goes() {
        let mut frame = [0; 54];
        frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6]);
        frame[46] = 0x50;
        let routes = among(5, &Selection::default());
        for client in 0..=255 {
            frame[26..38].copy_from_slice(&[10, 1, 2, client, 10, 1, 2, 3, 0x9c, client, 0x18, 0xeb]);
            let link = LinkType::ETHERNET;
            let frame = Frame { time_ns: 0, link, original_len: 54, interface: 0, bytes: &frame };
            let plain = Plain::of(&frame).unwrap();
            assert_eq!(routes.of_plain(&plain), routes.of(&plain.segment()));
        }
    }
}
