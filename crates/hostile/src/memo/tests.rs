//! Scripts named after their situation.

use super::ScriptStep::{Again, Damage};
use super::sheet::Sheet;
use super::{ScriptStep, ScriptedCapture, run, turns};
use overhead_decode::Note;
use overhead_model::Protocol;

/// So many turns that a connection takes those that follow from the memo.
const MANY: u8 = 10;

/// A turn that its protocol's decoder does not take for one would repeat itself to no purpose.
#[test]
fn turns_are_well_formed() {
    for (protocol, start) in Protocol::ALL.map(|protocol| (protocol, turns::start(protocol))) {
        for (kind, lengths) in (0..16).flat_map(|kind| (0..16).map(move |lengths| (kind, lengths))) {
            let steps: Vec<_> = start.iter().chain([&kind]).map(|&kind| ScriptStep::Turn(kind, 0, 0)).collect();
            let mut script = ScriptStep::encode(protocol, [0x10, 0], &steps);
            script.splice(script.len() - 1.., [lengths]);
            let (_, totals, _) = ScriptedCapture::decode(&script).dissect(Sheet::default(), false);
            // What is compressed without a word on how cannot be decoded, and is not meant to be.
            let is_odd = protocol == Protocol::Cql && kind == 15 && lengths % 4 == 0;
            let notes: Vec<_> = totals.notes.keys().filter(|note| **note != Note::UntypedValue).collect();
            assert_eq!(notes.is_empty(), !is_odd, "{protocol}, turn {kind}, lengths {lengths}: {notes:?}");
        }
    }
}

/// Whose an old frame was is forgotten as soon on either path: runs are, by what was acknowledged when the next ones came.
#[test]
fn a_frame_comes_again_long_after_turns_that_came_again() {
    const ANEW: u8 = 8;
    let (get, set) = (ScriptStep::Turn(0, 0, 0), ScriptStep::Turn(1, 0, 0));
    let (many, ten) = (Again(0, MANY, ANEW), [get.clone(), Again(0, 7, ANEW), get.clone()]);
    // The answer to the set is 21 frames back then.
    let steps = [&[get, many, set][..], &ten, &[Damage(14, 2, 0)]].concat();
    assert!(run(&ScriptStep::encode(Protocol::Resp, [0, 0], &steps)) > 20);
}
