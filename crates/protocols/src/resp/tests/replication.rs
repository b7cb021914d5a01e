//! A primary and its replica.

use super::*;

fn stream(turns: &[(Side, &str)]) -> Vec<String> {
    talk(turns).summary()
}

#[test]
fn psync_is_answered_and_the_stream_that_follows_is_the_servers_own() {
    let mark = "0123456789abcdef0123456789abcdef01234567";
    for (snapshot, framing) in [("$7\r\nREDIS\r\n".to_owned(), 4), (format!("$EOF:{mark}\r\nREDIS\r\n{mark}"), 87)] {
        let set = command(&["SET", "k", "v"]);
        let summary = stream(&[
            (C, &command(&["REPLCONF", "capa", "eof"])),
            (S, "+OK\r\n"),
            (C, &command(&["PSYNC", "?", "-1"])),
            (S, "\n+FULLRESYNC 8f0 0\r\n\n"),
            (S, &[snapshot, set.clone(), set].concat()),
            (C, &command(&["REPLCONF", "ACK", "30"])),
        ]);
        assert_eq!(summary[1], "background PSYNC [array] ok: framing 22, query 5, data 3 | framing 4, status 16");
        assert_eq!(summary[2], "background REPLICATION [stream] unsolicited:  | framing 1");
        assert_eq!(summary[3], format!("background REPLICATION [snapshot] unsolicited:  | framing {framing}, data 7"));
        assert_eq!(summary[4], "background REPLICATION [stream] unsolicited:  | framing 22, data 5");
        assert_eq!(summary[4], summary[5]);
        assert!(summary[6].starts_with("background REPLCONF [array] noreply"), "{summary:#?}");
    }
}

#[test]
fn the_snapshot_answers_sync() {
    let summary = stream(&[(C, "SYNC\r\n"), (S, "\n$3\r\nRDB*1\r\n$4\r\nPING\r\n")]);
    assert_eq!(summary[0], "background SYNC [inline] ok: framing 2, query 4 | framing 1");
    assert_eq!(summary[1], "background REPLICATION [snapshot] unsolicited:  | framing 4, data 3");
    assert_eq!(summary[2], "background REPLICATION [stream] unsolicited:  | framing 10, data 4");
}

#[test]
fn a_replica_with_a_second_channel_asks_again_while_the_stream_is_open() {
    let summary = stream(&[
        (C, &command(&["PSYNC", "?", "-1"])),
        (S, "+DUALCHANNELSYNC\r\n"),
        (C, &commands(&["REPLCONF set-rdb-client-id 7", "PSYNC 8f0 1"])),
        (S, &["+OK\r\n+CONTINUE 8f0\r\n", &command(&["PING"])].concat()),
    ]);
    let outcomes = ["background PSYNC [array] ok", "background REPLCONF [array] ok", "background PSYNC [array] ok"];
    for (line, outcome) in summary.iter().zip(outcomes) {
        assert!(line.starts_with(outcome), "{summary:#?}");
    }
    assert_eq!(summary[3], "background REPLICATION [stream] unsolicited:  | framing 10, data 4");
}

#[test]
fn a_refused_psync_leaves_a_connection_like_any_other() {
    let lines = commands(&["PSYNC ? -1", "PING"]);
    let summary =
        stream(&[(C, &lines), (S, "-NOMASTERLINK Can't SYNC while not connected with my master\r\n+PONG\r\n")]);
    assert!(summary[0].starts_with("background PSYNC [array] error"), "{summary:#?}");
    assert!(summary[1].starts_with("workload PING [array] ok"), "{summary:#?}");
}

#[test]
fn a_replica_whose_start_was_not_captured_gives_itself_away_by_its_acknowledgments() {
    let (ack, set) = (command(&["REPLCONF", "ACK", "30"]), command(&["SET", "k", "v"]));
    let turns: [(Side, &[u8]); 2] = [(C, ack.as_bytes()), (S, set.as_bytes())];
    let summary = check(|| Resp::new(true), &turns).summary();
    assert!(summary[1].starts_with("background REPLICATION [stream] unsolicited"), "{summary:#?}");
}
