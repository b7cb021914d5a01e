//! Limits on differences in a comparison: `response.payload>+1%`.

use super::check::{ALL, incomplete};
use super::finding::{Changes, Judged};
use super::metric::WholeMetric;
use super::{BudgetMetric, Finding, MetricError, NEGLIGIBLE, Severity, Tolerance};
use crate::compare::{Repeated, cycles, mean, pairs, system_calls, total_cost};
use crate::run::{NamedRun, RunGroup};
use crate::sums::OperationSum;
use overhead_model::record::By;
use overhead_model::{Account, Class, Run};
use std::fmt;
use std::str::FromStr;

/// A limit on how much a metric may grow against a reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangeLimit {
    metric: BudgetMetric,
    most: Tolerance,
}

const WHOLE: &str = "the whole cost";

/// Units of absolute time limits, in nanoseconds.
const TIMES: [(&str, f64); 5] = [("ns", 1.0), ("µs", 1e3), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];

impl FromStr for ChangeLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || format!("{text} is not a limit: write FIGURE>+N% or FIGURE>+N, such as response.payload>+1%");
        let (metric, more) = text.split_once('>').ok_or_else(form)?;
        let metric: BudgetMetric = metric.trim().parse().map_err(|error: MetricError| error.to_string())?;
        let more = more.trim().strip_prefix('+').ok_or_else(form)?.trim();
        let most = match more.strip_suffix('%') {
            Some(percent) => Tolerance::Percent(percent.trim().parse().map_err(|_| form())?),
            None => Tolerance::Absolute(absolute(metric, more).ok_or_else(form)?),
        };
        most.is_sound().then_some(Self { metric, most }).ok_or_else(form)
    }
}

fn absolute(metric: BudgetMetric, text: &str) -> Option<f64> {
    let unit = match metric {
        BudgetMetric::Latency(_) => TIMES.iter().find_map(|(unit, ns)| Some((text.strip_suffix(unit)?, *ns))),
        _ if metric.is_bytes() => text.strip_suffix('B').map(|number| (number, 1.0)),
        _ => None,
    };
    let (number, factor) = unit.unwrap_or((text, 1.0));
    number.trim().parse::<f64>().ok().map(|number| number * factor)
}

impl fmt::Display for ChangeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.most {
            Tolerance::Percent(percent) => write!(f, "{}>+{percent}%", self.metric),
            Tolerance::Absolute(by) => write!(f, "{}>+{by}", self.metric),
        }
    }
}

/// Returns where a subject exceeds the limits against the first, and which limits could not be judged; empty if no limit is
/// exceeded.
pub fn exceeded(limits: &[ChangeLimit], reference: &RunGroup, group: &RunGroup, by: By) -> Vec<Finding> {
    let run = format!("{} against {}", group.name, reference.name);
    let (pairs, alone) = pairs(reference, group, by);
    let pairs: Vec<_> = pairs.into_iter().filter(|pair| pair[0].key.class == Class::Workload).collect();
    let mut findings: Vec<Finding> = [reference, group].into_iter().flat_map(|group| partial(&run, group)).collect();
    if limits.iter().any(|limit| limit.metric.is_of_operation()) {
        findings.extend(unpaired(&run, &pairs, alone, [reference, group]));
    }
    for limit in limits {
        if limit.metric.is_of_operation() {
            findings.extend(pairs.iter().filter_map(|pair| limit.judge_pair(&run, pair)));
        } else {
            findings.extend(limit.judge_runs(&run, reference, group));
        }
    }
    findings
}

fn partial(run: &str, group: &RunGroup) -> Vec<Finding> {
    let say = |named: &NamedRun| Some(Finding::plain(Severity::Unjudged, run, &named.name, incomplete(&named.run)?));
    group.runs.iter().filter_map(say).collect()
}

/// Reports that there is nothing to compare, either at all or for a notable operation.
fn unpaired(
    run: &str,
    pairs: &[[OperationSum; 2]],
    alone: [Vec<OperationSum>; 2],
    groups: [&RunGroup; 2],
) -> Vec<Finding> {
    if pairs.is_empty() {
        let message = "no operation of the one could be set against one of the other".to_owned();
        return vec![Finding::plain(Severity::Unjudged, run, "", message)];
    }
    let mut findings = Vec::new();
    for (at, sums) in alone.into_iter().enumerate() {
        let sums: Vec<_> = sums.into_iter().filter(|sum| sum.key.class == Class::Workload).collect();
        let of_pairs: u64 = pairs.iter().map(|pair| pair[at].count).sum();
        let all = of_pairs + sums.iter().map(|sum| sum.count).sum::<u64>();
        for sum in sums.iter().filter(|sum| sum.count.saturating_mul(NEGLIGIBLE) >= all) {
            let message = format!("{} operations only in {}: not judged", sum.count, groups[at].name);
            findings.push(Finding::plain(Severity::Unjudged, run, label(sum), message));
        }
    }
    findings
}

fn label(sum: &OperationSum) -> &str {
    sum.key.statement.as_deref().unwrap_or(&sum.key.name)
}

impl ChangeLimit {
    fn judge_pair(&self, run: &str, [first, second]: &[OperationSum; 2]) -> Option<Finding> {
        let (metric, label) = (self.metric, label(second));
        if let BudgetMetric::Latency(percentile) = metric {
            let of = percentile.accessor();
            return self.judge_values(run, label, [first.latencies(of), second.latencies(of)], "no latency was seen");
        }
        let (reference, measured) = (metric.value(first)?, metric.value(second)?);
        let judged = Judged { measured, reference, allowed: reference + self.most.excess(reference) };
        let changes = || {
            let side = metric.side()?;
            let fields = first.fields.as_ref().map(|fields| {
                let of_side = fields.iter().filter(|field| field.side == side);
                of_side.map(|field| (field.account, field.field.clone(), first.per_operation(field.bytes))).collect()
            });
            Some(Changes::new(metric, second, |account: Account| Some(first.bytes(side, account)), fields))
        };
        judged.is_above(metric).then(|| Finding::breach(run, label, metric, judged, changes().unwrap_or_default()))
    }

    /// Judges a metric of all workload operations together.
    fn judge_runs(&self, run: &str, reference: &RunGroup, group: &RunGroup) -> Option<Finding> {
        if let BudgetMetric::Whole(metric) = self.metric {
            return self.judge_whole(metric, run, [reference, group]);
        }
        let values = [reference, group].map(|group| self.values(group));
        match values {
            [Ok(first), Ok(second)] => self.judge_values(run, ALL, [first, second], "not measured"),
            [Err(why), _] | [_, Err(why)] => Some(Finding::unjudged(run, ALL, self.metric, &why)),
        }
    }

    /// Judges a part of the whole cost, exactly.
    fn judge_whole(&self, metric: WholeMetric, run: &str, groups: [&RunGroup; 2]) -> Option<Finding> {
        let values = groups.map(|group| {
            let whole = total_cost(group);
            Ok::<_, String>((metric.total(&whole)? as f64, whole.divisor().ok_or("no workload operations")?))
        });
        match values {
            [Ok((reference, of_reference)), Ok((measured, of_measured))] => {
                let (reference, measured) = (reference / of_reference, measured / of_measured);
                let judged = Judged { measured, reference, allowed: reference + self.most.excess(reference) };
                let breach = || Finding::breach(run, WHOLE, self.metric, judged, Changes::default());
                judged.is_above(self.metric).then(breach)
            }
            [Err(why), _] | [_, Err(why)] => Some(Finding::unjudged(run, WHOLE, self.metric, &why)),
        }
    }

    fn values(&self, group: &RunGroup) -> Result<Vec<f64>, String> {
        let mut units = Vec::new();
        let mut value = |run: &Run| match self.metric {
            BudgetMetric::Cycles(process) => {
                let (unit, cycles) = cycles(process, run)?;
                units.push(unit);
                Ok(cycles)
            }
            BudgetMetric::Syscalls(process) => system_calls(process, run).as_result().copied().map_err(str::to_owned),
            _ => Err("not a metric of a whole run".to_owned()),
        };
        let values = group.runs.iter().map(|named| value(&named.run)).collect::<Result<Vec<f64>, String>>()?;
        if units.windows(2).any(|pair| pair[0] != pair[1]) {
            return Err("its runs count cycles in different units".to_owned());
        }
        Ok(values)
    }

    /// Judges a metric that varies between runs.
    fn judge_values(&self, run: &str, label: &str, values: [Vec<f64>; 2], absent: &str) -> Option<Finding> {
        let metric = self.metric;
        let (Some(reference), Some(measured)) = (mean(&values[0]), mean(&values[1])) else {
            return Some(Finding::unjudged(run, label, metric, absent));
        };
        let judged = Judged { measured, reference, allowed: reference + self.most.excess(reference) };
        let breach = || Some(Finding::breach(run, label, metric, judged, Changes::default()));
        let Some(repeated) = Repeated::new(values) else {
            if matches!(metric, BudgetMetric::Syscalls(_)) {
                return breach().filter(|_| judged.is_above(metric));
            }
            let why = "one run shows no difference: repeat it, with capture --runs 5";
            return Some(Finding::unjudged(run, label, metric, why));
        };
        if repeated.interval[0] > judged.allowed - reference {
            return breach();
        }
        judged.is_above(metric).then(|| {
            let message = format!(
                "{metric} {} against {}, but the runs vary: the 95% interval of the difference starts at {}{}",
                metric.with_unit(measured),
                metric.with_unit(reference),
                if repeated.interval[0] < 0.0 { "−" } else { "+" },
                metric.with_unit(repeated.interval[0].abs()),
            );
            Finding { metric: Some(metric), ..Finding::plain(Severity::Note, run, label, message) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_they_are_written() {
        for (text, most) in [
            ("response.payload>+1%", Tolerance::Percent(1.0)),
            ("response.schema > +10B", Tolerance::Absolute(10.0)),
            ("request.frames>+0", Tolerance::Absolute(0.0)),
            ("latency.p99>+1.5ms", Tolerance::Absolute(1.5e6)),
            ("cycles>+5%", Tolerance::Percent(5.0)),
            ("wire>+1%", Tolerance::Percent(1.0)),
            ("setup>+20B", Tolerance::Absolute(20.0)),
        ] {
            assert_eq!(text.parse::<ChangeLimit>().unwrap().most, most, "{text}");
        }
        for text in
            ["response.payload", "response.payload>1%", "wire>1%", "syscalls>+-1%", "syscalls>+x", "syscalls>+NaN"]
        {
            assert!(text.parse::<ChangeLimit>().is_err(), "{text}");
        }
    }
}
