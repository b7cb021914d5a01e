//! Metrics that budgets can limit, all per operation, and their names.

use crate::compare::PERCENTILES;
use crate::number::{bytes_label, decimal, significant};
use crate::summary::RoleName;
use crate::sums::OperationSum;
use overhead_model::record::Whole;
use overhead_model::{Account, Class, Measured, Side};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A number per operation or run that a budget can limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum BudgetMetric {
    /// `request.wire`: bytes on the wire in one direction.
    Wire(Side),
    /// `request.payload`: TCP payload in one direction.
    Payload(Side),
    /// `request.frames`: frames in one direction.
    Frames(Side),
    /// `request.headers`: headers of one direction's frames with payload. Excludes pure acknowledgments, which depend on
    /// timing.
    Headers(Side),
    /// `response.schema`: bytes of one account in one direction.
    Account(Side, Account),
    /// `latency.p99`: a latency percentile in nanoseconds, by its index among those compared.
    Latency(LatencyPercentile),
    /// `syscalls`, `client.syscalls`: all system calls per workload operation.
    Syscalls(RoleName),
    /// `cycles`, `client.cycles`: all CPU cycles per workload operation.
    Cycles(RoleName),
    /// `wire`, `round-trips`: a part of the whole cost per workload operation.
    Whole(WholeMetric),
}

overhead_model::enum_with! {
    /// A part of the whole cost, per workload operation or per unit of work.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum WholeMetric, name: &'static str {
        /// Bytes on the wire.
        Wire = "wire",
        /// TCP payload.
        Payload = "payload",
        /// Frames.
        Frames = "frames",
        /// Round trips.
        RoundTrips = "round-trips",
        /// Bytes on the wire of class setup.
        Setup = "setup",
    }
}

impl WholeMetric {
    /// Returns the total of a run, or why it is unknown.
    pub(crate) fn total(self, whole: &Whole) -> Result<u64, String> {
        let measured = |value: &Measured<u64>| value.as_result().copied().map_err(str::to_owned);
        match self {
            Self::Wire => Ok(whole.wire_bytes),
            Self::Payload => Ok(whole.payload_bytes),
            Self::Frames => measured(&whole.frames),
            Self::RoundTrips => measured(&whole.round_trips),
            Self::Setup => Ok(whole.class(Class::Setup).wire_bytes),
        }
    }
}

const HEADERS: [Account; 3] = [Account::Link, Account::Ip, Account::Tcp];

/// A latency percentile that a budget can limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LatencyPercentile(usize);

/// An unknown metric name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0}: unknown metric; use wire, payload, frames, round-trips or setup for the whole cost, request or response with .wire, .payload, .headers, .frames or an account (response.schema), \
     latency.p50, latency.p90, latency.p99, latency.p999, syscalls, client.syscalls, cycles and client.cycles"
)]
pub struct MetricError(String);

impl BudgetMetric {
    fn all() -> impl Iterator<Item = Self> {
        let of_side = |side| {
            let sums = [Self::Wire(side), Self::Payload(side), Self::Frames(side), Self::Headers(side)];
            sums.into_iter().chain(Account::ALL.map(|account| Self::Account(side, account)))
        };
        let latencies = (0..PERCENTILES.len()).map(|at| Self::Latency(LatencyPercentile(at)));
        let of_roles = RoleName::ALL.into_iter().flat_map(|role| [Self::Syscalls(role), Self::Cycles(role)]);
        let whole = WholeMetric::ALL.into_iter().map(Self::Whole);
        Side::BOTH.into_iter().flat_map(of_side).chain(latencies).chain(of_roles).chain(whole)
    }

    /// Returns whether the metric applies to single operations rather than all workload operations.
    pub(crate) const fn is_of_operation(self) -> bool {
        !matches!(self, Self::Syscalls(_) | Self::Cycles(_) | Self::Whole(_))
    }

    /// Returns the direction of the metric's bytes or frames.
    pub(crate) const fn side(self) -> Option<Side> {
        match self {
            Self::Wire(side)
            | Self::Payload(side)
            | Self::Frames(side)
            | Self::Headers(side)
            | Self::Account(side, _) => Some(side),
            Self::Latency(_) | Self::Syscalls(_) | Self::Cycles(_) | Self::Whole(_) => None,
        }
    }

    /// Returns whether the metric includes an account.
    pub(crate) fn holds(self, account: Account) -> bool {
        match self {
            Self::Wire(_) => true,
            Self::Payload(_) => account.is_payload(),
            Self::Headers(_) => HEADERS.contains(&account),
            Self::Account(_, of) => account == of,
            Self::Frames(_) | Self::Latency(_) | Self::Syscalls(_) | Self::Cycles(_) | Self::Whole(_) => false,
        }
    }

    /// Returns the metric for these operations, averaged over several runs; `None` if they lack it or it does not apply to
    /// single operations.
    pub(crate) fn value(self, sum: &OperationSum) -> Option<f64> {
        match self {
            Self::Wire(side) => Some(sum.wire(side)),
            Self::Payload(side) => Some(sum.payload(side)),
            Self::Frames(side) => Some(sum.per_operation(sum.sides[side as usize].frames)),
            Self::Headers(side) => Some(HEADERS.iter().map(|account| sum.bytes(side, *account)).sum()),
            Self::Account(side, account) => Some(sum.bytes(side, account)),
            Self::Latency(percentile) => crate::compare::mean(&sum.latencies(percentile.accessor())),
            Self::Syscalls(_) | Self::Cycles(_) | Self::Whole(_) => None,
        }
    }

    /// Returns whether it counts bytes.
    pub(crate) const fn is_bytes(self) -> bool {
        use WholeMetric::{Payload, Setup, Wire};
        matches!(
            self,
            Self::Wire(_)
                | Self::Payload(_)
                | Self::Headers(_)
                | Self::Account(..)
                | Self::Whole(Wire | Payload | Setup)
        )
    }

    /// Formats a value with the metric's unit: `155 B`, `2.01 calls`.
    pub(crate) fn with_unit(self, value: f64) -> String {
        match self {
            _ if self.is_bytes() => format!("{} B", bytes_label(value)),
            Self::Whole(WholeMetric::RoundTrips) => format!("{} round trips", significant(value)),
            Self::Latency(_) => format!("{} µs", decimal(value / 1e3)),
            Self::Syscalls(_) => format!("{} calls", significant(value)),
            Self::Cycles(_) => format!("{} cycles", significant(value)),
            _ => format!("{} frames", significant(value)),
        }
    }

    /// Rounds bytes as [`BudgetMetric::with_unit`] prints them, so that printed values have the printed difference.
    pub(crate) fn printed(self, value: f64) -> f64 {
        let places = if value < 1_000.0 { 10.0 } else { 1.0 };
        if self.is_bytes() { (value * places).round() / places } else { value }
    }
}

impl LatencyPercentile {
    /// Returns the accessor for a record.
    pub(crate) fn accessor(self) -> fn(&overhead_model::record::Latency) -> f64 {
        PERCENTILES[self.0].1
    }
}

impl fmt::Display for BudgetMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wire(side) => write!(f, "{}.wire", side.name()),
            Self::Payload(side) => write!(f, "{}.payload", side.name()),
            Self::Frames(side) => write!(f, "{}.frames", side.name()),
            Self::Headers(side) => write!(f, "{}.headers", side.name()),
            Self::Account(side, account) => write!(f, "{}.{account}", side.name()),
            Self::Latency(LatencyPercentile(at)) => write!(f, "latency.{}", PERCENTILES[*at].0),
            Self::Syscalls(RoleName::Server) => f.write_str("syscalls"),
            Self::Syscalls(RoleName::Client) => f.write_str("client.syscalls"),
            Self::Cycles(RoleName::Server) => f.write_str("cycles"),
            Self::Cycles(RoleName::Client) => f.write_str("client.cycles"),
            Self::Whole(whole) => f.write_str(whole.name()),
        }
    }
}

impl FromStr for BudgetMetric {
    type Err = MetricError;

    fn from_str(text: &str) -> Result<Self, MetricError> {
        // `server.cycles` is the same as `cycles`.
        let name = text.strip_prefix("server.").filter(|name| !name.contains('.')).unwrap_or(text);
        Self::all().find(|metric| metric.to_string() == name).ok_or_else(|| MetricError(text.to_owned()))
    }
}

impl TryFrom<String> for BudgetMetric {
    type Error = MetricError;

    fn try_from(text: String) -> Result<Self, MetricError> {
        text.parse()
    }
}

impl From<BudgetMetric> for String {
    fn from(metric: BudgetMetric) -> Self {
        metric.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for name in [
            "request.wire",
            "response.payload",
            "request.frames",
            "response.headers",
            "latency.p50",
            "syscalls",
            "wire",
            "setup",
        ] {
            assert_eq!(name.parse::<BudgetMetric>().unwrap().to_string(), name);
        }
        for account in Account::ALL {
            let metric = BudgetMetric::Account(Side::Response, account);
            assert_eq!(metric.to_string().parse(), Ok(metric));
        }
        assert_eq!("server.cycles".parse(), Ok(BudgetMetric::Cycles(RoleName::Server)));
        for name in ["", "Wire", "response", "response.", "latency", "latency.p5", "Request.wire", "other.syscalls"] {
            assert!(name.parse::<BudgetMetric>().is_err(), "{name}");
        }
    }
}
