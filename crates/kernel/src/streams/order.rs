//! Orders the pieces of both directions of a connection as they can have been written.
//!
//! A piece arrives when its writing call returns, possibly after the other end has read and even answered it. So a
//! piece waits until everything its writer had read is there.

use super::StreamBytes;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Instant;

/// Pieces that wait, by connection.
#[derive(Debug, Default)]
pub(super) struct StreamOrder {
    connections: HashMap<u64, ConnectionOrder>,
    /// Connections with waiting pieces.
    waiting: BTreeSet<u64>,
}

#[derive(Debug, Default)]
struct ConnectionOrder {
    /// Bytes handed on, by direction.
    handed: [u64; 2],
    held: [VecDeque<StreamBytes>; 2],
    /// Bytes of each direction that were read but are in no piece.
    missing: [u64; 2],
    /// When the oldest waiting piece arrived, or a waiting piece was last handed on.
    since: Option<Instant>,
}

impl StreamOrder {
    /// Takes a piece and hands on all that need not wait.
    pub(super) fn push(&mut self, piece: StreamBytes, now: Instant, take: &mut impl FnMut(StreamBytes)) {
        let id = piece.id;
        let connection = self.connections.entry(id).or_default();
        if connection.is_empty() {
            if connection.is_due(&piece) {
                connection.hand(piece, take);
                return;
            }
            self.waiting.insert(id);
            connection.since = Some(now);
        }
        connection.held[piece.direction()].push_back(piece);
        if connection.settle(take) {
            connection.since = Some(now);
        }
        if connection.is_empty() {
            self.waiting.remove(&id);
        }
    }

    /// Hands on all pieces of connections without progress since `before`, or of all connections. Returns how many
    /// pieces came before something their writers had read.
    pub(super) fn release(&mut self, before: Option<Instant>, take: &mut impl FnMut(StreamBytes)) -> u64 {
        let (connections, mut early) = (&mut self.connections, 0);
        self.waiting.retain(|id| {
            let Some(connection) = connections.get_mut(id) else { return false };
            if before.is_some_and(|before| connection.since.is_some_and(|since| since > before)) {
                return true;
            }
            early += connection.release(take);
            false
        });
        early
    }

    /// Returns whether a piece written up to `time_ns` waits.
    pub(super) fn waits_from(&self, time_ns: u64) -> bool {
        let connections = self.waiting.iter().filter_map(|id| self.connections.get(id));
        let mut first = connections.flat_map(|connection| connection.held.iter().filter_map(VecDeque::front));
        first.any(|piece| piece.time_ns <= time_ns)
    }

    pub(super) fn forget(&mut self, id: u64) {
        self.connections.remove(&id);
        self.waiting.remove(&id);
    }
}

impl ConnectionOrder {
    fn is_empty(&self) -> bool {
        self.held.iter().all(VecDeque::is_empty)
    }

    /// Returns how many bytes its writer had read that were not handed on.
    fn missing(&self, piece: &StreamBytes) -> u64 {
        let other = 1 - piece.direction();
        piece.seen.saturating_sub(self.handed[other] + self.missing[other])
    }

    fn is_due(&self, piece: &StreamBytes) -> bool {
        self.missing(piece) == 0
    }

    fn hand(&mut self, piece: StreamBytes, take: &mut impl FnMut(StreamBytes)) {
        let handed = &mut self.handed[piece.direction()];
        *handed = (*handed).max(piece.offset + u64::from(piece.length));
        take(piece);
    }

    /// Hands on the pieces that no longer need to wait; returns whether there were any. If both directions wait for
    /// each other, bytes were read that are in no piece, and later pieces will not change that.
    fn settle(&mut self, take: &mut impl FnMut(StreamBytes)) -> bool {
        let mut any = false;
        loop {
            let due = |direction: &usize| self.held[*direction].front().is_some_and(|piece| self.is_due(piece));
            match (0..2).find(due) {
                Some(direction) => {
                    if let Some(piece) = self.held[direction].pop_front() {
                        self.hand(piece, take);
                    }
                }
                None if self.held.iter().all(|held| !held.is_empty()) => self.hand_first(take),
                None => return any,
            }
            any = true;
        }
    }

    /// Hands on the earlier of both first pieces. A piece is never later than one whose writer had read it.
    fn hand_first(&mut self, take: &mut impl FnMut(StreamBytes)) {
        let first = |direction: &usize| self.held[*direction].front().map_or(u64::MAX, |piece| piece.time_ns);
        let direction = (0..2).min_by_key(first).unwrap_or_default();
        let Some(piece) = self.held[direction].pop_front() else { return };
        if piece.is_old {
            self.missing[1 - direction] += self.missing(&piece);
        }
        self.hand(piece, take);
    }

    /// Hands on everything. Returns how many pieces came before something their writers had read.
    fn release(&mut self, take: &mut impl FnMut(StreamBytes)) -> u64 {
        let mut early = 0;
        while !self.is_empty() {
            let is_new = self.held.iter().filter_map(VecDeque::front).any(|piece| !piece.is_old);
            early += u64::from(is_new);
            self.hand_first(take);
            self.settle(take);
        }
        self.since = None;
        early
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Direction, offset, length, and bytes seen of the other direction. Its time is the sum of the bytes both ways.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Piece(usize, u64, u64, u64);

    impl Piece {
        fn bytes(self) -> StreamBytes {
            let Self(direction, offset, length, seen) = self;
            let bytes = StreamBytes::end(offset + seen, 1, 0, 0, offset, false);
            StreamBytes { to_server: direction == 0, length: length as u32, seen, ..bytes }
        }

        fn from_bytes(piece: &StreamBytes) -> Self {
            Self(piece.direction(), piece.offset, u64::from(piece.length), piece.time_ns - piece.offset)
        }
    }

    fn ordered(pieces: &[Piece]) -> Vec<Piece> {
        let (mut order, mut found) = (StreamOrder::default(), Vec::new());
        for piece in pieces {
            order.push(piece.bytes(), Instant::now(), &mut |piece| found.push(Piece::from_bytes(&piece)));
        }
        order.release(None, &mut |piece| found.push(Piece::from_bytes(&piece)));
        found
    }

    #[test]
    fn an_answer_waits_for_its_question() {
        let (question, answer) = (Piece(0, 0, 10, 0), Piece(1, 0, 5, 10));
        assert_eq!(ordered(&[answer, question]), [question, answer]);
        assert_eq!(ordered(&[question, answer]), [question, answer]);
    }

    #[test]
    fn what_is_answered_by_both_in_turn_keeps_its_order() {
        let talk = [Piece(0, 0, 10, 0), Piece(1, 0, 5, 10), Piece(0, 10, 10, 5), Piece(1, 5, 5, 20)];
        for late in 0..talk.len() {
            let mut came = talk.to_vec();
            let piece = came.remove(late);
            // Pieces of one direction arrive in order.
            let place = (late + 1).min(came.len());
            came.insert(place, piece);
            if came.iter().filter(|piece| piece.0 == 0).is_sorted_by_key(|piece| piece.1)
                && came.iter().filter(|piece| piece.0 == 1).is_sorted_by_key(|piece| piece.1)
            {
                assert_eq!(ordered(&came), talk, "late: {late}");
            }
        }
    }

    #[test]
    fn what_waits_for_what_was_lost_is_handed_on_at_last() {
        let (answer, next) = (Piece(1, 0, 5, 10), Piece(0, 10, 10, 5));
        assert_eq!(ordered(&[answer, next]), [answer, next], "the next question is later than the answer");
        assert_eq!(ordered(&[answer]), [answer]);
    }

    #[test]
    fn what_waits_is_handed_on_in_time() {
        let (mut order, mut found) = (StreamOrder::default(), Vec::new());
        let now = Instant::now();
        order.push(Piece(1, 0, 5, 10).bytes(), now, &mut |piece| found.push(Piece::from_bytes(&piece)));
        order.release(now.checked_sub(std::time::Duration::from_millis(1)), &mut |piece| {
            found.push(Piece::from_bytes(&piece));
        });
        assert!(found.is_empty(), "there is time");
        order.release(Some(now), &mut |piece| found.push(Piece::from_bytes(&piece)));
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn what_comes_on_has_time_anew() {
        let (mut order, mut found) = (StreamOrder::default(), Vec::new());
        let began = Instant::now();
        let at = |ms: u64| began + std::time::Duration::from_millis(ms);
        order.push(Piece(1, 0, 5, 10).bytes(), at(0), &mut |piece| found.push(Piece::from_bytes(&piece)));
        order.push(Piece(0, 0, 10, 0).bytes(), at(90), &mut |piece| found.push(Piece::from_bytes(&piece)));
        order.push(Piece(1, 5, 5, 20).bytes(), at(95), &mut |piece| found.push(Piece::from_bytes(&piece)));
        assert_eq!(order.release(Some(at(90)), &mut |piece| found.push(Piece::from_bytes(&piece))), 0);
        assert_eq!(found.len(), 2, "the second answer has waited for 5 ms, not for 95");
        order.push(Piece(0, 10, 10, 5).bytes(), at(110), &mut |piece| found.push(Piece::from_bytes(&piece)));
        assert_eq!(found, [Piece(0, 0, 10, 0), Piece(1, 0, 5, 10), Piece(0, 10, 10, 5), Piece(1, 5, 5, 20)]);
        assert!(!order.waits_from(u64::MAX));
    }

    #[test]
    fn what_is_handed_on_too_early_is_counted() {
        let mut order = StreamOrder::default();
        order.push(Piece(1, 0, 5, 10).bytes(), Instant::now(), &mut |_| ());
        order.push(Piece(1, 5, 5, 10).bytes(), Instant::now(), &mut |_| ());
        assert!(order.waits_from(10) && !order.waits_from(9), "the first was written at 10");
        assert_eq!(order.release(None, &mut |_| ()), 2);
        assert!(!order.waits_from(u64::MAX));
    }

    #[test]
    fn bytes_that_were_under_way_before_the_capture_hold_nothing_up() {
        // Before the capture, 7 bytes were in flight to direction 1's writer.
        let talk =
            [Piece(1, 0, 5, 0), Piece(0, 0, 10, 5), Piece(1, 5, 5, 10), Piece(0, 10, 10, 10), Piece(1, 10, 5, 20)];
        let (mut order, mut found) = (StreamOrder::default(), Vec::new());
        for piece in talk {
            let seen = piece.3 + if piece.0 == 1 { 7 } else { 0 };
            let old = StreamBytes { seen, is_old: true, ..piece.bytes() };
            order.push(old, Instant::now(), &mut |piece| found.push(Piece::from_bytes(&piece)));
        }
        assert_eq!(found, talk, "what waited for one another is settled at once, and not waited for again");
        assert_eq!(order.release(None, &mut |_| ()), 0);
    }
}
