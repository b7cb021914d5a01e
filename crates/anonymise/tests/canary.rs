//! Puts a word wherever users choose content, in every protocol, and checks that no copy contains it.

use crate::conversations::{CANARY, Conversation, Packed, all_conversations};
use crate::fields::Fields;
use overhead_anonymise::{Anonymiser, FillerKey};
use overhead_dissect::{Dissector, Selection};
use overhead_model::{Frame, LinkType};
use std::collections::BTreeMap;

const PORT: u16 = 7_777;

fn dissected(frames: &[Vec<u8>], selection: &Selection) -> Fields {
    let mut dissector = Dissector::new(selection.clone(), Fields::default());
    for bytes in frames {
        dissector.frame(&frame(bytes));
    }
    dissector.finish().0
}

fn frame(bytes: &[u8]) -> Frame<'_> {
    Frame { time_ns: 0, link: LinkType::ETHERNET, original_len: bytes.len() as u32, interface: 0, bytes }
}

fn copy(frames: &[Vec<u8>], selection: &Selection) -> Vec<Vec<u8>> {
    let mut copy = Anonymiser::new(selection, FillerKey(*b"a key for tests."), tempfile::tempfile().unwrap());
    for bytes in frames {
        copy.frame(&frame(bytes)).unwrap();
    }
    let mut copied = copy.finish().unwrap();
    let mut frames = Vec::new();
    while let Some(frame) = copied.next_frame().unwrap() {
        frames.push(frame.bytes.to_vec());
    }
    frames
}

/// Returns the frames of a conversation. Each has the word in an IP option, in a TCP option, and after its end.
fn frames(turns: &[(bool, Vec<u8>, Packed)]) -> Vec<Vec<u8>> {
    let mut next = [1_000_u32, 9_000];
    let mut segment = |is_client: bool, flags: u8, payload: &[u8]| {
        let (from, to) = if is_client { (0, 1) } else { (1, 0) };
        let ports = [40_000_u16, PORT];
        let mut ip =
            [&[0x48, 0][..], &(64 + payload.len() as u16).to_be_bytes(), &[0, 0, 0x40, 0, 64, 6, 0, 0]].concat();
        ip.extend([[10, 0, 0, 1 + from as u8], [10, 0, 0, 1 + to as u8]].concat());
        let option = |kind: u8| [&[kind, 11][..], CANARY.as_bytes(), &[0]].concat();
        let tcp = [&ports[from].to_be_bytes()[..], &ports[to].to_be_bytes(), &next[from].to_be_bytes()].concat();
        let tcp = [&tcp[..], &next[to].to_be_bytes(), &[0x80, flags, 2, 0, 0, 0, 0, 0]].concat();
        next[from] += payload.len() as u32 + u32::from(flags & 2 != 0);
        let link = [&[2; 12][..], &[8, 0]].concat();
        [link, ip, option(130), tcp, option(253), payload.to_vec(), CANARY.into()].concat()
    };
    let mut frames = vec![segment(true, 2, b""), segment(false, 0x12, b"")];
    frames.extend(turns.iter().map(|(is_client, payload, _)| segment(*is_client, 0x18, payload)));
    frames
}

/// Sums bytes by account.
fn by_account(fields: &Fields) -> BTreeMap<&str, u64> {
    let mut sums = BTreeMap::new();
    for (field, bytes) in &fields.found {
        *sums.entry(field.split(' ').nth(1).unwrap()).or_default() += bytes;
    }
    sums
}

fn has_canary(bytes: &[u8]) -> bool {
    // Only the letters: numbers may stay.
    bytes.to_ascii_lowercase().windows(6).any(|window| window == b"canary")
}

#[test]
fn a_word_that_users_choose_is_nowhere_in_a_copy() {
    let mut wrong = Vec::new();
    for Conversation { name, protocol, turns, .. } in all_conversations() {
        let selection = Selection { ports: vec![(PORT, vec![protocol])], ..Selection::default() };
        let original = frames(&turns);
        let copied = copy(&original, &selection);
        for ((bytes, was), (_, _, packed)) in copied.iter().zip(&original).skip(2).zip(&turns) {
            let payload = &bytes[78..bytes.len() - CANARY.len()];
            if has_canary(bytes) || packed.unpack(payload).is_some_and(|content| has_canary(&content)) {
                let (was, is) = (&was[78..], &bytes[78..]);
                wrong.push(format!("{name}: {}\n  {}", was.escape_ascii(), is.escape_ascii()));
            }
        }
        let (of_original, of_copy) = (dissected(&original, &selection), dissected(&copied, &selection));
        let (a, b) = (by_account(&of_original), by_account(&of_copy));
        // Not all compressed content can be replaced at the same length.
        let is_compared = !turns.iter().any(|(_, _, packed)| matches!(packed, Packed::Zlib(_) | Packed::Zstd(_)));
        if is_compared && (&a, &of_original.outcomes) != (&b, &of_copy.outcomes) {
            wrong.push(format!("{name}: {a:?}\n  became {b:?}"));
        }
        wrong.extend(of_original.unknown());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
