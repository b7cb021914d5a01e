//! Commands that belong to connection setup.

use super::*;

/// Returns the classes of pipelined commands that are all answered by `+OK`.
fn classes(mid_stream: bool, lines: &[&str]) -> Vec<Class> {
    let (requests, replies) = (commands(lines), "+OK\r\n".repeat(lines.len()));
    let turns: [(Side, &[u8]); 2] = [(C, requests.as_bytes()), (S, replies.as_bytes())];
    let transcript = check(|| Resp::new(mid_stream), &turns);
    transcript.ops.iter().filter_map(overhead_testing::transcript::Entry::class).collect()
}

/// Sent by drivers at connect, and by users at any time.
const OPENING: [&str; 10] = [
    "SELECT 1",
    "READONLY",
    "COMMAND",
    "COMMAND DOCS",
    "INFO server",
    "ROLE",
    "CLUSTER SLOTS",
    "CLUSTER SHARDS",
    "CLUSTER NODES",
    "CLUSTER MYID",
];

#[test]
fn what_configures_the_connection_is_setup_at_any_time() {
    let lines = [
        "GET k",
        "HELLO 2",
        "AUTH secret",
        "CLIENT SETINFO LIB-NAME x",
        "CLIENT SETNAME x",
        "CLIENT ID",
        "CLIENT TRACKING ON",
        "CLIENT MAINT_NOTIFICATIONS ON",
        "CLIENT NO-EVICT ON",
        "CLIENT NO-TOUCH ON",
        "CLIENT REPLY ON",
    ];
    let found = classes(false, &lines);
    assert_eq!(found[0], Class::Workload);
    assert_eq!(found[1..], [Class::Setup; 10]);
}

#[test]
fn what_asks_about_connections_is_workload() {
    let lines = ["CLIENT LIST", "CLIENT INFO", "CLIENT GETNAME", "CLIENT KILL TYPE normal", "CLIENT CACHING YES"];
    assert_eq!(classes(false, &lines), [Class::Workload; 5]);
}

#[test]
fn questions_before_the_first_other_command_are_setup_and_workload_behind_it() {
    let lines = [&["HELLO 2", "CLIENT ID"][..], &OPENING, &["CLIENT SETNAME x", "PING"], &OPENING].concat();
    let found = classes(false, &lines);
    assert_eq!(found[..13], [Class::Setup; 13]);
    assert_eq!(found[13..], [Class::Workload; 11]);
}

#[test]
fn questions_on_a_connection_whose_start_was_not_captured_are_workload() {
    assert_eq!(classes(true, &OPENING), [Class::Workload; 10]);
}
