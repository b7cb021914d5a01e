//! Posts bytes that were compressed together in proportion to the operations and accounts of their decompressed content.
//! Nothing more precise is known about them.

use super::{Label, Moment, Note, OpId, Out, ProportionalSplit, Reader};
use crate::out::pass_facts_on;
use overhead_model::{Account, Amounts, Outcome, Side};

/// A reader that sums postings by account, whatever their operation, and forwards everything else.
pub struct Weigher<'a, 'r, R: Reader> {
    out: &'a mut Out<'r, R>,
    pub amounts: Amounts,
}

impl<'a, 'r, R: Reader> Weigher<'a, 'r, R> {
    pub fn new(out: &'a mut Out<'r, R>) -> Self {
        Self { out, amounts: Amounts::ZERO }
    }
}

impl<R: Reader> Reader for Weigher<'_, '_, R> {
    pass_facts_on!();

    fn open(&mut self) -> OpId {
        self.out.open()
    }

    fn post(&mut self, _: Side, _: OpId, account: Account, field: &'static str, len: u64) {
        self.amounts[account] += len;
        self.out.inner(account, field, len);
    }

    fn close(&mut self, op: OpId, outcome: Outcome) {
        self.out.close(op, outcome);
    }
}

/// Divides bytes in proportion to weights. Reuses its memory.
#[derive(Debug, Default)]
pub struct OperationShares {
    parts: Vec<(OpId, Amounts)>,
    split: ProportionalSplit,
    given: Vec<u64>,
}

impl OperationShares {
    /// Divides `amount` in proportion to `weights`, ties to the earliest. All zeros if the weights are.
    pub fn divide(&mut self, amount: u64, weights: impl Iterator<Item = u64>) -> &mut [u64] {
        self.split.all(amount, weights, &mut self.given);
        &mut self.given
    }

    /// Posts `wire` compressed bytes of the operation being charged in proportion to `amounts`, the decompressed accounts,
    /// by largest remainder, in stack order.
    ///
    /// The compressed form of nothing carries no more than a length of 0: it goes to `framing`. Bytes that could not be
    /// decompressed go to `unknown` instead.
    pub fn post<R: Reader>(&mut self, amounts: &Amounts, wire: u64, field: &'static str, out: &mut Out<'_, R>) {
        let mut parts = self.take_parts();
        if let Some(op) = out.current() {
            parts.push((op, *amounts));
        }
        self.post_parts(parts, wire, field, out);
    }

    /// Returns an empty list of operations and their accounts.
    pub(crate) fn take_parts(&mut self) -> Vec<(OpId, Amounts)> {
        self.parts.clear();
        std::mem::take(&mut self.parts)
    }

    /// Like [`OperationShares::post`], for several operations.
    pub(crate) fn post_parts<R: Reader>(
        &mut self,
        parts: Vec<(OpId, Amounts)>,
        wire: u64,
        field: &'static str,
        out: &mut Out<'_, R>,
    ) {
        out.note(Note::ProRata);
        out.packed(wire);
        let given = self.divide(wire, present(&parts).map(|(_, _, amount)| amount));
        if given.is_empty() {
            out.post(Account::Framing, field, wire);
        }
        for ((op, account, _), &mut share) in present(&parts).zip(given) {
            out.charge(op);
            out.post(account, field, share);
        }
        self.parts = parts;
    }
}

/// Returns the amounts above 0: a packet can have ten thousand operations, of few accounts each.
fn present(parts: &[(OpId, Amounts)]) -> impl Iterator<Item = (OpId, Account, u64)> {
    let all = parts.iter().flat_map(|(op, amounts)| amounts.iter().map(|(account, amount)| (*op, account, amount)));
    all.filter(|(_, _, amount)| *amount > 0)
}
