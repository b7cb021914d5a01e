//! Vectors named after their situation, each cut at every byte. All follow the specification, as no server was
//! available.

use super::{Ssdb, sniff};
use crate::Sniff;
use overhead_decode::{DecoderEngine, Note};
use overhead_model::{Outcome, Side};
use overhead_testing::free;
use overhead_testing::transcript::{Entry, Transcript, check};
use proptest::prelude::*;

const C: Side = Side::Request;
const S: Side = Side::Response;

fn talk(conversation: &[(Side, &str)]) -> Transcript {
    let bytes: Vec<(Side, &[u8])> = conversation.iter().map(|(side, text)| (*side, text.as_bytes())).collect();
    check(Ssdb::default, &bytes)
}

fn packet(blocks: &[&str]) -> String {
    let blocks: Vec<_> = blocks.iter().map(|block| format!("{}\n{block}\n", block.len())).collect();
    blocks.concat() + "\n"
}

fn outcomes(transcript: &Transcript) -> Vec<(&str, Option<Outcome>)> {
    transcript.ops.iter().map(|op| (op.name(), op.outcome)).collect()
}

#[test]
fn a_get_that_hits_and_one_that_misses() {
    assert_eq!(packet(&["get", "key"]), "3\nget\n3\nkey\n\n");
    let transcript = talk(&[
        (C, "3\nget\n3\nkey\n\n"),
        (S, "2\nok\n3\nval\n\n"),
        (C, "3\nget\n3\nkey\n\n"),
        (S, "9\nnot_found\n\n"),
    ]);
    assert_eq!(
        transcript.summary(),
        [
            "workload get [] ok: framing 7, query 3, data 3 | framing 7, data 3, status 2",
            "workload get [] ok: framing 7, query 3, data 3 | framing 4, status 9"
        ]
    );
}

#[test]
fn blocks_may_hold_anything_and_lines_may_end_in_crlf() {
    let transcript = talk(&[(C, "3\r\nset\r\n1\r\nk\r\n4\r\n\n\r\n\n\r\n\r\n"), (S, "2\r\nok\r\n1\r\n1\r\n\r\n")]);
    assert_eq!(
        transcript.summary(),
        ["workload set [] ok: framing 17, query 3, data 5 | framing 12, data 1, status 2"]
    );
}

#[test]
fn a_pipeline_is_answered_in_order_and_errors_are_errors() {
    let requests = [packet(&["set", "a", "1"]), packet(&["incr", "a", "x"]), packet(&["multi_get", "a", "b"])].concat();
    let answers = [packet(&["ok", "1"]), packet(&["error", "value is not an integer"]), packet(&["ok", "a", "1"])];
    let transcript = talk(&[(C, &requests), (S, &answers.concat())]);
    let (ok, error) = (Some(Outcome::Ok), Some(Outcome::Error));
    assert_eq!(outcomes(&transcript), [("set", ok), ("incr", error), ("multi_get", ok)]);
    for status in ["fail", "client_error", "noauth"] {
        let transcript = talk(&[(C, &packet(&["get", "k"])), (S, &packet(&[status, "why"]))]);
        assert_eq!(outcomes(&transcript), [("get", error)]);
    }
}

#[test]
fn authentication_is_set_up_and_the_server_says_its_version() {
    let transcript = talk(&[
        (C, &packet(&["auth", "secret"])),
        (S, &packet(&["ok", "1"])),
        (C, &packet(&["info"])),
        (S, &packet(&["ok", "ssdb-server", "version", "1.9.9", "links", "1"])),
    ]);
    assert!(transcript.summary()[0].starts_with("setup auth"));
    assert_eq!(transcript.software, [None, Some("SSDB 1.9.9".to_owned())]);
}

#[test]
fn a_dump_goes_on_until_it_ends() {
    let answer = [packet(&["begin"]), packet(&["set", "k", "v"]), packet(&["end", "1"])].concat();
    let transcript = talk(&[(C, &packet(&["dump", "", "", "10"])), (S, &answer), (C, "4\nping\n\n"), (S, "2\nok\n\n")]);
    let ok = Some(Outcome::Ok);
    assert_eq!(outcomes(&transcript), [("dump", ok), ("ping", ok)]);
}

#[test]
fn replication_is_sent_without_asking() {
    let transcript =
        talk(&[(C, &packet(&["sync140", "0", "", ""])), (S, &packet(&["noop"])), (S, &packet(&["set", "k"]))]);
    let (silent, sent) = (Some(Outcome::NoReply), Some(Outcome::Unsolicited));
    assert_eq!(outcomes(&transcript), [("sync140", silent), ("sync140", sent), ("sync140", sent)]);
    assert!(transcript.summary().iter().all(|line| line.starts_with("background")));
}

#[test]
fn empty_lines_between_packets_are_no_commands() {
    let transcript = talk(&[(C, "\n\r\n4\nping\n\n"), (S, "2\nok\n\n")]);
    assert_eq!(outcomes(&transcript).last(), Some(&("ping", Some(Outcome::Ok))));
    assert!(transcript.summary()[0].starts_with("unmatched (empty)"));
}

#[test]
fn an_answer_without_a_request_is_unmatched_and_a_request_cut_off_never_labelled() {
    assert!(talk(&[(S, "2\nok\n\n")]).summary()[0].starts_with("unmatched RESPONSE"));
    assert_eq!(talk(&[(C, "3\nget\n3\nkey\n")]).ops[0].label, None);
}

#[test]
fn defects_end_the_direction_and_nothing_else() {
    for defect in ["x\n", "3\ngetx\n", "-1\n", "99999999999\n", "1 \n", &"1".repeat(30)] {
        let transcript = talk(&[(C, defect), (C, "more"), (S, "2\nok\n\n")]);
        assert!(transcript.notes.iter().any(|note| matches!(note, Note::Malformed(_))), "{defect:?}");
        assert!(transcript.summary().iter().any(|line| line.starts_with("unmatched RESPONSE")), "{defect:?}");
    }
}

#[test]
fn a_snapped_block_keeps_its_size_and_after_a_gap_decoding_resumes() {
    let mut engine = DecoderEngine::new(Ssdb::default(), false);
    let mut transcript = Transcript::default();
    engine.bytes(C, b"3\nset\n1\nk\n1000\nabc", &mut transcript);
    engine.opaque(C, 997, &mut transcript);
    engine.bytes(C, b"\n\n", &mut transcript);
    engine.bytes(S, b"2\nok\n1\n1\n\n", &mut transcript);
    engine.bytes(C, b"3\nget\n1\nk", &mut transcript);
    engine.opaque(C, 700, &mut transcript);
    engine.bytes(C, b"lue\n\n3\ndel\n1\nk\n\n", &mut transcript);
    engine.finish(&mut transcript);
    assert_eq!(
        transcript.summary()[0],
        "workload set [] ok: framing 13, query 3, data 1001 | framing 7, data 1, status 2"
    );
    assert_eq!(transcript.ops.last().map(Entry::name), Some("del"));
    assert!(transcript.notes.contains(&Note::LostBoundary));
}

#[test]
fn blocks_are_free_but_the_first() {
    let turn = [(C, b"3\nget\n3\nkey\n\n".as_slice()), (S, b"2\nok\n3\nval\n\n")];
    let checked = free::check(Ssdb::default, &[turn, turn].concat());
    assert_eq!((checked.turns, checked.repeatable, checked.free), (2, 2, 12), "{checked:?}");
    assert_eq!(free::numbers(Ssdb::default(), &[(C, b"7\nsync140\n\n")]), [None]);
}

#[test]
fn first_bytes_tell_clients_from_servers() {
    for (bytes, expected) in [
        ("3\nget\n1\nk\n\n", Sniff::Request),
        ("2\r\nok\r\n", Sniff::Response),
        ("9\nnot_found\n", Sniff::Response),
        ("3\nge", Sniff::More),
        ("3", Sniff::More),
        ("*1\r\n$4\r\nPING\r\n", Sniff::No),
        ("15\r\n", Sniff::More),
        ("3\n\u{1}\u{2}\u{3}\n", Sniff::No),
        ("250 OK\r\n", Sniff::No),
    ] {
        assert_eq!(sniff(bytes.as_bytes()), expected, "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_posted_once(pieces in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..40)), 0..12)) {
        conserve(&pieces)?;
    }

    #[test]
    fn near_misses_are_posted_once(pieces in prop::collection::vec((any::<bool>(), "(3\nget\n|2\nok\n|7\nsync140\n|4\ndump\n|4\ninfo\n|[0-9]\n|[\r\n]|[a-z0-3]){0,20}"), 0..12)) {
        let pieces: Vec<_> = pieces.into_iter().map(|(side, text)| (side, text.into_bytes())).collect();
        conserve(&pieces)?;
    }
}

fn conserve(pieces: &[(bool, Vec<u8>)]) -> Result<(), TestCaseError> {
    let conversation: Vec<(Side, &[u8])> =
        pieces.iter().map(|(response, bytes)| (if *response { S } else { C }, bytes.as_slice())).collect();
    let transcript = Transcript::of(Ssdb::default(), &conversation);
    for side in Side::BOTH {
        let sent: usize = conversation.iter().filter(|(of, _)| *of == side).map(|(_, bytes)| bytes.len()).sum();
        prop_assert_eq!(transcript.total(side), sent as u64);
    }
    Ok(())
}

#[test]
fn a_command_has_the_pattern_of_its_keys_and_nothing_of_its_values() {
    let statement = |blocks: &[&str]| {
        let transcript = talk(&[(C, &packet(blocks)), (S, &packet(&["ok"]))]);
        transcript.ops.into_iter().map(|op| op.statement).collect::<String>()
    };
    assert_eq!(statement(&["get", "user:17"]), "get user:#");
    assert_eq!(statement(&["set", "user:17", "secret"]), "set user:#");
    assert_eq!(statement(&["multi_set", "a:1", "secret", "b:2", "secret"]), "multi_set a:# b:#");
    assert_eq!(statement(&["multi_get", "a:1", "a:2"]), "multi_get a:# …");
    assert_eq!(statement(&["hset", "user:17", "field", "secret"]), "hset user:#");
    assert_eq!(statement(&["get", &"long".repeat(200)]), "get #");
    assert_eq!(statement(&["scan", "a", "z", "10"]), "");
    assert_eq!(statement(&["auth", "secret"]), "");
}
