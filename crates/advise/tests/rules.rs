//! Tests each rule on a recording that triggers it and on one that does not.

#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use overhead_advise::{Advice, AdviceObserver, Certainty, FindingSubject, SeenTraffic, WhatIf, WhatIfOptions, all};
use overhead_capture::{FileSource, FrameSource, NextFrame};
use overhead_dissect::explain::{CaptureReading, Finder, OperationQuery};
use overhead_dissect::{Dissector, KeyLog, Selection, Totals};
use overhead_model::{Account, Amounts, Protocol, System};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rule, a recording that triggers it, and one of the same protocol that does not.
const CASES: [(&str, &str, &str); 24] = [
    ("column-metadata", "cassandra-rust", "cassandra-rust-skip"),
    ("describe", "postgres-extended-prepared", "postgres-rust"),
    ("prepare-per-execution", "cassandra-rust", "postgres-extended-prepared"),
    ("prepared-once", "postgres-by-the-row", "postgres-extended-prepared"),
    ("unprepared", "postgres-extended", "postgres-extended-prepared"),
    ("sync-per-statement", "postgres-by-the-row", "postgres-pipeline"),
    ("pipelining", "redis-get-set", "redis-pipeline"),
    ("nagle", "memcached-nagle", "memcached-session"),
    ("zero-window", "redis-impatient", "redis-get-set"),
    ("retransmission-timeouts", "redis-lossy", "redis-get-set"),
    ("small-segments", "http-two-writes", "http-keyvalue"),
    ("bare-acks", "cassandra-rust", "cassandra-rust-skip"),
    ("tls-records", "redis-tls13", "http-tls13"),
    ("tls-handshakes", "http-tls-short", "http-tls13"),
    ("short-connections", "redis-impatient", "redis-get-set"),
    ("field-names", "ferretdb-long-names", "ferretdb-rust"),
    ("session-fields", "ferretdb-rust", "cassandra-rust"),
    ("text-format", "postgres-by-the-row", "postgres-rust"),
    ("background", "cassandra-gocql", "redis-get-set"),
    ("repeated-reads", "redis-get-set", "redis-py"),
    ("n-plus-one", "postgres-by-the-row", "postgres-extended"),
    ("error-texts", "postgres-by-the-row", "postgres-extended"),
    ("compression", "cassandra-rust-lz4", "cassandra-rust"),
    ("abandoned-answers", "redis-impatient", "redis-get-set"),
];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

fn option<'a>(args: &'a [String], flag: &str) -> Option<&'a String> {
    args.iter().skip_while(|arg| *arg != flag).nth(1)
}

/// Feeds a fixture to a reading, with the fixture's options.
fn read(case: &str, reading: &mut dyn CaptureReading) -> Totals {
    let case = fixtures().join(case);
    let args: Vec<String> =
        std::fs::read_to_string(case.join("args")).unwrap().split_whitespace().map(str::to_owned).collect();
    let keys = Arc::<KeyLog>::default();
    if let Some(file) = option(&args, "--keylog") {
        assert!(keys.add(&std::fs::read(case.join(file)).unwrap()) > 0, "{}", case.display());
    }
    let protocols = option(&args, "--db").map(|db| vec![System::named(db).unwrap().protocol]);
    let protocols = protocols.unwrap_or(Protocol::ALL.to_vec());
    let ports = option(&args, "--port").map(|port| (port.parse().unwrap(), protocols)).into_iter().collect();
    let plain = case.join("capture.pcap");
    let file = if plain.is_file() { plain } else { case.join("capture.pcapng") };
    let mut source = FileSource::open(&file).unwrap();
    let secrets = source.secrets();
    let mut dissector =
        Dissector::new(Selection { ports, ..Selection::default() }, reading).with_keys(Arc::clone(&keys));
    while let NextFrame::Frame(frame) = source.next_frame().unwrap() {
        keys.add(&secrets.take());
        dissector.frame(&frame);
    }
    dissector.finish().1
}

fn advise(case: &str) -> (Advice, SeenTraffic, Totals) {
    let mut observer = AdviceObserver::new(all(WhatIfOptions::default()));
    let totals = read(case, &mut observer);
    let (advice, seen) = observer.into_advice();
    (advice, seen, totals)
}

fn names() -> Vec<String> {
    let folders = std::fs::read_dir(fixtures()).unwrap().map(|entry| entry.unwrap().path());
    let mut cases: Vec<String> = folders
        .filter(|case| case.join("args").is_file())
        .map(|case| case.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    cases.sort();
    cases
}

fn finds(rule: &str, case: &str) -> bool {
    advise(case).0.findings.iter().any(|finding| finding.rule == rule)
}

#[test]
fn every_rule_has_a_recording_that_shows_it_and_one_that_does_not() {
    let rules: Vec<&str> = all(WhatIfOptions::default()).iter().map(|(name, _)| *name).collect();
    assert_eq!(rules, CASES.map(|(rule, _, _)| rule));
    for (rule, shows, does_not) in CASES {
        assert!(finds(rule, shows), "{rule} in {shows}");
        assert!(!finds(rule, does_not), "{rule} in {does_not}");
    }
}

#[test]
fn what_was_seen_is_the_ledger_and_no_finding_takes_more_than_there_is() {
    for case in names() {
        let (advice, seen, totals) = advise(&case);
        assert_eq!(seen.wire() + totals.other, totals.wire_bytes, "{case}");
        for (rule, _) in all(WhatIfOptions::default()) {
            let of_rule = advice.findings.iter().filter(|finding| finding.rule == rule);
            let saved: i64 = of_rule.map(|finding| finding.saving.bytes).sum();
            let what_if = WhatIf::new(rule, &seen, &advice.findings);
            assert_eq!(what_if.before.cast_signed() - what_if.after.cast_signed(), saved, "{case}: {rule}");
        }
    }
}

#[test]
fn examples_are_operations_that_explain_knows() {
    for case in names() {
        let advice = advise(&case).0;
        for finding in &advice.findings {
            let example = finding.example.unwrap_or_else(|| panic!("{case}: {}", finding.rule));
            let mut finder = Finder::new(OperationQuery::Number(example.operation));
            read(&case, &mut finder);
            assert!(finder.found().is_some(), "{case}: {} names operation {}", finding.rule, example.operation);
        }
    }
}

#[test]
fn findings_say_all_there_is_to_say() {
    for case in names() {
        for finding in advise(&case).0.findings {
            let says = [finding.title.as_str(), &finding.computed, finding.unknown];
            assert!(says.iter().all(|text| !text.is_empty()), "{case}: {finding:?}");
            assert!(finding.operations > 0 && !finding.remedies.is_empty(), "{case}: {finding:?}");
            assert!(finding.saving.bytes != 0 || finding.saving.ns.is_some_and(|ns| ns > 0), "{case}: {finding:?}");
            let shares = [Some(finding.saving.percent_of_wire), finding.saving.percent_of_waiting];
            assert!(shares.into_iter().flatten().all(|share| share <= 100.0), "{case}: {finding:?}");
        }
    }
}

#[test]
fn shares_of_the_waiting_add_up_to_all_of_it_at_most() {
    for case in names() {
        let findings = advise(&case).0.findings;
        let sum: f64 = findings.iter().filter_map(|finding| finding.saving.percent_of_waiting).sum();
        assert!(sum < 100.1, "{case}: {sum}");
    }
}

#[test]
fn the_largest_saving_comes_first() {
    let findings = advise("redis-get-set").0.findings;
    let weights: Vec<f64> = findings.iter().map(overhead_advise::AdviceFinding::weight).collect();
    assert!(weights.len() > 1 && weights.is_sorted_by(|a, b| a >= b), "{weights:?}");
}

/// Returns the payload accounts of a response per operation.
fn payload(amounts: &Amounts, count: u64) -> Vec<(Account, u64)> {
    let accounts = Account::ALL.into_iter().filter(|account| account.is_payload());
    accounts.map(|account| (account, amounts[account] / count)).collect()
}

#[test]
fn answers_without_column_metadata_are_those_of_the_session_that_skips_it() {
    let (advice, seen, _) = advise("cassandra-rust");
    let what_if = WhatIf::new("column-metadata", &seen, &advice.findings);
    assert_eq!(what_if.certainty, Certainty::Exact);
    let skipped = advise("cassandra-rust-skip").1;
    assert_eq!(what_if.rows.len(), 2, "{what_if:?}");
    for row in &what_if.rows {
        let measured = skipped.rows.iter().find(|known| FindingSubject::from(*known) == row.subject).unwrap();
        assert_eq!(payload(&row.after[1], row.count), payload(&measured.amounts[1], measured.count));
    }
}
