//! Pairs replies with requests, and names and classifies operations.

use super::decode::MongoMessage;
use super::facts::MongoFacts;
use super::roles::DocumentRole;
use super::walk::BodyWalk;
use super::wire::{EXHAUST_ALLOWED, Header, MORE_TO_COME, MongoOpcode, QUERY_EXHAUST};
use crate::{limits, pattern};
use overhead_decode::{Label, OpId, Out, Reader, Versioned};
use overhead_model::{Class, Outcome, Side};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

/// Commands that ask about the server; shells and drivers send them before the application's.
const INTROSPECTION: &str = "buildInfo buildinfo whatsmyuri getCmdLineOpts getLog getParameter getFreeMonitoringStatus \
    connectionStatus hostInfo atlasVersion features";

/// A request without its complete reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct MongoPending {
    pub op: OpId,
    pub reply: MongoReplyKind,
    /// `OP_QUERY` with the exhaust flag: replies follow until the cursor is closed.
    pub exhaust: bool,
    /// Waits for the next reply of a stream, under the id of the last one.
    pub streams: bool,
    failed: bool,
}

/// How the request determines the reading of its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MongoReplyKind {
    Command,
    /// The documents of an `OP_REPLY` are user data.
    Documents,
    /// The documents in the cursor are outcomes.
    BulkWrite,
    /// `version` is the server's.
    BuildInfo,
}

impl MongoReplyKind {
    /// Returns the role of the documents in an `OP_REPLY`, and in a cursor.
    pub fn roles(self) -> (DocumentRole, DocumentRole) {
        match self {
            Self::Documents => (DocumentRole::Document, DocumentRole::Document),
            Self::BulkWrite => (DocumentRole::Reply, DocumentRole::Status),
            Self::Command | Self::BuildInfo => (DocumentRole::Reply, DocumentRole::Document),
        }
    }
}

#[derive(Debug)]
pub(super) struct MongoPairing {
    /// By `requestID`, or by the id of the last reply of a stream.
    waiting: BTreeMap<i32, MongoPending>,
    /// The state that decoding depends on while no request waits.
    state: Versioned<State>,
}

/// Facts about the connection that affect later messages.
#[derive(Clone, Copy, Debug, Default, Hash)]
#[allow(clippy::struct_excessive_bools, reason = "facts that do not exclude each other")]
struct State {
    /// A `hello` was seen.
    greeted: bool,
    /// The application has sent a command.
    working: bool,
    /// The connection monitors the server: it has sent a streaming `hello`.
    monitor: bool,
    server_named: bool,
    client_named: bool,
}

impl MongoPairing {
    pub fn new(mid_stream: bool) -> Self {
        let state = State { greeted: mid_stream, working: mid_stream, ..State::default() };
        Self { waiting: BTreeMap::new(), state: Versioned::new(state) }
    }

    /// Returns the version of the state; `None` while a request waits.
    pub fn idle_state(&self) -> Option<u64> {
        let Self { waiting, state } = self;
        waiting.is_empty().then(|| state.version())
    }

    pub fn feed_state(&self, state: &mut impl Hasher) -> bool {
        self.state.hash(state);
        true
    }

    /// Marks the state as changed because the current message must not be reused from the memo: its ids are not paired
    /// like a request and its reply, or it depends on other connections.
    pub fn differ(&mut self) {
        self.state.change(|_| {});
    }

    /// Registers `waiting` as answered by a message with this `responseTo`, replacing an older request with the same
    /// id. If too many wait, all are closed first.
    fn wait<R: Reader>(&mut self, out: &mut Out<'_, R>, answered_as: i32, waiting: MongoPending) {
        if self.waiting.len() >= limits::OUTSTANDING {
            self.abandon(out);
        }
        if let Some(forgotten) = self.waiting.insert(answered_as, waiting) {
            self.differ();
            out.close(forgotten.op, Outcome::Unanswered);
        }
    }

    /// Closes all waiting requests: no message of the server is captured.
    pub fn abandon<R: Reader>(&mut self, out: &mut Out<'_, R>) {
        for (_, forgotten) in std::mem::take(&mut self.waiting) {
            out.close(forgotten.op, Outcome::Unanswered);
        }
    }

    pub fn held(&self) -> usize {
        self.waiting.len() * 2 * size_of::<(i32, MongoPending)>()
    }

    /// Removes and returns the request that a server message answers.
    pub fn answered(&mut self, header: &Header) -> Option<MongoPending> {
        let waiting = self.waiting.remove(&header.response_to);
        if waiting.is_none() {
            self.differ();
        }
        waiting
    }

    pub fn request<R: Reader>(&mut self, message: &MongoMessage, walk: &BodyWalk, out: &mut Out<'_, R>) {
        let (&MongoMessage { header, op, .. }, &BodyWalk { opcode, ref facts, .. }) = (message, walk);
        let statement = &walk.shape.statement(facts);
        let class = self.class(opcode, facts);
        let name = match facts.name.as_str() {
            "" => "(no command)",
            name if is_command(name) => name,
            _ => "(unknown)",
        };
        out.label_statement(op, Label { class, name, via: header.opcode.name(), statement });
        self.introduce(out, Side::Request, facts);
        if !is_answered(opcode, facts) {
            out.close(op, Outcome::NoReply);
            return;
        }
        let reply = match name {
            _ if facts.documents || opcode == MongoOpcode::GetMore => MongoReplyKind::Documents,
            "bulkWrite" => MongoReplyKind::BulkWrite,
            "buildInfo" | "buildinfo" => MongoReplyKind::BuildInfo,
            _ => MongoReplyKind::Command,
        };
        let waiting = MongoPending {
            op,
            reply,
            exhaust: opcode == MongoOpcode::Query && facts.flags & QUERY_EXHAUST > 0,
            streams: false,
            failed: false,
        };
        self.wait(out, header.request_id, waiting);
    }

    /// Handles a complete reply to `waiting`.
    pub fn reply<R: Reader>(
        &mut self,
        mut waiting: MongoPending,
        header: &Header,
        &BodyWalk { opcode, ref facts, .. }: &BodyWalk,
        out: &mut Out<'_, R>,
    ) {
        waiting.failed |= facts.failed;
        if waiting.reply == MongoReplyKind::BuildInfo || facts.wire_version.is_some() {
            self.introduce(out, Side::Response, facts);
        }
        let more = match opcode {
            MongoOpcode::Msg => facts.flags & MORE_TO_COME > 0,
            MongoOpcode::Reply => waiting.exhaust && facts.cursor_open,
            _ => false,
        };
        if more {
            // The next reply of the stream answers this one.
            waiting.streams = true;
            self.wait(out, header.request_id, waiting);
        } else {
            let failed = waiting.failed;
            out.close(waiting.op, if failed { Outcome::Error } else { Outcome::Ok });
        }
    }

    fn class(&mut self, opcode: MongoOpcode, facts: &MongoFacts) -> Class {
        let name = facts.name.as_str();
        match name {
            "hello" | "isMaster" | "ismaster" => self.hello(opcode, facts),
            "saslStart" | "saslContinue" | "authenticate" | "getnonce" | "logout" | "endSessions" => Class::Setup,
            "refreshSessions" => Class::Background,
            "ping" if self.state.monitor => Class::Background,
            "ping" => Class::Workload,
            _ if facts.oplog || name.starts_with("replSet") || name.starts_with('_') => Class::Background,
            _ if !self.state.working && INTROSPECTION.split(' ').any(|word| word == name) => Class::Setup,
            _ => {
                self.state.put(|state| &mut state.working, true);
                Class::Workload
            }
        }
    }

    fn hello(&mut self, opcode: MongoOpcode, facts: &MongoFacts) -> Class {
        let streaming = facts.streaming || (opcode == MongoOpcode::Msg && facts.flags & EXHAUST_ALLOWED > 0);
        let State { greeted, monitor, .. } = *self.state;
        self.state.put(|state| &mut state.monitor, monitor || streaming);
        self.state.put(|state| &mut state.greeted, true);
        if greeted || streaming { Class::Background } else { Class::Setup }
    }

    /// Reports the software on `side`, as far as known.
    fn introduce<R: Reader>(&mut self, out: &mut Out<'_, R>, side: Side, facts: &MongoFacts) {
        match side {
            Side::Request if !self.state.client_named && !facts.driver.is_empty() => {
                self.state.put(|state| &mut state.client_named, true);
                let name = format!("{} {}", facts.driver, facts.driver_version);
                out.software(side, name.trim_end());
            }
            Side::Response if !facts.version.is_empty() => {
                self.state.put(|state| &mut state.server_named, true);
                let name = match facts.ferret_version.as_str() {
                    "" => format!("MongoDB {}", facts.version),
                    version => format!("FerretDB {version}"),
                };
                out.software(side, &name);
            }
            Side::Response if !self.state.server_named => {
                if let Some(version) = facts.wire_version {
                    self.state.put(|state| &mut state.server_named, true);
                    out.software(side, &format!("MongoDB wire version {version}"));
                }
            }
            _ => {}
        }
    }
}

/// Returns whether a command's name may be shown. Commands between the servers of a sharded cluster have long names.
fn is_command(name: &str) -> bool {
    let prefixes = ["_shardsvr", "_configsvr"];
    let rest = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
    pattern::is_command(rest)
}

fn is_answered(opcode: MongoOpcode, facts: &MongoFacts) -> bool {
    match opcode {
        MongoOpcode::Msg => facts.flags & MORE_TO_COME == 0,
        MongoOpcode::Insert | MongoOpcode::Update | MongoOpcode::Delete | MongoOpcode::KillCursors => false,
        _ => true,
    }
}
