//! Builds the run record from an aggregate and facts about its source.

use super::Aggregate;
use crate::bounds::losses;
use crate::number::grouped;
use overhead_model::exit::PARTIAL;
use overhead_model::record::{
    Connection, Counters, Environment, Ledger, Observer, OperationRow, Run, SCHEMA_VERSION, Source, TcpTotals, Tool,
    Whole,
};
use overhead_model::{Measured, Side, Transport};
use std::collections::BTreeMap;

/// A record's content apart from operations and connections.
#[derive(Clone, Debug)]
pub struct RunFacts {
    /// Program that makes the record.
    pub tool: Tool,
    /// Machine and command of a live run.
    pub environment: Option<Environment>,
    /// Origin and totals of the frames.
    pub source: Source,
    /// What the connections ran over.
    pub transport: Transport,
    /// Transport totals over the selected connections.
    pub tcp: TcpTotals,
    /// Bytes of frames without a selected connection.
    pub other_bytes: u64,
    /// Kernel counters of both roles, or why there are none.
    pub counters: Measured<Counters>,
    /// Cost of measuring.
    pub observer: Observer,
    /// Warnings as complete sentences, kept in this order.
    pub warnings: Vec<String>,
    /// Exit status so far: 0 complete, 3 partial. An unbalanced ledger makes it 3.
    pub exit: u8,
}

/// Builds the record of a run from the aggregate, and its operations and connections. Its ledger and a warning state any imbalance.
pub fn build_run(
    aggregate: &Aggregate,
    operations: Vec<OperationRow>,
    mut connections: Vec<Connection>,
    facts: RunFacts,
) -> Run {
    for connection in &mut connections {
        connection.transport = connection.transport.filter(|of| *of != facts.transport);
    }
    let ledger = balance(aggregate, facts.source.wire_bytes, facts.other_bytes);
    let mut warnings = facts.warnings;
    warnings.extend(aggregate.warnings());
    warnings.extend(imbalance_warning(&ledger));
    let lower_bounds = losses(&facts.source, &facts.tcp);
    let whole = Whole::new(&operations, &facts.tcp);
    Run {
        schema_version: SCHEMA_VERSION,
        tool: facts.tool,
        environment: facts.environment,
        source: facts.source,
        transport: facts.transport,
        sample: None,
        tcp: facts.tcp,
        ledger,
        whole,
        parameters: BTreeMap::new(),
        reported: Vec::new(),
        operations,
        connections,
        connections_omitted: aggregate.connections_omitted(),
        counters: facts.counters,
        observer: facts.observer,
        lower_bounds,
        warnings,
        peers: aggregate.by_peer(),
        projection: None,
        distances: Vec::new(),
        view: None,
        exit: if ledger.balanced { facts.exit } else { facts.exit.max(PARTIAL) },
    }
}

/// Returns the ledger of the aggregate for these totals of wire bytes and bytes without a selected connection.
pub fn balance(aggregate: &Aggregate, wire_bytes: u64, other: u64) -> Ledger {
    let (request, response) = (aggregate.ledger(Side::Request), aggregate.ledger(Side::Response));
    let posted = i128::from(request.total()) + i128::from(response.total()) + i128::from(other);
    let exact = i128::from(wire_bytes) - posted;
    let difference = i64::try_from(exact).unwrap_or(if exact < 0 { i64::MIN } else { i64::MAX });
    Ledger { balanced: difference == 0, difference, request, response, other }
}

fn imbalance_warning(ledger: &Ledger) -> Option<String> {
    let off = grouped(ledger.difference.unsigned_abs());
    let how = if ledger.difference > 0 { "were posted nowhere" } else { "were posted more than once" };
    (!ledger.balanced)
        .then(|| format!("the ledger does not balance: {off} bytes {how}; this is a bug in the tool, please report it"))
}
