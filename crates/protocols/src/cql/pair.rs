//! Pairs responses with requests and names operations.
//!
//! A response has the stream id of its request; a client reuses an id once it is answered. This module also keeps the
//! state that later messages depend on: prepared statements with their types, the options of the handshake, the current
//! keyspace.

use super::super::SharedContext;
use super::statement::CqlStatement;
use super::types::{CqlType, CqlTypeTable};
use super::wire::{Header, opcode};
use crate::limits;
use crate::statement::{StatementDialect, StatementText as Asked};
use overhead_decode::{DecodeStep, FastMap, Malformed, OpId, Versioned};
use overhead_model::{Class, Side};
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Types in all prepared statements of a connection.
const TYPES: usize = 1 << 19;

/// Most prepared statements in a state that is compared between connections.
const FED_STATEMENTS: usize = 64;

/// Bytes of a type, and approximate bytes of a statement without any.
const TYPE: usize = size_of::<CqlType>();
const STATEMENT: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CqlExchange {
    pub op: OpId,
    /// Of the request; of the response if no request was captured.
    pub opcode: u8,
    pub name: &'static str,
    pub via: &'static str,
    pub class: Class,
    /// The statement executed or prepared, without literals.
    pub asked: Asked,
    pub statement: Option<CqlStatementRef>,
    /// The id of a statement that was prepared before the capture.
    pub unseen: Option<Box<[u8]>>,
    /// Name and class of the statement in a `PREPARE`.
    pub prepares: Option<(&'static str, Class)>,
    /// Name and class are guesses that the response may correct.
    pub guessed: bool,
    /// Losses of requests and of responses before the request.
    losses: [u32; 2],
    /// The request was captured and its stream id finds the response.
    pub is_paired: bool,
}

/// Number of a prepared statement, never reused on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CqlStatementRef(u64);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct CqlPreparedStatement {
    pub id: Box<[u8]>,
    /// The server's id for the types of its result; empty if absent.
    metadata_id: Box<[u8]>,
    name: &'static str,
    class: Class,
    guessed: bool,
    pub text: Asked,
    pub bind: CqlTypeTable,
    pub result: CqlTypeTable,
}

impl CqlPreparedStatement {
    /// Returns the number of types held; the text counts as types of the same size.
    pub fn weight(&self) -> usize {
        self.bind.nodes + self.result.nodes + self.text.held().div_ceil(TYPE)
    }

    fn with_result(&self, metadata_id: &[u8], result: CqlTypeTable) -> Self {
        Self { metadata_id: metadata_id.into(), result, ..self.clone() }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum CqlCompression {
    /// The handshake was not captured.
    NotSeen,
    /// None, or one that is not known.
    #[default]
    None,
    Lz4,
    Snappy,
}

/// Extensions to Cassandra's protocol, agreed in the handshake.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct CqlExtensions {
    pub scylla: bool,
    /// Prepared statements have a metadata id below version 5 too (`SCYLLA_USE_METADATA_ID`).
    pub metadata_ids: bool,
    /// `EXECUTE` ends with a byte for the driver's tablet version.
    pub tablet_versions: bool,
    /// Code of the server's rate-limit error.
    pub rate_limit_code: Option<u32>,
}

#[derive(Debug, Default)]
pub(super) struct Session {
    waiting: FastMap<u32, VecDeque<CqlExchange>>,
    outstanding: usize,
    /// By side.
    losses: [u32; 2],
    pub shared: SharedContext,
    pub memory: Versioned<CqlSessionMemory>,
    /// Reused for the types of each message's rows.
    pub row_types: CqlTypeTable,
}

/// State of a connection between requests.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "facts that do not exclude each other")]
pub(super) struct CqlSessionMemory {
    prepared: VecDeque<Arc<CqlPreparedStatement>>,
    /// Number of the first of `prepared`.
    first_prepared: u64,
    prepared_ids: FastMap<Box<[u8]>, u64>,
    types: usize,
    /// The client has sent, or may have sent before the capture, a `STARTUP`.
    has_started: bool,
    /// The same for a statement other than `USE`.
    has_asked: bool,
    /// The current keyspace belongs to the server.
    pub in_system_keyspace: bool,
    pub compression: CqlCompression,
    pub extensions: CqlExtensions,
    /// Bodies were compressed. All connections share one limit on decompression.
    pub compresses: bool,
    /// Executed a statement that no connection had prepared.
    missed_statement: bool,
}

impl Session {
    pub fn new(mid_stream: bool, shared: SharedContext) -> Self {
        Self { shared, memory: Versioned::new(CqlSessionMemory::new(mid_stream)), ..Self::default() }
    }

    /// Returns the version of the state between requests; `None` if it depends on other connections.
    pub fn idle_state(&self) -> Option<u64> {
        // All fields are named, so that a new one cannot be missed. Losses matter only to waiting requests; row types
        // are set before use.
        let Self { waiting: _, outstanding, losses: _, shared: _, memory, row_types: _ } = self;
        // Another connection may prepare a missing statement at any time, even between a request and its response.
        let depends_on_others = memory.compresses || memory.missed_statement;
        (*outstanding == 0 && !depends_on_others).then(|| memory.version())
    }

    /// Hashes the state; returns false if it has too many statements.
    pub fn feed_state(&self, state: &mut impl Hasher) -> bool {
        // All fields are named, so that a new one cannot be missed. The ignored ones follow from the others, or are constant
        // while the state has a version.
        let CqlSessionMemory {
            prepared,
            first_prepared,
            prepared_ids: _,
            types: _,
            has_started,
            has_asked,
            in_system_keyspace,
            compression,
            extensions,
            compresses: _,
            missed_statement: _,
        } = &*self.memory;
        let is_little = prepared.len() <= FED_STATEMENTS;
        if is_little {
            (first_prepared, has_started, has_asked, in_system_keyspace, compression, extensions).hash(state);
            prepared.hash(state);
        }
        is_little
    }

    pub fn open_exchange(&mut self, op: OpId, header: &Header) -> CqlExchange {
        let class = match header.opcode {
            opcode::OPTIONS if self.memory.has_started => Class::Background,
            opcode::REGISTER => Class::Background,
            opcode::QUERY | opcode::EXECUTE | opcode::BATCH => Class::Workload,
            _ => Class::Setup,
        };
        if header.opcode == opcode::STARTUP {
            self.memory.put(|memory| &mut memory.has_started, true);
        }
        let via = match header.opcode {
            opcode::QUERY => "query",
            opcode::EXECUTE => "prepared",
            opcode::BATCH => "batch",
            _ => "",
        };
        CqlExchange { via, is_paired: header.stream >= 0, ..self.exchange(op, header, class) }
    }

    /// Opens an exchange for an event, or for a response without a captured request.
    pub fn unsolicited(&self, op: OpId, header: &Header) -> CqlExchange {
        let is_event = header.opcode == opcode::EVENT;
        self.exchange(op, header, if is_event { Class::Background } else { Class::Unmatched })
    }

    fn exchange(&self, op: OpId, header: &Header, class: Class) -> CqlExchange {
        CqlExchange {
            op,
            opcode: header.opcode,
            name: header.name,
            via: "",
            class,
            asked: Asked::None,
            statement: None,
            unseen: None,
            prepares: None,
            guessed: false,
            losses: self.losses,
            is_paired: false,
        }
    }

    /// Adds a request; `has_unseen` if the client had received bytes that were not captured.
    pub fn enqueue(&mut self, id: u32, exchange: CqlExchange, has_unseen: bool) -> DecodeStep<()> {
        if self.outstanding >= limits::OUTSTANDING {
            return Err(Malformed("more requests without a response than any client sends"));
        }
        let waiting = self.waiting.entry(id).or_insert_with(|| VecDeque::with_capacity(1));
        // A client reuses an id only after the response, so that response was lost.
        if waiting.front().is_some_and(|first| has_unseen || first.losses[1] != self.losses[1]) {
            self.outstanding -= waiting.len();
            waiting.clear();
        }
        if !waiting.is_empty() {
            self.memory.change(|_| {});
        }
        waiting.push_back(exchange);
        self.outstanding += 1;
        Ok(())
    }

    /// Returns the exchange that a response with this id belongs to; `None` if an unseen request may have used the id again, which one
    /// does if `has_unseen`.
    pub fn take_answered(&mut self, id: u32, has_unseen: bool) -> Option<CqlExchange> {
        let exchange = self.waiting.get_mut(&id)?.pop_front()?;
        self.outstanding -= 1;
        let [requests, responses] = [0, 1].map(|side| exchange.losses[side] != self.losses[side]);
        (!responses || !requests && !has_unseen).then_some(exchange)
    }

    /// Notes that messages of a side were lost.
    pub fn lose(&mut self, side: Side) {
        self.losses[side as usize] = self.losses[side as usize].wrapping_add(1);
    }

    /// Returns the operations of all waiting requests, oldest first, and forgets them.
    pub fn abandon(&mut self) -> Vec<OpId> {
        self.outstanding = 0;
        let waiting = std::mem::take(&mut self.waiting).into_values().flatten();
        let mut ops: Vec<_> = waiting.map(|exchange| exchange.op).collect();
        ops.sort_unstable();
        ops
    }

    pub fn held(&self) -> usize {
        let exchange = 2 * size_of::<CqlExchange>() + size_of::<VecDeque<CqlExchange>>();
        self.outstanding.max(self.waiting.len()) * exchange
            + self.memory.prepared.len() * STATEMENT
            + self.memory.types * TYPE
    }

    pub fn name_by_text(&mut self, exchange: &mut CqlExchange, text: &[u8]) {
        let (name, class) = self.classify(text);
        exchange.name = name.unwrap_or(exchange.name);
        exchange.class = class;
        if name == Some("USE") && !self.memory.has_asked {
            exchange.class = Class::Setup;
        } else if class == Class::Workload {
            self.mark_used();
        }
    }

    pub fn name_prepare(&self, exchange: &mut CqlExchange, text: &[u8]) {
        let (name, class) = self.classify(text);
        exchange.prepares = Some((name.unwrap_or("EXECUTE"), class));
    }

    fn classify(&self, text: &[u8]) -> (Option<&'static str>, Class) {
        let statement = CqlStatement::parse(text);
        let tables = matches!(statement.verb, Some("SELECT" | "INSERT" | "UPDATE" | "DELETE"));
        let system = tables && statement.system.unwrap_or(self.memory.in_system_keyspace);
        (statement.verb, if system { Class::Background } else { Class::Workload })
    }

    /// Names an `EXECUTE` after its statement.
    pub fn name_by_id(&mut self, exchange: &mut CqlExchange, id: &[u8]) {
        exchange.statement = self.find(id);
        if let Some(prepared) = exchange.statement.and_then(|statement| self.prepared(statement)) {
            let CqlPreparedStatement { name, class, guessed, ref text, .. } = *prepared;
            (exchange.name, exchange.class, exchange.guessed) = (name, class, guessed);
            exchange.asked = text.clone();
        } else {
            exchange.guessed = true;
            exchange.unseen = Some(id.into());
            exchange.asked = self.unseen(id);
            if !exchange.asked.is_unseen()
                && let Some(text) = self.shared.given.text(&hex(id))
            {
                let (verb, class) = self.classify(text.as_bytes());
                exchange.guessed = verb.is_none();
                (exchange.name, exchange.class) = (verb.unwrap_or(exchange.name), class);
            }
        }
        if exchange.class == Class::Workload {
            self.mark_used();
        }
    }

    /// Returns the text of a statement that was prepared before the capture, as given or by its id.
    pub fn unseen(&self, id: &[u8]) -> Asked {
        self.shared.given.summary(&hex(id), StatementDialect::Cql).text
    }

    /// Notes that the application sent a statement.
    pub fn mark_used(&mut self) {
        self.memory.put(|memory| &mut memory.has_asked, true);
    }

    /// Returns the statement with this id, prepared on this connection or another.
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

    /// Remembers a statement by its id, and the id of its result's types (empty if absent), when its `PREPARE` is answered, or
    /// when its result is described. If only that is known, `rows` says
    /// whether its keyspace belongs to the server.
    pub fn remember(
        &mut self,
        exchange: &CqlExchange,
        (id, metadata_id): (&[u8], &[u8]),
        bind: CqlTypeTable,
        result: CqlTypeTable,
        rows: Option<bool>,
    ) {
        let (name, class) = exchange.prepares.unwrap_or(match rows {
            Some(system) => ("SELECT", if system { Class::Background } else { Class::Workload }),
            None => ("EXECUTE", Class::Workload),
        });
        let text = exchange.asked.clone();
        let (id, metadata_id) = (id.into(), metadata_id.into());
        let guessed = name == "EXECUTE";
        let prepared = Arc::new(CqlPreparedStatement { id, metadata_id, name, class, guessed, text, bind, result });
        // Other connections may have changed the shared statement, so publish it, and change the state, each time.
        self.shared.statements.publish(&prepared);
        self.memory.change(|memory| memory.keep(prepared));
    }

    /// Uses the result types that the client names by `metadata_id`. Types that this connection has not seen come from
    /// a response on another one; without one they are unknown.
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

    /// Replaces the result types of a prepared statement; `metadata_id` names the new ones.
    pub fn result_changed(&mut self, statement: CqlStatementRef, metadata_id: &[u8], result: &CqlTypeTable) {
        let Some(prepared) = self.prepared(statement) else { return };
        let changed = Arc::new(prepared.with_result(metadata_id, result.clone()));
        self.shared.statements.publish(&changed);
        self.memory.change(|memory| memory.keep(changed));
    }
}

impl CqlSessionMemory {
    fn new(mid_stream: bool) -> Self {
        let compression = if mid_stream { CqlCompression::NotSeen } else { CqlCompression::None };
        Self { has_started: mid_stream, has_asked: mid_stream, compression, ..Self::default() }
    }

    fn find(&self, id: &[u8]) -> Option<CqlStatementRef> {
        self.prepared_ids.get(id).copied().map(CqlStatementRef)
    }

    fn index(&self, statement: CqlStatementRef) -> Option<usize> {
        usize::try_from(statement.0.checked_sub(self.first_prepared)?).ok()
    }

    /// Adds a statement, replacing an earlier one with its id.
    fn keep(&mut self, prepared: Arc<CqlPreparedStatement>) {
        self.types += prepared.weight();
        let known = self.find(&prepared.id).and_then(|number| self.index(number));
        if let Some(slot) = known.and_then(|known| self.prepared.get_mut(known)) {
            self.types -= slot.weight();
            *slot = prepared;
        } else {
            let number = self.first_prepared + self.prepared.len() as u64;
            self.prepared_ids.insert(prepared.id.clone(), number);
            self.prepared.push_back(prepared);
        }
        while self.prepared.len() > limits::STATEMENTS || self.types > TYPES {
            let Some(oldest) = self.prepared.pop_front() else { break };
            self.first_prepared += 1;
            self.types -= oldest.weight();
            self.prepared_ids.remove(&oldest.id);
        }
    }
}

/// Returns the hexadecimal digits of an id.
fn hex(id: &[u8]) -> String {
    id.iter().fold(String::new(), |digits, byte| digits + &format!("{byte:02x}"))
}
