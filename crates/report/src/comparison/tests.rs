//! A study made of the fixture's runs: what the write-up says is what the records say.

use super::topics::Topic;
use super::*;
use crate::fixture;
use overhead_model::load::{Load, LoadCpu, LoadDriver, LoadResult, LoadRun, LoadServer, LoadSettings, LoadSummary};
use overhead_model::record::{FieldRow, Latency, OperationRow, Tool};
use overhead_model::{Account, Run, Side};

/// Request and response of the fixture's rows, as a reference measurement would have them.
const REFERENCE: &str = "db,operation,request,response,driver
redis,read,25,116,driver 1
postgres,read,46,236,driver 1
cassandra,read,46,999,driver 1
mongodb,insert,316,45,driver 1
";

fn settings(skip_metadata: bool) -> LoadSettings {
    LoadSettings { prepared: Some(true), skip_metadata: Some(skip_metadata), threads: 1, ..LoadSettings::default() }
}

/// A result of so many operations per second, of which the client's thread needs the part `busy`.
fn result(operation: &str, clients: u32, pipeline: u32, per_second: f64, busy: f64) -> LoadResult {
    let latency = |ns| Latency { count: 1, p50: ns, p99: 2 * ns, ..Latency::default() };
    let run = LoadRun {
        started_ns: 0,
        elapsed_ns: 1_000_000_000,
        operations: per_second as u64,
        errors: 0,
        first_error: None,
        per_second,
        latency_ns: latency(77_000),
        cpu_ns: LoadCpu { user: 0, kernel: (busy * 1e9) as u64 },
        partial: None,
    };
    let runs = vec![run];
    let summary = LoadSummary::of(&runs);
    LoadResult {
        operation: operation.to_owned(),
        mix: std::collections::BTreeMap::new(),
        clients,
        pipeline,
        rate: None,
        runs,
        summary,
        partial: None,
    }
}

fn load(db: &str, settings: LoadSettings, results: Vec<LoadResult>) -> Load {
    Load {
        schema_version: 1,
        tool: Tool { name: "overhead".to_owned(), version: "0".to_owned() },
        command_line: Vec::new(),
        db: db.to_owned(),
        protocol: String::new(),
        driver: LoadDriver { name: "driver".to_owned(), version: "1.2".to_owned() },
        servers: vec![LoadServer { address: "127.0.0.1:1".to_owned(), version: Some(format!("{db} 9.9")) }],
        rows: 10,
        payload_bytes: 36,
        settings,
        results,
        partial: None,
    }
}

/// Every payload account of a row as one field, named so that its topic is known.
fn with_fields(mut row: OperationRow) -> OperationRow {
    let sides = [(Side::Request, row.request.accounts), (Side::Response, row.response.accounts)];
    let name = |account| match (row.protocol.as_str(), account) {
        ("cql", Account::Schema) => "RESULT.metadata.column name".to_owned(),
        ("cql", Account::Framing) => "RESULT.rows.element length".to_owned(),
        _ => format!("all.{account}"),
    };
    let mut fields = Vec::new();
    for (side, amounts) in sides {
        for (account, bytes) in amounts.iter().filter(|(account, bytes)| account.is_payload() && *bytes > 0) {
            fields.push(FieldRow { side, account, field: name(account), bytes });
        }
    }
    row.fields = Some(fields);
    row
}

fn only(run: &Run, at: usize) -> Run {
    let mut run = run.clone();
    let kept: Vec<OperationRow> = run
        .operations
        .drain(..)
        .filter(|row| row.class == overhead_model::Class::Workload)
        .filter(|row| ["GET", "SELECT", "find"].contains(&&*row.name) == (at == 0))
        .map(with_fields)
        .collect();
    run.operations = kept;
    run
}

fn write(path: PathBuf, content: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// A folder as `lab/comparison` leaves it.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("overhead-comparison-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    let json = |value: &Load| serde_json::to_vec(value).unwrap();
    for named in fixture::databases(true) {
        let db = named.name.as_str();
        for (at, operation) in [(0, "read"), (1, "insert")] {
            for clients in [1, 16] {
                let cell = folder.join(format!("runs/{db}-{operation}-{clients}"));
                let one =
                    result(operation, clients, 1, 1_000.0 * f64::from(clients), if clients == 1 { 0.1 } else { 0.95 });
                write(cell.join("run.json"), serde_json::to_vec(&only(&named.run, at)).unwrap());
                write(cell.join("bench.json"), json(&load(db, settings(false), vec![one.clone()])));
                let counted = folder.join(format!("load/{db}-{operation}-{clients}"));
                write(counted.join("run.json"), serde_json::to_vec(&named.run).unwrap());
                write(counted.join("bench.json"), json(&load(db, settings(false), vec![one])));
            }
        }
        if db == "cassandra" {
            let mut run = only(&named.run, 0);
            run.operations[0].response.accounts[Account::Schema] = 0;
            run.operations[0] = with_fields(run.operations[0].clone());
            let cell = folder.join("runs/cassandra-read-1-skip");
            write(cell.join("run.json"), serde_json::to_vec(&run).unwrap());
            write(cell.join("bench.json"), json(&load(db, settings(true), vec![result("read", 1, 1, 1_000.0, 0.1)])));
        }
    }
    let round = |tool: &str, per_second: f64| {
        serde_json::json!({"tool": tool, "db": "redis", "operation": "read", "clients": 16, "per_second": per_second,
            "cpu_ns_per_operation": 5_000.0, "command": format!("{tool} --run")})
    };
    let peers = vec![
        round("", 90.0),
        round("other 1.0", 60.0),
        round("", 100.0),
        round("other 1.0", 50.0),
        round("", 80.0),
        round("other 1.0", 45.0),
    ];
    write(folder.join("peers.json"), serde_json::to_vec(&peers).unwrap());
    write(folder.join("reference.csv"), REFERENCE);
    write(folder.join("conditions.json"), r#"{"servers": {"redis": "Redis 7.7"}, "cpus_in_use": 1.5}"#);
    folder
}

/// The document, without the figures.
fn written(name: &str) -> String {
    let folder = folder(name);
    let text = writeup::writeup(&Study::read(&folder).unwrap());
    fs::remove_dir_all(folder).unwrap();
    text
}

#[track_caller]
fn says(text: &str, wanted: &[&str]) {
    for wanted in wanted {
        assert!(text.contains(wanted), "`{wanted}` is not in:\n{text}");
    }
}

#[test]
fn payload_is_equal_to_the_reference_or_said_to_differ() {
    let text = written("reference");
    says(
        &text,
        &[
            "| Redis | read | 25/116 | driver 1.2 | 25/116 | driver 1 | equal |",
            "differs by 0 / −743",
            "not in the reference",
        ],
    );
    says(&text, &["3 of 8 are equal"]);
}

/// The numbers of the published comparison are pictures: a table of ours must not be taken for them.
#[test]
fn only_sentences_are_called_published() {
    let text = written("published");
    let (_, after) = text.split_once("## Beside what was published\n").unwrap();
    let (words, rest) = after.split_once("\n## ").unwrap();
    let elsewhere = text.replace(words, "").replace("It is no published figure.", "");
    let claims: Vec<&str> = elsewhere.lines().filter(|line| line.contains("publish")).collect();
    assert!(claims.iter().all(|line| line.starts_with("## ") || line.contains("published comparison")), "{claims:?}");
    says(words, &["| Redis sends nothing superfluous, and no column names. | Of 141 B of payload"]);
    says(words, &["Redis 66, PostgreSQL 66", "| Not measured here. |", "In MongoDB's protocol"]);
    assert!(!rest.contains("equal to what was published"));
}

#[test]
fn each_pair_is_explained_by_account_purpose_and_field() {
    let text = written("pairs");
    says(&text, &["### PostgreSQL and Cassandra", "By account: response schema +29, request framing −14"]);
    says(&text, &["response, names and types of columns: **+33**, 0 and 33 B.", "`RESULT.metadata.column name` 33."]);
    for pair in ["Redis and PostgreSQL", "Redis and MongoDB", "Cassandra and MongoDB"] {
        says(&text, &[&format!("### {pair}\n")]);
    }
}

#[test]
fn servers_are_named_and_a_busy_machine_is_too() {
    let text = written("conditions");
    says(
        &text,
        &["| Redis | Redis 7.7 | resp | driver 1.2 |", "The machine had other work as well: 1.50 CPUs were in use"],
    );
}

#[test]
fn a_setting_stands_beside_its_default_with_what_it_saves() {
    let text = written("settings");
    says(&text, &["| Cassandra | result metadata skipped | read, SELECT (prepared) | 112/322 | 112/289 | −33 |"]);
    says(&text, &["Cassandra, `read`, result metadata skipped: response, names and types of columns −33"]);
}

#[test]
fn the_client_is_named_where_it_is_the_limit() {
    let text = written("limits");
    says(&text, &["In 8 of 8 combinations with several clients, the client is the first to be exhausted"]);
    says(&text, &["Redis `read` with 16 clients (at 16,842/s)", "| 95.0% |"]);
}

#[test]
fn other_tools_stand_beside_the_median_of_our_rounds() {
    let text = written("peers");
    says(&text, &["| Redis | other 1.0 | 16 | 90 | 50 | 1.80 | 5.0 | 5.0 | 1.00 |", "- `other 1.0 --run`"]);
}

#[test]
fn the_same_records_give_the_same_files_and_figures_that_exist() {
    let folder = folder("same");
    let files = write_comparison(&folder).unwrap();
    let first = fs::read_to_string(folder.join("README.md")).unwrap();
    assert!(files.iter().all(|file| file.is_file()));
    fs::remove_dir_all(folder).unwrap();
    assert_eq!(first, written("same again"));
    let figures: Vec<&str> = first.split("](figures/").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(figures.len() >= 4, "{figures:?}");
    for figure in figures {
        assert!(files.iter().any(|file| file.ends_with(Path::new("figures").join(figure))), "{figure}");
    }
}

#[test]
fn a_folder_without_records_is_named() {
    let missing = std::env::temp_dir().join("overhead-comparison-missing");
    let message = write_comparison(&missing).unwrap_err().to_string();
    assert!(message.contains("reference.csv"), "{message}");
}

#[test]
fn fields_of_every_protocol_have_their_topics() {
    use Topic::{
        Columns, Data, Elements, Envelope, Messages, Namespace, Opaque, Outcome, Session, Statement, Steering, Values,
    };
    let cases = [
        ("cql", Account::Schema, "RESULT.metadata.keyspace name", Namespace),
        ("cql", Account::Framing, "RESULT.metadata.string length", Columns),
        ("cql", Account::Metadata, "RESULT.flags", Messages),
        ("cql", Account::Metadata, "EXECUTE.flags", Steering),
        ("cql", Account::Framing, "RESULT.rows.element length", Elements),
        ("cql", Account::Metadata, "EXECUTE.statement id", Statement),
        ("cql", Account::Data, "RESULT.compressed", Opaque),
        ("cql", Account::Query, "QUERY.statement", Statement),
        ("pgwire", Account::Framing, "row.value.dimensions", Elements),
        ("pgwire", Account::Framing, "row.value length", Values),
        ("pgwire", Account::Schema, "row description.column.name", Columns),
        ("pgwire", Account::Framing, "sync.message length", Messages),
        ("pgwire", Account::Status, "command complete.command tag", Outcome),
        ("mongo", Account::Metadata, "OP_MSG.sections.command.options.value", Session),
        ("mongo", Account::Metadata, "OP_MSG.sections.command.name", Envelope),
        ("mongo", Account::Framing, "OP_MSG.sections.documents.document.document.array index", Elements),
        ("mongo", Account::Schema, "OP_MSG.sections.documents.document.field name", Columns),
        ("mongo", Account::Framing, "OP_MSG.sections.reply.cursor.document.array index", Envelope),
        ("mongo", Account::Data, "OP_MSG.sections.documents.document.value", Data),
        ("resp", Account::Framing, "argument length", Values),
        ("resp", Account::Query, "command", Statement),
        ("resp", Account::Framing, "CRLF", Messages),
        ("a later one", Account::Query, "argument length", Statement),
        ("a later one", Account::Framing, "value length", Messages),
    ];
    for (protocol, account, field, topic) in cases {
        let row = FieldRow { side: Side::Response, account, field: field.to_owned(), bytes: 1 };
        assert_eq!(Topic::of(protocol, &row), topic, "{protocol} {field}");
    }
}
