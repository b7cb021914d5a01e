//! What several parts come to is what the whole comes to.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use overhead_dissect::{Dissector, Part, Recipient, Routes, Selection, Splitter, Totals};
use overhead_hostile::{ScriptedCapture, Target, random_script, seeds};
use overhead_model::Side;
use overhead_model::frame::{Frame, Kept, LinkType};
use overhead_report::Aggregate;
use std::num::NonZero;
use std::ops::Range;
use std::path::Path;

/// Scripts that are made up.
const SCRIPTS: u64 = 500;

/// Dissects frames in so many parts, one frame after the other.
fn divided<'a>(frames: impl Iterator<Item = Frame<'a>>, selection: &Selection, number: usize) -> (Aggregate, Totals) {
    let routes = Routes::among(NonZero::new(number).unwrap(), selection);
    let part = |number| Dissector::new(selection.clone(), Aggregate::new()).into_part(routes.clone(), number);
    let mut parts: Vec<Part<Aggregate>> = (0..number).map(part).collect();
    let mut splitter = Splitter::new(selection, routes.clone());
    for frame in frames {
        splitter.frame(&frame, |recipient, at| match recipient {
            Recipient::Part(number) => parts[number].frame(&frame, at),
            Recipient::All => parts.iter_mut().for_each(|part| part.frame(&frame, at)),
        });
    }
    assert!(!routes.is_over());
    let (mut sum, mut totals) = (Aggregate::new(), splitter.finish());
    for (aggregate, of_part) in parts.into_iter().map(Part::finish) {
        sum.merge(aggregate);
        totals.add(&of_part);
    }
    (sum, totals)
}

fn assert_parts_are_the_whole<'a>(frames: &(impl Iterator<Item = Frame<'a>> + Clone), selection: &Selection) {
    let mut dissector = Dissector::new(selection.clone(), Aggregate::new());
    frames.clone().for_each(|frame| dissector.frame(&frame));
    let (whole, totals) = dissector.finish();
    for parts in [1, 2, 3, 5] {
        let (sum, of_parts) = divided(frames.clone(), selection, parts);
        assert_eq!(of_parts, totals, "totals of {parts} parts");
        assert_eq!(sum.operations(), whole.operations(), "operations of {parts} parts");
        for side in Side::BOTH {
            assert_eq!(sum.ledger(side), whole.ledger(side), "ledger of {parts} parts");
        }
    }
}

#[test]
fn any_turns_and_any_damage_come_to_the_same() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let kept = seeds(Target::Memo, &fixtures).unwrap();
    for (number, script) in kept.into_iter().chain((0..SCRIPTS).map(random_script)).enumerate() {
        let capture = ScriptedCapture::decode(&script);
        println!("script {number}, {}", capture.protocol());
        assert_parts_are_the_whole(&capture.frames(), capture.selection());
    }
}

/// The same in two fragments, where its packet is long enough and all there.
fn in_fragments(frame: &Frame<'_>) -> Vec<Kept> {
    const IP: usize = 14;
    const BEHIND: usize = IP + 20;
    let len = frame.bytes.get(IP + 2..IP + 4).map_or(0, |len| usize::from(u16::from_be_bytes([len[0], len[1]])));
    if frame.bytes.get(12..15) != Some(&[8, 0, 0x45]) || len < 40 || frame.bytes.len() < IP + len {
        return vec![Kept::of(frame)];
    }
    let cut = (len - 20) / 16 * 8;
    let part = |range: Range<usize>, more: bool| {
        let mut bytes = frame.bytes[..BEHIND].to_vec();
        bytes.extend_from_slice(&frame.bytes[BEHIND + range.start..BEHIND + range.end]);
        bytes[IP + 2..IP + 4].copy_from_slice(&(20 + range.len() as u16).to_be_bytes());
        let place = (range.start / 8) as u16 | if more { 0x2000 } else { 0 };
        bytes[IP + 6..IP + 8].copy_from_slice(&place.to_be_bytes());
        Kept::of(&Frame { original_len: bytes.len() as u32, bytes: &bytes, ..*frame })
    };
    vec![part(0..cut, true), part(cut..len - 20, false)]
}

/// The same as the device `any` captures it.
fn cooked(frame: &Frame<'_>) -> Kept {
    let behind = frame.bytes.get(12..).unwrap_or_default();
    let bytes = [&[0, 0, 3, 4, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0], behind].concat();
    Kept::of(&Frame { link: LinkType::LINUX_SLL, original_len: frame.original_len + 2, bytes: &bytes, ..*frame })
}

/// Frames with other headers than most have go another way.
#[test]
fn fragments_copies_and_cooked_frames_come_to_the_same() {
    let mut fragmented = 0;
    for number in 0..SCRIPTS / 10 {
        let capture = ScriptedCapture::decode(&random_script(number));
        println!("script {number}, {}", capture.protocol());
        let fragments: Vec<_> = capture.frames().flat_map(|frame| in_fragments(&frame)).collect();
        let twice = |frame: Frame<'_>| [0, 1].map(|interface| Kept::of(&Frame { interface, ..frame }));
        let twice: Vec<_> = capture.frames().flat_map(twice).collect();
        let cooked: Vec<_> = capture.frames().map(|frame| cooked(&frame)).collect();
        fragmented += fragments.len() - capture.len();
        for frames in [fragments, twice, cooked] {
            assert_parts_are_the_whole(&frames.iter().map(Kept::frame), capture.selection());
        }
    }
    assert!(fragmented > 100, "{fragmented} packets were in fragments");
}
