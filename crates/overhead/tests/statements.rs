//! Statements: they add up to their rows, what is shed at the bound is the same however a capture is read, and no user data is
//! in them.

mod queries;

use crate::capture::Capture;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Returns the figures that a row and its statements share, as paths.
fn figures(of_row: bool) -> Vec<String> {
    let mut figures: Vec<String> =
        ["count", "errors", "unanswered", "no_reply", "unsolicited"].map(str::to_owned).into();
    figures.push("latency_ns/count".to_owned());
    for side in ["request", "response"] {
        figures.push(format!("{side}/frames"));
        let total = if of_row { "/total" } else { "" };
        figures.extend(["wire_bytes", "payload_bytes"].map(|sizes| format!("{side}/{sizes}{total}")));
        let accounts = overhead_model::Account::ALL;
        figures.extend(accounts.map(|account| format!("{side}/accounts/{account}")));
    }
    figures
}

fn figure(value: &Value, path: &str) -> u64 {
    value.pointer(&format!("/{path}")).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path} of {value}"))
}

/// Panics if the statements of a row do not add up to it. Returns how many there are.
fn check_sums(record: &Value) -> usize {
    let mut count = 0;
    for row in record["operations"].as_array().unwrap() {
        let statements = row["statements"].as_array().unwrap();
        for (of_row, of_statement) in figures(true).into_iter().zip(figures(false)) {
            let sum: u64 = statements.iter().map(|statement| figure(statement, &of_statement)).sum();
            assert!(
                statements.is_empty() || sum == figure(row, &of_row),
                "{of_row} of {} {}",
                row["protocol"],
                row["name"]
            );
        }
        let sizes: Vec<u64> = statements
            .iter()
            .filter(|statement| statement["text"] != "(other)")
            .map(|statement| figure(statement, "request/wire_bytes") + figure(statement, "response/wire_bytes"))
            .collect();
        assert!(sizes.is_sorted_by(|one, next| one >= next), "{}", row["name"]);
        count += statements.len();
    }
    count
}

#[test]
fn statements_of_every_recorded_session_add_up_to_their_rows() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let mut count = 0;
    for entry in fs::read_dir(fixtures).unwrap() {
        if let Ok(text) = fs::read_to_string(entry.unwrap().path().join("expected.json")) {
            count += check_sums(&serde_json::from_str(&text).unwrap());
        }
    }
    assert!(count > 100, "{count} statements");
}

fn analyze(path: &Path, options: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overhead"));
    command.arg("analyze").arg(path).args(options).env_remove("SSLKEYLOGFILE").output().unwrap()
}

fn record(path: &Path, options: &[&str]) -> Value {
    let output = analyze(path, &[&["--format", "json"], options].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut record: Value = serde_json::from_slice(&output.stdout).unwrap();
    record.as_object_mut().unwrap().remove("observer");
    record
}

/// A name of letters that no other number has.
fn name(mut number: usize) -> String {
    let mut name = String::new();
    for _ in 0..5 {
        name.push_str(["ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu"][number % 10]);
        number /= 10;
    }
    name
}

fn get(key: &str) -> Vec<u8> {
    format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len()).into_bytes()
}

/// So many statements, some of which come all the time; on one connection, two requests wait for their answers again and again.
fn many(statements: usize) -> Capture {
    const HIT: &[u8] = b"$5\r\nvalue\r\n";
    let mut capture = Capture::new(6, 6379);
    for number in 0..statements {
        let connection = number % 5;
        capture.turn(connection, &get(&name(number)), HIT);
        for digit in 0..3 {
            capture.turn(connection, &get(&format!("hot:{digit}")), HIT);
        }
        match number % 4 {
            0 => capture.send(5, true, &[get("cold:1"), get("cold:2")].concat()),
            1 | 2 => capture.send(5, false, HIT),
            _ => capture.turn(5, &get(&name(number % 40)), HIT),
        }
    }
    capture
}

fn statement<'a>(row: &'a Value, text: &str) -> &'a Value {
    row["statements"].as_array().unwrap().iter().find(|statement| statement["text"] == text).unwrap()
}

#[test]
fn beyond_the_bound_the_smallest_are_shed_the_same_with_the_memo_and_without() {
    let folder = tempfile::tempdir().unwrap();
    let path = many(5_000).write(folder.path(), "many.pcap");
    let one = record(&path, &[]);
    check_sums(&one);
    let row = one["operations"].as_array().unwrap().iter().find(|row| row["name"] == "GET").unwrap();
    assert_eq!(row["count"], 5_000 + 15_000 + 2_500 + 1_250);
    let statements = row["statements"].as_array().unwrap();
    assert_eq!((statements.len(), &statements[100]["text"]), (101, &Value::from("(other)")));
    // A statement that stays is exact from when it appeared.
    assert_eq!(statement(row, "GET hot:#")["count"], 15_000);
    assert_eq!(statement(row, "GET cold:#")["count"], 2_500);
    let warnings = one["warnings"].to_string();
    assert!(warnings.contains("more than 4,096 statements at once"), "{warnings}");
    assert_eq!(record(&path, &["--no-memo"]), one);
}

/// The rows of each connection are the same with and without memos, even if statements are shed.
#[test]
fn at_the_bound_each_connection_has_what_is_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = many(5_000).write(folder.path(), "many.pcap");
    let by_connection = |options: &[&str]| {
        let output = analyze(&path, &[&["--by", "connection", "--format", "csv"], options].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().filter(|line| line.contains(",connection,")).map(str::to_owned).collect::<Vec<_>>()
    };
    let with_memo = by_connection(&[]);
    // Two directions of six.
    assert_eq!(with_memo.len(), 12, "{with_memo:#?}");
    assert_eq!(by_connection(&["--no-memo"]), with_memo);
}

#[test]
fn below_the_bound_nothing_is_shed() {
    let folder = tempfile::tempdir().unwrap();
    let mut capture = many(0);
    for number in 0..4_000 {
        for connection in 0..4 {
            capture.turn(connection, &get(&name(number)), b"$-1\r\n");
        }
    }
    let path = capture.write(folder.path(), "below.pcap");
    let one = record(&path, &[]);
    check_sums(&one);
    assert!(!one["warnings"].to_string().contains("statements"), "{}", one["warnings"]);
    let row = &one["operations"][0];
    assert_eq!(row["statements"][0]["count"], 4);
    assert_eq!(statement(row, "(other)")["count"], 4 * 3_900);
}

#[test]
fn without_statements_the_rest_of_the_record_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = many(300).write(folder.path(), "some.pcap");
    let mut with = record(&path, &[]);
    for row in with["operations"].as_array_mut().unwrap() {
        row["statements"] = Value::Array(Vec::new());
    }
    assert_eq!(record(&path, &["--no-statements"]), with);
}

/// A capture's content that must not appear in the output: keys as programs make them, in one piece and in several.
const SECRETS: [&str; 2] = ["q7XzP2vN9sKd8LwTb4Rm", "sk-live_51Hq8ZkLmNp4R-xY7wQ"];

/// Conversations that hold a secret wherever there is room for one.
fn with_secret(secret: &str) -> Vec<Capture> {
    let bulk = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        format!("*{}\r\n{}", words.len(), words.concat()).into_bytes()
    };
    let mut resp = Capture::new(1, 6379);
    resp.turn(0, &bulk(&["AUTH", secret]), b"+OK\r\n");
    resp.turn(0, &bulk(&["HELLO", "3", "AUTH", "user", secret]), b"+OK\r\n");
    resp.turn(0, &bulk(&["SET", secret, secret, "EX", secret]), b"+OK\r\n");
    resp.turn(0, &bulk(&["MGET", &format!("session:{secret}"), "a:1", secret]), b"*3\r\n$-1\r\n$-1\r\n$-1\r\n");
    resp.turn(0, &bulk(&["HSET", &format!("u:{secret}:x"), secret, secret]), b":1\r\n");
    resp.turn(0, format!("GET {secret}\r\n").as_bytes(), format!("${}\r\n{secret}\r\n", secret.len()).as_bytes());
    resp.turn(0, &bulk(&["XREAD", "STREAMS", secret, "a:1", secret, "0"]), b"*-1\r\n");
    resp.turn(0, &bulk(&["ZUNIONSTORE", secret, "2", secret, "b"]), b":1\r\n");
    resp.turn(0, &bulk(&["MIGRATE", secret, "1", "", "0", "9", "AUTH", secret, "KEYS", secret, secret]), b"+OK\r\n");
    resp.turn(0, &bulk(&["SORT", secret, "BY", secret, "GET", secret, "STORE", secret]), b":1\r\n");
    resp.turn(0, &bulk(&["FCALL", secret, "1", secret, secret]), b"+OK\r\n");
    resp.turn(0, &bulk(&["FT.SEARCH", "idx", &format!("@name:{secret}")]), b"*1\r\n:0\r\n");
    resp.turn(0, &bulk(&["CLIENT", secret, secret]), b"-ERR\r\n");
    resp.turn(0, &bulk(&["CONFIG", "SET", "requirepass", secret]), b"+OK\r\n");
    resp.turn(0, &bulk(&["PUBLISH", secret, secret]), b":0\r\n");
    resp.turn(0, &bulk(&[secret, secret]), b"-ERR\r\n");
    resp.turn(0, format!("{secret} {secret}\r\n").as_bytes(), b"-ERR\r\n");
    resp.turn(0, &bulk(&["EVAL", &format!("return '{secret}'"), "1", secret]), format!("-ERR {secret}\r\n").as_bytes());
    let mut memcached = Capture::new(1, 11211);
    let set = format!("set {secret} 0 0 {}\r\n{secret}\r\n", secret.len());
    memcached.turn(0, set.as_bytes(), b"STORED\r\n");
    memcached.turn(0, format!("get a:{secret} b\r\n").as_bytes(), b"END\r\n");
    memcached.turn(0, format!("mg {secret} O{secret} v\r\n").as_bytes(), b"EN\r\n");
    memcached.turn(0, format!("delete {secret}\r\n").as_bytes(), format!("SERVER_ERROR {secret}\r\n").as_bytes());
    let base64 = BASE64_STANDARD.encode(secret);
    memcached.turn(0, format!("mg {base64} b k v\r\n").as_bytes(), format!("VA 1 k{base64} b\r\nx\r\n").as_bytes());
    memcached.turn(0, format!("ms {base64} {} b O{secret}\r\n{secret}\r\n", secret.len()).as_bytes(), b"HD\r\n");
    memcached.turn(0, format!("{secret} {secret}\r\n").as_bytes(), b"ERROR\r\n");
    let mut http = Capture::new(1, 80);
    let head = format!(
        "POST /login/{secret}/x?token={secret}&{secret}=1 HTTP/1.1\r\nHost: a\r\nCookie: id={secret}\r\n\
         Authorization: Bearer {secret}\r\nX-Key: {secret}\r\nContent-Length: {}\r\n\r\n{secret}",
        secret.len()
    );
    let answer = format!("HTTP/1.1 200 OK\r\nSet-Cookie: {secret}\r\nContent-Length: {}\r\n\r\n{secret}", secret.len());
    http.turn(0, head.as_bytes(), answer.as_bytes());
    for request in [
        "GET /@",
        "GET http://user:@@host/@?@",
        "GET /a%20@/@;x=@#@",
        "REPORT /x/@",
        "PATCH /a/@.json?q[@]=@",
        "OPTIONS @",
    ] {
        let request = request.replace('@', secret);
        let head = format!("{request} HTTP/1.1\r\nHost: {secret}.example\r\n{secret}: {secret}\r\n\r\n");
        http.turn(0, head.as_bytes(), format!("HTTP/1.1 404 {secret}\r\nContent-Length: 0\r\n\r\n").as_bytes());
    }
    let mut ssdb = Capture::new(1, 8888);
    let block = |text: &str| format!("{}\n{text}\n", text.len());
    let set = ["set", secret, secret].map(block).concat() + "\n";
    let auth = ["auth", secret].map(block).concat() + "\n";
    ssdb.turn(0, auth.as_bytes(), b"2\nok\n\n");
    ssdb.turn(0, set.as_bytes(), b"2\nok\n1\n1\n\n");
    vec![resp, memcached, http, ssdb]
}

#[test]
fn no_secret_is_in_what_is_said_of_a_capture() {
    let folder = tempfile::tempdir().unwrap();
    for secret in SECRETS {
        let captures = with_secret(secret).into_iter().chain(queries::with_secret(secret));
        for (number, capture) in captures.enumerate() {
            let path = capture.write(folder.path(), &format!("{number}.pcap"));
            let options: &[&str] = if number == 3 { &["--db", "ssdb", "--port", "8888"] } else { &[] };
            let run = record(&path, options);
            check_sums(&run);
            let texts = run["operations"].to_string().matches("\"text\"").count();
            assert!(texts > 0, "no statement in {run}");
            let forms = [queries::hexadecimal(secret), BASE64_STANDARD.encode(secret), secret.to_uppercase()];
            let parts = secret.split('-').filter(|part| part.len() > 3).chain([secret]);
            let parts: Vec<&str> = parts.chain(forms.iter().map(String::as_str)).collect();
            let check = |what: &str, said: &str| {
                for part in &parts {
                    assert!(!said.contains(part), "{part} in {what} of capture {number}:\n{said}");
                }
            };
            for (what, said) in all_that_is_said(&path, options) {
                check(&what, &said);
            }
            for statement in statements(&run) {
                let words = [&["--format", "json", "--statement", &statement], options].concat();
                let output = overhead("explain", &path, &words);
                // The bytes of its frames are what was asked for; what the operation is called is ours.
                let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
                check("explain", &format!("{}{}", said["operation"], String::from_utf8_lossy(&output.stderr)));
            }
        }
    }
}

/// Texts of all statements of a record.
fn statements(run: &Value) -> Vec<String> {
    let rows = run["operations"].as_array().unwrap().iter();
    let statements = rows.flat_map(|row| row["statements"].as_array().unwrap());
    statements.filter_map(|statement| statement["text"].as_str()).map(str::to_owned).collect()
}

fn overhead(verb: &str, path: &Path, options: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overhead"));
    command.arg(verb).arg(path).args(options).env_remove("SSLKEYLOGFILE").output().unwrap()
}

/// Returns the output of every verb that prints from a capture, with the request that produced it.
fn all_that_is_said(path: &Path, options: &[&str]) -> Vec<(String, String)> {
    let mut asked: Vec<(&str, Vec<&str>)> = Vec::new();
    for format in ["json", "table", "csv", "markdown"] {
        asked.push(("analyze", vec!["--fields", "--format", format]));
        asked.push(("analyze", vec!["--by", "statement", "--format", format]));
    }
    asked.extend(["json", "table", "markdown"].map(|format| ("advise", vec!["--format", format])));
    asked.push(("analyze", vec!["--by", "statement", "--wide"]));
    asked.push(("analyze", vec!["--by", "connection", "--wide"]));
    let mut said: Vec<(String, String)> = Vec::new();
    for (verb, words) in asked {
        let output = overhead(verb, path, &[&words, options].concat());
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        said.push((format!("{verb} {}", words.join(" ")), text));
    }
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let (budget, drawn) = (file("budget.toml"), file("drawn"));
    let (budget_text, drawn_text) = (budget.to_str().unwrap(), drawn.to_str().unwrap());
    let mut ask = |what: &str, words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_overhead"));
        let output = command.args(words).args(options).arg(path).env_remove("SSLKEYLOGFILE").output().unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        said.push((what.to_owned(), text));
    };
    ask("check --write", &["check", "--write", budget_text]);
    ask("check", &["check", budget_text]);
    ask("compare", &["compare", path.to_str().unwrap()]);
    ask("report", &["report", "-o", drawn_text]);
    for written in fs::read_dir(&drawn).into_iter().flatten().map(|entry| entry.unwrap().path()).chain([budget]) {
        let bytes = fs::read(&written).unwrap_or_else(|error| panic!("{}: {error}", written.display()));
        said.push((written.display().to_string(), String::from_utf8_lossy(&bytes).into_owned()));
    }
    said
}
