//! Connections that switch to another protocol.

use super::{C, NOTHING, S, outcomes, talk};
use overhead_decode::Note;

#[test]
fn what_follows_an_upgrade_is_not_decoded_and_named() {
    for (upgrade, name) in [("websocket", "WebSocket"), ("h2c", "HTTP/2"), ("tcp", "another protocol")] {
        let transcript = talk(&[
            (C, &format!("GET /chat HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: {upgrade}\r\n\r\n")),
            (S, &format!("HTTP/1.1 101 Switching Protocols\r\nUpgrade: {upgrade}\r\n\r\n\u{81}\u{5}hello")),
            (C, "\u{81}GET / HTTP/1.1\r\n\r\n"),
            (S, NOTHING),
        ]);
        let summary = transcript.summary();
        assert_eq!(outcomes(&transcript), ["workload GET /chat [] ok", "unmatched (switched) [] noreply"]);
        assert!(summary[1].ends_with("unknown 20 | unknown 35"), "{summary:#?}");
        assert_eq!(transcript.notes, [Note::Switched(name)]);
    }
}

#[test]
fn an_upgrade_that_is_not_granted_changes_nothing() {
    let request = "GET / HTTP/1.1\r\nUpgrade: h2c\r\n\r\n";
    let transcript = talk(&[(C, request), (S, NOTHING), (C, request), (S, NOTHING)]);
    assert_eq!(outcomes(&transcript), ["workload GET / [] ok"; 2]);
    assert_eq!(transcript.notes, []);
}

#[test]
fn an_upgrade_without_a_word_more_leaves_nothing_undecoded() {
    let transcript = talk(&[
        (C, "GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"),
        (S, "HTTP/1.1 101 X\r\nUpgrade: websocket\r\n\r\n"),
    ]);
    assert_eq!(outcomes(&transcript), ["workload GET / [] ok"]);
    assert_eq!(transcript.notes, []);
}

#[test]
fn a_tunnel_begins_where_it_is_granted() {
    let connect = "CONNECT host:443 HTTP/1.1\r\nHost: host:443\r\n\r\n";
    let refused = "HTTP/1.1 407 X\r\nContent-Length: 2\r\n\r\nno";
    let granted = "HTTP/1.1 200 Connection established\r\n\r\n";
    let transcript = talk(&[(C, connect), (S, refused), (C, connect), (S, granted), (C, "\x16\x03\x01"), (S, "\x16")]);
    assert_eq!(
        outcomes(&transcript),
        ["workload CONNECT host", "workload CONNECT host", "unmatched (switched) [] noreply"]
    );
    assert!(transcript.summary()[0].starts_with("workload CONNECT host:443 [] error"));
    assert_eq!(transcript.notes, [Note::Switched("a tunnel")]);
}

#[test]
fn a_client_may_begin_before_its_tunnel_is_granted() {
    let transcript = talk(&[(C, "CONNECT host:443 HTTP/1.1\r\n\r\n\x16\x03\x01\x02"), (S, "\x16\x03")]);
    assert_eq!(transcript.notes, [Note::Switched("a tunnel")]);
}

#[test]
fn http2_with_prior_knowledge_is_named() {
    let settings = "\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x64";
    let preface = ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", settings].concat();
    for order in [[(C, preface.as_str()), (S, settings)], [(S, settings), (C, preface.as_str())]] {
        let transcript = talk(&order);
        assert_eq!(outcomes(&transcript), ["unmatched (switched) [] noreply"]);
        assert_eq!(transcript.notes, [Note::Switched("HTTP/2")]);
    }
}
