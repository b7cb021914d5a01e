//! What the memo takes comes to the record that comes of it the general way.

use overhead_model::Side;
use overhead_report::Aggregate;
use overhead_testing::hostile::{ScriptedCapture, Target, random_script, seeds};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

/// Scripts that are made up.
const SCRIPTS: u64 = 3_000;

fn captures() -> Vec<ScriptedCapture> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    seeds(Target::Memo, &fixtures).unwrap().iter().map(|script| ScriptedCapture::decode(script)).collect()
}

/// The rows with their distributions, which a count of equal operations must not distort.
#[test]
fn records_are_the_same_with_the_memo_and_without() {
    for (number, capture) in captures().iter().enumerate() {
        let [(memo, with), (general, without)] = [true, false].map(|memo| {
            let (aggregate, totals, _) = capture.dissect(Aggregate::new(), memo);
            (aggregate, totals)
        });
        println!("script {number}, {}", capture.protocol());
        assert_eq!(with, without);
        assert_eq!(memo.operations(), general.operations());
        assert_eq!(memo.connections(), general.connections());
        for side in Side::BOTH {
            assert_eq!(memo.ledger(side), general.ledger(side));
        }
    }
}

#[test]
fn any_turns_and_any_damage_come_to_the_same() {
    for number in scripts() {
        println!("script {number}");
        Target::Memo.run(&random_script(number));
    }
}

/// Which scripts: more, or others, where `OVERHEAD_SCRIPTS` says so, as their number or as `FIRST..END`.
fn scripts() -> Range<u64> {
    let Ok(wanted) = std::env::var("OVERHEAD_SCRIPTS") else { return 0..SCRIPTS };
    let (first, end) = wanted.split_once("..").unwrap_or(("0", &wanted));
    first.parse().unwrap()..end.parse().unwrap()
}

/// What is never taken proves nothing: of each protocol, a good part of the frames is.
#[test]
fn the_memo_is_hit() {
    let mut taken = BTreeMap::new();
    let made_up = (0..SCRIPTS / 4).map(|number| ScriptedCapture::decode(&random_script(number)));
    for capture in captures().into_iter().chain(made_up) {
        let (_, _, hits) = capture.dissect(Aggregate::new(), true);
        let sum: &mut (u64, u64) = taken.entry(capture.protocol()).or_default();
        *sum = (sum.0 + hits, sum.1 + capture.len() as u64);
    }
    println!("{taken:?}");
    for (protocol, (hits, frames)) in taken {
        assert!(12 * hits > frames, "{protocol}: {hits} of {frames} frames");
    }
}
