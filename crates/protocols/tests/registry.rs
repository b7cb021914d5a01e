//! Properties of every protocol in the registry.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use overhead_model::{Outcome, Protocol, Side};
use overhead_protocols::{AnyDecoder, SharedContext, Sniff, SniffVerdict, facts, judge, sniff};
use overhead_testing::transcript::check;

fn greeted_by(answer: &[u8]) -> Vec<Protocol> {
    Protocol::ALL.into_iter().filter(|protocol| (facts(*protocol).is_greeted)(answer)).collect()
}

#[test]
fn a_greeting_and_its_answer_are_one_operation_however_they_are_cut() {
    for protocol in Protocol::ALL {
        let talk = [(Side::Request, facts(protocol).greeting), (Side::Response, facts(protocol).reply)];
        let transcript = check(|| AnyDecoder::new(protocol, false, &SharedContext::default()), &talk);
        let ops: Vec<_> = transcript.ops.iter().map(|op| (op.name().is_empty(), op.outcome)).collect();
        // The greeting of a server that speaks first waits for the client.
        let outcome = (!facts(protocol).greeting.is_empty()).then_some(Outcome::Ok);
        assert_eq!(ops, [(false, outcome)], "{protocol}: {:?}", transcript.summary());
        assert_eq!(transcript.notes, [], "{protocol}");
    }
}

#[test]
fn the_first_bytes_of_a_greeting_tell_whose_it_is() {
    for protocol in Protocol::ALL {
        let (side, first) = match facts(protocol).greeting {
            b"" => (Side::Response, facts(protocol).reply),
            greeting => (Side::Request, greeting),
        };
        let expected = match (facts(protocol).is_text, side) {
            (true, _) => Sniff::Perhaps(side),
            (false, Side::Request) => Sniff::Request,
            (false, Side::Response) => Sniff::Response,
        };
        assert_eq!(sniff(protocol, first), expected, "{protocol}");
        for other in Protocol::ALL.into_iter().filter(|other| *other != protocol) {
            let judged = judge(other, side, first, false);
            assert_ne!(judged, SniffVerdict::Expected, "the greeting of {protocol}, judged as {other}");
        }
    }
}

#[test]
fn an_answer_to_a_greeting_is_of_one_protocol() {
    for protocol in Protocol::ALL {
        assert_eq!(greeted_by(facts(protocol).reply), [protocol]);
    }
    for denied in [&b"-NOAUTH Authentication required.\r\n"[..], b"-DENIED Redis is running in protected mode"] {
        assert_eq!(greeted_by(denied), [Protocol::Resp]);
    }
    assert_eq!(greeted_by(b"\x84\0\0\0\0\0\0\0\x08\0\0\0\x0a\0\x02no"), [Protocol::Cql]);
    assert_eq!(greeted_by(b"HTTP/1.1 400 Bad Request"), [Protocol::Http]);
    assert_eq!(greeted_by(b""), []);
}
