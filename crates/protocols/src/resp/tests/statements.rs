//! Statements of commands.

use super::{C, S, command, commands, talk};

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
    assert_eq!(statement(&["TS.MGET", "FILTER", "area=32"], "*0\r\n"), "");
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

#[test]
fn keys_behind_their_number_are_found() {
    assert_eq!(statement(&["EVAL", "return 1", "2", "k:1", "l:2", "secret"], ":1\r\n"), "EVAL k:# l:#");
    assert_eq!(statement(&["EVALSHA_RO", &"a".repeat(40), "1", "k:1", "secret"], ":1\r\n"), "EVALSHA_RO k:#");
    assert_eq!(statement(&["FCALL", "f", "0", "secret"], ":1\r\n"), "");
    assert_eq!(
        statement(&["ZUNIONSTORE", "to", "2", "a:1", "b:2", "WEIGHTS", "1", "2"], ":1\r\n"),
        "ZUNIONSTORE to a:# b:#"
    );
    assert_eq!(statement(&["ZDIFF", "1", "a:1", "WITHSCORES"], "*0\r\n"), "ZDIFF a:#");
    assert_eq!(statement(&["SINTERCARD", "2", "a:1", "limit", "LIMIT", "5"], ":1\r\n"), "SINTERCARD a:# limit");
    assert_eq!(statement(&["BLMPOP", "0", "2", "a:1", "b:2", "LEFT"], "*-1\r\n"), "BLMPOP a:# b:#");
    assert_eq!(statement(&["MSETEX", "2", "a:1", "secret", "b:2", "secret", "EX", "9"], ":1\r\n"), "MSETEX a:# b:#");
}

#[test]
fn a_number_of_keys_that_is_none_makes_no_key() {
    for number in ["x", "-1", "1.5", "", "99999999999999999999"] {
        assert_eq!(statement(&["EVAL", "return 1", number, "secret"], "-ERR\r\n"), "", "{number}");
    }
    assert_eq!(statement(&["EVAL", "return 1", "4294967295", "a:1"], "-ERR\r\n"), "EVAL a:#");
    assert_eq!(statement(&["EVAL", "return 1"], "-ERR\r\n"), "");
}

#[test]
fn keys_behind_an_option_are_found() {
    assert_eq!(statement(&["XREAD", "COUNT", "2", "STREAMS", "s:1", "t:2", "0", "secret"], "*-1\r\n"), "XREAD s:# t:#");
    assert_eq!(
        statement(&["XREADGROUP", "GROUP", "streams", "STREAMS", "NOACK", "streams", "s:1", ">"], "*-1\r\n"),
        "XREADGROUP s:#"
    );
    assert_eq!(statement(&["SORT", "l:1", "BY", "w_*", "GET", "STORE", "STORE", "to"], ":1\r\n"), "SORT l:# to");
    assert_eq!(
        statement(&["GEORADIUS", "g:1", "1", "2", "3", "km", "ASC", "STOREDIST", "to:1"], ":1\r\n"),
        "GEORADIUS g:# to:#"
    );
    assert_eq!(
        statement(
            &["MIGRATE", "host", "1", "", "0", "5", "COPY", "AUTH2", "KEYS", "secret", "KEYS", "a:1", "b:2"],
            "+OK\r\n"
        ),
        "MIGRATE \"\" a:# b:#"
    );
    assert_eq!(statement(&["MIGRATE", "host", "1", "a:1", "0", "5", "AUTH", "KEYS"], "+OK\r\n"), "MIGRATE a:#");
}

#[test]
fn keys_of_other_commands_are_where_the_servers_say() {
    assert_eq!(statement(&["BITOP", "AND", "to:1", "and", "b:2"], ":1\r\n"), "BITOP to:# and b:#");
    assert_eq!(statement(&["OBJECT", "ENCODING", "a:1"], "$3\r\nraw\r\n"), "OBJECT ENCODING a:#");
    assert_eq!(statement(&["JSON.SET", "doc:1", "$", "secret"], "+OK\r\n"), "JSON.SET doc:#");
    assert_eq!(statement(&["FT.SEARCH", "idx:users", "@name:secret"], "*1\r\n:0\r\n"), "FT.SEARCH idx:users");
    assert_eq!(statement(&["GRAPH.QUERY", "social", "MATCH (n:secret)"], "*0\r\n"), "GRAPH.QUERY social");
}

#[test]
fn each_command_has_its_own_keys_whatever_the_one_before_had() {
    let lines =
        ["EVAL x 1 a:1 x", "EVAL x 2 a:1 b:2", "SORT c:3 STORE d:4", "SORT c:3 BY d:4", "SORT c:3", "ZADD e:5 1 f"];
    assert_eq!(
        statements(&commands(&lines), ":1\r\n:1\r\n:1\r\n*0\r\n*0\r\n:1\r\n"),
        ["EVAL a:#", "EVAL a:# b:#", "SORT c:# d:#", "SORT c:#", "SORT c:#", "ZADD e:#"]
    );
}

#[test]
fn a_command_that_no_table_has_is_named_where_its_name_is_one() {
    let name = |words: &[&str]| talk(&[(C, &command(words)), (S, "-ERR\r\n")]).ops.remove(0).name().to_owned();
    assert_eq!(name(&["brandnew.Command", "secret"]), "BRANDNEW.COMMAND");
    assert_eq!(name(&["q7XzP2vN9sKd8LwTb4Rm"]), "(unknown)");
    assert_eq!(name(&["QzpXhWvbNtRs"]), "(unknown)");
    assert_eq!(name(&["ann@example.org"]), "(unknown)");
    assert_eq!(name(&["\u{e9}t\u{e9}"]), "(unknown)");
    assert_eq!(name(&[&"word-".repeat(9)]), "(unknown)");
    assert_eq!(name(&["CLIENT", "brand-new"]), "CLIENT BRAND-NEW");
    assert_eq!(name(&["CLIENT", "q7XzP2vN9sKd8LwTb4Rm"]), "CLIENT");
    assert_eq!(name(&["CONFIG", "GET", "x"]), "CONFIG GET");
}
