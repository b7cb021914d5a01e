use super::*;
use crate::RunGroup;
use crate::fixture;
use crate::run::NamedRun;
use overhead_model::record::{By, FieldRow, Latency, RowTotals, SideSums, StatementRow};
use overhead_model::{Account, Class, Measured, Side, exit};

fn postgres() -> NamedRun {
    fixture::databases(true).into_iter().find(|run| run.name == "postgres").unwrap()
}

fn budget(runs: &[NamedRun]) -> Budget {
    let text = budget_of(runs, By::Statement);
    Budget::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Returns the same run with `bytes` more of an account in each response to a SELECT.
fn larger(mut named: NamedRun, account: Account, bytes: u64) -> NamedRun {
    for row in named.run.operations.iter_mut().filter(|row| row.name == "SELECT") {
        row.response.accounts[account] += bytes * row.count;
        let field = FieldRow { side: Side::Response, account, field: "row.new".to_owned(), bytes: bytes * row.count };
        row.fields.get_or_insert_default().push(field);
    }
    named
}

#[test]
fn a_run_is_within_the_budget_that_was_made_of_it() {
    let findings = check(&budget(&[postgres()]), &postgres());
    assert_eq!((findings.as_slice(), status(&findings)), (&[][..], exit::COMPLETE));
}

#[test]
fn a_byte_more_in_a_response_is_a_breach_that_names_account_and_field() {
    let with_fields = |mut run: NamedRun| {
        run.run.operations.iter_mut().for_each(|row| row.fields = Some(Vec::new()));
        run
    };
    let budget = budget(&[with_fields(postgres())]);
    let findings = check(&budget, &larger(with_fields(postgres()), Account::Schema, 1));
    assert_eq!(status(&findings), exit::OUTSIDE);
    let [finding] = findings.as_slice() else { panic!("{findings:?}") };
    assert_eq!(
        finding.message,
        "SELECT: response.payload 237 B per operation, allowed 236 B (+1 B, +0.4%): schema +1; schema row.new +1"
    );
    assert_eq!(finding.judged.map(|of| (of.measured, of.allowed)), Some((237.0, 236.0)));
}

#[test]
fn a_run_that_sets_up_more_says_which_operations_grew() {
    let mut run = postgres();
    let mut prepare = run.run.operations.iter().find(|row| row.name == "SELECT").unwrap().clone();
    (prepare.class, prepare.name) = (Class::Setup, "PREPARE".to_owned());
    run.run.operations.push(prepare);
    let findings = check(&budget(&[postgres()]), &run);
    let finding = findings.iter().find(|finding| finding.metric == Some(BudgetMetric::Payload(Side::Request))).unwrap();
    assert_eq!(finding.operation, "all operations");
    let judged = finding.judged.unwrap();
    let [grown] = finding.changes.operations.as_slice() else { panic!("{finding:?}") };
    assert_eq!(grown.name, "setup PREPARE");
    // The budget is rounded up to a tenth, and the composition to hundredths.
    assert!((grown.by - (judged.measured - judged.reference)).abs() < 0.11, "{finding:?}");
    let accounts: f64 = finding.changes.accounts.iter().map(|change| change.by).sum();
    assert!((accounts - grown.by).abs() < 0.1, "{finding:?}");
    assert!(finding.message.contains("; setup PREPARE +"), "{}", finding.message);
}

#[test]
fn bytes_are_exact_however_many_operations_there_were() {
    let mut run = postgres();
    for row in &mut run.run.operations {
        row.count *= 3;
        row.request.frames *= 3;
        row.response.frames *= 3;
        for side in [&mut row.request, &mut row.response] {
            for account in Account::ALL {
                side.accounts[account] *= 3;
            }
        }
    }
    let findings = check(&budget(&[postgres()]), &run);
    assert!(findings.iter().all(|finding| !finding.message.contains("payload")), "{findings:?}");
}

#[test]
fn what_is_not_there_or_was_not_measured_never_passes() {
    let mut budget = budget(&[postgres()]);
    budget.run.retain(|figure, _| !figure.is_of_operation());
    let mut run = postgres();
    run.run.operations.retain(|row| row.name != "SELECT");
    run.run.counters = Measured::unavailable("offline");
    let findings = check(&budget, &run);
    assert_eq!(status(&findings), exit::PARTIAL);
    let said: Vec<&str> = findings.iter().map(|finding| finding.message.as_str()).collect();
    assert!(said.contains(&"SELECT: the run has no such operation (pgwire SELECT)"), "{said:?}");
    let syscalls = "all operations: syscalls: offline: capture with counters, or delete this limit from the budget";
    assert!(said.contains(&syscalls), "{said:?}");
}

#[test]
fn a_partial_run_never_passes_and_may_still_be_outside() {
    let mut run = postgres();
    run.run.exit = exit::PARTIAL;
    run.run.tcp.gap_bytes = 7;
    assert_eq!(status(&check(&budget(&[postgres()]), &run)), exit::PARTIAL);
    let findings = check(&budget(&[postgres()]), &larger(run, Account::Schema, 9));
    assert_eq!(status(&findings), exit::OUTSIDE);
}

#[test]
fn a_run_whose_command_failed_never_passes() {
    let mut run = postgres();
    run.run.environment.as_mut().unwrap().workload.as_mut().unwrap().exit_code = Some(1);
    let findings = check(&budget(&[postgres()]), &run);
    assert_eq!(status(&findings), exit::PARTIAL);
    assert_eq!(findings[0].message, "the command ended with status 1");
    assert_eq!(status(&against(postgres(), run.clone(), &["response.wire>+1%"])), exit::PARTIAL);
    // A command that we ended has not failed.
    run.run.environment.as_mut().unwrap().workload.as_mut().unwrap().was_ended = true;
    assert_eq!(check(&budget(&[postgres()]), &run), []);
}

#[test]
fn an_operation_that_is_not_in_the_budget_fails_it_or_is_named() {
    let text = budget_of(&[postgres()], By::Name);
    let mut run = postgres();
    let mut more = run.run.operations.iter().find(|row| row.name == "SELECT").unwrap().clone();
    "UPDATE".clone_into(&mut more.name);
    run.run.operations.push(more.clone());
    for (word, expected) in [("fail", exit::OUTSIDE), ("warn", exit::COMPLETE), ("ignore", exit::COMPLETE)] {
        let text = text.replace("unlisted = \"fail\"", &format!("unlisted = \"{word}\""));
        let (limits, operations) = text.split_once("[run]").unwrap();
        let operations = operations.split_once("[[operation]]").unwrap().1;
        let budget = Budget::parse(&format!("{limits}[[operation]]{operations}")).unwrap();
        let findings = check(&budget, &run);
        assert_eq!(status(&findings), expected, "{findings:?}");
        assert_eq!(findings.iter().any(|finding| finding.operation == "UPDATE"), word != "ignore");
    }
    // One among thousands is negligible.
    let rare = run.run.operations.last_mut().unwrap();
    rare.count = 1;
    rare.request.accounts = more.request.accounts;
    rare.request.accounts[Account::Query] = 1;
    for account in Account::ALL {
        rare.request.accounts[account] /= 1_000;
        rare.response.accounts[account] /= 1_000;
    }
    assert!(check(&budget(&[postgres()]), &run).iter().all(|finding| finding.operation != "UPDATE"));
}

#[test]
fn a_budget_that_limits_nothing_or_is_not_one_is_refused() {
    let operation = "version = 1\n[[operation]]\nprotocol = \"resp\"\nname = \"GET\"\n[operation.budget]\n";
    for (text, said) in [
        ("version = 1\n".to_owned(), "it has no limit"),
        ("version = 2\n[run]\nsyscalls = 1\n".to_owned(), "version is 2"),
        (operation.to_owned(), "GET has no limit"),
        (format!("{operation}\"request.payload\" = -1\n"), "at least 0"),
        (format!("{operation}\"request.payload\" = nan\n"), "at least 0"),
        (format!("{operation}\"request.payload\" = {{ budget = 1, tolerance = \"x%\" }}\n"), "line 6"),
        (format!("{operation}\"syscalls\" = 1\n"), "system calls in [run]"),
        (format!("{operation}\"request.bytes\" = 1\n"), "unknown metric"),
        (format!("{operation}\"request.payload\" = 1\n[operation.budgets]\n"), "line 7"),
        ("version = 1\nversion".to_owned(), "line 2"),
        ("version = 1\n[run]\ncycles = 4\n".to_owned(), "compare --fail-on"),
    ] {
        let error = Budget::parse(&text).unwrap_err().to_string();
        assert!(error.contains(said), "{error}\n{text}");
    }
    let whole = Budget::parse(&format!(
        "{operation}\"request.payload\" = 25\n\"latency.p99\" = {{ budget = 5, tolerance = \"10%\" }}\n"
    ));
    assert!((whole.unwrap().operations[0].budget["latency.p99".parse().as_ref().unwrap()].most() - 5.5).abs() < 1e-9);
}

#[test]
fn names_are_written_as_strings_whatever_is_in_them() {
    let mut run = postgres();
    for row in run.run.operations.iter_mut().filter(|row| row.class == Class::Workload) {
        row.name = format!("{} \"a\\b\"\n[[operation]]\nx = '1' # {}", row.name, '\u{7f}');
    }
    let findings = check(&budget(&[run.clone()]), &run);
    assert_eq!(findings, []);
}

/// Returns a run with one SELECT statement, sent in one way, with `query` bytes of text each.
fn select(statement: &str, via: &str, query: u64) -> NamedRun {
    let mut named = postgres();
    named.run.operations.retain(|row| row.name == "SELECT");
    for row in &mut named.run.operations {
        via.clone_into(&mut row.via);
        row.request.accounts[Account::Query] += query * row.count;
        let side = |accounts| SideSums { frames: row.count, accounts, ..SideSums::default() };
        row.statements = vec![StatementRow {
            text: statement.to_owned(),
            totals: RowTotals {
                count: row.count,
                request: side(row.request.accounts),
                response: side(row.response.accounts),
                ..RowTotals::default()
            },
            ..StatementRow::default()
        }];
    }
    named
}

#[test]
fn a_statement_is_found_however_it_is_sent_and_its_placeholders_are_written() {
    let prepared = || select("SELECT a FROM t WHERE id = $1", "prepared", 0);
    let text = budget_of(&[prepared()], By::Statement);
    assert!(text.contains("statement = \"SELECT a FROM t WHERE id = $1\""), "{text}");
    let budget = Budget::parse(&text).unwrap();
    assert_eq!(check(&budget, &prepared()), []);
    let findings = check(&budget, &select("SELECT a FROM t WHERE id = ?", "simple", 39));
    assert_eq!(status(&findings), exit::OUTSIDE);
    let of_statement = findings.iter().find(|finding| finding.operation.starts_with("SELECT a")).unwrap();
    assert!(of_statement.message.contains("query +39"), "{}", of_statement.message);
    let other = check(&budget, &select("SELECT b FROM t", "prepared", 0));
    let said: Vec<&str> = other.iter().map(|finding| finding.message.as_str()).collect();
    assert!(said.iter().any(|said| said.contains("no such SELECT statement")), "{said:?}");
    assert!(said.iter().any(|said| said.starts_with("SELECT b FROM t: not in the budget")), "{said:?}");
}

#[test]
fn a_budget_of_several_runs_allows_the_largest_of_them() {
    let runs = [postgres(), larger(postgres(), Account::Schema, 5)];
    let budget = budget(&runs);
    for run in &runs {
        assert_eq!(check(&budget, run), []);
    }
    let text = budget_of(&runs, By::Statement);
    assert!(text.contains("\"response.payload\" = { budget = 241, tolerance = \"3%\" }"), "{text}");
    assert_eq!(status(&check(&budget, &larger(postgres(), Account::Schema, 14))), exit::OUTSIDE);
}

#[test]
fn figures_that_are_printed_alike_are_no_breach() {
    let text = budget_of(&[postgres()], By::Statement).replace("budget = 236,", "budget = 235.98,");
    let budget = Budget::parse(&text).unwrap();
    assert_eq!(check(&budget, &postgres()), []);
    let least = Budget::parse(&text.replace("budget = 235.98,", "budget = 235.5,")).unwrap();
    let [finding] = &check(&least, &postgres())[..] else { panic!("{text}") };
    assert!(finding.message.contains("236 B per operation, allowed 235.5 B (+0.5 B, +0.2%)"), "{}", finding.message);
}

fn limits(texts: &[&str]) -> Vec<ChangeLimit> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn against(first: NamedRun, second: NamedRun, texts: &[&str]) -> Vec<Finding> {
    exceeded(&limits(texts), &RunGroup::single(first), &RunGroup::single(second), By::Statement)
}

#[test]
fn a_comparison_fails_on_what_grew_by_more_than_is_allowed() {
    let second = || larger(postgres(), Account::Schema, 33);
    let failing = |text| against(postgres(), second(), &[text]);
    for text in ["response.payload>+1%", "response.wire>+32", "response.schema>+0", "response.payload>+13.9%"] {
        let findings = failing(text);
        assert_eq!(status(&findings), exit::OUTSIDE, "{text}: {findings:?}");
        assert!(findings[0].message.contains("schema +33"), "{}", findings[0].message);
    }
    for text in
        ["response.payload>+14%", "response.schema>+33", "request.wire>+0", "response.frames>+0%", "syscalls>+0"]
    {
        assert_eq!(failing(text), [], "{text}");
    }
    // A decrease is no breach.
    assert_eq!(against(second(), postgres(), &["response.payload>+0"]), []);
}

#[test]
fn one_run_does_not_show_a_latency_and_nothing_paired_shows_nothing() {
    for text in ["latency.p50>+1%", "cycles>+1%"] {
        let findings = against(postgres(), postgres(), &[text]);
        assert_eq!(status(&findings), exit::PARTIAL, "{text}: {findings:?}");
        assert!(findings[0].message.contains("--runs"), "{}", findings[0].message);
    }
    let mut none = postgres();
    none.run.operations.clear();
    assert_eq!(status(&against(postgres(), none, &["response.wire>+1%"])), exit::PARTIAL);
    let mut fewer = postgres();
    fewer.run.operations.retain(|row| row.name != "SELECT");
    assert_eq!(status(&against(postgres(), fewer, &["response.wire>+1%"])), exit::PARTIAL);
}

/// Returns runs with these median latencies in microseconds.
fn repeated(p50_us: &[u64]) -> RunGroup {
    let run = |us: &u64| {
        let mut named = postgres();
        for row in &mut named.run.operations {
            row.latency_ns = Measured::Value(Latency { p50: us * 1_000, ..row.latency_ns.or_empty() });
        }
        named
    };
    RunGroup { name: "group".to_owned(), runs: p50_us.iter().map(run).collect() }
}

#[test]
fn a_latency_of_repeated_runs_fails_only_where_it_is_shown() {
    let limits = limits(&["latency.p50>+5%"]);
    let judged = |first: &[u64], second: &[u64]| {
        let findings = exceeded(&limits, &repeated(first), &repeated(second), By::Statement);
        (status(&findings), findings.len())
    };
    assert_eq!(judged(&[100, 101, 99], &[150, 151, 149]), (exit::OUTSIDE, 2));
    assert_eq!(judged(&[100, 140, 80], &[150, 100, 130]), (exit::COMPLETE, 2));
    assert_eq!(judged(&[100, 101, 99], &[101, 100, 102]), (exit::COMPLETE, 0));
}
