//! A command by its name: its entry in the table, its class, and its effect on pairing.

use super::commands::CommandSpec;
use super::pubsub::{self, SubscriptionKind};
use super::wire::RespWord;
use crate::pattern;
use overhead_model::Class;

/// Shown for an unknown name that may be private.
const UNKNOWN: &str = "(unknown)";

/// Commands that change the pairing of replies, or describe the software.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CommandKind {
    #[default]
    Plain,
    Hello,
    Info,
    /// The next argument selects one of the next three.
    Reply,
    ReplyOn,
    ReplyOff,
    ReplySkip,
    /// The next argument selects one of the next two.
    SetInfo,
    LibraryName,
    LibraryVersion,
    ReplicaConfig,
    Subscribe(SubscriptionKind),
    Unsubscribe(SubscriptionKind),
    Exec,
    Discard,
    Monitor,
    Replicate,
    /// Acknowledgment of a replica, which is not answered.
    ReplicaAck,
    Reset,
}

impl CommandKind {
    fn from_name(name: &str) -> Self {
        match name {
            "HELLO" => Self::Hello,
            "INFO" => Self::Info,
            "EXEC" => Self::Exec,
            "DISCARD" => Self::Discard,
            "CLIENT REPLY" => Self::Reply,
            "CLIENT SETINFO" => Self::SetInfo,
            "REPLCONF" => Self::ReplicaConfig,
            "MONITOR" => Self::Monitor,
            "PSYNC" | "SYNC" => Self::Replicate,
            "RESET" => Self::Reset,
            name if name.ends_with("SUBSCRIBE") => {
                pubsub::confirmation(name.to_ascii_lowercase().as_bytes()).unwrap_or_default()
            }
            _ => Self::Plain,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ResolvedCommand {
    pub name: RespWord,
    /// Display name, if it differs.
    listed: Option<&'static str>,
    pub entry: Option<&'static CommandSpec>,
    pub kind: CommandKind,
    class: Class,
    /// Setup if it comes before the connection's first other command.
    opening: bool,
    /// With more arguments than this, their content matters.
    pub fixed: u32,
}

impl Default for ResolvedCommand {
    fn default() -> Self {
        Self::NOTHING
    }
}

impl ResolvedCommand {
    pub const NOTHING: Self = Self {
        name: RespWord::EMPTY,
        listed: None,
        entry: None,
        kind: CommandKind::Plain,
        class: Class::Workload,
        opening: false,
        fixed: 0,
    };

    pub fn one(word: &[u8]) -> Self {
        let mut name = RespWord::EMPTY;
        name.push(b"", word);
        let named = Self::new(name, CommandSpec::named(name.as_str()));
        if named.entry.is_some() || pattern::is_command(name.as_str()) {
            named
        } else {
            Self { listed: Some(UNKNOWN), ..named }
        }
    }

    /// Resolves a command with a subcommand. A word that is not one is hidden unless it looks like a name.
    pub fn two(first: &Self, word: &[u8]) -> Self {
        let (mut full, mut name) = (first.name, first.name);
        full.push(b"|", word);
        name.push(b" ", word);
        let named = Self::new(name, CommandSpec::named(full.as_str()));
        let is_known = named.entry.is_some() || std::str::from_utf8(word).is_ok_and(pattern::is_command);
        if is_known { named } else { Self { listed: first.listed, ..named } }
    }

    fn new(name: RespWord, entry: Option<&'static CommandSpec>) -> Self {
        let class = class(name.as_str());
        let opening = is_opening(name.as_str());
        let listed = entry.map(|entry| entry.name).filter(|listed| *listed == name.as_str());
        let kind = CommandKind::from_name(name.as_str());
        let fixed = match entry {
            _ if kind != CommandKind::Plain => 0,
            None => u32::MAX,
            Some(entry) if entry.script || entry.counts_keys() => 0,
            Some(entry) if entry.tokens.is_empty() => u32::MAX,
            Some(entry) => entry.leading,
        };
        Self { name, listed, entry, kind, class, opening, fixed }
    }

    pub fn name(&self) -> &str {
        self.listed.unwrap_or_else(|| self.name.as_str())
    }

    /// Returns the class of the command; `begun` if the connection has sent a command other than setup.
    #[inline]
    pub fn class(&self, begun: bool) -> Class {
        if self.opening && !begun { Class::Setup } else { self.class }
    }
}

/// Returns the class of a command, except for [`is_opening`].
pub fn class(name: &str) -> Class {
    match name {
        "HELLO" | "AUTH" => Class::Setup,
        "PSYNC" | "SYNC" | "REPLCONF" => Class::Background,
        _ if name.strip_prefix("CLIENT ").is_some_and(|word| OF_CLIENT.split(' ').any(|setup| setup == word)) => {
            Class::Setup
        }
        _ => Class::Workload,
    }
}

/// The subcommands of `CLIENT` that configure the connection. `CACHING` affects only the next command.
const OF_CLIENT: &str = "SETINFO SETNAME ID TRACKING MAINT_NOTIFICATIONS NO-EVICT NO-TOUCH REPLY CAPA IMPORT-SOURCE";

/// Returns whether drivers send this for setup, and users for other reasons.
fn is_opening(name: &str) -> bool {
    let always = matches!(
        name,
        "SELECT" | "READONLY" | "INFO" | "ROLE" | "CLUSTER SLOTS" | "CLUSTER SHARDS" | "CLUSTER NODES" | "CLUSTER MYID"
    );
    always || name.split(' ').next() == Some("COMMAND")
}
