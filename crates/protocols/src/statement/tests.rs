use super::{NormalisedStatement, StatementDialect, StatementText, normalise, normalise_cached};
use proptest::prelude::*;

fn plain(text: &str, dialect: StatementDialect) -> NormalisedStatement {
    normalise(text.as_bytes(), true, dialect, || "VERB".to_owned())
}

#[track_caller]
fn check(dialect: StatementDialect, expected: &[(&str, &str)]) {
    for (text, statement) in expected {
        assert_eq!(plain(text, dialect).statement.as_str(), *statement, "{text}");
    }
}

use StatementDialect::{Cql, Mysql, MysqlUnescaped, Postgres};

#[test]
fn literals_of_postgresql_become_question_marks_and_nothing_else_does() {
    check(
        Postgres,
        &[
            ("select c from sbtest1 where id=17", "SELECT c FROM sbtest1 WHERE id = ?"),
            ("SELECT c FROM sbtest1 WHERE id=$1", "SELECT c FROM sbtest1 WHERE id = $1"),
            ("SELECT 'a', E'b\\'c', N'd', X'1F', B'01', U&'\\0041', $$e$$, $t$f$t$", "SELECT ?, ?, ?, ?, ?, ?, ?, ?"),
            (
                "SELECT -1, +2, 3 - 4, a -5, (-6), 1.5e-10, .5, 1_000, 0x1F, 0b01",
                "SELECT ?, ?, ? - ?, a - ?, (?), ?, ?, ?, ?, ?",
            ),
            ("SELECT t1.\"Order 66\", t.* FROM t1, public.t", "SELECT t1.\"Order 66\", t.* FROM t1, public.t"),
            (
                "SELECT 1::int, '{1,2}'::int[], a[1], a[1:2], array[1,2], ARRAY['x']",
                "SELECT ?::int, ?::int[], a[?], a[?: ?], ARRAY[…], ARRAY[…]",
            ),
            (
                "SELECT NULL, TRUE, false, count(*), date '2020-01-01', interval '1 day'",
                "SELECT NULL, TRUE, FALSE, count(*), date ?, interval ?",
            ),
            ("SELECT a FROM t WHERE b LIKE 'x%' ESCAPE '\\'", "SELECT a FROM t WHERE b LIKE ? ESCAPE ?"),
            ("SELECT 'one'\n  'constant'", "SELECT ?"),
            (
                "UPDATE t SET a = a + -17 WHERE j ->> 'k' = 'v' AND j @> '{}'",
                "UPDATE t SET a = a + ? WHERE j ->> ? = ? AND j @> ?",
            ),
            (
                "COPY t FROM STDIN WITH (FORMAT csv, DELIMITER ';', NULL 'none')",
                "COPY t FROM STDIN WITH (FORMAT csv, DELIMITER ?, NULL ?)",
            ),
            ("SELECT f(1, 'a'), f(a, 2)", "SELECT f(?, ?), f(a, ?)"),
        ],
    );
}

#[test]
fn lists_of_values_are_one_however_long() {
    check(
        Postgres,
        &[
            ("SELECT a FROM t WHERE b IN (1)", "SELECT a FROM t WHERE b IN (…)"),
            ("SELECT a FROM t WHERE b in(1, 2,  -3)", "SELECT a FROM t WHERE b IN (…)"),
            (
                "SELECT a FROM t WHERE b IN ($1,$2) AND c NOT IN ('x'::text)",
                "SELECT a FROM t WHERE b IN (…) AND c NOT IN (…)",
            ),
            ("SELECT a FROM t WHERE (b, c) IN ((1, 'x'), (2, 'y'))", "SELECT a FROM t WHERE (b, c) IN (…)"),
            (
                "SELECT a FROM t WHERE b IN (SELECT c FROM u WHERE d = 1)",
                "SELECT a FROM t WHERE b IN (SELECT c FROM u WHERE d = ?)",
            ),
            ("INSERT INTO t VALUES (1, 'a', NULL)", "INSERT INTO t VALUES (…)"),
            (
                "INSERT INTO t (a, b) VALUES (1, DEFAULT), (2, 'b') , (3, 'c') RETURNING id",
                "INSERT INTO t(a, b) VALUES (…) RETURNING id",
            ),
            ("INSERT INTO t VALUES (1, now()), (2, now()), (3, now())", "INSERT INTO t VALUES (?, now())"),
            ("INSERT INTO t VALUES (1, now()), (2, 3)", "INSERT INTO t VALUES (?, now()), (…)"),
            ("SELECT f(1), (2, 3)", "SELECT f(?), (?, ?)"),
        ],
    );
    check(
        Mysql,
        &[(
            "INSERT INTO t VALUES (1, _binary'x') ON DUPLICATE KEY UPDATE a = VALUES(a), b = 2",
            "INSERT INTO t VALUES (…) ON DUPLICATE KEY UPDATE a = VALUES (a), b = ?",
        )],
    );
}

#[test]
fn statements_of_one_text_are_joined_and_comments_go() {
    check(
        Postgres,
        &[
            ("BEGIN; SELECT 1 ;; COMMIT;", "BEGIN; SELECT ?; COMMIT"),
            ("/* user=secret /* nested */ */ SELECT 1 -- secret\n FROM t", "SELECT ? FROM t"),
        ],
    );
    for nothing in ["", " ; ", "-- nothing"] {
        assert_eq!(
            normalise(nothing.as_bytes(), true, Postgres, String::new).statement,
            StatementText::default(),
            "{nothing}"
        );
    }
    check(
        Mysql,
        &[
            ("# secret\nSELECT 1 /* secret */", "SELECT ?"),
            ("SELECT 5--1", "SELECT ? - ?"),
            ("-- secret\nSELECT 1", "SELECT ?"),
            ("SET /*!40101 NAMES 'utf8' */", "SET NAMES ?"),
            ("SELECT /*!80000 SQL_NO_CACHE */ 1", "SELECT SQL_NO_CACHE ?"),
        ],
    );
    check(Cql, &[("// secret\nSELECT a FROM t -- secret\n", "SELECT a FROM t"), ("/* x */ USE k", "USE k")]);
}

#[test]
fn texts_of_mysql_have_strings_in_either_quotes_and_names_in_backticks() {
    check(
        Mysql,
        &[
            ("SELECT `a b`, \"text\", 'it''s', 'it\\'s' FROM `t`", "SELECT `a b`, ?, ?, ? FROM `t`"),
            ("SELECT 0x1F, x'1F', 0b01, b'01', _utf8mb4'x', N'y'", "SELECT ?, ?, ?, ?, ?, ?"),
            ("SELECT 1st.a FROM 1st WHERE a = 1", "SELECT 1st.a FROM 1st WHERE a = ?"),
            ("SET @a := 5, @@session.sql_mode = 'ANSI'", "SET @a := ?, @@session.sql_mode = ?"),
            ("SELECT a FROM t WHERE b = ? LIMIT 5, 10", "SELECT a FROM t WHERE b = ? LIMIT ?, ?"),
        ],
    );
}

#[test]
fn values_of_cql_need_no_quotes() {
    check(
        Cql,
        &[
            ("SELECT a FROM t WHERE id = 550e8400-e29b-41d4-a716-446655440000", "SELECT a FROM t WHERE id = ?"),
            (
                "SELECT a FROM t WHERE id = e29b1111-e29b-41d4-a716-446655440000 AND b = 1",
                "SELECT a FROM t WHERE id = ? AND b = ?",
            ),
            ("SELECT a FROM t WHERE id = 1234567e-1234-41d4-a716-44665544000a", "SELECT a FROM t WHERE id = ?"),
            ("SELECT a FROM t WHERE id = 1-1-1-1-1", "SELECT a FROM t WHERE id = ? - ? - ? - ? - ?"),
            ("INSERT INTO t (a) VALUES (0xCAFE) USING TTL 60", "INSERT INTO t(a) VALUES (…) USING TTL ?"),
            (
                "UPDATE t SET m = {'a': 1, 'b': 2}, l = [1, 2], s = {1}, x = m['a']",
                "UPDATE t SET m = {…}, l = […], s = {…}, x = m[?]",
            ),
            (
                "SELECT a FROM t WHERE d = 1h30m AND e = P1Y2M AND f = p1",
                "SELECT a FROM t WHERE d = ? AND e = ? AND f = p1",
            ),
            (
                "SELECT a FROM t WHERE d = $$it's$$ AND e = :name AND f IN (?, ?)",
                "SELECT a FROM t WHERE d = ? AND e = :name AND f IN (…)",
            ),
            ("select a from t where b = 1 allow filtering", "SELECT a FROM t WHERE b = ? ALLOW FILTERING"),
            (
                "CREATE ROLE r WITH PASSWORD = 'secret' AND LOGIN = true",
                "CREATE ROLE r WITH PASSWORD = ? AND LOGIN = TRUE",
            ),
        ],
    );
}

#[test]
fn passwords_are_literals() {
    check(
        Postgres,
        &[
            ("CREATE USER u WITH PASSWORD 'secret'", "CREATE USER u WITH PASSWORD ?"),
            ("ALTER ROLE u PASSWORD E'secret\\n'", "ALTER ROLE u PASSWORD ?"),
            ("SET app.token TO 'secret'", "SET app.token TO ?"),
        ],
    );
    check(
        Mysql,
        &[
            ("CREATE USER 'u'@'%' IDENTIFIED BY 'secret'", "CREATE USER ? @ ? IDENTIFIED BY ?"),
            ("SET PASSWORD FOR u = PASSWORD(\"secret\")", "SET PASSWORD FOR u = PASSWORD(?)"),
            (
                "ALTER USER u IDENTIFIED WITH mysql_native_password AS '*secret'",
                "ALTER USER u IDENTIFIED WITH mysql_native_password AS ?",
            ),
        ],
    );
}

#[test]
fn what_cannot_be_cut_into_tokens_is_its_verb_alone() {
    check(
        Postgres,
        &[
            ("SELECT 'not closed", "VERB (not parsed)"),
            ("SELECT $t$ not closed", "VERB (not parsed)"),
            ("SELECT \"not closed", "VERB (not parsed)"),
            ("SELECT 1 /* not closed", "VERB (not parsed)"),
            ("SELECT 'a'secret'b'", "VERB (not parsed)"),
        ],
    );
    // Quotes that end elsewhere without backslash escapes (NO_BACKSLASH_ESCAPES).
    check(Mysql, &[("INSERT INTO t VALUES ('C:\\', 'secret', 'D:\\', 'other')", "VERB (not parsed)")]);
    check(
        MysqlUnescaped,
        &[
            ("INSERT INTO t VALUES ('C:\\', 'secret', 'D:\\', 'other')", "INSERT INTO t VALUES (…)"),
            ("SELECT 'C:\\' AS a, ' secret ' AS b, `c` FROM t -- 'D:\\'", "SELECT ? AS a, ? AS b, `c` FROM t"),
            ("SELECT 0x10, 1e2x, @a, \"D:\\\" # it's", "SELECT ?, ?, @a, ?"),
        ],
    );
    let not_utf8 = normalise(b"SELECT '\xbf\\', ' secret '", true, Mysql, || "SELECT".to_owned());
    assert_eq!(not_utf8.statement.as_str(), "SELECT (not parsed)");
    let latin1 = normalise(b"SELECT 'caf\xe9' FROM t", true, Mysql, String::new);
    assert_eq!(latin1.statement.as_str(), "SELECT ? FROM t");
    let nothing_known = normalise(b"'", true, Mysql, String::new);
    assert_eq!(nothing_known.statement.as_str(), "(not parsed)");
}

#[test]
fn a_cut_text_is_classified_by_its_start() {
    let cut = |text: &str| normalise(text.as_bytes(), false, Postgres, String::new).statement.as_str().to_owned();
    assert_eq!(cut("SELECT a FROM t WHERE b = 'secr"), "SELECT a FROM t WHERE b = …");
    assert_eq!(cut("SELECT a FROM t WHERE secr"), "SELECT a FROM t WHERE …");
    let uuid = b"SELECT a FROM t WHERE b = 550e8400-e29b-41d4-a716-4466";
    let statement = normalise(uuid, false, Cql, String::new).statement;
    assert_eq!(statement.as_str(), "SELECT a FROM t WHERE b = …");
    let rows = "(1, 'some text'), ".repeat(10_000);
    let long = normalise(format!("INSERT INTO t VALUES {rows}(1, 'x')").as_bytes(), true, Postgres, String::new);
    assert_eq!(long.statement.as_str().split('(').next(), Some("INSERT INTO t VALUES "));
    assert!(
        long.statement.as_str().ends_with('…') && long.statement.as_str().len() < 80,
        "{}",
        long.statement.as_str()
    );
}

#[test]
fn a_long_statement_is_cut_in_its_middle() {
    let columns: Vec<String> = (0..500).map(|number| format!("column_{number}")).collect();
    let statement = plain(&format!("SELECT {} FROM t", columns.join(", ")), Postgres).statement;
    let text = statement.as_str();
    assert!(text.len() <= 1024 && text.len() > 1000, "{}", text.len());
    assert!(text.starts_with("SELECT column_0, ") && text.ends_with(" FROM t") && text.contains('…'), "{text}");
}

#[test]
fn names_are_no_longer_than_names_can_be() {
    let long = "a".repeat(65);
    assert_eq!(plain(&format!("SELECT {long}, \"{long}\", b"), Postgres).statement.as_str(), "SELECT …, …, b");
}

#[test]
fn digits_that_are_printed_are_not_free() {
    let is_free = |text, dialect| plain(text, dialect).has_free_numbers;
    assert!(is_free("SELECT t1.a2 FROM t1 WHERE b = 17 AND c = $1 AND d IN (1, 2)", Postgres));
    assert!(is_free("SELECT 'text 12' FROM \"t1\"", Postgres));
    assert!(!is_free("SELECT \"order 66\" FROM t", Postgres));
    assert!(!is_free("SELECT a AS `2024` FROM t", Mysql));
    assert!(is_free("SELECT E'\\377' FROM t", Postgres));
    assert!(!is_free("SELECT 'not closed 12", Postgres));
}

/// Must not appear in any statement.
const SECRET: &str = "hunter2";

fn secret(dialect: StatementDialect) -> impl Strategy<Value = String> {
    let common = ["'hunter2'", "'it''s hunter2'", "'hunter2;--'", "'/*hunter2'", "/*hunter2*/ 1", "-- hunter2\n 1"];
    let own: &[&str] = match dialect {
        Postgres => {
            &["E'\\'hunter2'", "$$hunter2$$", "$x$'hunter2'$x$", "N'hunter2'", "/* /* */ hunter2 */ 1", "U&'hunter2'"]
        }
        Mysql => {
            &["\"hunter2\"", "'\\'hunter2'", "\"\\\"hunter2\"", "# hunter2\n 1", "_utf8'hunter2'", "'a' 'hunter2'"]
        }
        MysqlUnescaped => &[
            "\"hunter2\"",
            "'hunter2\\'",
            "\"hunter2\\\"",
            "'\\' , ' hunter2 \\'",
            "# hunter2\n 1",
            "_utf8'hunter2\\'",
        ],
        Cql => &["$$hunter2$$", "// hunter2\n 1", "{'hunter2': 'hunter2'}", "['hunter2']"],
    };
    let all: Vec<String> = common.iter().chain(own).map(|text| (*text).to_owned()).collect();
    prop::sample::select(all)
}

fn dialect() -> impl Strategy<Value = StatementDialect> {
    prop::sample::select(vec![Postgres, Mysql, MysqlUnescaped, Cql])
}

/// A statement with `@` for each literal.
fn template() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "SELECT a FROM t WHERE b = @ AND c > @ LIMIT 1",
        "INSERT INTO t (a, b) VALUES (@, @)",
        "INSERT INTO t (a, b) VALUES (@, now()), (1, @)",
        "UPDATE t SET a = @, b = f(@, 2) WHERE c IN (@, @, 3)",
        "DELETE FROM t WHERE a = @; SELECT @",
        "CREATE USER u WITH PASSWORD @",
        "CREATE USER u IDENTIFIED BY @",
        "SET PASSWORD = @",
        "COPY t FROM STDIN (DELIMITER @, NULL @)",
        "EXECUTE p(@, @)",
        "SELECT CASE WHEN a = @ THEN @ ELSE @ END AS x FROM t ORDER BY 1",
        "CALL p(@)",
        "@",
        "SELECT @::text, CAST(@ AS text)",
    ])
}

proptest! {
    #[test]
    fn no_literal_and_no_comment_is_told(
        (dialect, template, secrets) in (dialect(), template()).prop_flat_map(|(dialect, template)| {
            (Just(dialect), Just(template), prop::collection::vec(secret(dialect), 6))
        }),
        cut in 0..200_usize,
    ) {
        let mut secrets = secrets.iter().cycle();
        let text: String = template.split('@').enumerate().fold(String::new(), |text, (at, part)| {
            if at == 0 { part.to_owned() } else { text + " " + secrets.next().map_or("", String::as_str) + " " + part }
        });
        let whole = plain(&text, dialect).statement;
        prop_assert!(!whole.as_str().contains(SECRET), "{text} -> {}", whole.as_str());
        prop_assert!(!whole.as_str().contains("not parsed"), "{text}");
        let head = text.get(..cut).unwrap_or(&text);
        for is_whole in [true, false] {
            let part = normalise(head.as_bytes(), is_whole, dialect, String::new).statement;
            prop_assert!(!part.as_str().contains("hunt"), "{head} -> {}", part.as_str());
        }
    }

    #[test]
    fn any_text_comes_to_something_short(bytes in prop::collection::vec(any::<u8>(), 0..400), dialect in dialect()) {
        let statement = normalise(&bytes, true, dialect, String::new).statement;
        prop_assert!(statement.as_str().len() <= 1024);
    }

    #[test]
    fn the_digits_of_free_numbers_change_nothing(
        text in "(SELECT|[a-c1-9xe_$@#.:'\"`/*(){},;= -]| 0x1f| 12| [0-9]{3}-|E'|\\\\){0,30}",
        dialect in dialect(),
        digits in prop::collection::vec(b'0'..=b'9', 16),
    ) {
        let before = plain(&text, dialect);
        if before.has_free_numbers {
            let mut other = text.clone().into_bytes();
            let mut digits = digits.iter().cycle();
            for number in overhead_decode::numbers(text.as_bytes()) {
                other[number].fill_with(|| *digits.next().unwrap_or(&b'0'));
            }
            let after = normalise(&other, true, dialect, || "VERB".to_owned());
            prop_assert_eq!(before.statement.as_str(), after.statement.as_str(), "{} / {}", text, String::from_utf8_lossy(&other));
            prop_assert!(after.has_free_numbers);
        }
    }

    #[test]
    fn what_is_known_is_what_is_found_anew(
        texts in prop::collection::vec("(SELECT|a|b1| |12|345|`1 2`|'x'|'|\"7\"|=|,){0,12}", 1..20),
        dialect in dialect(),
    ) {
        for text in texts.iter().chain(&texts) {
            let known = normalise_cached(text.as_bytes(), true, dialect, || "VERB".to_owned());
            let anew = plain(text, dialect);
            prop_assert_eq!(known.statement, anew.statement, "{}", text);
            prop_assert_eq!(known.has_free_numbers, anew.has_free_numbers, "{}", text);
        }
    }
}
