//! Publish and subscribe: which values confirm a subscription or its end, which are messages, and how many subscriptions of
//! each kind are left.
//!
//! Every channel or pattern that a command names is confirmed by a value of its own, and so is the end of every subscription
//! where a command names none (one value with a null where there was none). A confirmation says how many are left:
//!
//! ```text
//! (p)(un)subscribe   channels and patterns together
//! s(un)subscribe     sharded channels
//! ```
//!
//! Confirmations are sent where `CLIENT REPLY` switched replies off, too.

use super::command::CommandKind;
use super::wire;
use crate::limits;

/// What a subscription is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SubscriptionKind {
    Channels,
    Patterns,
    /// Channels of one slot of a cluster.
    Shards,
}

/// Subscriptions of a connection, as its confirmations say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SubscriptionCounts {
    /// By [`SubscriptionKind`].
    counts: [u64; 3],
    /// Each count is right. Where the start of the connection was not seen, the sum of channels and patterns alone is.
    exact: bool,
    /// Messages come, whatever was counted.
    assumed: bool,
}

impl SubscriptionCounts {
    /// Those of a new connection: none; or, where `mid_stream`, unknown ones.
    pub fn new(mid_stream: bool) -> Self {
        Self { counts: [0; 3], exact: !mid_stream, assumed: false }
    }

    /// Returns whether there are any.
    pub fn any(&self) -> bool {
        self.assumed || self.counts != [0; 3]
    }

    /// Returns how many there are of a family, as far as is known.
    pub fn count(&self, family: SubscriptionKind) -> u64 {
        self.counts[family as usize]
    }

    /// Returns whether a command to end all of a family has had its last confirmation; `None` where that cannot be told.
    pub fn none_left(&self, family: SubscriptionKind) -> Option<bool> {
        let known = self.exact || family == SubscriptionKind::Shards || self.together() == 0;
        known.then(|| self.count(family) == 0)
    }

    /// Channels and patterns, which are counted together.
    fn together(&self) -> u64 {
        self.count(SubscriptionKind::Channels) + self.count(SubscriptionKind::Patterns)
    }

    /// A message came: there is a subscription.
    pub fn message(&mut self) {
        self.assumed |= !self.any();
    }

    /// What was sent is not known.
    pub fn lost(&mut self) {
        self.exact = false;
    }

    /// A confirmation of `kind` says how many are `left`.
    pub fn confirmed(&mut self, kind: CommandKind, left: u64) {
        let (CommandKind::Subscribe(family) | CommandKind::Unsubscribe(family)) = kind else { return };
        let other = match family {
            SubscriptionKind::Channels => self.count(SubscriptionKind::Patterns),
            SubscriptionKind::Patterns => self.count(SubscriptionKind::Channels),
            SubscriptionKind::Shards => 0,
        };
        if left < other {
            // Some of these were subscribed to where it was not seen: they are what is left.
            self.exact = false;
            self.counts[SubscriptionKind::Channels as usize] = left;
            self.counts[SubscriptionKind::Patterns as usize] = 0;
        } else {
            self.counts[family as usize] = left - other;
        }
        self.assumed = false;
        self.exact |= self.together() == 0;
    }
}

/// Returns the command that a value with this first word confirms.
pub(super) fn confirmation(word: &[u8]) -> Option<CommandKind> {
    Some(match word {
        b"subscribe" => CommandKind::Subscribe(SubscriptionKind::Channels),
        b"psubscribe" => CommandKind::Subscribe(SubscriptionKind::Patterns),
        b"ssubscribe" => CommandKind::Subscribe(SubscriptionKind::Shards),
        b"unsubscribe" => CommandKind::Unsubscribe(SubscriptionKind::Channels),
        b"punsubscribe" => CommandKind::Unsubscribe(SubscriptionKind::Patterns),
        b"sunsubscribe" => CommandKind::Unsubscribe(SubscriptionKind::Shards),
        _ => return None,
    })
}

/// Returns whether a value with this first word is a message.
pub(super) fn is_message(word: &[u8]) -> bool {
    matches!(word, b"message" | b"pmessage" | b"smessage")
}

/// Returns the first element of an aggregate, where it is a bulk string; empty where it is not; `None` where it is not there yet.
pub(super) fn first_element(bytes: &[u8]) -> Option<&[u8]> {
    let count = wire::line(bytes, 0).unwrap_or(Some(b""))?;
    if count.get(1..).and_then(wire::number).is_none_or(|count| count <= 0) {
        return Some(b"");
    }
    let rest = bytes.get(count.len() + 2..)?;
    if rest.first().is_some_and(|&kind| kind != b'$') {
        return Some(b"");
    }
    let header = wire::line(rest, 0).unwrap_or(Some(b""))?;
    let len = header.get(1..).and_then(wire::number).and_then(|len| usize::try_from(len).ok());
    match len {
        Some(len) if len <= limits::NAME => rest.get(header.len() + 2..header.len() + 2 + len),
        _ => Some(b""),
    }
}
