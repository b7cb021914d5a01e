//! Handshakes, and commands that are not statements.

use super::*;

fn whole(talk: &[(Side, &[u8])]) -> Transcript {
    check(|| Mysql::new(false), talk)
}

#[test]
fn a_handshake_is_one_operation() {
    let login = login(MODERN);
    let talk: Vec<(Side, &[u8])> = login.iter().map(|(side, bytes)| (*side, bytes.as_slice())).collect();
    let transcript = whole(&talk);
    assert_eq!(
        transcript.summary(),
        ["setup STARTUP [handshake] ok: framing 30, metadata 54 | framing 24, metadata 56, status 9"]
    );
    assert_eq!(transcript.software[1].as_deref(), Some("MySQL 8.0.36"));
}

#[test]
fn plugins_switch_and_exchange_data() {
    let (greeting, login) = (greeting(MODERN), login_packet(MODERN));
    let switch = packet(2, b"\xfecaching_sha2_password\0abcdefghijklmnopqrst\0");
    let talk: [(Side, &[u8]); 9] = [
        (S, &greeting),
        (C, &login),
        (S, &switch),
        (C, &packet(3, &[7; 32])),
        (S, &packet(4, b"\x01\x04")),
        (C, &packet(5, b"\x02")),
        (S, &packet(6, b"\x01-----BEGIN PUBLIC KEY-----")),
        (C, &packet(7, &[8; 256])),
        (S, &packet(8, &ok(0, 0, 2))),
    ];
    let transcript = whole(&talk);
    assert_eq!(transcript.notes, []);
    assert_eq!(transcript.ops.len(), 1, "{:?}", transcript.summary());
    assert_eq!(transcript.ops[0].outcome, Some(overhead_model::Outcome::Ok));
}

#[test]
fn a_login_may_be_refused_and_so_may_a_connection() {
    let (greeting, login) = (greeting(MODERN), login_packet(MODERN));
    let refused = whole(&[(S, &greeting), (C, &login), (S, &packet(2, &err()))]);
    assert!(refused.summary()[0].starts_with("setup STARTUP [handshake] error"), "{:?}", refused.summary());
    let blocked = whole(&[(S, &packet(0, b"\xff\x10\x04Too many connections"))]);
    assert!(blocked.summary()[0].starts_with("setup STARTUP [handshake] error"), "{:?}", blocked.summary());
}

#[test]
fn what_a_client_says_of_itself_is_its_name() {
    let capabilities = MODERN | capability::CONNECT_ATTRS;
    let attributes = b"\x2a\x0c_client_name\x0alibmariadb\x0f_client_version\x053.3.8";
    let mut login = login_packet(capabilities).split_off(4);
    login.extend(b"\x2c");
    login.extend(&attributes[1..]);
    let transcript = whole(&[(S, &greeting(capabilities)), (C, &packet(1, &login)), (S, &packet(2, &ok(0, 0, 2)))]);
    assert_eq!(transcript.software[0].as_deref(), Some("libmariadb 3.3.8"));
    assert_eq!(transcript.notes, []);
}

#[test]
fn a_request_for_tls_turns_the_connection() {
    let capabilities = MODERN | capability::SSL;
    let mut decoder = Mysql::new(false);
    let mut transcript = Transcript::default();
    let mut out = Out::new(&mut transcript, Side::Response, None);
    let greeting = greeting(capabilities);
    assert_eq!(decoder.step(S, Input { bytes: &greeting, opaque: 0 }, &mut out), Ok(Step::Progress));
    let request = packet(1, &login_packet(capabilities)[4..36]);
    let mut out = Out::new(&mut transcript, Side::Request, None);
    assert_eq!(decoder.step(C, Input { bytes: &request, opaque: 0 }, &mut out), Ok(Step::Tls));
    assert_eq!(
        transcript.summary(),
        ["setup SSLREQUEST [handshake] ok: framing 27, metadata 9 | framing 20, metadata 56, status 2"]
    );
    assert_eq!(decoder.plain.idle_state(), None);
}

#[test]
fn products_are_told_by_their_version() {
    for (version, name, own) in [
        ("8.0.36", "MySQL", "8.0.36"),
        ("5.5.5-10.11.14-MariaDB-0+deb12u2", "MariaDB", "10.11.14-MariaDB-0+deb12u2"),
        ("11.4.2-MariaDB", "MariaDB", "11.4.2-MariaDB"),
        ("5.7.25-TiDB-v7.5.0", "TiDB", "v7.5.0"),
        ("5.7.25-OceanBase-v4.3.5.3", "OceanBase", "v4.3.5.3"),
        ("5.6.29-TDDL-5.4.12-16349923", "PolarDB-X", "5.4.12-16349923"),
    ] {
        assert_eq!(handshake::product(version), (name, own));
    }
}

#[test]
fn commands_go_by_names_of_their_own() {
    let ok = packet(1, &ok(0, 0, 2));
    let user = packet(0, b"\x11me\0\x14abcdefghijklmnopqrstd\0\xff\0mysql_native_password\0");
    let fields = packets(1, &[[column(3), text(b"0")].concat(), [column(3), vec![0xfb]].concat(), eof(2)]);
    let talk: [(Side, &[u8]); 12] = [
        (C, &packet(0, b"\x02d")),
        (S, &ok),
        (C, &packet(0, b"\x0e")),
        (S, &ok),
        (C, &packet(0, b"\x09")),
        (S, &packet(1, b"Uptime: 7  Threads: 1")),
        (C, &packet(0, b"\x04t\0")),
        (S, &fields),
        (C, &user),
        (S, &ok),
        (C, &packet(0, b"\x1b\0\0")),
        (S, &packet(1, &eof(2))),
    ];
    let names: Vec<String> =
        summary(USUAL, &talk).iter().map(|line| line.split(':').next().unwrap_or_default().to_owned()).collect();
    assert_eq!(
        names,
        [
            "setup USE [] ok",
            "workload PING [] ok",
            "workload STATISTICS [] ok",
            "workload FIELD LIST [] ok",
            "setup CHANGE USER [] ok",
            "workload SET OPTION [] ok"
        ]
    );
    let quit = summary(USUAL, &[(C, &packet(0, b"\x01"))]);
    assert_eq!(quit, ["setup TERMINATE [] noreply: framing 5 | "]);
}

#[test]
fn a_replica_is_background_and_its_stream_has_no_end() {
    let ok = packet(1, &ok(0, 0, 2));
    let event = |number: u8| packet(number, &[&[0][..], &[1; 19], b"contents"].concat());
    let talk: [(Side, &[u8]); 6] = [
        (C, &packet(0, b"\x15\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0")),
        (S, &ok),
        (C, &packet(0, b"\x12\x04\0\0\0\0\0\x02\0\0\0binlog.000001")),
        (S, &event(1)),
        (C, &packet(0, b"\xef\x04\0\0\0\0\0\0\0binlog.000001")),
        (S, &event(2)),
    ];
    assert_eq!(
        summary(USUAL, &talk),
        [
            "background REGISTER SLAVE [] ok: framing 5, metadata 16 | framing 4, status 7",
            "background BINLOG DUMP [] ok: framing 9, metadata 45 | framing 10, metadata 38, data 16"
        ]
    );
}
