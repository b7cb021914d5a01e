//! Pieces of both directions of a connection in an order in which they can have been written.
//!
//! A piece comes when its call returns, which may be after the other end has read, and even answered, its bytes. What its writer
//! had read of the other direction therefore comes first, however late.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

/// A piece of a direction of a connection.
pub(super) trait Waiting {
    /// Number of the connection.
    fn connection(&self) -> u64;
    /// 0 or 1.
    fn direction(&self) -> usize;
    /// Bytes of the direction up to its end.
    fn end(&self) -> u64;
    /// Bytes of the other direction that its writer had read.
    fn seen(&self) -> u64;
}

/// What waits, by connection.
#[derive(Debug)]
pub(super) struct Order<P = super::StreamBytes> {
    connections: HashMap<u64, Connection<P>>,
    /// Connections of which something waits, in the order in which that began.
    waiting: VecDeque<(Instant, u64)>,
}

#[derive(Debug)]
struct Connection<P> {
    /// How far each direction was handed on.
    handed: [u64; 2],
    held: [VecDeque<P>; 2],
}

impl<P> Default for Connection<P> {
    fn default() -> Self {
        Self { handed: [0; 2], held: [VecDeque::new(), VecDeque::new()] }
    }
}

impl<P> Default for Order<P> {
    fn default() -> Self {
        Self { connections: HashMap::new(), waiting: VecDeque::new() }
    }
}

impl<P: Waiting> Order<P> {
    /// Takes in a piece, and hands on what need not wait.
    pub(super) fn push(&mut self, piece: P, now: Instant, take: &mut impl FnMut(P)) {
        let id = piece.connection();
        let connection = self.connections.entry(id).or_default();
        if connection.held.iter().all(VecDeque::is_empty) {
            if connection.is_due(&piece) {
                connection.hand(piece, take);
                return;
            }
            self.waiting.push_back((now, id));
        }
        connection.held[piece.direction()].push_back(piece);
        connection.settle(take);
    }

    /// Hands on all that waits since `before`, or all, whatever it waits for: that was lost.
    pub(super) fn release(&mut self, before: Option<Instant>, take: &mut impl FnMut(P)) {
        while let Some((since, id)) = self.waiting.front().copied() {
            let Some(connection) = self.connections.get_mut(&id) else {
                self.waiting.pop_front();
                continue;
            };
            if connection.held.iter().any(|held| !held.is_empty()) {
                if before.is_some_and(|before| since > before) {
                    return;
                }
                connection.release(take);
            }
            self.waiting.pop_front();
        }
    }

    /// Forgets a connection.
    pub(super) fn forget(&mut self, id: u64) {
        self.connections.remove(&id);
    }
}

impl<P: Waiting> Connection<P> {
    fn is_due(&self, piece: &P) -> bool {
        self.handed[1 - piece.direction()] >= piece.seen()
    }

    fn hand(&mut self, piece: P, take: &mut impl FnMut(P)) {
        let handed = &mut self.handed[piece.direction()];
        *handed = piece.end().max(*handed);
        take(piece);
    }

    /// Hands on what no longer has to wait.
    fn settle(&mut self, take: &mut impl FnMut(P)) {
        let is_due =
            |this: &Self, direction: usize| this.held[direction].front().is_some_and(|piece| this.is_due(piece));
        while let Some(direction) = (0..2).find(|direction| is_due(self, *direction)) {
            if let Some(piece) = self.held[direction].pop_front() {
                self.hand(piece, take);
            }
        }
    }

    /// Hands on everything: what is waited for does not come. Of two that wait for one another, the one that had seen less is
    /// the earlier.
    fn release(&mut self, take: &mut impl FnMut(P)) {
        loop {
            self.settle(take);
            let missing = |this: &Self, direction: usize| {
                let piece = this.held[direction].front()?;
                Some((piece.seen().saturating_sub(this.handed[1 - direction]), direction))
            };
            let Some((_, direction)) = (0..2).filter_map(|direction| missing(self, direction)).min() else { return };
            if let Some(piece) = self.held[direction].pop_front() {
                self.hand(piece, take);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Direction, offset, length, and what was seen of the other direction.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Piece(usize, u64, u64, u64);

    impl Waiting for Piece {
        fn connection(&self) -> u64 {
            1
        }
        fn direction(&self) -> usize {
            self.0
        }
        fn end(&self) -> u64 {
            self.1 + self.2
        }
        fn seen(&self) -> u64 {
            self.3
        }
    }

    fn ordered(pieces: &[Piece]) -> Vec<Piece> {
        let (mut order, mut found) = (Order::default(), Vec::new());
        for piece in pieces {
            order.push(*piece, Instant::now(), &mut |piece| found.push(piece));
        }
        order.release(None, &mut |piece| found.push(piece));
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
            // Of each direction, pieces come in order.
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
        assert_eq!(ordered(&[answer, next]), [next, answer], "the lost question ends where the next one begins");
        assert_eq!(ordered(&[answer]), [answer]);
    }

    #[test]
    fn what_waits_is_handed_on_in_time() {
        let (mut order, mut found) = (Order::default(), Vec::new());
        let now = Instant::now();
        order.push(Piece(1, 0, 5, 10), now, &mut |piece| found.push(piece));
        order.release(now.checked_sub(std::time::Duration::from_millis(1)), &mut |piece| found.push(piece));
        assert!(found.is_empty(), "there is time");
        order.release(Some(now), &mut |piece| found.push(piece));
        assert_eq!(found.len(), 1);
    }
}
