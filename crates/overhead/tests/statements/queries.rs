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
        "SELECT X'#', x'#', 0x#, B'1', _utf8'@'",
        "EXECUTE p ('@', N'@', E'\\x@', 1)",
        "PREPARE p AS SELECT '@' WHERE a LIKE '%@%' ESCAPE '@'",
        "CALL p('@', DATE '@', INTERVAL '@ days', CAST('@' AS json))",
        "SELECT a->>'@', b -> '{\"@\": 1}' FROM t",
        "SET SESSION x.y = '@'; NOTIFY c, '@'",
        "EXPLAIN ANALYZE SELECT '@'; DECLARE c CURSOR FOR SELECT '@'",
        "WITH a AS (SELECT '@') INSERT INTO t SELECT * FROM a WHERE b = '@' ON CONFLICT DO UPDATE SET c = '@'",
    ]
    .map(|text| text.replace('#', &hexadecimal(secret)).replace('@', secret))
    .into()
}

/// The same as hexadecimal digits.
pub fn hexadecimal(secret: &str) -> String {
    secret
        .bytes()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
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
    // Between the two ends of a COPY, everything that the client sends or receives is data.
    let copy = |kind: u8, other: u8, end: &[u8]| {
        let sent = [message(b'd', format!("1\t{secret}\n").as_bytes()), message(b'c', b"")].concat();
        let begun = message(kind, &[0, 0, 1, 0, 0]);
        let done = [message(b'C', end), message(b'Z', b"I")].concat();
        if other == b'F' { (begun, sent, done) } else { ([begun, sent].concat(), Vec::new(), done) }
    };
    let (begun, sent, done) = copy(b'G', b'F', b"COPY 1\0");
    capture.turn(0, &message(b'Q', b"COPY t (a, b) FROM STDIN\0"), &begun);
    capture.turn(0, &sent, &done);
    let (begun, _, done) = copy(b'H', b'B', b"COPY 1\0");
    let text = format!("COPY (SELECT '{secret}') TO STDOUT\0");
    capture.turn(0, &message(b'Q', text.as_bytes()), &[begun, done].concat());
    let notice = message(b'N', format!("SNOTICE\0C00000\0M{secret}\0\0").as_bytes());
    let heard = message(b'A', format!("\0\0\0\x01{secret}\0{secret}\0").as_bytes());
    capture.send(0, false, &[notice, heard].concat());
    let error = message(b'E', format!("SERROR\0C42601\0Mno {secret}\0\0").as_bytes());
    capture.turn(0, &unit, &[message(b'1', b""), message(b'2', b""), error, ready].concat());
    capture
}

fn mysql(secret: &str) -> Capture {
    let packet =
        |sequence: u8, payload: &[u8]| [&(payload.len() as u32).to_le_bytes()[..3], &[sequence], payload].concat();
    let ok = packet(1, &[0, 0, 0, 2, 0, 0, 0]);
    let mut capture = Capture::new(1, 3306);
    let own = [
        "SELECT \"@\", 'it\\'s @', _utf8'@' # @",
        "LOAD DATA LOCAL INFILE '@' INTO TABLE t",
        "SELECT a FROM t WHERE b = \"@\" AND c LIKE \"%@%\" OR d IN (\"@\", 'x')",
        "/*!40101 SET NAMES '@' */",
        "SET x = \"@\"; EXECUTE s USING x",
    ];
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
        "UPDATE t SET m['@'] = '@', m = m + {'@': {'@', '@'}}, u = {street: '@', zip: {code: '@'}} WHERE k = '@' IF v = '@'",
        "INSERT INTO t JSON '{\"@\": \"@\"}' USING TTL 60",
        "SELECT a FROM t WHERE token(k) > token('@') AND b = 0x# AND c CONTAINS KEY '@' -- @",
    ] {
        let text = text.replace('#', &hexadecimal(secret)).replace('@', secret);
        capture.turn(0, &message(4, 7, &[long(&text), vec![0, 1, 0]].concat()), &void);
        let one = [&[0, 0, 1, 0][..], &long(&text), &[0, 0, 0, 1, 0]].concat();
        capture.turn(0, &message(4, 13, &one), &void);
    }
    capture
}

/// A BSON document of these elements.
fn document(elements: &[Vec<u8>]) -> Vec<u8> {
    let inside = elements.concat();
    [&(inside.len() as u32 + 5).to_le_bytes()[..], &inside, &[0]].concat()
}

/// An element with a string.
fn text(name: &str, value: &str) -> Vec<u8> {
    [&[2][..], name.as_bytes(), &[0], &(value.len() as u32 + 1).to_le_bytes(), value.as_bytes(), &[0]].concat()
}

/// An element with a document (3) or an array (4).
fn nested(kind: u8, name: &str, elements: &[Vec<u8>]) -> Vec<u8> {
    [&[kind][..], name.as_bytes(), &[0], &document(elements)].concat()
}

fn commands(secret: &str) -> Vec<Vec<Vec<u8>>> {
    let values = [text("name", secret), nested(3, "a", &[text("$gt", secret)]), text(secret, "x")];
    let listed = nested(4, "_id", &[text("0", secret)]);
    vec![
        vec![text("find", "users"), nested(3, "filter", &values), nested(3, "sort", &values)],
        vec![text("find", "users"), nested(3, "filter", &[nested(3, "b", &[listed])]), text("comment", secret)],
        vec![text("aggregate", "users"), nested(4, "pipeline", &[nested(3, "0", &[nested(3, "$match", &values)])])],
        vec![text("insert", "users"), nested(4, "documents", &[nested(3, "0", &values)])],
        vec![text("createUser", secret), text("pwd", secret)],
    ]
}

/// Commands with operators, and secrets among the names of fields.
fn commands_with_operators(secret: &str) -> Vec<Vec<Vec<u8>>> {
    let values = [text("name", secret), nested(3, "a", &[text("$gt", secret)]), text(secret, "x")];
    vec![
        vec![
            text("find", "users"),
            nested(
                3,
                "filter",
                &[
                    nested(3, secret, &[text("$regex", &format!("^{secret}")), text("$options", "i")]),
                    nested(3, &format!("a.{secret}.b"), &[nested(4, "$in", &[text("0", secret)])]),
                    nested(4, "$or", &[nested(3, "0", &[text(secret, secret)])]),
                ],
            ),
            nested(3, "projection", &[text(secret, "x")]),
            nested(3, "hint", &[text(secret, "x")]),
        ],
        vec![
            text("aggregate", "users"),
            nested(
                4,
                "pipeline",
                &[
                    nested(
                        3,
                        "0",
                        &[nested(3, "$group", &[text("_id", &format!("${secret}")), nested(3, secret, &values)])],
                    ),
                    nested(3, "1", &[nested(3, "$lookup", &[text("from", secret), text("as", secret)])]),
                    nested(3, "2", &[text("$unwind", &format!("${secret}"))]),
                    nested(
                        3,
                        "3",
                        &[nested(3, "$set", &[nested(3, secret, &[nested(4, "$concat", &[text("0", secret)])])])],
                    ),
                ],
            ),
        ],
        vec![
            text("update", "users"),
            nested(
                4,
                "updates",
                &[nested(
                    3,
                    "0",
                    &[
                        nested(3, "q", &values),
                        nested(
                            3,
                            "u",
                            &[nested(3, "$set", &[text(secret, secret), text(&format!("a.{secret}"), secret)])],
                        ),
                    ],
                )],
            ),
        ],
        vec![text(secret, secret)],
        vec![text("distinct", "users"), text("key", secret), nested(3, "query", &values)],
    ]
}

fn mongo(secret: &str) -> Capture {
    let message = |id: u32, to: u32, elements: &[Vec<u8>]| {
        let body = [&[0; 5][..], &document(elements)].concat();
        let header = [body.len() as u32 + 16, id, to, 2013].map(u32::to_le_bytes).concat();
        [header, body].concat()
    };
    let mut capture = Capture::new(1, 27017);
    for (number, command) in (1..).zip(commands(secret).into_iter().chain(commands_with_operators(secret))) {
        let command = [command, vec![text("$db", "lab")]].concat();
        let ok = [&[1][..], b"ok\0", &1_f64.to_le_bytes()].concat();
        capture.turn(0, &message(number, 0, &command), &message(number + 100, number, &[ok, text("errmsg", secret)]));
    }
    capture
}
