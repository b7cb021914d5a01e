use super::*;

fn at(time_ns: u64) -> SecretOrigin {
    SecretOrigin { time_ns, object: 0 }
}

#[test]
fn lines_are_read_and_others_passed_over() {
    let log = KeyLog::default();
    let random = "0a".repeat(32);
    let text = format!(
        "# comment\nCLIENT_RANDOM {random} {}\r\nCLIENT_TRAFFIC_SECRET_0 {random} {}\n\nEXPORTER_SECRET {random} {}\nCLIENT_RANDOM 00 11\nSERVER_TRAFFIC_SECRET_0 {random} {}\nSERVER_TRAFFIC_SECRET_0 {random}",
        "AB".repeat(48),
        "01".repeat(32),
        "02".repeat(32),
        "0g".repeat(32),
    );
    assert_eq!(log.add(text.as_bytes()), 2);
    assert_eq!(log.add(text.as_bytes()), 0, "known already");
    assert_eq!(log.get(SecretLabel::Master, &[10; 32]).unwrap().bytes(), [0xab; 48]);
    assert_eq!(log.get(SecretLabel::ClientTraffic, &[10; 32]).unwrap().bytes(), [1; 32]);
    assert_eq!(log.get(SecretLabel::ServerTraffic, &[10; 32]), None);
    assert_eq!(log.add(b"\xff\xfe\0CLIENT_RANDOM"), 0);
}

#[test]
fn a_master_secret_with_an_id_belongs_to_whom_it_fits() {
    let log = KeyLog::default();
    let line = format!("RSA Session-ID:0B Master-Key:{}\n", "AB".repeat(48));
    assert_eq!(log.add(line.as_bytes()), 1);
    assert_eq!(log.add(b"RSA Session-ID:0B Master-Key:00\nRSA 0123456789abcdef 01\n"), 0);
    assert!(log.claim((SecretLabel::Master, &[1; 32]), &mut [0; 2], |secret| secret.bytes() == [0xab; 48]));
    assert_eq!(log.text(), format!("CLIENT_RANDOM {} {}\n", "01".repeat(32), "ab".repeat(48)));
}

#[test]
fn the_text_is_read_back() {
    let (log, copy) = (KeyLog::default(), KeyLog::default());
    log.add_secret("CLIENT_RANDOM", Some(&[1; 32]), &[2; 48], SecretOrigin::default());
    log.add_secret("EXPORTER_SECRET", Some(&[1; 32]), &[3; 48], SecretOrigin::default());
    log.add_secret("CLIENT_RANDOM", Some(&[4; 32]), &[5; 48], SecretOrigin::default());
    assert_eq!(copy.add(log.text().as_bytes()), 0, "nothing was used");
    assert!(log.get(SecretLabel::Master, &[1; 32]).is_some());
    assert_eq!(copy.add(log.text().as_bytes()), 1);
    assert_eq!(copy.get(SecretLabel::Master, &[1; 32]).unwrap().bytes(), [2; 48]);
}

#[test]
fn the_text_lists_the_secrets_of_a_session_together() {
    let log = KeyLog::default();
    for session in [2, 1, 3] {
        for label in SecretLabel::ALL.into_iter().rev() {
            log.add_secret(label.name(), Some(&[session; 32]), &[session; 32], SecretOrigin::default());
            assert!(log.get(label, &[session; 32]).is_some());
        }
    }
    let text = log.text();
    let lines: Vec<_> = text.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>()).collect();
    let randoms = [1, 2, 3].map(|session: u8| format!("{session:02x}").repeat(32));
    let wanted = randoms.iter().flat_map(|random| SecretLabel::ALL.map(|label| vec![label.name(), random]));
    assert_eq!(lines, wanted.collect::<Vec<_>>());
}

#[test]
fn a_secret_without_random_belongs_to_whom_it_fits() {
    let log = KeyLog::default();
    for (seed, time_ns) in [(1, 100), (2, 200), (3, 300), (2, 310)] {
        log.add_secret("CLIENT_RANDOM", None, &[seed; 48], at(time_ns));
    }
    log.add_secret("CLIENT_RANDOM", None, &[9; 31], at(300));
    log.add_secret("SERVER_TRAFFIC_SECRET_0", None, &[4; 32], at(300));
    log.set_time(220);
    let mut tried = Vec::new();
    let claimed = log.claim((SecretLabel::Master, &[7; 32]), &mut [0; 2], |secret| {
        tried.push(secret.bytes()[0]);
        secret.bytes()[0] == 3
    });
    assert!(claimed);
    assert_eq!(tried, [2, 3], "the nearest first, and both ends' secret once");
    assert_eq!(log.get(SecretLabel::Master, &[7; 32]).unwrap().bytes(), [3; 48]);
    log.add_secret("CLIENT_RANDOM", None, &[3; 48], at(320));
    assert_eq!(log.unmatched(), 3, "the other end's is no new one");
    assert!(
        log.claim((SecretLabel::Master, &[8; 32]), &mut [0; 2], |secret| secret.bytes()[0] == 3),
        "a resumed session"
    );
    assert!(!log.claim((SecretLabel::Master, &[6; 32]), &mut [0; 2], |secret| secret.bytes()[0] == 3));
    log.add_secret("CLIENT_RANDOM", None, &[5; 48], at(limits::UNCLAIMED_NS + 1000));
    assert_eq!((log.unmatched(), log.unclaimed().waiting.len()), (4, 1), "old ones are erased");
}

#[test]
fn a_session_that_is_resumed_before_its_first_connection_is_dissected_has_the_secret_too() {
    let log = KeyLog::default();
    log.add_secret("CLIENT_RANDOM", None, &[1; 48], at(100));
    log.add_secret("CLIENT_RANDOM", None, &[1; 48], at(200));
    log.set_time(150);
    for random in [[7; 32], [8; 32]] {
        assert!(log.claim((SecretLabel::Master, &random), &mut [0; 2], |secret| secret.bytes()[0] == 1));
    }
    assert_eq!(log.unmatched(), 0);
}

#[test]
fn no_more_secrets_are_tried_than_handshakes_may_be_under_way() {
    let log = KeyLog::default();
    for seed in 0..=255 {
        log.add_secret("CLIENT_RANDOM", None, &[seed; 48], at(seed.into()));
    }
    let mut tried = 0;
    assert!(!log.claim((SecretLabel::Master, &[7; 32]), &mut [0; 2], |_| {
        tried += 1;
        false
    }));
    assert_eq!(tried, limits::TRIED_SECRETS);
}

#[test]
fn secrets_of_a_sessions_objects_are_tried_first() {
    let log = KeyLog::default();
    for seed in 0..200 {
        let origin = SecretOrigin { time_ns: seed, object: 1000 + seed };
        log.add_secret("SERVER_HANDSHAKE_TRAFFIC_SECRET", None, &[seed as u8; 32], origin);
        // The other end.
        let origin = SecretOrigin { time_ns: seed, object: 2000 + seed };
        log.add_secret("SERVER_HANDSHAKE_TRAFFIC_SECRET", None, &[seed as u8; 32], origin);
        log.add_secret("SERVER_TRAFFIC_SECRET_0", None, &[seed as u8, 1].repeat(16), origin);
    }
    let (random, mut objects) = ([7; 32], [0; 2]);
    let fits = |secret: TlsSecret| secret.bytes()[0] == 100;
    log.set_time(100);
    assert!(log.claim((SecretLabel::ServerHandshake, &random), &mut objects, fits));
    assert_eq!(objects, [1100, 2100]);
    log.set_time(190);
    let mut tried = 0;
    let counted = |secret| {
        tried += 1;
        fits(secret)
    };
    assert!(log.claim((SecretLabel::ServerTraffic, &random), &mut objects, counted));
    assert_eq!(tried, 1);
}
