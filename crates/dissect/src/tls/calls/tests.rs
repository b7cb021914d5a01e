use super::*;

fn record(end: u64, content: usize) -> PendingRecord {
    let layout = RecordLayout { kind: APPLICATION_DATA, explicit: 0, content, type_bytes: 1, padding: 0, tag: 16 };
    PendingRecord { end, kind: APPLICATION_DATA, layout, is_late: false, number: 0 }
}

fn part(sent: bool, (from, to): (u64, u64), call_start: u64, bytes: &[u8]) -> ClearPart {
    let len = bytes.len() as u64;
    ClearPart { side: Side::Response, sent, from, to, call_start, call_len: len, before: 0, len, bytes: bytes.to_vec() }
}

/// Queues consecutive records with these content lengths.
fn laid(contents: &[usize]) -> (LibraryCalls, Vec<u64>) {
    let (mut calls, mut ends, mut end) = (LibraryCalls::default(), Vec::new(), 0);
    for content in contents {
        end += *content as u64 + 22;
        calls.lay(Side::Response, record(end, *content));
        ends.push(end);
    }
    calls.hear(Side::Response, end);
    (calls, ends)
}

fn told(calls: &mut LibraryCalls) -> Vec<String> {
    let mut out = Vec::new();
    calls.tell(&mut out);
    let word = |(_, event): (Side, CallEvent)| match event {
        CallEvent::Record(RecordFacts::Data(layout)) => format!("data {}", layout.content),
        CallEvent::Record(RecordFacts::Own { layout, .. }) => {
            format!("own {} of type {}", layout.content, layout.kind)
        }
        CallEvent::Record(RecordFacts::Sealed(layout, _)) => format!("sealed {}", layout.content),
        CallEvent::Content(bytes) => format!("content {}", bytes.len()),
        CallEvent::Missing(len) => format!("missing {len}"),
        CallEvent::GivenUp(_) => "given up".to_owned(),
    };
    out.into_iter().map(word).collect()
}

#[test]
fn tickets_before_a_call_that_sends_are_the_handshakes() {
    let (mut calls, ends) = laid(&[230, 230, 10]);
    calls.add(part(true, (ends[1], ends[2]), 0, &[7; 10]));
    assert_eq!(told(&mut calls), ["own 230 of type 22", "own 230 of type 22", "data 10", "content 10"]);
}

#[test]
fn a_handshake_within_the_call_is_told_by_what_does_not_fit() {
    let (mut calls, ends) = laid(&[36, 16_384, 16_384, 100]);
    calls.add(part(true, (0, ends[3]), 0, &vec![7; 32_868]));
    let expected = ["own 36 of type 22", "data 16384", "data 16384", "data 100", "content 32868"];
    assert_eq!(told(&mut calls), expected);
}

#[test]
fn a_record_may_be_received_in_several_calls() {
    let (mut calls, ends) = laid(&[100]);
    calls.add(part(false, (0, ends[0]), 0, &[7; 60]));
    calls.add(part(false, (ends[0], ends[0]), 60, &[7; 40]));
    assert_eq!(told(&mut calls), ["data 100", "content 60", "content 40"]);
}

#[test]
fn a_library_that_reads_ahead_hands_records_out_one_by_one() {
    let (mut calls, ends) = laid(&[100, 50, 70]);
    calls.add(part(false, (0, ends[0]), 0, &[7; 100]));
    calls.add(part(false, (ends[0], ends[2]), 100, &[7; 50]));
    calls.add(part(false, (ends[2], ends[2]), 150, &[7; 70]));
    let expected = ["data 100", "content 100", "data 50", "content 50", "data 70", "content 70"];
    assert_eq!(told(&mut calls), expected);
}

#[test]
fn tickets_that_are_told_after_the_request_behind_them_began_before_it() {
    let mut calls = LibraryCalls::default();
    calls.lay(Side::Response, record(252, 230));
    calls.lay(Side::Request, record(32, 10));
    assert_eq!(calls.awaited(), Some((Side::Request, 32)), "the request is the last to begin an operation");
    calls.lay(Side::Response, record(279, 5));
    assert_eq!(calls.awaited(), Some((Side::Request, 32)), "tickets come first");
    calls.add(ClearPart { side: Side::Request, ..part(false, (0, 32), 0, &[7; 10]) });
    calls.add(part(true, (252, 279), 0, &[7; 5]));
    let mut out = Vec::new();
    calls.tell(&mut out);
    assert_eq!(calls.awaited(), None, "nothing waits");
    let overtaken = out.iter().filter_map(|(_, event)| match event {
        CallEvent::Record(RecordFacts::Own { is_overtaken, .. }) => Some(*is_overtaken),
        _ => None,
    });
    assert_eq!(overtaken.collect::<Vec<_>>(), [true]);
}

#[test]
fn what_the_server_sends_first_may_be_a_ticket() {
    let mut calls = LibraryCalls::default();
    calls.lay(Side::Request, record(32, 10));
    calls.lay(Side::Response, record(252, 230));
    calls.lay(Side::Response, record(279, 5));
    assert_eq!(calls.awaited(), Some((Side::Response, 252)));
    calls.lay(Side::Request, record(64, 10));
    assert_eq!(calls.awaited(), Some((Side::Request, 64)));
}

#[test]
fn calls_wait_for_their_packets() {
    let (mut calls, ends) = laid(&[100]);
    calls.add(part(true, (ends[0], ends[0] + 72), 100, &[7; 50]));
    assert_eq!(told(&mut calls), [""; 0]);
    calls.lay(Side::Response, record(ends[0] + 72, 50));
    calls.hear(Side::Response, 72);
    assert_eq!(told(&mut calls), ["own 100 of type 22", "data 50", "content 50"]);
}

#[test]
fn lost_calls_leave_their_records_to_be_told_without_content() {
    let (mut calls, ends) = laid(&[10, 20, 30]);
    calls.add(part(true, (0, ends[0]), 0, &[7; 10]));
    calls.add(part(true, (ends[1], ends[2]), 30, &[7; 30]));
    assert_eq!(told(&mut calls), ["data 10", "content 10", "data 20", "data 30", "missing 20", "content 30"]);
}

#[test]
fn what_does_not_agree_is_not_guessed() {
    let (mut calls, ends) = laid(&[10, 20]);
    calls.add(part(true, (0, ends[1]), 0, &[7; 25]));
    calls.add(part(true, (0, ends[1]), 25, &[7; 25]));
    assert_eq!(told(&mut calls).last().map(String::as_str), Some("given up"));
    calls.lay(Side::Response, record(ends[1] + 40, 18));
    calls.add(part(true, (ends[1], ends[1] + 40), 50, &[7; 18]));
    assert_eq!(told(&mut calls), [""; 0]);
}

#[test]
fn an_alert_and_an_update_of_keys_do_not_look_like_reading_ahead() {
    let (mut calls, ends) = laid(&[100, 5, 60, 2]);
    calls.add(part(false, (0, ends[0]), 0, &[7; 100]));
    calls.add(part(false, (ends[0], ends[2]), 100, &[7; 60]));
    assert_eq!(told(&mut calls), ["data 100", "content 100", "own 5 of type 22", "data 60", "content 60"]);
    let mut out = Vec::new();
    calls.seal(Side::Response, &mut out);
    assert_eq!(out.len(), 1, "nobody has told what the last record is");
}
