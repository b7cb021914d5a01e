//! Replies to `COM_STMT_PREPARE`: the statement, its parameters and its columns.

use super::decode::PlainDecoder;
use super::pair::MysqlPending;
use super::response::{MysqlPacket, ReplyRead, ResponseProgress, ResponseStage, eof};
use super::session::MysqlStatement;
use overhead_decode::{Cursor, Out, Reader, Short};
use overhead_model::Account;

impl PlainDecoder {
    /// Posts the first packet of the reply to `COM_STMT_PREPARE`.
    pub(super) fn prepare_ok<R: Reader>(&mut self, c: &mut Cursor<'_, '_, '_, R>) -> ReplyRead {
        c.out().enter("prepared");
        c.skip(1, Account::Status, "header")?;
        let id = c.u32_le(Account::Metadata, "statement id")?;
        let columns = c.array(Account::Framing, "column count").map(u16::from_le_bytes)?;
        let parameters = c.array(Account::Framing, "parameter count").map(u16::from_le_bytes)?;
        c.skip(1.min(c.remaining()), Account::Framing, "filler")?;
        c.skip(2.min(c.remaining()), Account::Status, "warnings")?;
        let follows = if c.remaining() > 0 { c.u8(Account::Schema, "definitions follow")? != 0 } else { true };
        c.out().leave();
        let Some(MysqlPending { prepares, bound, .. }) = self.pairing.queue.front_mut() else { return Err(Short) };
        let bound = std::mem::take(bound);
        self.given.learn(|| id.to_string(), prepares);
        let statement = MysqlStatement { named: prepares.clone(), parameters, bound, ..MysqlStatement::default() };
        self.session.change(|session| session.prepared(id, statement));
        self.columns.clear();
        self.prepared = id;
        let (parameters, columns) = if follows { (u64::from(parameters), u64::from(columns)) } else { (0, 0) };
        Ok(self.define(parameters, columns, false))
    }

    /// Sets the stage for the remaining definitions of a statement. `behind`: definitions came before and may be ended
    /// by an `EOF` packet.
    fn define(&mut self, parameters: u64, columns: u64, behind: bool) -> ResponseProgress {
        let may_have_eof = behind && self.session.has_eof() != Some(false);
        self.stage = match (parameters, columns) {
            (1.., _) => ResponseStage::Parameters(parameters, columns),
            (0, 1..) if may_have_eof && self.columns.is_empty() => ResponseStage::Parameterized(columns),
            (0, 1..) => ResponseStage::PreparedColumns(columns),
            (0, 0) if may_have_eof => ResponseStage::Prepared,
            (0, 0) => return self.statement_defined(),
        };
        ResponseProgress::More
    }

    /// Posts a definition of a prepared statement, or what ends its definitions.
    pub(super) fn definitions<R: Reader>(
        &mut self,
        packet: MysqlPacket<'_>,
        c: &mut Cursor<'_, '_, '_, R>,
    ) -> ReplyRead {
        match self.stage {
            ResponseStage::Parameters(left, columns) => {
                self.column(false, c)?;
                Ok(self.define(left - 1, columns, true))
            }
            ResponseStage::Parameterized(columns) if packet.is_eof() => {
                self.tell_eof(true);
                eof(packet, c)?;
                self.stage = ResponseStage::PreparedColumns(columns);
                Ok(ResponseProgress::More)
            }
            ResponseStage::PreparedColumns(left) | ResponseStage::Parameterized(left) => {
                if matches!(self.stage, ResponseStage::Parameterized(_)) {
                    self.tell_eof(false);
                }
                let kind = self.column(false, c)?;
                self.columns.push(kind);
                Ok(self.define(0, left - 1, true))
            }
            _ => {
                self.tell_eof(true);
                eof(packet, c)?;
                Ok(self.statement_defined())
            }
        }
    }

    fn tell_eof(&mut self, is_seen: bool) {
        if self.session.has_eof().is_none() {
            self.session.put(|session| &mut session.is_eof_seen, Some(is_seen));
        }
    }

    fn statement_defined(&mut self) -> ResponseProgress {
        let (id, columns) = (self.prepared, std::mem::take(&mut self.columns));
        if !columns.is_empty() {
            self.session.change(|session| session.change_statement(id, |statement| statement.columns = columns));
        }
        self.stage = ResponseStage::First;
        ResponseProgress::Done
    }

    /// Ends the first reply if it is complete unless an `EOF` packet follows, which does not.
    #[inline]
    pub(super) fn end_if_over<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        if self.stage == ResponseStage::Prepared && self.session.has_eof().is_none() {
            self.tell_eof(false);
            self.statement_defined();
            self.answered(out);
        }
    }
}
