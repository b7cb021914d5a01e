//! A reader that keeps everything, for tests of decoders and for inspecting a decoder.

use overhead_decode::{Decoder, DecoderEngine, Label, Moment, Note, OpId, Reader};
use overhead_model::{Account, Amounts, Class, Outcome, Side};

/// A decoder's account of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Last label: class, name, via.
    pub label: Option<(Class, String, &'static str)>,
    /// The statement in it; empty without one.
    pub statement: String,
    /// Set when it was closed.
    pub outcome: Option<Outcome>,
    /// Bytes per account, by side.
    pub amounts: [Amounts; 2],
}

impl Entry {
    /// Name of the last label; empty without one.
    pub fn name(&self) -> &str {
        self.label.as_ref().map_or("", |(_, name, _)| name)
    }

    /// Class of the last label.
    pub fn class(&self) -> Option<Class> {
        self.label.as_ref().map(|(class, _, _)| *class)
    }

    /// Returns the way of sending in the last label.
    pub fn via(&self) -> &'static str {
        self.label.as_ref().map_or("", |(_, _, via)| via)
    }

    /// `framing 16, query 3` for one side; zeros left out.
    pub fn posted(&self, side: Side) -> String {
        let amounts = self.amounts[side as usize].iter().filter(|(_, bytes)| *bytes > 0);
        amounts.map(|(account, bytes)| format!("{account} {bytes}")).collect::<Vec<_>>().join(", ")
    }
}

/// One posting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posting {
    /// Direction.
    pub side: Side,
    /// Operation.
    pub op: OpId,
    /// Groups and field, joined by dots.
    pub path: String,
    /// Account.
    pub account: Account,
    /// Bytes.
    pub len: u64,
}

/// Everything that a decoder reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transcript {
    /// Operations in order of opening; [`OpId`] is the index.
    pub ops: Vec<Entry>,
    /// Postings in order. Neighbours of the same field, operation and account are joined, so that cuts make no
    /// difference.
    pub postings: [Vec<Posting>; 2],
    /// Software names, by the side that sends them.
    pub software: [Option<String>; 2],
    /// Notes in order.
    pub notes: Vec<Note>,
    groups: [Vec<&'static str>; 2],
    /// Bytes posted, by side.
    posted: [u64; 2],
}

impl Transcript {
    /// Runs `decoder` over a conversation and ends it.
    pub fn of<D: Decoder>(decoder: D, conversation: &[(Side, &[u8])]) -> Self {
        let mut engine = DecoderEngine::new(decoder, false);
        let mut transcript = Self::default();
        for (side, bytes) in conversation {
            engine.bytes(*side, bytes, &mut transcript);
        }
        engine.finish(&mut transcript);
        transcript
    }

    /// Bytes posted on `side`.
    pub fn total(&self, side: Side) -> u64 {
        self.ops.iter().map(|op| op.amounts[side as usize].total()).sum()
    }

    /// Returns name, way, outcome, request and response of each operation, for readable assertions.
    pub fn summary(&self) -> Vec<String> {
        let line = |op: &Entry| {
            let class = op.class().map_or("-", Class::name);
            let outcome = op.outcome.map_or("open".to_owned(), |outcome| format!("{outcome:?}").to_lowercase());
            let sides = Side::BOTH.map(|side| op.posted(side));
            format!("{class} {} [{}] {outcome}: {} | {}", op.name(), op.via(), sides[0], sides[1])
        };
        self.ops.iter().map(line).collect()
    }

    fn entry(&mut self, op: OpId) -> Option<&mut Entry> {
        usize::try_from(op.0).ok().and_then(|index| self.ops.get_mut(index))
    }
}

impl Reader for Transcript {
    fn open(&mut self) -> OpId {
        self.ops.push(Entry { label: None, statement: String::new(), outcome: None, amounts: [Amounts::ZERO; 2] });
        OpId(self.ops.len() as u64 - 1)
    }

    fn post(&mut self, side: Side, op: OpId, account: Account, field: &'static str, len: u64) {
        let mut path = self.groups[side as usize].join(".");
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(field);
        if let Some(entry) = self.entry(op) {
            debug_assert!(entry.outcome.is_none(), "posting to a closed operation: {field}");
            entry.amounts[side as usize][account] += len;
        }
        self.posted[side as usize] += len;
        match self.postings[side as usize].last_mut() {
            Some(last) if last.op == op && last.account == account && last.path == path => last.len += len,
            _ => self.postings[side as usize].push(Posting { side, op, path, account, len }),
        }
    }

    fn enter(&mut self, side: Side, group: &'static str) {
        self.groups[side as usize].push(group);
    }

    fn leave(&mut self, side: Side) {
        self.groups[side as usize].pop();
    }

    fn label(&mut self, op: OpId, label: Label<'_>) {
        if let Some(entry) = self.entry(op) {
            entry.label = Some((label.class, label.name.to_owned(), label.via));
            label.statement.clone_into(&mut entry.statement);
        }
    }

    fn close(&mut self, op: OpId, outcome: Outcome) {
        if let Some(entry) = self.entry(op) {
            debug_assert!(entry.outcome.is_none(), "closed twice");
            entry.outcome = Some(outcome);
        }
    }

    fn software(&mut self, side: Side, name: &str) {
        self.software[side as usize] = Some(name.to_owned());
    }

    fn software_version(&mut self, side: Side, version: &str) {
        let name = self.software[side as usize].get_or_insert_default();
        name.push(' ');
        name.push_str(version);
    }

    fn note(&mut self, note: Note) {
        self.notes.push(note);
    }

    /// Each side has received all that the other sent before.
    fn moment(&self, side: Side) -> Moment {
        Moment { at: self.posted[side as usize], received: self.posted[side.other() as usize] }
    }

    fn announced(&self, side: Side) -> u64 {
        self.posted[side as usize]
    }
}

/// Checks properties of every decoder and conversation: each byte is posted once, and neither cuts, a missing end nor
/// other free bytes change the output for the bytes before. Returns the transcript of the uncut conversation.
///
/// # Panics
///
/// If a property does not hold; the message names the cut. For tests only.
pub fn check<D: Decoder>(new: impl Fn() -> D, conversation: &[(Side, &[u8])]) -> Transcript {
    let whole = Transcript::of(new(), conversation);
    for side in Side::BOTH {
        let sent: usize = conversation.iter().filter(|(of, _)| *of == side).map(|(_, bytes)| bytes.len()).sum();
        assert_eq!(whole.total(side), sent as u64, "{side:?}: bytes posted and bytes sent");
    }
    for (turn, (side, bytes)) in conversation.iter().enumerate() {
        for cut in 1..bytes.len() {
            let mut pieces: Vec<(Side, &[u8])> = conversation.to_vec();
            let (head, tail) = bytes.split_at(cut);
            pieces.splice(turn..=turn, [(*side, head), (*side, tail)]);
            assert_eq!(Transcript::of(new(), &pieces), whole, "turn {turn} cut at {cut}");
            let prefix: Vec<_> = pieces.iter().copied().take(turn + 1).collect();
            let sent: usize = prefix.iter().map(|(_, bytes)| bytes.len()).sum();
            let part = Transcript::of(new(), &prefix);
            assert_eq!(
                part.total(Side::Request) + part.total(Side::Response),
                sent as u64,
                "prefix of turn {turn} at {cut}"
            );
        }
    }
    let bytewise: Vec<_> =
        conversation.iter().flat_map(|(side, bytes)| bytes.chunks(1).map(|byte| (*side, byte))).collect();
    assert_eq!(Transcript::of(new(), &bytewise), whole, "byte by byte");
    crate::free::check(new, conversation);
    whole
}
