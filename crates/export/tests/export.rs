//! Exports fixtures and reads them back: every byte of the frames is in one row, for each format and number of threads.

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
#[cfg(unix)]
use std::io::Write;
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::process::Stdio;
use std::process::{Command, Output};
#[cfg(unix)]
use std::time::Duration;

fn fixture(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name);
    ["capture.pcap", "capture.pcapng"].map(|file| folder.join(file)).into_iter().find(|path| path.is_file()).unwrap()
}

fn export(data: &Path, files: &[&Path], options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_overhead-export"))
        .args(files)
        .arg("-o")
        .arg(data)
        .args(options)
        .env_remove("SSLKEYLOGFILE")
        .output()
        .unwrap()
}

#[track_caller]
fn exported(data: &Path, files: &[&Path], options: &[&str]) {
    let output = export(data, files, options);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Returns the content of all files by path.
fn files(data: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut files, mut folders) = (BTreeMap::new(), vec![data.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.insert(path.strip_prefix(data).unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    files
}

fn rows(path: &Path) -> Vec<Row> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    reader.get_row_iter(None).unwrap().map(Result::unwrap).collect()
}

fn number(row: &Row, column: &str) -> i64 {
    match row.get_column_iter().find(|(name, _)| *name == column).unwrap().1 {
        Field::Long(value) => *value,
        other => panic!("{column} is {other}"),
    }
}

fn text<'a>(row: &'a Row, column: &str) -> &'a str {
    match row.get_column_iter().find(|(name, _)| *name == column).unwrap().1 {
        Field::Str(value) => value,
        other => panic!("{column} is {other}"),
    }
}

fn part(table: &str, run: &str) -> String {
    format!("{table}/host=lab/run={run}/part-00000.parquet")
}

#[test]
fn every_byte_of_the_frames_is_in_one_row() {
    let data = tempfile::tempdir().unwrap();
    for name in ["redis-get-set", "redis-pipeline", "redis-lossy", "postgres-session", "cassandra-rust", "redis-unix"] {
        exported(data.path(), &[&fixture(name)], &["--host", "lab", "--run", name]);
        let runs = rows(&data.path().join(part("runs", name)));
        let operations = rows(&data.path().join(part("operations", name)));
        let statements = rows(&data.path().join(part("statements", name)));
        let sum = |rows: &[Row], column: &str| rows.iter().map(|row| number(row, column)).sum::<i64>();
        let wire = |rows: &[Row]| sum(rows, "request_wire_bytes") + sum(rows, "response_wire_bytes");
        let [run] = runs.as_slice() else { panic!("{} runs", runs.len()) };
        assert_eq!(wire(&operations) + number(run, "other_bytes"), number(run, "wire_bytes"), "{name}");
        assert_eq!(number(run, "difference"), 0, "{name}");
        assert_eq!(number(run, "operation_rows") as usize, operations.len(), "{name}");
        for statement in &statements {
            let id = number(statement, "statement_id");
            let of: Vec<Row> = operations.iter().filter(|row| number(row, "statement_id") == id).cloned().collect();
            assert_eq!(wire(&of), wire(std::slice::from_ref(statement)), "{name}: {}", text(statement, "text"));
            let counted = of.iter().filter(|row| !["late", "unsolicited"].contains(&text(row, "outcome"))).count();
            assert_eq!(
                i64::try_from(counted).unwrap(),
                number(statement, "operations"),
                "{name}: {}",
                text(statement, "text")
            );
        }
        assert_eq!(wire(&statements), wire(&operations), "{name}");
    }
}

#[test]
fn files_are_the_same_with_any_number_of_threads_and_from_parts() {
    let data = tempfile::tempdir().unwrap();
    let set = fixture("redis-get-set");
    for form in ["parquet", "csv", "ndjson"] {
        let of_threads = ["1", "4"].map(|threads| {
            let data = data.path().join(format!("{form}-{threads}"));
            exported(&data, &[&set], &["--run", "a", "--format", form, "--threads", threads]);
            files(&data)
        });
        assert_eq!(of_threads[0].len(), 4);
        assert!(of_threads[0] == of_threads[1], "{form}");
    }
}

#[test]
fn lines_have_the_same_as_parquet() {
    let data = tempfile::tempdir().unwrap();
    let capture = fixture("postgres-session");
    for form in ["parquet", "csv", "ndjson"] {
        exported(data.path(), &[&capture], &["--host", "lab", "--run", form, "--format", form]);
    }
    let table = rows(&data.path().join(part("operations", "parquet")));
    let read = |form: &str| {
        fs::read_to_string(data.path().join(format!("operations/host=lab/run={form}/part-00000.{form}"))).unwrap()
    };
    let lines = read("ndjson");
    assert_eq!(lines.lines().count(), table.len());
    for (line, row) in lines.lines().zip(&table) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!((line["host"].as_str(), line["run"].as_str()), (Some("lab"), Some("ndjson")));
        for (name, value) in row.get_column_iter() {
            let found = &line[name];
            match value {
                Field::Long(number) => assert_eq!(found.as_i64(), Some(*number), "{name}"),
                Field::Str(text) => assert_eq!(found.as_str(), Some(text.as_str()), "{name}"),
                Field::Null => assert!(found.is_null(), "{name}"),
                other => panic!("{name} is {other}"),
            }
        }
    }
    let csv = read("csv");
    assert_eq!(csv.lines().next().unwrap().split(',').count(), table[0].len() + 2);
    assert!(csv.lines().count() > table.len());
}

#[test]
fn the_page_has_every_column() {
    let output = Command::new(env!("CARGO_BIN_EXE_overhead-export")).arg("--schema").output().unwrap();
    let schema = String::from_utf8(output.stdout).unwrap();
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/export.md")).unwrap();
    assert!(schema.contains("| `response_unknown_bytes` | int64 | bytes |"));
    assert!(page.contains(&schema), "docs/export.md is to have what `overhead export --schema` prints");
}

#[test]
fn days_have_a_folder_each() {
    let data = tempfile::tempdir().unwrap();
    exported(data.path(), &[&fixture("redis-get-set")], &["--run", "a", "--by-day"]);
    let days: Vec<PathBuf> = files(data.path()).into_keys().filter(|path| path.starts_with("operations")).collect();
    let [path] = days.as_slice() else { panic!("{days:?}") };
    let day = path.components().nth(1).unwrap().as_os_str().to_string_lossy().into_owned();
    assert!(day.starts_with("day=20") && day.len() == "day=2026-11-22".len(), "{day}");
}

#[test]
fn an_export_is_replaced_only_by_force() {
    let data = tempfile::tempdir().unwrap();
    let capture = fixture("redis-get-set");
    exported(data.path(), &[&capture], &["--run", "a"]);
    let before = files(data.path());
    let refused = export(data.path(), &[&capture], &["--run", "a"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1));
    assert!(said.contains("--force") && said.contains("run=a"), "{said}");
    exported(data.path(), &[&capture], &["--run", "a", "--force"]);
    assert!(before == files(data.path()), "the same bytes");
}

#[test]
fn what_is_there_stays_until_its_replacement_is_whole() {
    let data = tempfile::tempdir().unwrap();
    exported(data.path(), &[&fixture("redis-get-set")], &["--run", "a", "--by-day", "--format", "csv"]);
    let before = files(data.path());
    let failed = export(data.path(), &[Path::new("/no/such.pcap")], &["--run", "a", "--force"]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(before == files(data.path()), "a failed export replaces nothing");
    exported(data.path(), &[&fixture("redis-get-set")], &["--run", "a", "--force"]);
    let after: Vec<PathBuf> = files(data.path()).into_keys().collect();
    assert_eq!(after.len(), 4, "files of another form, and of days, are gone: {after:?}");
    assert!(after.iter().all(|path| path.extension().is_some_and(|ending| ending == "parquet")), "{after:?}");
}

#[test]
fn what_a_killed_export_has_left_is_in_nobodys_way() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("operations/host=unknown/run=a");
    fs::create_dir_all(&folder).unwrap();
    let part = folder.join(".part-00000.parquet.1.part");
    let held = File::create(&part).unwrap();
    held.lock().unwrap();
    let refused = export(data.path(), &[&fixture("redis-get-set")], &["--run", "a"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && said.contains("another export"), "{said}");
    drop(held);
    exported(data.path(), &[&fixture("redis-get-set")], &["--run", "a"]);
    assert_eq!(files(data.path()).len(), 4);
}

#[test]
fn runs_of_one_name_are_refused_before_any_is_read() {
    let work = tempfile::tempdir().unwrap();
    let [one, other] = ["one/get", "other/get"].map(|name| {
        let folder = work.path().join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::copy(fixture("redis-get-set"), folder.join("packets.pcapng")).unwrap();
        folder
    });
    let data = work.path().join("data");
    for options in [&[][..], &["--force"]] {
        let refused = export(&data, &[&one, &other], options);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(2) && said.contains("named get and come from host unknown"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(!data.exists());
    }
}

/// Repeats the frames of a capture with new client ports until the reader is gone.
#[cfg(unix)]
fn write_without_end(mut input: impl Write) {
    let whole = fs::read(fixture("redis-pipeline")).unwrap();
    let (head, mut body) = (&whole[..24], whole[24..].to_vec());
    let mut written = input.write_all(head);
    while written.is_ok() {
        written = input.write_all(&body);
        let mut at = 0;
        while at < body.len() {
            let captured = u32::from_le_bytes(body[at + 8..at + 12].try_into().unwrap()) as usize;
            for port in [at + 16 + 34, at + 16 + 36] {
                let number = u16::from_be_bytes([body[port], body[port + 1]]);
                if number != 7379 {
                    body[port..port + 2].copy_from_slice(&(number.wrapping_add(1).max(8_000)).to_be_bytes());
                }
            }
            at += 16 + captured;
        }
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_export_leaves_nothing() {
    let data = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_overhead-export"))
        .args(["-", "--run", "a", "--port", "7379", "-o"])
        .arg(data.path())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(|| write_without_end(input));
    while files(data.path()).is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "it goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), said.lines().count()), (Some(130), 1), "{said}");
    writer.join().unwrap();
    assert!(files(data.path()).is_empty());
    assert_eq!(fs::read_dir(data.path()).unwrap().count(), 0, "folders are gone, too");
}

#[test]
fn nothing_is_left_of_an_export_that_fails() {
    let data = tempfile::tempdir().unwrap();
    let output = export(data.path(), &[Path::new("/no/such.pcap")], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such.pcap"));
    assert!(files(data.path()).is_empty());
    let cut = data.path().join("cut.pcap");
    let whole = fs::read(fixture("redis-get-set")).unwrap();
    fs::write(&cut, &whole[..whole.len() - 7]).unwrap();
    let output = export(&data.path().join("cut"), &[&cut], &["--run", "cut"]);
    assert_eq!(output.status.code(), Some(3), "a cut file is a partial run");
    assert_eq!(files(&data.path().join("cut")).len(), 4);
}

#[test]
#[cfg(unix)]
fn a_planted_link_leads_nowhere_and_files_are_private() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    for table in ["operations", "runs", "runs/host=lab"] {
        let (data, victim) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(data.path().join(table).parent().unwrap()).unwrap();
        symlink(victim.path(), data.path().join(table)).unwrap();
        let output = export(data.path(), &[&fixture("redis-get-set")], &["--host", "lab", "--run", "a", "--force"]);
        assert_eq!(output.status.code(), Some(1), "{table}");
        assert_eq!(fs::read_dir(victim.path()).unwrap().count(), 0, "{table}");
    }
    let data = tempfile::tempdir().unwrap();
    let root = data.path().join("data");
    exported(&root, &[&fixture("redis-get-set")], &["--host", "lab", "--run", "a"]);
    let file = root.join(part("operations", "a"));
    assert_eq!([&root, file.parent().unwrap(), &file].map(mode), [0o700, 0o700, 0o600]);
    // A group that the folder hands on may read.
    let root = data.path().join("of a group");
    fs::create_dir(&root).unwrap();
    fs::set_permissions(&root, fs::Permissions::from_mode(0o2750)).unwrap();
    exported(&root, &[&fixture("redis-get-set")], &["--host", "lab", "--run", "a"]);
    let file = root.join(part("operations", "a"));
    assert_eq!([file.parent().unwrap(), &file].map(mode), [0o2750, 0o640]);
}

fn number_or_none(row: &Row, column: &str) -> Option<i64> {
    match row.get_column_iter().find(|(name, _)| *name == column).unwrap().1 {
        Field::Long(value) => Some(*value),
        Field::Null => None,
        other => panic!("{column} is {other}"),
    }
}

#[test]
fn windows_of_a_capture_are_rows_with_their_numbers() {
    let data = tempfile::tempdir().unwrap();
    let capture = fixture("postgres-session");
    exported(data.path(), &[&capture], &["--host", "lab", "--run", "all"]);
    let all = &rows(&data.path().join(part("runs", "all")))[0];
    let seconds = (number(all, "last_ns") - number(all, "first_ns")) as f64 / 1e9;
    let cycle = format!("{}ms/{}ms", (seconds * 40.0).ceil(), (seconds * 100.0).ceil());
    exported(data.path(), &[&capture], &["--host", "lab", "--run", "some", "--sample", &cycle]);
    let some = &rows(&data.path().join(part("runs", "some")))[0];
    let operations = rows(&data.path().join(part("operations", "some")));
    let connections = rows(&data.path().join(part("connections", "some")));
    let sum = |column: &str| operations.iter().map(|row| number(row, column)).sum::<i64>();
    let wire = sum("request_wire_bytes") + sum("response_wire_bytes");
    assert_eq!(wire + number(some, "other_bytes"), number(some, "wire_bytes"));
    assert!(0 < wire && number(some, "wire_bytes") < number(all, "wire_bytes"));
    let [windows, covered, span] =
        ["sample_windows", "sample_covered_ns", "sample_span_ns"].map(|column| number(some, column));
    assert!((10..=11).contains(&windows), "{windows}");
    assert!((covered as f64 / span as f64 - 0.4).abs() < 0.08, "{covered} of {span}");
    let ids: std::collections::BTreeSet<i64> = connections.iter().map(|row| number(row, "connection_id")).collect();
    assert_eq!(ids.len(), connections.len(), "no two windows share a connection");
    for row in &operations {
        let window = number(row, "window");
        assert!((0..windows).contains(&window));
        let id = number(row, "connection_id");
        let of = connections.iter().find(|connection| number(connection, "connection_id") == id).unwrap();
        assert_eq!(number(of, "window"), window);
    }
    let in_all = rows(&data.path().join(part("operations", "all")));
    assert!(in_all.iter().all(|row| number_or_none(row, "window").is_none()));
    assert_eq!(number_or_none(all, "sample_windows"), None);
}
