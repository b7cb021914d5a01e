use super::feed::{Feed, Look};
use crate::capture::byte_size;
use anyhow::Result;
use clap::Args;
use overhead_host::runtime;
use overhead_live::{CaptureLimits, CaptureThreads, LivePlan};
use overhead_model::record::By;
use overhead_reading::{DecodePlan, DissectPlan, KeyReader, Warnings};
use overhead_report::Aggregate;
use overhead_report::text::counted;
use std::collections::BTreeMap;
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
        let capturing = CaptureThreads::start(source, dissection, keys, None, (CaptureLimits::default(), None), None)?;
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
