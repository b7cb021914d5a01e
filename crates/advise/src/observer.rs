//! Reads a capture once for all rules.

use crate::advice::Advice;
use crate::finding::{AdviceFinding, Example, add_sides};
use crate::limits;
use crate::observed::{FrameNote, ObservedConnection, ObservedOperation};
use crate::rule::NamedRule;
use crate::seen::{ClosedConnection, SeenCharge, SeenField, SeenFrame, SeenOperation, SeenRow, SeenTraffic};
use crate::servers::has_setting;
use overhead_dissect::explain::{BegunOperation, CaptureReading, ConnectionStates, Numbering};
use overhead_model::{
    Account, Amounts, Class, ConnectionSummary, FrameFacts, Listener, Operation, Protocol, RowId, RowKey, Side,
    SideTotals, Tally, Trace,
};
use std::collections::{BTreeMap, HashMap};
use std::hash::Hasher;

/// Collects what the rules need and feeds them.
#[derive(Default)]
pub struct AdviceObserver {
    rules: Vec<NamedRule>,
    seen: SeenTraffic,
    /// Row numbers by protocol, class, name, way of sending and statement.
    numbers: HashMap<(Protocol, Class, String, &'static str, String), usize>,
    /// The rules that want a field, by its number, as bit masks.
    wanted: Vec<[u64; Protocol::COUNT]>,
    messages: [bool; Protocol::COUNT],
    numbering: Numbering,
    turns: ConnectionStates<ObservedConnection>,
    /// The last row requested: the next label refers to it.
    labelled: Option<RowId>,
    /// The last closed operation.
    closed: Option<Box<ObservedOperation>>,
    /// Tracked open operations of all connections.
    open: usize,
    /// The last closed operation was not tracked.
    is_unlisted: bool,
}

impl AdviceObserver {
    pub fn new(rules: Vec<NamedRule>) -> Self {
        let mut messages = [false; Protocol::COUNT];
        for protocol in Protocol::ALL {
            messages[protocol as usize] = rules.iter().any(|(_, rule)| rule.wants_messages(protocol));
        }
        Self { rules, messages, ..Self::default() }
    }

    /// Returns the findings, and the traffic for [`crate::WhatIf`].
    pub fn into_advice(self) -> (Advice, SeenTraffic) {
        let named = |name| move |finding| AdviceFinding { rule: name, ..finding };
        let findings =
            self.rules.iter().flat_map(|(name, rule)| rule.findings(&self.seen).into_iter().map(named(*name)));
        let mut findings: Vec<AdviceFinding> = findings.collect();
        for finding in &mut findings {
            finding.remedies.retain(|remedy| has_setting(&self.seen.servers, remedy));
        }
        (Advice::new(&self.seen, findings), self.seen)
    }

    /// Returns the number of a row; `None` beyond the limit. Statements of the workload have rows of their own, as long as
    /// there is room.
    fn row_number(&mut self, key: &RowKey<'_>) -> Option<usize> {
        let is_apart = key.class == Class::Workload && self.seen.rows.len() < limits::STATEMENTS;
        let statement = if is_apart { key.statement } else { "" };
        let name = (key.protocol, key.class, key.name.to_owned(), key.via, statement.to_owned());
        if let Some(&number) = self.numbers.get(&name) {
            return Some(number);
        }
        let number = self.seen.rows.len();
        (number < limits::ROWS).then(|| {
            self.seen.rows.push(SeenRow {
                number,
                protocol: key.protocol,
                class: key.class,
                name: key.name.to_owned(),
                via: key.via,
                statement: statement.to_owned(),
                count: 0,
                amounts: [Amounts::ZERO; 2],
                latency_ns: (0, 0),
                example: None,
                fields: BTreeMap::new(),
            });
            self.numbers.insert(name, number);
            number
        })
    }

    /// Returns the number of the current field's name.
    fn path(&mut self, side: Side) -> u32 {
        let assembly = &mut self.turns.kept().sides[side as usize];
        let known = self.wanted.len();
        let number = self.seen.paths.number(&mut assembly.path, assembly.field, limits::FIELDS);
        if let Some(name) = self.seen.paths.names.get(known) {
            let mut wanted = [0; Protocol::COUNT];
            for protocol in Protocol::ALL {
                let who = self.rules.iter().enumerate().filter(|(_, (_, rule))| rule.wants_field(protocol, name));
                wanted[protocol as usize] = who.fold(0, |bits, (at, _)| bits | 1 << at);
            }
            self.wanted.push(wanted);
        }
        number
    }

    fn frame(&mut self, facts: FrameFacts) {
        let (first, last) = self.seen.span.get_or_insert((facts.time_ns, facts.time_ns));
        (*first, *last) = ((*first).min(facts.time_ns), (*last).max(facts.time_ns));
        self.seen.largest_payload = self.seen.largest_payload.max(u64::from(facts.payload_len));
        let connection = self.turns.kept();
        let end = connection.end(facts.source);
        let since_ns = connection.payload_ns.map(|before| facts.time_ns.saturating_sub(before));
        connection.first_ns.get_or_insert(facts.time_ns);
        if facts.payload_len > 0 {
            let bare_ns = connection.bare_ns.take();
            connection.frames.push_back(FrameNote { facts, bare_ns, since_ns });
            if connection.frames.len() > limits::FRAMES {
                connection.frames.pop_front();
            }
            connection.payload_ns = Some(facts.time_ns);
        } else {
            connection.bare_ns = Some(facts.time_ns);
        }
        let latest = connection.latest.map(|operation| Example { operation, frame: facts.number });
        let frame = SeenFrame { facts: &facts, end, latest };
        self.rules.iter_mut().for_each(|(_, rule)| rule.frame(&frame));
    }

    fn posted(&mut self, side: Side, op: Option<u64>, account: Account, (frame, len): (Option<u64>, u64)) {
        let path = self.path(side);
        let number = self.turns.connection;
        let connection = self.turns.kept();
        let at = connection.protocol.map_or(Protocol::COUNT, |protocol| protocol as usize);
        let wanted = self.wanted.get(path as usize).and_then(|by| by.get(at)).copied().unwrap_or(0);
        let whole = self.messages.get(at).copied().unwrap_or(false);
        let asks = side == Side::Request && is_asked(account);
        let name = self.seen.paths.name(path);
        let is_id = side == Side::Request && account == Account::Metadata && is_statement_id(name);
        let keep = match (whole, wanted > 0 || asks || is_id) {
            (true, _) => limits::MESSAGE as u64,
            (_, true) => limits::FIELD,
            _ => 0,
        };
        let posted = connection.sides[side as usize].post(len, keep);
        let note = frame.and_then(|frame| connection.note(frame));
        let ObservedConnection { sides, open, .. } = connection;
        let Some(open) = open.get_mut(&op) else { return };
        if let Some(frame) = frame {
            open.add_piece(side, frame, len, note);
            open.add_field((side, account, path), len, posted.is_some());
        }
        let Some(field) = posted else { return };
        let bytes = (keep > 0 && field.known).then(|| sides[side as usize].bytes());
        if asks || is_id {
            open.digests[side as usize].add(path, account == Account::Query || is_id, bytes);
        }
        if whole && account != Account::Tls {
            open.append_message(side, bytes);
        }
        if wanted > 0 {
            let field =
                SeenField { connection: number, operation: open.number, side, path: name, len: field.len, bytes };
            let rules = self.rules.iter_mut().enumerate().filter(|(at, _)| wanted & (1 << at) != 0);
            rules.for_each(|(_, (_, rule))| rule.field(&field));
        }
    }

    fn charged(&mut self, side: Side, op: Option<u64>, account: Account, (frame, bytes): (u64, u64)) {
        if !matches!(account, Account::Control | Account::Retransmission) {
            return;
        }
        let number = self.turns.connection;
        let connection = self.turns.kept();
        let operation = connection.open.get(&op).filter(|_| op.is_some());
        let charge = SeenCharge {
            connection: number,
            frame,
            account,
            side,
            bytes,
            since_ns: connection.note(frame).and_then(|note| note.since_ns),
            operation: operation.map(|open| Example { operation: open.number, frame }),
            closed: connection.closed,
        };
        self.rules.iter_mut().for_each(|(_, rule)| rule.charge(&charge));
    }

    fn step(&mut self, step: Trace<'_>) {
        match step {
            Trace::Swapped => self.turns.kept().sides.swap(0, 1),
            Trace::Bytes { side, bytes, opaque } => {
                self.turns.kept().sides[side as usize].stream.push(bytes, opaque);
            }
            Trace::Decrypted { side, ahead, bytes } => {
                self.turns.kept().sides[side as usize].stream.decrypt(ahead, bytes);
            }
            Trace::Enter { side, group } => self.turns.kept().sides[side as usize].path.push(group),
            Trace::Leave { side } => _ = self.turns.kept().sides[side as usize].path.pop(),
            Trace::Field { side, field, len } => self.turns.kept().sides[side as usize].begin(field, len),
            Trace::Posted { side, op, account, frame, len, in_order: true } => {
                self.posted(side, op, account, (frame, len));
            }
            Trace::Charged { side, op, account, frame, bytes } => self.charged(side, op, account, (frame, bytes)),
            Trace::Labelled { .. } => {
                if let Some(row) = self.labelled {
                    let protocol = self.protocol(row);
                    self.turns.kept().protocol = protocol;
                }
            }
            Trace::Closed { op, .. } => {
                self.closed = self.turns.kept().open.remove(&op);
                self.is_unlisted = op.is_some() && self.closed.is_none();
                self.open -= usize::from(op.is_some() && self.closed.is_some());
            }
            _ => {}
        }
    }

    fn protocol(&self, id: RowId) -> Option<Protocol> {
        self.seen.rows.get(id.0 as usize).map(|row| row.protocol)
    }

    fn begin(&mut self, begun: BegunOperation) {
        let connection = self.turns.kept();
        if begun.op.is_some() {
            connection.latest = Some(begun.number);
            if self.open >= limits::OPEN {
                return;
            }
            self.open += 1;
        }
        let operation = ObservedOperation { number: begun.number, ..ObservedOperation::default() };
        connection.open.insert(begun.op, Box::new(operation));
    }

    fn add_to_row(&mut self, row_number: usize, operation: &Operation, open: &ObservedOperation, example: Example) {
        let Some(row) = self.seen.rows.get_mut(row_number) else { return };
        row.count += 1;
        add_sides(&mut row.amounts, &operation.amounts());
        if let Some(ns) = operation.latency_ns {
            row.latency_ns.0 += ns;
            row.latency_ns.1 += 1;
        }
        row.example.get_or_insert(example);
        for (key, sum) in &open.fields {
            let all = row.fields.entry(*key).or_default();
            all.bytes += sum.bytes;
            all.times += sum.times;
            all.operations += 1;
            all.example.get_or_insert(example);
        }
        let is_workload = row.is_workload();
        let connection = self.turns.kept();
        let on = connection.rows.entry(row_number).or_default();
        (on.is_workload, on.count) = (is_workload, on.count + 1);
        add_sides(&mut on.amounts, &operation.amounts());
        connection.example.get_or_insert(example);
        connection.closed = Some((row_number, example));
        let begun_ns = open.directions[0].pieces.first().map(|piece| piece.time_ns);
        if let (true, None, Some(first), Some(begun)) =
            (is_workload, connection.ready_ns, connection.first_ns, begun_ns)
        {
            connection.ready_ns = Some(begun.saturating_sub(first));
        }
    }
}

/// Returns whether these bytes identify a request.
fn is_asked(account: Account) -> bool {
    matches!(account, Account::Query | Account::Data | Account::Schema)
}

/// Returns whether the field identifies a prepared statement.
fn is_statement_id(path: &str) -> bool {
    path.ends_with("statement id") || path.ends_with("bind.statement name")
}

impl CaptureReading for AdviceObserver {}

impl Tally for AdviceObserver {
    fn row(&mut self, key: RowKey<'_>) -> RowId {
        self.labelled = self.row_number(&key).map(|row| RowId(row as u64));
        self.labelled.unwrap_or(RowId(u64::MAX))
    }

    fn operation(&mut self, id: RowId, operation: &Operation) {
        let mut open = self.closed.take().unwrap_or_default();
        if std::mem::take(&mut self.is_unlisted) {
            self.seen.unlisted += 1;
            return;
        }
        let row_number = id.0 as usize;
        if row_number >= self.seen.rows.len() {
            self.seen.unlisted += 1;
            return;
        }
        for side in Side::BOTH {
            let digests = &open.digests[side as usize];
            let known = digests.some && !digests.unknown;
            open.directions[side as usize].digest = known.then(|| digests.all.finish());
            open.directions[side as usize].text_digest = known.then(|| digests.text.finish());
        }
        let connection = self.turns.connection;
        let first = self.turns.kept().example.map_or(0, |example| example.frame);
        let example = open.example(first);
        self.add_to_row(row_number, operation, &open, example);
        let (round_trip_ns, in_a_row) = self.turns.kept().pace(operation, &open.directions);
        let Some(row) = self.seen.rows.get(row_number) else { return };
        let closed = SeenOperation {
            row,
            connection,
            example,
            operation,
            round_trip_ns,
            in_a_row,
            directions: &open.directions,
            fields: &open.fields,
            paths: &self.seen.paths,
        };
        self.rules.iter_mut().for_each(|(_, rule)| rule.operation(&closed));
    }

    fn late(&mut self, id: RowId, side: Side, totals: &SideTotals) {
        let number = id.0 as usize;
        let Some(row) = self.seen.rows.get_mut(number) else { return };
        row.amounts[side as usize] += totals.amounts;
        self.turns.kept().rows.entry(number).or_default().amounts[side as usize] += totals.amounts;
    }

    fn connection(&mut self, summary: ConnectionSummary) {
        self.seen.connections += 1;
        if let Some(server) = &summary.server_software
            && self.seen.servers.len() < limits::CLIENTS
        {
            self.seen.servers.insert(server.clone());
        }
        let number = self.turns.connection;
        let kept = self.turns.kept();
        let connection = ClosedConnection {
            number,
            client: summary.client,
            server: summary.server,
            protocol: summary.protocol,
            ready_ns: kept.ready_ns,
            example: kept.example,
            rows: &kept.rows,
        };
        self.rules.iter_mut().for_each(|(_, rule)| rule.connection(&connection));
    }

    fn listener(&mut self) -> Option<&mut dyn Listener> {
        Some(self)
    }
}

impl Listener for AdviceObserver {
    fn hear(&mut self, step: Trace<'_>) {
        self.turns.hear(&step);
        if let Some(begun) = self.numbering.hear(&step) {
            self.begin(begun);
        }
        match step {
            Trace::Frame(facts) => self.frame(facts),
            step => self.step(step),
        }
    }
}
