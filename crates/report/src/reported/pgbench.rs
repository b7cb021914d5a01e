//! Final summary of `pgbench`. If it gives rates with and without connection time, the code uses the one without.

use super::{Reported, after, number};

/// Returns the only test, or nothing if it made no transaction.
pub(super) fn read(stdout: &str) -> Vec<Reported> {
    let find = |key: &str| stdout.lines().rev().find_map(|line| after(line, key));
    let Some(per_second) = find("tps = ").and_then(number) else { return Vec::new() };
    let mut test = Reported::new("transactions", Some(per_second));
    test.set("mean", find("latency average = ").unwrap_or_default());
    vec![test]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_and_mean_are_read_of_all_versions() {
        let new = "latency average = 0.061 ms\ninitial connection time = 2.351 ms\n\
                   tps = 16345.234 (without initial connection time)\n";
        let old = "latency average = 0.061 ms\ntps = 900.5 (including connections establishing)\n\
                   tps = 16345.234 (excluding connections establishing)\n";
        for text in [new, old] {
            let tests = read(text);
            assert_eq!(tests[0].per_second, Some(16_345.234));
            assert_eq!(tests[0].latency_ns.get("mean").map(|ns| ns.round()), Some(61_000.0));
        }
        assert_eq!(read("pgbench: error: could not connect\n"), []);
    }
}
