//! A run as it would be farther from its server: modelled, not measured.

use super::{Measured, OperationRow, Whole};
use crate::operation::Class;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Times of a run's operations at another round-trip time. The congestion window is not modelled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distance {
    /// The round-trip time of the model.
    pub rtt_ns: u64,
    /// The round-trip time of the run: the smallest latency of its operations; unavailable without one.
    pub measured_rtt_ns: Measured<u64>,
    /// Time that a connection waits per operation of class workload, whatever it waits for: its round trips at `rtt_ns`.
    pub elapsed_ns_per_operation: Measured<u64>,
    /// The operations of class workload, in the order of the record.
    pub operations: Vec<DistantRow>,
}

/// The times of a row at another round-trip time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DistantRow {
    /// Protocol name.
    pub protocol: String,
    /// Name of the operation.
    pub name: String,
    /// How it was sent.
    pub via: String,
    /// Operations.
    pub count: u64,
    /// Median latency: the measured one less `measured_rtt_ns` plus `rtt_ns`, because each operation waits at least once.
    pub latency_p50_ns: Measured<u64>,
    /// Time that a connection waits per operation for the round trips that these operations started.
    pub elapsed_ns_per_operation: Measured<u64>,
}

impl Distance {
    /// Models a run with these rows at a round-trip time.
    pub fn new(rtt_ns: u64, rows: &[OperationRow], whole: &Whole) -> Self {
        let rows: Vec<_> = rows.iter().filter(|row| row.class == Class::Workload && row.count > 0).collect();
        let shortest = rows.iter().filter_map(|row| row.latency_ns.value().filter(|latency| latency.count > 0));
        let measured_rtt_ns = match shortest.map(|latency| latency.min).min() {
            Some(ns) => Measured::Value(ns),
            None => Measured::unavailable("no latency was measured"),
        };
        let elapsed = |round_trips: &Measured<u64>, operations: u64| match round_trips.as_result() {
            _ if operations == 0 => Measured::unavailable("there is no operation of class workload"),
            Ok(count) => Measured::Value((*count as f64 * rtt_ns as f64 / operations as f64).round() as u64),
            Err(reason) => Measured::unavailable(reason),
        };
        let row = |row: &OperationRow| DistantRow {
            protocol: row.protocol.clone(),
            name: row.name.clone(),
            via: row.via.clone(),
            count: row.count,
            latency_p50_ns: match (measured_rtt_ns.as_result(), row.latency_ns.as_result()) {
                (Err(reason), _) | (_, Err(reason)) => Measured::unavailable(reason),
                (Ok(_), Ok(latency)) if latency.count == 0 => Measured::unavailable("no latency was measured"),
                (Ok(measured), Ok(latency)) => Measured::Value(latency.p50.saturating_sub(*measured) + rtt_ns),
            },
            elapsed_ns_per_operation: elapsed(&row.round_trips, row.count),
        };
        let operations = rows.into_iter().map(row).collect();
        let elapsed_ns_per_operation = elapsed(&whole.round_trips, whole.operations);
        Self { rtt_ns, measured_rtt_ns, elapsed_ns_per_operation, operations }
    }
}
