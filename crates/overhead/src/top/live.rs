use super::{Feed, Look};
use crate::capture::byte_size;
use anyhow::Result;
use clap::Args;
use overhead_agent::AgentClient;
use overhead_host::runtime;
use overhead_live::{CaptureLimits, CaptureThreads, LivePlan};
use overhead_model::agent_rows::{AgentFlowRow, AgentRowKey, AgentRows, AgentStatementRow};
use overhead_model::record::By;
use overhead_model::{Account, Class, Protocol};
use overhead_reading::{DecodePlan, DissectPlan, KeyReader, PATIENCE, Warnings};
use overhead_report::text::counted;
use overhead_report::{Aggregate, KindKey, RowSums};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// A month of costs.
const MONTH: Duration = Duration::from_hours(30 * 24);

/// Options that select what to capture, as for `capture`.
#[derive(Args, Debug)]
pub struct LiveArgs {
    /// Interface to capture on; `any` works [default: lo; in a container, the one that its connections use]
    #[arg(short, long, value_name = "IF", conflicts_with = "files")]
    iface: Option<String>,
    /// A container, by name, id or pod, whose interface is captured
    #[arg(long, value_name = "NAME|ID", conflicts_with = "files")]
    container: Option<String>,
    /// Further pcap filter
    #[arg(short, long, value_name = "EXPR", conflicts_with = "files")]
    filter: Option<String>,
    /// Kernel buffer (64k, 128M)
    #[arg(short = 'B', long = "buffer", value_name = "SIZE", default_value = "64M", value_parser = byte_size, conflicts_with = "files")]
    buffer: u32,
}

/// A capture that stores no frames.
pub struct LiveFeed {
    capturing: CaptureThreads,
    runtime: Runtime,
    started: Instant,
    title: String,
    is_over: bool,
    /// The container's connections on other interfaces, by interface.
    elsewhere: BTreeMap<String, u64>,
}

impl LiveFeed {
    /// Starts to capture.
    pub fn open(args: &LiveArgs, decode: DecodePlan) -> Result<Self> {
        let DecodePlan { mut connections, keys } = decode;
        let (mut plan, elsewhere) =
            LivePlan::find(args.iface.clone(), args.container.as_deref(), &mut connections, true)?;
        (plan.filter, plan.buffer) = (args.filter.clone(), args.buffer);
        let (source, _) = plan.open()?;
        let keys = KeyReader::follow(&keys)?;
        let tally = Aggregate::new().with_rows_by(By::Connection);
        let dissection = DissectPlan::default().dissection(&plan.selection, keys.log(), tally, None);
        let capturing =
            CaptureThreads::start(source, dissection, (keys, PATIENCE), None, (CaptureLimits::default(), None), None)?;
        let title = title(&plan.in_words(), &plan.ports, connections.is_default() && plan.servers.is_empty());
        Ok(Self { capturing, runtime: runtime()?, started: Instant::now(), title, is_over: false, elsewhere })
    }
}

fn title(place: &str, ports: &[u16], is_default: bool) -> String {
    match ports {
        _ if is_default => format!("{place}, all usual ports"),
        [port] => format!("{place}, TCP port {port}"),
        ports => {
            let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
            format!("{place}, TCP ports {}", ports.join(", "))
        }
    }
}

impl Feed for LiveFeed {
    fn title(&self) -> String {
        self.title.clone()
    }

    fn look(&mut self, by: By) -> Result<Option<Look>> {
        let Self { capturing, runtime, started, is_over, .. } = self;
        *is_over |= runtime.block_on(async { tokio::time::timeout(Duration::ZERO, capturing.ended()).await.is_ok() });
        // The values cover the time up to the request, however long the answer takes.
        let at = started.elapsed();
        let answer = runtime.block_on(capturing.kinds(by));
        let dropped = capturing.progress().dropped;
        Ok(answer.map(|(kinds, frames, wire_bytes)| Look {
            at,
            frames,
            wire_bytes,
            dropped,
            kinds,
            is_over: *is_over,
            ..Look::default()
        }))
    }

    fn takes_time(&self) -> bool {
        true
    }

    fn finish(self: Box<Self>) -> Result<Warnings> {
        let mut outcome = self.capturing.finish()?;
        outcome.warnings.warn_of_totals(&outcome.totals);
        for (interface, count) in &self.elsewhere {
            let connections = counted(*count, "connection");
            outcome
                .warnings
                .remark(format!("the container has {connections} on {interface} too: `-i {interface}` shows these"));
        }
        Ok(outcome.warnings)
    }
}

/// The agent to read from.
#[derive(Args, Debug)]
pub struct AskedAgent {
    /// Show the totals of the `overhead agent` that listens at this address, since it started
    #[arg(long, value_name = "ADDR:PORT", conflicts_with_all = ["files", "iface", "container", "filter", "buffer"])]
    pub agent: Option<String>,
    /// A file with the agent's token
    #[arg(long, value_name = "FILE", requires = "agent")]
    token_file: Option<PathBuf>,
}

/// The totals of a running agent.
pub struct AgentFeed(AgentClient);

impl AgentFeed {
    /// Opens the agent at this address.
    pub fn open(asked: &AskedAgent, address: &str) -> Result<Self> {
        AgentClient::new(address, asked.token_file.as_deref()).map(Self)
    }
}

impl Feed for AgentFeed {
    fn title(&self) -> String {
        format!("agent at {}", self.0.address)
    }

    fn look(&mut self, by: By) -> Result<Option<Look>> {
        let AgentRows { start_ns, end_ns, dropped, flows, statements } = self.0.rows()?;
        let sum = |sides: fn(&AgentFlowRow) -> [u64; 2]| flows.iter().flat_map(sides).sum();
        let (frames, wire_bytes) = (sum(|flow| flow.segments), sum(|flow| flow.wire_bytes));
        let mut kinds = BTreeMap::<KindKey, RowSums>::new();
        match by {
            By::Connection | By::Client => {
                for row in &flows {
                    add(&mut kinds, (Class::Workload, flow_label(row, by)), 0, row.wire_bytes);
                }
            }
            By::Name | By::Statement | By::Server => {
                for row @ AgentStatementRow { key, wire_bytes, operations, .. } in &statements {
                    add(&mut kinds, row_label(row, by, key), *operations, *wire_bytes);
                }
            }
        }
        let at = Duration::from_nanos(end_ns.saturating_sub(start_ns));
        let (kinds, costs) = (kinds.into_iter().collect(), monthly_costs(&flows, &statements, by, at));
        Ok(Some(Look { at, frames, wire_bytes, dropped, kinds, costs, is_over: false }))
    }

    fn takes_time(&self) -> bool {
        false
    }

    fn finish(self: Box<Self>) -> Result<Warnings> {
        Ok(Warnings::default())
    }
}

/// Returns the class and label of the row of a statement. By server, all classes share a row.
fn row_label(row: &AgentStatementRow, by: By, key: &AgentRowKey) -> (Class, String) {
    let class = Class::ALL.into_iter().find(|class| class.name() == row.class).unwrap_or(Class::Workload);
    let (class, label) = match by {
        By::Server => (Class::Workload, format!("{} {}", key.server, key.system)),
        By::Statement if !row.text.is_empty() => (class, row.text.clone()),
        _ => (class, row.name.clone()),
    };
    (class, with_zones(label, key))
}

/// Returns the label of the row of a client or connection: the client's name, or else its address.
fn flow_label(row: &AgentFlowRow, by: By) -> String {
    let AgentFlowRow { key, client, client_name, .. } = row;
    let client = if client_name.is_empty() { client } else { client_name };
    let label = if by == By::Client { client.clone() } else { format!("{client} > {}", key.server) };
    with_zones(label, key)
}

/// Adds the zones of both ends to a label, if the settings have zones.
fn with_zones(label: String, key: &AgentRowKey) -> String {
    let AgentRowKey { client_zone, server_zone, .. } = key;
    let is_unknown = [client_zone, server_zone].iter().all(|zone| *zone == "unknown");
    if is_unknown { label } else { format!("{label} [{client_zone} > {server_zone}]") }
}

/// Returns what the rows cost in a month at the rate since the start, by label; empty without prices. Those of statements are the costs of
/// their connections, divided like the periods that have ended.
fn monthly_costs(
    flows: &[AgentFlowRow],
    statements: &[AgentStatementRow],
    by: By,
    span: Duration,
) -> HashMap<String, f64> {
    let months = span.as_secs_f64() / MONTH.as_secs_f64();
    let mut costs = HashMap::new();
    if months <= 0.0 {
        return costs;
    }
    let monthly = |nano: u64| nano as f64 / 1e9 / months;
    if matches!(by, By::Connection | By::Client) {
        for row in flows {
            if let Some(nano) = row.cost_nano {
                *costs.entry(flow_label(row, by)).or_default() += monthly(nano);
            }
        }
        return costs;
    }
    let place = |key: &AgentRowKey| (key.server.clone(), key.client_zone.clone(), key.server_zone.clone());
    let mut exact = HashMap::<_, u64>::new();
    for AgentFlowRow { key, cost_nano, .. } in flows {
        *exact.entry(place(key)).or_default() += cost_nano.unwrap_or_default();
    }
    let mut divided = HashMap::<_, u64>::new();
    for AgentStatementRow { key, cost_nano, .. } in statements {
        *divided.entry(place(key)).or_default() += cost_nano.unwrap_or_default();
    }
    for row in statements {
        let (Some(nano), Some(sum @ 1..)) = (row.cost_nano, divided.get(&place(&row.key)).copied()) else { continue };
        let share = nano as f64 / sum as f64;
        let (class, label) = row_label(row, by, &row.key);
        if class != Class::Workload {
            continue;
        }
        *costs.entry(label).or_default() += share * monthly(exact.get(&place(&row.key)).copied().unwrap_or_default());
    }
    costs
}

/// Adds a row. The accounts of its bytes are unknown.
fn add(kinds: &mut BTreeMap<KindKey, RowSums>, (class, label): (Class, String), count: u64, wire_bytes: [u64; 2]) {
    let sums: &mut RowSums = kinds.entry(KindKey { class, protocol: Protocol::Resp, label }).or_default();
    sums.count += count;
    for (side, bytes) in sums.sides.iter_mut().zip(wire_bytes) {
        side.amounts[Account::Unknown] += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(zones: [&str; 2]) -> AgentRowKey {
        let [client_zone, server_zone] = zones.map(str::to_owned);
        AgentRowKey {
            seen_at: "server".to_owned(),
            server: "10.0.0.1:6379".to_owned(),
            system: "redis".to_owned(),
            container: String::new(),
            client_zone,
            server_zone,
        }
    }

    fn flow(key: AgentRowKey, client: [&str; 2], cost_nano: Option<u64>) -> AgentFlowRow {
        let [client, client_name] = client.map(str::to_owned);
        AgentFlowRow {
            key,
            client,
            client_name,
            client_container: String::new(),
            wire_bytes: [1, 2],
            payload_bytes: [1, 2],
            segments: [1, 1],
            retransmitted_segments: 0,
            opened: 0,
            closed: 0,
            round_trip_us: 0,
            round_trips: 0,
            cost_nano,
        }
    }

    fn statement(key: AgentRowKey, text: &str, cost_nano: Option<u64>) -> AgentStatementRow {
        AgentStatementRow {
            key,
            class: "workload".to_owned(),
            protocol: "resp".to_owned(),
            name: "GET".to_owned(),
            text: text.to_owned(),
            wire_bytes: [1, 2],
            wire_bytes_interval: None,
            operations: 1,
            operations_interval: None,
            cost_nano,
        }
    }

    #[test]
    fn rows_have_zones_and_the_cost_of_a_month() {
        let (near, far) = (key(["unknown", "unknown"]), key(["a", "b"]));
        let flows = [
            flow(near.clone(), ["10.0.0.9", ""], None),
            flow(far.clone(), ["10.1.0.1", "orders"], Some(3_000_000_000)),
            flow(far.clone(), ["10.1.0.2", "orders"], Some(1_000_000_000)),
        ];
        // The statements lack the bytes of the current period.
        let statements = [
            statement(near, "GET a", None),
            statement(far.clone(), "GET a", Some(500_000_000)),
            statement(far, "GET b", Some(1_500_000_000)),
        ];
        let costs = |by| {
            let mut costs: Vec<_> = monthly_costs(&flows, &statements, by, MONTH / 10).into_iter().collect();
            costs.sort_by(|one, other| one.0.cmp(&other.0));
            costs
        };
        let named =
            |costs: &[(&str, f64)]| costs.iter().map(|(label, cost)| ((*label).to_owned(), *cost)).collect::<Vec<_>>();
        assert_eq!(costs(By::Client), named(&[("orders [a > b]", 40.0)]));
        assert_eq!(costs(By::Connection), named(&[("orders > 10.0.0.1:6379 [a > b]", 40.0)]));
        assert_eq!(costs(By::Statement), named(&[("GET a [a > b]", 10.0), ("GET b [a > b]", 30.0)]));
        assert_eq!(costs(By::Server), named(&[("10.0.0.1:6379 redis [a > b]", 40.0)]));
        assert_eq!(flow_label(&flows[0], By::Client), "10.0.0.9");
        assert!(monthly_costs(&flows, &statements, By::Server, Duration::ZERO).is_empty());
    }
}
