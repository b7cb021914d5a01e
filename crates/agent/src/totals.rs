//! The agent's totals at one moment, for the metrics and the summary, and the rows of a period, for the archive.

use super::candidates::CandidateBook;
use super::clock::RunningTime;
use super::composition::CompositionBook;
use super::config::AgentConfig;
use super::flows::{FlowBook, FlowKey, FlowSums, ZonePair, wire_bytes};
use super::governor::{AgentSpending, Governor};
use super::servers::{ServerEnd, WatchedServers};
use super::work::{ServerWork, WorkBook};
use super::zones::ZonePrices;
use overhead_dissect::{ENCRYPTED, KeptCounts, LearnedCounts, PREPARED_BEFORE};
use overhead_kernel::SocketTotals;
use overhead_model::agent_rows::{AgentFlowRow, AgentRowKey, AgentRows, AgentStatementRow};
use overhead_model::record::Estimate;
use overhead_model::{OTHER, Protocol};
use overhead_report::composition::{CompositionPeriods, PartTotal, TrafficPart};
use overhead_report::text::clean;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Longest statement in a label.
const LABEL_CHARS: usize = 200;
/// Shown for an address in no zone.
const NO_ZONE: &str = "unknown";

/// A server, as labels name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerLabels {
    /// Its address, or only its port if addresses are left out.
    pub address: String,
    pub system: &'static str,
    /// Empty if the server is not in a container.
    pub container: String,
}

/// The traffic of a client with a server.
#[derive(Clone, Debug)]
pub struct FlowTraffic {
    pub server: ServerLabels,
    pub at_server: bool,
    pub client: String,
    /// Name of its service or process; empty if it has none.
    pub client_name: String,
    /// Empty if the client is not in a container of this host.
    pub client_container: String,
    pub zones: [String; 2],
    pub totals: SocketTotals,
    /// For requests and for responses; absent without a price.
    pub costs: Option<[f64; 2]>,
}

impl FlowTraffic {
    pub fn add(&mut self, more: &Self) {
        self.totals.add(&more.totals);
        if let (Some(costs), Some(more)) = (&mut self.costs, more.costs) {
            costs.iter_mut().zip(more).for_each(|(sum, cost)| *sum += cost);
        }
    }
}

/// Returns which end's sockets were counted.
pub fn seen_at(at_server: bool) -> &'static str {
    if at_server { "server" } else { "client" }
}

/// A part of the traffic of a server with the clients of a zone.
#[derive(Debug)]
pub struct PartTraffic {
    pub server: ServerLabels,
    pub at_server: bool,
    pub zones: [String; 2],
    /// Its [`labels`].
    pub labels: [String; 3],
    pub total: PartTotal,
    pub cost: Option<f64>,
}

impl PartTraffic {
    /// Adds a part whose estimates are independent.
    fn add(&mut self, more: &Self) {
        self.total.wire_bytes += more.total.wire_bytes;
        self.total.bytes = sum(&self.total.bytes, &more.total.bytes);
        self.total.operations = sum(&self.total.operations, &more.total.operations);
        self.total.sides.iter_mut().zip(more.total.sides).for_each(|(sum, bytes)| *sum += bytes);
        self.total.has_interval &= more.total.has_interval;
        self.cost = self.cost.zip(more.cost).map(|(cost, more)| cost + more);
    }

    /// Returns whether the part has no text because no window saw the statement being prepared.
    pub fn is_prepared_unseen(&self) -> bool {
        names(&self.total.part)[2].starts_with(PREPARED_BEFORE)
    }

    /// Returns whether the part is TLS without its plain text.
    pub fn is_encrypted(&self) -> bool {
        matches!(&self.total.part, TrafficPart::Operations { name, .. } if name == ENCRYPTED)
    }
}

/// Returns class, name and statement.
pub fn names(part: &TrafficPart) -> [&str; 3] {
    match part {
        TrafficPart::Operations { class, name, statement, .. } => [class.name(), name, statement],
        TrafficPart::Other | TrafficPart::Unfinished | TrafficPart::Unknown => ["", part.name(), ""],
    }
}

/// Returns class, name and statement without long texts and without characters that need escapes.
pub fn labels(part: &TrafficPart) -> [String; 3] {
    let short = |text: &str| clean(text).chars().take(LABEL_CHARS).collect::<String>();
    names(part).map(|name| short(name).replace('"', "'").replace('\\', "/"))
}

/// Adds up items with the same labels: clients without addresses, or long statements with the same start.
fn merged<T, K: Ord>(items: impl IntoIterator<Item = T>, labels: impl Fn(&T) -> K, add: impl Fn(&mut T, &T)) -> Vec<T> {
    let mut merged = BTreeMap::<K, T>::new();
    for item in items {
        match merged.entry(labels(&item)) {
            Entry::Vacant(place) => _ = place.insert(item),
            Entry::Occupied(mut sums) => add(sums.get_mut(), &item),
        }
    }
    merged.into_values().collect()
}

fn merged_flows(flows: impl IntoIterator<Item = FlowTraffic>) -> Vec<FlowTraffic> {
    let labels = |flow: &FlowTraffic| {
        let FlowTraffic { server, at_server, client, client_name, client_container, zones, .. } = flow;
        let client = (client.clone(), client_name.clone(), client_container.clone());
        (server.clone(), *at_server, client, zones.clone())
    };
    merged(flows, labels, FlowTraffic::add)
}

fn sum(one: &Estimate, more: &Estimate) -> Estimate {
    let value = one.value + more.value;
    Estimate {
        value,
        standard_error: one.standard_error.hypot(more.standard_error),
        low: value - (one.low - one.value).hypot(more.low - more.value),
        high: value + (one.high - one.value).hypot(more.high - more.value),
    }
}

/// All totals since the agent started.
#[derive(Debug, Default)]
pub struct AgentTotals {
    pub flows: Vec<FlowTraffic>,
    pub parts: Vec<PartTraffic>,
    pub work: Vec<(ServerLabels, ServerWork)>,
    /// Bytes divided by an earlier period's composition.
    pub borrowed_bytes: u64,
    pub spending: AgentSpending,
    pub elapsed: Duration,
    /// Time between stops and starts without programs.
    pub uncounted: Duration,
    /// How often the sums of a flow moved to a shared one.
    pub evicted: u64,
    /// Bytes of connections for which the kernel's table had no room, and connections that could not be followed.
    pub without_room_bytes: u64,
    pub lost_connections: u64,
    /// Bytes of servers that are unknown, for which there was no room.
    pub unidentified_bytes: u64,
    /// Servers that started to listen and were not noted.
    pub lost_listeners: u64,
    /// Readings of the kernel's tables that failed.
    pub failed_readings: u64,
    /// OTLP exports that failed.
    pub failed_exports: u64,
    /// Files of the archive that could not be written.
    pub failed_archives: u64,
    /// Statements that windows saw being prepared.
    pub learned: LearnedCounts,
    /// Connections with secrets of TLS; absent without `tls-keys`.
    pub tls: Option<KeptCounts>,
}

/// The rows that are still to be written.
#[derive(Default, Serialize, Deserialize)]
pub struct ArchiveRows {
    /// Taken from the books, but perhaps not written. To write them again replaces their files.
    pub waiting: Option<NamedRows>,
    /// Time since they were taken.
    pub time: RunningTime,
}

/// Rows and the name of their files.
#[derive(Serialize, Deserialize)]
pub struct NamedRows {
    pub run: String,
    pub rows: AgentRows,
}

/// Returns the counters of one period.
type ReadParts = fn(&CompositionPeriods) -> Vec<PartTotal>;

/// Everything counted, to build totals and rows from.
pub struct AgentBooks {
    pub config: AgentConfig,
    pub servers: WatchedServers,
    pub candidates: CandidateBook,
    pub flows: FlowBook,
    pub compositions: CompositionBook,
    pub work: WorkBook,
    pub governor: Governor,
    pub archive: ArchiveRows,
    /// Time since the counters were 0, and the part of it in which no programs counted.
    pub time: RunningTime,
    pub uncounted: Duration,
}

impl AgentBooks {
    /// Returns all totals. The counts of failures are 0.
    pub fn totals(&self, elapsed: Duration) -> AgentTotals {
        AgentTotals {
            flows: merged_flows(self.flows.flows.iter().map(|(key, sums)| self.flow(key, &sums.totals))),
            parts: self.parts(CompositionPeriods::totals, |part| part.labels.clone()),
            work: merged(
                self.work.by_server.iter().map(|(server, work)| (self.server(server), *work)),
                |(server, _)| server.clone(),
                |(_, sums), (_, more)| sums.add(more),
            ),
            borrowed_bytes: self.compositions.by_key.values().map(|composed| composed.periods.borrowed_bytes()).sum(),
            spending: self.governor.spending,
            elapsed,
            uncounted: self.uncounted,
            evicted: self.flows.evicted,
            without_room_bytes: wire_bytes(&self.flows.without_room).iter().sum(),
            lost_connections: self.flows.lost_connections,
            unidentified_bytes: self.flows.unidentified_bytes + self.candidates.dropped_bytes,
            lost_listeners: self.flows.lost_listeners,
            ..AgentTotals::default()
        }
    }

    fn flow(&self, key: &FlowKey, totals: &SocketTotals) -> FlowTraffic {
        let client = match key.client {
            Some(client) if self.config.addresses => client.to_string(),
            Some(_) => String::new(),
            None => OTHER.to_owned(),
        };
        let name = |client| self.config.names.name(client, self.servers.processes(&key.server, client));
        let client_name = key.client.map(name).unwrap_or_default();
        let costs = costs(&self.config.prices, &key.zones, wire_bytes(totals));
        let (server, zones) = (self.server(&key.server), zone_names(&key.zones));
        let client_container = self.servers.container_of_group(key.client_group).unwrap_or_default().to_owned();
        let (at_server, totals) = (key.at_server, *totals);
        FlowTraffic { server, at_server, client, client_name, client_container, zones, totals, costs }
    }

    /// Returns the parts, largest first. Merges parts with the same key, server and zones.
    fn parts<K: Ord>(&self, totals: ReadParts, key: impl Fn(&PartTraffic) -> K) -> Vec<PartTraffic> {
        let here: BTreeSet<&ServerEnd> =
            self.flows.flows.keys().filter(|flow| flow.at_server).map(|flow| &flow.server).collect();
        let mut parts = Vec::new();
        for (key, composed) in &self.compositions.by_key {
            let (server, zones) = (self.server(&key.server), zone_names(&key.zones));
            let at_server = here.contains(&key.server);
            for total in totals(&composed.periods).into_iter().filter(|total| total.wire_bytes > 0) {
                let cost = costs(&self.config.prices, &key.zones, total.sides).map(|costs| costs.iter().sum());
                let (server, zones, labels) = (server.clone(), zones.clone(), labels(&total.part));
                parts.push(PartTraffic { server, at_server, zones, labels, total, cost });
            }
        }
        let full_key = |part: &PartTraffic| (part.server.clone(), part.zones.clone(), key(part));
        let mut parts = merged(parts, full_key, PartTraffic::add);
        parts.sort_by_key(|part| Reverse(part.total.wire_bytes));
        parts
    }

    /// Returns the rows since the start, or only `new` ones, which are not archived yet.
    pub fn rows(&self, new: bool, [start_ns, end_ns]: [u64; 2]) -> AgentRows {
        let totals: ReadParts = if new { CompositionPeriods::latest } else { CompositionPeriods::totals };
        let row_key = |server: ServerLabels, at_server: bool, [client_zone, server_zone]: [String; 2]| AgentRowKey {
            seen_at: seen_at(at_server).to_owned(),
            server: server.address,
            system: server.system.to_owned(),
            container: server.container,
            client_zone,
            server_zone,
        };
        let since = |(key, sums): (&FlowKey, &FlowSums)| {
            let grown = if new { sums.totals.since(&sums.archived) } else { sums.totals };
            (grown != SocketTotals::default()).then(|| self.flow(key, &grown))
        };
        let flow_row = |flow: FlowTraffic| AgentFlowRow {
            key: row_key(flow.server, flow.at_server, flow.zones),
            client: flow.client,
            client_name: flow.client_name,
            client_container: flow.client_container,
            wire_bytes: wire_bytes(&flow.totals),
            payload_bytes: [flow.totals.sent.payload_bytes, flow.totals.received.payload_bytes],
            segments: [flow.totals.sent.segments, flow.totals.received.segments],
            retransmitted_segments: flow.totals.retransmitted_segments,
            opened: flow.totals.opened,
            closed: flow.totals.closed,
            round_trip_us: flow.totals.round_trip_us,
            round_trips: flow.totals.round_trips,
            cost_nano: flow.costs.map(|costs| nano(costs.iter().sum())),
        };
        let statement_row = |part: PartTraffic| {
            let [class, name, text] = names(&part.total.part).map(str::to_owned);
            let PartTotal { bytes, operations, has_interval, .. } = &part.total;
            let interval = |estimate| has_interval.then(|| half_width(estimate));
            AgentStatementRow {
                class,
                protocol: part.total.part.protocol().map_or("", Protocol::name).to_owned(),
                name,
                text,
                wire_bytes: part.total.sides,
                wire_bytes_interval: interval(bytes),
                operations: operations.value.round() as u64,
                operations_interval: interval(operations),
                cost_nano: part.cost.map(nano),
                key: row_key(part.server, part.at_server, part.zones),
            }
        };
        AgentRows {
            start_ns,
            end_ns,
            dropped: self.governor.spending.dropped,
            flows: merged_flows(self.flows.flows.iter().filter_map(since)).into_iter().map(flow_row).collect(),
            statements: self.parts(totals, |part| part.total.part.clone()).into_iter().map(statement_row).collect(),
        }
    }

    fn server(&self, server: &ServerEnd) -> ServerLabels {
        let address = server.address;
        ServerLabels {
            address: if self.config.addresses { address.to_string() } else { format!(":{}", address.port()) },
            system: self.servers.system(server),
            container: self.servers.container(server).unwrap_or_default(),
        }
    }
}

/// Returns half of an interval. Its ends may be cut by what is possible.
fn half_width(estimate: &Estimate) -> u64 {
    (estimate.high - estimate.value).max(estimate.value - estimate.low).round() as u64
}

fn nano(cost: f64) -> u64 {
    (cost * 1e9).round() as u64
}

fn zone_names(zones: &ZonePair) -> [String; 2] {
    [&zones.client, &zones.server].map(|zone| zone.as_deref().unwrap_or(NO_ZONE).to_owned())
}

/// Returns what requests and responses cost; `None` if neither direction has a price.
fn costs(prices: &ZonePrices, zones: &ZonePair, bytes: [u64; 2]) -> Option<[f64; 2]> {
    let (client, server) = (zones.client.as_deref(), zones.server.as_deref());
    let found = [prices.price_between(client, server), prices.price_between(server, client)];
    let [request, response] = found.map(|price| price.map_or(0.0, |price| price.per_byte));
    let [requests, responses] = bytes.map(|bytes| bytes as f64);
    found.iter().any(Option::is_some).then_some([request * requests, response * responses])
}
