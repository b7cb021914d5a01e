//! Sentences about a sweep, to paste into an article, each with the conditions under which it was seen.

use super::figures::{SweepCurves, has_one_mix, kinds};
use super::summary::{Sweep, SweepPoint};
use crate::bounds::AT_LEAST;
use crate::number::{bytes_label, counted, grouped, significant};
use crate::run::RunGroup;
use crate::summary::{distinct, listed, systems};
use crate::text::facts;
use overhead_model::{Run, Spread};

/// Values of the panels' key that get a sentence of their own.
const TOLD: usize = 3;

/// Factor below which times do not count as different: repeated runs vary as much.
const CLOSE: f64 = 1.25;

/// Returns what was measured, and what the whole cost and the rate are at one place of each panel.
pub fn sentences(sweep: &Sweep) -> Vec<String> {
    let curves = SweepCurves::new(sweep);
    let panels = curves.facets.iter().take(TOLD);
    let costs = panels.filter_map(|facet| cost(sweep, &curves, facet));
    let rate = curves.facets.last().filter(|_| has_one_mix(sweep)).and_then(|facet| rate(sweep, &curves, facet));
    std::iter::once(subject(sweep)).chain(costs).chain(rate).collect()
}

/// Returns the number of runs, and the values of each key.
fn subject(sweep: &Sweep) -> String {
    let runs: usize = sweep.points.iter().map(|point| point.runs.len()).sum();
    let values = sweep.keys.all().map(|key| format!("{}: {}", key.name, key.values.join(", ")));
    let each = if sweep.runs > 1 { format!(", up to {} of each combination", sweep.runs) } else { String::new() };
    let of = values.collect::<Vec<_>>().join("; ");
    let of = if of.is_empty() { of } else { format!(" ({of})") };
    format!("{}{each}{of}.", counted(runs as u64, "run"))
}

/// Returns text such as `depth = 16, size = 100`.
fn conditions(sweep: &Sweep, facet: &str, place: &str) -> String {
    let shown = sweep.keys.x.iter().zip([place]).chain(sweep.keys.facet.iter().zip([facet]));
    shown.map(|(key, value)| key.shown(value)).collect::<Vec<_>>().join(", ")
}

fn x_name(sweep: &Sweep) -> &str {
    sweep.keys.x.as_ref().map_or("", |key| &*key.name)
}

/// The lines that have a value at a place, with their names.
type Measurements<'s> = Vec<(String, &'s SweepPoint)>;

/// Returns the middle place where all lines of a panel have a value, at it or without the key `x`.
fn common<'s>(curves: &SweepCurves<'s>, x: &str, facet: &str) -> Option<(String, Measurements<'s>)> {
    let at = |place: &String| -> Option<Measurements<'s>> {
        let point = |series: &&'s [Option<String>]| {
            let here = curves.point(series, facet, place).map(|point| (curves.name(series), point));
            let level = || Some((format!("{} (without {x})", curves.name(series)), curves.level(series, facet)?));
            here.or_else(level).filter(|(_, point)| point.total.wire_bytes.value().is_some())
        };
        let has_point = |series: &&'s [Option<String>]| curves.point(series, facet, place).is_some();
        curves.series.iter().map(point).collect::<Option<_>>().filter(|_| curves.series.iter().any(has_point))
    };
    let all: Vec<(&String, Measurements<'s>)> =
        curves.places.iter().filter_map(|place| Some((place, at(place)?))).collect();
    let middle = all.len() / 2;
    all.into_iter().nth(middle).map(|(place, points)| (place.clone(), points))
}

/// Returns `149 B and 0.07 round trips`.
fn amounts(point: &SweepPoint) -> Option<String> {
    let mark = if point.lower_bounds.is_empty() { String::new() } else { AT_LEAST.to_string() };
    let bytes = bytes_label(point.total.wire_bytes.value()?.median);
    let waits = point.total.round_trips.value().map(|spread| significant(spread.median));
    let waits = waits.map_or_else(String::new, |waits| format!(" and {waits} round trips"));
    Some(format!("{mark}{bytes} B{waits}"))
}

/// Compares the lines at a common place, or the ends of a single line.
fn cost(sweep: &Sweep, curves: &SweepCurves<'_>, facet: &str) -> Option<String> {
    let names = kinds(sweep);
    let of = if let [(_, name)] = names.as_slice() { name.clone() } else { "operation".to_owned() };
    if let [series] = curves.series.as_slice() {
        let points = curves.places.iter().filter_map(|place| {
            let amounts = amounts(curves.point(series, facet, place)?)?;
            Some(format!("{amounts} at {}", conditions(sweep, facet, place)))
        });
        let points: Vec<String> = points.collect();
        return match (points.first(), points.last()) {
            (Some(first), Some(last)) if first != last => {
                Some(format!("Setup included, the {of} needs {first}, and {last}."))
            }
            (Some(only), _) => Some(format!("Setup included, the {of} needs {}.", only.trim_end_matches(" at "))),
            _ => None,
        };
    }
    let (place, points) = common(curves, x_name(sweep), facet)?;
    let told: Option<Vec<String>> = points
        .iter()
        .enumerate()
        .map(|(at, (name, point))| {
            let per = if at == 0 { format!(" per {of}") } else { String::new() };
            let verb = if at == 0 { " needs" } else { "" };
            Some(format!("{name}{verb} {}{per}", amounts(point)?))
        })
        .collect();
    let at = conditions(sweep, facet, &place);
    let at = if at.is_empty() { "Setup included, ".to_owned() } else { format!("At {at}, setup included, ") };
    Some(format!("{at}{}.", listed(&told?)))
}

/// Compares the rates at a common place. Rates whose runs overlap, or that differ by less than a quarter, are not ordered.
fn rate(sweep: &Sweep, curves: &SweepCurves<'_>, facet: &str) -> Option<String> {
    let (place, points) = common(curves, x_name(sweep), facet)?;
    let of = |(name, point): &(String, &SweepPoint)| Some((name.clone(), *point.total.per_second.value()?));
    let mut rates: Vec<(String, Spread)> = points.iter().map(of).collect::<Option<_>>()?;
    rates.sort_by(|a, b| b.1.median.total_cmp(&a.1.median));
    let ((most, high), (least, low)) = (rates.first()?, rates.last()?);
    if rates.len() < 2 {
        return None;
    }
    let shown = |rate: &Spread| grouped(rate.median.round() as u64);
    let at = conditions(sweep, facet, &place);
    if high.min <= low.max || high.median < low.median * CLOSE {
        return Some(format!(
            "At {at}, {} to {} operations per second: these runs do not tell the rates apart.",
            shown(low),
            shown(high)
        ));
    }
    Some(format!(
        "At {at}, {most} has the highest rate under the capture ({} operations per second) and {least} the lowest ({}); \
         medians over the runs.",
        shown(high),
        shown(low)
    ))
}

/// Returns a paragraph on method: versions, date, repetitions, load and machine.
pub(super) fn method(sweep: &Sweep, groups: &[RunGroup]) -> String {
    let runs = || groups.iter().flat_map(|group| group.runs.iter().map(|named| &named.run));
    let all = |of: &dyn Fn(&Run) -> Option<String>| listed(&distinct(runs().filter_map(of)));
    let mut dates = distinct(runs().map(|run| facts::date(run.source.first_ns)));
    dates.sort();
    let (first, last) = (dates.first().cloned().unwrap_or_default(), dates.last().cloned().unwrap_or_default());
    let when = if first == last { format!("on {first}") } else { format!("from {first} to {last}") };
    let machine = |run: &Run| {
        let machine = run.environment.as_ref()?;
        let interface = machine.interface.as_ref().map(|it| format!(", interface {}", it.name)).unwrap_or_default();
        Some(format!("Linux {}, {} CPUs ({}){interface}", machine.kernel, machine.cpus, machine.cpu))
    };
    let command = |run: &Run| Some(facts::shell(&run.environment.as_ref()?.workload.as_ref()?.command));
    let said = [
        ("", format!("{} {when}", subject(sweep).trim_end_matches('.'))),
        ("Captured with", all(&|run| Some(format!("{} {}", run.tool.name, run.tool.version)))),
        ("Servers:", listed(&systems(runs()))),
        ("Load:", all(&command)),
        ("Machine:", all(&machine)),
    ];
    let said = said.into_iter().filter(|(_, text)| !text.is_empty());
    let said: Vec<String> = said.map(|(lead, text)| format!("{lead} {text}.").trim_start().to_owned()).collect();
    format!(
        "{} Values are medians over the runs of a combination. Bytes are counted on the captured interface, headers included, and \
         the whole cost has everything on the connections, divided by the operations of the workload.",
        said.join(" ")
    )
}
