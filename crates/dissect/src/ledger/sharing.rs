//! Shares the headers of a frame among the operations in it, once all of its new payload is posted.

use super::direction::{Arrival, FrameShare, ScatteredFrame};
use super::{ConnectionLedger, ShareBuffers};
use crate::packet::Headers;
use overhead_decode::OpId;
use overhead_model::{Account, Side, Tally, Trace};

impl ConnectionLedger {
    /// Settles a frame whose bytes from `start` on are posted, if several operations have them or they are only part of its new payload.
    /// Shares the headers once all of its new payload is posted.
    pub(super) fn settle<T: Tally>(&mut self, side: Side, start: u64, frame: &Arrival, tally: &mut T) {
        let mut scratch = self.scratch.take().unwrap_or_default();
        let direction = &self.directions[side as usize];
        direction.owners(start, &mut scratch.shares);
        let is_whole = direction.posted - start == frame.len;
        for share in &mut scratch.shares {
            share.place = self.ops.hold(share.op, 0);
            if let Some(place) = share.place {
                let open = self.ops.at(place);
                open.unshared -= share.runs;
                if is_whole {
                    open.touch(side, frame.frames, frame.time_ns);
                }
            }
            if !is_whole {
                self.scatter(side, frame, (share.op, share.bytes), true);
            }
        }
        if is_whole {
            self.share_headers(side, (frame.headers, frame.number), &mut scratch, tally);
        } else {
            self.settle_scattered(side, frame.number, &mut scratch, tally);
        }
        self.scratch = Some(scratch);
    }

    /// Notes the operation of some bytes of a frame with payload in several places.
    pub(super) fn scatter(&mut self, side: Side, frame: &Arrival, (op, len): (OpId, u64), in_order: bool) {
        let is_first = self.directions[side as usize].scattered(frame).add(op, len);
        let frames = if is_first { frame.frames } else { 0 };
        if let Some(open) = self.ops.get_mut(op) {
            if in_order {
                open.touch(side, frames, frame.time_ns);
            } else {
                open.operation.sides[side as usize].frames += u64::from(frames);
            }
            open.unshared += u32::from(is_first);
        }
    }

    /// Shares the headers of a frame with payload in several places, once all of it is posted.
    pub(super) fn settle_scattered<T: Tally>(&mut self, side: Side, number: u64, to: &mut ShareBuffers, tally: &mut T) {
        let Some(ScatteredFrame { headers, mut shares, .. }) = self.directions[side as usize].take_scattered(number)
        else {
            return;
        };
        shares.sort_by_key(|&(op, _)| op);
        to.shares.clear();
        for (op, bytes) in shares {
            let place = self.ops.hold(op, 0);
            if let Some(place) = place {
                self.ops.at(place).unshared -= 1;
            }
            to.shares.push(FrameShare { place, ..FrameShare::new(op, bytes) });
        }
        self.share_headers(side, (headers, number), to, tally);
    }

    /// Posts the headers of a frame, given by its number, to the operations that share it.
    fn share_headers<T: Tally>(
        &mut self,
        side: Side,
        (headers, number): (Headers, u64),
        ShareBuffers { shares, split }: &mut ShareBuffers,
        tally: &mut T,
    ) {
        split.begin(shares.iter().map(|share| share.bytes));
        let accounts = headers.accounts();
        split.amounts(accounts.map(|(_, bytes)| u64::from(bytes)), |index, given| {
            let Some(&FrameShare { op, place, .. }) = shares.get(index) else { return };
            for ((account, _), bytes) in accounts.into_iter().zip(given) {
                tally.trace(Trace::Charged { side, op: place.map(|_| op.0), account, frame: number, bytes });
                match place {
                    Some(place) => self.ops.at(place).operation.sides[side as usize].amounts[account] += bytes,
                    None => self.add_to_connection(side, account, bytes),
                }
            }
        });
        for &FrameShare { op, place, .. } in &*shares {
            if place.is_some_and(|place| self.ops.at(place).is_over) {
                self.release(op, tally);
            }
        }
    }

    /// Posts bytes of an operation that is not open. A correct decoder never gets here; the bytes still balance.
    #[cold]
    pub(super) fn add_to_connection(&mut self, side: Side, account: Account, bytes: u64) {
        self.spoil();
        *self.connect.amount(side, account) += bytes;
    }
}
