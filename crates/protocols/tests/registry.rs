//! What must hold for each protocol of the registry, whichever they are.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use overhead_decode::transcript::check;
use overhead_model::{Protocol, Side};
use overhead_protocols::{AnyDecoder, Judgement, Shared, Sniff, facts, judge, sniff};

/// What servers answer to the greeting of their protocol.
const ANSWERS: [(Protocol, &[u8]); 6] = [
    (Protocol::Resp, b"+PONG\r\n"),
    (Protocol::Resp, b"-NOAUTH Authentication required.\r\n"),
    (Protocol::Pgwire, b"N"),
    (Protocol::Cql, b"\x84\0\0\0\x06\0\0\0\0"),
    (Protocol::Cql, b"\x84\0\0\0\0\0\0\0\x08\0\0\0\x0a\0\x02no"),
    (Protocol::Mongo, b"\x40\0\0\0\x05\0\0\0\x01\0\0\0\xdd\x07\0\0"),
];

fn greeted_by(answer: &[u8]) -> Vec<Protocol> {
    Protocol::ALL.into_iter().filter(|protocol| (facts(*protocol).is_greeted)(answer)).collect()
}

#[test]
fn a_greeting_is_one_request_however_it_is_cut() {
    for protocol in Protocol::ALL {
        let transcript = check(
            || AnyDecoder::new(protocol, false, &Shared::default()),
            &[(Side::Request, facts(protocol).greeting)],
        );
        assert_eq!(transcript.ops.len(), 1, "{protocol}: {:?}", transcript.summary());
        assert!(!transcript.ops[0].name().is_empty(), "{protocol}: {:?}", transcript.summary());
        assert_eq!(transcript.notes, [], "{protocol}");
    }
}

#[test]
fn the_first_bytes_of_a_greeting_tell_whose_it_is() {
    for protocol in Protocol::ALL {
        let greeting = facts(protocol).greeting;
        let expected = if facts(protocol).is_text { Sniff::Perhaps(Side::Request) } else { Sniff::Request };
        assert_eq!(sniff(protocol, greeting), expected, "{protocol}");
        for other in Protocol::ALL.into_iter().filter(|other| *other != protocol) {
            let judged = judge(other, Side::Request, greeting, false);
            assert_ne!(judged, Judgement::Expected, "the greeting of {protocol}, judged as {other}");
        }
    }
}

#[test]
fn an_answer_to_a_greeting_is_of_one_protocol() {
    for protocol in Protocol::ALL {
        assert!(ANSWERS.iter().any(|(of, _)| *of == protocol), "no answer to the greeting of {protocol}");
    }
    for (protocol, answer) in ANSWERS {
        assert_eq!(greeted_by(answer), [protocol], "{}", answer.escape_ascii());
    }
    assert_eq!(greeted_by(b"HTTP/1.1 400 Bad Request"), []);
    assert_eq!(greeted_by(b""), []);
}
