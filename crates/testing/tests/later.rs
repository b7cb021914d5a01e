//! Recorded conversations whose beginning was not captured.

use overhead_model::Protocol;
use overhead_testing::hostile::begun_later;
use std::path::Path;

#[test]
fn heard_from_any_frame_on_mysql_is_posted_as_in_the_whole_or_not_at_all() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let (beginnings, wrong) = begun_later(Protocol::Mysql, &fixtures).unwrap();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(beginnings > 100, "{beginnings} beginnings");
}
