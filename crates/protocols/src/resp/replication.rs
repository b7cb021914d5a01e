//! The stream from a primary to its replica after the reply to `PSYNC` or `SYNC`: a snapshot, then write commands.
//!
//! ```text
//! LF                                     while the snapshot is made
//! $<len> CRLF <snapshot>                 of known length; no CRLF behind it
//! $EOF:<mark> CRLF <snapshot> <mark>     sent while it is made; the mark is 40 bytes
//! *<n> CRLF …                            a command, which the replica does not answer
//! ```

use super::value::{LeafAccounts, RespValue};
use super::wire;
use overhead_decode::{Input, Malformed, MaybeStep, OpId, Out, Reader, Step};
use overhead_model::{Account, Class, Outcome};

/// Length of the mark after a snapshot of unknown length.
const MARK: usize = 40;

/// Replicated data is user data.
const REPLICATED: LeafAccounts = LeafAccounts { status: Account::Data, integer: Account::Data, free: false };

#[derive(Debug, Default)]
pub(super) struct ReplicationStream {
    stage: ReplicationStage,
    op: OpId,
    value: RespValue,
}

#[derive(Clone, Copy, Debug, Default)]
enum ReplicationStage {
    #[default]
    Between,
    /// Bytes of the snapshot left.
    Snapshot(u64),
    /// The snapshot ends with this mark.
    Until([u8; MARK]),
    Command,
}

impl ReplicationStream {
    /// Decodes until `input` ends, and returns the step to stop with; `None` if a reply starts, which may come between
    /// commands of the stream if a command of the replica waits.
    pub fn run<R: Reader>(&mut self, waits: bool, input: &mut Input<'_>, out: &mut Out<'_, R>) -> MaybeStep {
        while input.available() > 0 {
            let between = matches!(self.stage, ReplicationStage::Between);
            if between && waits && matches!(input.bytes.first(), Some(b'+' | b'-')) {
                return Ok(None);
            }
            let blocked = match self.stage {
                ReplicationStage::Between => self.begin(input, out)?,
                ReplicationStage::Snapshot(left) => {
                    self.snapshot(left, input, out);
                    None
                }
                ReplicationStage::Until(mark) => self.snapshot_until(mark, input, out),
                ReplicationStage::Command => match self.value.run(input, REPLICATED, None, out)? {
                    None => {
                        self.end(out);
                        None
                    }
                    blocked => blocked,
                },
            };
            if blocked.is_some() {
                return Ok(blocked);
            }
        }
        Ok(Some(Step::Progress))
    }

    fn begin<R: Reader>(&mut self, input: &mut Input<'_>, out: &mut Out<'_, R>) -> MaybeStep {
        match input.bytes.first() {
            None => Err(Malformed("a replicated command that was not captured")),
            Some(b'\n') => {
                self.open("stream", out);
                out.post(Account::Framing, "keep-alive", 1);
                input.advance(1);
                self.end(out);
                Ok(None)
            }
            Some(b'$') => self.begin_snapshot(input, out),
            Some(_) => {
                self.open("stream", out);
                self.value.reset();
                self.stage = ReplicationStage::Command;
                Ok(None)
            }
        }
    }

    fn begin_snapshot<R: Reader>(&mut self, input: &mut Input<'_>, out: &mut Out<'_, R>) -> MaybeStep {
        let Some(line) = wire::line(input.bytes, 0)? else {
            let cut = Malformed("a header line that was not captured");
            return if input.opaque > 0 { Err(cut) } else { Ok(Some(Step::More)) };
        };
        self.open("snapshot", out);
        out.post(Account::Framing, "length", line.len() as u64 + 2);
        input.advance(line.len() as u64 + 2);
        let text = line.get(1..).unwrap_or_default();
        let mark = text.strip_prefix(b"EOF:").and_then(|mark| mark.try_into().ok());
        let len = wire::number(text).and_then(|len| u64::try_from(len).ok());
        match (mark, len) {
            (Some(mark), _) => self.stage = ReplicationStage::Until(mark),
            (None, Some(len)) if len > 0 => self.stage = ReplicationStage::Snapshot(len),
            _ => self.end(out),
        }
        Ok(None)
    }

    fn snapshot<R: Reader>(&mut self, left: u64, input: &mut Input<'_>, out: &mut Out<'_, R>) {
        let taken = left.min(input.available());
        out.post(Account::Data, "snapshot", taken);
        input.advance(taken);
        self.stage = ReplicationStage::Snapshot(left - taken);
        if taken == left {
            self.end(out);
        }
    }

    fn snapshot_until<R: Reader>(
        &mut self,
        mark: [u8; MARK],
        input: &mut Input<'_>,
        out: &mut Out<'_, R>,
    ) -> Option<Step> {
        if let Some(at) = input.bytes.windows(MARK).position(|bytes| bytes == mark) {
            out.post(Account::Data, "snapshot", at as u64);
            out.post(Account::Framing, "end of snapshot", MARK as u64);
            input.advance((at + MARK) as u64);
            self.end(out);
            return None;
        }
        // The mark may have started.
        let kept = if input.opaque > 0 { 0 } else { MARK as u64 - 1 };
        let taken = input.available().saturating_sub(kept);
        out.post(Account::Data, "snapshot", taken);
        input.advance(taken);
        (taken == 0 || kept > 0).then_some(Step::More)
    }

    fn open<R: Reader>(&mut self, via: &'static str, out: &mut Out<'_, R>) {
        self.op = out.begin(Class::Background, "REPLICATION", via);
    }

    fn end<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        out.close(self.op, Outcome::Unsolicited);
        self.stage = ReplicationStage::Between;
    }

    /// Bytes were lost inside a command.
    pub fn lost<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        if !matches!(self.stage, ReplicationStage::Between) {
            self.end(out);
        }
    }
}
