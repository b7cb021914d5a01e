//! What captures and the agent share on a live machine: its databases, the runtime, signals and the metrics endpoint.

#![allow(clippy::missing_errors_doc)]

pub mod databases;
pub mod metrics;
mod signals;

pub use databases::containers_now;
pub use metrics::{METRICS, MetricsServer, Scrape, SeriesLabels, TokenCheck};
pub use signals::{CaptureSignals, EndRequest, EndSignals, or_never, process_cpu, runtime};
