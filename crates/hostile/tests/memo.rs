//! What the memo takes comes to the record that comes of it the general way.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use overhead_hostile::{Capture, Target, seeds};
use overhead_model::Side;
use overhead_report::Aggregate;
use std::path::Path;

fn captures() -> Vec<Capture> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    seeds(Target::Memo, &fixtures).unwrap().iter().map(|script| Capture::decode(script)).collect()
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
