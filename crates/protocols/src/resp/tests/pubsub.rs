//! Publish and subscribe, as Redis 7.0 and 8.2 and Valkey 9.1 answer.

use super::*;

/// Builds a confirmation in RESP2 (`*`) or RESP3 (`>`).
fn confirm(kind: char, word: &str, channel: Option<&str>, left: u64) -> String {
    let null = if kind == '>' { "_\r\n" } else { "$-1\r\n" };
    let channel = channel.map_or_else(|| null.to_owned(), |name| format!("${}\r\n{name}\r\n", name.len()));
    format!("{kind}3\r\n${}\r\n{word}\r\n{channel}:{left}\r\n", word.len())
}

fn message(kind: char, channel: &str) -> String {
    format!("{kind}3\r\n$7\r\nmessage\r\n${}\r\n{channel}\r\n$2\r\nhi\r\n", channel.len())
}

fn pipeline(lines: &[&str], replies: &[String]) -> Vec<(String, Outcome, u64)> {
    answers(&talk(&[(C, &commands(lines)), (S, &replies.concat())]))
}

/// Returns the result of [`answers`] if each command is answered by the given number of replies.
fn answered(lines: &[&str], replies: &[String], counts: &[usize]) -> Vec<(String, Outcome, u64)> {
    assert_eq!(counts.iter().sum::<usize>(), replies.len());
    let mut rest = replies;
    let mut expected = Vec::new();
    for (line, &count) in lines.iter().zip(counts) {
        let (own, others) = rest.split_at(count);
        rest = others;
        let name = line.split(' ').next().unwrap_or_default();
        expected.push((name.to_owned(), Outcome::Ok, own.concat().len() as u64));
    }
    expected
}

fn assert_answered(lines: &[&str], replies: &[String], counts: &[usize]) {
    assert_eq!(pipeline(lines, replies), answered(lines, replies, counts));
}

#[test]
fn ending_subscriptions_that_never_were_is_confirmed_once_per_kind() {
    for kind in ['*', '>'] {
        let ends = ["unsubscribe", "punsubscribe", "sunsubscribe"].map(|word| confirm(kind, word, None, 0));
        let replies = [&ends[..], &["+PONG\r\n".to_owned(), "$1\r\nx\r\n".to_owned()]].concat();
        let lines = ["UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE", "PING", "GET k"];
        assert_answered(&lines, &replies, &[1, 1, 1, 1, 1]);
    }
}

#[test]
fn channels_and_patterns_end_by_kind() {
    for kind in ['*', '>'] {
        let replies = [
            confirm(kind, "subscribe", Some("a"), 1),
            confirm(kind, "subscribe", Some("b"), 2),
            // Subscribed twice: the count stays the same.
            confirm(kind, "subscribe", Some("a"), 2),
            confirm(kind, "psubscribe", Some("x*"), 3),
            confirm(kind, "ssubscribe", Some("s"), 1),
            confirm(kind, "unsubscribe", Some("b"), 2),
            confirm(kind, "unsubscribe", Some("a"), 1),
            confirm(kind, "unsubscribe", None, 1),
            confirm(kind, "punsubscribe", Some("x*"), 0),
            confirm(kind, "sunsubscribe", Some("s"), 0),
            "+PONG\r\n".to_owned(),
        ];
        let lines = [
            "SUBSCRIBE a b a",
            "PSUBSCRIBE x*",
            "SSUBSCRIBE s",
            "UNSUBSCRIBE",
            "UNSUBSCRIBE",
            "PUNSUBSCRIBE",
            "SUNSUBSCRIBE",
            "PING",
        ];
        assert_answered(&lines, &replies, &[3, 1, 1, 2, 1, 1, 1, 1]);
    }
}

#[test]
fn channels_that_were_not_subscribed_to_are_confirmed_too() {
    let replies = [
        confirm('*', "subscribe", Some("a"), 1),
        confirm('*', "unsubscribe", Some("zz"), 1),
        confirm('*', "unsubscribe", Some("a"), 0),
        confirm('*', "unsubscribe", Some("a"), 0),
        "$-1\r\n".to_owned(),
    ];
    assert_answered(&["SUBSCRIBE a", "UNSUBSCRIBE zz a a", "GET k"], &replies, &[1, 3, 1]);
}

#[test]
fn messages_between_confirmations_are_pushes() {
    let replies = [
        confirm('*', "subscribe", Some("a"), 1),
        message('*', "a"),
        confirm('*', "subscribe", Some("b"), 2),
        confirm('*', "unsubscribe", Some("a"), 1),
        message('*', "b"),
        confirm('*', "unsubscribe", Some("b"), 0),
    ];
    let found = pipeline(&["SUBSCRIBE a b", "UNSUBSCRIBE"], &replies);
    let names: Vec<_> = found.iter().map(|(name, outcome, _)| (name.as_str(), *outcome)).collect();
    let (ok, push) = (Outcome::Ok, Outcome::Unsolicited);
    assert_eq!(names, [("SUBSCRIBE", ok), ("UNSUBSCRIBE", ok), ("PUSH", push), ("PUSH", push)]);
}

#[test]
fn an_array_is_no_message_in_resp3() {
    let hello = "%1\r\n$5\r\nproto\r\n:3\r\n".to_owned();
    let replies = [hello, confirm('>', "subscribe", Some("a"), 1), message('*', "a"), "$-1\r\n".to_owned()];
    assert_answered(&["HELLO 3", "SUBSCRIBE a", "LRANGE l 0 -1", "GET k"], &replies, &[1, 1, 1, 1]);
}

#[test]
fn confirmations_come_though_replies_are_off() {
    let four = [("subscribe", "a", 1), ("subscribe", "b", 2), ("unsubscribe", "a", 1), ("unsubscribe", "b", 0)];
    let four = four.map(|(word, channel, left)| confirm('*', word, Some(channel), left)).concat();
    let off = ["CLIENT REPLY OFF", "SUBSCRIBE a b", "UNSUBSCRIBE", "PING", "CLIENT REPLY ON", "PING"];
    let found = pipeline(&off, &[four.clone(), "+OK\r\n+PONG\r\n".to_owned()]);
    let bytes: Vec<_> = found.iter().map(|(_, outcome, bytes)| (*outcome, *bytes)).collect();
    let (ok, none) = (Outcome::Ok, Outcome::NoReply);
    assert_eq!(bytes, [(none, 0), (ok, 60), (ok, 66), (none, 0), (ok, 5), (ok, 7)]);
    let skip = ["CLIENT REPLY SKIP", "SUBSCRIBE a b", "UNSUBSCRIBE", "PING"];
    let found = pipeline(&skip, &[four, "+PONG\r\n".to_owned()]);
    assert_eq!(found.iter().map(|(_, _, bytes)| *bytes).collect::<Vec<_>>(), [0, 60, 66, 7]);
}

#[test]
fn a_server_that_sends_no_confirmations_while_replies_are_off() {
    let lines = ["CLIENT REPLY OFF", "SUBSCRIBE a", "CLIENT REPLY ON", "PING"];
    let found = pipeline(&lines, &["+OK\r\n+PONG\r\n".to_owned()]);
    let outcomes: Vec<_> = found.iter().map(|(_, outcome, bytes)| (*outcome, *bytes)).collect();
    let none = Outcome::NoReply;
    assert_eq!(outcomes, [(none, 0), (none, 0), (Outcome::Ok, 5), (Outcome::Ok, 7)]);
}

#[test]
fn subscriptions_in_a_transaction_are_confirmed_in_and_behind_the_reply_to_exec() {
    for kind in ['*', '>'] {
        let exec = [
            "*3\r\n".to_owned(),
            confirm(kind, "subscribe", Some("a"), 1),
            confirm(kind, "subscribe", Some("b"), 2),
            confirm(kind, "unsubscribe", Some("a"), 1),
            confirm(kind, "unsubscribe", Some("b"), 0),
            "+PONG\r\n".to_owned(),
        ];
        let replies = ["+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n", "+QUEUED\r\n", &exec.concat(), "+PONG\r\n"];
        let replies = replies.map(str::to_owned);
        let lines = ["MULTI", "SUBSCRIBE a b", "UNSUBSCRIBE", "PING", "EXEC", "PING"];
        assert_answered(&lines, &replies, &[1, 1, 1, 1, 1, 1]);
    }
    let discarded = ["+OK\r\n", "+QUEUED\r\n", "+OK\r\n", "+OK\r\n", "*0\r\n", "+PONG\r\n"].map(str::to_owned);
    assert_answered(&["MULTI", "SUBSCRIBE a b", "DISCARD", "MULTI", "EXEC", "PING"], &discarded, &[1; 6]);
    let aborted = ["+OK\r\n", "+QUEUED\r\n", "*-1\r\n", "+PONG\r\n"].map(str::to_owned);
    assert_answered(&["MULTI", "SUBSCRIBE a b", "EXEC", "PING"], &aborted, &[1; 4]);
}

#[test]
fn the_server_ends_sharded_subscriptions_on_its_own() {
    for kind in ['*', '>'] {
        let replies = [
            confirm(kind, "ssubscribe", Some("a"), 1),
            confirm(kind, "ssubscribe", Some("b"), 2),
            confirm(kind, "sunsubscribe", Some("a"), 1),
            confirm(kind, "sunsubscribe", Some("b"), 0),
            "$1\r\nx\r\n".to_owned(),
        ];
        let found = pipeline(&["SSUBSCRIBE a b", "GET k"], &replies);
        let names: Vec<_> = found.iter().map(|(name, _, bytes)| (name.as_str(), *bytes)).collect();
        assert_eq!(names, [("SSUBSCRIBE", 64), ("GET", 7), ("PUSH", 34), ("PUSH", 34)], "{kind}");
    }
}

#[test]
fn a_refused_subscription_is_one_error() {
    let moved = "-MOVED 15495 127.0.0.1:7001\r\n";
    let found = pipeline(&["SSUBSCRIBE a b", "GET k"], &[moved.to_owned(), "$1\r\nx\r\n".to_owned()]);
    let bytes = |text: &str| text.len() as u64;
    let expected = [("SSUBSCRIBE", Outcome::Error, bytes(moved)), ("GET", Outcome::Ok, 7)];
    assert_eq!(found, expected.map(|(name, outcome, bytes)| (name.to_owned(), outcome, bytes)));
}

#[test]
fn reset_ends_subscriptions_monitoring_and_silence() {
    let replies = [
        confirm('*', "subscribe", Some("a"), 1),
        "*2\r\n$4\r\npong\r\n$2\r\nhi\r\n".to_owned(),
        "+RESET\r\n".to_owned(),
        message('*', "a"),
        confirm('*', "unsubscribe", None, 0),
    ];
    assert_answered(&["SUBSCRIBE a", "PING hi", "RESET", "LRANGE l 0 -1", "UNSUBSCRIBE"], &replies, &[1; 5]);
    let found = pipeline(&["CLIENT REPLY OFF", "PING", "RESET", "PING"], &["+RESET\r\n+PONG\r\n".to_owned()]);
    assert_eq!(found.iter().map(|(_, _, bytes)| *bytes).collect::<Vec<_>>(), [0, 0, 8, 7]);
    let found = pipeline(&["CLIENT REPLY SKIP", "RESET", "PING"], &["+PONG\r\n".to_owned()]);
    assert_eq!(found.iter().map(|(_, _, bytes)| *bytes).collect::<Vec<_>>(), [0, 0, 7]);
}

#[test]
fn a_line_of_monitor_is_told_from_the_reply_to_a_command() {
    let line = "+1795319016.341728 [0 127.0.0.1:53784] \"PING\"\r\n";
    let lines = ["MONITOR", "PING", "GET a", "MONITOR", "RESET", "PING"];
    let replies = [
        "+OK\r\n+PONG\r\n",
        line,
        "-ERR Replica can't interact with the keyspace\r\n",
        line,
        "+OK\r\n+RESET\r\n+PONG\r\n",
    ];
    let found = pipeline(&lines, &replies.map(str::to_owned));
    let bytes: Vec<_> = found.iter().map(|(name, _, bytes)| (name.as_str(), *bytes)).collect();
    let expected = [
        ("MONITOR", 5),
        ("PING", 7),
        ("GET", 47),
        ("MONITOR", 5),
        ("RESET", 8),
        ("PING", 7),
        ("MONITOR", 47),
        ("MONITOR", 47),
    ];
    assert_eq!(bytes, expected);
}

#[test]
fn a_subscriber_whose_start_was_not_captured() {
    let replies = [
        message('*', "a"),
        "*2\r\n$4\r\npong\r\n$0\r\n\r\n".to_owned(),
        confirm('*', "unsubscribe", Some("a"), 2),
        confirm('*', "unsubscribe", Some("b"), 1),
        message('*', "p"),
        confirm('*', "punsubscribe", Some("p*"), 0),
        "+PONG\r\n".to_owned(),
    ];
    let lines = commands(&["PING", "UNSUBSCRIBE", "PUNSUBSCRIBE", "PING"]);
    let turns = [(S, replies[0].clone()), (C, lines), (S, replies[1..].concat())];
    let turns: Vec<(Side, &[u8])> = turns.iter().map(|(side, text)| (*side, text.as_bytes())).collect();
    let found = answers(&check(|| Resp::new(true), &turns));
    let bytes: Vec<_> = found.iter().map(|(name, _, bytes)| (name.as_str(), *bytes)).collect();
    let lengths = replies.each_ref().map(|reply| reply.len() as u64);
    let expected = [
        ("PUSH", lengths[0]),
        ("PING", lengths[1]),
        ("UNSUBSCRIBE", lengths[2] + lengths[3]),
        ("PUNSUBSCRIBE", lengths[5]),
        ("PING", lengths[6]),
        ("PUSH", lengths[4]),
    ];
    assert_eq!(bytes, expected);
}

#[test]
fn a_channel_named_like_a_confirmation_is_a_channel() {
    let replies = [
        confirm('*', "subscribe", Some("unsubscribe"), 1),
        confirm('*', "subscribe", Some("message"), 2),
        confirm('*', "unsubscribe", Some("message"), 1),
        confirm('*', "unsubscribe", Some("unsubscribe"), 0),
        "+PONG\r\n".to_owned(),
    ];
    assert_answered(&["SUBSCRIBE unsubscribe message", "UNSUBSCRIBE", "PING"], &replies, &[2, 2, 1]);
}
