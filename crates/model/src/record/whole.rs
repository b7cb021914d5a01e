//! The whole cost of a run's work: all bytes of its connections, not only those of the operations that an application asked for.

use super::{Measured, OperationRow, TcpTotals};
use crate::operation::Class;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All traffic of the selected connections, over the operations of class workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Whole {
    /// Operations of class workload: the divisor.
    pub operations: u64,
    /// Bytes on the wire, of every class and in both directions.
    pub wire_bytes: u64,
    /// TCP payload, each byte once.
    pub payload_bytes: u64,
    /// Frames.
    pub frames: Measured<u64>,
    /// Times that a client waited for its server, with TCP handshakes.
    pub round_trips: Measured<u64>,
    /// Connections.
    pub connections: u64,
    /// `wire_bytes` over `operations`; unavailable without an operation, like the next three.
    pub wire_bytes_per_operation: Measured<f64>,
    /// `payload_bytes` over `operations`.
    pub payload_bytes_per_operation: Measured<f64>,
    /// `frames` over `operations`.
    pub frames_per_operation: Measured<f64>,
    /// `round_trips` over `operations`.
    pub round_trips_per_operation: Measured<f64>,
    /// The parts of each class; all classes are present.
    pub by_class: BTreeMap<Class, ClassCost>,
    /// The caller's own unit of work; absent unless requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<WorkUnits>,
}

/// A class's part of the whole cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassCost {
    /// Operations.
    pub count: u64,
    /// Bytes on the wire.
    pub wire_bytes: u64,
    /// Round trips that its operations started.
    pub round_trips: Measured<u64>,
}

/// An amount of work that the caller counts, such as 400 pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkUnits {
    /// How many; above 0.
    pub units: f64,
    /// Name of one unit.
    pub name: String,
}

impl Whole {
    /// Returns the whole cost of these rows, which are all rows of the selected connections.
    pub fn new(rows: &[OperationRow], tcp: &TcpTotals) -> Self {
        let mut whole = Self {
            frames: Measured::Value(tcp.frames),
            connections: tcp.connections,
            by_class: Class::ALL.into_iter().map(|class| (class, ClassCost::default())).collect(),
            ..Self::default()
        };
        for row in rows {
            let wire = row.request.wire_bytes.total + row.response.wire_bytes.total;
            whole.wire_bytes += wire;
            whole.payload_bytes += row.request.payload_bytes.total + row.response.payload_bytes.total;
            whole.round_trips.add(&row.round_trips);
            let class = whole.by_class.entry(row.class).or_default();
            class.count += row.count;
            class.wire_bytes += wire;
            class.round_trips.add(&row.round_trips);
        }
        whole.operations = whole.class(Class::Workload).count;
        whole.divide();
        whole
    }

    /// Adds the whole cost of another run. Units of work add up if both have the same.
    pub fn add(&mut self, other: &Self) {
        crate::add_fields!(self, other => operations, wire_bytes, payload_bytes, connections);
        self.frames.add(&other.frames);
        self.round_trips.add(&other.round_trips);
        for (class, cost) in &other.by_class {
            let mine = self.by_class.entry(*class).or_default();
            crate::add_fields!(mine, cost => count, wire_bytes);
            mine.round_trips.add(&cost.round_trips);
        }
        self.work = match (self.work.take(), &other.work) {
            (Some(mine), Some(others)) if mine.name == others.name => {
                Some(WorkUnits { units: mine.units + others.units, name: mine.name })
            }
            _ => None,
        };
        self.divide();
    }

    /// Returns what the cost is divided by: the caller's units of work, or else the operations; `None` without any.
    pub fn divisor(&self) -> Option<f64> {
        let units = self.work.as_ref().map_or(self.operations as f64, |work| work.units);
        (units > 0.0).then_some(units)
    }

    /// Withholds what records before version 3 lack.
    #[must_use]
    pub fn without_waits(mut self) -> Self {
        self.frames = Measured::not_recorded();
        self.divide();
        self
    }

    fn divide(&mut self) {
        let divided = |amount: &Measured<u64>| match amount.as_result() {
            _ if self.operations == 0 => Measured::unavailable("there is no operation of class workload"),
            Ok(amount) => Measured::Value(*amount as f64 / self.operations as f64),
            Err(reason) => Measured::unavailable(reason),
        };
        let wire = divided(&Measured::Value(self.wire_bytes));
        let payload = divided(&Measured::Value(self.payload_bytes));
        let (frames, round_trips) = (divided(&self.frames), divided(&self.round_trips));
        (self.wire_bytes_per_operation, self.payload_bytes_per_operation) = (wire, payload);
        (self.frames_per_operation, self.round_trips_per_operation) = (frames, round_trips);
    }

    /// Returns the part of a class.
    pub fn class(&self, class: Class) -> ClassCost {
        self.by_class.get(&class).cloned().unwrap_or_default()
    }

    /// Returns whether setup and background together exceed a fiftieth of the wire, so that a mean of operations hides them.
    pub fn has_notable_overhead(&self) -> bool {
        let beside = self.class(Class::Setup).wire_bytes + self.class(Class::Background).wire_bytes;
        beside.saturating_mul(50) > self.wire_bytes
    }
}
