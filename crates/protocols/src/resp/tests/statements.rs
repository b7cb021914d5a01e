//! What a command's statement says, and what it does not.

use super::{C, S, command, commands, talk};

/// The statements of a conversation's operations.
fn statements(request: &str, response: &str) -> Vec<String> {
    talk(&[(C, request), (S, response)]).ops.into_iter().map(|op| op.statement).collect()
}

fn statement(words: &[&str], response: &str) -> String {
    statements(&command(words), response).concat()
}

#[test]
fn a_command_has_the_pattern_of_its_keys_and_nothing_of_its_values() {
    assert_eq!(statement(&["get", "key:000012"], "$-1\r\n"), "GET key:#");
    assert_eq!(statement(&["SET", "user:7:name", "ann", "EX", "60"], "+OK\r\n"), "SET user:#:name");
    assert_eq!(statement(&["MGET", "a:1", "a:2", "a:3"], "*0\r\n"), "MGET a:# …");
    assert_eq!(statement(&["MSET", "a:1", "secret", "b:2", "secret"], "+OK\r\n"), "MSET a:# b:#");
    assert_eq!(statement(&["XGROUP", "CREATE", "stream:9", "group", "$"], "+OK\r\n"), "XGROUP CREATE stream:#");
    assert_eq!(statement(&["GET", ""], "$-1\r\n"), "GET \"\"");
    assert_eq!(statement(&["GET", &"long".repeat(200)], "$-1\r\n"), "GET #");
}

#[test]
fn commands_without_keys_have_none() {
    assert_eq!(statement(&["PING"], "+PONG\r\n"), "");
    assert_eq!(statement(&["AUTH", "user", "s3cr3t"], "+OK\r\n"), "");
    assert_eq!(statement(&["NOSUCH", "key:1"], "-ERR\r\n"), "");
    assert_eq!(statement(&["EVAL", "return 1", "0"], ":1\r\n"), "");
    assert_eq!(
        statements(&commands(&["GET a:1", "PING", "GET b:2"]), "$-1\r\n+PONG\r\n$-1\r\n"),
        ["GET a:#", "", "GET b:#"]
    );
}

#[test]
fn an_inline_command_has_the_statement_of_the_same_array() {
    assert_eq!(statements("GET key:12\r\n", "$-1\r\n"), ["GET key:#"]);
}

#[test]
fn a_key_that_is_no_string_is_a_hash() {
    assert_eq!(statements("*2\r\n$3\r\nGET\r\n:12\r\n", "-ERR\r\n"), ["GET #"]);
    assert_eq!(statements("*2\r\n$3\r\nGET\r\n$-1\r\n", "-ERR\r\n"), ["GET #"]);
}
