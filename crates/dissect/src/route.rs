//! Which of several threads dissects a connection.

use crate::bounds::Company;
use crate::digest::Digest;
use crate::packet::{Plain, Segment};
use crate::select::Selection;
use overhead_model::{Protocol, Transport};
use overhead_protocols::know_of_one_another;
use std::net::SocketAddr;
use std::sync::Arc;

/// What is spoken on a port, as far as it is known.
const IS_KNOWN: u8 = 1;
/// Something whose connections know of one another may be.
const IS_SHARED: u8 = 2;

/// The part of a capture's connections that one of several threads dissects.
///
/// Each thread is given all frames, reads their headers, and dissects what is its own: so each of them knows what depends on
/// all frames, such as which are second copies, and the result does not depend on the number of threads. All that may be of
/// a protocol whose connections know of one another is of the first thread, in its order: what they share depends on nothing
/// else then, and nobody waits for anybody.
#[derive(Clone, Debug)]
pub struct Share {
    /// What there is to know of each port.
    ports: Arc<[u8]>,
    /// Something whose connections know of one another may be spoken at paths.
    are_paths_shared: bool,
    threads: usize,
    own: usize,
    company: Arc<Company>,
}

impl Share {
    /// Divides what is selected among so many threads.
    pub fn among(threads: usize, selection: &Selection) -> Vec<Self> {
        let ports: Arc<[u8]> = (0..=u16::MAX).map(|port| about(selection, port)).collect();
        let are_paths_shared = selection.candidates_at(0).into_iter().any(know_of_one_another);
        let company = Arc::<Company>::default();
        let share =
            |own| Self { ports: Arc::clone(&ports), are_paths_shared, threads, own, company: Arc::clone(&company) };
        (0..threads).map(share).collect()
    }

    /// Returns whether the threads may have reached a bound of a run together. What is given up then depends on the order
    /// of frames, which only one thread sees: the result of several is to be discarded.
    pub fn is_over(&self) -> bool {
        self.company.is_over()
    }

    pub(crate) fn is_first(&self) -> bool {
        self.own == 0
    }

    pub(crate) fn company(&self) -> Arc<Company> {
        Arc::clone(&self.company)
    }

    /// Returns whether the connection of this segment is its own.
    pub(crate) fn has(&self, segment: &Segment<'_>) -> bool {
        if segment.stream.is_some_and(|piece| piece.transport == Transport::Unix) && self.are_paths_shared {
            return self.own == 0;
        }
        self.has_ends([segment.source, segment.destination])
    }

    /// Returns whether the TCP connection between these ends is its own.
    pub(crate) fn has_ends(&self, ends: [SocketAddr; 2]) -> bool {
        self.is_own(ends.map(|end| end.port()), || ends.map(end_of))
    }

    /// The same of a frame with the usual headers.
    #[inline]
    pub(crate) fn has_plain(&self, plain: &Plain<'_>) -> bool {
        self.is_own(plain.ports(), || plain.ends())
    }

    #[inline]
    fn is_own(&self, [source, destination]: [u16; 2], ends: impl FnOnce() -> [u64; 2]) -> bool {
        let about = self.about(source) | self.about(destination);
        // What is told by content may be of any protocol.
        if about & IS_SHARED != 0 || about & IS_KNOWN == 0 {
            return self.own == 0;
        }
        let [a, b] = ends();
        // The same for both directions.
        let mut digest = Digest::new(0);
        digest.words(a ^ b, a.wrapping_add(b));
        ((u128::from(digest.value()) * self.threads as u128) >> 64) as usize == self.own
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

    fn threads_of(shares: &[Share], server: &str) -> Vec<usize> {
        let threads = (40_000..40_100).map(|port| {
            let client = format!("127.0.0.1:{port}");
            let of = |segment: &Segment<'_>| shares.iter().map(|share| share.has(segment)).collect::<Vec<_>>();
            let there = of(&segment(&client, server));
            assert_eq!(there, of(&segment(server, &client)), "both directions are of one connection");
            assert_eq!(there.iter().filter(|has| **has).count(), 1, "and of one thread");
            there.iter().position(|has| *has).unwrap()
        });
        let mut threads: Vec<usize> = threads.collect();
        threads.sort_unstable();
        threads.dedup();
        threads
    }

    #[test]
    fn connections_that_know_of_one_another_have_one_thread_and_the_others_have_all() {
        let all = Share::among(3, &Selection::default());
        assert_eq!(threads_of(&all, "127.0.0.1:6379"), [0, 1, 2]);
        assert_eq!(threads_of(&all, "[::1]:6379"), [0, 1, 2]);
        assert_eq!(threads_of(&all, "127.0.0.1:9042"), [0]);
        assert_eq!(threads_of(&all, "127.0.0.1:7777"), [0], "it may be CQL");
    }

    #[test]
    fn what_is_selected_says_what_may_be_spoken() {
        let ports = vec![(7777, vec![Protocol::Resp]), (7778, vec![Protocol::Resp, Protocol::Cql])];
        let selected = Share::among(3, &Selection { ports });
        assert_eq!(threads_of(&selected, "127.0.0.1:7777"), [0, 1, 2]);
        assert_eq!(threads_of(&selected, "127.0.0.1:7778"), [0]);
        assert_eq!(threads_of(&selected, "127.0.0.1:9042"), [0, 1, 2], "it is not selected, and not decoded");
    }

    #[test]
    fn the_usual_frame_goes_where_its_segment_goes() {
        let mut frame = [0; 54];
        frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6]);
        frame[46] = 0x50;
        let shares = Share::among(5, &Selection::default());
        for client in 0..=255 {
            frame[26..38].copy_from_slice(&[10, 1, 2, client, 10, 1, 2, 3, 0x9c, client, 0x18, 0xeb]);
            let link = LinkType::ETHERNET;
            let frame = Frame { time_ns: 0, link, original_len: 54, interface: 0, bytes: &frame };
            let plain = Plain::of(&frame).unwrap();
            let both = |share: &Share| (share.has_plain(&plain), share.has(&plain.segment()));
            assert!(shares.iter().map(both).all(|(plain, segment)| plain == segment));
        }
    }
}
