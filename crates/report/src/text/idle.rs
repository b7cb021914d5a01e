//! The traffic of an application that does nothing.

use crate::number::{bytes_label, counted, percent};
use crate::summary::{both_sides, window_ns};
use overhead_model::idle::{IdlePurpose, is_idle};
use overhead_model::record::OperationRow;
use overhead_model::{Class, Run};
use std::collections::BTreeMap;

const SECONDS_PER_HOUR: f64 = 3_600.0;

/// Returns what an idle application sends in an hour and why, such as `1.2 MB and 720 operations an hour: heartbeats 80.0% (hello), …`;
/// `None` if the run has work of an application, or is too short for a rate.
pub(crate) fn in_an_hour(run: &Run) -> Option<String> {
    let seconds = window_ns(run) as f64 / 1e9;
    let workload = run.operations.iter().filter(|row| row.class == Class::Workload);
    if !is_idle(seconds, run.whole.connections, workload.map(|row| (purpose(row), row.count))) {
        return None;
    }
    let mut purposes: BTreeMap<IdlePurpose, (u64, Vec<&str>)> = BTreeMap::new();
    let (mut all, mut operations) = (0, 0);
    for row in run.operations.iter().filter(|row| row.class != Class::Unmatched) {
        let purpose = purpose(row)?;
        let bytes = both_sides(row).total();
        let (sum, names) = purposes.entry(purpose).or_default();
        *sum += bytes;
        if !names.contains(&&*row.name) {
            names.push(&row.name);
        }
        (all, operations) = (all + bytes, operations + row.count);
    }
    if all == 0 {
        return None;
    }
    let mut parts: Vec<_> = purposes.into_iter().collect();
    parts.sort_by_key(|(_, (bytes, _))| std::cmp::Reverse(*bytes));
    let parts: Vec<String> = parts
        .into_iter()
        .map(|(purpose, (bytes, names))| {
            let named = names.iter().take(3).copied().collect::<Vec<_>>().join(", ");
            format!("{} {} ({named})", purpose.name(), percent(bytes, all))
        })
        .collect();
    let hourly = |amount: u64| amount as f64 * SECONDS_PER_HOUR / seconds;
    Some(format!(
        "no work of an application; at this rate {} B and {} an hour: {}",
        bytes_label(hourly(all)),
        counted(hourly(operations).round() as u64, "operation"),
        parts.join(", ")
    ))
}

/// Returns why a row's operations were sent; `None` if one may be an application's.
fn purpose(row: &OperationRow) -> Option<IdlePurpose> {
    match row.statements.as_slice() {
        [] => IdlePurpose::find(row.class, &row.name, ""),
        several => {
            let mut purposes = several.iter().map(|of| IdlePurpose::find(row.class, &row.name, &of.text));
            let first = purposes.next()??;
            purposes.all(|purpose| purpose.is_some()).then_some(first)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use overhead_testing::runs;

    /// Returns a run of `seconds` whose operations have these names and class.
    fn run(seconds: u64, names: &[(&str, Class)]) -> Run {
        let mut run = runs::redis();
        run.counters = overhead_model::Measured::unavailable("offline");
        run.source.last_ns = run.source.first_ns + seconds * 1_000_000_000;
        run.operations.truncate(names.len());
        for (row, (name, class)) in run.operations.iter_mut().zip(names) {
            (row.name, row.class) = ((*name).to_owned(), *class);
            row.statements.clear();
        }
        run
    }

    #[test]
    fn heartbeats_and_checks_have_a_rate_by_the_hour() {
        let quiet = run(3_600, &[("PING", Class::Workload), ("hello", Class::Background)]);
        let text = in_an_hour(&quiet).unwrap();
        let all: u64 = quiet.operations.iter().map(|row| both_sides(row).total()).sum();
        assert!(text.contains(&format!("{} B and 1,001 operations an hour", bytes_label(all as f64))), "{text}");
        assert!(text.contains("(PING)") && text.contains("heartbeats") && text.contains("(hello)"), "{text}");
        let longer = run(7_200, &[("PING", Class::Workload), ("hello", Class::Background)]);
        assert!(in_an_hour(&longer).unwrap().contains("501 operations an hour"));
    }

    #[test]
    fn work_and_short_captures_have_none() {
        assert_eq!(in_an_hour(&run(3_600, &[("PING", Class::Workload), ("GET", Class::Workload)])), None);
        assert_eq!(in_an_hour(&run(9, &[("hello", Class::Background)])), None);
        // A benchmark of PING.
        assert_eq!(in_an_hour(&run(10, &[("PING", Class::Workload)])), None);
    }
}
