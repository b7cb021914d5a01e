//! Postings held back until it is known how they lie on the wire.
//!
//! Two layouts need it. A compressed body, or the payload of a compressed segment, is decoded from its decompressed
//! bytes: what counts is the bytes on the wire, split in proportion to the accounts of the decompressed ones. And the
//! messages inside segments (version 5) run on across segment headers and checksums, which have to be posted in
//! between.

use crate::decode::{Note, OpId, Out, Reader};
use overhead_model::{Account, Amounts, Class, Outcome, Side};

/// What was posted, in order.
#[derive(Debug, Default)]
pub(super) struct Tape {
    events: Vec<Event>,
    closed: Vec<(OpId, Outcome)>,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Enter(&'static str),
    Leave,
    Post { op: OpId, account: Account, field: &'static str, len: u64 },
}

/// A reader that writes postings to a tape and passes everything else on. Operations that are closed meanwhile stay
/// open until the tape was played.
pub(super) struct Recorder<'a, 'r, R> {
    out: &'a mut Out<'r, R>,
    tape: &'a mut Tape,
}

impl<'a, 'r, R: Reader> Recorder<'a, 'r, R> {
    /// Records on `tape`, which is emptied.
    pub fn new(out: &'a mut Out<'r, R>, tape: &'a mut Tape) -> Self {
        tape.events.clear();
        tape.closed.clear();
        Self { out, tape }
    }
}

impl<R: Reader> Reader for Recorder<'_, '_, R> {
    fn open(&mut self) -> OpId {
        self.out.open()
    }

    fn post(&mut self, _: Side, op: OpId, account: Account, field: &'static str, len: u64) {
        self.tape.events.push(Event::Post { op, account, field, len });
    }

    fn enter(&mut self, _: Side, group: &'static str) {
        self.tape.events.push(Event::Enter(group));
    }

    fn leave(&mut self, _: Side) {
        self.tape.events.push(Event::Leave);
    }

    fn label(&mut self, op: OpId, class: Class, name: &str, via: &'static str) {
        self.out.label(op, class, name, via);
    }

    fn close(&mut self, op: OpId, outcome: Outcome) {
        self.tape.closed.push((op, outcome));
    }

    fn software(&mut self, side: Side, name: &str) {
        self.out.software(side, name);
    }

    fn note(&mut self, note: Note) {
        self.out.note(note);
    }
}

impl Tape {
    /// All that was posted, to whatever operation.
    pub fn amounts(&self) -> Amounts {
        let mut amounts = Amounts::ZERO;
        for event in &self.events {
            if let Event::Post { account, len, .. } = *event {
                amounts[account] += len;
            }
        }
        amounts
    }

    /// A player at the beginning of the tape.
    pub fn play(&self) -> Player<'_> {
        Player { tape: self, next: 0, within: 0 }
    }

    /// Closes what was closed during the recording.
    pub fn close<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        for (op, outcome) in self.closed.drain(..) {
            out.close(op, outcome);
        }
    }
}

/// A position on a tape.
#[derive(Clone, Copy)]
pub(super) struct Player<'a> {
    tape: &'a Tape,
    next: usize,
    /// Bytes of the next posting that were played.
    within: u64,
}

/// A piece of a posting.
struct Piece {
    op: OpId,
    account: Account,
    field: &'static str,
    len: u64,
}

impl Player<'_> {
    /// Plays up to `len` bytes: `group` is told of groups, `post` of postings.
    fn run(&mut self, mut len: u64, mut group: impl FnMut(Option<&'static str>), mut post: impl FnMut(Piece)) {
        while let Some(&event) = self.tape.events.get(self.next) {
            match event {
                Event::Enter(name) => group(Some(name)),
                Event::Leave => group(None),
                Event::Post { .. } if len == 0 => return,
                Event::Post { op, account, field, len: whole } => {
                    let taken = len.min(whole - self.within);
                    len -= taken;
                    self.within += taken;
                    post(Piece { op, account, field, len: taken });
                    if self.within < whole {
                        return;
                    }
                    self.within = 0;
                }
            }
            self.next += 1;
        }
    }

    /// Shares of the operations in the next `len` bytes, in order; neighbours of one operation are one share.
    pub fn owners(mut self, len: u64, owners: &mut Vec<(OpId, u64)>) {
        owners.clear();
        self.run(
            len,
            |_| {},
            |piece| match owners.last_mut() {
                Some((op, share)) if *op == piece.op => *share += piece.len,
                _ => owners.push((piece.op, piece.len)),
            },
        );
    }

    /// Posts the next `len` bytes as they were recorded.
    pub fn post<R: Reader>(&mut self, len: u64, out: &mut Out<'_, R>) {
        // Two closures cannot both hold `out`.
        let out = std::cell::RefCell::new(out);
        self.run(
            len,
            |name| match name {
                Some(name) => out.borrow_mut().enter(name),
                None => out.borrow_mut().leave(),
            },
            |piece| {
                let mut out = out.borrow_mut();
                out.charge(piece.op);
                out.post(piece.account, piece.field, piece.len);
            },
        );
    }

    /// Posts `wire` bytes in proportion to the operations and accounts of the next `len` bytes.
    pub fn post_pro_rata<R: Reader>(&mut self, len: u64, wire: u64, out: &mut Out<'_, R>) {
        let mut parts: Vec<(OpId, Amounts)> = Vec::new();
        self.run(
            len,
            |_| {},
            |piece| match parts.last_mut() {
                Some((op, amounts)) if *op == piece.op => amounts[piece.account] += piece.len,
                _ => parts.push((piece.op, Amounts::of(piece.account, piece.len))),
            },
        );
        let weights: Vec<u64> =
            parts.iter().flat_map(|(_, amounts)| amounts.iter().map(|(_, amount)| amount)).collect();
        let shares = apportion(wire, &weights);
        for ((op, _), shares) in parts.iter().zip(shares.chunks(Account::COUNT)) {
            out.charge(*op);
            for (account, &share) in Account::ALL.into_iter().zip(shares) {
                out.post(account, "compressed", share);
            }
        }
    }
}

/// Splits `amount` in proportion to `weights` by largest remainder, ties to the earliest. Zeros where all weights are.
pub(super) fn apportion(amount: u64, weights: &[u64]) -> Vec<u64> {
    let total: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    if total == 0 {
        return vec![0; weights.len()];
    }
    let product = |weight: u64| u128::from(amount) * u128::from(weight);
    let mut shares: Vec<u64> = weights.iter().map(|&weight| (product(weight) / total) as u64).collect();
    let left = amount - shares.iter().sum::<u64>();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(weights.get(index).map(|&weight| product(weight) % total)));
    for index in order.into_iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
        if let Some(share) = shares.get_mut(index) {
            *share += 1;
        }
    }
    shares
}
