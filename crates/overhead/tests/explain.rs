//! Explanations of recorded sessions: they add up to the ledger, and they are what the documents show.

#[path = "../../dissect/tests/common/mod.rs"]
mod common;
#[path = "../../dissect/tests/common/explained.rs"]
mod explained;

use common::Talk;
use explained::{Stored, check};
use overhead_capture::{FileSource, FrameSource, NextFrame};
use overhead_dissect::explain::ExplainedOperation;
use overhead_dissect::{KeyLog, Selection};
use overhead_model::Side::{Request, Response};
use overhead_model::{Account, LinkType, Protocol, System};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The recorded sessions, with the options that belong to them.
fn fixtures() -> Vec<(PathBuf, Vec<String>)> {
    let folders = std::fs::read_dir(root().join("fixtures")).unwrap().map(|entry| entry.unwrap().path());
    let mut cases: Vec<PathBuf> = folders.filter(|case| case.join("args").is_file()).collect();
    cases.sort();
    let args = |case: &PathBuf| std::fs::read_to_string(case.join("args")).unwrap();
    cases.into_iter().map(|case| (case.clone(), args(&case).split_whitespace().map(str::to_owned).collect())).collect()
}

fn capture(case: &Path) -> PathBuf {
    let [pcap, pcapng] = ["capture.pcap", "capture.pcapng"].map(|name| case.join(name));
    if pcap.is_file() { pcap } else { pcapng }
}

/// The frames of a file; its secrets go to `keys`.
fn frames(file: &Path, keys: &KeyLog) -> Vec<Stored> {
    let mut source = FileSource::open(file).unwrap();
    let secrets = source.secrets();
    let mut frames = Vec::new();
    while let NextFrame::Frame(frame) = source.next_frame().unwrap() {
        let (time_ns, link, original_len) = (frame.time_ns, frame.link, frame.original_len);
        frames.push(Stored { time_ns, link, original_len, bytes: frame.bytes.to_vec() });
    }
    keys.add(&secrets.take());
    frames
}

fn option<'a>(args: &'a [String], flag: &str) -> Option<&'a String> {
    args.iter().skip_while(|arg| *arg != flag).nth(1)
}

/// The secrets that a fixture names.
fn keys(case: &Path, args: &[String]) -> Arc<KeyLog> {
    let keys = Arc::<KeyLog>::default();
    if let Some(file) = option(args, "--keylog") {
        assert!(keys.add(&std::fs::read(case.join(file)).unwrap()) > 0, "{}", case.display());
    }
    keys
}

/// Returns the selection made by a fixture's `--db` and `--port`.
fn selection(args: &[String]) -> Selection {
    let of = |flag: &str| option(args, flag);
    let protocols = of("--db").map_or(Protocol::ALL.to_vec(), |db| vec![System::named(db).unwrap().protocol]);
    let ports = of("--port").map(|port| (port.parse().unwrap(), protocols)).into_iter().collect();
    Selection { ports, ..Selection::default() }
}

#[test]
fn every_operation_of_every_fixture_adds_up_to_the_ledger() {
    let mut operations = 0;
    for (case, args) in fixtures() {
        let keys = keys(&case, &args);
        let all = check(&frames(&capture(&case), &keys), &selection(&args), &keys);
        assert!(!all.is_empty(), "{}", case.display());
        operations += all.len();
    }
    assert!(operations > 100, "{operations}");
}

/// Runs `overhead explain` in `dir`.
fn overhead(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_overhead")).arg("explain").args(args).current_dir(dir).output().unwrap()
}

fn printed(dir: &Path, args: &[&str]) -> String {
    let output = overhead(dir, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Fails with `status` and a line on standard error that has all the `words`.
#[track_caller]
fn refuses(args: &[&str], status: i32, words: &[&str]) {
    let output = overhead(&root(), args);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(status), "{args:?}: {text}");
    assert!(output.stdout.is_empty());
    for word in words {
        assert!(text.contains(word), "{args:?}: `{word}` is not in: {text}");
    }
}

const REDIS: [&str; 5] = ["fixtures/redis-get-set/capture.pcap", "--db", "redis", "--port", "7379"];

fn redis<'a>(more: &[&'a str]) -> Vec<&'a str> {
    REDIS.iter().copied().chain(more.iter().copied()).collect()
}

#[test]
fn what_is_not_there_is_answered_by_what_is() {
    refuses(&redis(&["--op", "100000"]), 1, &["no operation 100000", "there are 107"]);
    refuses(&redis(&["--name", "HGETALL"]), 1, &["no operation named HGETALL", "GET (50)", "CONNECT (5)"]);
    refuses(&redis(&["--name", "get", "--nth", "51"]), 1, &["--nth 51", "there are 50"]);
    refuses(&redis(&["--first", "error"]), 1, &["no operation of kind error"]);
    refuses(&redis(&["--op", "3", "--name", "GET"]), 2, &["--op", "--name"]);
    refuses(&["-"], 2, &["three times"]);
}

#[test]
fn colour_is_for_terminals_and_for_those_who_ask() {
    let args = redis(&["--name", "GET"]);
    let plain = printed(&root(), &args);
    assert!(!plain.contains('\x1b'));
    let colored = printed(&root(), &redis(&["--name", "GET", "--color", "always"]));
    assert!(colored.contains("\x1b[33m") && colored.contains("\x1b[90m"), "{colored}");
    let mut stripped = String::new();
    for (index, text) in colored.split("\x1b[").enumerate() {
        stripped.push_str(if index == 0 { text } else { text.split_once('m').unwrap().1 });
    }
    assert_eq!(stripped.lines().map(str::trim_end).collect::<Vec<_>>(), plain.lines().collect::<Vec<_>>());
}

#[test]
fn the_document_says_the_same_as_the_text() {
    let document: Value =
        serde_json::from_str(&printed(&root(), &redis(&["--name", "GET", "--format", "json"]))).unwrap();
    assert_eq!(document["balanced"], true);
    assert_eq!(document["operation"]["name"], "GET");
    let number = document["operation"]["number"].to_string();
    let again = printed(&root(), &redis(&["--op", &number, "--format", "json"]));
    assert_eq!(serde_json::from_str::<Value>(&again).unwrap(), document);
    for side in ["request", "response"] {
        let sum = |value: &Value| value.as_object().unwrap().values().map(|bytes| bytes.as_u64().unwrap()).sum::<u64>();
        let frames: Vec<&Value> =
            document["frames"].as_array().unwrap().iter().filter(|frame| frame["side"] == side).collect();
        let shares: u64 = frames.iter().map(|frame| sum(&frame["shares"])).sum();
        let fields = frames.iter().flat_map(|frame| frame["payload"].as_array().unwrap());
        let payload: u64 = fields.filter_map(|field| field["length"].as_u64()).sum();
        assert_eq!(shares + payload, sum(&document["accounts"][side]), "{side}");
    }
    let text = printed(&root(), &redis(&["--op", &number]));
    assert!(text.starts_with(&format!("operation {number} of 107: GET (array), workload, ok")), "{text}");
}

#[test]
fn what_was_decrypted_is_shown_in_clear() {
    for (case, keylog) in [("redis-tls13", Some("keys.log")), ("redis-tls12-embedded", None)] {
        let folder = root().join("fixtures").join(case);
        let file = capture(&folder);
        let args = [file.to_str().unwrap(), "--db", "redis", "--port", "7379", "--name", "GET", "--format", "json"];
        let keylog = keylog.map(|file| ["--keylog", file]);
        let args: Vec<&str> = args.into_iter().chain(keylog.into_iter().flatten()).collect();
        let document: Value = serde_json::from_str(&printed(&folder, &args)).unwrap();
        let payload =
            document["frames"].as_array().unwrap().iter().flat_map(|frame| frame["payload"].as_array().unwrap());
        let fields: Vec<&Value> = payload.collect();
        let command = fields.iter().find(|field| field["field"] == "command").expect(case);
        assert_eq!((&command["hex"], &command["decrypted"]), (&"474554".into(), &true.into()), "{case}");
        let header = fields.iter().find(|field| field["field"] == "record type").expect(case);
        assert_eq!((&header["hex"], &header["decrypted"]), (&"17".into(), &Value::Null), "{case}");
    }
}

#[test]
fn long_fields_are_folded_unless_all_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let value = [b"$1000\r\n".as_slice(), &[b'v'; 1000], b"\r\n"].concat();
    let talk = Talk::new().handshake().send(Request, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n").send(Response, &value);
    std::fs::write(dir.path().join("long.pcap"), pcap(&talk, 6379)).unwrap();
    let folded = printed(dir.path(), &["long.pcap"]);
    assert!(folded.contains("… 936 more bytes"), "{folded}");
    let full = printed(dir.path(), &["long.pcap", "--full"]);
    assert!(!full.contains('…') && full.contains("\n  03e7  76"), "{full}");
    std::fs::write(dir.path().join("snapped.pcap"), pcap(&talk.snapped(100), 6379)).unwrap();
    let output = overhead(dir.path(), &["snapped.pcap"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8(output.stdout).unwrap().contains("(not captured: snapped)"));
    assert!(String::from_utf8(output.stderr).unwrap().contains("were not captured"));
}

#[test]
fn a_long_explanation_starts_with_its_largest_fields() {
    let dir = tempfile::tempdir().unwrap();
    let answer = [b"*200\r\n".as_slice(), &b"$5\r\nvalue\r\n".repeat(200)].concat();
    let talk = Talk::new().handshake().send(Request, b"*2\r\n$4\r\nKEYS\r\n$1\r\n*\r\n").send(Response, &answer);
    std::fs::write(dir.path().join("keys.pcap"), pcap(&talk, 6379)).unwrap();
    let folded = printed(dir.path(), &["keys.pcap", "1"]);
    let at = |text: &str| folded.find(text).unwrap_or_else(|| panic!("no {text}: {folded}"));
    assert!(at("fields with the most bytes") < at("\nframe ") && folded.contains("more lines: --full shows them"));
    assert!(folded.lines().count() < 100, "{folded}");
    let full = printed(dir.path(), &["keys.pcap", "#1", "--full"]);
    assert!(full.lines().count() > 400 && !full.contains("fields with the most bytes"), "{full}");
}

/// A capture file of a conversation, with the server on `port`.
fn pcap(talk: &Talk, port: u16) -> Vec<u8> {
    let mut file: Vec<u8> = [0xA1B2_3C4D_u32, 0x0004_0002, 0, 0, 262_144, 1].map(u32::to_le_bytes).concat();
    for frame in &talk.frames {
        let ns = frame.time_ns * 50;
        let (seconds, ns) = ((ns / 1_000_000_000) as u32, (ns % 1_000_000_000) as u32);
        file.extend([seconds, ns, frame.bytes.len() as u32, frame.original_len].map(u32::to_le_bytes).concat());
        let mut bytes = frame.bytes.clone();
        for at in [34, 36] {
            if bytes[at..at + 2] == 6379_u16.to_be_bytes() {
                bytes[at..at + 2].copy_from_slice(&port.to_be_bytes());
            }
        }
        file.extend(bytes);
    }
    file
}

/// A `SELECT` of CQL v4: one bound value, one row.
fn cql() -> Talk {
    let message = |version: u8, stream: i16, opcode: u8, body: &[u8]| {
        let len = (body.len() as u32).to_be_bytes();
        [&[version, 0], stream.to_be_bytes().as_slice(), &[opcode], &len, body].concat()
    };
    let text = b"SELECT name FROM shop.users WHERE id = ?";
    let values = [0, 6, 5, 0, 1, 0, 0, 0, 4, 0, 0, 0, 42, 0, 0, 0, 100];
    let query = [&(text.len() as u32).to_be_bytes(), text.as_slice(), &values].concat();
    let columns = b"\0\0\0\x02\0\0\0\x01\0\0\0\x01\0\x04shop\0\x05users\0\x04name\0\x0d";
    let rows = [columns.as_slice(), b"\0\0\0\x01\0\0\0\x05Alice"].concat();
    Talk::new()
        .handshake()
        .send(Request, &message(4, 0, 1, b"\0\x01\0\x0bCQL_VERSION\0\x053.0.0"))
        .send(Response, &message(0x84, 0, 2, &[]))
        .send(Request, &message(4, 1, 7, &query))
        .send(Response, &message(0x84, 1, 8, &rows))
        .ack(Request)
}

/// A `find` of MongoDB's `OP_MSG`, and its cursor.
fn mongo() -> Talk {
    let document = |elements: &[&[u8]]| {
        let elements = elements.concat();
        [&(elements.len() as u32 + 5).to_le_bytes(), elements.as_slice(), &[0]].concat()
    };
    let message = |id: u32, to: u32, document: &[u8]| {
        let header = [document.len() as u32 + 21, id, to, 2013, 0].map(u32::to_le_bytes).concat();
        [header.as_slice(), &[0], document].concat()
    };
    let filter = document(&[b"\x10_id\0\x2a\0\0\0"]);
    let find = [b"\x02find\0\x06\0\0\0users\0".as_slice(), b"\x03filter\0", &filter, b"\x10limit\0\x01\0\0\0"].concat();
    let find = document(&[&find, b"\x02$db\0\x05\0\0\0shop\0"]);
    let user = document(&[b"\x10_id\0\x2a\0\0\0", b"\x02name\0\x06\0\0\0Alice\0"]);
    let batch = document(&[b"\x030\0", &user]);
    let cursor =
        document(&[b"\x04firstBatch\0", &batch, b"\x12id\0\0\0\0\0\0\0\0\0", b"\x02ns\0\x0b\0\0\0shop.users\0"]);
    let reply = document(&[b"\x03cursor\0", &cursor, b"\x01ok\0\0\0\0\0\0\0\xf0\x3f"]);
    Talk::new().handshake().send(Request, &message(1, 0, &find)).send(Response, &message(2, 1, &reply)).ack(Request)
}

/// A document with what stands between the markers replaced by what the command in the first marker prints.
fn regenerated(document: &str, made: &Path) -> String {
    let mut out = String::new();
    let mut rest = document;
    while let Some((before, after)) = rest.split_once("<!-- generated by: overhead explain ") {
        let (command, after) = after.split_once(" -->").expect("a marker ends on its line");
        let (_, after) = after.split_once("<!-- end of generated -->").expect("a generated part has an end");
        let args: Vec<&str> = command.split_whitespace().collect();
        let dir = if made.join(args[0]).is_file() { made.to_owned() } else { root() };
        let printed = printed(&dir, &args);
        out.extend([before, "<!-- generated by: overhead explain ", command, " -->\n\n"]);
        out.extend(["```\n$ overhead explain ", command, "\n", &printed, "```\n\n<!-- end of generated -->"]);
        rest = after;
    }
    out + rest
}

/// With `OVERHEAD_BLESS=1` the documents are written instead of compared.
#[test]
fn the_documents_show_what_the_program_prints() {
    let made = tempfile::tempdir().unwrap();
    std::fs::write(made.path().join("cql.pcap"), pcap(&cql(), 9042)).unwrap();
    std::fs::write(made.path().join("mongo.pcap"), pcap(&mongo(), 27017)).unwrap();
    for (name, least) in [("docs/explain.md", 4), ("docs/figures.md", 1)] {
        let document = std::fs::read_to_string(root().join(name)).unwrap();
        let wanted = regenerated(&document, made.path());
        assert!(wanted.matches("<!-- end of generated -->").count() >= least, "{name} has lost its markers");
        if std::env::var_os("OVERHEAD_BLESS").is_some() {
            std::fs::write(root().join(name), wanted).unwrap();
        } else {
            assert!(document == wanted, "{name} is not what the program prints: make bless, and read the difference");
        }
    }
}

#[test]
fn conversations_made_for_the_documents_are_understood() {
    for (talk, protocol) in [(cql(), Protocol::Cql), (mongo(), Protocol::Mongo)] {
        let store = |frame: &common::Captured| Stored {
            time_ns: frame.time_ns,
            link: LinkType::ETHERNET,
            original_len: frame.original_len,
            bytes: frame.bytes.clone(),
        };
        let frames: Vec<Stored> = talk.frames.iter().map(store).collect();
        let all =
            check(&frames, &Selection { ports: vec![(6379, vec![protocol])], ..Selection::default() }, &Arc::default());
        let unknown =
            |explained: &ExplainedOperation| explained.amounts.iter().map(|side| side[Account::Unknown]).sum::<u64>();
        assert_eq!(all.iter().map(|(_, explained)| unknown(explained)).sum::<u64>(), 0, "{protocol}");
    }
}

#[test]
fn a_number_stands_for_the_statement_that_the_table_gives_it_to() {
    let folder = root().join("fixtures/redis-session");
    let overhead = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_overhead")).current_dir(&folder).args(words).output().unwrap();
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let file = ["capture.pcap", "--db", "redis", "--port", "7379"];
    let with = |verb: &'static str, more: &[&'static str]| overhead(&[&[verb], &file[..], more].concat());
    let (_, table) = with("analyze", &["--sort", "count", "--wide"]);
    assert!(table.lines().any(|line| line.starts_with("#4 ") && line.contains("SET key:#")), "{table}");
    let (status, explained) = with("explain", &["#4"]);
    assert!(status == Some(0) && explained.contains(": SET (array)"), "{explained}");
    assert_eq!(with("explain", &["--statement", "#4"]).1, explained);
    assert_eq!(with("explain", &["4"]).1, explained);
    let (_, first) = with("explain", &["--name", "SET", "--statement", "SET key:#"]);
    assert_eq!(with("explain", &["#4", "--nth", "1"]).1, first);
    let titles: Vec<&str> = explained.lines().filter(|line| line.ends_with(" bytes on the wire")).collect();
    assert!(
        matches!(titles[..], [median, largest] if median.starts_with("median of ") && largest.starts_with("largest of ")),
        "{titles:?}"
    );
    let (status, said) = with("explain", &["--statement", "HSET none"]);
    assert!(status == Some(1) && said.contains("choose one of these, by its number or text: #1 "), "{said}");
    assert_eq!(with("advise", &["#4"]).0, Some(0));
    for wrong in ["#0", "#11", "four"] {
        let (status, said) = with("explain", &[wrong]);
        assert!(status == Some(2) && said.contains(wrong), "{said}");
    }
}
