//! All findings of a run.

use crate::finding::Finding;
use crate::seen::Seen;
use serde::Serialize;

/// All findings of a run, the largest saving first.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// Bytes on the wire of all selected connections.
    pub wire_bytes: u64,
    /// Time that the application waited for answers, added up over operations, nanoseconds.
    pub waited_ns: u64,
    /// Operations of the application.
    pub operations: u64,
    /// Operations that were not looked at: of too many kinds, or beyond those that may be open at once.
    pub unlisted_operations: u64,
    /// By saving, largest first.
    pub findings: Vec<Finding>,
}

impl Advice {
    /// Settles and sorts what the rules found.
    pub fn new(seen: &Seen, mut findings: Vec<Finding>) -> Self {
        let (wire, waited) = (seen.wire(), seen.waited_ns());
        for finding in &mut findings {
            finding.settle(wire, waited);
        }
        findings.sort_by(|a, b| {
            let by_weight = b.weight().total_cmp(&a.weight());
            by_weight.then_with(|| (a.rule, &a.subject.name).cmp(&(b.rule, &b.subject.name)))
        });
        Self {
            wire_bytes: wire,
            waited_ns: waited,
            operations: seen.workload().map(|(_, row)| row.count).sum(),
            unlisted_operations: seen.unlisted,
            findings,
        }
    }
}
