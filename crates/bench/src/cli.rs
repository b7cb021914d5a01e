//! The command line: turns arguments into a validated [`BenchJob`].

use crate::data::{MAX_ROWS, PAYLOAD};
use crate::driver::DriverOptions;
use crate::plan::{BenchOp, BenchPhase, OperationMix, RunLength, SweepValues, duration};
use crate::target::{BenchTarget, NamedServers, without_password};
use crate::tls::TlsTrust;
use anyhow::Result;
use clap::builder::PossibleValuesParser;
use clap::{ArgAction, Args, Command, CommandFactory, Parser, ValueEnum};
use overhead_model::{System, bail_usage};
use std::path::PathBuf;
use std::time::Duration;

/// Measures a database from the client's side: rows of an id, 16 numbers and 36 bytes of text, by its usual async driver.
/// DB is redis, postgres, mysql, cassandra, scylla, mongodb, memcached, http or what speaks like these.
#[derive(Debug, Parser)]
#[command(
    name = "overhead bench",
    bin_name = "overhead bench",
    version,
    disable_version_flag = true,
    term_width = 112,
    disable_help_flag = true,
    after_help = EXAMPLES,
    override_usage = "overhead bench <DB> [--server HOST:PORT] [OPTIONS]"
)]
pub struct BenchCli {
    #[arg(short = 'V', long, action = ArgAction::Version, hide = true)]
    version: Option<bool>,
    #[arg(value_name = "DB", hide = true)]
    db: String,
    #[command(flatten)]
    servers: TargetArgs,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    how: DriverOptions,
    #[command(flatten)]
    phases: PhaseArgs,
    /// On standard output
    #[arg(long, value_enum, value_name = "FORM", default_value = "table", help_heading = "Result")]
    format: ResultFormat,
    /// Write the record (bench.json) to this file as well, after each result
    #[arg(short, long, value_name = "FILE", help_heading = "Result")]
    output: Option<PathBuf>,
    /// Say nothing but results and errors
    #[arg(short, long, help_heading = "Result")]
    quiet: bool,
    /// Print this
    #[arg(short, long, action = ArgAction::HelpShort, help_heading = "Result")]
    help: Option<bool>,
}

const EXAMPLES: &str = "\
A pipeline is commands or queries sent together (redis, postgres), or requests in flight (cassandra, scylla).
With --multi-key on, it is one request for several rows or keys, also for mongodb, mysql, http and memcached.

Examples:
  overhead bench redis --operation empty,read,insert --clients 1,2,4,…,64 --runs 5 -o bench.json
  overhead bench postgres --server postgres://me@db.example/things --mix read=80,insert=20 --rate 5000
  overhead bench redis --server db1:7001 --server db1:7002 --clients 16 --pipeline 1,10,25,50
  sudo overhead capture -i lo --db scylla -- overhead bench scylla --ops 1000

Exit status: 0 complete, 1 failed, 2 usage, 3 finished but partial (the record says why).";

/// Returns the command for man pages and completions, which list DB as an argument.
pub fn command() -> Command {
    let names = System::ALL.iter().map(|system| system.name);
    BenchCli::command().mut_arg("db", |db| {
        db.hide(false)
            .help("The database, or one that speaks like it")
            .value_parser(PossibleValuesParser::new(names))
            .hide_possible_values(true)
    })
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Server")]
struct TargetArgs {
    /// Or a URL, or unix:PATH (redis); several for shards, a cluster [default: this host]
    #[arg(long, value_name = "HOST:PORT")]
    server: Vec<String>,
    /// User name [default: none; postgres (postgres), root (mysql)]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Password; by default what the variable `OVERHEAD_PASSWORD` holds
    #[arg(long, value_name = "WORD", env = "OVERHEAD_PASSWORD", hide_env = true)]
    password: Option<String>,
    /// Database or (--keyspace) keyspace; the number of the database (redis)
    #[arg(long, value_name = "NAME", alias = "keyspace")]
    database: Option<String>,
    /// Encrypt connections
    #[arg(long)]
    tls: bool,
    /// Trust the authorities in this PEM file instead of the system's
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Encrypt, but trust anybody
    #[arg(long)]
    tls_insecure: bool,
    /// How long to wait for a connection or for any answer
    #[arg(long, value_name = "T", default_value = "10s", value_parser = duration)]
    timeout: Duration,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Load (lists are swept, one result each)")]
struct LoadArgs {
    /// empty (read a row that is not there), read, insert; oltp-point, oltp-range, oltp-insert: sysbench's
    /// statements on its table (postgres, mysql) [default: read]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    operation: Vec<BenchOp>,
    /// Operations mixed by weight, such as read=80,insert=15,empty=5
    #[arg(long, value_name = "MIX")]
    mix: Option<OperationMix>,
    /// Clients at the same time, each with its own connection
    #[arg(long, value_name = "LIST", default_value = "1")]
    clients: SweepValues,
    /// Operations that a client sends together
    #[arg(long, value_name = "LIST", default_value = "1")]
    pipeline: SweepValues,
    /// End a run after this many operations over all clients
    #[arg(long, value_name = "N", conflicts_with = "duration", value_parser = clap::value_parser!(u64).range(1..))]
    ops: Option<u64>,
    /// End a run after this time [default: 10s]
    #[arg(long, value_name = "T", value_parser = duration)]
    duration: Option<Duration>,
    /// Work this long before the first run of each result [default: 1s; none with --ops]
    #[arg(long, value_name = "T", value_parser = duration)]
    warmup: Option<Duration>,
    /// Repeat each result
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Operations per second to start; latency then counts from when an operation was due
    #[arg(long, value_name = "R")]
    rate: Option<f64>,
    /// Rows to make and to read
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=MAX_ROWS))]
    rows: u64,
    /// Length of a row's text
    #[arg(long, value_name = "BYTES", default_value_t = PAYLOAD as u32, value_parser = clap::value_parser!(u32).range(..=16 << 20))]
    payload: u32,
    /// Threads of the client
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Phases (default: make the rows, measure, remove them)")]
#[group(multiple = false)]
#[expect(clippy::struct_excessive_bools, reason = "clap makes sure that only one is set")]
struct PhaseArgs {
    /// Make the rows and leave them
    #[arg(long)]
    setup_only: bool,
    /// Measure with rows that are there, and leave them
    #[arg(long)]
    no_setup: bool,
    /// Remove what was left
    #[arg(long)]
    cleanup_only: bool,
    /// Only print texts of statements that clients have prepared (CQL, mysql)
    #[arg(long)]
    list_statements: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ResultFormat {
    /// For people.
    Table,
    /// The record.
    Json,
    /// The record as a table, a line for each repetition.
    Csv,
}

/// A validated command line.
#[derive(Debug)]
pub struct BenchJob {
    pub system: System,
    pub target: BenchTarget,
    pub options: DriverOptions,
    pub mixes: Vec<OperationMix>,
    /// Numbers of concurrent clients.
    pub clients: SweepValues,
    /// Operations sent together.
    pub pipelines: SweepValues,
    pub length: RunLength,
    pub warmup: Duration,
    /// Runs per result.
    pub runs: u32,
    /// Operations per second; `None` for no limit.
    pub rate: Option<f64>,
    pub phase: BenchPhase,
    pub format: ResultFormat,
    /// File for the record.
    pub output: Option<PathBuf>,
    pub quiet: bool,
    /// Without passwords, for the record.
    pub command_line: Vec<String>,
}

impl BenchCli {
    /// Validates what clap cannot.
    pub fn job(self) -> Result<BenchJob> {
        let Some(system) = System::named(&self.db) else {
            let known: Vec<&str> = System::ALL.iter().map(|system| system.name).collect();
            bail_usage!("unknown database {}: choose one of {}", self.db, known.join(", "));
        };
        if self.load.rate.is_some_and(|rate| !(rate.is_finite() && rate >= 0.001)) {
            bail_usage!("--rate: not a number of operations per second");
        }
        let mixes = self.load.mixes();
        Ok(BenchJob {
            system,
            target: self.servers.target(&system)?,
            options: DriverOptions {
                rows: self.load.rows,
                payload: self.load.payload as usize,
                oltp: mixes.iter().flat_map(OperationMix::operations).any(BenchOp::is_oltp),
                pipeline: self.load.pipeline.0.iter().copied().max().unwrap_or(1),
                threads: self.load.threads,
                ..self.how
            },
            mixes,
            clients: self.load.clients,
            pipelines: self.load.pipeline,
            length: match (self.load.ops, self.load.duration) {
                (Some(operations), _) => RunLength::Operations(operations),
                (None, time) => RunLength::Time(time.unwrap_or(Duration::from_secs(10))),
            },
            warmup: self.load.warmup.unwrap_or(Duration::from_secs(u64::from(self.load.ops.is_none()))),
            runs: self.load.runs,
            rate: self.load.rate,
            phase: self.phases.phase(),
            format: self.format,
            output: self.output,
            quiet: self.quiet,
            command_line: redacted(std::env::args()),
        })
    }
}

impl TargetArgs {
    fn target(&self, system: &System) -> Result<BenchTarget> {
        let named = NamedServers::parse(&self.server, system)?;
        let encrypted = self.tls || self.tls_insecure || self.tls_ca.is_some() || named.tls;
        Ok(BenchTarget {
            user: self.user.clone().or_else(|| named.user()),
            password: self.password.clone().or_else(|| named.password()),
            database: self.database.clone().or_else(|| named.database()),
            tls: encrypted.then(|| TlsTrust { ca: self.tls_ca.clone(), insecure: self.tls_insecure }),
            timeout: self.timeout.max(Duration::from_millis(1)),
            servers: named.servers,
            url: named.url,
        })
    }
}

impl LoadArgs {
    fn mixes(&self) -> Vec<OperationMix> {
        let mut mixes: Vec<OperationMix> = self.operation.iter().copied().map(OperationMix::single).collect();
        mixes.extend(self.mix.clone());
        if mixes.is_empty() {
            mixes.push(OperationMix::single(BenchOp::Read));
        }
        mixes
    }
}

impl PhaseArgs {
    fn phase(&self) -> BenchPhase {
        match self {
            Self { setup_only: true, .. } => BenchPhase::SetUp,
            Self { no_setup: true, .. } => BenchPhase::Measure,
            Self { cleanup_only: true, .. } => BenchPhase::CleanUp,
            Self { list_statements: true, .. } => BenchPhase::ListStatements,
            _ => BenchPhase::All,
        }
    }
}

fn redacted(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut secret = false;
    let hide = |argument: String| {
        let hidden = std::mem::replace(&mut secret, argument == "--password");
        match argument.split_once('=') {
            _ if hidden => "***".to_owned(),
            Some(("--password", _)) => "--password=***".to_owned(),
            Some((option, url)) if option == "--server" => format!("{option}={}", without_password(url)),
            _ => without_password(&argument),
        }
    };
    arguments.map(hide).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(arguments: &str) -> Result<BenchJob> {
        let words = std::iter::once("bench").chain(arguments.split_whitespace());
        BenchCli::try_parse_from(words)?.job()
    }

    #[test]
    fn the_definition_is_sound() {
        BenchCli::command().debug_assert();
    }

    #[test]
    fn the_reference_workload_is_the_default() {
        let job = job("redis").unwrap();
        assert_eq!(job.target.servers[0].to_string(), "127.0.0.1:6379");
        assert_eq!((job.mixes.as_slice(), job.options.payload), ([OperationMix::single(BenchOp::Read)].as_slice(), 36));
        assert_eq!((job.length, job.warmup), (RunLength::Time(Duration::from_secs(10)), Duration::from_secs(1)));
        assert_eq!(job.phase, BenchPhase::All);
    }

    #[test]
    fn counted_runs_are_not_warmed_up() {
        assert_eq!(job("redis --ops 1000").unwrap().warmup, Duration::ZERO);
        assert_eq!(job("redis --ops 1000 --warmup 2s").unwrap().warmup, Duration::from_secs(2));
    }

    #[test]
    fn phases_leave_out_the_others() {
        let phases = |arguments: &str| {
            let job = job(arguments).unwrap();
            (job.phase.sets_up(), job.phase.measures(), job.phase.cleans_up())
        };
        assert_eq!(phases("redis --setup-only"), (true, false, false));
        assert_eq!(phases("redis --no-setup"), (false, true, false));
        assert_eq!(phases("redis --cleanup-only"), (false, false, true));
        assert!(job("redis --no-setup --cleanup-only").is_err());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for arguments in [
            "",
            "oracle",
            "redis --ops 0",
            "redis --rate 0",
            "redis --rate x",
            "redis --clients 0",
            "redis --resp 4",
            "redis --rows 0",
        ] {
            assert!(job(arguments).is_err(), "{arguments}");
        }
    }

    #[test]
    fn the_recorded_command_line_has_no_password() {
        let words =
            ["b", "--password", "x", "--password=x", "--server", "redis://u:x@h", "--server=redis://u:x@h", "--ops"];
        let redacted = redacted(words.into_iter().map(str::to_owned));
        let wanted = [
            "b",
            "--password",
            "***",
            "--password=***",
            "--server",
            "redis://u:***@h",
            "--server=redis://u:***@h",
            "--ops",
        ];
        assert_eq!(redacted, wanted);
    }
}
