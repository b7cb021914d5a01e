//! The text of a script is `query`, not `data`.

use super::*;

fn request(words: &[&str]) -> String {
    let summary = talk(&[(C, &command(words)), (S, "+OK\r\n")]).summary().concat();
    let request = summary.split_once(": ").map_or("", |(_, amounts)| amounts);
    request.split(" |").next().unwrap_or_default().to_owned()
}

#[test]
fn the_text_of_a_script_is_query_and_the_rest_data() {
    let script = "return redis.call('GET', KEYS[1])";
    assert_eq!(script.len(), 33);
    assert_eq!(request(&["EVAL", script, "1", "key"]), "framing 29, query 37, data 4");
    assert_eq!(request(&["eval_ro", script, "0"]), "framing 23, query 40, data 1");
    assert_eq!(request(&["SCRIPT", "LOAD", script]), "framing 23, query 43");
    assert_eq!(request(&["FUNCTION", "LOAD", script]), "framing 23, query 45");
    assert_eq!(request(&["FUNCTION", "LOAD", "REPLACE", script]), "framing 29, query 52");
    assert_eq!(request(&["EVALSHA", &"a".repeat(40), "0"]), "framing 23, query 7, data 41");
}

#[test]
fn a_script_longer_than_what_is_looked_at() {
    let script = "x".repeat(5000);
    assert_eq!(request(&["EVAL", &script, "0"]), "framing 25, query 5004, data 1");
    assert_eq!(request(&["FUNCTION", "LOAD", &script]), "framing 25, query 5012");
}

#[test]
fn a_script_not_known_to_the_server_is_sent_as_text() {
    let lines = [command(&["EVALSHA", &"a".repeat(40), "0"]), command(&["EVAL", "return 1", "0"])].concat();
    let summary = talk(&[(C, &lines), (S, "-NOSCRIPT No matching script.\r\n:1\r\n")]).summary();
    assert!(summary[0].starts_with("workload EVALSHA [array] error"), "{summary:#?}");
    assert_eq!(summary[1], "workload EVAL [array] ok: framing 22, query 12, data 1 | framing 3, data 1");
}
