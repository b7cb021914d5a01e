//! Cost limits for operations: budgets for runs, and permitted differences in comparisons.
//!
//! Anything that cannot be judged, such as a missing operation or an unmeasured metric, is a separate [`Finding`], so that a
//! gate never passes for lack of data.

mod against;
mod budget;
mod check;
mod finding;
mod metric;
mod write;

pub use against::{ChangeLimit, exceeded};
pub use budget::{Budget, BudgetError, OperationBudget, Tolerance, Unlisted};
pub use check::{check, incomplete};
pub use finding::{Change, Changes, Finding, Judged, Severity, status};
pub use finding::{FindingForm, findings};
pub use metric::{BudgetMetric, MetricError};
pub use write::budget_of;

/// An operation below one part in this many of a run's workload operations, and of their bytes, is neither added to a budget
/// nor missed in one: a driver's initial queries are not its subject.
const NEGLIGIBLE: u64 = 100;

#[cfg(test)]
mod tests;
