use crate::finding::AdviceFinding;
use crate::seen::SeenTraffic;
use schemars::JsonSchema;
use serde::Serialize;

/// All findings of a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Advice {
    /// Bytes of all selected connections.
    pub wire_bytes: u64,
    /// Total latency of the application's operations.
    pub waited_ns: u64,
    /// Operations of the application.
    pub operations: u64,
    /// Ignored operations: too many rows, or too many open at once.
    pub unlisted_operations: u64,
    /// The largest saving first.
    pub findings: Vec<AdviceFinding>,
}

impl Advice {
    pub fn new(seen: &SeenTraffic, mut findings: Vec<AdviceFinding>) -> Self {
        let (wire, waited) = (seen.wire(), seen.waited_ns());
        let extra = findings.iter().filter(|finding| finding.is_extra_time).filter_map(|finding| finding.saving.ns);
        let total = waited.saturating_add(extra.sum());
        for finding in &mut findings {
            finding.settle(wire, total);
        }
        let by_weight = |a: &AdviceFinding, b: &AdviceFinding| {
            let by_weight = b.weight().total_cmp(&a.weight());
            by_weight.then_with(|| (a.rule, &a.subject.name).cmp(&(b.rule, &b.subject.name)))
        };
        findings.sort_by(by_weight);
        // Several remedies may save the same time.
        let mut left = 100.0;
        for share in findings.iter_mut().filter_map(|finding| finding.saving.percent_of_waiting.as_mut()) {
            *share = share.min(left);
            left -= *share;
        }
        findings.sort_by(by_weight);
        Self {
            wire_bytes: wire,
            waited_ns: waited,
            operations: seen.rows.iter().filter(|row| row.is_workload()).map(|row| row.count).sum(),
            unlisted_operations: seen.unlisted,
            findings,
        }
    }
}
