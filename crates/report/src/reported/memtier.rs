//! Output of `memtier_benchmark`: the table `ALL STATS`. Its columns depend on the version and on `--print-percentiles`, so the
//! code finds them by header.

use super::{Reported, number, percentile};

/// Returns a test for each line with a rate above 0; of several tables it uses the last, the average.
pub(super) fn read(stdout: &str) -> Vec<Reported> {
    let lines: Vec<&str> = stdout.lines().collect();
    let Some(header) = lines.iter().rposition(|line| line.starts_with("Type ") && line.contains("Ops/sec")) else {
        return Vec::new();
    };
    let columns = headers(lines.get(header).copied().unwrap_or_default());
    let rows = lines
        .iter()
        .skip(header + 1)
        .skip_while(|line| line.starts_with('-'))
        .take_while(|line| !line.trim().is_empty());
    rows.filter_map(|line| row(&columns, line)).collect()
}

/// Returns the headers; joins `Latency` to a preceding qualifier.
fn headers(line: &str) -> Vec<String> {
    let mut headers: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        match headers.last_mut().filter(|last| word == "Latency" && (**last == "Avg." || last.starts_with('p'))) {
            Some(last) => last.push_str(" Latency"),
            None => headers.push(word.to_owned()),
        }
    }
    headers
}

fn row(columns: &[String], line: &str) -> Option<Reported> {
    let mut words = line.split_whitespace();
    let mut test = Reported::new(words.next()?, None);
    for (column, word) in columns.iter().skip(1).zip(words) {
        match &**column {
            "Ops/sec" => test.per_second = number(word),
            "Latency" | "Avg. Latency" => test.set("mean", word),
            column => {
                let percent = column.strip_suffix(" Latency").and_then(|name| number(name.strip_prefix('p')?));
                percent.and_then(percentile).into_iter().for_each(|name| test.set(name, word));
            }
        }
    }
    test.per_second.is_some_and(|rate| rate > 0.0).then_some(test)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_their_headers() {
        let text = "ALL STATS\n=====\n\
            Type         Ops/sec     Hits/sec   Misses/sec    Avg. Latency     p50 Latency   p99.9 Latency p99.990 Latency       KB/sec \n\
            -----\n\
            Sets            0.00          ---          ---             ---             ---             ---             ---         0.00 \n\
            Gets        62355.66     62337.56        18.10         3.20683         2.86300        12.99100        95.74300      6537.40 \n\
            Totals      62355.66     62337.56        18.10         3.20683         2.86300        12.99100        95.74300      6537.40 \n\
            \n\nRequest Latency Distribution\n";
        let tests = read(text);
        assert_eq!(tests.iter().map(|test| &*test.name).collect::<Vec<_>>(), ["Gets", "Totals"]);
        let latency = |name: &str| tests[1].latency_ns.get(name).copied();
        assert_eq!((latency("p50"), latency("p99")), (Some(2_863_000.0), None));
        assert_eq!((latency("p999"), latency("p9999")), (Some(12_991_000.0), Some(95_743_000.0)));
        let old = "Type        Ops/sec     Hits/sec   Misses/sec      Latency       KB/sec\n----\nSets       21536.09          ---          ---      0.23100     22561.95\n";
        assert_eq!(read(old)[0].latency_ns.get("mean"), Some(&231_000.0));
    }
}
