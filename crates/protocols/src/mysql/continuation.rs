//! Messages that continue in further packets, and packets decoded piece by piece.

use super::decode::{PlainDecoder, end};
use super::response::{MysqlPacket, ResponseStage};
use super::values::{BulkRows, ValueLayout, ValuesRead, value, values};
use super::wire;
use overhead_decode::{Cursor, FieldRead, Free, Input, OpId, Out, Reader, Step};
use overhead_model::{Account, Outcome, Side};

/// The rest of a message that continues in another packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PacketContinuation {
    /// Bytes of a single account.
    All(Account, &'static str),
    /// The remaining bytes of a value, and the values after it.
    Values(u64, Vec<ValueLayout>),
    Bulk(BulkRows),
    Undecoded,
}

/// The rest of a long packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketRemainder {
    pub left: u64,
    /// The message continues in another packet.
    pub is_continued: bool,
}

#[derive(Debug)]
pub(super) struct CommandRemainder {
    /// `None` if the operation was closed meanwhile.
    pub op: Option<OpId>,
    pub is_answered: bool,
    pub what: PacketContinuation,
}

impl PlainDecoder {
    /// Posts the available part of a packet that is decoded piece by piece.
    pub(super) fn flow<R: Reader>(&mut self, flow: PacketRemainder, input: Input<'_>, out: &mut Out<'_, R>) -> Step {
        let here = flow.left.min(input.available());
        let is_last = here == flow.left;
        let what = self.charge_rest(out);
        let mut c = Cursor::new(input, here, out);
        let rest = what.clone().go_on(&mut c, !is_last || flow.is_continued);
        // Inside the length of a value, the next piece decides.
        let is_cut = rest.is_ok() && !is_last && c.remaining() < wire::LENGTH as u64;
        let used = c.position();
        if is_cut && used == 0 {
            self.set_rest(Some(what), out);
            return Step::Need(here + 1);
        }
        let is_whole = c.remaining() == 0;
        let left = if is_cut { flow.left - used } else { flow.left - here };
        if !is_cut {
            c.finish();
        }
        let rest = rest.ok().flatten().filter(|_| is_whole || is_cut).unwrap_or(PacketContinuation::Undecoded);
        self.flows[out.side() as usize] = (left > 0).then_some(PacketRemainder { left, ..flow });
        self.set_rest((left > 0 || flow.is_continued).then_some(rest), out);
        out.release();
        Step::Progress
    }

    /// Charges the operation of the continued message and returns its rest.
    fn charge_rest<R: Reader>(&mut self, out: &mut Out<'_, R>) -> PacketContinuation {
        if out.side() == Side::Response {
            if let Some(op) = self.pairing.queue.front_mut().map(|front| front.op) {
                out.charge(op);
            } else {
                self.pairing.stray_answer(out);
                self.stage = ResponseStage::Blind;
            }
            return self.rest_of_row.take().unwrap_or(PacketContinuation::Undecoded);
        }
        match self.rest_of_command.as_ref().and_then(|rest| rest.op) {
            Some(op) => out.charge(op),
            None => self.pairing.charge_stray(out),
        }
        let what =
            self.rest_of_command.as_mut().map(|rest| std::mem::replace(&mut rest.what, PacketContinuation::Undecoded));
        what.unwrap_or(PacketContinuation::Undecoded)
    }

    /// Keeps the rest of the message, or ends it.
    fn set_rest<R: Reader>(&mut self, what: Option<PacketContinuation>, out: &mut Out<'_, R>) {
        match (out.side(), what) {
            (Side::Response, what) => self.rest_of_row = what,
            (Side::Request, Some(what)) => {
                if let Some(rest) = &mut self.rest_of_command {
                    rest.what = what;
                }
            }
            (Side::Request, None) => {
                if let Some(CommandRemainder { op: Some(op), is_answered: false, .. }) = self.rest_of_command.take() {
                    out.close(op, Outcome::NoReply);
                }
            }
        }
    }

    /// Decodes a packet that continues a command.
    pub(super) fn continue_command<R: Reader>(&mut self, packet: MysqlPacket<'_>, out: &mut Out<'_, R>) {
        let what = self.charge_rest(out);
        let mut c = packet.begin(out);
        let what = what.go_on(&mut c, packet.is_continued);
        let is_whole = end(c, packet);
        let what = what.ok().flatten().filter(|_| is_whole).unwrap_or(PacketContinuation::Undecoded);
        self.set_rest(packet.is_continued.then_some(what), out);
        out.release();
    }
}

impl PacketContinuation {
    /// Returns the rest of partly read values.
    pub(super) fn from_values_read(read: ValuesRead, layouts: impl Iterator<Item = ValueLayout>) -> Option<Self> {
        match read {
            ValuesRead::All => None,
            ValuesRead::Partly(left) => Some(Self::Values(left, layouts.collect())),
            ValuesRead::Before(layout) => Some(Self::Values(0, std::iter::once(layout).chain(layouts).collect())),
        }
    }

    /// Posts the packet's part of the message and returns the rest.
    pub(super) fn go_on<R: Reader>(self, c: &mut Cursor<'_, '_, '_, R>, is_continued: bool) -> FieldRead<Option<Self>> {
        match self {
            Self::All(account, field) => {
                let left = c.remaining();
                c.out().free(0, left, Free::Any);
                c.rest(account, field);
                Ok(is_continued.then_some(self))
            }
            Self::Undecoded => {
                c.rest(Account::Unknown, "undecoded");
                Ok(is_continued.then_some(self))
            }
            Self::Bulk(bulk) => Ok(bulk.rows(c, is_continued)?.filter(|_| is_continued).map(Self::Bulk)),
            Self::Values(left, layouts) => {
                if let Some(left) = value(c, left, is_continued)? {
                    return Ok(Some(Self::Values(left, layouts)));
                }
                let mut layouts = layouts.into_iter();
                let read = values(c, &mut layouts, is_continued)?;
                Ok(Self::from_values_read(read, layouts).filter(|_| is_continued))
            }
        }
    }
}
