//! Conversations of all protocols with a word wherever users choose content.

use overhead_model::Protocol;
use std::io::Read as _;

pub const CANARY: &str = "canary7Zq";
const C: &[u8] = CANARY.as_bytes();

/// How part of a payload is compressed, and where it starts.
#[derive(Clone, Copy)]
pub enum Packed {
    No,
    Zlib(usize),
    Zstd(usize),
    Snappy(usize),
    Lz4(usize, usize),
}

impl Packed {
    /// Decompresses it; `None` if it is not compressed, or no longer valid.
    pub fn unpack(self, payload: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::No => None,
            Self::Zlib(at) => {
                let mut content = Vec::new();
                flate2::read::ZlibDecoder::new(&payload[at..]).read_to_end(&mut content).ok()?;
                Some(content)
            }
            Self::Zstd(at) => zstd::bulk::decompress(&payload[at..], 1 << 16).ok(),
            Self::Snappy(at) => snap::raw::Decoder::new().decompress_vec(&payload[at..]).ok(),
            Self::Lz4(at, len) => lz4_flex::block::decompress(&payload[at..], len).ok(),
        }
    }
}

/// The turns of client and server.
pub struct Conversation {
    pub name: &'static str,
    pub protocol: Protocol,
    pub turns: Vec<(bool, Vec<u8>, Packed)>,
}

fn said(name: &'static str, protocol: Protocol, turns: Vec<(bool, Vec<u8>)>) -> Conversation {
    Conversation {
        name,
        protocol,
        turns: turns.into_iter().map(|(is_client, bytes)| (is_client, bytes, Packed::No)).collect(),
    }
}

/// Alternates requests and answers.
fn in_turn(pairs: Vec<(Vec<u8>, Vec<u8>)>) -> Vec<(bool, Vec<u8>)> {
    pairs.into_iter().flat_map(|(request, answer)| [(true, request), (false, answer)]).collect()
}

/// Replaces each `@` with the word.
fn text(with: &str) -> Vec<u8> {
    with.replace('@', CANARY).into_bytes()
}

pub fn all_conversations() -> Vec<Conversation> {
    let mut all =
        vec![resp(), memcached(), memcached_binary(), http(), ssdb(), postgres(), mysql(), mysql_compressed(), cql()];
    all.extend(mongo());
    all.extend(proxied());
    all.push(tls());
    all
}

fn bulk(words: &str) -> Vec<u8> {
    let words: Vec<String> = words.split(' ').map(|word| word.replace('@', CANARY).replace('_', " ")).collect();
    let parts: Vec<String> = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{}", words.len(), parts.concat()).into_bytes()
}

fn resp() -> Conversation {
    let info = text("# @\r\nredis_version:7.2-@\r\n@:@\r\ncmdstat_@:calls=1\r\n@");
    let info = [format!("${}\r\n", info.len()).into_bytes(), info, b"\r\n".to_vec()].concat();
    let hello = text("%3\r\n+server\r\n$9\r\n@\r\n+version\r\n$11\r\n7.@\r\n+modules\r\n*1\r\n+@\r\n");
    let push = text(">3\r\n$7\r\nmessage\r\n$9\r\n@\r\n$9\r\n@\r\n");
    let pairs = vec![
        (bulk("HELLO 3 AUTH @ @ SETNAME @"), hello),
        (bulk("CLIENT SETINFO LIB-NAME @"), text("+@\r\n")),
        (bulk("CLIENT @ @"), text("-ERR unknown subcommand '@'\r\n")),
        (bulk("@ @"), text("-@ @ @\r\n")),
        (bulk("@.@ @"), b"-CANARY7ZQ CANARY7ZQ\r\n".to_vec()),
        (bulk("SET user:@:1 @ EX 7"), b"+OK\r\n".to_vec()),
        (bulk("EVAL return_'@' 1 @ @"), text("=13\r\ntxt:@\r\n")),
        (bulk("GET @"), text("!13\r\nERR @\r\n")),
        (bulk("LRANGE @ 0 1"), text("*2\r\n_@\r\n$9\r\n@\r\n")),
        (bulk("INFO @"), info),
        (text("@ @\r\n"), text("-ERR unknown command '@'\r\n")),
        (text("get @\r\n"), text("$9\r\n@\r\n")),
        (bulk("CONFIG SET @ @"), text("-ERR @\r\n")),
        (bulk("XADD @ * @ @"), text("$9\r\n@\r\n")),
        (bulk("SUBSCRIBE @"), [text(">3\r\n$9\r\nsubscribe\r\n$9\r\n@\r\n:1\r\n"), push].concat()),
    ];
    said("resp", Protocol::Resp, in_turn(pairs))
}

fn memcached() -> Conversation {
    let pairs = [
        ("set user:@ 1 0 9\r\n@\r\n", "STORED\r\n"),
        ("set @ @ @ @\r\n", "CLIENT_ERROR @ @\r\n"),
        ("get @ user:@\r\n", "VALUE @ 5 9 77\r\n@\r\nEND\r\n"),
        ("cas @ 1 0 9 7 noreply\r\n@\r\nversion @\r\n", "VERSION 1.6-@\r\n"),
        ("mg @ k v O@ q\r\nmn\r\n", "VA 9 k@ O@\r\n@\r\nMN\r\n"),
        ("ms @ 9 T0 F5 O@ M@ I\r\n@\r\n", "HD O@ k@\r\n"),
        ("me @\r\n", "ME @ exp=-1 @=@\r\n"),
        ("stats @ @\r\n", "STAT @ @\r\nSTAT version 1.6-@\r\nEND\r\n"),
        ("@ @\r\n", "ERROR\r\n"),
        ("incr @ 7\r\n", "@\r\n"),
        ("delete @ @\r\n", "SERVER_ERROR @\r\n"),
        ("lru_crawler metadump @\r\n", "key=@ exp=-1 @=@\r\nEND\r\n"),
        ("slabs @ @ @\r\n", "@ @\r\n"),
        ("shutdown @\r\n", "ERROR: @\r\n"),
        ("misbehave @\r\n", "OK @\r\n"),
    ];
    said("memcached", Protocol::Memcache, in_turn(pairs.map(|(request, answer)| (text(request), text(answer))).into()))
}

fn memcached_binary() -> Conversation {
    let message = |magic: u8, opcode: u8, extras: &[u8], key: &str, value: &str| {
        let (key, value) = (text(key), text(value));
        let body = extras.len() + key.len() + value.len();
        let head =
            [&[magic, opcode, 0, key.len() as u8, extras.len() as u8, 0, 0, 0][..], &(body as u32).to_be_bytes()]
                .concat();
        [&head[..], b"cana", b"ry7Zqcan", extras, &key, &value].concat()
    };
    let pairs = vec![
        (message(0x80, 1, b"canary7Z", "@", "@"), message(0x81, 1, b"", "", "")),
        (message(0x80, 0x0c, b"", "@", ""), message(0x81, 0x0c, b"cana", "@", "@")),
        (message(0x80, 0x21, b"", "@", "@\0@\0@"), message(0x81, 0x21, b"", "", "@")),
        (message(0x80, 0x77, b"canary7Z", "@", "@"), message(0x81, 0x77, b"canary", "@", "@")),
        (
            message(0x80, 0x10, b"", "@", ""),
            [message(0x81, 0x10, b"", "@", "@"), message(0x81, 0x10, b"", "", "")].concat(),
        ),
        (message(0x80, 0x0b, b"", "", ""), message(0x81, 0x0b, b"", "", "1.6-@")),
    ];
    said("memcached binary", Protocol::Memcache, in_turn(pairs))
}

fn http() -> Conversation {
    let mut encoder = flate2::read::GzEncoder::new(C, flate2::Compression::best());
    let mut gzip = Vec::new();
    encoder.read_to_end(&mut gzip).unwrap();
    let head = format!("POST /@/@?@=@&@ HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", gzip.len());
    let fields = "Host: @\r\nAccept: @\r\nUser-Agent: @/1.0 (@)\r\n@: @\r\nContent-Type: text/@; boundary=@\r\nConnection: @\r\nTE: @\r\n\
                  Cache-Control: @\r\nExpect: @\r\nCookie: @=@\r\nAuthorization: Bearer @\r\nAccept-Encoding: @\r\nTrailer: @\r\n";
    let chunked = "HTTP/1.1 404 Not @\r\nServer: @/2 (@)\r\nTransfer-Encoding: @, chunked\r\nX-Elastic-Product: @\r\nDate: @\r\n@\r\n\r\n\
                   9;@=@\r\n@\r\n0;@\r\n@: @\r\nETag: @\r\n\r\n";
    let pairs = vec![
        (text(&format!("GET http://@.example/@ HTTP/1.1\r\n{fields}\r\n")), text(chunked)),
        (
            text(&format!("@ /@ HTTP/1.1\r\n{fields}\r\n")),
            text("HTTP/1.1 200 @\r\nContent-Length: 9\r\nKeep-Alive: @\r\n\r\n@"),
        ),
        ([text(&head), gzip].concat(), text("HTTP/1.1 304 @\r\n\r\n")),
    ];
    said("http", Protocol::Http, in_turn(pairs))
}

fn ssdb() -> Conversation {
    let packet = |words: &str| {
        let block = |word: &str| [format!("{}\n", text(word).len()).into_bytes(), text(word), b"\n".to_vec()].concat();
        [words.split(' ').flat_map(block).collect(), b"\n".to_vec()].concat()
    };
    let pairs =
        [("get @", "ok @"), ("@ @", "client_error @"), ("@_@ @", "@ @"), ("info @", "ok ssdb-server @ version 1.9-@")];
    said("ssdb", Protocol::Ssdb, in_turn(pairs.map(|(request, answer)| (packet(request), packet(answer))).into()))
}

/// `PostgreSQL` messages with four-byte lengths that count themselves; `|` becomes a zero.
fn postgres() -> Conversation {
    let message = |kind: &[u8], inside: &[u8]| [kind, &(inside.len() as u32 + 4).to_be_bytes(), inside].concat();
    let of = |kind: u8, inside: &str| message(&[kind], &text(&inside.replace('|', "\0")));
    let all_fields = "S@|VERROR|CXX000|M@|D@|H@|P@|p@|q@|W@|s@|t@|c@|d@|n@|F@|L@|R@|z@||";
    let ready = of(b'Z', "I");
    let answered = |parts: &[Vec<u8>]| [parts.concat(), ready.clone()].concat();
    let start = "\0\x03\0\0user|@|database|@|application_name|@|@|@|client_encoding|@|options|-c @=@||";
    let column = "\0\x01@\0cana\0\x01\0\0\0\x19\0\x01\0\0\0\0\0\0";
    let row = of(b'D', "\0\x01\0\0\0\x09@");
    let sasl = [message(b"p", &[&text("@\0")[..], &[0, 0, 0, 9], C].concat()), message(b"p", C)];
    let login = [
        &message(b"R", &[0; 4])[..],
        &of(b'S', "@|@|"),
        &of(b'S', "server_version|16.1 (@ @)|"),
        &of(b'S', "TimeZone|@|"),
    ];
    let login =
        [login.concat(), of(b'S', "client_encoding|@|"), of(b'K', "\0\0\0\x01cana"), of(b'N', all_fields)].concat();
    let query = "/* @ */ SELECT \"@\", @.@ AS @, '@', E'@\\n@', $@$@$@$, U&'@', x'ca', @'@' FROM @ WHERE @ = 7 -- @|";
    let mut turns = in_turn(vec![
        (
            message(b"", &text(&start.replace('|', "\0"))),
            [of(b'v', "\0\x03\0\0\0\0\0\x01@|"), message(b"R", &[&[0, 0, 0, 10][..], &text("@\0@\0\0")].concat())]
                .concat(),
        ),
        (sasl[0].clone(), message(b"R", &[&[0, 0, 0, 11][..], C].concat())),
        (sasl[1].clone(), [message(b"R", &[&[0, 0, 0, 12][..], C].concat()), answered(&[login])].concat()),
        (of(b'Q', query), answered(&[of(b'T', column), row.clone(), of(b'C', "SELECT 1|")])),
        (of(b'Q', "@ @ '@'|"), answered(&[of(b'E', all_fields)])),
        (of(b'Q', "SELECT 1|@"), answered(&[of(b'C', "@ @|")])),
        (
            of(b'Q', "LISTEN @; NOTIFY @, '@'; SET @ = '@'|"),
            answered(&[of(b'A', "\0\0\0\x01@|@|"), of(b'C', "LISTEN|")]),
        ),
        (of(b'Q', "COPY @ (@) FROM STDIN (NULL '@', FORMAT text)|"), message(b"G", &[0, 0, 1, 0, 0])),
        ([of(b'd', "@\t@\n@\n"), of(b'f', "@|")].concat(), answered(&[of(b'E', all_fields)])),
        (
            of(b'Q', "COPY @ TO STDOUT (FORMAT csv, DELIMITER ';')|"),
            answered(&[message(b"H", &[0, 0, 1, 0, 0]), of(b'd', "@;\"@\"\n"), of(b'c', ""), of(b'C', "COPY 1|")]),
        ),
        (
            [
                of(b'P', "@|SELECT $1, @|\0\0"),
                of(b'B', "@|@|\0\0\0\x01\0\0\0\x09@\0\0"),
                of(b'D', "P@|"),
                of(b'E', "@|\0\0\0\0"),
                of(b'C', "S@|"),
                of(b'S', ""),
            ]
            .concat(),
            answered(&[of(b'1', ""), of(b'2', ""), of(b'T', column), row, of(b'C', "SELECT 1|"), of(b'3', "")]),
        ),
        (of(b'F', "\0\0\0\x07\0\0\0\x01\0\0\0\x09@\0\0"), answered(&[of(b'V', "\0\0\0\x09@")])),
    ]);
    turns.push((true, of(b'X', "")));
    said("postgres", Protocol::Pgwire, turns)
}

fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_le_bytes()[..3], &[sequence], payload].concat()
}

/// Returns a text after its length in one byte.
fn counted(with: &str) -> Vec<u8> {
    [&[text(with).len() as u8][..], &text(with)].concat()
}

fn mysql_login(capabilities: u32) -> Vec<(bool, Vec<u8>)> {
    let version = [&[10][..], &text("8.0.1-@\0"), b"\x0b\0\0\0canary7Z\0\xff\xff\xff\x02\0\xff\xdf\x15"].concat();
    let greeting = [&version[..], &[0; 10], b"canary7Zqxyz\0", &text("@\0")].concat();
    let attributes = ["_client_name", "@", "_os", "@", "@", "@"].map(counted).concat();
    let login = [
        &capabilities.to_le_bytes()[..],
        &[0, 0, 0, 1, 0x21],
        C,
        &[0; 14],
        &text("@\0"),
        &counted("@"),
        &text("@\0@\0"),
    ]
    .concat();
    let login = [login, vec![attributes.len() as u8], attributes].concat();
    let switch = packet(2, &text("\u{fffd}@\0@\0").iter().copied().skip(2).collect::<Vec<_>>());
    let switch = [&switch[..4], &[0xfe], &switch[5..]].concat();
    vec![
        (false, packet(0, &greeting)),
        (true, packet(1, &login)),
        (false, switch),
        (true, packet(3, C)),
        (false, packet(4, &[0, 0, 0, 2, 0, 0, 0])),
    ]
}

/// Returns a column definition of `MySQL`.
fn column() -> Vec<u8> {
    [counted("def"), ["@"; 5].map(counted).concat(), vec![0x0c, 0x21, 0, 9, 0, 0, 0, 0xfd, 0, 0, 0, 0, 0]].concat()
}

fn mysql() -> Conversation {
    let error = |sequence| packet(sequence, &[&b"\xff\x28\x04#42000"[..], &text("@ '@'")].concat());
    let end = |sequence| packet(sequence, &[0xfe, 0, 0, 2, 0]);
    let ok =
        [&[0, 1, 2, 2, 0x40, 0, 0][..], &counted("@"), &[15], &[0, 13, 3], &text("sql@")[..3], &counted("@")[..], b""]
            .concat();
    let rows = [packet(1, &[1]), packet(2, &column()), end(3), packet(4, &counted("@")), end(5)].concat();
    let command = |kind: u8, with: &str| packet(0, &[&[kind][..], &text(with)].concat());
    let prepared =
        [packet(1, &[0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0]), packet(2, &column()), end(3), packet(4, &column()), end(5)]
            .concat();
    let execute = packet(0, &[&[0x17, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0xfd, 0][..], &counted("@")].concat());
    let query = "SELECT `@`, @@@, '@', \"@\", _utf8'@', N'@', 7@ /*! @ = '@' */ FROM @.@ -- @";
    let mut turns = mysql_login(0x00ba_a68f);
    turns.extend(in_turn(vec![
        (command(3, query), rows),
        (command(3, "@ @ '@'"), error(1)),
        (command(3, "SET @ = '@'"), packet(1, &ok)),
        (command(2, "@"), error(1)),
        (command(5, "@"), error(1)),
        (command(0x16, "SELECT @ FROM @ WHERE @ = ?"), prepared),
        (
            execute,
            [packet(1, &[1]), packet(2, &column()), end(3), packet(4, &[&[0, 0][..], &counted("@")].concat()), end(5)]
                .concat(),
        ),
        (
            command(3, "LOAD DATA LOCAL INFILE '@' INTO TABLE @"),
            packet(1, &text("\u{1}@").iter().map(|byte| if *byte == 1 { 0xfb } else { *byte }).collect::<Vec<_>>()),
        ),
        ([packet(2, C), packet(3, b"")].concat(), error(4)),
        (command(4, "@\0@"), [packet(1, &[column(), counted("@")].concat()), end(2)].concat()),
    ]));
    said("mysql", Protocol::Mysql, turns)
}

fn zlib(content: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    flate2::read::ZlibEncoder::new(content, flate2::Compression::best()).read_to_end(&mut packed).unwrap();
    packed
}

fn mysql_compressed() -> Conversation {
    let around = |content: &[u8]| {
        let packed = zlib(content);
        [&(packed.len() as u32).to_le_bytes()[..3], &[0], &(content.len() as u32).to_le_bytes()[..3], &packed].concat()
    };
    let mut turns = said("", Protocol::Mysql, mysql_login(0x00ba_a6af)).turns;
    let statement =
        text("SELECT @ FROM @ WHERE @ = '@' AND first_name_of_somebody = 'somebody else' ORDER BY @ /* and so on */ ")
            .repeat(20);
    let error = packet(
        1,
        &[&b"\xff\x28\x04#42000"[..], &text("@ '@' and many other words that say what was wrong: @ ").repeat(20)]
            .concat(),
    );
    turns.push((true, around(&packet(0, &[b"\x03", &statement[..]].concat())), Packed::Zlib(7)));
    turns.push((false, around(&error), Packed::Zlib(7)));
    Conversation { name: "mysql compressed", protocol: Protocol::Mysql, turns }
}

fn cql() -> Conversation {
    let short = |with: &str| [&(text(with).len() as u16).to_be_bytes()[..], &text(with)].concat();
    let long = |with: &str| [&(text(with).len() as u32).to_be_bytes()[..], &text(with)].concat();
    let message = |version: u8, flags: u8, opcode: u8, body: &[u8]| {
        [&[version, flags, 0, 1, opcode][..], &(body.len() as u32).to_be_bytes(), body].concat()
    };
    let error = message(0x84, 0, 0, &[&0x2200_u32.to_be_bytes()[..], &short("@ @")].concat());
    let options =
        ["CQL_VERSION", "3.0.0", "DRIVER_NAME", "@", "DRIVER_VERSION", "1.0-@", "@", "@", "COMPRESSION", "lz4"]
            .map(short)
            .concat();
    let payload = [vec![0, 1], short("@"), long("@")].concat();
    let query = [long("SELECT @, \"@\" FROM @.@ WHERE @ = '@' AND @ = 1h30m -- @"), vec![0, 1, 0]].concat();
    let names = ["@", "@", "@"].map(short).concat();
    let rows = [&[0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1][..], &names, &[0, 0x0d], &[0, 0, 0, 1], &long("@")].concat();
    let aside = [C, b"7654321", &[0, 1], &short("@"), &payload[..]].concat();
    let lz4 = |version: u8, opcode: u8, body: &[u8]| {
        let packed = lz4_flex::block::compress(body);
        let body_len = body.len();
        (
            message(version, 1, opcode, &[&(body_len as u32).to_be_bytes()[..], &packed].concat()),
            Packed::Lz4(13, body_len),
        )
    };
    let supported =
        [vec![0, 2], short("COMPRESSION"), vec![0, 2], short("lz4"), short("@"), short("@"), vec![0, 1], short("@")]
            .concat();
    let event = message(0x84, 0, 12, &["SCHEMA_CHANGE", "@", "TABLE", "@", "@"].map(short).concat());
    let batch = [vec![0, 0, 1, 0], long("INSERT INTO @ (@) VALUES (?)"), vec![0, 1], long("@"), vec![0, 1, 0]].concat();
    let mut turns = said(
        "",
        Protocol::Cql,
        in_turn(vec![
            (message(4, 0, 5, b""), message(0x84, 0, 6, &supported)),
            (message(4, 0, 1, &[&[0, 5], &options[..]].concat()), message(0x84, 0, 3, &short("org.@.@"))),
            (message(4, 0, 15, &long("@\0@")), message(0x84, 0, 16, &long("@"))),
            (message(4, 0, 11, &[vec![0, 1], short("@")].concat()), error.clone()),
            (
                message(4, 4, 7, &[payload.clone(), query.clone()].concat()),
                message(0x84, 0x0e, 8, &[aside, rows.clone()].concat()),
            ),
            (message(4, 0, 7, &[long("@ @"), vec![0, 1, 0]].concat()), [error.clone(), event].concat()),
            (
                message(4, 0, 13, &batch),
                message(0x84, 0, 0, &[&0x2400_u32.to_be_bytes()[..], &["@"; 3].map(short).concat()].concat()),
            ),
            (
                message(4, 0, 7, &[long("USE \"@\""), vec![0, 1, 0]].concat()),
                message(0x84, 0, 8, &[vec![0, 0, 0, 3], short("@")].concat()),
            ),
        ]),
    )
    .turns;
    let ((request, request_packed), (answer, answer_packed)) = (lz4(4, 7, &query), lz4(0x84, 8, &rows));
    turns.extend([(true, request, request_packed), (false, answer, answer_packed)]);
    Conversation { name: "cql", protocol: Protocol::Cql, turns }
}

fn document(elements: &[Vec<u8>]) -> Vec<u8> {
    let inside = elements.concat();
    [&(inside.len() as u32 + 5).to_le_bytes()[..], &inside, &[0]].concat()
}

fn element(kind: u8, name: &str, value: &[u8]) -> Vec<u8> {
    [&[kind][..], &text(name), &[0], value].concat()
}

fn string(name: &str, value: &str) -> Vec<u8> {
    element(2, name, &[&(text(value).len() as u32 + 1).to_le_bytes()[..], &text(value), &[0]].concat())
}

fn nested(kind: u8, name: &str, elements: &[Vec<u8>]) -> Vec<u8> {
    element(kind, name, &document(elements))
}

/// Returns elements of all types that can hold the word.
fn all(name: &str) -> Vec<u8> {
    let pattern = element(0x0b, "@", &text("@\0i\0"));
    let code = element(0x0d, "@", &[&[10, 0, 0, 0][..], C, &[0]].concat());
    let binary = element(5, "@", &[&[9, 0, 0, 0, 0][..], C].concat());
    let array = nested(4, "@", &[string("@", "@"), string("1", "@")]);
    nested(3, name, &[string("@", "@"), string("$@", "$$@"), pattern, code, binary, array])
}

fn wire_message(opcode: u32, id: u32, to: u32, body: &[u8]) -> Vec<u8> {
    [[body.len() as u32 + 16, id, to, opcode].map(u32::to_le_bytes).concat(), body.to_vec()].concat()
}

/// Returns the body of a command or a reply; a `$db` in replies does no harm.
fn body(elements: &[&[Vec<u8>]]) -> Vec<u8> {
    [vec![0; 5], document(&[elements.concat(), vec![string("$db", "@")]].concat())].concat()
}

fn ok(value: f64) -> Vec<u8> {
    element(1, "ok", &value.to_le_bytes())
}

fn find() -> Vec<Vec<u8>> {
    let documents = ["filter", "projection", "sort", "readConcern", "let"].map(all);
    let strings = ["comment", "$comment", "@"].map(|name| string(name, "@"));
    [&[string("find", "@")][..], &documents, &strings].concat()
}

fn mongo() -> [Conversation; 2] {
    let names = [string("name", "@"), string("version", "1-@")];
    let client = [
        nested(3, "application", &names[..1]),
        nested(3, "driver", &names),
        all("os"),
        string("platform", "@"),
        all("@"),
    ];
    let hello =
        [element(16, "hello", &[1, 0, 0, 0]), nested(3, "client", &client), string("saslSupportedMechs", "@.@")];
    let hosts = nested(4, "hosts", &[string("0", "@")]);
    let told = [ok(1.0), string("version", "7-@"), string("msg", "@"), string("me", "@"), string("@", "@"), hosts];
    let cursor = [string("ns", "@.@"), nested(4, "firstBatch", &[all("0")]), string("@", "@")];
    let found = [nested(3, "cursor", &cursor), ok(1.0), all("$clusterTime")];
    let stage = nested(3, "0", &[all("$match"), all("$@"), all("$lookup"), string("$out", "@")]);
    let aggregate = [string("aggregate", "@"), nested(4, "pipeline", &[stage])];
    let failed =
        [ok(0.0), string("errmsg", "@"), string("codeName", "@"), all("errInfo"), all("writeErrors"), string("@", "@")];
    let documents = [text("documents\0"), document(&[all("@")])].concat();
    let insert =
        [body(&[&[string("insert", "@")]]), vec![1], (documents.len() as u32 + 4).to_le_bytes().to_vec(), documents]
            .concat();
    let asked = [
        body(&[&hello]),
        body(&[&find()]),
        body(&[&aggregate]),
        insert,
        body(&[&[string("@", "@"), all("@")]]),
        body(&[&[nested(3, "explain", &find())]]),
    ];
    let answered = [body(&[&told]), body(&[&found]), body(&[&failed])];
    let pair = |(id, request): (u32, &Vec<u8>)| {
        let answer = answered.get(id as usize - 1).unwrap_or(&answered[2]);
        (wire_message(2013, id, 0, request), wire_message(2013, id + 100, id, answer))
    };
    let mut pairs: Vec<_> = (1..).zip(&asked).map(pair).collect();
    let query = [vec![0; 4], text("@.@\0"), vec![0; 8], document(&[all("$query"), string("$comment", "@")])].concat();
    let reply = [vec![0; 16], vec![1, 0, 0, 0], document(&[ok(1.0), all("@")])].concat();
    pairs.push((wire_message(2004, 50, 0, &query), wire_message(1, 150, 50, &reply)));
    let plain = said("mongo", Protocol::Mongo, in_turn(pairs));
    [plain, Conversation { name: "mongo compressed", protocol: Protocol::Mongo, turns: mongo_compressed() }]
}

fn mongo_compressed() -> Vec<(bool, Vec<u8>, Packed)> {
    let words = string("comment", &"@ and other words, so that there is something to compress. ".repeat(20));
    let request = body(&[&find(), std::slice::from_ref(&words)]);
    let batch = nested(4, "firstBatch", &[nested(3, "0", &[words])]);
    let answer = body(&[&[nested(3, "cursor", &[batch]), ok(1.0)]]);
    let around = |(is_client, body, compressor, id, to): (bool, &[u8], u8, u32, u32)| {
        let (packed, how) = match compressor {
            1 => (snap::raw::Encoder::new().compress_vec(body).unwrap(), Packed::Snappy(25)),
            2 => (zlib(body), Packed::Zlib(25)),
            _ => (zstd::bulk::compress(body, 3).unwrap(), Packed::Zstd(25)),
        };
        let head = [2013_u32, body.len() as u32].map(u32::to_le_bytes).concat();
        (is_client, wire_message(2012, id, to, &[&head[..], &[compressor], &packed].concat()), how)
    };
    let pair =
        |(id, compressor)| [(true, &request[..], compressor, id, 0), (false, &answer[..], compressor, id + 100, id)];
    (10..).zip([1, 2, 3]).flat_map(pair).map(around).collect()
}

/// Returns proxy headers: a line, one of an unknown family, and a binary one with a requested name.
fn proxied() -> Vec<Conversation> {
    let names = [&[2, 0, 9][..], C, &[1, 0, 9], C].concat();
    let binary = [
        &b"\r\n\r\n\0\r\nQUIT\n\x21\x11"[..],
        &(12 + names.len() as u16).to_be_bytes(),
        &[10, 0, 0, 1, 10, 0, 0, 2, 1, 2, 3, 4],
        &names,
    ]
    .concat();
    let headers =
        [b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 6379\r\n".to_vec(), text("PROXY UNKNOWN @ @\r\n"), binary];
    headers
        .map(|header| {
            said("proxied", Protocol::Resp, in_turn(vec![([header, bulk("GET @")].concat(), text("$9\r\n@\r\n"))]))
        })
        .into()
}

fn tls() -> Conversation {
    let record = |kind: u8, inside: &[u8]| [&[kind, 3, 3][..], &(inside.len() as u16).to_be_bytes(), inside].concat();
    let handshake =
        |kind: u8, inside: &[u8]| record(22, &[&[kind, 0][..], &(inside.len() as u16).to_be_bytes(), inside].concat());
    let extension =
        |kind: u16, inside: &[u8]| [&kind.to_be_bytes()[..], &(inside.len() as u16).to_be_bytes(), inside].concat();
    let name = extension(0, &[&[0, 12, 0, 0, 9][..], C].concat());
    let protocols = extension(16, &[&[0, 13, 9][..], C, b"\x02h2"].concat());
    let extensions = [name, protocols.clone(), extension(35, C), extension(0xfafa, C)].concat();
    let random = b"canary7Zqcanary7Zqcanary7Zqcanar";
    let hello = [
        &[3, 3][..],
        random,
        &[9],
        C,
        &[0, 2, 0xc0, 0x2f, 1, 0],
        &(extensions.len() as u16).to_be_bytes(),
        &extensions,
    ]
    .concat();
    let answer =
        [&[3, 3][..], random, &[9], C, &[0xc0, 0x2f, 0], &(protocols.len() as u16).to_be_bytes(), &protocols].concat();
    let certificate = text("CN=@, a certificate of @");
    let server = [handshake(2, &answer), handshake(11, &certificate), handshake(14, b""), handshake(4, C)].concat();
    let turns = vec![(true, handshake(1, &hello)), (false, server), (true, record(23, C)), (false, record(23, C))];
    said("tls", Protocol::Resp, turns)
}
