//! When a connection is idle, which states its number distinguishes, and which bytes are free.

use super::*;
use overhead_testing::free::{self, Checked};

fn checked(conversation: &[(Side, &[u8])]) -> Checked {
    free::check(|| Mongo::new(false), conversation)
}

fn numbers(conversation: &[(Side, &[u8])]) -> Vec<Option<u64>> {
    free::numbers(Mongo::new(false), conversation)
}

/// Returns the free bytes of a request and its reply.
fn free(request: &[u8], reply: &[u8]) -> u64 {
    let checked = checked(&[(Request, request), (Response, reply)]);
    assert_eq!(checked.turns, 1);
    checked.free
}

/// Free ids in an `OP_MSG` exchange: `requestID` of both messages, and `responseTo` of the reply.
const IDS: u64 = 3 * 4;

#[test]
fn ids_and_values_are_free() {
    let (request, answer) = find_by_id();
    let values = (1 + 8 + 8 + 3 + 16) + (8 + 10 + 8 + 11);
    assert_eq!(free(&command(7, &request), &reply(7, &answer)), IDS + values);
}

#[test]
fn every_type_has_values_that_are_free_where_nothing_is_searched_for_in_them() {
    let scope = 4 + 7 + 15;
    let values = [
        element(5, "bytes", &[&[3, 0, 0, 0, 0], b"abc".as_slice()].concat()),
        element(5, "old", &[&[7, 0, 0, 0, 2, 3, 0, 0, 0], b"abc".as_slice()].concat()),
        element(7, "id", &[1; 12]),
        element(9, "date", &[1; 8]),
        element(11, "regex", b"a+\0i\0"),
        element(12, "pointer", &[string("ab"), vec![1; 12]].concat()),
        element(13, "code", &string("ab")),
        element(15, "scope", &[&[scope, 0, 0, 0], string("ab").as_slice(), &doc(&[int("abcd", 1)])].concat()),
        element(19, "decimal", &[1; 16]),
        null("null"),
    ];
    let values = [values.as_slice(), &[int("last", 1)]].concat();
    let request = msg(1, 0, 0, &[body(&[text("insert", "c")]), sequence("documents", &[doc(&values)])]);
    let free_values = 3 + 3 + 12 + 8 + (2 + 12) + 2 + (2 + 4) + 16 + 4;
    assert_eq!(free(&request, &reply(1, &[ok()])), IDS + free_values);
}

#[test]
fn what_says_something_about_the_operation_is_not_free() {
    let answer = |elements: &[Vec<u8>]| free(&command(1, &[text("insert", "c")]), &reply(1, elements)) - IDS;
    assert_eq!(answer(&[ok()]), 0);
    assert_eq!(answer(&[int("n", 2), ok()]), 4);
    assert_eq!(answer(&[int("n", 2), list("writeErrors", &[doc(&[int("code", 11000)])]), ok()]), 4 + 4);
    assert_eq!(answer(&[text("err", "abc"), ok()]), 0);
    let request = |elements: &[Vec<u8>]| free(&command(1, elements), &reply(1, &[ok()])) - IDS;
    // The cursor id is free; the collection's name is not, as it may be the oplog.
    assert_eq!(request(&[long("getMore", 99), text("collection", "c")]), 8);
    assert_eq!(request(&[int("ping", 1), int("maxAwaitTimeMS", 5)]), 4);
    let driver = sub("client", &[sub("driver", &[text("name", "driver"), text("version", "1.0")])]);
    assert_eq!(request(&[int("hello", 1), driver]), 4);
}

#[test]
fn a_checksum_differs_with_what_it_is_of() {
    let request = msg(1, 0, 1, &[body(&[int("ping", 1)]), vec![1, 2, 3, 4]]);
    assert_eq!(free(&request, &reply(1, &[ok()])), IDS + 4 + 4);
}

#[test]
fn legacy_queries_have_ids_too() {
    let request = query(5, 0, "lab.c", &[doc(&[int("a", 1)])]);
    let answer = op_reply(6, 5, 0, 77, &[doc(&[int("a", 1)])]);
    assert_eq!(free(&request, &answer), IDS + 4 + 4);
}

#[test]
fn equal_turns_leave_the_number_as_it_is() {
    let find = |id: i32, key: i64| command(id, &[text("find", "c"), sub("filter", &[long("_id", key)])]);
    let answer = |to: i32| reply(to, &[ok()]);
    let pipelined = [find(12, 4), find(13, 5)].concat();
    let answers = [answer(13), answer(12)].concat();
    let turns = [(find(10, 1), answer(10)), (find(11, 3), answer(11)), (pipelined, answers), (find(20, 9), answer(20))];
    let talk: Vec<(Side, &[u8])> = turns
        .iter()
        .flat_map(|(request, answer)| [(Request, request.as_slice()), (Response, answer.as_slice())])
        .collect();
    let numbers = numbers(&talk);
    assert!(numbers[1].is_some(), "{numbers:?}");
    assert_eq!(numbers, [None, numbers[1], None, numbers[1], None, numbers[1], None, numbers[1]]);
    let checked = checked(&talk);
    // The first command of the application changes the state.
    assert_eq!((checked.turns, checked.repeatable, checked.repeated), (4, 3, 2), "{checked:?}");
}

fn changes(between: &[(Side, &[u8])]) {
    let (request, answer) = (command(100, &[text("insert", "c")]), reply(100, &[ok()]));
    let opening: [(Side, &[u8]); 2] = [(Request, &request), (Response, &answer)];
    let numbers = numbers(&[opening.as_slice(), between, &opening].concat());
    let (before, after) = (numbers[1], numbers[numbers.len() - 1]);
    assert!(before.is_some() && after.is_some(), "{numbers:?}");
    assert_ne!(before, after, "{between:?}");
}

#[test]
fn the_number_tells_the_first_hello_from_later_ones() {
    changes(&[(Request, &command(1, &[int("hello", 1)])), (Response, &reply(1, &[ok()]))]);
}

#[test]
fn the_number_tells_who_watches_the_server() {
    let streaming = command(1, &[int("hello", 1), int("maxAwaitTimeMS", 9)]);
    changes(&[(Request, &streaming), (Response, &reply(1, &[ok()]))]);
}

#[test]
fn the_number_tells_whether_the_software_was_named() {
    changes(&[(Request, &command(1, &[text("other", "c")])), (Response, &reply(1, &[int("maxWireVersion", 9), ok()]))]);
}

#[test]
fn the_number_tells_whether_the_application_has_asked_for_anything() {
    let shell = command(1, &[int("buildInfo", 1)]);
    let insert = command(2, &[text("insert", "c")]);
    let talk: [(Side, &[u8]); 4] =
        [(Request, &shell), (Response, &reply(1, &[ok()])), (Request, &insert), (Response, &reply(2, &[ok()]))];
    let numbers = numbers(&talk);
    assert!(numbers[1].is_some() && numbers[3].is_some() && numbers[1] != numbers[3], "{numbers:?}");
}

#[test]
fn ids_that_do_not_pair_are_no_turn_to_be_repeated() {
    // There is no request, or its id is used twice: other ids would give another result.
    changes(&[(Response, &reply(55, &[ok()]))]);
    let ping = command(1, &[int("ping", 1)]);
    changes(&[(Request, &ping), (Request, &ping), (Response, &reply(1, &[ok()]))]);
}

#[test]
fn what_is_compressed_is_no_turn_to_be_repeated() {
    changes(&[(Request, &squeezed(2)), (Response, &reply(1, &[ok()]))]);
}

#[test]
fn a_stream_of_replies_is_not_idle_until_it_ends() {
    let request = msg(6, 0, 1 << 16, &[body(&[long("getMore", 9), text("collection", "c")])]);
    let part = |id, to, flags| msg(id, to, flags, &[body(&[ok()])]);
    let talk: [(Side, &[u8]); 4] =
        [(Request, &request), (Response, &part(7, 6, 2)), (Response, &part(8, 7, 2)), (Response, &part(9, 8, 0))];
    let numbers = numbers(&talk);
    assert_eq!(numbers[..3], [None; 3]);
    assert!(numbers[3].is_some());
    // The ids that link the replies are fixed; the other ids and the cursor id are free.
    let checked = checked(&talk);
    assert_eq!((checked.turns, checked.free), (1, 4 + 8 + 4 + 4));
}

#[test]
fn a_message_that_goes_on_is_not_idle() {
    let ping = command(1, &[int("ping", 1)]);
    let (head, tail) = ping.split_at(20);
    let answer = reply(1, &[ok()]);
    let numbers = numbers(&[(Request, head), (Request, tail), (Response, &answer[..30]), (Response, &answer[30..])]);
    assert_eq!(numbers[..3], [None; 3]);
    assert!(numbers[3].is_some());
}
