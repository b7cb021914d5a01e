//! Third-party captures next to the repository, if present, have the frames and bytes that the oracle reports.

use crate::support::{Owned, drain};
use overhead_capture::FileSource;
use std::path::Path;

#[test]
fn frames_and_bytes_agree_with_the_oracle() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    let Ok(text) = std::fs::read_to_string(folder.join("oracle.json")) else {
        eprintln!("skipped: there is no corpus beside the repository");
        return;
    };
    let oracle: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut files = 0;
    for (name, case) in oracle.as_object().unwrap().iter().filter(|(name, _)| !name.starts_with('_')) {
        let (frames, end, _) = drain(FileSource::open(folder.join(name)).unwrap());
        let sum = |of: fn(&Owned) -> u64| frames.iter().map(of).sum::<u64>();
        let figures = [
            ("frames", frames.len() as u64),
            ("wire_bytes", sum(|frame| frame.original_len.into())),
            ("captured_bytes", sum(|frame| frame.bytes.len() as u64)),
            ("truncated_frames", sum(|frame| (frame.bytes.len() < frame.original_len as usize).into())),
        ];
        for (key, figure) in figures {
            let expected = &case["expected"][key];
            assert!(expected.is_null() || *expected == figure, "{name}: {key} is {figure}, expected {expected}");
        }
        assert_eq!(case["capture"]["cut_tail"].as_bool(), Some(end.cut.is_some()), "{name}: {:?}", end.cut);
        files += 1;
    }
    eprintln!("{files} captures agree");
}
