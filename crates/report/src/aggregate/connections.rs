//! The largest connections of a capture, and the number of others.

use crate::limits::CONNECTIONS;
use overhead_model::record::Connection;
use overhead_model::{ConnectionSummary, Measured};
use std::cmp::{Ordering, Reverse};

/// The [`CONNECTIONS`] largest connections pushed. Holds at most twice as many, so that a push is cheap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Largest {
    kept: Vec<ConnectionSummary>,
    seen: u64,
}

impl Largest {
    pub(crate) fn push(&mut self, summary: ConnectionSummary) {
        self.seen += 1;
        self.keep(summary);
    }

    pub(crate) fn omitted(&self) -> u64 {
        self.seen - self.kept.len().min(CONNECTIONS) as u64
    }

    pub(crate) fn to_record(&self) -> Vec<Connection> {
        let mut sorted: Vec<_> = self.kept.iter().collect();
        sorted.sort_unstable_by(|a, b| order(a, b));
        sorted.into_iter().take(CONNECTIONS).map(row).collect()
    }

    fn keep(&mut self, summary: ConnectionSummary) {
        self.kept.push(summary);
        if self.kept.len() >= 2 * CONNECTIONS {
            self.kept.select_nth_unstable_by(CONNECTIONS - 1, order);
            self.kept.truncate(CONNECTIONS);
        }
    }
}

/// Orders by size, largest first; a total order keeps the selection independent of arrival.
fn order(a: &ConnectionSummary, b: &ConnectionSummary) -> Ordering {
    let head = |c: &ConnectionSummary| (Reverse(c.wire_bytes), c.client, c.server, c.first_ns);
    let tail =
        |c: &ConnectionSummary| (c.protocol, c.transport, c.operations, (c.tls, c.encrypted), c.server_decided_by);
    let said = |c: &ConnectionSummary| (c.server_software.clone(), c.client_software.clone());
    head(a).cmp(&head(b)).then_with(|| tail(a).cmp(&tail(b))).then_with(|| said(a).cmp(&said(b)))
}

fn row(summary: &ConnectionSummary) -> Connection {
    Connection {
        client: summary.client_name(),
        server: summary.server_name(),
        transport: Some(summary.transport),
        protocol: summary.protocol.name().to_owned(),
        server_software: summary.server_software.clone(),
        client_software: summary.client_software.clone(),
        tls: summary.tls,
        encrypted: summary.encrypted,
        server_decided_by: summary.server_decided_by,
        operations: summary.operations,
        wire_bytes: summary.wire_bytes,
        round_trips: Measured::Value(summary.round_trips),
        round_trips_to_answer: match summary.round_trips_to_answer {
            Some(count) => Measured::Value(count),
            None => Measured::unavailable("no operation of class workload was answered"),
        },
        kernel: Measured::unavailable("the kernel's TCP counters were not read"),
    }
}
