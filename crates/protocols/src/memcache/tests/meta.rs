//! Meta commands.

use super::{Answered, C, Error, NoReply, S, answers, named, outcomes, single, talk};
use overhead_decode::Note;

#[test]
fn flags_and_their_tokens() {
    assert_eq!(
        single("mg key v t f c k O77 T30\r\n", "VA 5 t-1 f0 c12 kkey O77 W\r\nhello\r\n"),
        "workload mg [text] ok: framing 10, metadata 2, query 9, data 5 | framing 14, metadata 5, query 5, data 10, status 1"
    );
    assert_eq!(single("mg k\r\n", "EN\r\n"), "workload mg [text] ok: framing 3, query 2, data 1 | framing 4");
    assert_eq!(
        single("ms k 3 T60 F5 MS\r\nabc\r\n", "HD\r\n"),
        "workload ms [text] ok: framing 10, metadata 1, query 5, data 7 | framing 2, status 2"
    );
    assert_eq!(
        single("ma n D5 v\r\n", "VA 2\r\n15\r\n"),
        "workload ma [text] ok: framing 5, query 4, data 2 | framing 8, data 2"
    );
    assert_eq!(
        single("me k\r\n", "ME k exp=-1 la=0 cas=5\r\n"),
        "workload me [text] ok: framing 3, query 2, data 1 | framing 5, data 19"
    );
}

#[test]
fn keys_in_base64_are_keys() {
    let line = single("mg Zm9v b k v\r\n", "VA 3 kZm9v b\r\nabc\r\n");
    assert_eq!(line, "workload mg [text] ok: framing 6, query 5, data 4 | framing 10, query 2, data 7");
}

#[test]
fn quiet_ones_end_with_the_next_answer_that_is_not_theirs() {
    assert_eq!(
        outcomes("mg a v q k\r\nmg b v q k\r\nmg c v q k\r\nmn\r\n", "VA 1 kb\r\nx\r\nMN\r\n",),
        named(&[("mg", NoReply), ("mg", Answered), ("mg", NoReply), ("mn", Answered)])
    );
    assert_eq!(
        outcomes("mg a v q O1\r\nmg b v q O2\r\nmg c v O3\r\nmg d v\r\n", "VA 1 O3\r\nx\r\nEN\r\n"),
        named(&[("mg", NoReply), ("mg", NoReply), ("mg", Answered), ("mg", Answered)])
    );
    assert_eq!(
        outcomes("ms a 1 q\r\nx\r\nmd b q\r\nma c q\r\nmg d\r\n", "EN\r\n"),
        named(&[("ms", NoReply), ("md", NoReply), ("ma", NoReply), ("mg", Answered)])
    );
}

#[test]
fn a_quiet_set_answers_what_went_wrong() {
    assert_eq!(outcomes("ms a 1 q\r\nx\r\nms b 1 q ME\r\nx\r\nmn\r\n", "NS\r\nMN\r\n").len(), 3);
    assert_eq!(
        outcomes("ms a 3 q MX\r\nabc\r\nmn\r\n", "CLIENT_ERROR invalid mode for ms M token\r\nMN\r\n"),
        named(&[("ms", Error), ("mn", Answered)])
    );
}

/// Returns how many replies could belong to another request.
fn ambiguous(request: &str, response: &str) -> usize {
    talk(&[(C, request), (S, response)]).notes.iter().filter(|note| **note == Note::Ambiguous).count()
}

#[test]
fn an_answer_that_could_be_to_several_is_said() {
    // As memcached 1.6.18 answers missing keys.
    assert_eq!(ambiguous("ma a q\r\nmd b q\r\nmn\r\n", "NF\r\nMN\r\n"), 1);
    assert_eq!(ambiguous("ma a q\r\nmd b q\r\nmn\r\n", "NF\r\nNF\r\nMN\r\n"), 1);
    assert_eq!(ambiguous("ma a q O1\r\nmd b q k\r\nmn\r\n", "NF kb\r\nMN\r\n"), 0);
    assert_eq!(ambiguous("ma a q O1\r\nmd b q O2\r\nmn\r\n", "NF O1\r\nNF O2\r\nMN\r\n"), 0);
    assert_eq!(ambiguous("md a q\r\nmd b\r\n", "NF\r\n"), 1);
    // Two requests with the same key are interchangeable.
    assert_eq!(ambiguous("ms a 1 q\r\nx\r\nms a 1 q MX\r\nx\r\nmn\r\n", "CLIENT_ERROR invalid mode\r\nMN\r\n"), 0);
    // A request that is always answered comes before the others.
    assert_eq!(ambiguous("md a\r\nmd b q\r\nmn\r\n", "NF\r\nMN\r\n"), 0);
    assert_eq!(ambiguous("mg a q\r\nmg b q\r\nmn\r\n", "HD\r\nMN\r\n"), 1);
    assert_eq!(ambiguous("ma a q\r\nmn\r\n", "CLIENT_ERROR no number\r\nMN\r\n"), 0);
    assert_eq!(ambiguous("ma a q\r\nms b 1 q\r\nx\r\nmn\r\n", "CLIENT_ERROR no number\r\nMN\r\n"), 1);
}

#[test]
fn an_error_behind_a_request_without_an_answer_could_be_to_it() {
    let long = "k".repeat(251);
    let silent = format!("set {long} 0 0 1 noreply\r\nx\r\n");
    assert_eq!(ambiguous(&format!("{silent}get a\r\nget b\r\n"), "ERROR\r\nEND\r\nEND\r\n"), 1);
    assert_eq!(ambiguous(&format!("{silent}get a\r\nget b\r\n"), "END\r\nERROR\r\n"), 0);
    assert_eq!(ambiguous(&format!("{silent}get a\r\n"), "END\r\n"), 0);
    // Such a command is refused without a reply.
    assert_eq!(ambiguous("incr q x noreply\r\nincr q\r\n", "ERROR\r\n"), 0);
}

#[test]
fn a_refusal_belongs_to_the_request_without_an_answer_if_the_next_one_is_never_refused() {
    let requests = "delete a noreply\r\nversion\r\nget a\r\n";
    let replies = "CLIENT_ERROR Invalid command: delete a noreply\r\nVERSION 1\r\nEND\r\n";
    assert_eq!(outcomes(requests, replies), named(&[("delete", Error), ("version", Answered), ("get", Answered)]));
    assert_eq!(outcomes("delete a noreply\r\n", "ERROR\r\n"), named(&[("delete", Error)]));
    // A get of an unknown kind, and one that does not come after it.
    let replies = "ERROR\r\nEND\r\n";
    assert_eq!(
        outcomes("delete a noreply\r\ngets a\r\nget a\r\n", replies),
        named(&[("delete", NoReply), ("gets", Error), ("get", Answered)])
    );
    let refused = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
    assert_eq!(outcomes("delete a noreply\r\nincr k 1\r\n", refused), named(&[("delete", NoReply), ("incr", Error)]));
    assert_eq!(outcomes("get a\r\ndelete a noreply\r\n", "END\r\n"), named(&[("get", Answered), ("delete", NoReply)]));
    let late = format!("delete a noreply\r\nget {}\r\n", "k".repeat(251));
    assert_eq!(outcomes(&late, "CLIENT_ERROR\r\n"), named(&[("delete", NoReply), ("get", Error)]));
}

#[test]
fn what_is_made_is_answered_where_it_was_asked_for_quietly() {
    // As in memcached 1.6.18.
    assert_eq!(
        outcomes("ma n N0 J5 v q\r\nma n c\r\nms a 1\r\nx\r\n", "VA 1\r\n5\r\nHD c1\r\nHD\r\n"),
        named(&[("ma", Answered), ("ma", Answered), ("ms", Answered)])
    );
}

#[test]
fn a_quiet_set_is_refused_while_it_is_sent() {
    let transcript = talk(&[
        (C, "ms a 10 q\r\nabcde"),
        (S, "SERVER_ERROR object too large for cache\r\n"),
        (C, "fghij\r\nmn\r\n"),
        (S, "MN\r\n"),
    ]);
    assert_eq!(answers(&transcript), [("ms".to_owned(), Error, 41), ("mn".to_owned(), Answered, 4)]);
}

#[test]
fn what_repeats_an_opaque_is_not_of_a_request_without_one() {
    assert_eq!(
        outcomes("ms a 1 q MA\r\nx\r\nmd b O1\r\nmd c\r\n", "NF O1\r\nNF\r\n"),
        named(&[("ms", NoReply), ("md", Answered), ("md", Answered)])
    );
}

#[test]
fn quiet_ones_at_the_end_have_no_answer() {
    assert_eq!(outcomes("mg a v q\r\nmg b v q\r\n", ""), named(&[("mg", NoReply), ("mg", NoReply)]));
}
