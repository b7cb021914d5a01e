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
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

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
        Ok(answer.map(|(kinds, frames, wire_bytes)| Look { at, frames, wire_bytes, dropped, kinds, is_over: *is_over }))
    }

    fn takes_time(&self) -> bool {
        true
    }

    /// Ignored, since live traffic does not wait: the next screen covers all of it.
    fn pause(&mut self, _paused: bool) {}

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
                for AgentFlowRow { key, client, wire_bytes, .. } in &flows {
                    let label = if by == By::Client { client.clone() } else { format!("{client} > {}", key.server) };
                    add(&mut kinds, (Class::Workload, label), 0, *wire_bytes);
                }
            }
            By::Name | By::Statement | By::Server => {
                for row @ AgentStatementRow { key, wire_bytes, operations, .. } in &statements {
                    add(&mut kinds, row_label(row, by, key), *operations, *wire_bytes);
                }
            }
        }
        let (at, kinds) = (Duration::from_nanos(end_ns.saturating_sub(start_ns)), kinds.into_iter().collect());
        Ok(Some(Look { at, frames, wire_bytes, dropped, kinds, is_over: false }))
    }

    fn takes_time(&self) -> bool {
        false
    }

    /// Ignored: the agent does not wait.
    fn pause(&mut self, _paused: bool) {}

    fn finish(self: Box<Self>) -> Result<Warnings> {
        Ok(Warnings::default())
    }
}

/// Returns the class and label of the row of a statement. By server, all classes share a row.
fn row_label(row: &AgentStatementRow, by: By, key: &AgentRowKey) -> (Class, String) {
    let class = Class::ALL.into_iter().find(|class| class.name() == row.class).unwrap_or(Class::Workload);
    match by {
        By::Server => (Class::Workload, format!("{} {}", key.server, key.system)),
        By::Statement if !row.text.is_empty() => (class, row.text.clone()),
        _ => (class, row.name.clone()),
    }
}

/// Adds a row. The accounts of its bytes are unknown.
fn add(kinds: &mut BTreeMap<KindKey, RowSums>, (class, label): (Class, String), count: u64, wire_bytes: [u64; 2]) {
    let sums: &mut RowSums = kinds.entry(KindKey { class, protocol: Protocol::Resp, label }).or_default();
    sums.count += count;
    for (side, bytes) in sums.sides.iter_mut().zip(wire_bytes) {
        side.amounts[Account::Unknown] += bytes;
    }
}
