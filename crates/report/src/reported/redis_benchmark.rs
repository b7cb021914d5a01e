//! Output of `redis-benchmark` up to Redis 7: full, `-q` or `--csv`.
//!
//! Full output starts a test with its name between `======`, and has a line `throughput summary`, or only `requests per second`
//! before Redis 6.2. Percentiles are lists of `99.9% <= 1.2 milliseconds`; the next listed value bounds an unlisted percentile.

use super::{PERCENTILES, Reported, milliseconds, number};

const BAR: &str = "======";

pub(super) fn read(stdout: &str) -> Vec<Reported> {
    // Progress overwrites itself: keep the text after a line's last carriage return.
    let lines: Vec<&str> = stdout.lines().map(|line| line.trim_end().rsplit('\r').next().unwrap_or_default()).collect();
    if lines.iter().any(|line| line.starts_with("\"test\",\"rps\"")) {
        return lines.iter().filter_map(|line| csv(line)).collect();
    }
    let mut tests: Vec<Reported> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if let Some(name) = line.trim().strip_prefix(BAR).and_then(|rest| rest.strip_suffix(BAR)) {
            tests.push(Reported::new(name.trim(), None));
        } else if let Some(quiet) = quiet(line) {
            tests.push(quiet);
        } else if let Some(test) = tests.last_mut() {
            full(test, line, lines.get(at + 1).copied().unwrap_or_default());
        }
    }
    tests.retain(|test| test.per_second.is_some());
    tests
}

/// Parses a line such as `GET: 83333.33 requests per second, p50=0.287 msec`.
fn quiet(line: &str) -> Option<Reported> {
    let (before, after) = line.split_once(" requests per second")?;
    let (name, rate) = before.rsplit_once(": ")?;
    if name.trim_start().starts_with("throughput summary") {
        return None;
    }
    let mut test = Reported::new(name.trim(), Some(number(rate)?));
    let p50 = after.split_once("p50=").and_then(|(_, rest)| rest.split_whitespace().next());
    test.set("p50", p50.unwrap_or_default());
    Some(test)
}

/// Parses a line of a full test together with the next line.
fn full(test: &mut Reported, line: &str, next: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["throughput", "summary:", rate, ..] | [rate, "requests", "per", "second"] => test.per_second = number(rate),
        ["avg", "min", "p50", "p95", "p99", "max"] => {
            summary(test, &next.split_whitespace().collect::<Vec<_>>());
        }
        [percent, "<=", bound, "milliseconds", ..] => {
            let Some(percent) = percent.strip_suffix('%').and_then(number) else { return };
            let Some(bound) = milliseconds(bound) else { return };
            let bounded = PERCENTILES.into_iter().chain([(100.0, "max")]).filter(|(part, _)| percent >= *part);
            for (_, name) in bounded {
                test.latency_ns.entry(name.to_owned()).or_insert(bound);
            }
        }
        _ => {}
    }
}

/// Parses `"GET","83333.33","0.320","0.096","0.303","0.455","0.599","1.103"`; latencies are absent before Redis 6.2.
fn csv(line: &str) -> Option<Reported> {
    // Names can contain commas, so count cells from the end.
    let cells: Vec<&str> = line.trim_matches('"').split("\",\"").collect();
    let (name, figures) = cells.split_first()?;
    let (rate, times) = figures.split_first()?;
    let mut test = Reported::new(name, Some(number(rate)?));
    summary(&mut test, times);
    Some(test)
}

/// Sets the latencies of a summary, if it has all six.
fn summary(test: &mut Reported, times: &[&str]) {
    if let [mean, _, p50, p95, p99, max] = times {
        let named = [("mean", mean), ("p50", p50), ("p95", p95), ("p99", p99), ("max", max)];
        for (name, time) in named {
            test.set(name, time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = "\
GET: rps=0.0 (overall: 0.0) avg_msec=nan (overall: nan)\r====== GET ======
  1000 requests completed in 0.01 seconds
  50 parallel clients

Latency by percentile distribution:
0.000% <= 0.119 milliseconds (cumulative count 1)
50.000% <= 0.303 milliseconds (cumulative count 512)
93.750% <= 0.407 milliseconds (cumulative count 940)
99.609% <= 0.631 milliseconds (cumulative count 997)
99.902% <= 0.703 milliseconds (cumulative count 1000)
100.000% <= 0.703 milliseconds (cumulative count 1000)

Cumulative distribution of latencies:
0.000% <= 0.103 milliseconds (cumulative count 0)
100.000% <= 0.807 milliseconds (cumulative count 1000)

Summary:
  throughput summary: 90909.09 requests per second
  latency summary (msec):
          avg       min       p50       p95       p99       max
        0.310     0.112     0.303     0.415     0.607     0.703

====== SET ======
  throughput summary: 80000.00 requests per second
";

    #[test]
    fn a_test_in_full_has_all_its_figures() {
        let tests = read(FULL);
        assert_eq!(tests.iter().map(|test| &*test.name).collect::<Vec<_>>(), ["GET", "SET"]);
        assert_eq!((tests[0].per_second, tests[1].per_second), (Some(90_909.09), Some(80_000.0)));
        let by_name = &tests[0].latency_ns;
        let us = overhead_model::record::ReportedTest::LATENCIES.map(|name| (by_name[name] / 1e3).round() as u64);
        assert_eq!(us, [310, 303, 407, 415, 607, 703, 703, 703]);
    }

    #[test]
    fn quiet_lines_and_tables_are_read_too() {
        let quiet =
            read("PING_INLINE: rps=0.0 (overall: nan)\rPING_INLINE: 55555.56 requests per second, p50=0.5 msec\n");
        assert_eq!((&*quiet[0].name, quiet[0].latency_ns.get("p50")), ("PING_INLINE", Some(&500_000.0)));
        let old = read("SET: 70000.00 requests per second\n\n");
        assert_eq!((old[0].per_second, old[0].latency_ns.get("p50")), (Some(70_000.0), None));
        let header = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\
                      \"p99_latency_ms\",\"max_latency_ms\"\n";
        let table = read(&format!("{header}\"GET\",\"100.5\",\"0.3\",\"0.1\",\"0.2\",\"0.4\",\"0.5\",\"0.6\"\n"));
        assert_eq!((table.len(), table[0].per_second, table[0].latency_ns["max"]), (1, Some(100.5), 600_000.0));
        let before_6_2 = read(
            "====== GET ======\n  10 requests completed in 0.00 seconds\n\n99.96% <= 1 milliseconds\n\
                               100.00% <= 2 milliseconds\n70000.00 requests per second\n",
        );
        assert_eq!((before_6_2[0].per_second, before_6_2[0].latency_ns["p999"]), (Some(70_000.0), 1e6));
        assert_eq!(read("Could not connect to Redis at 127.0.0.1:1: Connection refused\n"), []);
    }
}
