//! Run records, read from the output of `capture` and `analyze`.

use crate::bounded::{parse_record, read_record};
use crate::bounds::losses;
use crate::error::ReportError;
use overhead_model::Run;
use overhead_model::record::{OLDEST_VERSION, SCHEMA_VERSION, Whole};
use std::fs;
use std::path::Path;

const RECORD: &str = "run.json";

/// A record and its name in comparisons.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedRun {
    /// Name of the run: its folder's, unless the caller has a better one.
    pub name: String,
    /// The record.
    pub run: Run,
}

impl NamedRun {
    /// Gives a record a name.
    pub fn new(name: impl Into<String>, run: Run) -> Self {
        Self { name: name.into(), run }
    }
}

/// Reads a record from a run folder, or from a file of any name.
///
/// # Errors
///
/// [`ReportError::Missing`], [`ReportError::Unreadable`], [`ReportError::Malformed`] or [`ReportError::Version`].
pub fn load_run(path: impl AsRef<Path>) -> Result<Run, ReportError> {
    let (path, text) = read_record(path.as_ref(), RECORD)?;
    parse_run(&text, &path)
}

/// Reads a record and names it after its folder, or after its file unless that is a `run.json`.
///
/// # Errors
///
/// Returns the errors of [`load_run`].
pub fn load_named_run(path: impl AsRef<Path>) -> Result<NamedRun, ReportError> {
    let run = load_run(path.as_ref())?;
    Ok(NamedRun { name: name_of(path.as_ref(), RECORD), run })
}

/// Parses a record; errors name `path`.
///
/// # Errors
///
/// [`ReportError::Malformed`] or [`ReportError::Version`].
pub fn parse_run(text: &[u8], path: &Path) -> Result<Run, ReportError> {
    parse_record(text, path, OLDEST_VERSION..=SCHEMA_VERSION).map(converted)
}

/// Adds what older records lack and their other fields show.
fn converted(mut run: Run) -> Run {
    if run.schema_version < SCHEMA_VERSION {
        run.whole = Whole::new(&run.operations, &run.tcp).without_waits();
        run.schema_version = SCHEMA_VERSION;
    }
    if run.lower_bounds.is_empty() {
        run.lower_bounds = losses(&run.source, &run.tcp);
    }
    run
}

/// Returns the name of the folder or file at `path`; a record's own name is always the same.
pub(crate) fn name_of(path: &Path, record: &str) -> String {
    let absolute = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let named = match absolute.file_name() {
        Some(name) if name == record => absolute.parent().and_then(Path::file_name),
        Some(_) if absolute.is_file() => absolute.file_stem(),
        name => name,
    };
    named.map_or_else(|| "run".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Runs of the same thing under one name. Bytes are summed; times, calls and cycles stay separate for each run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunGroup {
    /// Name of the subject.
    pub name: String,
    /// The runs, in order; at least one.
    pub runs: Vec<NamedRun>,
}

impl RunGroup {
    /// Makes a group of one run, under its name.
    pub fn single(run: NamedRun) -> Self {
        Self { name: run.name.clone(), runs: vec![run] }
    }

    /// Returns the joint exit status: a partial run makes the group partial.
    pub fn exit(&self) -> u8 {
        self.runs.iter().map(|named| named.run.exit).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use overhead_model::Measured;
    use std::path::PathBuf;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("overhead-report-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_run_is_named_after_its_folder() {
        let folder = folder("named");
        let run = fixture::redis();
        fs::write(folder.join(RECORD), serde_json::to_vec(&run).unwrap()).unwrap();
        for path in [folder.clone(), folder.join(RECORD)] {
            let loaded = load_named_run(path).unwrap();
            assert_eq!(loaded.name, folder.file_name().unwrap().to_string_lossy());
            assert_eq!(loaded.run, run);
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_record_without_lower_bounds_is_given_them() {
        let mut run = fixture::redis();
        run.tcp.gap_bytes = 7;
        let mut record = serde_json::to_value(&run).unwrap();
        record.as_object_mut().unwrap().remove("lower_bounds");
        let run = parse_run(&serde_json::to_vec(&record).unwrap(), Path::new("run.json")).unwrap();
        assert_eq!(run.lower_bounds, ["7 bytes in gaps"]);
    }

    #[test]
    fn a_field_that_an_older_record_lacks_is_unavailable() {
        let new = fixture::redis();
        let mut old = serde_json::to_value(&new).unwrap();
        for connection in old["connections"].as_array_mut().unwrap() {
            connection.as_object_mut().unwrap().remove("kernel");
        }
        let mut read = parse_run(&serde_json::to_vec(&old).unwrap(), Path::new("run.json")).unwrap();
        for connection in &mut read.connections {
            assert_eq!(connection.kernel, Measured::unavailable("not recorded"));
            connection.kernel = new.connections[0].kernel.clone();
        }
        assert_eq!(read, new);
    }

    #[test]
    fn latencies_may_be_unavailable() {
        let mut run = fixture::redis();
        run.withhold_latencies("two clocks");
        let text = serde_json::to_string(&run).unwrap();
        assert!(
            text.contains(r#""latency_ns":{"unavailable":"two clocks"}"#) && !text.contains(r#""p9999""#),
            "{text}"
        );
        assert_eq!(parse_run(text.as_bytes(), Path::new("run.json")).unwrap(), run);
        let named = NamedRun::new("late", run);
        let csv = crate::text::csv(std::slice::from_ref(&named));
        assert!(csv.contains("latency_ns: two clocks"), "{csv}");
    }

    #[test]
    fn what_is_no_record_is_named_with_a_remedy() {
        let folder = folder("broken");
        assert!(matches!(load_run(&folder), Err(ReportError::Missing { .. })));
        let file = folder.join("x.json");
        for (text, expected) in [
            ("not json", "not a run record: expected"),
            (r#"{"schema_version": 2}"#, "not a run record: missing field"),
            (r#"{"schema_version": 1}"#, "schema_version is 1, this version reads 2 to 3"),
            (r#"{"schema_version": 4, "future": true}"#, "schema_version is 4, this version reads 2 to 3"),
        ] {
            fs::write(&file, text).unwrap();
            let message = load_run(&file).unwrap_err().to_string();
            assert!(message.contains("x.json") && message.contains(expected), "{message}");
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
