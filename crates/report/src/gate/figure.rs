//! The figures that a limit can be set on, all per operation, and their names.

use crate::compare::PERCENTILES;
use crate::summary::RoleName;
use crate::sums::OperationSum;
use crate::text::number::{bytes_label, decimal, significant};
use overhead_model::{Account, Side};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A figure per operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Figure {
    /// `request.wire`: bytes on the wire of a direction.
    Wire(Side),
    /// `request.payload`: TCP payload of a direction.
    Payload(Side),
    /// `request.frames`: frames of a direction.
    Frames(Side),
    /// `request.headers`: headers of a direction's frames with payload. An acknowledgment that travels alone, which depends on the time,
    /// has none of them.
    Headers(Side),
    /// `response.schema`: bytes of one account of a direction.
    Account(Side, Account),
    /// `latency.p99`: a percentile of the latency in nanoseconds, by its place among those that are compared.
    Latency(Percentile),
    /// `syscalls`, `client.syscalls`: system calls per workload operation, of all together.
    Syscalls(Process),
    /// `cycles`, `client.cycles`: CPU cycles per workload operation, of all together.
    Cycles(Process),
}

/// The accounts of headers.
const HEADERS: [Account; 3] = [Account::Link, Account::Ip, Account::Tcp];

/// A percentile that a limit can be set on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percentile(usize);

/// Whose processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Process {
    /// The server's.
    Server,
    /// The client's.
    Client,
}

/// A name that is no figure's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0}: no such figure; there are request and response with .wire, .payload, .headers, .frames or an account (response.schema), \
     latency.p50, latency.p90, latency.p99, latency.p999, syscalls, client.syscalls, cycles and client.cycles"
)]
pub struct FigureError(String);

impl Process {
    /// Returns the role in the counters.
    pub(crate) const fn role(self) -> RoleName {
        match self {
            Self::Server => RoleName::Server,
            Self::Client => RoleName::Client,
        }
    }
}

impl Figure {
    /// Returns whether it is one of each operation; otherwise it is one of all workload operations together.
    pub(crate) const fn is_of_operation(self) -> bool {
        !matches!(self, Self::Syscalls(_) | Self::Cycles(_))
    }

    /// Returns the direction whose bytes or frames it is of.
    pub(crate) const fn side(self) -> Option<Side> {
        match self {
            Self::Wire(side)
            | Self::Payload(side)
            | Self::Frames(side)
            | Self::Headers(side)
            | Self::Account(side, _) => Some(side),
            Self::Latency(_) | Self::Syscalls(_) | Self::Cycles(_) => None,
        }
    }

    /// Returns whether the bytes of an account count in it.
    pub(crate) fn holds(self, account: Account) -> bool {
        match self {
            Self::Wire(_) => true,
            Self::Payload(_) => account.is_payload(),
            Self::Headers(_) => HEADERS.contains(&account),
            Self::Account(_, of) => account == of,
            Self::Frames(_) | Self::Latency(_) | Self::Syscalls(_) | Self::Cycles(_) => false,
        }
    }

    /// Returns the figure of these operations, of several runs the mean; `None` where they have none, or where it is not one
    /// of an operation.
    pub(crate) fn of(self, sum: &OperationSum) -> Option<f64> {
        match self {
            Self::Wire(side) => Some(sum.wire(side)),
            Self::Payload(side) => Some(sum.payload(side)),
            Self::Frames(side) => Some(sum.per_operation(sum.sides[side as usize].frames)),
            Self::Headers(side) => Some(HEADERS.iter().map(|account| sum.bytes(side, *account)).sum()),
            Self::Account(side, account) => Some(sum.bytes(side, account)),
            Self::Latency(percentile) => crate::compare::mean(&sum.latencies(percentile.of())),
            Self::Syscalls(_) | Self::Cycles(_) => None,
        }
    }

    /// Returns a value of it with its unit: `155 B`, `2.01 calls`.
    pub(crate) fn with_unit(self, value: f64) -> String {
        match self {
            Self::Wire(_) | Self::Payload(_) | Self::Headers(_) | Self::Account(..) => {
                format!("{} B", bytes_label(value))
            }
            Self::Frames(_) => format!("{} frames", significant(value)),
            Self::Latency(_) => format!("{} µs", decimal(value / 1e3)),
            Self::Syscalls(_) => format!("{} calls", significant(value)),
            Self::Cycles(_) => format!("{} cycles", significant(value)),
        }
    }
}

impl Percentile {
    /// Returns how it is read from a record.
    pub(crate) fn of(self) -> fn(&overhead_model::record::Latency) -> f64 {
        PERCENTILES[self.0].1
    }

    /// Returns its place among those that are compared.
    pub(crate) const fn place(self) -> usize {
        self.0
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wire(side) => write!(f, "{}.wire", side.name()),
            Self::Payload(side) => write!(f, "{}.payload", side.name()),
            Self::Frames(side) => write!(f, "{}.frames", side.name()),
            Self::Headers(side) => write!(f, "{}.headers", side.name()),
            Self::Account(side, account) => write!(f, "{}.{account}", side.name()),
            Self::Latency(Percentile(at)) => write!(f, "latency.{}", PERCENTILES[*at].0),
            Self::Syscalls(Process::Server) => f.write_str("syscalls"),
            Self::Syscalls(Process::Client) => f.write_str("client.syscalls"),
            Self::Cycles(Process::Server) => f.write_str("cycles"),
            Self::Cycles(Process::Client) => f.write_str("client.cycles"),
        }
    }
}

impl FromStr for Figure {
    type Err = FigureError;

    fn from_str(text: &str) -> Result<Self, FigureError> {
        let unknown = || FigureError(text.to_owned());
        let (whose, what) = text.split_once('.').unwrap_or(("server", text));
        let process = match whose {
            "server" => Some(Process::Server),
            "client" => Some(Process::Client),
            _ => None,
        };
        if let Some(process) = process {
            return match what {
                "syscalls" => Ok(Self::Syscalls(process)),
                "cycles" => Ok(Self::Cycles(process)),
                _ => Err(unknown()),
            };
        }
        if whose == "latency" {
            let place = PERCENTILES.iter().position(|(name, _)| *name == what);
            return place.map(|at| Self::Latency(Percentile(at))).ok_or_else(unknown);
        }
        let side = Side::BOTH.into_iter().find(|side| side.name() == whose).ok_or_else(unknown)?;
        match what {
            "wire" => Ok(Self::Wire(side)),
            "payload" => Ok(Self::Payload(side)),
            "frames" => Ok(Self::Frames(side)),
            "headers" => Ok(Self::Headers(side)),
            account => Account::from_name(account).map(|account| Self::Account(side, account)).ok_or_else(unknown),
        }
    }
}

impl TryFrom<String> for Figure {
    type Error = FigureError;

    fn try_from(text: String) -> Result<Self, FigureError> {
        text.parse()
    }
}

impl From<Figure> for String {
    fn from(figure: Figure) -> Self {
        figure.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for name in
            ["request.wire", "response.payload", "request.frames", "response.headers", "latency.p50", "syscalls"]
        {
            assert_eq!(name.parse::<Figure>().unwrap().to_string(), name);
        }
        for account in Account::ALL {
            let figure = Figure::Account(Side::Response, account);
            assert_eq!(figure.to_string().parse(), Ok(figure));
        }
        assert_eq!("server.cycles".parse(), Ok(Figure::Cycles(Process::Server)));
        for name in ["", "wire", "response", "response.", "latency", "latency.p5", "Request.wire", "other.syscalls"] {
            assert!(name.parse::<Figure>().is_err(), "{name}");
        }
    }
}
