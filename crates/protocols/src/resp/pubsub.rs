//! Publish and subscribe: recognises confirmations and messages, and counts the subscriptions left.
//!
//! Each channel or pattern in a command has its own confirmation, and so has each subscription that ends because a
//! command names none (a single null if there was none). A confirmation states the number left:
//!
//! ```text
//! (p)(un)subscribe   channels and patterns together
//! s(un)subscribe     sharded channels
//! ```
//!
//! Confirmations are sent even if `CLIENT REPLY` switched replies off.

use super::resolved::CommandKind;
use super::wire;
use crate::limits;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SubscriptionKind {
    Channels,
    Patterns,
    /// Channels of one cluster slot.
    Shards,
}

/// Subscriptions of a connection, as confirmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct SubscriptionCounts {
    counts: [u64; 3],
    /// Every count is correct. If the start of the connection was not seen, only the sum of channels and patterns is.
    exact: bool,
    /// Messages arrive although none is counted.
    assumed: bool,
}

impl SubscriptionCounts {
    /// Returns no subscriptions, or unknown ones if `mid_stream`.
    pub fn new(mid_stream: bool) -> Self {
        Self { counts: [0; 3], exact: !mid_stream, assumed: false }
    }

    pub fn any(&self) -> bool {
        self.assumed || self.counts != [0; 3]
    }

    pub fn count(&self, family: SubscriptionKind) -> u64 {
        self.counts[family as usize]
    }

    /// Returns whether the last confirmation of a command that ends all subscriptions of a kind has arrived, if known.
    pub fn none_left(&self, family: SubscriptionKind) -> Option<bool> {
        let known = self.exact || family == SubscriptionKind::Shards || self.together() == 0;
        known.then(|| self.count(family) == 0)
    }

    /// Channels and patterns are counted together.
    fn together(&self) -> u64 {
        self.count(SubscriptionKind::Channels) + self.count(SubscriptionKind::Patterns)
    }

    /// Notes a message, which proves a subscription.
    pub fn message(&mut self) {
        self.assumed |= !self.any();
    }

    /// Confirmations may have been lost.
    pub fn lost(&mut self) {
        self.exact = false;
    }

    /// Notes a confirmation that states `left` subscriptions.
    pub fn confirmed(&mut self, kind: CommandKind, left: u64) {
        let (CommandKind::Subscribe(family) | CommandKind::Unsubscribe(family)) = kind else { return };
        let other = match family {
            SubscriptionKind::Channels => self.count(SubscriptionKind::Patterns),
            SubscriptionKind::Patterns => self.count(SubscriptionKind::Channels),
            SubscriptionKind::Shards => 0,
        };
        if left < other {
            // Some subscriptions were unseen: they are the ones left.
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
pub fn confirmation(word: &[u8]) -> Option<CommandKind> {
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
pub fn is_message(word: &[u8]) -> bool {
    matches!(word, b"message" | b"pmessage" | b"smessage")
}

/// Returns the first element of an aggregate if it is a bulk string, otherwise an empty text; `None` if it is
/// incomplete.
pub fn first_element(bytes: &[u8]) -> Option<&[u8]> {
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
