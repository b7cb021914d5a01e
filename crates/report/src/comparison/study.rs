//! What `lab/comparison` leaves: a folder per captured cell of the matrix, loads without a capture, other tools' figures.

use crate::error::ReportError;
use crate::run::{NamedRun, load_run};
use overhead_model::load::{Load, LoadResult, LoadSettings};
use overhead_model::record::OperationRow;
use overhead_model::{Class, Run};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The operations of the reference workload, in the order of the write-up.
pub(super) const OPERATIONS: [&str; 3] = ["empty", "read", "insert"];

/// Everything that was measured.
#[derive(Debug, Default)]
pub(super) struct Study {
    /// Captured, in order of their folders' names.
    pub cells: Vec<StudyCell>,
    /// Counted, but not captured: rates and latencies.
    pub loads: Vec<StudyCell>,
    /// What it was measured on.
    pub conditions: Conditions,
    /// Rounds of other tools and of this one in turn.
    pub peers: Vec<Peer>,
    /// Payload of the reference measurement.
    pub reference: Vec<Reference>,
}

/// What the records of the runs do not say.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Conditions {
    /// Software by system.
    pub servers: BTreeMap<String, String>,
    /// CPUs that others had in use before the first run; absent where it is not known.
    pub cpus_in_use: Option<f64>,
}

/// One combination.
#[derive(Debug)]
pub(super) struct StudyCell {
    /// What the wire, where it was captured, and the kernel saw.
    pub run: Run,
    /// What the client saw.
    pub load: Load,
}

/// Another tool's round, or one of ours beside it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Peer {
    /// `redis-benchmark 7.0.15`; empty for this program.
    pub tool: String,
    /// As in [`Load::db`].
    pub db: String,
    /// As in [`LoadResult::operation`].
    pub operation: String,
    pub clients: u32,
    pub per_second: f64,
    /// Time of the client's process on a CPU, user and kernel, over the operations.
    pub cpu_ns_per_operation: f64,
    /// The command that was run.
    pub command: String,
}

/// A line of the reference measurement: TCP payload per operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    pub db: String,
    pub operation: String,
    pub request: u64,
    pub response: u64,
    /// Driver and version.
    pub driver: String,
}

impl Study {
    /// Reads `{runs,load}/*/{run.json,bench.json}`, `conditions.json`, `peers.json` and `reference.csv` of a folder.
    pub(super) fn read(folder: &Path) -> Result<Self, ReportError> {
        let mut study = Self { reference: reference(&folder.join("reference.csv"))?, ..Self::default() };
        study.cells = cells(&folder.join("runs"))?;
        study.loads = cells(&folder.join("load"))?;
        study.conditions = parsed(&folder.join("conditions.json"))?;
        study.peers = parsed(&folder.join("peers.json"))?;
        if study.systems().is_empty() {
            return Err(ReportError::NoRuns);
        }
        Ok(study)
    }

    /// Returns the databases in the order of the write-up, each once. A Redis in several processes is not one of them.
    pub(super) fn systems(&self) -> Vec<&str> {
        let mut systems: Vec<&str> = Vec::new();
        for cell in self.cells.iter().filter(|cell| !cell.is_sharded()) {
            if !systems.contains(&&*cell.load.db) {
                systems.push(&cell.load.db);
            }
        }
        systems.sort_by_key(|db| (ORDER.iter().position(|(name, _)| name == db).unwrap_or(ORDER.len()), *db));
        systems
    }

    /// Returns the cell of a system with default settings, one operation at a time.
    pub(super) fn cell(&self, db: &str, operation: &str, clients: u32) -> Option<&StudyCell> {
        self.cells.iter().find(|cell| {
            cell.is(db, operation) && cell.clients() == clients && cell.pipeline() == 1 && self.is_default(cell)
        })
    }

    /// Returns whether the settings are those of most cells of the system.
    fn is_default(&self, cell: &StudyCell) -> bool {
        self.default_settings(&cell.load.db) == Some(&cell.load.settings) && !cell.is_sharded()
    }

    /// Returns the settings that most cells of a system have.
    fn default_settings(&self, db: &str) -> Option<&LoadSettings> {
        let all: Vec<&LoadSettings> =
            self.cells.iter().filter(|cell| cell.load.db == db).map(|cell| &cell.load.settings).collect();
        let times = |settings: &LoadSettings| all.iter().filter(|other| **other == settings).count();
        all.iter().copied().max_by_key(|settings| times(settings))
    }

    /// Cells that differ from the default one by a setting of the driver, each with that default one.
    pub(super) fn settings(&self) -> Vec<Setting<'_>> {
        let differing = self.cells.iter().filter(|cell| !cell.is_sharded() && !self.is_default(cell));
        differing.filter_map(|cell| self.setting(cell)).collect()
    }

    fn setting<'a>(&'a self, with: &'a StudyCell) -> Option<Setting<'a>> {
        let default = self.cell(&with.load.db, with.operation(), with.clients())?;
        Some(Setting { label: changed(&default.load.settings, &with.load.settings), default, with })
    }

    /// Cells of growing pipelines, the one without first.
    pub(super) fn pipeline(&self, db: &str, operation: &str) -> Vec<&StudyCell> {
        let mut cells: Vec<&StudyCell> = self
            .cells
            .iter()
            .filter(|cell| cell.is(db, operation) && cell.clients() == 1 && self.is_default(cell))
            .collect();
        cells.sort_by_key(|cell| cell.pipeline());
        cells
    }

    /// Returns the load of one combination without a capture.
    pub(super) fn load(&self, db: &str, operation: &str, clients: u32, pipeline: u32) -> Option<&StudyCell> {
        let fits =
            |cell: &&StudyCell| cell.is(db, operation) && cell.clients() == clients && cell.pipeline() == pipeline;
        self.loads.iter().filter(|cell| !cell.is_sharded()).find(fits)
    }

    /// Its result, one operation at a time.
    pub(super) fn result(&self, db: &str, operation: &str, clients: u32) -> Option<&LoadResult> {
        self.load(db, operation, clients, 1)?.result()
    }

    /// Returns what the reference measurement has for an operation.
    pub(super) fn reference(&self, db: &str, operation: &str) -> Option<&Reference> {
        self.reference.iter().find(|line| line.db == db && line.operation == operation)
    }

    /// `Cassandra 5.0.5`; its name where nobody said.
    pub(super) fn software<'a>(&'a self, db: &'a str) -> &'a str {
        self.conditions.servers.get(db).map_or_else(|| title(db), String::as_str)
    }

    /// `scylla 1.9.0`.
    pub(super) fn driver(&self, db: &str) -> String {
        let load = self.cells.iter().map(|cell| &cell.load).find(|load| load.db == db);
        load.map_or_else(String::new, |load| format!("{} {}", load.driver.name, load.driver.version))
    }
}

impl StudyCell {
    pub(super) fn result(&self) -> Option<&LoadResult> {
        self.load.results.first()
    }

    pub(super) fn operation(&self) -> &str {
        self.result().map_or("", |result| &result.operation)
    }

    pub(super) fn clients(&self) -> u32 {
        self.result().map_or(0, |result| result.clients)
    }

    pub(super) fn pipeline(&self) -> u32 {
        self.result().map_or(0, |result| result.pipeline)
    }

    pub(super) fn is_sharded(&self) -> bool {
        self.load.servers.len() > 1
    }

    fn is(&self, db: &str, operation: &str) -> bool {
        self.load.db == db && self.operation() == operation
    }

    /// Returns the operation that was measured: of the workload, the one that there is most of.
    pub(super) fn row(&self) -> Option<&OperationRow> {
        let workload = self.run.operations.iter().filter(|row| row.class == Class::Workload);
        workload.max_by_key(|row| row.count)
    }

    /// Returns the run under a name, for a figure.
    pub(super) fn named(&self, name: &str) -> NamedRun {
        NamedRun::new(name, self.run.clone())
    }
}

/// A setting of a driver.
pub(super) struct Setting<'a> {
    /// What is different.
    pub label: String,
    /// Without it.
    pub default: &'a StudyCell,
    /// With it.
    pub with: &'a StudyCell,
}

/// Systems by their names on the command line and in prose, in the order of the write-up.
const ORDER: [(&str, &str); 6] = [
    ("redis", "Redis"),
    ("postgres", "PostgreSQL"),
    ("cassandra", "Cassandra"),
    ("scylla", "ScyllaDB"),
    ("mongodb", "MongoDB"),
    ("ferretdb", "FerretDB"),
];

/// Returns a system's name in prose.
pub(super) fn title(db: &str) -> &str {
    ORDER.iter().find(|(name, _)| *name == db).map_or(db, |(_, title)| title)
}

/// Returns what sets settings apart, in words.
fn changed(default: &LoadSettings, with: &LoadSettings) -> String {
    let mut said = Vec::new();
    let mut differs = |is: bool, words: String| said.extend(is.then_some(words));
    let switched =
        |to: Option<bool>, on: &str, off: &str| if to == Some(true) { on.to_owned() } else { off.to_owned() };
    differs(with.prepared != default.prepared, switched(with.prepared, "prepared", "not prepared"));
    differs(
        with.skip_metadata != default.skip_metadata,
        switched(with.skip_metadata, "result metadata skipped", "result metadata sent"),
    );
    differs(with.binary != default.binary, switched(with.binary, "values in binary", "values as text"));
    differs(with.resp != default.resp, format!("RESP{}", with.resp.unwrap_or(0)));
    let keys = switched(with.multi_key, "a command of all keys", "a command for each key");
    differs(with.multi_key != default.multi_key, keys);
    differs(
        with.compression != default.compression,
        format!("compression {}", with.compression.as_deref().unwrap_or("none")),
    );
    differs(with.tls != default.tls, "TLS".to_owned());
    said.join(", ")
}

/// The combinations in a folder.
fn cells(folder: &Path) -> Result<Vec<StudyCell>, ReportError> {
    let cell = |path: PathBuf| Ok(StudyCell { run: load_run(&path)?, load: parsed(&path.join("bench.json"))? });
    entries(folder)?.into_iter().map(cell).collect()
}

/// The entries of a folder in order; none where there is no such folder.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, ReportError> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let unreadable = |source| ReportError::Unreadable { path: folder.to_owned(), source };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        paths.push(entry.map_err(unreadable)?.path());
    }
    paths.sort();
    Ok(paths)
}

fn text(path: &Path) -> Result<String, ReportError> {
    fs::read_to_string(path).map_err(|source| ReportError::Unreadable { path: path.to_owned(), source })
}

fn parsed<T: DeserializeOwned>(path: &Path) -> Result<T, ReportError> {
    serde_json::from_str(&text(path)?).map_err(|source| ReportError::Malformed { path: path.to_owned(), source })
}

/// Lines of `db,operation,request,response,driver`; the first one is the header.
fn reference(path: &Path) -> Result<Vec<Reference>, ReportError> {
    let line = |line: &str| {
        let mut cells = line.split(',');
        let mut word = || cells.next().map(str::to_owned);
        let (db, operation, request, response, driver) = (word()?, word()?, word()?, word()?, word()?);
        Some(Reference { db, operation, request: request.parse().ok()?, response: response.parse().ok()?, driver })
    };
    Ok(text(path)?.lines().skip(1).filter_map(line).collect())
}
