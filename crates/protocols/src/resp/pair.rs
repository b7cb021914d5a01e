//! Pairs replies with commands.

use super::command::Command;
use super::pubsub::{self, SubscriptionCounts, SubscriptionKind};
use super::resolved::CommandKind;
use super::value::LeafAccounts;
use super::wire;
use overhead_decode::{DecodeStep, Label, OpId, Out, PendingRequest, PendingRequests, Reader, Versioned};
use overhead_model::{Account, Class, Outcome, Side};
use std::hash::{Hash, Hasher};

#[derive(Clone, Copy, Debug)]
pub(super) struct RespPending {
    op: OpId,
    leaves: LeafAccounts,
    kind: CommandKind,
    due: DueValues,
    /// Replies are switched off: only confirmations of subscriptions arrive.
    silent: bool,
    /// Part of the reply has arrived.
    begun: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DueValues {
    /// A number of values: one, or one per channel of a subscription.
    Values(u64),
    /// Confirmations until no subscription of the kind is left.
    All,
}

/// The operation of the next value.
#[derive(Clone, Copy, Debug)]
pub(super) struct RespReplyTarget {
    pub op: OpId,
    pub leaves: LeafAccounts,
    pub consumer: LeafConsumer,
    /// The outcome, if it answers no command.
    unpaired: Option<Outcome>,
}

/// Which part of the decoder reads the leaves of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeafConsumer {
    Nobody,
    /// The name and version of the server.
    Software,
    /// Confirmations of subscriptions.
    Subscriptions,
}

/// Accounts of pushed values, whose first words matter.
const DATA: LeafAccounts = LeafAccounts { status: Account::Status, integer: Account::Data, free: false };

#[derive(Debug, Default)]
pub(super) struct RespPairing {
    pub pending: PendingRequests<RespPending>,
    /// The state that decoding depends on while no command waits.
    state: Versioned<State>,
    mid_stream: bool,
    /// The map key read last in a reply to `HELLO`.
    expects: HelloField,
    /// The confirmation being read.
    confirms: Option<CommandKind>,
}

/// Effects of earlier commands and replies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact about the connection, independent of the others")]
struct State {
    replies: ReplyMode,
    /// A command other than setup was sent.
    begun: bool,
    subscriptions: SubscriptionCounts,
    /// The server speaks RESP3, so an array is never a push.
    resp3: bool,
    monitoring: bool,
    /// Arrays may be messages, or status lines output of `MONITOR`.
    irregular: bool,
    /// Other values are the stream from a primary to its replica.
    replicates: bool,
    /// Subscriptions that wait for `EXEC`, if any.
    queued: Option<Box<QueuedSubscriptions>>,
    server_name: Option<String>,
}

/// Pub/sub commands in a transaction: the array in the reply to `EXEC` has an element for each of them, followed by
/// extra values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct QueuedSubscriptions {
    /// Subscriptions by kind, assuming that all queued ones are new.
    counts: [u64; 3],
    /// Values beyond one per command.
    beyond: u64,
}

/// The mode set by `CLIENT REPLY`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum ReplyMode {
    #[default]
    On,
    Off,
    /// Off for the next command only.
    SkipOne,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HelloField {
    #[default]
    Nothing,
    ServerName,
    ServerVersion,
}

impl RespPairing {
    /// Has room for one command: most clients wait for each reply.
    pub fn new(mid_stream: bool) -> Self {
        let subscriptions = SubscriptionCounts::new(mid_stream);
        let state = Versioned::new(State { begun: mid_stream, subscriptions, ..State::default() });
        Self { pending: PendingRequests::with_room(), state, mid_stream, ..Self::default() }
    }

    /// Returns the version of the state; `None` while a command waits or unrequested values may arrive.
    #[inline]
    pub fn idle_state(&self) -> Option<u64> {
        let Self { pending, state, mid_stream: _, expects, confirms } = self;
        let waits = !pending.is_idle() || *expects != HelloField::Nothing || confirms.is_some();
        (!waits && !state.monitoring && !state.replicates).then(|| state.version() << 2 | pending.habit())
    }

    pub fn feed_state(&self, state: &mut impl Hasher) -> bool {
        self.mid_stream.hash(state);
        self.pending.habit().hash(state);
        self.state.hash(state);
        true
    }

    /// Returns whether the next value belongs to the stream of a primary.
    #[inline]
    pub fn replicates(&self) -> bool {
        self.state.replicates
    }

    pub fn request<R: Reader>(&mut self, command: &mut Command, out: &mut Out<'_, R>) -> DecodeStep<()> {
        let (op, kind) = (command.op, command.kind);
        let via = if command.inline { "inline" } else { "array" };
        let named = command.named();
        let class = if kind == CommandKind::ReplySkip { Class::Workload } else { named.class(self.state.begun) };
        let begun = self.state.begun || class == Class::Workload;
        if begun && !self.state.begun {
            // Clients pipeline their set-up, whatever they do later.
            self.pending.forget_habit();
        }
        self.state.put(|state| &mut state.begun, begun);
        let (name, statement) = command.name_and_statement();
        out.label_statement(op, Label { class, name, via, statement });
        let silent = self.is_silent(kind);
        let confirmed = matches!(kind, CommandKind::Subscribe(_) | CommandKind::Unsubscribe(_));
        if silent && !confirmed && kind != CommandKind::Replicate {
            if kind == CommandKind::ReplicaAck {
                let replicates = self.state.replicates || self.mid_stream;
                self.state.put(|state| &mut state.replicates, replicates);
            }
            out.close(op, Outcome::NoReply);
            return Ok(());
        }
        let due = match (kind, u64::from(command.arguments())) {
            (CommandKind::Unsubscribe(_), 0) => DueValues::All,
            (CommandKind::Subscribe(_) | CommandKind::Unsubscribe(_), channels) => DueValues::Values(channels.max(1)),
            _ => DueValues::Values(1),
        };
        let pending = RespPending { op, leaves: command.leaves(), kind, due, silent, begun: false };
        self.pending.push_within(pending, "more commands wait for replies than can be kept", out)
    }

    /// Returns whether the server sends no reply to a command, because of `CLIENT REPLY` or the command's kind.
    #[inline]
    fn is_silent(&mut self, kind: CommandKind) -> bool {
        let silent = match kind {
            CommandKind::ReplyOff | CommandKind::ReplySkip | CommandKind::ReplicaAck => true,
            CommandKind::ReplyOn => false,
            CommandKind::Reset => self.state.replies == ReplyMode::SkipOne,
            _ => self.state.replies != ReplyMode::On,
        };
        let replies = match (kind, self.state.replies) {
            (CommandKind::ReplyOn | CommandKind::Reset, _) => ReplyMode::On,
            (CommandKind::ReplyOff, _) | (_, ReplyMode::Off) => ReplyMode::Off,
            (CommandKind::ReplySkip, _) => ReplyMode::SkipOne,
            _ => ReplyMode::On,
        };
        self.state.put(|state| &mut state.replies, replies);
        silent
    }

    /// Returns the operation of the next value if its `first` byte is enough: an ordinary command waits, and only a
    /// value with a push type could intervene.
    #[inline]
    pub fn plain_target(&self, first: u8) -> Option<RespReplyTarget> {
        let is_plain =
            |front: &&RespPending| front.kind == CommandKind::Plain && first != b'>' && !self.state.irregular;
        let front = self.pending.front().filter(|front| self.pending.is_certain() && is_plain(front))?;
        Some(RespReplyTarget { op: front.op, leaves: front.leaves, consumer: LeafConsumer::Nobody, unpaired: None })
    }

    /// Returns the operation of the value at the start of `bytes`; `None` if more bytes are needed.
    pub fn target<R: Reader>(&mut self, bytes: &[u8], out: &mut Out<'_, R>) -> Option<RespReplyTarget> {
        let &first = bytes.first()?;
        let can_be_push = match first {
            b'>' => true,
            b'*' if self.state.resp3 => false,
            b'*' => self.state.subscriptions.any() || self.pending.front().is_none_or(RespPending::is_pubsub),
            _ => false,
        };
        let word = if can_be_push { pubsub::first_element(bytes)? } else { b"" };
        let confirmed = pubsub::confirmation(word);
        let is_message = pubsub::is_message(word);
        let is_push = is_message || first == b'>' && confirmed.is_none();
        let front = if is_push {
            self.pending.front()
        } else {
            self.pending.answer(out, |pending, out| out.close(pending.op, Outcome::Unanswered))
        };
        let is_paired = front.is_some();
        if is_message {
            self.state.update(|state| state.subscriptions.message());
        } else {
            self.settle(confirmed, out);
        }
        let front = self.pending.front().filter(|_| is_paired).copied();
        let answers = front.is_some_and(|front| front.is_answered_by(confirmed));
        // An unseen command may have asked for the confirmation.
        let has_unseen = !self.pending.is_certain() || out.has_unseen(Side::Response);
        let is_unasked = confirmed.is_some() && !answers && has_unseen;
        let push = match first {
            _ if is_unasked => false,
            b'>' => !answers,
            b'*' => is_message || confirmed.is_some() && !answers,
            b'+' if self.state.monitoring => front.is_none() || bytes.get(1)?.is_ascii_digit(),
            _ => false,
        };
        if push {
            let op = out.begin(Class::Background, if first == b'+' { "MONITOR" } else { "PUSH" }, "");
            let consumer = if confirmed.is_some() { LeafConsumer::Subscriptions } else { LeafConsumer::Nobody };
            return Some(RespReplyTarget { op, leaves: DATA, consumer, unpaired: Some(Outcome::Unsolicited) });
        }
        let Some(front) = front.filter(|_| !is_unasked) else {
            let (op, unpaired) = (out.orphan("RESPONSE"), Some(Outcome::NoReply));
            return Some(RespReplyTarget { op, leaves: DATA, consumer: LeafConsumer::Nobody, unpaired });
        };
        if front.kind == CommandKind::Exec && !front.begun && self.state.queued.is_some() {
            self.begin_exec(bytes)?;
        }
        let consumer = self.consumer_of(front.kind);
        let leaves = LeafAccounts { free: !can_be_push && consumer == LeafConsumer::Nobody, ..front.leaves };
        Some(RespReplyTarget { op: front.op, leaves, consumer, unpaired: None })
    }

    fn consumer_of(&self, kind: CommandKind) -> LeafConsumer {
        match kind {
            CommandKind::Hello | CommandKind::Info => LeafConsumer::Software,
            CommandKind::Subscribe(_) | CommandKind::Unsubscribe(_) => LeafConsumer::Subscriptions,
            CommandKind::Exec if self.state.queued.is_some() => LeafConsumer::Subscriptions,
            _ => LeafConsumer::Nobody,
        }
    }

    /// Closes commands at the front that turn out to be complete, given that the next value confirms `confirmed`.
    fn settle<R: Reader>(&mut self, confirmed: Option<CommandKind>, out: &mut Out<'_, R>) {
        while let Some(front) = self.pending.front() {
            let open_ended = front.silent || front.due == DueValues::All && front.begun;
            if !open_ended || confirmed == Some(front.kind) {
                return;
            }
            out.close(front.op, if front.begun { Outcome::Ok } else { Outcome::NoReply });
            self.pending.pop();
        }
    }

    /// Starts the reply to an `EXEC` with queued subscriptions. `None` if more bytes are needed.
    fn begin_exec(&mut self, bytes: &[u8]) -> Option<()> {
        let is_executed = bytes.first() == Some(&b'*') && *bytes.get(1)? != b'-';
        let beyond = self.state.queued.as_ref().map_or(0, |queued| queued.beyond);
        match self.pending.front_mut() {
            Some(front) if is_executed => front.due = DueValues::Values(1 + beyond),
            _ => self.state.put(|state| &mut state.queued, None),
        }
        Some(())
    }

    pub fn reply<R: Reader>(&mut self, target: RespReplyTarget, kind: u8, out: &mut Out<'_, R>) {
        if self.state.irregular || target.consumer != LeafConsumer::Nobody || target.unpaired.is_some() || kind == b'>'
        {
            self.confirms = None;
            self.state.update(|state| {
                state.resp3 |= kind == b'>';
                state.settle_irregular();
            });
        }
        let error = matches!(kind, b'-' | b'!');
        if let Some(outcome) = target.unpaired {
            if outcome == Outcome::NoReply {
                // The server replied, so it refused `CLIENT REPLY`.
                self.state.put(|state| &mut state.replies, ReplyMode::On);
            }
            out.close(target.op, outcome);
            return;
        }
        let Some(front) = self.pending.front_mut() else { return };
        front.begun = true;
        let kind_of_command = front.kind;
        let over = match (&mut front.due, kind_of_command) {
            _ if error => true,
            // Queued in a transaction.
            (_, CommandKind::Subscribe(_) | CommandKind::Unsubscribe(_)) if kind == b'+' => true,
            (DueValues::All, CommandKind::Unsubscribe(family)) => {
                self.state.subscriptions.none_left(family).unwrap_or(false)
            }
            (DueValues::All, _) => true,
            (DueValues::Values(left), _) => {
                *left = left.saturating_sub(1);
                *left == 0
            }
        };
        let due = front.due;
        if kind_of_command != CommandKind::Plain {
            self.state.update(|state| state.take_effect(kind_of_command, due, kind, error));
        }
        if over {
            out.close(target.op, if error { Outcome::Error } else { Outcome::Ok });
            self.pending.pop();
        }
        self.expects = HelloField::Nothing;
    }

    /// Reads a leaf of a reply; returns the server's name and version once both are known.
    pub fn read_leaf(&mut self, consumer: LeafConsumer, kind: u8, leaf: &[u8]) -> Option<String> {
        match consumer {
            LeafConsumer::Nobody => None,
            LeafConsumer::Software => self.read_software(leaf),
            LeafConsumer::Subscriptions => {
                self.read_confirmation(kind, leaf);
                None
            }
        }
    }

    /// Reads a leaf of a confirmation, or of a value that contains confirmations.
    fn read_confirmation(&mut self, kind: u8, leaf: &[u8]) {
        match (self.confirms, kind) {
            (None, b'$') => self.confirms = pubsub::confirmation(leaf),
            (Some(confirmed), b':') => {
                if let Some(left) = wire::number(leaf).and_then(|left| u64::try_from(left).ok()) {
                    self.state.update(|state| state.subscriptions.confirmed(confirmed, left));
                }
                self.confirms = None;
            }
            _ => {}
        }
    }

    /// Reads a leaf of a reply to `HELLO` or `INFO`.
    fn read_software(&mut self, leaf: &[u8]) -> Option<String> {
        match std::mem::take(&mut self.expects) {
            HelloField::ServerName => self.state.put(|state| &mut state.server_name, Some(title(leaf))),
            HelloField::ServerVersion => {
                let name = self.state.update(|state| state.server_name.take()).unwrap_or_else(|| "Redis".to_owned());
                return Some(format!("{name} {}", String::from_utf8_lossy(leaf)));
            }
            HelloField::Nothing if leaf == b"server" => self.expects = HelloField::ServerName,
            HelloField::Nothing if leaf == b"version" => self.expects = HelloField::ServerVersion,
            HelloField::Nothing => return version_line(leaf),
        }
        None
    }

    /// Returns the operation if bytes that start with `first` belong to a snapshot, or come while the server prepares
    /// one.
    pub fn awaits_snapshot(&self, first: u8) -> Option<OpId> {
        let front = self.pending.front().filter(|front| front.kind == CommandKind::Replicate)?;
        matches!(first, b'$' | b'\n').then_some(front.op)
    }

    /// Starts the snapshot, which answers the command that requested it.
    pub fn begin_snapshot<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        if let Some(front) = self.pending.pop() {
            out.close(front.op, Outcome::Ok);
        }
        self.state.put(|state| &mut state.replicates, true);
    }

    /// Bytes of `side` were lost, with the rest of the reply to `current`.
    pub fn lost<R: Reader>(&mut self, side: Side, current: Option<RespReplyTarget>, out: &mut Out<'_, R>) {
        if let Some(RespReplyTarget { op, unpaired: Some(outcome), .. }) = current {
            out.close(op, outcome);
        }
        let begun = current.filter(|current| current.unpaired.is_none()).map(|current| current.op);
        self.pending.lose_answer(side, begun, out);
        if side == Side::Response {
            self.state.update(|state| {
                state.subscriptions.lost();
                state.queued = None;
            });
        }
    }
}

impl State {
    /// Applies the effect of `command`, which still waits for `due`, when a value of type `kind` answers it.
    fn take_effect(&mut self, command: CommandKind, due: DueValues, kind: u8, error: bool) {
        match command {
            // The transaction has ended.
            CommandKind::Exec if error || due == DueValues::Values(0) => self.queued = None,
            CommandKind::Discard => self.queued = None,
            _ if error => {}
            CommandKind::Subscribe(family) | CommandKind::Unsubscribe(family) if kind == b'+' => {
                self.queue(family, matches!(command, CommandKind::Subscribe(_)), due);
            }
            CommandKind::Hello => self.resp3 = kind == b'%',
            CommandKind::Monitor if kind == b'+' => self.monitoring = true,
            CommandKind::Replicate => self.replicates = true,
            CommandKind::Reset => {
                (self.subscriptions, self.queued) = (SubscriptionCounts::new(false), None);
                (self.monitoring, self.resp3) = (false, false);
            }
            _ => {}
        }
        self.settle_irregular();
    }

    fn settle_irregular(&mut self) {
        self.irregular = self.monitoring || self.subscriptions.any() && !self.resp3;
    }

    /// Queues a pub/sub command until `EXEC`.
    fn queue(&mut self, family: SubscriptionKind, subscribes: bool, due: DueValues) {
        let now = [SubscriptionKind::Channels, SubscriptionKind::Patterns, SubscriptionKind::Shards]
            .map(|family| self.subscriptions.count(family));
        let queued = self.queued.get_or_insert_with(|| Box::new(QueuedSubscriptions { counts: now, beyond: 0 }));
        let count = &mut queued.counts[family as usize];
        let values = match due {
            DueValues::Values(channels) => channels,
            DueValues::All => (*count).max(1),
        };
        *count = if subscribes { count.saturating_add(values) } else { count.saturating_sub(values) };
        queued.beyond = queued.beyond.saturating_add(values - 1);
    }
}

impl PendingRequest for RespPending {
    #[inline]
    fn op(&self) -> OpId {
        self.op
    }
}

impl RespPending {
    fn is_pubsub(&self) -> bool {
        matches!(self.kind, CommandKind::Subscribe(_) | CommandKind::Unsubscribe(_))
            || self.kind == CommandKind::Exec && self.begun
    }

    /// Returns whether a value that confirms `confirmed` belongs to this reply.
    fn is_answered_by(&self, confirmed: Option<CommandKind>) -> bool {
        confirmed.is_some_and(|kind| self.kind == kind || self.kind == CommandKind::Exec && self.begun)
    }
}

/// Returns the version in a reply to `INFO`.
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
