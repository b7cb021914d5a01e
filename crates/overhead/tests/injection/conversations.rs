//! Conversations of all protocols that hold outside text wherever a name can stand.

use crate::capture::Capture;

/// Returns a capture for each protocol, with its name; each of the texts is in it in several places.
pub fn of_all_protocols(texts: &[String]) -> Vec<(&'static str, Capture)> {
    let inline: Vec<String> = texts.iter().map(|text| text.replace(|c: char| c.is_ascii_whitespace(), "_")).collect();
    let captures =
        [resp(texts), postgres(texts), cql(texts), mongo(texts), mysql(texts), memcached(&inline), ssdb(texts)];
    let names = ["redis", "postgres", "cassandra", "mongodb", "mysql", "memcached", "ssdb"];
    names.into_iter().zip(captures).chain([("http", http(&inline))]).collect()
}

fn resp(texts: &[String]) -> Capture {
    let bulk = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        format!("*{}\r\n{}", words.len(), words.concat()).into_bytes()
    };
    let mut capture = Capture::new(texts.len(), 6379);
    for (at, text) in texts.iter().enumerate() {
        let hello = bulk(&["server", text, "version", text]);
        capture.turn(at, &bulk(&["HELLO", "3", "AUTH", text, "x", "SETNAME", text]), &hello);
        capture.turn(at, &bulk(&["CLIENT", "SETINFO", "LIB-NAME", text]), b"+OK\r\n");
        capture.turn(at, &bulk(&["GET", text]), b"$1\r\nx\r\n");
        capture.turn(at, &bulk(&["GET", &format!("user:{text}:1")]), b"$1\r\nx\r\n");
        capture.turn(at, &bulk(&[text, text]), format!("-{text}\r\n").as_bytes());
    }
    capture
}

fn postgres(texts: &[String]) -> Capture {
    let message = |kind: u8, inside: &[u8]| [&[kind][..], &(inside.len() as u32 + 4).to_be_bytes(), inside].concat();
    let ready = message(b'Z', b"I");
    let mut capture = Capture::new(texts.len(), 5432);
    for (at, text) in texts.iter().enumerate() {
        let inside = format!("\0\x03\0\0user\0{text}\0database\0{text}\0application_name\0{text}\0\0");
        let startup = [&(inside.len() as u32 + 4).to_be_bytes()[..], inside.as_bytes()].concat();
        let version = message(b'S', format!("server_version\0{text}\0").as_bytes());
        capture.turn(at, &startup, &[message(b'R', &[0; 4]), version, ready.clone()].concat());
        for statement in
            [format!("SELECT \"{text}\" FROM \"{text}\""), format!("{text} {text}"), format!("SET {text} = 1")]
        {
            let error = message(b'E', format!("SERROR\0C42601\0M{text}\0\0").as_bytes());
            capture.turn(at, &message(b'Q', format!("{statement}\0").as_bytes()), &[error, ready.clone()].concat());
        }
    }
    capture
}

fn cql(texts: &[String]) -> Capture {
    let message = |version: u8, opcode: u8, body: &[u8]| {
        [&[version, 0, 0, 1, opcode][..], &(body.len() as u32).to_be_bytes(), body].concat()
    };
    let short = |text: &str| [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat();
    let long = |text: &str| [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat();
    let mut capture = Capture::new(texts.len(), 9042);
    for (at, text) in texts.iter().enumerate() {
        let options = ["CQL_VERSION", "3.0.0", "DRIVER_NAME", text, "DRIVER_VERSION", text].map(short).concat();
        capture.turn(at, &message(4, 1, &[&[0, 3], options.as_slice()].concat()), &message(0x84, 2, b""));
        for statement in
            [format!("SELECT \"{text}\" FROM \"{text}\".t"), format!("{text} x"), format!("USE \"{text}\"")]
        {
            let error = message(0x84, 0, &[&0x2200_u32.to_be_bytes()[..], &short(text)].concat());
            capture.turn(at, &message(4, 7, &[long(&statement), vec![0, 1, 0]].concat()), &error);
        }
    }
    capture
}

/// A BSON document of these elements.
fn document(elements: &[Vec<u8>]) -> Vec<u8> {
    let inside = elements.concat();
    [&(inside.len() as u32 + 5).to_le_bytes()[..], &inside, &[0]].concat()
}

fn string(name: &str, value: &str) -> Vec<u8> {
    [&[2][..], name.as_bytes(), &[0], &(value.len() as u32 + 1).to_le_bytes(), value.as_bytes(), &[0]].concat()
}

fn nested(name: &str, elements: &[Vec<u8>]) -> Vec<u8> {
    [&[3][..], name.as_bytes(), &[0], &document(elements)].concat()
}

fn mongo(texts: &[String]) -> Capture {
    let message = |id: u32, to: u32, elements: &[Vec<u8>]| {
        let body = [&[0; 5][..], &document(elements)].concat();
        [[body.len() as u32 + 16, id, to, 2013].map(u32::to_le_bytes).concat(), body].concat()
    };
    let mut capture = Capture::new(texts.len(), 27017);
    for (at, text) in texts.iter().enumerate() {
        let names = [string("name", text), string("version", text)];
        let client = nested("client", &[nested("application", &names[..1]), nested("driver", &names)]);
        let commands = [
            vec![[&[16][..], b"hello\0", &1_u32.to_le_bytes()].concat(), client],
            vec![string("find", text), nested("filter", &[string(text, text)])],
            vec![string(text, text)],
        ];
        for (number, command) in (1..).zip(commands) {
            let answer =
                [[&[1][..], b"ok\0", &0_f64.to_le_bytes()].concat(), string("errmsg", text), string("version", text)];
            let command = [command, vec![string("$db", text)]].concat();
            capture.turn(at, &message(number, 0, &command), &message(number + 100, number, &answer));
        }
    }
    capture
}

fn mysql(texts: &[String]) -> Capture {
    let packet =
        |sequence: u8, payload: &[u8]| [&(payload.len() as u32).to_le_bytes()[..3], &[sequence], payload].concat();
    let mut capture = Capture::new(texts.len(), 3306);
    for (at, text) in texts.iter().enumerate() {
        let version = [&[10][..], text.as_bytes(), b"\0\x0b\0\0\0abcdefgh\0\xff\xff\xff\x02\0\xff\xdf\x15"].concat();
        let greeting = [&version[..], &[0; 10], b"abcdefghijkl\0mysql_native_password\0"].concat();
        capture.send(at, false, &packet(0, &greeting));
        let login = [&b"\x05\xa2\x3a\0\0\0\0\x01\x21"[..], &[0; 23], text.as_bytes(), b"\0\0"].concat();
        let ok = packet(2, &[0, 0, 0, 2, 0, 0, 0]);
        capture.turn(at, &packet(1, &login), &ok);
        for statement in [format!("SELECT `{text}` FROM `{text}`"), format!("{text} {text}")] {
            let error = packet(1, &[&b"\xff\x28\x04#42000"[..], text.as_bytes()].concat());
            capture.turn(at, &packet(0, &[b"\x03", statement.as_bytes()].concat()), &error);
        }
    }
    capture
}

fn memcached(texts: &[String]) -> Capture {
    let mut capture = Capture::new(texts.len(), 11211);
    for (at, text) in texts.iter().enumerate() {
        capture.turn(at, b"version\r\n", format!("VERSION {text}\r\n").as_bytes());
        capture.turn(at, format!("get user:{text}\r\n").as_bytes(), b"END\r\n");
        capture.turn(at, format!("delete {text}\r\n").as_bytes(), format!("SERVER_ERROR {text}\r\n").as_bytes());
        capture.turn(at, format!("stats {text}\r\n").as_bytes(), b"RESET\r\n");
    }
    capture
}

fn ssdb(texts: &[String]) -> Capture {
    let block = |text: &str| format!("{}\n{text}\n", text.len());
    let mut capture = Capture::new(texts.len(), 8888);
    for (at, text) in texts.iter().enumerate() {
        for words in [["get", text], [text, text], ["hget", text]] {
            let answer = ["error", text].map(block).concat() + "\n";
            capture.turn(at, (words.map(block).concat() + "\n").as_bytes(), answer.as_bytes());
        }
    }
    capture
}

fn http(texts: &[String]) -> Capture {
    let mut capture = Capture::new(texts.len(), 80);
    for (at, text) in texts.iter().enumerate() {
        for target in [format!("/{text}/x"), format!("http://{text}/?{text}"), format!("/a/{text}.json")] {
            let request = format!("GET {target} HTTP/1.1\r\nHost: {text}\r\nUser-Agent: {text}\r\n\r\n");
            let answer = format!("HTTP/1.1 404 {text}\r\nServer: {text}\r\nContent-Length: 0\r\n\r\n");
            capture.turn(at, request.as_bytes(), answer.as_bytes());
        }
    }
    capture
}
