//! Vectors named after their situation, each cut at every byte.

use super::{Resp, sniff};
use crate::Sniff;
use overhead_decode::{DecoderEngine, Note};
use overhead_model::{Class, Outcome, Side};
use overhead_testing::transcript::{Transcript, check};
use proptest::prelude::*;

mod classes;
mod idle;
mod pubsub;
mod replication;
mod scripts;
mod statements;

const C: Side = Side::Request;
const S: Side = Side::Response;

fn talk(conversation: &[(Side, &str)]) -> Transcript {
    let bytes: Vec<(Side, &[u8])> = conversation.iter().map(|(side, text)| (*side, text.as_bytes())).collect();
    check(|| Resp::new(false), &bytes)
}

fn single(request: &str, response: &str) -> String {
    let summary = talk(&[(C, request), (S, response)]).summary();
    assert_eq!(summary.len(), 1, "{summary:#?}");
    summary.concat()
}

/// Builds several commands, with words separated by spaces.
fn commands(lines: &[&str]) -> String {
    lines.iter().map(|line| command(&line.split(' ').collect::<Vec<_>>())).collect()
}

/// Returns name, outcome and response bytes of each operation.
fn answers(transcript: &Transcript) -> Vec<(String, Outcome, u64)> {
    let answer = |op: &overhead_testing::transcript::Entry| {
        (op.name().to_owned(), op.outcome.unwrap_or(Outcome::Unanswered), op.amounts[S as usize].total())
    };
    transcript.ops.iter().map(answer).collect()
}

fn command(words: &[&str]) -> String {
    let words = words.iter().flat_map(|word| [format!("${}", word.len()), (*word).to_owned()]);
    let lines: Vec<String> = std::iter::once(format!("*{}", words.clone().count() / 2)).chain(words).collect();
    lines.join("\r\n") + "\r\n"
}

#[test]
fn get_of_a_missing_key() {
    assert_eq!(
        single(&command(&["GET", "key:42"]), "$-1\r\n"),
        "workload GET [array] ok: framing 16, query 3, data 6 | framing 5"
    );
}

#[test]
fn set_with_options_tells_tokens_from_values() {
    let set = command(&["set", "EX", "NX", "px", "5000", "NX"]);
    assert_eq!(single(&set, "+OK\r\n"), "workload SET [array] ok: framing 40, query 7, data 8 | framing 3, status 2");
}

#[test]
fn options_of_one_server_alone_are_options() {
    // Valkey 9: set if the value is this one.
    let set = command(&["SET", "key", "new", "IFEQ", "before"]);
    assert!(single(&set, "+OK\r\n").contains("query 7, data 12 |"), "{}", single(&set, "+OK\r\n"));
}

#[test]
fn options_end_where_members_begin() {
    // The member is called NX: after a score, options are not possible.
    let add = command(&["ZADD", "z", "NX", "1", "NX"]);
    assert_eq!(single(&add, ":1\r\n"), "workload ZADD [array] ok: framing 34, query 6, data 4 | framing 3, status 1");
}

#[test]
fn an_integer_is_status_for_writes_and_data_for_reads() {
    assert!(single(&command(&["INCR", "n"]), ":10\r\n").ends_with("| framing 3, status 2"));
    assert!(single(&command(&["STRLEN", "n"]), ":10\r\n").ends_with("| framing 3, data 2"));
}

#[test]
fn subcommands_make_the_name() {
    let list = single(&command(&["CONFIG", "get", "save"]), "*0\r\n");
    assert!(list.starts_with("workload CONFIG GET [array] ok: framing 22, query 9, data 4 |"), "{list}");
}

#[test]
fn an_unknown_command_keeps_its_name() {
    assert!(
        single(&command(&["frobnicate", "x"]), "-ERR unknown\r\n").starts_with("workload FROBNICATE [array] error:")
    );
}

#[test]
fn inline_commands_with_blanks_and_a_bare_line_feed() {
    assert_eq!(
        single("  PING  hello\n", "$5\r\nhello\r\n"),
        "workload PING [inline] ok: framing 5, query 4, data 5 | framing 6, data 5"
    );
}

#[test]
fn empty_lines_and_empty_arrays_are_no_commands() {
    let summary = talk(&[(C, "\r\n*0\r\n*-1\r\n"), (C, &command(&["PING"])), (S, "+PONG\r\n")]).summary();
    assert!(summary[3].starts_with("workload PING [array] ok"), "{summary:#?}");
    assert!(summary[..3].iter().all(|line| line.starts_with("unmatched (empty)")), "{summary:#?}");
}

#[test]
fn a_pipeline_is_answered_in_order() {
    let requests = [command(&["GET", "a"]), command(&["INCR", "b"]), command(&["GET", "c"])].concat();
    let transcript = talk(&[(C, &requests), (S, "$1\r\nA\r\n:2\r\n-WRONGTYPE no\r\n")]);
    let outcomes: Vec<_> = transcript.ops.iter().map(|op| (op.name().to_owned(), op.outcome)).collect();
    let ok = Some(Outcome::Ok);
    assert_eq!(outcomes, [("GET".into(), ok), ("INCR".into(), ok), ("GET".into(), Some(Outcome::Error))]);
}

#[test]
fn a_server_that_refuses_to_be_silent_is_paired_again() {
    let off = command(&["CLIENT", "REPLY", "OFF"]);
    let get = command(&["GET", "a"]);
    let transcript =
        talk(&[(C, &off), (S, "-NOPERM no\r\n"), (C, &get), (S, "$1\r\nA\r\n"), (C, &get), (S, "$1\r\nB\r\n")]);
    let outcomes: Vec<_> = transcript.ops.iter().map(|op| (op.name().to_owned(), op.outcome)).collect();
    let (ok, none) = (Some(Outcome::Ok), Some(Outcome::NoReply));
    let expected = [("CLIENT REPLY", none), ("RESPONSE", none), ("GET", ok), ("GET", ok)];
    assert_eq!(outcomes, expected.map(|(name, outcome)| (name.to_owned(), outcome)));
}

#[test]
fn every_resp3_type_nested_in_a_map() {
    let reply =
        "%3\r\n+a\r\n#t\r\n$1\r\nb\r\n~2\r\n,1.5\r\n(12345\r\n=7\r\ntxt:abc\r\n*3\r\n_\r\n!5\r\nERR x\r\n:7\r\n";
    let line = single(&command(&["HGETALL", "h"]), reply);
    assert!(line.contains(" ok: "), "{line}");
    assert!(line.ends_with("data 14, status 6"), "{line}");
}

#[test]
fn streamed_strings_and_aggregates_end_where_they_say() {
    let reply = "*?\r\n$?\r\n;3\r\nabc\r\n;2\r\nde\r\n;0\r\n:1\r\n.\r\n";
    let line = single(&command(&["GET", "k"]), reply);
    assert!(line.ends_with("data 6"), "{line}");
}

#[test]
fn an_attribute_belongs_to_the_reply_it_precedes() {
    let reply = "|1\r\n+ttl\r\n:3600\r\n*2\r\n|1\r\n+x\r\n+y\r\n$1\r\na\r\n$1\r\nb\r\n";
    assert!(single(&command(&["MGET", "a", "b"]), reply).starts_with("workload MGET [array] ok"));
}

#[test]
fn a_transaction_queues_and_executes() {
    let requests = [command(&["MULTI"]), command(&["INCR", "a"]), command(&["EXEC"])].concat();
    let summary = talk(&[(C, &requests), (S, "+OK\r\n+QUEUED\r\n*1\r\n:1\r\n")]).summary();
    assert!(summary[1].ends_with("| framing 3, status 6"), "{summary:#?}");
    assert!(summary[2].starts_with("workload EXEC [array] ok"), "{summary:#?}");
}

#[test]
fn replies_switched_off_skipped_and_on_again() {
    let off = [
        command(&["CLIENT", "REPLY", "OFF"]),
        command(&["SET", "a", "1"]),
        command(&["CLIENT", "REPLY", "SKIP"]),
        command(&["CLIENT", "REPLY", "ON"]),
        command(&["CLIENT", "REPLY", "SKIP"]),
        command(&["GET", "a"]),
        command(&["GET", "b"]),
    ];
    let transcript = talk(&[(C, &off.concat()), (S, "+OK\r\n$1\r\nb\r\n")]);
    let outcomes: Vec<_> = transcript.ops.iter().map(|op| op.outcome.unwrap()).collect();
    let (silent, answered) = (Outcome::NoReply, Outcome::Ok);
    assert_eq!(outcomes, [silent, silent, silent, answered, silent, silent, answered]);
}

#[test]
fn pub_sub_messages_are_not_replies() {
    let subscribe = command(&["SUBSCRIBE", "a", "b"]);
    let confirm = "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n";
    let message = "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n";
    let summary = talk(&[
        (C, &subscribe),
        (S, confirm),
        (S, message),
        (C, &command(&["PING"])),
        (S, message),
        (S, "*2\r\n$4\r\npong\r\n$0\r\n\r\n"),
    ])
    .summary();
    assert!(summary[0].starts_with("workload SUBSCRIBE [array] ok"), "{summary:#?}");
    assert_eq!(summary.iter().filter(|line| line.starts_with("background PUSH")).count(), 2, "{summary:#?}");
    assert!(summary.iter().any(|line| line.starts_with("workload PING [array] ok")), "{summary:#?}");
}

#[test]
fn resp3_pushes_come_between_replies() {
    let invalidate = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n";
    let reply = format!("{invalidate}$1\r\nx\r\n");
    let summary = talk(&[(C, &command(&["GET", "a"])), (S, &reply)]).summary();
    assert!(summary[0].starts_with("workload GET [array] ok"), "{summary:#?}");
    assert!(summary[1].starts_with("background PUSH"), "{summary:#?}");
}

#[test]
fn monitor_feeds_lines() {
    let summary = talk(&[(C, "MONITOR\r\n"), (S, "+OK\r\n"), (S, "+1.0 [0 x] \"GET\" \"a\"\r\n")]).summary();
    assert!(summary[1].starts_with("background MONITOR"), "{summary:#?}");
}

#[test]
fn hello_and_setinfo_name_the_software() {
    let requests = [
        command(&["HELLO", "3"]),
        command(&["CLIENT", "SETINFO", "LIB-NAME", "redis-py"]),
        command(&["CLIENT", "SETINFO", "LIB-VER", "5.0.1"]),
    ];
    let hello = "%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n";
    let transcript = talk(&[(C, &requests.concat()), (S, hello), (S, "-ERR x\r\n-ERR x\r\n")]);
    assert_eq!(transcript.software, [Some("redis-py 5.0.1".to_owned()), Some("Redis 7.0.15".to_owned())]);
    assert!(transcript.ops.iter().all(|op| op.class() == Some(Class::Setup)));
}

#[test]
fn a_reply_without_a_request_is_unmatched() {
    assert!(talk(&[(S, "+OK\r\n")]).summary()[0].starts_with("unmatched RESPONSE"));
}

#[test]
fn a_request_cut_off_is_never_labelled() {
    let transcript = talk(&[(C, "*2\r\n$3\r\nGET\r\n$6\r\nkey")]);
    assert_eq!(transcript.ops[0].label, None);
}

#[test]
fn defects_end_the_direction_and_nothing_else() {
    for defect in
        ["*x\r\n", "*1\r\n$-5\r\n", "*1\r\n$99999999999\r\n", "*1\r\n$3\r\nGETxx", "\x01\x02\r\n", "*4294967296\r\n"]
    {
        let transcript = talk(&[(C, defect), (C, "more"), (S, "+OK\r\n")]);
        assert!(transcript.notes.iter().any(|note| matches!(note, Note::Malformed(_))), "{defect:?}");
        assert!(transcript.summary().iter().any(|line| line.starts_with("unmatched RESPONSE")), "{defect:?}");
    }
}

#[test]
fn a_nesting_bomb_is_refused() {
    let bomb = "*1\r\n".repeat(100_000);
    let transcript = Transcript::of(Resp::new(false), &[(C, b"PING\r\n"), (S, bomb.as_bytes())]);
    assert!(transcript.notes.contains(&Note::Malformed("aggregates nested too deeply")));
    assert_eq!(transcript.total(S), bomb.len() as u64);
}

#[test]
fn a_snapped_value_keeps_its_length() {
    let mut engine = DecoderEngine::new(Resp::new(false), false);
    let mut transcript = Transcript::default();
    engine.bytes(C, command(&["GET", "k"]).as_bytes(), &mut transcript);
    engine.bytes(S, b"$1000\r\nabc", &mut transcript);
    engine.opaque(S, 999, &mut transcript);
    engine.bytes(C, command(&["GET", "k"]).as_bytes(), &mut transcript);
    engine.bytes(S, b"$-1\r\n", &mut transcript);
    engine.finish(&mut transcript);
    let summary = transcript.summary();
    assert!(summary[0].ends_with("| framing 9, data 1000"), "{summary:#?}");
    assert!(summary[1].ends_with("| framing 5"), "{summary:#?}");
}

#[test]
fn after_a_gap_decoding_resumes_at_the_next_command() {
    let mut engine = DecoderEngine::new(Resp::new(false), false);
    let mut transcript = Transcript::default();
    engine.bytes(C, b"*2\r\n$3\r\nGE", &mut transcript);
    engine.opaque(C, 30, &mut transcript);
    engine.bytes(C, b"lue\r\n", &mut transcript);
    engine.bytes(C, command(&["GET", "k"]).as_bytes(), &mut transcript);
    engine.finish(&mut transcript);
    assert!(transcript.notes.contains(&Note::LostBoundary));
    let last = transcript.summary().pop().unwrap();
    assert!(last.starts_with("workload GET [array]"), "{last}");
}

#[test]
fn first_bytes_tell_clients_from_servers() {
    assert_eq!(sniff(b"*2\r\n$3\r\nGET\r\n"), Sniff::Request);
    assert_eq!(sniff(b"*2\r\n:1\r\n"), Sniff::Response);
    assert_eq!(sniff(b"+OK\r\n"), Sniff::Perhaps(Side::Response));
    assert_eq!(sniff(b"PING\r\n"), Sniff::Perhaps(Side::Request));
    assert_eq!(sniff(b"*2\r"), Sniff::More);
    let long = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
    assert_eq!(sniff(&long[..64]), Sniff::Perhaps(Side::Response));
    assert_eq!(sniff(b"POST / HTTP/1.1\r\n"), Sniff::No);
    assert_eq!(sniff(b"*abc\r\n"), Sniff::No);
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_posted_once(pieces in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..40)), 0..12)) {
        conserve(&pieces)?;
    }

    #[test]
    fn near_misses_are_posted_once(pieces in prop::collection::vec((any::<bool>(), "[*$:+,%~>|;.?=!_#\r\n0-9a-z -]{0,40}"), 0..12)) {
        let pieces: Vec<_> = pieces.into_iter().map(|(side, text)| (side, text.into_bytes())).collect();
        conserve(&pieces)?;
    }
}

fn conserve(pieces: &[(bool, Vec<u8>)]) -> Result<(), TestCaseError> {
    let conversation: Vec<(Side, &[u8])> =
        pieces.iter().map(|(response, bytes)| (if *response { S } else { C }, bytes.as_slice())).collect();
    let transcript = Transcript::of(Resp::new(false), &conversation);
    for side in Side::BOTH {
        let sent: usize = conversation.iter().filter(|(of, _)| *of == side).map(|(_, bytes)| bytes.len()).sum();
        prop_assert_eq!(transcript.total(side), sent as u64);
    }
    Ok(())
}

#[test]
fn a_simple_string_of_any_length_ends_at_its_line_end() {
    let long = "x".repeat(1 << 20);
    for kind in ["+", "-"] {
        for cut in [1, 65_536, 65_537, 70_000, long.len() + 1, long.len() + 2] {
            let mut engine = DecoderEngine::new(Resp::new(false), false);
            let mut transcript = Transcript::default();
            engine.bytes(C, commands(&["GET a", "GET b"]).as_bytes(), &mut transcript);
            let replies = format!("{kind}{long}\r\n$1\r\nb\r\n");
            let (start, rest) = replies.as_bytes().split_at(cut);
            engine.bytes(S, start, &mut transcript);
            engine.bytes(S, rest, &mut transcript);
            engine.finish(&mut transcript);
            let outcome = if kind == "+" { "ok" } else { "error" };
            let first =
                format!("workload GET [array] {outcome}: framing 16, query 3, data 1 | framing 3, status 1048576");
            let second = "workload GET [array] ok: framing 16, query 3, data 1 | framing 6, data 1";
            assert_eq!(transcript.summary(), [first.as_str(), second], "{kind} {cut}");
        }
    }
}
