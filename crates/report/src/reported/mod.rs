//! What load generators print about their own tests: rates and latencies as their clients saw them. One file for each
//! program whose format is known; of any other nothing is read.

mod memtier;
mod pgbench;
mod redis_benchmark;
mod sysbench;

/// One test of a load generator.
#[derive(Clone, Debug, PartialEq)]
pub struct Reported {
    /// The program.
    pub program: &'static str,
    /// What it calls the test.
    pub name: String,
    /// Its rate per second; absent where it does not say.
    pub per_second: Option<f64>,
    /// Its latencies.
    pub latency_ns: ReportedLatency,
}

/// Latencies in nanoseconds; absent where the program does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReportedLatency {
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p999: Option<f64>,
    /// 99.99th percentile.
    pub p9999: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
}

impl ReportedLatency {
    /// Returns the figures in the order of [`overhead_model::sweep::SweepLatency::NAMES`].
    pub fn figures(&self) -> [Option<f64>; 8] {
        let Self { mean, p50, p90, p95, p99, p999, p9999, max } = *self;
        [mean, p50, p90, p95, p99, p999, p9999, max]
    }

    /// Returns the place of a percentile (`99.9`) that is kept; `None` for another.
    fn percentile(&mut self, percent: f64) -> Option<&mut Option<f64>> {
        let places = [
            (50.0, &mut self.p50),
            (90.0, &mut self.p90),
            (95.0, &mut self.p95),
            (99.0, &mut self.p99),
            (99.9, &mut self.p999),
            (99.99, &mut self.p9999),
        ];
        places.into_iter().find(|(known, _)| (known - percent).abs() < 1e-9).map(|(_, place)| place)
    }
}

/// Reads what one program prints.
type Reader = fn(&str) -> Vec<Reported>;

/// The programs whose formats are known. Those of Valkey and `KeyDB` are Redis's under other names.
const READERS: [(&str, Reader); 6] = [
    ("redis-benchmark", redis_benchmark::read),
    ("valkey-benchmark", redis_benchmark::read),
    ("keydb-benchmark", redis_benchmark::read),
    ("memtier_benchmark", memtier::read),
    ("pgbench", pgbench::read),
    ("sysbench", sysbench::read),
];

/// Returns what a command said of its tests on its standard output: nothing where it runs none of the known programs. The
/// program may stand behind others (`taskset -c 1 redis-benchmark`).
pub fn read(command: &[String], stdout: &str) -> Vec<Reported> {
    let is_named = |name: &str| command.iter().any(|word| word.rsplit('/').next() == Some(name));
    let reader = READERS.iter().find(|(name, _)| is_named(name));
    reader.map_or_else(Vec::new, |(name, read)| {
        read(stdout).into_iter().map(|test| Reported { program: name, ..test }).collect()
    })
}

/// Returns a time in milliseconds, as text, in nanoseconds; `None` for what is no time.
fn milliseconds(text: &str) -> Option<f64> {
    number(text).map(|time| time * 1e6)
}

/// Returns a number that is finite and not negative.
fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

/// Returns the word after `key` in a line: `12.3` of `latency average = 12.3 ms`.
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
            assert_eq!((tests.len(), tests[0].per_second), (1, Some(100.0)), "{command}");
        }
        assert_eq!(read(&words("my-benchmark redis"), said), []);
        assert_eq!(read(&words("pgbench -S"), said), [], "another program's format");
    }
}
