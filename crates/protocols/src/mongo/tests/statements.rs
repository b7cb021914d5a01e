//! Statements of commands.

use super::*;

#[track_caller]
fn said(request: &[Vec<u8>]) -> String {
    statement(&command(7, request))
}

#[track_caller]
fn statement(request: &[u8]) -> String {
    let transcript = decode(&[(Request, request)]);
    assert_eq!(transcript.ops.len(), 1);
    transcript.ops[0].statement.clone()
}

fn numbers(name: &str, count: usize) -> Vec<u8> {
    let elements: Vec<_> = (0..count).map(|index| int(&index.to_string(), 5)).collect();
    element(4, name, &doc(&elements))
}

#[test]
fn a_find_is_told_by_collection_filter_and_order() {
    let filter = sub("filter", &[sub("age", &[int("$gt", 3)]), text("name", "hunter2")]);
    let request =
        [text("find", "users"), filter, sub("sort", &[int("age", 1)]), int("limit", 3), text("$db", "lab"), session()];
    assert_eq!(said(&request), "find users {age: {$gt: ?}, name: ?} sort: {age: ?}");
    assert_eq!(said(&[text("find", "users"), sub("filter", &[])]), "find users {}");
}

#[test]
fn arrays_of_values_are_one_however_long() {
    for count in [1, 2, 30] {
        let filter = sub("filter", &[sub("_id", &[numbers("$in", count)])]);
        assert_eq!(said(&[text("find", "users"), filter]), "find users {_id: {$in: […]}}");
    }
    let alike = [doc(&[int("a", 1)]), doc(&[int("a", 2)]), doc(&[int("b", 2)])];
    let filter = sub("filter", &[list("$or", &alike)]);
    assert_eq!(said(&[text("find", "users"), filter]), "find users {$or: [{a: ?}, {b: ?}]}");
}

#[test]
fn a_pipeline_is_told_stage_by_stage() {
    let group = sub("$group", &[text("_id", "$city"), sub("total", &[int("$sum", 1)])]);
    let lookup =
        sub("$lookup", &[text("from", "orders"), text("as", "o"), list("pipeline", &[doc(&[int("$limit", 1)])])]);
    let sample = sub("$sample", &[int("size", 3)]);
    let stages = [sub("$match", &[text("state", "hunter2")]), group, lookup, sample].map(|stage| doc(&[stage]));
    let request = [text("aggregate", "zips"), list("pipeline", &stages), sub("cursor", &[int("batchSize", 9)])];
    assert_eq!(
        said(&request),
        "aggregate zips [{$match: {state: ?}}, {$group: {_id: ?, total: {$sum: ?}}}, \
         {$lookup: {from: ?, as: ?, pipeline: [{$limit: ?}]}}, {$sample: {…}}]"
    );
}

#[test]
fn writes_are_told_without_their_documents() {
    let documents = [doc(&[text("hunter2", "hunter2")])];
    let insert = msg(7, 0, 0, &[body(&[text("insert", "users")]), sequence("documents", &documents)]);
    assert_eq!(statement(&insert), "insert users");
    assert_eq!(said(&[text("insert", "users"), list("documents", &documents)]), "insert users");
    let set = doc(&[sub("q", &[int("_id", 1)]), sub("u", &[sub("$set", &[text("name", "hunter2")])])]);
    let replace = doc(&[sub("q", &[int("_id", 1)]), sub("u", &[text("hunter2", "x")])]);
    let updates = |all: &[Vec<u8>]| msg(7, 0, 0, &[body(&[text("update", "users")]), sequence("updates", all)]);
    assert_eq!(statement(&updates(&[set.clone(), set.clone()])), "update users {_id: ?} {$set: {name: ?}}");
    assert_eq!(statement(&updates(std::slice::from_ref(&replace))), "update users {_id: ?} {…}");
    assert_eq!(
        said(&[text("update", "users"), list("updates", &[set, replace])]),
        "update users {_id: ?} {$set: {name: ?}} {_id: ?} {…}"
    );
    let delete = doc(&[sub("q", &[int("a", 1)]), int("limit", 0)]);
    assert_eq!(said(&[text("delete", "users"), list("deletes", &[delete.clone(), delete])]), "delete users {a: ?}");
    let modify = [text("findAndModify", "users"), sub("query", &[int("a", 1)]), sub("update", &[int("b", 1)])];
    assert_eq!(said(&modify), "findAndModify users {a: ?} {…}");
}

#[test]
fn names_that_look_like_data_are_patterns() {
    let names = ["550e8400-e29b-41d4-a716-446655440000", "items.17.price", "ann@example.org", "eyJhbGciOiJIUzI1NiJ9"];
    let filter = sub("filter", &names.map(|name| int(name, 1)));
    assert_eq!(said(&[text("find", "users"), filter]), "find users {#: ?, items.#.price: ?, #: ?, #: ?}");
}

#[test]
fn commands_that_name_something_else_than_a_collection_are_told_without_it() {
    for (request, told) in [
        (vec![text("createUser", "hunter2"), text("pwd", "hunter2")], ""),
        (vec![int("hello", 1), text("saslSupportedMechs", "hunter2")], ""),
        (vec![int("ping", 1)], ""),
        (vec![long("getMore", 5), text("collection", "users")], "getMore users"),
        (vec![text("explain", "x"), text("verbosity", "hunter2")], "explain x"),
        (vec![sub("explain", &[text("find", "users"), sub("filter", &[int("a", 1)])])], "explain users {a: ?}"),
        (vec![text("count", "users"), sub("query", &[int("a", 1)])], "count users {a: ?}"),
        (
            vec![text("distinct", "users"), text("key", "hunter2"), sub("query", &[int("a", 1)])],
            "distinct users {a: ?}",
        ),
    ] {
        assert_eq!(said(&request), told);
    }
}

#[test]
fn legacy_messages_are_told_like_the_commands_that_took_their_place() {
    assert_eq!(statement(&query(7, 0, "lab.users", &[doc(&[int("a", 1)])])), "find users {a: ?}");
    let wrapped = doc(&[sub("$query", &[int("a", 1)]), sub("$orderby", &[int("b", 1)])]);
    assert_eq!(statement(&query(7, 0, "lab.users", &[wrapped])), "find users {$query: {a: ?}, $orderby: {b: ?}}");
    let write = |second: Vec<u8>| {
        let documents = [doc(&[int("a", 1)]), second].concat();
        statement(&message(2001, 7, 0, &[&[0; 4][..], b"lab.users\0", &[0; 4], &documents].concat()))
    };
    assert_eq!(write(doc(&[sub("$set", &[int("b", 1)])])), "update users {a: ?} {$set: {b: ?}}");
    assert_eq!(write(doc(&[text("hunter2", "x")])), "update users {a: ?} {…}");
    let insert = [&[0; 4][..], b"lab.users\0", &doc(&[text("hunter2", "x")])].concat();
    assert_eq!(statement(&message(2002, 7, 0, &insert)), "insert users");
}

#[test]
fn a_long_shape_ends_somewhere() {
    let names: Vec<_> = (0..3000).map(|_| int("some_name", 1)).collect();
    let request = command(7, &[text("find", "users"), sub("filter", &names)]);
    let told = Transcript::of(Mongo::new(false), &[(Request, &request)]).ops[0].statement.clone();
    assert!(
        told.starts_with("find users {some_name: ?, ") && told.ends_with('}') && told.len() <= 1024,
        "{}",
        told.len()
    );
}
