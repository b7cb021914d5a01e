//! Output of `sysbench`: transactions and queries (of the `oltp` tests), with transaction latency.

use super::{Reported, ReportedLatency, after, milliseconds, number};

/// Returns transactions and queries, or `events` for a test that has neither.
pub(super) fn read(stdout: &str) -> Vec<Reported> {
    let latency_ns = latency(stdout);
    let rate = |key: &str| {
        let line = stdout.lines().find(|line| line.trim_start().starts_with(key))?;
        number(line.split_once('(')?.1.split_whitespace().next()?)
    };
    let test = |name: &str, per_second: f64, latency_ns| Reported {
        name: name.to_owned(),
        per_second: Some(per_second),
        latency_ns,
    };
    let transactions = rate("transactions:").map(|rate| test("transactions", rate, latency_ns));
    // The latency belongs to transactions.
    let queries = rate("queries:").map(|rate| test("queries", rate, ReportedLatency::default()));
    let events = || {
        let rate = stdout.lines().find_map(|line| after(line, "events per second:")).and_then(number);
        rate.map(|rate| test("events", rate, latency_ns))
    };
    let tests: Vec<Reported> = transactions.into_iter().chain(queries).collect();
    if tests.is_empty() { events().into_iter().collect() } else { tests }
}

fn latency(stdout: &str) -> ReportedLatency {
    let mut latency = ReportedLatency::default();
    let lines = stdout.lines().skip_while(|line| !line.starts_with("Latency (ms)"));
    for (key, value) in lines.skip(1).take_while(|line| !line.trim().is_empty()).filter_map(|line| line.split_once(':'))
    {
        let time = milliseconds(value);
        match key.trim() {
            "avg" => latency.mean = time,
            "max" => latency.max = time,
            key => {
                let percent = key.strip_suffix("th percentile").and_then(number);
                if let Some(place) = percent.and_then(|percent| latency.percentile(percent)) {
                    *place = time;
                }
            }
        }
    }
    latency
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_queries_and_the_percentile_that_was_asked_for() {
        let text = "SQL statistics:\n    queries performed:\n        read:                            14000\n    \
                    transactions:                        1000   (123.45 per sec.)\n    \
                    queries:                             16000  (1975.21 per sec.)\n\nLatency (ms):\n         \
                    min:                                    0.44\n         avg:                                    0.50\n         \
                    max:                                    5.95\n         99th percentile:                        0.61\n         \
                    sum:                                 9992.77\n\n";
        let tests = read(text);
        let rates: Vec<_> = tests.iter().map(|test| (&*test.name, test.per_second)).collect();
        assert_eq!(rates, [("transactions", Some(123.45)), ("queries", Some(1_975.21))]);
        let latency = tests[0].latency_ns;
        assert_eq!((latency.p95, latency.p99, latency.max), (None, Some(610_000.0), Some(5_950_000.0)));
        assert_eq!(read("FATAL: unable to connect\n"), []);
    }
}
