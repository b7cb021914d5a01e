//! Puts a word wherever users choose content, compressed or not, and checks that no copy contains it.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};
use overhead_anonymise::{Anonymiser, FillerKey};
use overhead_dissect::Selection;
use overhead_model::{Frame, LinkType, Side};

const CANARY: &[u8] = b"canary7Zq";
/// Length to which compressed content is searched at each position.
const CONTENT: usize = 1 << 12;

/// Frames of one connection. `@` stands for the word.
struct Talk {
    port: u16,
    next: [u32; 2],
    frames: Vec<Vec<u8>>,
}

impl Talk {
    fn new(port: u16) -> Self {
        let mut talk = Self { port, next: [1, 1], frames: Vec::new() };
        for (side, flags) in [(Side::Request, 2), (Side::Response, 0x12), (Side::Request, 0x10)] {
            talk.frame(side, flags, b"");
            talk.next[side as usize] += u32::from(flags & 2 != 0);
        }
        talk
    }

    fn frame(&mut self, side: Side, flags: u8, payload: &[u8]) {
        let client = ([10, 0, 0, 2], 40_000_u16);
        let server = ([10, 0, 0, 1], self.port);
        let (from, to) = if side == Side::Request { (client, server) } else { (server, client) };
        let mut frame = [&[2; 12][..], &[8, 0, 0x45, 0], &(40 + payload.len() as u16).to_be_bytes()].concat();
        frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        frame.extend([from.0, to.0].concat());
        frame.extend([from.1.to_be_bytes(), to.1.to_be_bytes()].concat());
        frame.extend([self.next[side as usize].to_be_bytes(), self.next[1 - side as usize].to_be_bytes()].concat());
        frame.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        frame.extend(payload);
        self.next[side as usize] += payload.len() as u32;
        self.frames.push(frame);
    }

    fn say(&mut self, side: Side, bytes: &[u8]) -> &mut Self {
        self.frame(side, 0x18, bytes);
        self
    }

    fn turn(&mut self, request: &[u8], response: &[u8]) -> &mut Self {
        self.say(Side::Request, request).say(Side::Response, response)
    }
}

/// Replaces each `@` with the word.
fn with(text: &str) -> Vec<u8> {
    text.replace('@', std::str::from_utf8(CANARY).unwrap()).into_bytes()
}

fn copy(talk: &Talk) -> Vec<Vec<u8>> {
    let mut copy =
        Anonymiser::new(&Selection::default(), FillerKey(*b"a key for tests."), tempfile::tempfile().unwrap());
    for (bytes, time_ns) in talk.frames.iter().zip(1..) {
        let frame = Frame { time_ns, link: LinkType::ETHERNET, original_len: bytes.len() as u32, interface: 0, bytes };
        copy.frame(&frame).unwrap();
    }
    let (mut copied, mut frames) = (copy.finish().unwrap(), Vec::new());
    while let Some(frame) = copied.next_frame().unwrap() {
        frames.push(frame.bytes.to_vec());
    }
    frames
}

fn holds(bytes: &[u8]) -> bool {
    bytes.windows(CANARY.len()).any(|part| part.eq_ignore_ascii_case(CANARY))
}

/// Decompresses the bytes at every position with every format.
fn unpacked(bytes: &[u8]) -> Vec<Vec<u8>> {
    let inflated = |bytes: &[u8]| {
        let mut content = Vec::with_capacity(CONTENT);
        let _ = Decompress::new(true).decompress_vec(bytes, &mut content, FlushDecompress::Sync);
        content
    };
    let places = (0..bytes.len()).map(|at| &bytes[at..]);
    let all = places.flat_map(|bytes| {
        let zstd = zstd::bulk::decompress(bytes, CONTENT).unwrap_or_default();
        let lz4 = lz4_flex::block::decompress(bytes, CONTENT).unwrap_or_default();
        let snappy = snap::raw::Decoder::new().decompress_vec(bytes).unwrap_or_default();
        [inflated(bytes), zstd, lz4, snappy]
    });
    all.collect()
}

#[track_caller]
fn is_in_no_copy(what: &str, talk: &Talk) {
    let frames = copy(talk);
    assert_eq!(frames.len(), talk.frames.len(), "{what}");
    for frame in &frames {
        assert!(!holds(frame), "{what}: {}", String::from_utf8_lossy(frame));
        assert!(!unpacked(frame).iter().any(|content| holds(content)), "{what}, compressed");
    }
}

fn resp(words: &str) -> Vec<u8> {
    let words: Vec<Vec<u8>> = words.split(' ').map(with).collect();
    let bulk = |word: &Vec<u8>| [format!("${}\r\n", word.len()).as_bytes(), word, b"\r\n"].concat();
    [format!("*{}\r\n", words.len()).into_bytes(), words.iter().flat_map(bulk).collect()].concat()
}

#[test]
fn redis_and_ssdb() {
    let mut talk = Talk::new(6379);
    for words in [
        "AUTH @ @",
        "HELLO 3 AUTH @ @ SETNAME @",
        "CLIENT SETNAME @",
        "GET @",
        "SET @ @ EX 9",
        "CONFIG GET @",
        "CONFIG @ @",
        "@ @ @",
        "EVAL return'@' 1 @ @",
        "SUBSCRIBE @",
        "PUBLISH @ @",
        "FCALL @ 1 @",
        "XADD @ * @ @",
        "ACL SETUSER @ on >@ ~@",
        "MIGRATE @ 6379 @ 0 9 AUTH2 @ @",
        "SORT @ BY @ GET @ STORE @",
    ] {
        talk.turn(&resp(words), &with("-@ @ @\r\n"));
    }
    talk.turn(b"PING\r\n", &with("+@\r\n")).turn(&with("@ @\r\n"), &with("-ERR unknown command '@'\r\n"));
    talk.turn(&resp("GET k"), &with("$9\r\n@\r\n"))
        .turn(&resp("HGETALL @"), &with("*2\r\n$9\r\n@\r\n=13\r\ntxt:@\r\n"));
    is_in_no_copy("RESP", &talk);
    let mut talk = Talk::new(8888);
    for words in [&["set", "@", "@"][..], &["@", "@"], &["auth", "@"], &["hset", "@", "@", "@"]] {
        let block = |word: &&str| [format!("{}\n", with(word).len()).into_bytes(), with(word), b"\n".to_vec()].concat();
        let packet = [words.iter().flat_map(block).collect(), b"\n".to_vec()].concat();
        talk.turn(&packet, &with("2\nok\n9\n@\n\n")).turn(&packet, &with("5\nerror\n9\n@\n\n"));
    }
    is_in_no_copy("SSDB", &talk);
}

#[test]
fn postgres() {
    let message = |kind: u8, text: &str| {
        let inside = with(text);
        [&[kind][..], &(inside.len() as u32 + 4).to_be_bytes(), &inside].concat()
    };
    let startup = |code: u32, text: &str| {
        let inside = [&code.to_be_bytes()[..], &with(text)].concat();
        [&(inside.len() as u32 + 4).to_be_bytes()[..], &inside].concat()
    };
    let ready = message(b'Z', "I");
    let mut talk = Talk::new(5432);
    let hello = "user\0@\0database\0@\0application_name\0@\0options\0-c @=@\0my.@\0@\0search_path\0@\0TimeZone\0@\0\0";
    let status = [message(b'S', "session_authorization\0@\0"), message(b'S', "my.@\0@\0")].concat();
    talk.turn(&startup(196_608, hello), &[message(b'R', "\0\0\0\0"), status, ready.clone()].concat());
    let error = message(b'E', "S@\0VERROR\0C42601\0M@\0D@\0H@\0W@\0q@\0s@\0t@\0c@\0d@\0n@\0F@.c\0L1\0R@\0\0");
    for statement in [
        "SELECT $@$@$@$, '@' AS \"@\" FROM @.@ -- @\n/* @ */\0",
        "LISTEN @\0",
        "NOTIFY @, '@'\0",
        "PREPARE @ AS SELECT E'\\x@'\0",
        "@\0",
        "SET @.@ = '@'\0",
        "COPY @ FROM STDIN (DELIMITER '@')\0",
        "SELECT U&'@' UESCAPE '@', B'@', $1::@\0",
    ] {
        talk.turn(
            &message(b'Q', statement),
            &[error.clone(), message(b'N', "SNOTICE\0M@\0\0"), ready.clone()].concat(),
        );
    }
    talk.turn(&message(b'Q', "COPY t FROM STDIN\0"), &message(b'G', "\0\0\u{1}\0\0"));
    talk.say(Side::Request, &[message(b'd', "@\t@\n"), message(b'f', "@\0")].concat());
    talk.say(Side::Response, &[error.clone(), ready.clone()].concat());
    let parse = [
        message(b'P', "@\0SELECT '@', $1\0\0\0"),
        message(b'B', "@\0@\0\0\0\0\u{1}\0\0\0\t@\0\0"),
        message(b'D', "P@\0"),
    ];
    talk.say(
        Side::Request,
        &[parse.concat(), message(b'E', "@\0\0\0\0\0"), message(b'C', "S@\0"), message(b'S', "")].concat(),
    );
    let described = message(b'T', "\0\u{1}@\0\0\0\0\0\0\0\0\0\0\u{19}\u{7f}\u{7f}\0\0\0\0\0\0");
    let rows =
        [described, message(b'D', "\0\u{1}\0\0\0\t@"), message(b'C', "SELECT 1\0"), message(b'A', "\0\0\0\u{1}@\0@\0")];
    talk.say(Side::Response, &[message(b'1', ""), message(b'2', ""), rows.concat(), message(b'3', ""), ready].concat());
    is_in_no_copy("PostgreSQL", &talk);
    let mut old = Talk::new(5432);
    old.turn(&startup(131_072, "@\0@\0@"), &message(b'E', "@\0"));
    is_in_no_copy("PostgreSQL, protocol 2", &old);
    let mut sasl = Talk::new(5432);
    sasl.turn(&startup(196_608, "user\0@\0\0"), &message(b'R', "\0\0\0\nSCRAM-SHA-256\0@\0\0"));
    sasl.turn(&message(b'p', "SCRAM-SHA-256\0\0\0\0\tn,,n=@,r=@"), &message(b'R', "\0\0\0\u{b}r=@,s=@,i=4096"));
    is_in_no_copy("PostgreSQL, SASL", &sasl);
}

fn cql(is_answer: bool, opcode: u8, flags: u8, body: &[u8]) -> Vec<u8> {
    [&[if is_answer { 0x84 } else { 4 }, flags, 0, 1, opcode][..], &(body.len() as u32).to_be_bytes(), body].concat()
}

#[test]
fn cassandra() {
    let short = |text: &str| [&(with(text).len() as u16).to_be_bytes()[..], &with(text)].concat();
    let long = |text: &str| [&(with(text).len() as u32).to_be_bytes()[..], &with(text)].concat();
    let query =
        [long("SELECT \"@\" FROM @.@ WHERE a = '@' AND b = $$@$$ -- @"), vec![0, 1, 1, 0, 1], long("@")].concat();
    let rows = [
        &[0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1][..],
        &["@", "@", "@"].map(short).concat(),
        &[0, 13, 0, 0, 0, 1],
        &long("@"),
    ]
    .concat();
    let payload = [&[0, 1][..], &short("@"), &long("@")].concat();
    let warned = [&[0, 1][..], &short("@"), &rows].concat();
    for compression in [None, Some("lz4"), Some("snappy")] {
        let mut talk = Talk::new(9042);
        let packed = |body: &[u8]| match compression {
            None => body.to_vec(),
            Some("lz4") => [&(body.len() as u32).to_be_bytes()[..], &lz4_flex::block::compress(body)].concat(),
            Some(_) => snap::raw::Encoder::new().compress_vec(body).unwrap(),
        };
        let flag = u8::from(compression.is_some());
        let options =
            ["CQL_VERSION", "3.0.0", "APPLICATION_NAME", "@", "@", "@", "COMPRESSION", compression.unwrap_or("none")];
        talk.turn(
            &cql(false, 1, 0, &[&[0, 4][..], &options.map(short).concat()].concat()),
            &cql(true, 3, 0, &short("org.@")),
        );
        talk.turn(&cql(false, 15, 0, &long("\0@\0@")), &cql(true, 16, 0, &long("@")));
        talk.turn(&cql(false, 7, flag, &packed(&query)), &cql(true, 8, flag, &packed(&rows)));
        let with_payload = [payload.clone(), query.clone()].concat();
        talk.turn(&cql(false, 7, flag | 4, &packed(&with_payload)), &cql(true, 8, flag | 8, &packed(&warned)));
        talk.turn(
            &cql(false, 9, flag, &packed(&long("SELECT @"))),
            &cql(true, 0, flag, &packed(&[&[0, 0, 0x24, 0][..], &["@", "@"].map(short).concat()].concat())),
        );
        talk.say(
            Side::Response,
            &cql(true, 12, 0, &["SCHEMA_CHANGE", "CREATED", "TABLE", "@", "@"].map(short).concat()),
        );
        is_in_no_copy(&format!("CQL {compression:?}"), &talk);
    }
}

fn zlib(content: &[u8]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(content.len() + 100);
    Compress::new(Compression::new(6), true).compress_vec(content, &mut packed, FlushCompress::Finish).unwrap();
    packed
}

fn string(name: &str, text: &str) -> Vec<u8> {
    let (name, text) = (with(name), with(text));
    [&[2][..], &name, &[0], &(text.len() as u32 + 1).to_le_bytes(), &text, &[0]].concat()
}

fn document(fields: &[Vec<u8>]) -> Vec<u8> {
    let fields = fields.concat();
    [&(fields.len() as u32 + 5).to_le_bytes()[..], &fields, &[0]].concat()
}

fn inside(kind: u8, name: &str, inner: &[u8]) -> Vec<u8> {
    [&[kind][..], &with(name), &[0], inner].concat()
}

fn commands(user: &[u8]) -> [Vec<u8>; 6] {
    [
        document(&[
            string("insert", "@"),
            string("$db", "@"),
            string("comment", "@"),
            inside(4, "documents", &document(&[inside(3, "0", user)])),
        ]),
        document(&[
            string("find", "@"),
            inside(3, "filter", user),
            inside(3, "sort", user),
            inside(3, "let", user),
            string("$db", "@"),
        ]),
        document(&[
            string("aggregate", "@"),
            inside(
                4,
                "pipeline",
                &document(&[inside(3, "0", &document(&[inside(3, "$match", user), string("$out", "@")]))]),
            ),
            string("$db", "@"),
        ]),
        document(&[string("@", "@"), string("@", "@"), string("$db", "@")]),
        document(&[
            string("hello", "@"),
            inside(
                3,
                "client",
                &document(&[inside(3, "application", &document(&[string("name", "@")])), string("platform", "@")]),
            ),
            string("$db", "@"),
        ]),
        document(&[string("saslStart", "@"), string("mechanism", "@"), string("payload", "@"), string("$db", "@")]),
    ]
}

#[test]
fn mongodb() {
    let user = document(&[string("@", "@"), inside(7, "id", b"canary7ZqAB"), inside(11, "r", &with("@\0i\0"))]);
    let failed =
        document(&[inside(1, "ok", &[0; 8]), string("errmsg", "@"), inside(3, "errInfo", &user), string("@", "@")]);
    let wire = |opcode: u32, body: &[u8]| {
        [&(body.len() as u32 + 16).to_le_bytes()[..], &[1, 0, 0, 0, 0, 0, 0, 0], &opcode.to_le_bytes(), body].concat()
    };
    for compressor in 0..=3_u8 {
        let message = |body: &[u8]| {
            let body = [&[0; 5][..], body].concat();
            let packed = match compressor {
                0 => return wire(2013, &body),
                1 => snap::raw::Encoder::new().compress_vec(&body).unwrap(),
                2 => zlib(&body),
                _ => zstd::bulk::compress(&body, 3).unwrap(),
            };
            wire(
                2012,
                &[&2013_u32.to_le_bytes()[..], &(body.len() as u32).to_le_bytes(), &[compressor], &packed].concat(),
            )
        };
        let mut talk = Talk::new(27017);
        for body in &commands(&user) {
            talk.turn(&message(body), &message(&failed));
        }
        is_in_no_copy(&format!("MongoDB, compressor {compressor}"), &talk);
    }
    let mut old = Talk::new(27017);
    old.turn(
        &wire(2004, &[&[0; 4][..], &with("@.@\0"), &[0; 8], &user].concat()),
        &wire(1, &[&[0; 20][..], &user].concat()),
    );
    is_in_no_copy("MongoDB, OP_QUERY", &old);
}

fn packet(number: u8, body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_le_bytes()[..3], &[number], body].concat()
}

fn short(text: &str) -> Vec<u8> {
    [&[with(text).len() as u8][..], &with(text)].concat()
}

fn logged_in(is_compressed: bool) -> Talk {
    let greeting = [
        &b"\x0a8.0.36\0\x01\0\0\0"[..],
        b"12345678\0",
        &[0xff, 0xff, 0x21, 2, 0, 0xff, 0xdf, 21],
        &[0; 10],
        b"123456789012\0caching_sha2_password\0",
    ]
    .concat();
    let attributes = ["_client_name", "libmysql", "@", "@", "program_name", "@", "_os", "@"].map(short).concat();
    let capabilities = 0x01fe_a68d_u32 & !0x20 | 0x0018_0008 | if is_compressed { 0x20 } else { 0 };
    let login = [
        &capabilities.to_le_bytes()[..],
        &[0, 0, 0, 1, 33],
        &[0; 23],
        &with("@\0"),
        &[4, 1, 2, 3, 4],
        &with("@\0"),
        b"mysql_native_password\0",
        &[attributes.len() as u8],
        &attributes,
    ]
    .concat();
    let mut talk = Talk::new(3306);
    talk.say(Side::Response, &packet(0, &greeting)).turn(&packet(1, &login), &packet(2, &[0, 0, 0, 2, 0, 0, 0]));
    talk
}

#[test]
fn mysql() {
    for is_compressed in [false, true] {
        let mut talk = logged_in(is_compressed);
        let wrapped = |packets: Vec<u8>| {
            if !is_compressed {
                return packets;
            }
            let packed = zlib(&packets);
            [&(packed.len() as u32).to_le_bytes()[..3], &[0], &(packets.len() as u32).to_le_bytes()[..3], &packed]
                .concat()
        };
        let error = packet(1, &[&[0xff, 0x28, 4][..], &with("#42000@ near '@'")].concat());
        for statement in [
            "\u{3}SELECT '@' AS `@` FROM `@`.@ -- @\n# @\n/*! @ */",
            "\u{3}@",
            "\u{2}@",
            "\u{5}@",
            "\u{4}@\0@",
            "\u{16}SELECT @, ?",
            "\u{3}SET @@@ = '@'",
        ] {
            talk.turn(&wrapped(packet(0, &with(statement))), &wrapped(error.clone()));
        }
        let column =
            [["def", "@", "@", "@", "@", "@"].map(short).concat(), vec![12, 33, 0, 0, 0, 0, 0, 253, 0, 0, 0, 0, 0]]
                .concat();
        let rows = [
            packet(1, &[1]),
            packet(2, &column),
            packet(3, &[0xfe, 0, 0, 2, 0]),
            packet(4, &short("@")),
            packet(5, &[0xfe, 0, 0, 2, 0]),
        ];
        talk.turn(&wrapped(packet(0, &with("\u{3}SELECT a"))), &wrapped(rows.concat()));
        talk.turn(
            &wrapped(packet(0, &with("\u{3}LOAD DATA LOCAL INFILE '@' INTO TABLE @"))),
            &wrapped(packet(1, &with("\u{fb}@")[1..])),
        );
        is_in_no_copy(&format!("MySQL, compressed: {is_compressed}"), &talk);
    }
}

#[test]
fn memcached_and_http() {
    let mut talk = Talk::new(11211);
    for (request, response) in [
        ("set @ 0 0 9\r\n@\r\n", "STORED\r\n"),
        ("get @ @\r\n", "VALUE @ 0 9\r\n@\r\nEND\r\n"),
        ("stats @ @\r\n", "STAT @ @\r\nEND\r\n"),
        ("mg @ k O@ v q\r\nmn\r\n", "VA 9 k@ O@\r\n@\r\nMN\r\n"),
        ("incr @ 9\r\n", "CLIENT_ERROR @\r\n"),
        ("@ @\r\n", "ERROR\r\n"),
        ("lru_crawler @ @\r\n", "SERVER_ERROR @ @\r\n"),
        ("config get @\r\n", "CONFIG @ 0 9\r\n@\r\nEND\r\n"),
        ("me @\r\n", "ME @ exp=@\r\n"),
    ] {
        talk.turn(&with(request), &with(response));
    }
    is_in_no_copy("memcached", &talk);
    let mut binary = Talk::new(11211);
    let body = [&[0; 8][..], &with("@@")].concat();
    let head = |magic: u8, opcode: u8, extras: u8| {
        [&[magic, opcode, 0, 9, extras, 0, 0, 0, 0, 0, 0, 26][..], b"cana", &[0; 8]].concat()
    };
    binary.turn(&[head(0x80, 1, 8), body.clone()].concat(), &[head(0x81, 1, 8), body].concat());
    binary
        .turn(&[head(0x80, 0x21, 0), with("@@12345678")].concat(), &[head(0x81, 0x21, 0), with("@@12345678")].concat());
    is_in_no_copy("memcached, binary", &binary);
    let mut http = Talk::new(9200);
    let head = "Host: @\r\nAccept: text/@\r\nServer: @\r\nX-@: @\r\nCookie: @=@\r\nAuthorization: Basic @\r\nTransfer-Encoding: chunked\r\nTrailer: @\r\n\r\n";
    let chunks = "9;@=\"@\"\r\n@\r\n0\r\n@: @\r\n\r\n";
    for request in ["GET /@/@?@=@#@", "POST http://@:@@@/@", "@ /@"] {
        let response =
            format!("HTTP/1.1 200 @ @\r\nX-@: @\r\nSet-Cookie: @=@\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
        http.turn(&with(&format!("{request} HTTP/1.1\r\n{head}{chunks}")), &with(&response));
    }
    is_in_no_copy("HTTP", &http);
}

#[test]
fn proxies_tls_and_what_is_not_decoded() {
    let second =
        [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x18"[..], &[10, 9, 9, 9, 10, 9, 9, 8, 1, 2, 3, 4], &[2, 0, 9], CANARY]
            .concat();
    for header in [b"PROXY TCP4 192.168.77.11 192.168.0.1 56324 443\r\n".to_vec(), second] {
        let mut talk = Talk::new(6379);
        talk.turn(&[header, resp("GET @")].concat(), &with("$9\r\n@\r\n"));
        is_in_no_copy("PROXY", &talk);
        let text = copy(&talk).concat();
        assert!(
            !text.windows(10).any(|part| part == b"192.168.77") && !text.windows(4).any(|part| part == [10, 9, 9, 9])
        );
    }
    let name = [&[0, 0, 0, 14, 0, 12, 0, 0, 9][..], CANARY].concat();
    let protocols = [&[0, 16, 0, 12, 0, 10, 9][..], CANARY].concat();
    let ticket = [&[0, 35, 0, 9][..], CANARY].concat();
    let extensions = [name, protocols, ticket].concat();
    let hello =
        [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0], &(extensions.len() as u16).to_be_bytes(), &extensions]
            .concat();
    let hello = [&[1, 0][..], &(hello.len() as u16).to_be_bytes(), &hello].concat();
    let record = |kind: u8, body: &[u8]| [&[kind, 3, 1][..], &(body.len() as u16).to_be_bytes(), body].concat();
    let certificate = [&[11, 0, 0, 15, 0, 0, 12, 0, 0, 9][..], CANARY].concat();
    let mut tls = Talk::new(6379);
    tls.turn(&record(22, &hello), &record(22, &certificate)).turn(&record(23, &with("@@")), &record(21, &with("@")));
    is_in_no_copy("TLS", &tls);
    let mut unknown = Talk::new(9999);
    unknown.turn(&with("@ \u{1}@"), &with("SSH-2.0-@\r\n@"));
    is_in_no_copy("what is not decoded", &unknown);
    let mut padded = Talk::new(6379);
    padded.frames[2].extend(CANARY);
    is_in_no_copy("padding", &padded);
}
