//! A budget for operations, in a TOML file that people read and edit.

use super::{BudgetMetric, MetricError};
use overhead_model::{Account, Class, Side};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The only supported version of the file.
pub(super) const VERSION: u32 = 1;

/// Limits for runs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    version: u32,
    /// How to treat workload operations that the budget does not list.
    #[serde(default)]
    pub unlisted: Unlisted,
    /// Limits for all operations together, setup included, per workload operation.
    #[serde(default)]
    pub run: BTreeMap<BudgetMetric, Allowed>,
    /// Composition of all operations' bytes when the budget was written.
    #[serde(default)]
    pub made_of: Option<MadeOf>,
    /// Limits of single operations and statements.
    #[serde(default, rename = "operation")]
    pub operations: Vec<OperationBudget>,
}

/// Composition of all operations' bytes per workload operation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MadeOf {
    /// Bytes by metric of a single account.
    #[serde(default)]
    pub accounts: BTreeMap<BudgetMetric, f64>,
    /// Payload by operation, such as `request.payload setup PREPARE`.
    #[serde(default)]
    pub operations: BTreeMap<String, f64>,
}

/// Limits for operations of one name or statement.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperationBudget {
    /// Protocol name, as in the record.
    pub protocol: String,
    /// Class; `workload` if the file has none.
    #[serde(default = "workload")]
    pub class: Class,
    /// Name, as in the record.
    pub name: String,
    /// Statement; absent for all operations of the name.
    #[serde(default)]
    pub statement: Option<String>,
    /// Operation count when the budget was written; not checked.
    #[serde(default)]
    pub count: Option<u64>,
    /// Limits per operation.
    pub budget: BTreeMap<BudgetMetric, Allowed>,
    /// Bytes per operation when the budget was written, by metric of a single account.
    #[serde(default)]
    pub accounts: BTreeMap<BudgetMetric, f64>,
    /// Bytes per operation by field, such as `response.schema row description.column.name`.
    #[serde(default)]
    pub fields: Option<BTreeMap<String, f64>>,
}

/// The upper limit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(from = "AllowedForm")]
pub struct Allowed {
    /// Value per operation.
    pub budget: f64,
    pub tolerance: Tolerance,
}

/// The form in the file: a number, optionally with a tolerance.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number, or { budget = 155, tolerance = \"1%\" }")]
enum AllowedForm {
    Number(f64),
    #[serde(rename_all = "lowercase")]
    Tolerant {
        budget: f64,
        tolerance: Tolerance,
    },
}

impl From<AllowedForm> for Allowed {
    fn from(form: AllowedForm) -> Self {
        match form {
            AllowedForm::Number(budget) => Self { budget, tolerance: Tolerance::Absolute(0.0) },
            AllowedForm::Tolerant { budget, tolerance } => Self { budget, tolerance },
        }
    }
}

impl Allowed {
    pub fn most(self) -> f64 {
        self.budget + self.tolerance.excess(self.budget)
    }
}

/// Permitted excess over a reference value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "ToleranceForm")]
pub enum Tolerance {
    /// Excess in the unit of the metric.
    Absolute(f64),
    /// Excess in percent of the reference.
    Percent(f64),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a tolerance: a number, or a percentage such as \"1%\"")]
enum ToleranceForm {
    Number(f64),
    Text(String),
}

impl TryFrom<ToleranceForm> for Tolerance {
    type Error = String;

    fn try_from(form: ToleranceForm) -> Result<Self, String> {
        match form {
            ToleranceForm::Number(number) => Some(Self::Absolute(number)),
            ToleranceForm::Text(text) => {
                text.strip_suffix('%').and_then(|number| number.trim().parse().ok()).map(Self::Percent)
            }
        }
        .filter(|tolerance| tolerance.is_sound())
        .ok_or_else(|| "a tolerance is a number of at least 0, or a percentage such as \"1%\"".to_owned())
    }
}

impl Tolerance {
    /// Returns the permitted excess over `reference`.
    pub fn excess(self, reference: f64) -> f64 {
        match self {
            Self::Absolute(by) => by,
            Self::Percent(percent) => reference * percent / 100.0,
        }
    }

    /// Returns whether the tolerance is finite and not negative.
    pub(super) fn is_sound(self) -> bool {
        let (Self::Absolute(by) | Self::Percent(by)) = self;
        by.is_finite() && by >= 0.0
    }
}

/// How to treat workload operations that a budget does not list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unlisted {
    /// Treats them as over budget.
    Fail,
    /// Names them.
    #[default]
    Warn,
    /// Ignores them.
    Ignore,
}

/// Why a file is not a valid budget.
#[derive(Debug, thiserror::Error)]
pub enum BudgetError {
    /// Not TOML, or not a budget.
    #[error("line {line}: {reason}")]
    Malformed {
        /// Line, from 1.
        line: usize,
        reason: String,
    },
    /// An unsupported version.
    #[error("version is {0}, this program reads {VERSION}")]
    Version(u32),
    /// No limits, so every run would pass.
    #[error("it has no limit, so every run would pass: write one with check --write, or add an [[operation]]")]
    Empty,
    /// The operation of this name has no limit in its `[operation.budget]`.
    #[error("{0} has no limit in its [operation.budget]")]
    NoLimit(String),
    /// A limit that no run can be checked against.
    #[error("{metric} of {of}: {reason}")]
    Limit {
        metric: BudgetMetric,
        /// The operation, or the run as a whole.
        of: String,
        reason: &'static str,
    },
    /// An unknown metric name.
    #[error(transparent)]
    Metric(#[from] MetricError),
}

fn workload() -> Class {
    Class::Workload
}

impl Budget {
    /// Parses a budget. Returns a [`BudgetError`] if it is malformed or could not fail any run.
    pub fn parse(text: &str) -> Result<Self, BudgetError> {
        let budget: Self = toml::from_str(text).map_err(|error| {
            let before = text.get(..error.span().map_or(0, |span| span.start)).unwrap_or_default();
            let reason = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
            BudgetError::Malformed { line: before.matches('\n').count() + 1, reason }
        })?;
        if budget.version != VERSION {
            return Err(BudgetError::Version(budget.version));
        }
        budget.limits_something()?;
        Ok(budget)
    }

    fn limits_something(&self) -> Result<(), BudgetError> {
        if self.run.is_empty() && self.operations.is_empty() {
            return Err(BudgetError::Empty);
        }
        sound("the run", &self.run, |metric| matches!(metric, BudgetMetric::Latency(_) | BudgetMetric::Cycles(_)))?;
        for operation in &self.operations {
            let label = operation.label();
            if operation.budget.is_empty() {
                return Err(BudgetError::NoLimit(label));
            }
            sound(&label, &operation.budget, |metric| !metric.is_of_operation())?;
        }
        Ok(())
    }
}

/// Checks that runs can be measured against all these limits.
fn sound(
    of: &str,
    limits: &BTreeMap<BudgetMetric, Allowed>,
    is_elsewhere: impl Fn(BudgetMetric) -> bool,
) -> Result<(), BudgetError> {
    for (metric, allowed) in limits {
        let reason = if !allowed.budget.is_finite() || allowed.budget < 0.0 {
            "a budget is a number of at least 0"
        } else if matches!(metric, BudgetMetric::Cycles(_)) {
            "cycles depend on the machine: compare two runs on it, with compare --fail-on"
        } else if is_elsewhere(*metric) {
            "bytes and frames are limited in [run] and [operation.budget], latency in [operation.budget], system calls in [run]"
        } else {
            continue;
        };
        return Err(BudgetError::Limit { metric: *metric, of: of.to_owned(), reason });
    }
    Ok(())
}

impl OperationBudget {
    /// Returns the statement, or the name if the budget covers all its operations.
    pub fn label(&self) -> String {
        self.statement.clone().unwrap_or_else(|| self.name.clone())
    }

    /// Returns a direction's recorded fields with their accounts, or `None` if the budget has none.
    pub(super) fn fields_of(&self, side: Side) -> Option<Vec<(Account, String, f64)>> {
        let of_side = |(name, bytes): (&String, &f64)| {
            let (metric, field) = name.split_once(' ')?;
            match metric.parse() {
                Ok(BudgetMetric::Account(of, account)) if of == side => Some((account, field.to_owned(), *bytes)),
                _ => None,
            }
        };
        Some(self.fields.as_ref()?.iter().filter_map(of_side).collect())
    }
}
