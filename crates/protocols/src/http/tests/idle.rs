//! When a connection is idle, which states its number distinguishes, and which bytes are free.

use super::{C, Http, NOTHING, S, Side, ok};
use overhead_testing::free::{self, Checked};

fn bytes<'a>(conversation: &'a [(Side, &str)]) -> Vec<(Side, &'a [u8])> {
    conversation.iter().map(|(side, text)| (*side, text.as_bytes())).collect()
}

fn check(conversation: &[(Side, &str)]) -> Checked {
    free::check(Http::default, &bytes(conversation))
}

fn numbers(conversation: &[(Side, &str)]) -> Vec<Option<u64>> {
    free::numbers(Http::default(), &bytes(conversation))
}

#[test]
fn bodies_and_digits_of_what_is_not_read_are_free() {
    let request = "PUT /k1/k2?x=12&y=a HTTP/1.1\r\nX-Id: 7a\r\nContent-Length: 3\r\n\r\nabc";
    // Further path "/k2", query "x", "12", "y", "a", a value "7a", the body.
    let sent = 3 + 1 + 2 + 1 + 1 + 2 + 3;
    assert_eq!(check(&[(C, request), (S, NOTHING)]).free, sent);
    assert_eq!(check(&[(C, request), (S, &ok("hello"))]).free, sent + 5);
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n";
    assert_eq!(check(&[(C, request), (S, chunked)]).free, sent + 2);
}

#[test]
fn equal_turns_leave_the_number_as_it_is() {
    let get = "GET /a?k=1 HTTP/1.1\r\nUser-Agent: x/1\r\n\r\n";
    let found = ok("value");
    let turn = [(C, get), (S, found.as_str())];
    let numbers = numbers(&[turn, turn, turn].concat());
    assert_eq!(numbers[0], None);
    assert_eq!((numbers[1], numbers[3]), (numbers[3], numbers[5]));
    let checked = check(&[turn, turn, turn].concat());
    // The first request names the client.
    assert_eq!((checked.turns, checked.repeatable), (3, 2));
}

#[test]
fn the_number_tells_whether_software_is_known() {
    let plain = "GET / HTTP/1.1\r\n\r\n";
    let named = "GET / HTTP/1.1\r\nUser-Agent: x\r\n\r\n";
    let server = "HTTP/1.1 204 X\r\nServer: y\r\n\r\n";
    let numbers = numbers(&[(C, plain), (S, NOTHING), (C, named), (S, NOTHING), (C, plain), (S, server)]);
    assert_eq!([numbers[1], numbers[3], numbers[5]], [Some(0), Some(1), Some(3)]);
}

#[test]
fn who_waits_or_has_switched_is_not_idle() {
    let begun = "PUT / HTTP/1.1\r\nContent-Length: 5\r\n\r\nab";
    assert_eq!(numbers(&[(C, begun), (C, "cde"), (S, "HTTP/1.1 100 C\r\n\r\n"), (S, NOTHING)])[..3], [None; 3]);
    let early = numbers(&[(C, begun), (S, NOTHING), (C, "cde")]);
    assert_eq!(early, [None, None, Some(0)]);
    let until_close = numbers(&[(C, "GET / HTTP/1.0\r\n\r\n"), (S, "HTTP/1.0 200 OK\r\n\r\nabc")]);
    assert_eq!(until_close, [None, None]);
    let switched = numbers(&[(C, "CONNECT a:1 HTTP/1.1\r\n\r\n"), (S, "HTTP/1.1 200 OK\r\n\r\n")]);
    assert_eq!(switched, [None, None]);
}
