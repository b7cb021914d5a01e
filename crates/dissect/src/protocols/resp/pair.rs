//! Commands to operations: names, classes, and which reply answers which command.

use super::value::Leaves;
use super::wire::{self, REST, Word};
use crate::decode::{Malformed, OpId, Out, Reader};
use crate::limits;
use overhead_model::{Account, Class, Outcome, Side};
use std::collections::VecDeque;

/// The command being read, or just read.
#[derive(Debug)]
pub(super) struct Command {
    op: OpId,
    /// By its first word; kept from command to command, for most are what the one before was.
    first: Named,
    /// By both words, where it has two. Absent until a command had.
    both: Option<Box<Named>>,
    /// Arguments in all, the command word counted: at most [`wire::MAX_COUNT`].
    count: u32,
    /// Place of the next argument; 0 is the command word.
    place: u32,
    /// Words that make the name: 1, or 2 with a subcommand.
    words: u32,
    /// Of these, the ones that were read.
    known: u32,
    /// Values that still belong to the last option token.
    values: u8,
    options_over: bool,
    inline: bool,
    kind: Kind,
    /// Of a command of the first word and this many arguments.
    places: Option<(u32, Places)>,
}

/// What the arguments of a command are, where that does not depend on what they say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    /// A bit for each argument that is a key.
    keys: u8,
}

impl Places {
    /// Account and field of the argument at this place; 0 is the command word.
    #[inline]
    pub fn argument(self, place: usize) -> (Account, &'static str) {
        match place {
            0 => (Account::Query, "command"),
            place if self.keys >> place & 1 == 1 => (Account::Data, "key"),
            _ => (Account::Data, "argument"),
        }
    }
}

/// Commands that change how replies are paired, or say something about the software.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Hello,
    Info,
    /// What follows says which of the next three it is.
    Reply,
    ReplyOn,
    ReplyOff,
    ReplySkip,
    /// What follows says which of the next two it is.
    SetInfo,
    LibraryName,
    LibraryVersion,
    ReplicaConfig,
    Subscribe,
    Unsubscribe,
    Monitor,
    Replicate,
    /// A replica's acknowledgment, which is not answered.
    ReplicaAck,
    Reset,
}

impl Default for Command {
    fn default() -> Self {
        Self {
            op: OpId(0),
            first: Named::NOTHING,
            both: None,
            count: 0,
            place: 0,
            words: 1,
            known: 0,
            values: 0,
            options_over: false,
            inline: false,
            kind: Kind::Plain,
            places: None,
        }
    }
}

/// A name, and what follows from it.
#[derive(Clone, Copy, Debug)]
struct Named {
    name: Word,
    /// The same, where the table has it in one word.
    listed: Option<&'static str>,
    entry: Option<&'static wire::Command>,
    kind: Kind,
    class: Class,
}

impl Named {
    const NOTHING: Self = Self { name: Word::EMPTY, listed: None, entry: None, kind: Kind::Plain, class: Class::Workload };

    fn one(word: &[u8]) -> Self {
        let mut name = Word::EMPTY;
        name.push(b"", word);
        Self::of(name, wire::Command::named(name.as_str()))
    }

    fn two(first: Word, word: &[u8]) -> Self {
        let (mut full, mut name) = (first, first);
        full.push(b"|", word);
        name.push(b" ", word);
        Self::of(name, wire::Command::named(full.as_str()))
    }

    fn of(name: Word, entry: Option<&'static wire::Command>) -> Self {
        let class = match name.as_str() {
            "HELLO" | "AUTH" | "CLIENT SETINFO" | "CLIENT SETNAME" | "CLIENT ID" => Class::Setup,
            "PSYNC" | "SYNC" | "REPLCONF" => Class::Background,
            _ => Class::Workload,
        };
        let listed = entry.map(|entry| entry.name).filter(|listed| *listed == name.as_str());
        Self { name, listed, entry, kind: Kind::of(name.as_str()), class }
    }

    fn name(&self) -> &str {
        self.listed.unwrap_or_else(|| self.name.as_str())
    }
}

impl Command {
    /// A new command of `count` arguments.
    pub fn begin(&mut self, op: OpId, count: u64) {
        (self.op, self.count, self.place) = (op, count as u32, 0);
        (self.words, self.known, self.values) = (1, 0, 0);
        (self.options_over, self.inline, self.kind) = (false, false, Kind::Plain);
    }

    /// What the arguments of the command that was begun are, by its first word alone; it is read then. `None` where it takes
    /// more to say that.
    #[inline]
    pub fn places(&mut self, word: &[u8]) -> Option<Places> {
        if !self.first.name.is(word) {
            return None;
        }
        let places = match self.places {
            Some((count, places)) if count == self.count => places,
            _ => self.learn()?,
        };
        (self.place, self.known) = (self.count, 1);
        Some(places)
    }

    /// Works out [`Command::places`] for the first word as it is, and as many arguments.
    fn learn(&mut self) -> Option<Places> {
        let Named { entry, kind, .. } = self.first;
        let arguments = self.count - 1;
        let fixed = |entry: &wire::Command| {
            !entry.container && (entry.tokens.is_empty() || arguments <= entry.leading)
        };
        if kind != Kind::Plain || arguments >= u8::BITS || !entry.is_none_or(fixed) {
            return None;
        }
        let is_key = |place: &u32| entry.is_some_and(|entry| entry.is_key(*place, arguments));
        let keys = (1..=arguments).filter(is_key).fold(0, |keys, place| keys | 1 << place);
        let places = Places { keys };
        self.places = Some((self.count, places));
        Some(places)
    }

    /// What is known of it by its words so far.
    fn named(&self) -> &Named {
        match self.known {
            0 => &Named::NOTHING,
            1 => &self.first,
            _ => self.both.as_deref().unwrap_or(&Named::NOTHING),
        }
    }

    pub fn set_inline(&mut self) {
        self.inline = true;
    }

    pub fn op(&self) -> OpId {
        self.op
    }

    /// Whether it matters what the next argument says.
    pub fn needs_content(&self) -> bool {
        let has_options = |entry: &wire::Command| {
            !entry.tokens.is_empty() && self.arguments_before() >= entry.leading
        };
        let options = self.named().entry.is_some_and(has_options);
        self.place < self.words
            || options && !self.options_over && self.values == 0
            || matches!(self.kind, Kind::SetInfo | Kind::LibraryName | Kind::LibraryVersion | Kind::ReplicaConfig)
    }

    /// Arguments before the next one, the name's words left out.
    fn arguments_before(&self) -> u32 {
        self.place.saturating_sub(self.words)
    }

    /// Account and field of the next argument, whose content is given where it matters. Moves to the next place.
    pub fn argument(&mut self, word: Option<&[u8]>) -> (Account, &'static str) {
        let place = self.place;
        self.place += 1;
        if place < self.words {
            self.name_word(place, word.unwrap_or(b"(long)"));
            return (Account::Query, if place == 0 { "command" } else { "subcommand" });
        }
        let Some(entry) = self.named().entry else { return (Account::Data, "argument") };
        if self.values > 0 {
            self.values = if self.values == REST { REST } else { self.values - 1 };
            return (Account::Data, "option value");
        }
        let key = entry.is_key(place + 1 - self.words, self.count - self.words);
        if place - self.words >= entry.leading && !self.options_over {
            if let Some(values) = word.and_then(|word| entry.token(word)) {
                self.values = values;
                return (Account::Query, "option");
            }
            self.options_over = entry.positional_after;
        }
        (Account::Data, if key { "key" } else { "argument" })
    }

    /// An argument that is not a bulk string.
    pub fn odd_argument(&mut self) {
        self.argument(None);
    }

    fn name_word(&mut self, place: u32, word: &[u8]) {
        if place > 0 {
            **self.both.get_or_insert_with(|| Box::new(Named::NOTHING)) = Named::two(self.first.name, word);
        } else if !self.first.name.is(word) {
            (self.first, self.places) = (Named::one(word), None);
        }
        self.known = place + 1;
        if place == 0 && self.first.entry.is_some_and(|entry| entry.container) && self.count > 1 {
            self.words = 2;
        }
        self.kind = self.named().kind;
    }

    /// Looks at an argument that says more than its bytes.
    pub fn content<R: Reader>(&mut self, word: &[u8], out: &mut Out<'_, R>) {
        let is = |text: &str| text.as_bytes().eq_ignore_ascii_case(word);
        // The place is that of the argument after this one.
        match (self.kind, self.place) {
            (Kind::Reply, 3) if is("OFF") => self.kind = Kind::ReplyOff,
            (Kind::Reply, 3) if is("SKIP") => self.kind = Kind::ReplySkip,
            (Kind::Reply, 3) => self.kind = Kind::ReplyOn,
            (Kind::ReplicaConfig, 2) if is("ACK") => self.kind = Kind::ReplicaAck,
            (Kind::SetInfo, 3) if is("LIB-NAME") => self.kind = Kind::LibraryName,
            (Kind::SetInfo, 3) if is("LIB-VER") => self.kind = Kind::LibraryVersion,
            (Kind::LibraryName, 4) => out.software(Side::Request, &String::from_utf8_lossy(word)),
            (Kind::LibraryVersion, 4) => out.software_version(Side::Request, &String::from_utf8_lossy(word)),
            _ => {}
        }
    }

    /// Accounts of the reply's leaves.
    fn leaves(&self) -> Leaves {
        let write = self.named().entry.is_some_and(|entry| entry.write);
        let integer = if write { Account::Status } else { Account::Data };
        Leaves { status: Account::Status, integer, data: Account::Data }
    }
}

impl Kind {
    fn of(name: &str) -> Self {
        match name {
            "HELLO" => Self::Hello,
            "INFO" => Self::Info,
            "SUBSCRIBE" | "PSUBSCRIBE" | "SSUBSCRIBE" => Self::Subscribe,
            "UNSUBSCRIBE" | "PUNSUBSCRIBE" | "SUNSUBSCRIBE" => Self::Unsubscribe,
            "CLIENT REPLY" => Self::Reply,
            "CLIENT SETINFO" => Self::SetInfo,
            "REPLCONF" => Self::ReplicaConfig,
            "MONITOR" => Self::Monitor,
            "PSYNC" | "SYNC" => Self::Replicate,
            "RESET" => Self::Reset,
            _ => Self::Plain,
        }
    }
}

/// A command that waits for its reply.
#[derive(Clone, Copy, Debug)]
struct Pending {
    op: OpId,
    leaves: Leaves,
    kind: Kind,
    /// Replies still to come: one, but one per channel of a subscription.
    replies: u64,
}

/// Whose value the next one is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub op: OpId,
    pub leaves: Leaves,
    /// The pairing listens to the leaves.
    pub inspected: bool,
    /// How it ends, where it answers nothing.
    unpaired: Option<Outcome>,
}

const DATA: Leaves = Leaves { status: Account::Status, integer: Account::Data, data: Account::Data };

/// Which reply answers which command.
#[derive(Debug, Default)]
pub(super) struct Pairing {
    pending: VecDeque<Pending>,
    replies: Replies,
    /// Channels and patterns subscribed to, as far as counted here.
    subscriptions: u64,
    monitoring: bool,
    replication: Option<OpId>,
    /// The key of the map entry whose value comes next, in a reply to `HELLO`.
    expects: Expects,
    server_name: Option<String>,
}

/// What `CLIENT REPLY` asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Replies {
    #[default]
    On,
    Off,
    /// Not to the next command.
    SkipOne,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Expects {
    #[default]
    Nothing,
    ServerName,
    ServerVersion,
}

impl Pairing {
    /// No command waits. There is room for one: most clients wait for each reply.
    pub fn new() -> Self {
        Self { pending: VecDeque::with_capacity(1), ..Self::default() }
    }

    /// The operation that all further bytes of the server belong to, once it replicates.
    pub fn replication(&self) -> Option<OpId> {
        self.replication
    }

    /// A command is complete.
    pub fn request<R: Reader>(&mut self, command: &Command, out: &mut Out<'_, R>) -> Result<(), Malformed> {
        let (op, kind) = (command.op, command.kind);
        let via = if command.inline { "inline" } else { "array" };
        let named = command.named();
        out.label(op, named.class, named.name(), via);
        let silent = match kind {
            Kind::ReplyOff | Kind::ReplySkip | Kind::ReplicaAck => true,
            Kind::ReplyOn => false,
            _ => self.replies != Replies::On,
        };
        self.replies = match (kind, self.replies) {
            (Kind::ReplyOn, _) => Replies::On,
            (Kind::ReplyOff, _) | (_, Replies::Off) => Replies::Off,
            (Kind::ReplySkip, _) => Replies::SkipOne,
            _ => Replies::On,
        };
        if silent && !matches!(kind, Kind::Replicate) {
            out.close(op, Outcome::NoReply);
            return Ok(());
        }
        if self.pending.len() >= limits::OUTSTANDING {
            return Err(Malformed("more commands wait for replies than can be kept"));
        }
        let channels = u64::from(command.count.saturating_sub(1));
        let replies = match kind {
            Kind::Subscribe => channels.max(1),
            Kind::Unsubscribe if channels == 0 => self.subscriptions.max(1),
            Kind::Unsubscribe => channels,
            _ => 1,
        };
        self.pending.push_back(Pending { op, leaves: command.leaves(), kind, replies });
        Ok(())
    }

    /// Whose value the next one is, where that does not depend on the value and nobody listens to it.
    #[inline]
    pub fn plain_target(&self) -> Option<Target> {
        let plain = self.subscriptions == 0 && !self.monitoring && self.replication.is_none();
        let front = self.pending.front().filter(|front| plain && front.kind == Kind::Plain)?;
        Some(Target { op: front.op, leaves: front.leaves, inspected: false, unpaired: None })
    }

    /// Decides whose value begins at `bytes`; `None` where more bytes are needed.
    pub fn target<R: Reader>(&mut self, bytes: &[u8], out: &mut Out<'_, R>) -> Option<Target> {
        let &first = bytes.first()?;
        let front = self.pending.front().copied();
        let subscribing = front.is_some_and(|front| matches!(front.kind, Kind::Subscribe | Kind::Unsubscribe));
        let push = match first {
            b'>' if !subscribing => true,
            b'>' => !is_confirmation(first_element(bytes)?),
            b'*' if self.subscriptions > 0 => is_message(first_element(bytes)?),
            b'+' => self.monitoring && front.is_none(),
            _ => false,
        };
        if push {
            let op = out.open();
            out.label(op, Class::Background, if self.monitoring { "MONITOR" } else { "PUSH" }, "");
            return Some(Target { op, leaves: DATA, inspected: false, unpaired: Some(Outcome::Unsolicited) });
        }
        Some(match front {
            Some(Pending { op, leaves, kind, .. }) => {
                Target { op, leaves, inspected: matches!(kind, Kind::Hello | Kind::Info), unpaired: None }
            }
            None => Target { op: out.orphan("RESPONSE"), leaves: DATA, inspected: false, unpaired: Some(Outcome::NoReply) },
        })
    }

    /// A value is complete.
    pub fn reply<R: Reader>(&mut self, target: Target, kind: u8, out: &mut Out<'_, R>) {
        let error = matches!(kind, b'-' | b'!');
        if let Some(outcome) = target.unpaired {
            out.close(target.op, outcome);
            return;
        }
        let Some(front) = self.pending.front_mut() else { return };
        if error {
            front.replies = 1;
        } else {
            match front.kind {
                Kind::Subscribe => self.subscriptions += 1,
                Kind::Unsubscribe => self.subscriptions = self.subscriptions.saturating_sub(1),
                Kind::Monitor => self.monitoring = true,
                Kind::Replicate => {
                    self.replication = Some(front.op);
                    return;
                }
                Kind::Reset => {
                    (self.subscriptions, self.monitoring, self.replies) = (0, false, Replies::On);
                }
                _ => {}
            }
        }
        front.replies = front.replies.saturating_sub(1);
        if front.replies == 0 {
            out.close(target.op, if error { Outcome::Error } else { Outcome::Ok });
            self.pending.pop_front();
        }
        self.expects = Expects::Nothing;
    }

    /// Listens to the leaves of a reply to `HELLO` or `INFO`; the server's name and version once both were heard.
    pub fn hear(&mut self, leaf: &[u8]) -> Option<String> {
        match std::mem::take(&mut self.expects) {
            Expects::ServerName => self.server_name = Some(title(leaf)),
            Expects::ServerVersion => {
                let name = self.server_name.take().unwrap_or_else(|| "Redis".to_owned());
                return Some(format!("{name} {}", String::from_utf8_lossy(leaf)));
            }
            Expects::Nothing if leaf == b"server" => self.expects = Expects::ServerName,
            Expects::Nothing if leaf == b"version" => self.expects = Expects::ServerVersion,
            Expects::Nothing => return version_line(leaf),
        }
        None
    }

    /// Replies were lost: what waits cannot be told from what was answered in the loss.
    pub fn lost<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        for pending in self.pending.drain(..) {
            out.close(pending.op, Outcome::Unanswered);
        }
    }
}

/// The version in a reply to `INFO`.
fn version_line(text: &[u8]) -> Option<String> {
    let line = |name: &[u8]| {
        let line = text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(name))?;
        Some(String::from_utf8_lossy(line.trim_ascii_end()).into_owned())
    };
    let valkey = line(b"valkey_version:").map(|version| format!("Valkey {version}"));
    valkey.or_else(|| line(b"redis_version:").map(|version| format!("Redis {version}")))
}

fn title(leaf: &[u8]) -> String {
    let text = String::from_utf8_lossy(leaf);
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The first element of an aggregate, where it is a bulk string; empty where it is not; `None` where it is not there yet.
fn first_element(bytes: &[u8]) -> Option<&[u8]> {
    let count = wire::line(bytes, 0).unwrap_or(Some(b""))?;
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

fn is_message(word: &[u8]) -> bool {
    matches!(word, b"message" | b"pmessage" | b"smessage")
}

fn is_confirmation(word: &[u8]) -> bool {
    matches!(word, b"subscribe" | b"psubscribe" | b"ssubscribe" | b"unsubscribe" | b"punsubscribe" | b"sunsubscribe")
}
