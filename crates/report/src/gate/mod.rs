//! Limits on what operations may cost: a budget that runs are held against, and differences that a comparison must not exceed.
//!
//! Whatever cannot be judged - an operation that is not there, a figure that was not measured - is a [`Finding`] of its own,
//! so that a gate never passes because there was nothing to look at.

mod against;
mod budget;
mod check;
mod figure;
mod finding;
mod print;
mod write;

pub use against::{ChangeLimit, exceeded};
pub use budget::{Budget, BudgetError, OperationBudget, Tolerance, Unlisted};
pub use check::{check, incomplete};
pub use figure::{Figure, FigureError};
pub use finding::{Change, Finding, Severity, status};
pub use print::{FindingForm, findings};
pub use write::budget_of;

/// An operation below one in this many of a run's workload operations, and of their bytes, is neither written into a budget
/// nor missed in one: what a driver asks once at its start is not what it costs.
const NEGLIGIBLE: u64 = 100;

#[cfg(test)]
mod tests;
