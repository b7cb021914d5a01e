use super::feed::{Feed, Look};
use crate::capture::{Capturing, ContainerPlace, Dissection, Limits, byte_size, port_list, runtime};
use crate::cli::Which;
use crate::keys::{KeyFiles, KeyReader};
use crate::privileges::raised;
use crate::warnings::Warnings;
use anyhow::Result;
use clap::Args;
use overhead_capture::KernelFilter;
use overhead_capture::live::{LiveOptions, LiveSource};
use overhead_dissect::Dissector;
use overhead_model::record::By;
use overhead_report::Aggregate;
use overhead_report::text::counted;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const LOOPBACK: &str = "lo";

/// What is captured, as for `capture`.
#[derive(Args, Debug)]
pub struct LiveArgs {
    /// Interface to capture on; `any` works [default: lo; of a container the one that its connections use]
    #[arg(short, long, value_name = "IF", conflicts_with = "files")]
    iface: Option<String>,
    /// A container, by name, id or pod: what is captured is on its interface
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
    capturing: Capturing,
    runtime: Runtime,
    begun: Instant,
    title: String,
    is_over: bool,
    /// The container's connections on other interfaces, by interface.
    elsewhere: BTreeMap<String, u64>,
}

impl LiveFeed {
    pub fn open(args: &LiveArgs, which: &Which, keys: &KeyFiles) -> Result<Self> {
        let (mut which, mut interface) = (which.clone(), args.iface.clone());
        let found = args.container.as_ref().map(|name| ContainerPlace::of(name, &mut which, Some(&mut interface)));
        let (place, elsewhere) = found.transpose()?.unzip();
        let interface = interface.unwrap_or_else(|| LOOPBACK.to_owned());
        let selection = which.selection()?;
        let ports = port_list(&selection);
        let mut options = LiveOptions::new(&interface);
        options.namespace = place.as_ref().map(|place| place.namespace.clone());
        options.buffer_bytes = args.buffer;
        options.filter = KernelFilter::new(ports.iter().copied(), args.filter.as_deref());
        let source = raised(|| LiveSource::open(&options))?;
        let keys = KeyReader::follow(keys);
        let tally = Aggregate::new().with_rows_by(By::Connection);
        let dissector = Dissector::new(selection, tally).with_keys(keys.log());
        let capturing =
            Capturing::start(source, Dissection::Whole(Box::new(dissector)), keys, None, Limits::default(), None);
        let place = place.as_ref().map_or_else(|| interface.clone(), |place| place.in_words(&interface));
        let title = title(&place, &ports, which.is_default());
        let elsewhere = elsewhere.unwrap_or_default();
        Ok(Self { capturing, runtime: runtime()?, begun: Instant::now(), title, is_over: false, elsewhere })
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
        let Self { capturing, runtime, begun, is_over, .. } = self;
        *is_over |= runtime.block_on(async { tokio::time::timeout(Duration::ZERO, capturing.ended()).await.is_ok() });
        // The figures cover the time up to the request, however long the answer takes.
        let at = begun.elapsed();
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
        outcome.warnings.of_totals(&outcome.totals);
        for (interface, count) in &self.elsewhere {
            let connections = counted(*count, "connection");
            outcome
                .warnings
                .remark(format!("the container has {connections} on {interface} too: `-i {interface}` shows these"));
        }
        Ok(outcome.warnings)
    }
}
