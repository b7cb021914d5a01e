//! PostgreSQL's protocol, version 3.

use super::super::words::Words;
use super::{Pair, join};

pub(super) fn make(kind: u8, lengths: u8, words: &mut Words) -> Pair {
    let more = usize::from(lengths);
    match kind {
        0 => startup(),
        1 => (select(more, words), [row_description(23), row(more, words), complete("SELECT 1", b'I')].concat()),
        2 => unnamed(more, words),
        3 => named(more),
        4 => execute(more, words),
        5 => (query(&format!("SELECT nosuch {}", words.digits(3))), [error(more, words), ready(b'I')].concat()),
        6 => (query("BEGIN"), complete("BEGIN", b'T')),
        7 => (query("COMMIT"), complete("COMMIT", b'I')),
        8 => batch(more, words),
        9 => session(more, words),
        10 => copy(more, words),
        11 => insert(more, words),
        12 => (Vec::new(), aside(more, words)),
        13 => array(more, words),
        14 => ending(more),
        _ => wide(more, words),
    }
}

fn startup() -> Pair {
    let parameters = b"user\0postgres\0database\0bench\0application_name\0psql\0\0";
    let hello = [&(8 + parameters.len() as u32).to_be_bytes()[..], &[0, 3, 0, 0], parameters].concat();
    let status = message(b'S', b"server_version\x0015.2\0");
    (hello, [message(b'R', &[0; 4]), status, message(b'K', &[1, 2, 3, 4, 5, 6, 7, 8]), ready(b'I')].concat())
}

fn select(more: usize, words: &mut Words) -> Vec<u8> {
    query(&format!("SELECT abalance FROM accounts WHERE aid = {};", words.digits(5 + more % 4)))
}

/// Parse, Bind, Describe, Execute and Sync of the unnamed statement.
fn unnamed(more: usize, words: &mut Words) -> Pair {
    let request = [
        parse("", "SELECT abalance FROM accounts WHERE aid = $1;", &[]),
        bind("", &[words.digits(4 + more % 5).as_bytes()]),
        message(b'D', b"P\0"),
        message(b'E', &[0; 5]),
        message(b'S', b""),
    ];
    let described = [message(b'1', b""), message(b'2', b""), row_description(23)];
    (request.concat(), [described.concat(), row(more, words), complete("SELECT 1", b'I')].concat())
}

/// Prepares a named statement.
fn named(more: usize) -> Pair {
    let texts = ["SELECT abalance FROM accounts WHERE aid = $1", "SELECT $1::int4[]", "INSERT INTO t VALUES ($1)"];
    let request = [parse(name(more), texts[more % 3], &[23]), message(b'D', format!("S{}\0", name(more)).as_bytes())];
    let description =
        if more % 3 == 2 { message(b'n', b"") } else { row_description(if more % 3 == 1 { 1007 } else { 23 }) };
    let response = [message(b'1', b""), message(b't', &[0, 1, 0, 0, 0, 23]), description, ready(b'I')];
    ([request.concat(), message(b'S', b"")].concat(), response.concat())
}

fn name(more: usize) -> &'static str {
    ["P0_1", "P0_2", "long_name_of_a_statement", ""][more / 3 % 4]
}

fn execute(more: usize, words: &mut Words) -> Pair {
    let one = bound(more, words);
    ([one.0, message(b'S', b"")].concat(), [one.1, ready(b'I')].concat())
}

/// Bind and Execute of a named statement.
fn bound(more: usize, words: &mut Words) -> Pair {
    let request = [bind(name(more), &[words.digits(4 + more % 2).as_bytes()]), message(b'E', &[0; 5])];
    let cell = if more % 3 == 1 { format!("{{{},{}}}", words.digits(2), words.digits(3)) } else { words.digits(5) };
    (request.concat(), [message(b'2', b""), data_row(&[Some(cell.as_bytes())]), tag("SELECT 1")].concat())
}

/// Several statements before one Sync; the last may fail.
fn batch(more: usize, words: &mut Words) -> Pair {
    let (request, mut response) = join((0..2 + more % 6).map(|_| bound(0, words)).collect());
    if more % 5 == 4 {
        response = [bound(0, words).1, error(0, words)].concat();
    }
    ([request, message(b'S', b"")].concat(), [response, ready(b'I')].concat())
}

fn session(more: usize, words: &mut Words) -> Pair {
    let (text, done) = match more % 5 {
        0 => ("SET client_min_messages TO warning".to_owned(), "SET"),
        1 => ("DISCARD ALL".to_owned(), "DISCARD ALL"),
        2 => ("DEALLOCATE \"P0_1\"".to_owned(), "DEALLOCATE"),
        3 => (format!("LISTEN c{}", words.digits(1)), "LISTEN"),
        _ => ("DEALLOCATE ALL".to_owned(), "DEALLOCATE ALL"),
    };
    (query(&text), complete(done, b'I'))
}

fn copy(more: usize, words: &mut Words) -> Pair {
    let line = format!("{}\t{}\n", words.digits(3), words.text(5 + more % 4));
    let format = [0, 0, 2, 0, 0, 0, 0];
    if more.is_multiple_of(2) {
        let response =
            [message(b'H', &format), message(b'd', line.as_bytes()), message(b'c', b""), complete("COPY 1", b'I')];
        (query("COPY t TO STDOUT"), response.concat())
    } else {
        let request = [query("COPY t FROM STDIN"), message(b'd', line.as_bytes()), message(b'c', b"")];
        (request.concat(), [message(b'G', &format), complete("COPY 1", b'I')].concat())
    }
}

fn insert(more: usize, words: &mut Words) -> Pair {
    let text = format!("INSERT INTO t VALUES ({}, '{}')", words.digits(3), words.text(6 + more % 5));
    (query(&text), complete(&format!("INSERT 0 {}", words.digits(1 + more % 3)), b'I'))
}

/// Messages that the server sends on its own.
fn aside(more: usize, words: &mut Words) -> Vec<u8> {
    match more % 3 {
        0 => message(b'N', format!("SNOTICE\0M{}\0\0", words.text(5)).as_bytes()),
        1 => message(b'S', format!("TimeZone\0{}\0", words.text(3)).as_bytes()),
        _ => message(b'A', format!("\0\0\0\x07c1\0{}\0", words.text(4)).as_bytes()),
    }
}

/// A cell with an inner structure, in text or binary.
fn array(more: usize, words: &mut Words) -> Pair {
    let text = format!("{{{},{}}}", words.digits(2), words.digits(2 + more % 3));
    (
        query("SELECT a FROM t"),
        [row_description(1007), data_row(&[Some(text.as_bytes())]), complete("SELECT 1", b'I')].concat(),
    )
}

fn ending(more: usize) -> Pair {
    match more % 3 {
        0 => ([message(b'C', b"SP0_1\0"), message(b'S', b"")].concat(), [message(b'3', b""), ready(b'I')].concat()),
        1 => (message(b'S', b""), ready(b'I')),
        _ => (message(b'X', b""), Vec::new()),
    }
}

/// Rows of several columns, and a NULL.
fn wide(more: usize, words: &mut Words) -> Pair {
    let columns = [b"a\0".as_slice(), &column(25), b"b\0", &column(20), b"c\0", &column(17)].concat();
    let mut response = message(b'T', &[&[0, 3], columns.as_slice()].concat());
    for _ in 0..=more % 4 {
        let (name, number) = (words.text(5), words.digits(3));
        response.extend(data_row(&[Some(name.as_bytes()), Some(number.as_bytes()), None]));
    }
    let done = complete(&format!("SELECT {}", 1 + more % 4), b'T');
    (query("SELECT a, b, c FROM t"), [response, done].concat())
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind], &(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}

fn query(text: &str) -> Vec<u8> {
    message(b'Q', format!("{text}\0").as_bytes())
}

fn parse(name: &str, text: &str, types: &[u32]) -> Vec<u8> {
    let types = types.iter().flat_map(|of| of.to_be_bytes()).collect::<Vec<_>>();
    message(b'P', &[format!("{name}\0{text}\0").as_bytes(), &[0, (types.len() / 4) as u8], &types].concat())
}

fn bind(name: &str, values: &[&[u8]]) -> Vec<u8> {
    let mut body = format!("\0{name}\0\0\0\0").into_bytes();
    body.push(values.len() as u8);
    for value in values {
        body.extend((value.len() as u32).to_be_bytes());
        body.extend(*value);
    }
    body.extend([0, 0]);
    message(b'B', &body)
}

fn column(of: u32) -> Vec<u8> {
    [&[0; 6], &of.to_be_bytes()[..], &[0, 4, 255, 255, 255, 255, 0, 0]].concat()
}

fn row_description(of: u32) -> Vec<u8> {
    message(b'T', &[b"\0\x01abalance\0", column(of).as_slice()].concat())
}

fn data_row(cells: &[Option<&[u8]>]) -> Vec<u8> {
    let mut body = vec![0, cells.len() as u8];
    for cell in cells {
        body.extend(cell.map_or(u32::MAX, |cell| cell.len() as u32).to_be_bytes());
        body.extend(cell.unwrap_or_default());
    }
    message(b'D', &body)
}

fn row(more: usize, words: &mut Words) -> Vec<u8> {
    data_row(&[Some(words.digits(3 + more % 5).as_bytes())])
}

fn tag(text: &str) -> Vec<u8> {
    message(b'C', format!("{text}\0").as_bytes())
}

fn complete(text: &str, state: u8) -> Vec<u8> {
    [tag(text), ready(state)].concat()
}

fn ready(state: u8) -> Vec<u8> {
    message(b'Z', &[state])
}

fn error(more: usize, words: &mut Words) -> Vec<u8> {
    message(b'E', format!("SERROR\0C42703\0M{}\0\0", words.text(8 + more % 4)).as_bytes())
}
