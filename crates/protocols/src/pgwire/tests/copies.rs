//! Copies: formats, splits, and clients that send early.

use super::*;
use crate::pgwire::copy::copies;
use overhead_model::{Account, Amounts};

/// Summarises the client's copy data: initial letters of accounts with lengths, without message headers.
fn read_in(statement: &str, stream: &[&[u8]]) -> (String, usize) {
    let data = stream.iter().map(|data| msg(b'd', data));
    let client = [query(statement)].into_iter().chain(data).chain([msg(b'c', b"")]);
    let transcript = transcript(&[(C, client.collect()), (S, vec![tag("COPY"), ready()])]);
    let inside = transcript.postings[0].iter().filter(|posting| posting.path.starts_with("copy."));
    let inside = inside.filter(|posting| !posting.path.contains("message "));
    let mut runs: Vec<(Account, u64)> = Vec::new();
    for posting in inside {
        match runs.last_mut() {
            Some(run) if run.0 == posting.account => run.1 += posting.len,
            _ => runs.push((posting.account, posting.len)),
        }
    }
    let letter = |account: Account| account.name().chars().next().unwrap();
    let text = runs.iter().map(|(account, len)| format!("{}{len}", letter(*account)));
    let text = text.collect::<Vec<_>>().join(" ");
    let hidden = transcript.notes.iter().filter(|note| **note == Note::UntypedValue).count();
    (text, hidden)
}

#[test]
fn formats_are_those_of_the_statement() {
    let binary = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\x02ab\xff\xff";
    let cases: [(&str, &[u8], &str); 16] = [
        ("copy t from stdin", b"a\tb\\tc\n\\N\t\\\\\n\\.\n", "d1 f1 d1 f1 d2 f5 d1 f4"),
        ("COPY \"from\" (a, \"to\") FROM STDIN WITH (DELIMITER '|', NULL '')", b"a|b\tc||\n", "d1 f1 d3 f3"),
        ("copy t from stdin delimiter as E'\\x2c' null 'NULL'", b"NULL,a\r\nNULLs,\n", "f5 d1 f2 d5 f2"),
        ("copy t from stdin using delimiters ';'", b"a;b", "d1 f1 d1"),
        ("copy t from stdin (format csv)", b"a,\"b\"\"c,\n\"\n\\N,\n\\.\n", "d1 f2 d1 f1 d4 f2 d2 f5"),
        ("copy t from stdin with csv header quote as '~'", b"a,~b,~\n", "d1 f2 d2 f2"),
        ("copy t from stdin (format 'csv', escape e'\\\\')", b"\"a\\\"b\\c\",d\n", "f1 d1 f1 d4 f2 d1 f1"),
        ("copy t from stdin csv null 'nil'", b"nil,\"nil\"\n", "f5 d3 f2"),
        ("copy t from stdin (default '#', force_null (csv))", b"#\ta\n", "f2 d1 f1"),
        ("copy t from stdin (format binary)", binary, "f11 m4 f10 d2 f2"),
        ("copy binary t from stdin", binary, "f11 m4 f10 d2 f2"),
        ("copy t from stdin with binary", binary, "f11 m4 f10 d2 f2"),
        ("copy t from stdin", binary, "f11 m4 f10 d2 f2"),
        ("copy t from stdin (format binary)", b"no signature", "u12"),
        ("/* a */ begin; Copy t from stdin csv; commit", b"a,b\n", "d1 f1 d1 f1"),
        ("copy t from $$file$$; copy t from stdin csv", b"a,b\n", "d1 f1 d1 f1"),
    ];
    for (statement, stream, want) in cases {
        assert_eq!(read_in(statement, &[stream]).0, want, "{statement}");
    }
}

#[test]
fn statements_that_copy_nothing_over_the_connection() {
    for sql in
        ["copy t from '/file'", "copy t to program 'cat'", "select 'copy t from stdin'", "copy", "copy t; from stdin"]
    {
        assert_eq!(copies(sql.as_bytes()), None, "{sql}");
    }
}

#[test]
fn quotes_and_escapes_divided_among_messages() {
    let cases: [(&str, &[&[u8]], &str); 6] = [
        ("copy t from stdin", &[b"a\\", b"t\t\\", b"N\n"], "d1 f1 d1 f4"),
        ("copy t from stdin", &[b"a\\", b"\nb\n"], "d1 f1 d2 f1"),
        ("copy t from stdin csv", &[b"\"a\"", b"\"b\"", b",c\n"], "f1 d1 f1 d2 f2 d1 f1"),
        ("copy t from stdin csv", &[b"\"a", b",b\n", b"\"\n"], "f1 d4 f2"),
        ("copy t from stdin csv", &[b"ab", b"c,", b"d\r", b"\n"], "d3 f1 d1 f2"),
        ("copy t from stdin", &[b"a\n\\", b".\n"], "d1 f4"),
    ];
    for (statement, stream, want) in cases {
        assert_eq!(read_in(statement, stream).0, want, "{statement} {stream:?}");
    }
}

#[test]
fn only_fields_that_look_structured_are_reported() {
    let text = b"{1,2}\tplain\t{\"a\": 1}\t(1,2)\t12\t[1,5)\t{}\n";
    assert_eq!(read_in("copy t from stdin", &[text]).1, 4);
    assert_eq!(read_in("copy t from stdin csv", &[b"\"{1,2}\",1,\"{\"\"a\"\":1}\",\"{\"\"a\"\",b}\"\n"]).1, 2);
    let array = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 9];
    let values: [&[u8]; 5] = [&array, &[0, 0, 0, 1], b"text", &[0; 8], &[1]];
    let tuple: Vec<u8> =
        values.iter().flat_map(|value| [&(value.len() as u32).to_be_bytes()[..], value].concat()).collect();
    let stream = [&b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x05"[..], &tuple, b"\xff\xff"].concat();
    assert_eq!(read_in("copy t from stdin binary", &[&stream]).1, 1);
}

/// A message, and how many messages of the other side precede it.
type Turn = (Vec<u8>, usize);

/// Calls `found` with every possible capture order of the turns.
fn orders(sides: [&[Turn]; 2], done: [usize; 2], order: &mut Vec<Side>, found: &mut impl FnMut(&[Side])) {
    let mut ended = true;
    for side in Side::BOTH {
        let (this, other) = (side as usize, 1 - side as usize);
        let Some((_, after)) = sides[this].get(done[this]) else { continue };
        ended = false;
        if done[other] >= *after {
            let mut next = done;
            next[this] += 1;
            order.push(side);
            orders(sides, next, order, found);
            order.pop();
        }
    }
    if ended {
        found(order);
    }
}

type Postings = Vec<(u64, Account, u64)>;

/// Returns outcomes and postings, by side, of turns captured in this order.
fn read_in_order(sides: [&[Turn]; 2], order: &[Side]) -> (Vec<String>, [Postings; 2]) {
    let mut engine = DecoderEngine::new(Pgwire::new(false), false);
    let mut transcript = Transcript::default();
    engine.bytes(C, &startup(), &mut transcript);
    engine.bytes(S, &welcome(), &mut transcript);
    let mut done = [0; 2];
    for side in order {
        engine.bytes(*side, &sides[*side as usize][done[*side as usize]].0, &mut transcript);
        done[*side as usize] += 1;
    }
    engine.finish(&mut transcript);
    let postings = Side::BOTH.map(|side| {
        let of_side = transcript.postings[side as usize].iter();
        of_side.map(|posting| (posting.op.0, posting.account, posting.len)).collect()
    });
    (transcript.summary(), postings)
}

/// Asserts that every order gives the same accounts, and returns them without the start-up.
fn in_any_order(client: &[Turn], server: &[Turn]) -> Vec<String> {
    let sides = [client, server];
    let (mut first, mut count) = (None, 0);
    orders(sides, [0; 2], &mut Vec::new(), &mut |order| {
        let read = read_in_order(sides, order);
        count += 1;
        assert_eq!(first.get_or_insert_with(|| read.clone()), &read, "{order:?}");
    });
    assert!(count > 1, "there is more than one order");
    first.unwrap().0.split_off(1)
}

fn data(bytes: &[u8]) -> Vec<u8> {
    msg(b'd', bytes)
}

fn done() -> Vec<u8> {
    msg(b'c', b"")
}

fn asks() -> Vec<u8> {
    msg(b'G', b"\0\0\0")
}

const HEAD: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x01\0";
const TAIL: &[u8] = b"\0\0\x02ab\xff\xff";

#[test]
fn eager_copies_in_any_order_of_the_two_directions() {
    let summary = in_any_order(
        &[
            (query("copy t from stdin binary"), 0),
            ([data(HEAD), data(TAIL)].concat(), 0),
            (done(), 0),
            (query("copy t from stdin (format csv)"), 2),
            (data(b"a,\"b"), 2),
            ([data(b"\",c\n"), done()].concat(), 2),
            (query("copy t from stdin binary"), 4),
            ([data(HEAD), data(TAIL), done()].concat(), 4),
            (query("select 1"), 6),
        ],
        &[
            (msg(b'G', b"\x01\0\x01\0\x01"), 1),
            ([tag("COPY 1"), ready()].concat(), 3),
            (asks(), 4),
            ([tag("COPY 1"), ready()].concat(), 6),
            (msg(b'G', b"\x01\0\x01\0\x01"), 7),
            ([tag("COPY 1"), ready()].concat(), 8),
            ([tag("SELECT 1"), ready()].concat(), 9),
        ],
    );
    assert_eq!(
        summary,
        [
            "workload COPY [simple] ok: framing 44, metadata 4, query 24, data 2 | framing 18, metadata 3, status 7",
            "workload COPY [simple] ok: framing 26, query 30, data 3 | framing 18, metadata 1, status 7",
            "workload COPY [simple] ok: framing 44, metadata 4, query 24, data 2 | framing 18, metadata 3, status 7",
            "workload SELECT [simple] ok: framing 6, query 8 | framing 11, status 9",
        ]
    );
}

#[test]
fn pipelined_copies_in_any_order() {
    let copy = |name: &str| [parse("", &format!("copy {name} from stdin csv")), bind(""), execute()].concat();
    let begun = || [msg(b'1', b""), msg(b'2', b""), asks()].concat();
    let summary = in_any_order(
        &[
            (copy("a"), 0),
            (data(b"1,"), 0),
            ([data(b"2\n"), done()].concat(), 0),
            (copy("b"), 0),
            (data(b"3\n"), 0),
            ([done(), sync()].concat(), 0),
        ],
        &[(begun(), 1), (tag("COPY 1"), 3), (begun(), 4), ([tag("COPY 1"), ready()].concat(), 6)],
    );
    assert_eq!(summary.len(), 2);
    assert!(
        summary[0].starts_with("workload COPY [extended] ok: framing 45, metadata 6, query 21, data 2 |"),
        "{summary:?}"
    );
    assert!(
        summary[1].starts_with("workload COPY [extended] ok: framing 44, metadata 6, query 21, data 1 |"),
        "{summary:?}"
    );
}

#[test]
fn copies_that_fail_while_data_flow_in_any_order() {
    // A client that stops early, one that ends its data, one that fails it.
    for end in [vec![], done(), msg(b'f', b"failed\0")] {
        let summary = in_any_order(
            &[
                (query("copy t from stdin"), 0),
                (data(b"1\n"), 0),
                (data(b"x\n"), 0),
                ([data(b"y\n"), end.clone()].concat(), 0),
                (query("select 1"), 2),
            ],
            &[(asks(), 1), ([error("ERROR"), ready()].concat(), 2), ([tag("SELECT 1"), ready()].concat(), 5)],
        );
        assert_eq!(summary.len(), 2, "{summary:?}");
        assert!(summary[0].starts_with("workload COPY [simple] error: "), "{summary:?}");
        assert!(summary[0].contains("query 17, data 3"), "{summary:?}");
    }
}

#[test]
fn copies_that_cannot_begin_in_any_order() {
    let copy = [parse("", "copy t from stdin"), bind(""), describe(b'P', ""), execute()].concat();
    let summary = in_any_order(
        &[(copy, 0), (data(b"1\n"), 0), ([data(b"2\n"), done()].concat(), 0), (sync(), 0), (query("select 1"), 2)],
        &[(error("ERROR"), 1), (ready(), 4), ([tag("SELECT 1"), ready()].concat(), 5)],
    );
    assert_eq!(summary.len(), 2, "{summary:?}");
    assert!(summary[0].starts_with("workload COPY [extended] error: "), "{summary:?}");
    assert!(summary[0].contains("data 2"), "{summary:?}");
}

#[test]
fn a_copy_that_ends_the_connection_in_any_order() {
    let summary = in_any_order(
        &[(query("copy t from stdin"), 0), (data(b"1\n"), 0), (data(b"2\n"), 0)],
        &[(asks(), 1), (error("FATAL"), 2)],
    );
    assert_eq!(summary.len(), 1, "{summary:?}");
    assert!(summary[0].starts_with("workload COPY [simple] error: framing 18, query 17, data 2"), "{summary:?}");
}

#[test]
fn two_copies_in_one_text_each_in_its_format() {
    let summary = in_any_order(
        &[
            (query("copy a from stdin; copy b from stdin csv"), 0),
            ([data(b"1,2\n"), done()].concat(), 0),
            ([data(b"1,2\n"), done()].concat(), 0),
            (query("select 1"), 2),
        ],
        &[
            (asks(), 1),
            ([tag("COPY 1"), asks()].concat(), 2),
            ([tag("COPY 1"), ready()].concat(), 3),
            ([tag("SELECT 1"), ready()].concat(), 4),
        ],
    );
    assert_eq!(summary.len(), 2, "{summary:?}");
    assert!(summary[0].starts_with("workload COPY [simple] ok: framing 29, query 40, data 5"), "{summary:?}");
}

#[test]
fn copy_out_in_csv_is_read_by_its_statement() {
    let summary = talk(&[
        (C, vec![query("copy (select 1 from t) to stdout with (format csv, delimiter ';')")]),
        (S, vec![msg(b'H', b"\0\0\x02\0\0\0\0"), data(b"1;\"a;"), data(b"\"\n"), done(), tag("COPY 1"), ready()]),
    ]);
    assert_eq!(summary.len(), 1);
    assert!(summary[0].ends_with("| framing 37, metadata 5, data 3, status 7"), "{summary:?}");
}

proptest! {
    /// Writes fields as the server does, splits them into messages and reads them back.
    #[test]
    fn what_was_in_the_fields_is_data(
        rows in prop::collection::vec(prop::collection::vec(prop::option::of("[a,\\\\\"\n\t.N;]{0,6}"), 1..4), 1..6),
        csv: bool,
        cuts in prop::collection::vec(1_usize..5, 1..40),
    ) {
        let mut stream = Vec::new();
        let mut data = 0_u64;
        for row in &rows {
            for (index, field) in row.iter().enumerate() {
                if index > 0 {
                    stream.push(if csv { b',' } else { b'\t' });
                }
                match field {
                    None if csv => {}
                    None => stream.extend_from_slice(b"\\N"),
                    Some(field) => {
                        data += field.len() as u64;
                        let escaped = if csv {
                            format!("\"{}\"", field.replace('"', "\"\""))
                        } else {
                            field.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n")
                        };
                        stream.extend_from_slice(escaped.as_bytes());
                    }
                }
            }
            stream.push(b'\n');
        }
        let mut rest = stream.as_slice();
        let mut messages = vec![query(if csv { "copy t from stdin csv" } else { "copy t from stdin" })];
        for cut in cuts.iter().cycle() {
            let (head, tail) = rest.split_at((*cut).min(rest.len()));
            messages.push(msg(b'd', head));
            rest = tail;
            if rest.is_empty() {
                break;
            }
        }
        let frame = 5 * messages.len() as u64 + 1;
        let text = if csv { 21 } else { 17 };
        let mut transcript = Transcript::default();
        let mut engine = DecoderEngine::new(Pgwire::new(false), false);
        engine.bytes(C, &[startup(), messages.concat()].concat(), &mut transcript);
        let amounts: &Amounts = &transcript.ops[1].amounts[0];
        prop_assert_eq!(amounts[Account::Data], data);
        prop_assert_eq!(amounts[Account::Framing], frame + stream.len() as u64 - data);
        prop_assert_eq!(amounts[Account::Query], text);
    }
}
