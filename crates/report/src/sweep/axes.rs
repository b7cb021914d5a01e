//! The keys that distinguish runs, and the part that each plays in a chart.

use crate::figure::ChartAxes;
use crate::limits::FACETS;
use crate::run::{NamedRun, RunGroup};
use crate::summary::{distinct, listed, systems};

/// The key of a run's servers, as they name themselves.
pub(super) const SYSTEM: &str = "system";
/// The key of what the user named: a folder of runs, or a run.
pub(super) const RUN: &str = "run";

/// A key that distinguishes runs, and its values in display order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub name: String,
    pub values: Vec<String>,
}

impl Key {
    /// Formats a value: `Redis 7.0.15`, or `P = 16` of a parameter.
    pub fn shown(&self, value: &str) -> String {
        if self.name == SYSTEM || self.name == RUN { value.to_owned() } else { format!("{} = {value}", self.name) }
    }
}

/// The keys of a chart. Columns of a table are in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ChartKeys {
    /// The keys of a line: all that vary, and are neither of the next two.
    pub series: Vec<Key>,
    pub facet: Option<Key>,
    pub x: Option<Key>,
}

impl ChartKeys {
    pub fn all(&self) -> impl Iterator<Item = &Key> {
        self.series.iter().chain(&self.facet).chain(&self.x)
    }
}

/// Returns a run's value of a key; `None` without one.
pub(super) fn value(group: &RunGroup, named: &NamedRun, key: &str) -> Option<String> {
    match key {
        SYSTEM => Some(listed(&systems([&named.run]))).filter(|name| !name.is_empty()),
        RUN => Some(group.name.clone()),
        parameter => named.run.parameters.get(parameter).cloned(),
    }
}

/// Returns whether these runs differ by a parameter, or are to be drawn by keys.
pub fn is_sweep<'r>(mut runs: impl Iterator<Item = &'r NamedRun>, axes: &ChartAxes) -> bool {
    let first = runs.next().map(|named| &named.run.parameters);
    *axes != ChartAxes::default() || runs.any(|named| Some(&named.run.parameters) != first)
}

/// Chooses the keys.
///
/// # Errors
///
/// A sentence about a key that no run has, or that is named twice.
pub(super) fn chosen(groups: &[RunGroup], axes: &ChartAxes) -> Result<ChartKeys, String> {
    let mut keys = keys(groups);
    let known: Vec<String> = keys.iter().map(|key| key.name.clone()).collect();
    let mut take = |option: &str, name: &Option<String>| {
        let Some(name) = name else { return Ok(None) };
        let Some(at) = keys.iter().position(|key| key.name == *name) else {
            let twice = if known.contains(name) { "is used already" } else { "is no key of these runs" };
            return Err(format!("--{option} {name}: {name} {twice}; their keys are {}", known.join(", ")));
        };
        Ok(Some(keys.remove(at)))
    };
    let x = take("x", &axes.x)?;
    let mut series: Vec<Key> = take("series", &axes.series)?.into_iter().collect();
    let facet = take("facet", &axes.facet)?;
    // A folder of runs names its system, unless two folders have the same.
    let by_run = is_run_needed(groups);
    let is_key = |key: &Key| match &*key.name {
        RUN => by_run,
        SYSTEM => !by_run || groups.iter().any(|group| systems_of(group).len() > 1),
        _ => true,
    };
    keys.retain(is_key);
    let x = x.or_else(|| Some(keys.remove(default_x(&keys)?)));
    keys.retain(|key| key.values.len() > 1);
    let facet = facet.or_else(|| Some(keys.remove(default_facet(&keys, !series.is_empty())?)));
    series.extend(keys);
    Ok(ChartKeys { series, facet, x })
}

fn is_parameter(key: &Key) -> bool {
    key.name != SYSTEM && key.name != RUN
}

/// Returns the parameters of all runs, then the keys that every run has.
fn keys(groups: &[RunGroup]) -> Vec<Key> {
    let runs = || groups.iter().flat_map(|group| group.runs.iter().map(move |named| (group, named)));
    let names = runs().flat_map(|(_, named)| named.run.parameters.keys().cloned());
    let names = [SYSTEM, RUN].map(str::to_owned).into_iter().chain(distinct(names));
    let key = |name: String| Key { values: in_order(runs().filter_map(|(group, of)| value(group, of, &name))), name };
    names.map(key).collect()
}

/// Returns the distinct values: numbers rise, words stay as given.
fn in_order(values: impl Iterator<Item = String>) -> Vec<String> {
    let mut values = distinct(values);
    let number = |value: &String| value.parse::<f64>().ok();
    if values.iter().all(|value| number(value).is_some()) {
        values.sort_by(|a, b| number(a).unwrap_or(0.0).total_cmp(&number(b).unwrap_or(0.0)));
    }
    values
}

fn systems_of(group: &RunGroup) -> Vec<Option<String>> {
    distinct(group.runs.iter().map(|named| value(group, named, SYSTEM)))
}

/// Returns whether two of the groups have runs of the same system.
fn is_run_needed(groups: &[RunGroup]) -> bool {
    let all: Vec<_> = groups.iter().map(systems_of).collect();
    all.iter().enumerate().any(|(at, systems)| all[..at].iter().flatten().any(|system| systems.contains(system)))
}

/// Returns the parameter with the most values, preferably numbers.
fn default_x(keys: &[Key]) -> Option<usize> {
    let is_number = |key: &Key| key.values.iter().all(|value| value.parse::<f64>().is_ok());
    let rank = |key: &Key| (key.values.len() > 1, is_number(key), key.values.len());
    let parameters = keys.iter().enumerate().filter(|(_, key)| is_parameter(key));
    parameters.rev().max_by_key(|(_, key)| rank(key)).map(|(at, _)| at)
}

/// Returns a parameter with few values, if another key remains for the lines.
fn default_facet(keys: &[Key], has_series: bool) -> Option<usize> {
    let is_facet = |key: &Key| is_parameter(key) && key.values.len() <= FACETS;
    keys.iter().position(is_facet).filter(|_| has_series || keys.len() > 1)
}
