//! Messages to operations: which response answers which request, and what an operation is called.
//!
//! A response carries the stream id of its request; a client reuses an id once it was answered. Everything that a
//! message needs to know of earlier ones lives here: prepared statements with the types of their bind
//! markers and results, what was negotiated in the handshake, the keyspace in use.

use super::super::Shared;
use super::statement::{self, CqlStatement};
use super::types::CqlTypeTable;
use super::wire::{Header, opcode};
use crate::limits;
use crate::statement::Statement as Asked;
use overhead_decode::FastMap;
use overhead_decode::{Malformed, OpId, Versioned};
use overhead_model::Class;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Entries of types that all prepared statements of a connection may hold together, about 12 bytes each.
const TYPE_ENTRIES: usize = 1 << 20;

/// Prepared statements with which connections are compared by what they remember.
const FED_STATEMENTS: usize = 64;

/// Bytes of such an entry, and of a statement without any, about.
const TYPE_ENTRY: usize = 12;
const STATEMENT: usize = 256;

/// What a request was, for its name and for the response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CqlExchange {
    pub op: OpId,
    /// Kind of the request; that of the response where none was seen.
    pub opcode: u8,
    pub name: &'static str,
    pub via: &'static str,
    pub class: Class,
    /// What is asked for, or prepared, without the values in it.
    pub asked: Asked,
    /// The prepared statement that is executed.
    pub statement: Option<CqlStatementRef>,
    /// Class of what a `PREPARE` prepares.
    prepares: Option<(&'static str, Class)>,
    /// True where name and class are a guess that the response may better.
    pub guessed: bool,
    /// How many losses of responses there had been when the request was sent.
    losses: u32,
    /// Its request was seen, and finds its response by the stream id.
    pub is_paired: bool,
}

/// What a server calls a prepared statement and, where it does, the types of its result.
#[derive(Clone, Copy, Debug)]
pub(super) struct CqlPreparedIds<'a> {
    pub statement: &'a [u8],
    /// Empty where there is none.
    pub metadata: &'a [u8],
}

/// A prepared statement; a number that is never used twice on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CqlStatementRef(u64);

/// A prepared statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct CqlPreparedStatement {
    pub id: Box<[u8]>,
    /// What the server calls the types of its result; empty where it does not.
    metadata_id: Box<[u8]>,
    name: &'static str,
    class: Class,
    guessed: bool,
    pub text: Asked,
    pub bind: CqlTypeTable,
    pub result: CqlTypeTable,
}

impl CqlPreparedStatement {
    /// Entries of types that it holds, with the room of as many for its text.
    pub fn weight(&self) -> usize {
        self.bind.weight() + self.result.weight() + self.text.held().div_ceil(TYPE_ENTRY)
    }

    /// Returns it with a result of other types, which the server calls so.
    fn with_result(&self, metadata_id: &[u8], result: CqlTypeTable) -> Self {
        Self { metadata_id: metadata_id.into(), result, ..self.clone() }
    }
}

/// Requests that wait on one stream id; more than one only where a client breaks the rules or a response was lost.
#[derive(Debug, Default)]
struct CqlStreamQueue {
    first: Option<CqlExchange>,
    more: VecDeque<CqlExchange>,
}

/// How bodies are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CqlCompression {
    /// The handshake was not seen.
    NotSeen,
    None,
    Lz4,
    Snappy,
    Other,
}

/// What a connection's client has sent, or may have before the capture began.
#[derive(Debug, Hash)]
struct CqlClientHistory {
    startup: bool,
    /// A statement other than `USE`.
    statement: bool,
}

/// What client and server agreed on in the handshake beyond the protocol of Cassandra.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct CqlExtensions {
    /// The server is `ScyllaDB`.
    pub scylla: bool,
    /// Prepared statements carry a metadata id below version 5 too (`SCYLLA_USE_METADATA_ID`).
    pub metadata_ids: bool,
    /// `EXECUTE` ends in a byte that names the tablet version held by the driver.
    pub tablet_versions: bool,
    /// The code that this server uses for its rate-limit error.
    pub rate_limit_code: Option<u32>,
}

/// What is known of a connection.
#[derive(Debug)]
pub(super) struct Session {
    waiting: FastMap<i16, CqlStreamQueue>,
    outstanding: usize,
    losses: u32,
    /// What other connections have prepared, and what all may decompress.
    pub shared: Shared,
    pub memory: Versioned<CqlSessionMemory>,
    /// Types of the current rows; kept for its memory.
    pub row_types: CqlTypeTable,
}

/// What a connection remembers when no request waits.
#[derive(Debug)]
pub(super) struct CqlSessionMemory {
    prepared: VecDeque<Arc<CqlPreparedStatement>>,
    /// Number of the first of `prepared`.
    first_prepared: u64,
    prepared_ids: FastMap<Box<[u8]>, u64>,
    type_entries: usize,
    sent: CqlClientHistory,
    /// The keyspace in use is the server's own.
    in_system_keyspace: bool,
    pub compression: CqlCompression,
    pub extensions: CqlExtensions,
    /// Bodies were compressed. What may be decompressed is bounded for all connections together.
    pub compresses: bool,
    /// A statement was executed that no connection had prepared.
    missed_statement: bool,
}

impl Session {
    pub fn new(mid_stream: bool, shared: Shared) -> Self {
        Self {
            waiting: FastMap::default(),
            outstanding: 0,
            losses: 0,
            shared,
            memory: Versioned::new(CqlSessionMemory::new(mid_stream)),
            row_types: CqlTypeTable::default(),
        }
    }

    /// Returns the number of what is remembered while no request waits: see [`crate::decode::Decoder::quiet`].
    pub fn quiet(&self) -> Option<u64> {
        // All fields are named, so that a further one cannot be left out unseen. Losses count for requests that wait, and
        // the types of rows are read before they are used.
        let Self { waiting: _, outstanding, losses: _, shared: _, memory, row_types: _ } = self;
        // Statements that it has found are its own. One that it has not may be prepared by another connection at any moment,
        // also between a request and its response.
        let depends_on_others = memory.compresses || memory.missed_statement;
        (*outstanding == 0 && !depends_on_others).then(|| memory.version())
    }

    /// Feeds what is remembered; false where that are many statements.
    pub fn feed_state(&self, state: &mut impl Hasher) -> bool {
        // What is left out follows from what is not, or is not so while there is a number.
        let CqlSessionMemory { prepared, first_prepared, prepared_ids: _, type_entries: _, sent, .. } = &*self.memory;
        let CqlSessionMemory {
            in_system_keyspace, compression, extensions, compresses: _, missed_statement: _, ..
        } = &*self.memory;
        let is_little = prepared.len() <= FED_STATEMENTS;
        if is_little {
            (first_prepared, sent, in_system_keyspace, compression, extensions).hash(state);
            prepared.hash(state);
        }
        is_little
    }

    /// Something was answered, or asked, that tells nothing for the next time: the ids of requests are not what they should be.
    pub fn mark_irregular(&mut self) {
        self.memory.change(|_| {});
    }

    /// Returns the operation of a request, by its header; the body says more.
    pub fn open_exchange(&mut self, op: OpId, header: &Header) -> CqlExchange {
        let class = match header.opcode {
            opcode::OPTIONS if self.memory.sent.startup => Class::Background,
            opcode::REGISTER => Class::Background,
            opcode::QUERY | opcode::EXECUTE | opcode::BATCH => Class::Workload,
            _ => Class::Setup,
        };
        if header.opcode == opcode::STARTUP {
            self.memory.put(|memory| &mut memory.sent.startup, true);
        }
        CqlExchange {
            op,
            opcode: header.opcode,
            name: header.name,
            via: match header.opcode {
                opcode::QUERY => "query",
                opcode::EXECUTE => "prepared",
                opcode::BATCH => "batch",
                _ => "",
            },
            class,
            asked: Asked::None,
            statement: None,
            prepares: None,
            guessed: false,
            losses: self.losses,
            is_paired: header.stream >= 0,
        }
    }

    /// Returns the operation of a response that answers nothing: an event, or one whose request was not captured.
    pub fn unsolicited(&self, op: OpId, header: &Header) -> CqlExchange {
        let event = header.opcode == opcode::EVENT;
        CqlExchange {
            op,
            opcode: header.opcode,
            name: header.name,
            via: "",
            class: if event { Class::Background } else { Class::Unmatched },
            asked: Asked::None,
            statement: None,
            prepares: None,
            guessed: false,
            losses: self.losses,
            is_paired: false,
        }
    }

    /// The request waits for its response.
    pub fn enqueue(&mut self, stream: i16, exchange: CqlExchange) -> Result<(), Malformed> {
        if self.outstanding >= limits::OUTSTANDING {
            return Err(Malformed("more requests without a response than any client sends"));
        }
        let waiting = self.waiting.entry(stream).or_default();
        // An id is used again after the response only. Where one was lost, this is how it shows.
        if waiting.first.as_ref().is_some_and(|first| first.losses != self.losses) {
            self.outstanding -= 1 + waiting.more.len();
            *waiting = CqlStreamQueue::default();
        }
        if waiting.first.is_none() {
            waiting.first = Some(exchange);
        } else {
            waiting.more.push_back(exchange);
            self.memory.change(|_| {});
        }
        self.outstanding += 1;
        Ok(())
    }

    /// Returns the request that a response on this stream id answers.
    pub fn take_answered(&mut self, stream: i16) -> Option<CqlExchange> {
        let waiting = self.waiting.get_mut(&stream)?;
        let exchange = waiting.first.take()?;
        waiting.first = waiting.more.pop_front();
        self.outstanding -= 1;
        Some(exchange)
    }

    /// Responses were lost: a request that still waits may have been answered.
    pub fn lost_responses(&mut self) {
        self.losses = self.losses.wrapping_add(1);
    }

    /// Returns the operations of all requests that wait, in order: they wait no longer.
    pub fn abandon(&mut self) -> Vec<OpId> {
        self.outstanding = 0;
        let waiting = std::mem::take(&mut self.waiting).into_values();
        let mut ops: Vec<_> = waiting.flat_map(|waiting| waiting.first.into_iter().chain(waiting.more)).collect();
        ops.sort_unstable_by_key(|exchange| exchange.op);
        ops.into_iter().map(|exchange| exchange.op).collect()
    }

    /// Returns about how many bytes of memory it holds.
    pub fn held(&self) -> usize {
        self.outstanding.max(self.waiting.len()) * (size_of::<CqlExchange>() + size_of::<CqlStreamQueue>())
            + self.memory.prepared.len() * STATEMENT
            + self.memory.type_entries * TYPE_ENTRY
    }

    /// Names a request by its text.
    pub fn name_by_text(&mut self, exchange: &mut CqlExchange, text: &[u8]) {
        let (name, class) = self.classify(text);
        exchange.name = name.unwrap_or(exchange.name);
        exchange.class = class;
        if name == Some("USE") && !self.memory.sent.statement {
            exchange.class = Class::Setup;
        } else if class == Class::Workload {
            self.mark_used();
        }
    }

    /// Remembers what a `PREPARE` prepares.
    pub fn name_prepare(&self, exchange: &mut CqlExchange, text: &[u8]) {
        let (name, class) = self.classify(text);
        exchange.prepares = Some((name.unwrap_or("EXECUTE"), class));
    }

    fn classify(&self, text: &[u8]) -> (Option<&'static str>, Class) {
        let statement = CqlStatement::of(text);
        let tables = matches!(statement.verb, Some("SELECT" | "INSERT" | "UPDATE" | "DELETE"));
        let system = tables && statement.system.unwrap_or(self.memory.in_system_keyspace);
        (statement.verb, if system { Class::Background } else { Class::Workload })
    }

    /// Names an `EXECUTE` by its statement.
    pub fn name_by_id(&mut self, exchange: &mut CqlExchange, id: &[u8]) {
        exchange.statement = self.find(id);
        if let Some(prepared) = exchange.statement.and_then(|statement| self.prepared(statement)) {
            let CqlPreparedStatement { name, class, guessed, ref text, .. } = *prepared;
            (exchange.name, exchange.class, exchange.guessed) = (name, class, guessed);
            exchange.asked = text.clone();
        } else {
            exchange.guessed = true;
            exchange.asked = Asked::PreparedBefore;
        }
        if exchange.class == Class::Workload {
            self.mark_used();
        }
    }

    /// The application has sent a statement.
    pub fn mark_used(&mut self) {
        self.memory.put(|memory| &mut memory.sent.statement, true);
    }

    /// Returns the statement with this id, as prepared on this connection, or else on another.
    pub fn find(&mut self, id: &[u8]) -> Option<CqlStatementRef> {
        let own = self.memory.find(id);
        if own.is_some() {
            return own;
        }
        let Some(statement) = self.shared.statements.find(id) else {
            self.memory.put(|memory| &mut memory.missed_statement, true);
            return None;
        };
        self.memory.change(|memory| memory.keep(statement));
        self.memory.find(id)
    }

    pub fn prepared(&self, statement: CqlStatementRef) -> Option<&CqlPreparedStatement> {
        self.memory.prepared.get(self.memory.index(statement)?).map(Arc::as_ref)
    }

    /// Remembers a statement as its `PREPARE` was answered. `rows` says whether it gives rows of a keyspace of the server, where
    /// that is all that is known of it.
    pub fn remember(
        &mut self,
        exchange: &CqlExchange,
        ids: CqlPreparedIds<'_>,
        bind: CqlTypeTable,
        result: CqlTypeTable,
        rows: Option<bool>,
    ) {
        let (name, class) = exchange.prepares.unwrap_or(match rows {
            Some(system) => ("SELECT", if system { Class::Background } else { Class::Workload }),
            None => ("EXECUTE", Class::Workload),
        });
        let text = if exchange.prepares.is_some() { exchange.asked.clone() } else { Asked::PreparedBefore };
        let (id, metadata_id) = (ids.statement.into(), ids.metadata.into());
        let guessed = name == "EXECUTE";
        let prepared = Arc::new(CqlPreparedStatement { id, metadata_id, name, class, guessed, text, bind, result });
        // What is shared may have become otherwise since, so that this is new each time.
        self.shared.statements.publish(&prepared);
        self.memory.change(|memory| memory.keep(prepared));
    }

    /// A statement is executed by a client that knows the types of its result by this id. Where they are not those that were seen
    /// on this connection, a response on another has told them, or nobody has.
    pub fn adopt_result_types(&mut self, statement: CqlStatementRef, metadata_id: &[u8]) {
        let Some(prepared) = self.prepared(statement).filter(|known| *known.metadata_id != *metadata_id) else {
            return;
        };
        let told = self.shared.statements.find(&prepared.id).filter(|told| *told.metadata_id == *metadata_id);
        let is_told = told.is_some();
        let agreed = told.unwrap_or_else(|| Arc::new(prepared.with_result(metadata_id, CqlTypeTable::default())));
        self.memory.change(|memory| {
            memory.missed_statement |= !is_told;
            memory.keep(agreed);
        });
    }

    /// The types of the rows of a prepared statement are others than when it was prepared, and are called so.
    pub fn result_changed(&mut self, statement: CqlStatementRef, metadata_id: &[u8], result: &CqlTypeTable) {
        let Some(prepared) = self.prepared(statement) else { return };
        let changed = Arc::new(prepared.with_result(metadata_id, result.clone()));
        self.shared.statements.publish(&changed);
        self.memory.change(|memory| memory.keep(changed));
    }

    /// Every unqualified table name refers to this keyspace from now on.
    pub fn use_keyspace(&mut self, name: &[u8]) {
        self.memory.put(|memory| &mut memory.in_system_keyspace, statement::is_system_keyspace(name));
    }
}

impl CqlSessionMemory {
    fn new(mid_stream: bool) -> Self {
        Self {
            prepared: VecDeque::new(),
            first_prepared: 0,
            prepared_ids: FastMap::default(),
            type_entries: 0,
            sent: CqlClientHistory { startup: mid_stream, statement: mid_stream },
            in_system_keyspace: false,
            compression: if mid_stream { CqlCompression::NotSeen } else { CqlCompression::None },
            extensions: CqlExtensions::default(),
            compresses: false,
            missed_statement: false,
        }
    }

    fn find(&self, id: &[u8]) -> Option<CqlStatementRef> {
        self.prepared_ids.get(id).copied().map(CqlStatementRef)
    }

    fn index(&self, statement: CqlStatementRef) -> Option<usize> {
        usize::try_from(statement.0.checked_sub(self.first_prepared)?).ok()
    }

    /// Keeps a statement in place of an earlier one with its id.
    fn keep(&mut self, prepared: Arc<CqlPreparedStatement>) {
        self.type_entries += prepared.weight();
        let known = self.find(&prepared.id).and_then(|number| self.index(number));
        if let Some(slot) = known.and_then(|known| self.prepared.get_mut(known)) {
            self.type_entries -= slot.weight();
            *slot = prepared;
        } else {
            let number = self.first_prepared + self.prepared.len() as u64;
            self.prepared_ids.insert(prepared.id.clone(), number);
            self.prepared.push_back(prepared);
        }
        while self.prepared.len() > limits::STATEMENTS || self.type_entries > TYPE_ENTRIES {
            let Some(oldest) = self.prepared.pop_front() else {
                break;
            };
            self.first_prepared += 1;
            self.type_entries -= oldest.weight();
            self.prepared_ids.remove(&oldest.id);
        }
    }
}
