//! Weaves the content of records between their headers, nonces and tags.
//!
//! The content of a direction is a separate stream with a separate engine, whose postings continue across records. On the wire,
//! headers, nonces and tags interrupt it. So a tape holds the postings until they cover a record's whole content; then everything is
//! posted in wire order. The operations in a record share the bytes around the content, as they share frame headers.

use super::session::RecordLayout;
use overhead_decode::tape::{PostingTape, post_shares};
use overhead_decode::{OpId, OperationShares, Out, Reader};
use overhead_model::Account;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
struct LaidRecord {
    layout: RecordLayout,
    /// Content that is not on the tape.
    own: Option<OwnContent>,
}

/// Content posted whole, to one operation: a handshake message or an alert, with its name.
pub(super) type OwnContent = (OpId, &'static str);

#[derive(Debug, Default)]
pub(super) struct PostingWeave {
    pub tape: PostingTape,
    records: VecDeque<LaidRecord>,
    held: u64,
    pub posted: u64,
    /// Bytes of the tape posted.
    played: u64,
    /// State of [`Out`] between two calls: the operation it charges, and the number of open groups.
    current: Option<OpId>,
    depth: u32,
    owners: Vec<(OpId, u64)>,
    shares: OperationShares,
}

impl PostingWeave {
    pub fn is_idle(&self) -> bool {
        self.records.is_empty()
    }

    pub fn held_bytes(&self) -> usize {
        self.tape.held_bytes() + self.records.capacity() * size_of::<LaidRecord>()
    }

    /// Adds the next record. Its content goes on the tape now or later, or is posted to one operation, `own`.
    pub fn push(&mut self, layout: RecordLayout, own: Option<OwnContent>) {
        self.held += layout.total();
        self.records.push_back(LaidRecord { layout, own });
    }

    /// Returns the distance from the next byte to post to the content of a record pushed next.
    pub fn ahead(&self, layout: RecordLayout) -> u64 {
        let (before, _) = surroundings(layout);
        self.held + before.iter().map(|(_, len)| len).sum::<u64>()
    }

    /// Returns the number of records that must be posted before everything pushed so far is.
    pub fn end(&self) -> u64 {
        self.posted + self.records.len() as u64
    }

    /// Returns the number of records that must be posted before the whole tape is. The tape was played as far as possible, so its rest lies
    /// in one record.
    pub fn end_of_tape(&self) -> u64 {
        self.posted + u64::from(self.tape.recorded > self.played)
    }

    /// Posts the records with decoded content.
    pub fn play<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        let mut aside = out.aside(self.current, self.depth);
        while let Some(&record) = self.records.front() {
            match record.own {
                Some(own) => post_own(own, record.layout, &mut aside),
                None if self.tape.recorded - self.played < record.layout.content as u64 => break,
                None => self.post_shared(record.layout, &mut aside),
            }
            self.records.pop_front();
            self.held -= record.layout.total();
            self.posted += 1;
        }
        (self.current, self.depth) = (aside.current(), aside.depth());
    }

    /// Posts a record with its content from the tape.
    fn post_shared<R: Reader>(&mut self, layout: RecordLayout, out: &mut Out<'_, R>) {
        let mut player = self.tape.play();
        let content = layout.content as u64;
        player.owners(content, &mut self.owners);
        let (before, after) = surroundings(layout);
        let around = before.iter().chain(&after).map(|(_, len)| len).sum();
        let shares = self.shares.divide(around, self.owners.iter().map(|&(_, weight)| weight));
        for (field, len) in before {
            post_shares(&self.owners, shares, (Account::Tls, field, len), out);
        }
        player.post(content, out);
        for (field, len) in after {
            post_shares(&self.owners, shares, (Account::Tls, field, len), out);
        }
        self.played += content;
        let position = player.at;
        self.tape.forget(position);
    }
}

impl RecordLayout {
    /// Returns the length of the record on the wire.
    fn total(self) -> u64 {
        let (before, after) = surroundings(self);
        self.content as u64 + before.iter().chain(&after).map(|(_, len)| len).sum::<u64>()
    }
}

fn post_own<R: Reader>((op, name): OwnContent, layout: RecordLayout, out: &mut Out<'_, R>) {
    let (before, after) = surroundings(layout);
    let tls = |(field, len)| (Account::Tls, field, len);
    out.charge(op);
    let content = [(name, layout.content as u64)];
    for (account, field, len) in before.into_iter().chain(content).chain(after).map(tls) {
        out.post(account, field, len);
    }
    out.release();
}

type RecordFields<const N: usize> = [(&'static str, u64); N];

fn surroundings(layout: RecordLayout) -> (RecordFields<4>, RecordFields<3>) {
    let before =
        [("record type", 1), ("record version", 2), ("record length", 2), ("explicit nonce", layout.explicit as u64)];
    let after = [
        ("content type", layout.type_bytes as u64),
        ("padding", layout.padding as u64),
        ("authentication tag", layout.tag as u64),
    ];
    (before, after)
}
