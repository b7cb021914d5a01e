//! Scripts named after their situation.

use super::ScriptStep::{Again, Damage, Spelt};
use super::sheet::Sheet;
use super::{ScriptStep, ScriptedCapture, run, turns};
use overhead_decode::Note;
use overhead_model::Protocol;

/// Turns after which a connection takes further ones from the memo.
const MANY: u8 = 10;
/// Segments of 40 bytes.
const SHORT: u8 = 8;

/// A turn that its protocol's decoder does not take for one would repeat itself to no purpose.
#[test]
fn turns_are_well_formed() {
    for (protocol, start) in Protocol::ALL.map(|protocol| (protocol, turns::start(protocol))) {
        for (kind, lengths) in (0..16).flat_map(|kind| (0..16).map(move |lengths| (kind, lengths))) {
            let steps: Vec<_> = start.iter().chain([&kind]).map(|&kind| ScriptStep::Turn(kind, 0, 0)).collect();
            let mut script = ScriptStep::encode(protocol, [0x10, 0], &steps);
            script.splice(script.len() - 1.., [lengths]);
            let (_, totals, _) = ScriptedCapture::decode(&script).dissect(Sheet::default(), false);
            // Data compressed without a word on how cannot be decoded, and is not meant to be.
            let is_odd = protocol == Protocol::Cql && kind == 15 && lengths % 4 == 0;
            let notes: Vec<_> = totals.notes.keys().filter(|note| **note != Note::UntypedValue).collect();
            assert_eq!(notes.is_empty(), !is_odd, "{protocol}, turn {kind}, lengths {lengths}: {notes:?}");
        }
    }
}

/// Returns a message of memcached's binary protocol: magic byte, opcode and opaque; extras, key and value.
fn message([magic, opcode, opaque]: [u8; 3], [extras, key, value]: [&[u8]; 3]) -> Vec<u8> {
    let body = (extras.len() + key.len() + value.len()) as u8;
    let head = [magic, opcode, 0, key.len() as u8, extras.len() as u8, 0, 0, 0, 0, 0, 0, body, 0, 0, 0, opaque];
    [&head[..], &[0; 8], extras, key, value].concat()
}

/// Returns how many frames the memo takes of a conversation of memcached in which one turn comes again and again, and then
/// another.
fn memcached_again(more: u8, [again, last]: [(Vec<u8>, Vec<u8>); 2]) -> u64 {
    let steps = [Spelt(again.0, again.1), Again(0, MANY, 0), Spelt(last.0, last.1)];
    run(&ScriptStep::encode(Protocol::Memcache, [0x10, more], &steps))
}

/// Made-up script 929,991: what was learnt was a quiet get without a hit, and a hit under an id that nobody had used.
#[test]
fn an_id_that_answered_nothing_is_asked_under_later() {
    let turn = |asked, answered| {
        let ask = [message([0x80, 0x0d, asked], [b"", b"k", b""]), message([0x80, 0x0a, 9], [b"", b"", b""])];
        let answer =
            [message([0x81, 0x0d, answered], [&[0; 4], b"k", b"v"]), message([0x81, 0x0a, 9], [b"", b"", b""])];
        (ask.concat(), answer.concat())
    };
    assert_eq!(memcached_again(0, [turn(5, 1), turn(1, 1)]), 0);
    assert!(memcached_again(0, [turn(5, 5), turn(1, 1)]) > 20);
}

/// Half of the id of an answer's second message is in the next frame.
#[test]
fn an_id_that_two_frames_share_answers_nothing_later() {
    let turn = |asked, answered, key: &'static [u8]| {
        let ask = message([0x80, 0x10, asked], [b"", b"", b""]);
        let answer = [message([0x81, 0x10, asked], [b"", key, b"1"]), message([0x81, 0x10, answered], [b"", b"", b""])];
        (ask, answer.concat())
    };
    assert_eq!(memcached_again(SHORT, [turn(5, 5, b"k"), turn(1, 5, b"k")]), 0);
    assert!(memcached_again(SHORT, [turn(5, 5, b"longer"), turn(1, 1, b"longer")]) > 20);
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
