//! Parses rates and latencies that load generators print about their own tests, as their clients saw them. Each supported
//! program has a file; output of others is ignored.

mod memtier;
mod pgbench;
mod redis_benchmark;
mod sysbench;

use overhead_model::Measured;
use overhead_model::record::ReportedTest;
use std::collections::BTreeMap;

/// One test of a load generator.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reported {
    /// Name of the test in the program's output.
    pub name: String,
    /// Rate per second; absent if not reported.
    pub per_second: Option<f64>,
    /// Latencies that the program printed, by their names in [`ReportedTest::LATENCIES`].
    pub latency_ns: BTreeMap<String, f64>,
}

impl Reported {
    fn new(name: &str, per_second: Option<f64>) -> Self {
        Self { name: name.to_owned(), per_second, latency_ns: BTreeMap::new() }
    }

    /// Sets a latency from text in milliseconds, if it is one.
    fn set(&mut self, name: &str, milliseconds_text: &str) {
        self.latency_ns.extend(milliseconds(milliseconds_text).map(|ns| (name.to_owned(), ns)));
    }
}

/// Percentiles that are kept.
const PERCENTILES: [(f64, &str); 6] =
    [(50.0, "p50"), (90.0, "p90"), (95.0, "p95"), (99.0, "p99"), (99.9, "p999"), (99.99, "p9999")];

/// Returns the name of a percentile such as `99.9`, or `None` if it is not kept.
fn percentile(percent: f64) -> Option<&'static str> {
    PERCENTILES.into_iter().find(|(known, _)| (known - percent).abs() < 1e-9).map(|(_, name)| name)
}

type OutputReader = fn(&str) -> Vec<Reported>;

/// Supported programs. Valkey's and `KeyDB`'s formats are Redis's under other names.
const READERS: [(&str, OutputReader); 6] = [
    ("redis-benchmark", redis_benchmark::read),
    ("valkey-benchmark", redis_benchmark::read),
    ("keydb-benchmark", redis_benchmark::read),
    ("memtier_benchmark", memtier::read),
    ("pgbench", pgbench::read),
    ("sysbench", sysbench::read),
];

/// Parses test results from a command's standard output; returns none if it runs no known program. Other programs may precede
/// it (`taskset -c 1 redis-benchmark`).
pub fn read(command: &[String], stdout: &str) -> Vec<ReportedTest> {
    let is_named = |name: &str| command.iter().any(|word| word.rsplit('/').next() == Some(name));
    let reader = READERS.iter().find(|(name, _)| is_named(name));
    reader.map_or_else(Vec::new, |(program, read)| {
        let test = |Reported { name, per_second, latency_ns }: Reported| ReportedTest {
            program: (*program).to_owned(),
            name,
            per_second: per_second
                .map_or_else(|| Measured::unavailable(format!("{program} does not print it")), Measured::Value),
            latency_ns,
        };
        read(stdout).into_iter().map(test).collect()
    })
}

/// Converts a time in milliseconds from text to nanoseconds, or returns `None` if it is not a time.
fn milliseconds(text: &str) -> Option<f64> {
    number(text).map(|time| time * 1e6)
}

/// Parses a number that is finite and not negative.
fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

/// Returns the word after `key` in a line: `12.3` from `latency average = 12.3 ms`.
fn after<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.trim_start().strip_prefix(key)?.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_behind_others_and_an_unknown_one_says_nothing() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let said = "GET: 100.00 requests per second, p50=0.287 msec\n";
        for command in ["redis-benchmark -q", "taskset -c 1 /usr/bin/redis-benchmark -q", "valkey-benchmark"] {
            let tests = read(&words(command), said);
            assert_eq!((tests.len(), &tests[0].per_second), (1, &Measured::Value(100.0)), "{command}");
        }
        assert_eq!(read(&words("my-benchmark redis"), said), []);
        assert_eq!(read(&words("pgbench -S"), said), [], "another program's format");
    }
}
