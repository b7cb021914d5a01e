//! Output of `sysbench`: transactions and queries (of the `oltp` tests), with transaction latency.

use super::{Reported, after, number, percentile};

/// Returns transactions and queries, or `events` for a test that has neither.
pub(super) fn read(stdout: &str) -> Vec<Reported> {
    let rate = |key: &str| {
        let line = stdout.lines().find(|line| line.trim_start().starts_with(key))?;
        number(line.split_once('(')?.1.split_whitespace().next()?)
    };
    let with_latency = |name: &str, rate: f64| {
        let mut test = Reported::new(name, Some(rate));
        add_latency(&mut test, stdout);
        test
    };
    let transactions = rate("transactions:").map(|rate| with_latency("transactions", rate));
    // The latency belongs to transactions.
    let queries = rate("queries:").map(|rate| Reported::new("queries", Some(rate)));
    let events = || {
        let rate = stdout.lines().find_map(|line| after(line, "events per second:")).and_then(number);
        rate.map(|rate| with_latency("events", rate))
    };
    let tests: Vec<Reported> = transactions.into_iter().chain(queries).collect();
    if tests.is_empty() { events().into_iter().collect() } else { tests }
}

fn add_latency(test: &mut Reported, stdout: &str) {
    let lines = stdout.lines().skip_while(|line| !line.starts_with("Latency (ms)"));
    for (key, value) in lines.skip(1).take_while(|line| !line.trim().is_empty()).filter_map(|line| line.split_once(':'))
    {
        let name = match key.trim() {
            "avg" => Some("mean"),
            "max" => Some("max"),
            key => key.strip_suffix("th percentile").and_then(number).and_then(percentile),
        };
        if let Some(name) = name {
            test.set(name, value);
        }
    }
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
        let latency = |name: &str| tests[0].latency_ns.get(name).copied();
        assert_eq!((latency("p95"), latency("p99"), latency("max")), (None, Some(610_000.0), Some(5_950_000.0)));
        assert_eq!(read("FATAL: unable to connect\n"), []);
    }
}
