//! Vectors named after their situation, each cut at every byte.

use super::{Memcache, sniff};
use crate::Sniff;
use overhead_decode::{DecoderEngine, Note};
use overhead_model::{Class, Outcome, Side};
use overhead_testing::transcript::{Entry, Transcript, check};
use proptest::prelude::*;

mod binary;
mod idle;
mod meta;

const C: Side = Side::Request;
const S: Side = Side::Response;

fn talk(conversation: &[(Side, &str)]) -> Transcript {
    let bytes: Vec<(Side, &[u8])> = conversation.iter().map(|(side, text)| (*side, text.as_bytes())).collect();
    check(Memcache::default, &bytes)
}

fn single(request: &str, response: &str) -> String {
    let summary = talk(&[(C, request), (S, response)]).summary();
    assert_eq!(summary.len(), 1, "{summary:#?}");
    summary.concat()
}

/// Returns name, outcome and response bytes of each operation.
fn answers(transcript: &Transcript) -> Vec<(String, Outcome, u64)> {
    let answer = |op: &Entry| (op.name().to_owned(), op.outcome.unwrap_or(Unanswered), op.amounts[S as usize].total());
    transcript.ops.iter().map(answer).collect()
}

fn outcomes(request: &str, response: &str) -> Vec<(String, Outcome)> {
    let all = answers(&talk(&[(C, request), (S, response)]));
    all.into_iter().map(|(name, outcome, _)| (name, outcome)).collect()
}

fn named(expected: &[(&str, Outcome)]) -> Vec<(String, Outcome)> {
    expected.iter().map(|(name, outcome)| ((*name).to_owned(), *outcome)).collect()
}

use Outcome::{Error, NoReply, Ok as Answered, Unanswered};

#[test]
fn a_get_that_hits_and_one_that_misses() {
    assert_eq!(
        single("get key:42\r\n", "VALUE key:42 32 5\r\nhello\r\nEND\r\n"),
        "workload get [text] ok: framing 3, query 3, data 6 | framing 18, metadata 2, data 11"
    );
    assert_eq!(single("get key\r\n", "END\r\n"), "workload get [text] ok: framing 3, query 3, data 3 | framing 5");
}

#[test]
fn a_get_of_several_keys_is_one_operation() {
    let line = single("gets a  bc\td e \r\n", "VALUE a 0 1 7\r\nx\r\nVALUE e 1 0 8\r\n\r\nEND\r\n");
    assert_eq!(line, "workload gets [text] ok: framing 7, query 4, data 6 | framing 33, metadata 4, data 3");
}

#[test]
fn a_value_may_hold_anything() {
    let line = single("set k 1 60 16\r\nEND\r\nVALUE a\r\nab\r\n", "STORED\r\n");
    assert_eq!(line, "workload set [text] ok: framing 10, metadata 1, query 3, data 19 | framing 2, status 6");
}

#[test]
fn storage_commands_and_what_they_come_to() {
    let set = |word: &str| format!("{word} k 0 0 1\r\nx\r\n");
    for word in ["set", "add", "replace", "append", "prepend"] {
        for (answer, outcome) in [
            ("STORED", Answered),
            ("NOT_STORED", Answered),
            ("ERROR", Error),
            ("SERVER_ERROR out of memory storing object", Error),
        ] {
            assert_eq!(outcomes(&set(word), &format!("{answer}\r\n")), named(&[(word, outcome)]));
        }
    }
    let cas = single("cas k 0 0 1 77\r\nx\r\n", "EXISTS\r\n");
    assert_eq!(cas, "workload cas [text] ok: framing 10, metadata 3, query 3, data 3 | framing 2, status 6");
}

#[test]
fn arithmetic_and_touch() {
    let incr = single("incr n 10\r\n", "42\r\n");
    assert_eq!(incr, "workload incr [text] ok: framing 4, query 4, data 3 | framing 2, status 2");
    assert_eq!(outcomes("decr n 1\r\n", "NOT_FOUND\r\n"), named(&[("decr", Answered)]));
    assert_eq!(outcomes("touch k 60\r\n", "TOUCHED\r\n"), named(&[("touch", Answered)]));
    let gat = single("gat 60 k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n");
    assert_eq!(gat, "workload gat [text] ok: framing 4, query 3, data 3 | framing 18, metadata 1, data 2");
}

#[test]
fn what_is_asked_for_without_a_reply_gets_none() {
    let requests = "set k 0 0 1 noreply\r\nx\r\nincr k 1 noreply\r\ntouch k 0 noreply\r\ndelete k noreply\r\n\
        delete k 5 noreply\r\nverbosity noreply\r\nflush_all noreply\r\nflush_all 1 noreply\r\nslabs automove 1 noreply\r\n\
        cache_memlimit 64 noreply\r\nlru mode flat noreply\r\nversion\r\n";
    let outcomes = outcomes(requests, "VERSION 1.6.18\r\n");
    let (last, silent) = outcomes.split_last().unwrap();
    assert_eq!(*last, ("version".to_owned(), Answered));
    assert!(silent.iter().all(|(_, outcome)| *outcome == NoReply), "{silent:?}");
    assert_eq!(silent.len(), 11);
}

#[test]
fn noreply_is_no_such_thing_where_servers_do_not_look_for_it() {
    // The number of words is checked first; a key may have this name; these commands have no such option.
    let requests = "set k 0 0 1 2 noreply\r\ndelete noreply\r\nget noreply\r\nversion noreply\r\n\
        lru_crawler enable noreply\r\nslabs reassign 1 2 noreply\r\nmn noreply\r\n";
    let answers = "ERROR\r\nNOT_FOUND\r\nEND\r\nVERSION 1\r\nERROR\r\nERROR\r\nMN\r\n";
    let expected = [
        ("set", Error),
        ("delete", Answered),
        ("get", Answered),
        ("version", Answered),
        ("lru_crawler", Error),
        ("slabs", Error),
        ("mn", Answered),
    ];
    assert_eq!(outcomes(requests, answers), named(&expected));
}

#[test]
fn an_object_too_large_is_refused_before_it_is_there() {
    let large = "x".repeat(50);
    let transcript = talk(&[
        (C, "set k 0 0 100\r\n"),
        (C, &large),
        (S, "SERVER_ERROR object too large for cache\r\n"),
        (C, &large),
        (C, "\r\nget k\r\n"),
        (S, "END\r\n"),
    ]);
    assert_eq!(
        transcript.summary(),
        [
            "workload set [text] error: framing 11, metadata 1, query 3, data 102 | framing 2, status 39",
            "workload get [text] ok: framing 3, query 3, data 1 | framing 5"
        ]
    );
}

#[test]
fn behind_a_bad_data_chunk_what_is_left_is_a_command() {
    // As memcached 1.6.18 answers.
    assert_eq!(
        outcomes("set k 0 0 3\r\nabcdef\r\nget k\r\n", "CLIENT_ERROR bad data chunk\r\nERROR\r\nEND\r\n"),
        named(&[("set", Error), ("f", Error), ("get", Answered)])
    );
    assert_eq!(
        outcomes("set k 0 0 3 noreply\r\nabcdef\r\nversion\r\n", "ERROR\r\nVERSION 1.6.18\r\n"),
        named(&[("set", NoReply), ("f", Error), ("version", Answered)])
    );
    assert_eq!(
        outcomes("set k 0 0 5\r\nabc\r\nget k\r\nversion\r\n", "CLIENT_ERROR bad data chunk\r\nERROR\r\nVERSION 1\r\n"),
        named(&[("set", Error), ("t", Error), ("version", Answered)])
    );
}

#[test]
fn no_value_is_read_behind_a_line_that_servers_refuse() {
    let long = "x".repeat(251);
    for line in
        [format!("set {long} 0 0 3"), "set k a b 3".to_owned(), "cas k 0 0 3 x".to_owned(), "ms k S3".to_owned()]
    {
        let answers = "CLIENT_ERROR bad command line format\r\nERROR\r\nVERSION 1.6.18\r\n";
        let outcomes = outcomes(&format!("{line}\r\nabc\r\nversion\r\n"), answers);
        assert_eq!(outcomes[1..], named(&[("abc", Error), ("version", Answered)]), "{line}");
    }
    assert_eq!(
        outcomes("set k 0 0 -1\r\nversion\r\n", "CLIENT_ERROR bad command line format\r\nVERSION 1\r\n"),
        named(&[("set", Error), ("version", Answered)])
    );
}

#[test]
fn lists_go_on_until_they_end() {
    for (request, response) in [
        ("stats\r\n", "STAT pid 1\r\nSTAT version 1.6.18\r\nEND\r\n"),
        ("stats reset\r\n", "RESET\r\n"),
        ("stats detail on\r\n", "OK\r\n"),
        ("stats detail dump\r\n", "PREFIX a get 1\r\nEND\r\n"),
        ("stats cachedump 1 2\r\n", "ITEM k [1 b; 0 s]\r\nEND\r\n"),
        ("lru_crawler metadump all\r\n", "key=a exp=-1 la=1\nkey=b exp=-1 la=1\nEND\r\n"),
        ("lru_crawler mgdump all\r\n", "mg a\r\nmg b b\r\nEN\r\n"),
        ("lru_crawler enable\r\n", "OK\r\n"),
    ] {
        let line = single(request, response);
        assert!(line.contains(" ok: "), "{line}");
    }
    let line = single("stats settings\r\n", "STAT maxbytes 67108864\r\nEND\r\n");
    assert_eq!(line, "workload stats [text] ok: framing 3, query 13 | framing 12, data 17");
}

#[test]
fn the_server_says_its_version() {
    for (request, response, software) in [
        ("version\r\n", "VERSION 1.6.18\r\n", "memcached 1.6.18"),
        ("version\r\n", "VERSION pogocache 1.0\r\n", "pogocache 1.0"),
        ("stats\r\n", "STAT version 1.5.6\r\nEND\r\n", "memcached 1.5.6"),
    ] {
        assert_eq!(talk(&[(C, request), (S, response)]).software, [None, Some(software.to_owned())]);
    }
}

#[test]
fn who_watches_is_told_without_asking() {
    let transcript = talk(&[
        (C, "watch fetchers\r\n"),
        (S, "OK\r\n"),
        (S, "ts=1.2 gid=1 type=item_get key=a\nts=1.3 gid=2 type=item_get key=b\n"),
    ]);
    let summary = transcript.summary();
    assert_eq!(summary[0], "workload watch [text] ok: framing 3, query 13 | framing 2, status 2");
    assert_eq!(summary[1..], ["background watch [text] unsolicited:  | framing 1, data 32"; 2]);
}

#[test]
fn a_farewell_is_not_answered() {
    assert_eq!(outcomes("get k\r\nquit\r\n", "END\r\n"), named(&[("get", Answered), ("quit", NoReply)]));
    assert_eq!(outcomes("shutdown\r\n", ""), named(&[("shutdown", NoReply)]));
    assert_eq!(outcomes("shutdown\r\n", "ERROR: shutdown not enabled\r\n"), named(&[("shutdown", Error)]));
}

#[test]
fn lines_that_end_in_lf_alone_empty_ones_and_leading_spaces() {
    assert_eq!(
        outcomes("get k\nversion\n", "END\r\nVERSION 1\r\n"),
        named(&[("get", Answered), ("version", Answered)])
    );
    assert_eq!(outcomes("\r\n", "ERROR\r\n"), named(&[("(unknown)", Error)]));
    assert_eq!(outcomes("  get   k  \r\n", "END\r\n"), named(&[("get", Answered)]));
    assert_eq!(outcomes("GET k\r\n", "ERROR\r\n"), named(&[("GET", Error)]));
}

#[test]
fn a_line_that_is_no_text_is_a_command_to_the_server() {
    let transcript = talk(&[(C, "\u{1}\u{2}\r\nget k\r\n"), (S, "ERROR\r\nEND\r\n")]);
    assert_eq!(transcript.summary()[0], "workload (unknown) [text] error: framing 2, unknown 2 | framing 2, status 5");
    assert!(transcript.notes.contains(&Note::UndecodedMessage));
    assert_eq!(answers(&transcript)[1], ("get".to_owned(), Answered, 5));
}

#[test]
fn a_pipeline_is_answered_in_order() {
    let requests = "get a\r\nset b 0 0 1\r\nx\r\nincr c 1\r\nget d\r\n";
    let answers = "VALUE a 0 1\r\nx\r\nEND\r\nSTORED\r\n5\r\nEND\r\n";
    let expected = [("get", Answered), ("set", Answered), ("incr", Answered), ("get", Answered)];
    assert_eq!(outcomes(requests, answers), named(&expected));
}

#[test]
fn an_answer_that_nobody_asked_for_is_unmatched() {
    let summary = talk(&[(C, "get a\r\n"), (S, "STORED\r\nEND\r\n")]).summary();
    assert_eq!(summary[0], "workload get [text] ok: framing 3, query 3, data 1 | framing 5");
    assert!(summary[1].starts_with("unmatched RESPONSE"), "{summary:#?}");
    let orphan = talk(&[(S, "VALUE a 0 1\r\nx\r\nEND\r\n")]).summary();
    assert_eq!(orphan.len(), 1, "{orphan:#?}");
}

#[test]
fn an_answer_that_is_skipped_does_not_shift_those_after_it() {
    // memcached drops unsent replies when a later `get` of the batch fails.
    let long = "x".repeat(251);
    assert_eq!(
        outcomes(
            &format!("stats bogus\r\nget {long}\r\nversion\r\n"),
            "CLIENT_ERROR bad command line format\r\nVERSION 1\r\n"
        ),
        named(&[("stats", Error), ("get", Unanswered), ("version", Answered)])
    );
}

#[test]
fn a_request_cut_off_is_never_labelled() {
    for request in ["get key:1", "set k 0 0 10\r\nabc", "delete k", "ms k 5\r\n"] {
        assert_eq!(
            talk(&[(C, request)]).ops[0].class(),
            if request.contains('\n') || request.starts_with("get") { None } else { Some(Class::Unmatched) }
        );
    }
}

#[test]
fn a_snapped_value_keeps_its_length() {
    let mut engine = DecoderEngine::new(Memcache::default(), false);
    let mut transcript = Transcript::default();
    engine.bytes(C, b"get k\r\n", &mut transcript);
    engine.bytes(S, b"VALUE k 0 1000\r\nabc", &mut transcript);
    engine.opaque(S, 999 + 5, &mut transcript);
    engine.bytes(C, b"get k\r\n", &mut transcript);
    engine.bytes(S, b"END\r\n", &mut transcript);
    engine.finish(&mut transcript);
    // The first answer ends in the hole, and the next one starts behind it.
    assert!(!transcript.notes.contains(&Note::LostBoundary));
    let summary = transcript.summary();
    assert!(summary[0].starts_with("workload get [text] unanswered"), "{summary:?}");
    assert_eq!(summary.last().unwrap(), "workload get [text] ok: framing 3, query 3, data 1 | framing 5");
    let mut engine = DecoderEngine::new(Memcache::default(), false);
    let mut transcript = Transcript::default();
    engine.bytes(C, b"set k 0 0 1000\r\nabc", &mut transcript);
    engine.opaque(C, 999, &mut transcript);
    engine.bytes(S, b"STORED\r\n", &mut transcript);
    engine.bytes(C, b"get k\r\n", &mut transcript);
    engine.bytes(S, b"END\r\n", &mut transcript);
    engine.finish(&mut transcript);
    assert_eq!(
        transcript.summary(),
        [
            "workload set [text] ok: framing 12, metadata 1, query 3, data 1002 | framing 2, status 6",
            "workload get [text] ok: framing 3, query 3, data 1 | framing 5"
        ]
    );
}

#[test]
fn after_a_gap_decoding_resumes_at_the_next_command() {
    for (start, name) in [("get a", "get"), ("set k 0 0 500\r\nabc", "set"), ("delete", "get")] {
        let mut engine = DecoderEngine::new(Memcache::default(), false);
        let mut transcript = Transcript::default();
        engine.bytes(C, start.as_bytes(), &mut transcript);
        engine.opaque(C, 600, &mut transcript);
        engine.bytes(C, b"lue\r\nget other\r\n", &mut transcript);
        engine.finish(&mut transcript);
        assert!(transcript.notes.contains(&Note::LostBoundary), "{start}");
        let names: Vec<_> = transcript.ops.iter().map(|op| op.name().to_owned()).collect();
        assert_eq!(names.last().map(String::as_str), Some("get"), "{names:?}");
        assert!(names.iter().any(|it| it == name), "{names:?}");
    }
}

#[test]
fn answers_lost_close_what_waited() {
    let mut engine = DecoderEngine::new(Memcache::default(), false);
    let mut transcript = Transcript::default();
    engine.bytes(C, b"get a\r\nget b\r\n", &mut transcript);
    engine.bytes(S, b"VALUE a 0 ", &mut transcript);
    engine.opaque(S, 100, &mut transcript);
    engine.bytes(C, b"get c\r\n", &mut transcript);
    engine.bytes(S, b"VALUE c 0 1\r\nx\r\nEND\r\n", &mut transcript);
    engine.finish(&mut transcript);
    let answers: Vec<_> = answers(&transcript).into_iter().filter(|(name, ..)| name == "get").collect();
    let outcomes: Vec<_> = answers.iter().map(|(_, outcome, _)| *outcome).collect();
    assert_eq!(outcomes, [Unanswered, Unanswered, Answered]);
}

#[test]
fn a_line_without_an_end_is_given_up() {
    let long = "x".repeat(100_000);
    for start in ["", "get ", "get a "] {
        let line = format!("{start}{long}");
        let transcript = Transcript::of(Memcache::default(), &[(C, line.as_bytes())]);
        assert!(transcript.notes.iter().any(|note| matches!(note, Note::Malformed(_))), "{start:?}");
        assert_eq!(transcript.total(C), line.len() as u64);
    }
}

#[test]
fn a_get_of_ten_thousand_keys_needs_no_room() {
    let keys: Vec<String> = (0..10_000).map(|key| format!("key:{key:040}")).collect();
    let line = format!("get {}\r\n", keys.join(" "));
    let pieces: Vec<(Side, &[u8])> = line.as_bytes().chunks(1448).map(|piece| (C, piece)).collect();
    let transcript = Transcript::of(Memcache::default(), &[pieces.as_slice(), &[(S, b"END\r\n")]].concat());
    assert_eq!(transcript.summary(), ["workload get [text] ok: framing 10002, query 3, data 440000 | framing 5"]);
}

#[test]
fn first_bytes_tell_clients_from_servers() {
    for (bytes, expected) in [
        ("set k 0 60 5\r\n", Sniff::Request),
        ("cas k 0 60 5 77 noreply\r\n", Sniff::Request),
        ("mg k v\r\n", Sniff::Request),
        ("get k\r\n", Sniff::Perhaps(C)),
        ("set k v\r\n", Sniff::Perhaps(C)),
        ("VALUE k 0 5\r\n", Sniff::Response),
        ("END\r\n", Sniff::Response),
        ("ERROR\r\n", Sniff::Perhaps(S)),
        ("15\r\n", Sniff::Perhaps(S)),
        ("get k", Sniff::More),
        ("POST / HTTP/1.1\r\n", Sniff::No),
        ("+OK\r\n", Sniff::No),
        ("SELECT 1\r\n", Sniff::No),
    ] {
        assert_eq!(sniff(bytes.as_bytes()), expected, "{bytes:?}");
    }
    let long = format!("get {}", "k".repeat(100));
    assert_eq!(sniff(long.as_bytes()), Sniff::Perhaps(C));
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_posted_once(pieces in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..40)), 0..12)) {
        conserve(&pieces)?;
    }

    #[test]
    fn near_misses_are_posted_once(pieces in prop::collection::vec((any::<bool>(), "(get|set|mg|ms|VALUE|VA|STAT|END|\u{0}|[ \r\n0-9akOq-]){0,20}"), 0..12)) {
        let pieces: Vec<_> = pieces.into_iter().map(|(side, text)| (side, text.into_bytes())).collect();
        conserve(&pieces)?;
    }

    #[test]
    fn binary_near_misses_are_posted_once(
        messages in prop::collection::vec((any::<bool>(), 0..0x40_u8, 0..4_u8, 0..3_u8, 0..9_u8, 0..3_u8), 0..12)
    ) {
        let message = |&(response, opcode, key, extras, more, opaque): &(bool, u8, u8, u8, u8, u8)| {
            let extras = 4 * extras;
            let body = key + extras + more;
            let magic = if response { 0x81 } else { 0x80 };
            let mut bytes = vec![magic, opcode, 0, key, extras, 0, 0, opaque, 0, 0, 0, body, 0, 0, 0, opaque];
            bytes.resize(24 + usize::from(body), 0);
            (response, bytes)
        };
        conserve(&messages.iter().map(message).collect::<Vec<_>>())?;
    }
}

fn conserve(pieces: &[(bool, Vec<u8>)]) -> Result<(), TestCaseError> {
    let conversation: Vec<(Side, &[u8])> =
        pieces.iter().map(|(response, bytes)| (if *response { S } else { C }, bytes.as_slice())).collect();
    let transcript = Transcript::of(Memcache::default(), &conversation);
    for side in Side::BOTH {
        let sent: usize = conversation.iter().filter(|(of, _)| *of == side).map(|(_, bytes)| bytes.len()).sum();
        prop_assert_eq!(transcript.total(side), sent as u64);
    }
    Ok(())
}

fn statements(request: &str, response: &str) -> Vec<String> {
    talk(&[(C, request), (S, response)]).ops.into_iter().map(|op| op.statement).collect()
}

#[test]
fn a_command_has_the_pattern_of_its_keys_and_nothing_of_its_values() {
    assert_eq!(statements("get key:42\r\n", "END\r\n"), ["get key:#"]);
    assert_eq!(statements("gets a:1 a:2 b\r\n", "END\r\n"), ["gets a:# b …"]);
    assert_eq!(statements("gat 60 key:42\r\n", "END\r\n"), ["gat key:#"]);
    assert_eq!(statements("set user:7:name 0 60 6\r\nsecret\r\n", "STORED\r\n"), ["set user:#:name"]);
    assert_eq!(statements("incr n:1 12\r\ndelete n:1\r\n", "13\r\nDELETED\r\n"), ["incr n:#", "delete n:#"]);
    assert_eq!(statements("mg key:1 v\r\nms k 2 T9\r\nab\r\n", "EN\r\nHD\r\n"), ["mg key:#", "ms k"]);
    assert_eq!(statements("mg Zm9vYmFy b v\r\n", "EN\r\n"), ["mg #"]);
    assert_eq!(statements("stats items\r\nversion\r\n", "END\r\nVERSION 1\r\n"), ["", ""]);
}

/// memcached's `safe_strtol` and `safe_strtoul`, which truncate 64 bits to 32.
#[test]
fn numbers_are_those_that_servers_take() {
    for words in ["0 4102444800", "18446744073709551615 0", "+1 -2147483649", "0 +9223372036854775807"] {
        let talk = talk(&[(C, &format!("set k {words} 5\r\nhello\r\nget k\r\n")), (S, "STORED\r\nEND\r\n")]);
        assert_eq!(talk.ops.iter().map(Entry::name).collect::<Vec<_>>(), ["set", "get"], "{words}");
    }
    for words in ["18446744073709551616 0", "-1 0", "0 9223372036854775808", "0 x"] {
        let talk = talk(&[(C, &format!("set k {words} 5\r\nversion\r\n")), (S, "CLIENT_ERROR x\r\nVERSION 1\r\n")]);
        assert_eq!(talk.ops.iter().map(Entry::name).collect::<Vec<_>>(), ["set", "version"], "{words}");
    }
}

#[test]
fn lists_of_one_line_do_not_end_with_a_word() {
    let asked = "stats sizes_enable\r\nget k\r\n";
    let transcript = talk(&[(C, asked), (S, "STAT sizes_status enabled\r\nEND\r\n")]);
    assert_eq!(
        transcript.summary(),
        [
            "workload stats [text] ok: framing 3, query 17 | framing 7, data 20",
            "workload get [text] ok: framing 3, query 3, data 1 | framing 5"
        ]
    );
}

#[test]
fn a_cluster_is_told_like_a_value() {
    let nodes = "12\nhost|10.0.0.1|11211\n";
    let answer = format!("CONFIG cluster 0 {}\r\n{nodes}\r\nEND\r\n", nodes.len());
    assert_eq!(
        single("config get cluster\r\n", &answer),
        "workload config [text] ok: framing 4, query 9, data 7 | framing 20, metadata 1, data 30"
    );
    assert_eq!(sniff(answer.as_bytes()), Sniff::Response);
}

#[test]
fn a_key_may_have_control_characters() {
    let transcript = talk(&[(C, "get a\tb\r\n"), (S, "VALUE a\tb 0 1\r\nx\r\nEND\r\n")]);
    assert_eq!(transcript.notes, []);
    assert_eq!(transcript.summary().len(), 1);
}
