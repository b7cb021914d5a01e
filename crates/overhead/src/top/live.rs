//! Figures of an interface.

use super::feed::{Feed, Look};
use crate::capture::{Capturing, Dissection, Limits, byte_size, port_list, runtime};
use crate::cli::Which;
use crate::keys::{KeyFiles, KeyReader};
use crate::warnings::Warnings;
use anyhow::Result;
use clap::Args;
use overhead_capture::KernelFilter;
use overhead_capture::live::{LiveOptions, LiveSource};
use overhead_dissect::Dissector;
use overhead_model::record::By;
use overhead_report::Aggregate;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// What is captured, as for `capture`.
#[derive(Args, Debug)]
pub struct LiveArgs {
    /// Interface to capture on; `any` works
    #[arg(short, long, value_name = "IF", default_value = "lo", conflicts_with = "files")]
    iface: String,
    /// Further pcap filter
    #[arg(short, long, value_name = "EXPR", conflicts_with = "files")]
    filter: Option<String>,
    /// Kernel buffer (64k, 128M)
    #[arg(short = 'B', long = "buffer", value_name = "SIZE", default_value = "64M", value_parser = byte_size, conflicts_with = "files")]
    buffer: u32,
}

/// A capture whose frames are kept nowhere.
pub struct LiveFeed {
    capturing: Capturing,
    runtime: Runtime,
    begun: Instant,
    title: String,
    is_over: bool,
}

impl LiveFeed {
    /// Begins to capture.
    pub fn open(args: &LiveArgs, which: &Which, keys: &KeyFiles) -> Result<Self> {
        let selection = which.selection()?;
        let ports = port_list(&selection);
        let mut options = LiveOptions::new(&args.iface);
        options.buffer_bytes = args.buffer;
        options.filter = KernelFilter::new(ports.iter().copied(), args.filter.as_deref());
        let source = LiveSource::open(&options)?;
        let keys = KeyReader::follow(keys);
        let tally = Aggregate::new().with_rows_by(By::Connection);
        let dissector = Dissector::new(selection, tally).with_keys(keys.log());
        let capturing =
            Capturing::start(source, Dissection::Whole(Box::new(dissector)), keys, None, Limits::default(), None);
        let title = match (ports.as_slice(), which.is_default()) {
            (_, true) => format!("{}, all usual ports", args.iface),
            ([port], _) => format!("{}, TCP port {port}", args.iface),
            (ports, _) => {
                let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
                format!("{}, TCP ports {}", args.iface, ports.join(", "))
            }
        };
        Ok(Self { capturing, runtime: runtime()?, begun: Instant::now(), title, is_over: false })
    }
}

impl Feed for LiveFeed {
    fn title(&self) -> String {
        self.title.clone()
    }

    fn look(&mut self, by: By) -> Result<Option<Look>> {
        let Self { capturing, runtime, begun, is_over, .. } = self;
        *is_over |= runtime.block_on(async { tokio::time::timeout(Duration::ZERO, capturing.ended()).await.is_ok() });
        // The figures are of what was captured until they were asked for, however long they take.
        let at = begun.elapsed();
        let answer = runtime.block_on(capturing.kinds(by));
        let dropped = capturing.progress().dropped;
        Ok(answer.map(|(kinds, frames, wire_bytes)| Look { at, frames, wire_bytes, dropped, kinds, is_over: *is_over }))
    }

    fn takes_time(&self) -> bool {
        true
    }

    /// What happens does not wait: the next screen is of all that happened meanwhile.
    fn pause(&mut self, _paused: bool) {}

    fn finish(self: Box<Self>) -> Result<Warnings> {
        let mut outcome = self.capturing.finish()?;
        outcome.warnings.of_totals(&outcome.totals);
        Ok(outcome.warnings)
    }
}
