//! The agent's metrics, in the OpenMetrics text format.

use super::metrics::{AgentMetric, METRICS, MetricKind};
use super::totals::AgentTotals;
use overhead_host::metrics::{counter, gauge, text_of};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

/// Returns all metrics as text.
pub fn exposition(totals: AgentTotals) -> String {
    text_of(Exposition(totals))
}

#[derive(Debug)]
struct Exposition(AgentTotals);

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        METRICS.iter().try_for_each(|AgentMetric { name, help, kind, .. }| {
            let name = format!("overhead_agent_{name}");
            match kind {
                MetricKind::Counter(read) => counter(&mut encoder, &name, help, read(&self.0)),
                MetricKind::Amount(read) => counter(&mut encoder, &name, help, read(&self.0)),
                MetricKind::Gauge(read) => gauge(&mut encoder, &name, help, read(&self.0)),
            }
        })
    }
}
