//! When a connection is idle, and which bytes are free.

use super::{C, Memcache, S};
use overhead_model::Side;
use overhead_testing::free::{self, Checked};

fn bytes<'a>(conversation: &'a [(Side, &str)]) -> Vec<(Side, &'a [u8])> {
    conversation.iter().map(|(side, text)| (*side, text.as_bytes())).collect()
}

fn check(conversation: &[(Side, &str)]) -> Checked {
    free::check(Memcache::default, &bytes(conversation))
}

fn numbers(conversation: &[(Side, &str)]) -> Vec<Option<u64>> {
    free::numbers(Memcache::default(), &bytes(conversation))
}

/// Returns the free bytes of a request and its reply.
fn free(request: &str, answer: &str) -> u64 {
    let checked = check(&[(C, "version\r\n"), (S, "VERSION 1\r\n"), (C, request), (S, answer)]);
    assert_eq!(checked.turns, 2, "{request:?}");
    checked.free
}

#[test]
fn values_are_free_and_digits_of_words() {
    assert_eq!(free("get key:12\r\n", "VALUE key:12 3 5\r\nhello\r\nEND\r\n"), 6 + 6 + 1 + 5);
    assert_eq!(free("set key:12 0 60 5\r\nhello\r\n", "STORED\r\n"), 6 + 1 + 2 + 5);
    assert_eq!(free("cas k 0 0 1 77\r\nx\r\n", "STORED\r\n"), 1 + 1 + 1 + 2 + 1);
    assert_eq!(free("incr n 10\r\n", "42\r\n"), 1 + 2 + 2);
    assert_eq!(free("mg k v O12\r\n", "VA 3 O12\r\nabc\r\n"), 1 + 2 + 2 + 3);
}

#[test]
fn what_decides_is_not_free() {
    // The number may be too large for a server.
    assert_eq!(free("set k 0 1234567890 1\r\nx\r\n", "STORED\r\n"), 1 + 1 + 1);
    assert_eq!(free("version\r\n", "VERSION 1.6.18\r\n"), 0);
    assert_eq!(free("stats slabs\r\n", "STAT version 1.6.18\r\nEND\r\n"), 0);
    // Key and opaque pair the replies with quiet requests.
    assert_eq!(free("mg k1 v q O12\r\nmg k2 v k\r\n", "VA 3 O12\r\nabc\r\nEN kk2\r\n"), 3 + 2);
}

#[test]
fn equal_turns_leave_the_number_as_it_is() {
    let turn = [(C, "set k1 0 0 1 noreply\r\nx\r\nget k1\r\n"), (S, "VALUE k1 0 1\r\nx\r\nEND\r\n")];
    let talk = [turn, turn, turn].concat();
    let numbers = numbers(&talk);
    assert!(numbers[1].is_some());
    assert_eq!(numbers[1..6], [numbers[1], None, numbers[1], None, numbers[1]]);
    let checked = check(&talk);
    assert_eq!((checked.turns, checked.repeatable), (3, 2), "{checked:?}");
}

#[test]
fn who_waits_or_watches_is_not_idle() {
    assert_eq!(numbers(&[(C, "get k\r\n")]), [None]);
    assert_eq!(numbers(&[(C, "mg k q\r\n")]), [None]);
    assert_eq!(numbers(&[(C, "set k 0 0 5\r\nab"), (S, "SERVER_ERROR no\r\n")]), [None, None]);
    assert_eq!(numbers(&[(C, "watch\r\n"), (S, "OK\r\n")]), [None, None]);
    assert_eq!(numbers(&[(C, "get k\r\n"), (S, "VALUE k 0 1\r\nx\r\n")]), [None, None]);
}
