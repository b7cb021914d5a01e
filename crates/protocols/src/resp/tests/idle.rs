//! When a connection is idle, which states its number distinguishes, and which bytes are free.

use super::{C, Resp, S, command, commands};
use overhead_model::Side;
use overhead_testing::free::{self, Checked};

fn bytes<'a>(conversation: &'a [(Side, &str)]) -> Vec<(Side, &'a [u8])> {
    conversation.iter().map(|(side, text)| (*side, text.as_bytes())).collect()
}

fn check(conversation: &[(Side, &str)]) -> Checked {
    free::check(|| Resp::new(false), &bytes(conversation))
}

fn numbers(conversation: &[(Side, &str)]) -> Vec<Option<u64>> {
    free::numbers(Resp::new(false), &bytes(conversation))
}

/// Returns the free bytes of a command and its reply, after another command.
fn free(request: &str, reply: &str) -> u64 {
    let before = [(C, "PING\r\n"), (S, "+PONG\r\n")];
    let turn = [before.as_slice(), &[(C, request), (S, reply)]].concat();
    let checked = check(&turn);
    assert_eq!(checked.turns, 2, "{request:?}");
    checked.free
}

#[test]
fn keys_values_and_numbers_are_free() {
    assert_eq!(free(&command(&["GET", "key:1"]), "$3\r\nabc\r\n"), 5 + 3);
    assert_eq!(free(&command(&["SET", "key:1", "value"]), "+OK\r\n"), 5 + 5);
    assert_eq!(free(&command(&["INCRBY", "n", "-12"]), ":-12\r\n"), 1 + 3 + 3);
    assert_eq!(free(&command(&["MGET", "a", "b"]), "*2\r\n$1\r\na\r\n$-1\r\n"), 1 + 1 + 1);
    assert_eq!(free(&command(&["EVALSHA", "abc", "0"]), "%1\r\n+a\r\n,1.5\r\n"), 3 + 3);
    assert_eq!(free(&command(&["UNHEARDOF", "abc"]), "$-1\r\n"), 3);
}

#[test]
fn only_numbers_are_free_in_options_and_words_that_could_be_one() {
    assert_eq!(free(&commands(&["SET k v EX 60"]), "+OK\r\n"), 1 + 1 + 2);
    assert_eq!(free(&commands(&["ZADD z 15 member"]), ":1\r\n"), 1 + 2 + 6 + 1);
    assert_eq!(free(&commands(&["ZADD z x member"]), ":1\r\n"), 1 + 6 + 1);
    assert_eq!(free(&commands(&["CONFIG GET save"]), "*0\r\n"), 4);
}

#[test]
fn the_number_of_keys_is_not_free_and_the_keys_are() {
    assert_eq!(free(&commands(&["EVALSHA abc 2 k:1 l:2 value"]), ":1\r\n"), 3 + 3 + 3 + 5 + 1);
    assert_eq!(free(&commands(&["ZUNIONSTORE to 2 a:1 b:2 WEIGHTS 1 2"]), ":1\r\n"), 2 + 3 + 3 + 1 + 1 + 1);
    assert_eq!(free(&commands(&["XREAD COUNT 10 STREAMS s:1 t:2 0 7-1"]), "*-1\r\n"), 2 + 3 + 3 + 1 + 3);
    assert_eq!(free(&commands(&["SORT l:1 STORE to:1"]), ":1\r\n"), 3 + 4 + 1);
}

#[test]
fn what_is_listened_to_is_not_free() {
    assert_eq!(free(&commands(&["HELLO 3"]), "%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n"), 0);
    assert_eq!(free(&commands(&["CLIENT SETINFO LIB-NAME abc"]), "+OK\r\n"), 0);
    assert_eq!(free(&commands(&["INFO"]), "$20\r\nredis_version:7.0.15\r\n"), 0);
    assert_eq!(free(&commands(&["SUBSCRIBE abc"]), "*3\r\n$9\r\nsubscribe\r\n$3\r\nabc\r\n:1\r\n"), 3);
    // Inline words are separated by blanks.
    assert_eq!(free("PING 12ab\r\n", "$4\r\n12ab\r\n"), 4 + 4);
}

#[test]
fn errors_and_status_texts_are_not_free() {
    assert_eq!(free(&commands(&["GET abc"]), "-ERR 12\r\n"), 3);
    assert_eq!(free(&commands(&["GET abc"]), "!6\r\nERR 12\r\n"), 3);
    assert_eq!(free(&commands(&["GET abc"]), "=7\r\ntxt:abc\r\n"), 3 + 3);
}

#[test]
fn equal_turns_leave_the_number_as_it_is() {
    let set = command(&["SET", "k", "v"]);
    let pipeline = commands(&["GET a", "INCR b", "MULTI", "GET c", "EXEC"]);
    let replies = "$1\r\nA\r\n:2\r\n+OK\r\n+QUEUED\r\n*1\r\n$1\r\nx\r\n";
    let talk = [(C, set.as_str()), (S, "+OK\r\n"), (C, &set), (S, "+OK\r\n"), (C, &pipeline), (S, replies)];
    let numbers = numbers(&talk);
    assert_eq!(numbers[0], None);
    assert!(numbers[1].is_some());
    assert_eq!(numbers[1..4], [numbers[1], None, numbers[1]]);
    // From here on, the client is known to pipeline.
    assert!(numbers[5].is_some() && numbers[5] != numbers[1]);
    let again = self::numbers(&[talk.as_slice(), &talk].concat());
    assert_eq!([again[7], again[9], again[11]], [again[5]; 3]);
    // The first command is not setup, and the first pipeline is not expected.
    let checked = check(&[talk.as_slice(), &talk, &talk].concat());
    assert_eq!((checked.turns, checked.repeatable, checked.repeated), (9, 7, 6), "{checked:?}");
}

/// Asserts that `between` changes the number, and that this is needed because `probe` then gives another result.
fn tells_apart(between: &[(Side, &str)], probe: &[(Side, &str)]) {
    let opening = [(C, "PING\r\n"), (S, "+PONG\r\n")];
    let numbers = numbers(&[opening.as_slice(), between].concat());
    let after = numbers.last().copied().flatten();
    assert!(after.is_some(), "{between:?}");
    assert_ne!(after, numbers[1], "{between:?}");
    let said = |before: &[(Side, &str)]| {
        let talk = [before, probe].concat();
        let transcript = overhead_testing::transcript::Transcript::of(Resp::new(false), &bytes(&talk));
        let ops = transcript.summary();
        ops[ops.len() - 1].clone()
    };
    assert_ne!(said(&opening), said(&[opening.as_slice(), between].concat()), "{between:?}");
}

#[test]
fn the_number_tells_resp3_from_resp2() {
    let hello = commands(&["HELLO 3"]);
    let message = "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nb\r\n";
    tells_apart(&[(C, &hello), (S, "%0\r\n")], &[(S, message)]);
}

#[test]
fn the_number_tells_whether_replies_are_switched_off() {
    let off = commands(&["CLIENT REPLY OFF"]);
    tells_apart(&[(C, &off)], &[(C, "PING\r\n")]);
}

#[test]
fn the_number_tells_what_is_subscribed_to() {
    let subscribe = commands(&["SUBSCRIBE a"]);
    let confirm = "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n";
    let (get, reply) = (commands(&["LRANGE a 0 -1"]), "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nb\r\n");
    tells_apart(&[(C, &subscribe), (S, confirm)], &[(C, &get), (S, reply)]);
}

#[test]
fn the_number_tells_what_waits_for_exec() {
    let queue = commands(&["MULTI", "SUBSCRIBE a b"]);
    let exec = commands(&["EXEC"]);
    let confirm = |channel: &str, left| format!("*3\r\n$9\r\nsubscribe\r\n$1\r\n{channel}\r\n:{left}\r\n");
    let reply = ["*1\r\n", &confirm("a", 1), &confirm("b", 2)].concat();
    tells_apart(&[(C, &queue), (S, "+OK\r\n+QUEUED\r\n")], &[(C, &exec), (S, &reply)]);
}

#[test]
fn the_number_tells_whether_anything_but_setup_came() {
    let numbers = numbers(&[(C, "SELECT 1\r\n"), (S, "+OK\r\n"), (C, "PING\r\n"), (S, "+PONG\r\n")]);
    assert!(numbers[1].is_some() && numbers[3].is_some() && numbers[1] != numbers[3], "{numbers:?}");
}

#[test]
fn who_waits_or_is_fed_is_not_idle() {
    let blocked = commands(&["BLPOP a 0"]);
    assert_eq!(numbers(&[(C, &blocked)]), [None]);
    assert_eq!(numbers(&[(C, "MONITOR\r\n"), (S, "+OK\r\n")]), [None, None]);
    assert_eq!(numbers(&[(C, "PSYNC ? -1\r\n"), (S, "+FULLRESYNC a 0\r\n")]), [None, None]);
    assert_eq!(numbers(&[(C, "*1\r\n$4\r\nPI"), (C, "NG\r\n"), (S, "+PON"), (S, "G\r\n")])[..3], [None; 3]);
    let half = commands(&["GET a"]);
    assert_eq!(numbers(&[(C, &half), (S, "$3\r\nab")]), [None, None]);
}

#[test]
fn no_option_begins_with_a_digit() {
    let mut tokens = super::super::commands::COMMANDS.iter().flat_map(|command| &command.tokens);
    assert!(tokens.all(|(token, _)| !token.starts_with(|first: char| first.is_ascii_digit())));
}
