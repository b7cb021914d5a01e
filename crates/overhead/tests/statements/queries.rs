//! Conversations in query languages that hold a secret wherever there is room for one.

use super::Capture;

/// Of PostgreSQL, `MySQL`, CQL and MongoDB.
pub fn with_secret(secret: &str) -> Vec<Capture> {
    vec![postgres(secret), mysql(secret), cql(secret), mongo(secret)]
}

/// Statements that PostgreSQL and `MySQL` both take, or refuse.
fn statements(secret: &str) -> Vec<String> {
    [
        "SELECT a FROM t WHERE b = '@' AND c LIKE '%@' -- @",
        "/* @ */ SELECT 'it''s @', N'@'",
        "INSERT INTO t (a, b) VALUES (1, '@'), (2, '@ @')",
        "UPDATE t SET a = '@' WHERE b IN ('@', 'x')",
        "CREATE USER u IDENTIFIED BY '@'",
        "ALTER USER u PASSWORD '@'",
        "SET PASSWORD = '@'",
        "BEGIN; DELETE FROM t WHERE a = '@'; COMMIT",
        "SELECT 'not closed @",
        "SELECT 1 /* not closed @",
    ]
    .map(|text| text.replace('@', secret))
    .into()
}

fn postgres(secret: &str) -> Capture {
    let message = |kind: u8, inside: &[u8]| [&[kind][..], &(inside.len() as u32 + 4).to_be_bytes(), inside].concat();
    let ready = message(b'Z', b"I");
    let answer = [message(b'C', b"SELECT 0\0"), ready.clone()].concat();
    let mut capture = Capture::new(1, 5432);
    let own = ["SELECT E'\\'@', $$@$$, $x$'@'$x$, U&'@'", "COPY t FROM STDIN (DELIMITER '@', NULL '@')"];
    for text in statements(secret).into_iter().chain(own.map(|text| text.replace('@', secret))) {
        capture.turn(0, &message(b'Q', &[text.as_bytes(), b"\0"].concat()), &answer);
    }
    let parse = message(b'P', format!("s\0SELECT $1, '{secret}'\0\0\0").as_bytes());
    let value = [&(secret.len() as u32).to_be_bytes()[..], secret.as_bytes()].concat();
    let bind = message(b'B', &[b"\0s\0\0\0\0\x01", value.as_slice(), b"\0\0"].concat());
    let unit = [parse, bind, message(b'E', &[0; 5]), message(b'S', b"")].concat();
    let error = message(b'E', format!("SERROR\0C42601\0Mno {secret}\0\0").as_bytes());
    capture.turn(0, &unit, &[message(b'1', b""), message(b'2', b""), error, ready].concat());
    capture
}

fn mysql(secret: &str) -> Capture {
    let packet =
        |sequence: u8, payload: &[u8]| [&(payload.len() as u32).to_le_bytes()[..3], &[sequence], payload].concat();
    let ok = packet(1, &[0, 0, 0, 2, 0, 0, 0]);
    let mut capture = Capture::new(1, 3306);
    let own = ["SELECT \"@\", 'it\\'s @', _utf8'@' # @", "LOAD DATA LOCAL INFILE '@' INTO TABLE t"];
    for text in statements(secret).into_iter().chain(own.map(|text| text.replace('@', secret))) {
        capture.turn(0, &packet(0, &[b"\x03", text.as_bytes()].concat()), &ok);
    }
    let prepare = packet(0, format!("\u{16}SELECT '{secret}', ?").as_bytes());
    capture.turn(0, &prepare, &packet(1, &[&b"\xff\x28\x04#42000"[..], secret.as_bytes()].concat()));
    capture
}

fn cql(secret: &str) -> Capture {
    let message = |version: u8, opcode: u8, body: &[u8]| {
        [&[version, 0, 0, 1, opcode][..], &(body.len() as u32).to_be_bytes(), body].concat()
    };
    let long = |text: &str| [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat();
    let void = message(0x84, 8, &1_u32.to_be_bytes());
    let mut capture = Capture::new(1, 9042);
    for text in [
        "SELECT a FROM t WHERE b = '@' AND c = $$@$$ // @",
        "INSERT INTO t (a, b) VALUES ({'@': '@'}, ['@'])",
        "CREATE ROLE r WITH PASSWORD = '@' AND LOGIN = true",
        "BEGIN BATCH INSERT INTO t (a) VALUES ('@') APPLY BATCH",
        "SELECT a FROM t WHERE b = 'not closed @",
    ] {
        let text = text.replace('@', secret);
        capture.turn(0, &message(4, 7, &[long(&text), vec![0, 1, 0]].concat()), &void);
        let one = [&[0, 0, 1, 0][..], &long(&text), &[0, 0, 0, 1, 0]].concat();
        capture.turn(0, &message(4, 13, &one), &void);
    }
    capture
}

fn mongo(secret: &str) -> Capture {
    let document = |elements: &[Vec<u8>]| {
        let inside = elements.concat();
        [&(inside.len() as u32 + 5).to_le_bytes()[..], &inside, &[0]].concat()
    };
    let text = |name: &str, value: &str| {
        [&[2][..], name.as_bytes(), &[0], &(value.len() as u32 + 1).to_le_bytes(), value.as_bytes(), &[0]].concat()
    };
    let nested =
        |kind: u8, name: &str, elements: &[Vec<u8>]| [&[kind][..], name.as_bytes(), &[0], &document(elements)].concat();
    let message = |id: u32, to: u32, elements: &[Vec<u8>]| {
        let body = [&[0; 5][..], &document(elements)].concat();
        let header = [body.len() as u32 + 16, id, to, 2013].map(u32::to_le_bytes).concat();
        [header, body].concat()
    };
    let values = [text("name", secret), nested(3, "a", &[text("$gt", secret)]), text(secret, "x")];
    let listed = nested(4, "_id", &[text("0", secret)]);
    let commands = [
        vec![text("find", "users"), nested(3, "filter", &values), nested(3, "sort", &values)],
        vec![text("find", "users"), nested(3, "filter", &[nested(3, "b", &[listed])]), text("comment", secret)],
        vec![text("aggregate", "users"), nested(4, "pipeline", &[nested(3, "0", &[nested(3, "$match", &values)])])],
        vec![text("insert", "users"), nested(4, "documents", &[nested(3, "0", &values)])],
        vec![text("createUser", secret), text("pwd", secret)],
        vec![text("distinct", "users"), text("key", secret), nested(3, "query", &values)],
    ];
    let mut capture = Capture::new(1, 27017);
    for (number, command) in (1..).zip(commands) {
        let command = [command, vec![text("$db", "lab")]].concat();
        let ok = [&[1][..], b"ok\0", &1_f64.to_le_bytes()].concat();
        capture.turn(0, &message(number, 0, &command), &message(number + 100, number, &[ok, text("errmsg", secret)]));
    }
    capture
}
