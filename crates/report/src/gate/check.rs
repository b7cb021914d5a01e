//! Checks a run against a budget.

use super::budget::{Allowed, Budget, MadeOf, OperationBudget, Unlisted};
use super::finding::{Changes, Judged};
use super::{BudgetMetric, Finding, NEGLIGIBLE, Severity};
use crate::bounds::lower_bounds;
use crate::compare::{is_same_statement, system_calls};
use crate::run::NamedRun;
use crate::summary::{failed_command, workload_count};
use crate::sums::{OperationSum, SumKey, by_name, by_statement};
use overhead_model::record::{By, SideSums};
use overhead_model::{Account, Class, Run, Side, exit};
use std::collections::BTreeMap;

pub(super) const ALL: &str = "all operations";

/// Returns the breaches of a budget and the limits that could not be judged; empty if the run is within budget.
pub fn check(budget: &Budget, named: &NamedRun) -> Vec<Finding> {
    let sums = RunSums::new(named);
    let mut findings: Vec<Finding> = partial(named).into_iter().collect();
    for (metric, allowed) in &budget.run {
        findings.extend(sums.check_run(*metric, *allowed, budget.made_of.as_ref()));
    }
    for operation in &budget.operations {
        findings.extend(sums.check_operation(operation));
    }
    findings.extend(sums.unlisted(budget));
    findings
}

/// Returns a finding for an incomplete run, whose totals may be too small.
fn partial(named: &NamedRun) -> Option<Finding> {
    let say = |message| Finding::plain(Severity::Unjudged, &named.name, "", message);
    incomplete(&named.run).map(say)
}

/// Returns why a run may cost more than its record shows, or `None`: it is partial, or its command failed and may have sent too
/// few requests.
pub fn incomplete(run: &Run) -> Option<String> {
    if let Some(status) = failed_command(run) {
        return Some(format!("the command ended with status {status}"));
    }
    if run.exit == exit::COMPLETE && run.ledger.balanced {
        return None;
    }
    let reason = lower_bounds(run).or_else(|| run.warnings.first().cloned());
    let reason = reason.unwrap_or_else(|| "the ledger does not balance".to_owned());
    Some(format!("the run is partial, so that it may cost more than was seen: {}", reason.trim_end_matches('.')))
}

/// Returns the recorded bytes of an account; `None` if no account was recorded.
fn recorded(accounts: &BTreeMap<BudgetMetric, f64>, side: Side, account: Account) -> Option<f64> {
    let key = BudgetMetric::Account(side, account);
    (!accounts.is_empty()).then(|| accounts.get(&key).copied().unwrap_or(0.0))
}

pub(super) struct RunSums<'a> {
    pub named: &'a NamedRun,
    names: Vec<OperationSum>,
    statements: Vec<OperationSum>,
}

impl<'a> RunSums<'a> {
    pub(super) fn new(named: &'a NamedRun) -> Self {
        let runs = std::slice::from_ref(named);
        Self { named, names: by_name(runs), statements: by_statement(runs) }
    }

    /// Returns the matching operations, however sent, or `None` if there are none.
    fn sum(&self, fits: impl Fn(&SumKey) -> bool, is_statement: bool) -> Option<OperationSum> {
        let all = if is_statement { &self.statements } else { &self.names };
        let mut ways = all.iter().filter(|sum| fits(&sum.key));
        let first = ways.next()?.clone();
        Some(ways.fold(first, |mut sum, way| {
            sum.add_way(way);
            sum
        }))
    }

    pub(super) fn budgeted(&self, budget: &OperationBudget) -> Option<OperationSum> {
        let statement = budget.statement.as_deref();
        let fits = |key: &SumKey| is_of(budget, key) && is_same_statement(key.statement.as_deref(), statement);
        self.sum(fits, statement.is_some())
    }

    fn check_operation(&self, budget: &OperationBudget) -> Vec<Finding> {
        let (run, label) = (&self.named.name, budget.label());
        let Some(sum) = self.budgeted(budget).filter(|sum| sum.samples > 0) else {
            let known = self.names.iter().any(|sum| is_of(budget, &sum.key));
            let message = match (&budget.statement, known) {
                (Some(_), true) if self.statements.is_empty() => {
                    "the record has no statements: analyze its packets again".to_owned()
                }
                (Some(_), true) => format!("the run has no such {} statement", budget.name),
                _ => format!("the run has no such operation ({} {})", budget.protocol, budget.name),
            };
            return vec![Finding::plain(Severity::Unjudged, run, &label, message)];
        };
        budget
            .budget
            .iter()
            .filter_map(|(metric, allowed)| self.check_metric(*metric, *allowed, budget, &sum))
            .collect()
    }

    fn check_metric(
        &self,
        metric: BudgetMetric,
        allowed: Allowed,
        budget: &OperationBudget,
        sum: &OperationSum,
    ) -> Option<Finding> {
        let (run, label) = (&self.named.name, budget.label());
        if let Some(unseen) = metric.side().and_then(|side| self.unseen(budget, side)) {
            return Some(Finding::unjudged(run, &label, metric, unseen));
        }
        let Some(measured) = metric.value(sum) else {
            let why = if sum.runs.iter().any(|part| part.latency.count > 0) || sum.samples == 0 {
                "not measured"
            } else {
                "no latency was seen, or only for several ways of sending together"
            };
            return Some(Finding::unjudged(run, &label, metric, why));
        };
        let judged = Judged { measured, reference: allowed.budget, allowed: allowed.most() };
        let changes = || {
            let account = |account: Account| recorded(&budget.accounts, metric.side()?, account);
            Changes::new(metric, sum, account, metric.side().and_then(|side| budget.fields_of(side)))
        };
        judged.is_above(metric).then(|| Finding::breach(run, &label, metric, judged, changes()))
    }

    /// Returns why a direction has no reliable bytes, if it was not captured.
    fn unseen(&self, budget: &OperationBudget, side: Side) -> Option<&str> {
        let rows = self
            .named
            .run
            .operations
            .iter()
            .filter(|row| row.protocol == budget.protocol && row.class == budget.class && row.name == budget.name);
        let mut sides = rows.map(|row| [&row.request, &row.response][side as usize]);
        sides.find_map(|side| side.unseen.as_deref())
    }

    /// Returns the value for all operations together, per workload operation, or why there is none.
    pub(super) fn run_value(&self, metric: BudgetMetric) -> Result<f64, String> {
        if let BudgetMetric::Syscalls(process) = metric {
            return system_calls(process, &self.named.run).as_result().copied().map_err(str::to_owned);
        }
        let operations = workload_count(&self.named.run);
        if let BudgetMetric::Whole(whole) = metric
            && operations > 0
        {
            return whole.total(&self.named.run.whole).map(|total| total as f64 / operations as f64);
        }
        if operations == 0 {
            return Err("no workload operations".to_owned());
        }
        metric.value(&self.whole(operations)).ok_or_else(|| "not a metric of a whole run".to_owned())
    }

    /// Sums all operations of every class, for division by the number of workload operations.
    fn whole(&self, operations: u64) -> OperationSum {
        let mut sides = <[SideSums; 2]>::default();
        for sum in &self.names {
            sides.iter_mut().zip(&sum.sides).for_each(|(side, more)| side.add(more));
        }
        let key = SumKey {
            protocol: String::new(),
            class: Class::Workload,
            name: String::new(),
            statement: None,
            via: String::new(),
        };
        OperationSum { key, count: operations, samples: operations, sides, fields: None, runs: Vec::new() }
    }

    /// Returns all operations as one sum, and a direction's payload by class and name per workload operation.
    pub(super) fn made_of(&self, side: Side) -> Option<(OperationSum, BTreeMap<String, f64>)> {
        let workload = workload_count(&self.named.run);
        let mut parts = BTreeMap::new();
        for sum in self.names.iter().filter(|_| workload > 0) {
            let SumKey { class, name, .. } = &sum.key;
            let label = if *class == Class::Workload { name.clone() } else { format!("{} {name}", class.name()) };
            *parts.entry(label).or_default() += sum.payload(side) * sum.samples as f64 / workload as f64;
        }
        (workload > 0).then(|| (self.whole(workload), parts))
    }

    /// Returns how the composition of all operations together has changed.
    fn changes(&self, metric: BudgetMetric, made_of: Option<&MadeOf>) -> Option<Changes> {
        let (side, before) = (metric.side()?, made_of?);
        let (whole, mut parts) = self.made_of(side)?;
        let changes = Changes::new(metric, &whole, |account| recorded(&before.accounts, side, account), None);
        if metric != BudgetMetric::Payload(side) {
            return Some(changes);
        }
        let prefix = format!("{metric} ");
        for (name, bytes) in &before.operations {
            if let Some(name) = name.strip_prefix(&prefix) {
                *parts.entry(name.to_owned()).or_default() -= bytes;
            }
        }
        Some(changes.with_operations(parts))
    }

    fn check_run(&self, metric: BudgetMetric, allowed: Allowed, made_of: Option<&MadeOf>) -> Option<Finding> {
        let run = &self.named.name;
        match self.run_value(metric) {
            Err(why) if matches!(metric, BudgetMetric::Syscalls(_)) => {
                let why = format!("{why}: capture with counters, or delete this limit from the budget");
                Some(Finding::unjudged(run, ALL, metric, &why))
            }
            Err(why) => Some(Finding::unjudged(run, ALL, metric, &why)),
            Ok(measured) => {
                let judged = Judged { measured, reference: allowed.budget, allowed: allowed.most() };
                let changes = || self.changes(metric, made_of).unwrap_or_default();
                judged.is_above(metric).then(|| Finding::breach(run, ALL, metric, judged, changes()))
            }
        }
    }

    /// Returns the notable workload operations that a budget does not list.
    fn unlisted(&self, budget: &Budget) -> Vec<Finding> {
        let severity = match budget.unlisted {
            Unlisted::Fail => Severity::Breach,
            Unlisted::Warn => Severity::Note,
            Unlisted::Ignore => return Vec::new(),
        };
        let is_listed = |sum: &OperationSum| {
            budget.operations.iter().any(|listed| {
                let statement = listed.statement.as_deref();
                let is_same = || is_same_statement(statement, sum.key.statement.as_deref());
                is_of(listed, &sum.key) && (statement.is_none() || is_same())
            })
        };
        let unlisted = self.worth_a_word(By::Statement).into_iter().filter(|sum| !is_listed(sum));
        unlisted
            .map(|sum| {
                let label = sum.key.statement.as_ref().unwrap_or(&sum.key.name);
                let each = crate::number::bytes_label(sum.per_operation(sum.total()));
                let message = format!("not in the budget: {} of {each} B each", sum.count);
                Finding::plain(severity, &self.named.name, label, message)
            })
            .collect()
    }

    /// Returns the workload operations that are not negligible, by statement if available, however sent.
    pub(super) fn worth_a_word(&self, by: By) -> Vec<OperationSum> {
        let has_statements = |sum: &OperationSum| {
            by == By::Statement && self.statements.iter().any(|other| is_same_name(&other.key, &sum.key))
        };
        let by_name = self.names.iter().filter(|sum| !has_statements(sum));
        let mut all: Vec<OperationSum> = Vec::new();
        let statements = if by == By::Statement { self.statements.as_slice() } else { &[] };
        for part in statements.iter().chain(by_name).filter(|sum| sum.key.class == Class::Workload) {
            let same =
                |sum: &&mut OperationSum| is_same_name(&sum.key, &part.key) && sum.key.statement == part.key.statement;
            match all.iter_mut().find(same) {
                Some(sum) => sum.add_way(part),
                None => all.push(part.clone()),
            }
        }
        let (count, bytes) = all.iter().fold((0, 0), |(count, bytes), sum| (count + sum.count, bytes + sum.total()));
        let is_little = |part: u64, whole: u64| part.saturating_mul(NEGLIGIBLE) < whole;
        all.retain(|sum| !(is_little(sum.count, count) && is_little(sum.total(), bytes)));
        all
    }
}

fn is_of(budget: &OperationBudget, key: &SumKey) -> bool {
    key.protocol == budget.protocol && key.class == budget.class && key.name == budget.name
}

fn is_same_name(a: &SumKey, b: &SumKey) -> bool {
    (&a.protocol, a.class, &a.name) == (&b.protocol, b.class, &b.name)
}
