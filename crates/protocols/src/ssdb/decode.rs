//! Decodes packets of both directions into postings.

use super::pair::{SsdbReplyTarget, SsdbRequestKind, SsdbStatus};
use super::wire::{self, INSPECTED, SsdbLine};
use super::{Ssdb, SsdbPacket, SsdbStage};
use crate::keys::KeyPatterns;
use crate::pattern;
use overhead_decode::{DecodeStep, Free, Input, Label, Malformed, MaybeStep, OpId, Out, Reader, Step};
use overhead_model::{Account, Class, Side};

impl Ssdb {
    /// Decodes the next line or block. Returns the step to stop with if it is incomplete.
    pub(super) fn element<R: Reader>(&mut self, side: Side, input: &mut Input<'_>, out: &mut Out<'_, R>) -> MaybeStep {
        let packet = &mut self.packets[side as usize];
        match packet.stage {
            SsdbStage::Line => self.line(side, input, out),
            SsdbStage::Block { left, account, free, is_key } => {
                let taken = left.min(input.available());
                if is_key {
                    self.keys.push_piece(input.bytes.get(..taken as usize).unwrap_or(input.bytes), taken);
                }
                out.post_maybe_free(account, "block", taken, free);
                input.advance(taken);
                packet.stage = SsdbStage::Block { left: left - taken, account, free, is_key };
                if taken < left {
                    return Ok(Some(Step::More));
                }
                packet.stage = SsdbStage::BlockEnd;
                if is_key {
                    self.keys.end_pieces();
                }
                Ok(None)
            }
            SsdbStage::BlockEnd => {
                let end = match input.bytes {
                    [b'\r'] if input.opaque == 0 => return Ok(Some(Step::Need(2))),
                    [b'\r', b'\n', ..] => 2,
                    // Bytes that were not captured are assumed to be a plain line feed.
                    [b'\n', ..] | [] => 1,
                    _ => return Err(Malformed("a block that is longer than its size")),
                };
                out.post(Account::Framing, "line end", end);
                input.advance(end);
                packet.stage = SsdbStage::Line;
                Ok(None)
            }
        }
    }

    /// Decodes a line: the size of a block, or the end of the packet.
    fn line<R: Reader>(&mut self, side: Side, input: &mut Input<'_>, out: &mut Out<'_, R>) -> MaybeStep {
        let (size, line) = match wire::next(input.bytes)? {
            SsdbLine::More => return input.await_more("a size that was not captured").map(Some),
            SsdbLine::End(len) => {
                input.advance(len);
                return self.end(side, len, out).map(|()| None);
            }
            SsdbLine::Block { size, line } => (size, line),
        };
        let packet = &self.packets[side as usize];
        let is_first = packet.place == 0;
        let is_read =
            size <= INSPECTED && (is_first || packet.target.is_some_and(|target| target.kind == SsdbRequestKind::Info));
        let body = input.bytes.get(line as usize..).unwrap_or_default();
        if is_read && (body.len() as u64) < size && input.opaque == 0 {
            return Ok(Some(Step::Need(line + size)));
        }
        let text = body.get(..size as usize).filter(|_| is_read);
        if is_first {
            self.begin(side, text, out);
        } else if let Some(text) = text {
            self.packets[side as usize].read_info(text, out);
        }
        out.post(Account::Framing, "size", line);
        input.advance(line);
        let account = match (side, is_first) {
            (Side::Request, true) => Account::Query,
            (Side::Response, true) => Account::Status,
            (_, false) => Account::Data,
        };
        let packet = &mut self.packets[side as usize];
        let is_key = side == Side::Request && out.wants_statements() && wire::is_key(&packet.name, packet.place);
        packet.place = packet.place.saturating_add(1);
        let free = match (is_read, is_key) {
            (true, _) => None,
            (false, true) => Some(Free::Digits),
            (false, false) => Some(Free::Any),
        };
        packet.stage = SsdbStage::Block { left: size, account, free, is_key };
        Ok(None)
    }

    /// Starts a packet whose first block is `text`.
    fn begin<R: Reader>(&mut self, side: Side, text: Option<&[u8]>, out: &mut Out<'_, R>) {
        let text = text.unwrap_or_default();
        let packet = &mut self.packets[side as usize];
        match side {
            Side::Request => {
                let op = out.open();
                out.charge(op);
                packet.op = Some(op);
                self.keys.clear();
                packet.name.clear();
                packet.name.extend_from_slice(if is_shown(text) { text } else { b"(unknown)" });
            }
            Side::Response => {
                packet.target = Some(self.pairing.target(out));
                packet.is_version = false;
                packet.first = SsdbStatus::from_word(text);
            }
        }
    }

    /// Ends a packet at its empty line. Servers skip empty lines between packets.
    fn end<R: Reader>(&mut self, side: Side, len: u64, out: &mut Out<'_, R>) -> DecodeStep<()> {
        let packet = &mut self.packets[side as usize];
        if std::mem::take(&mut packet.place) == 0 {
            out.post_alone("(empty)", (Account::Framing, "empty line", len));
            return Ok(());
        }
        out.post(Account::Framing, "end", len);
        if let Some(op) = packet.op.take() {
            let kind = SsdbRequestKind::from_name(&packet.name);
            label(op, &packet.name, &mut self.keys, out);
            self.pairing.request(op, kind, out)?;
        }
        if let Some(target) = packet.target.take() {
            self.pairing.answer(target, packet.first, out);
        }
        out.release();
        Ok(())
    }
}

impl SsdbPacket {
    /// Reads a block of the reply to `info`: names and values alternate.
    fn read_info<R: Reader>(&mut self, text: &[u8], out: &mut Out<'_, R>) {
        if self.is_version && matches!(self.target, Some(SsdbReplyTarget { kind: SsdbRequestKind::Info, .. })) {
            out.software(Side::Response, &format!("SSDB {}", String::from_utf8_lossy(text)));
        }
        self.is_version = text == b"version";
    }
}

/// Returns whether a command's name is shown as it is.
fn is_shown(name: &[u8]) -> bool {
    name == b"sync140" || std::str::from_utf8(name).is_ok_and(pattern::is_command)
}

fn label<R: Reader>(op: OpId, name: &[u8], keys: &mut KeyPatterns, out: &mut Out<'_, R>) {
    let class = match name {
        b"auth" => Class::Setup,
        b"sync140" => Class::Background,
        _ => Class::Workload,
    };
    let name = &String::from_utf8_lossy(name);
    out.label_statement(op, Label { class, name, via: "", statement: keys.statement(name) });
}
