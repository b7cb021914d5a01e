//! The command line: defines the options, and turns them into checked values.

use crate::exit::{StatusFault, bail_usage};
use crate::hand_over::{self, PassedArgs, ProgramBeside};
use crate::keys::KeyFiles;
use crate::pricing::PriceArgs;
use crate::{advise, analyze, check, compare, explain, given, manual, print, report, usage};
use anyhow::{Result, anyhow};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, ArgMatches, Args, ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use overhead_dissect::Selection;
use overhead_model::record::{By, Selected, SortKey};
use overhead_model::{Protocol, System};
use overhead_report::text::quoted;
use overhead_report::{Columns, OperationColumn, Style, ViewOptions};
use std::io::IsTerminal;
use std::path::PathBuf;

/// Shows what a database protocol costs: every byte on the wire by operation and account, with system calls and CPU
/// cycles per operation.
#[derive(Debug, Parser)]
#[command(name = "overhead", version, max_term_width = 100, after_help = EXAMPLES, disable_help_flag = true)]
struct Cli {
    /// Print help; -h for the usual options
    #[arg(short, long, global = true, action = ArgAction::Help, hide_short_help = true)]
    help: Option<bool>,
    #[command(subcommand)]
    command: CliCommand,
}

const EXAMPLES: &str = "\
Examples:
  overhead capture -i lo --db redis -o runs/get -- redis-benchmark -t get -n 100000
  overhead capture --iface eth0 --db scylla              until Ctrl-C
  overhead analyze trace.pcap --db postgres --port 5433
  overhead explain trace.pcap --name GET
  overhead report runs/* -o report/
  overhead sweep --vary P=1,10 -i lo --db redis -- redis-benchmark -t get -n 9000 -P {P}
  overhead compare runs/a runs/b
  overhead check budget.toml runs/a
  overhead advise runs/a

Exit status: 0 complete, 1 failed, 2 usage, 3 finished but partial (the record says why), 4 outside the budget.";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Capture live traffic, and count the kernel's work, until Ctrl-C or while a command runs
    #[cfg(feature = "live")]
    Capture(crate::capture::CaptureArgs),
    /// Run a command with several values of its parameters, each several times, under a capture
    #[cfg(feature = "live")]
    Sweep(crate::sweep::SweepArgs),
    /// Attribute every byte of capture files
    Analyze(analyze::AnalyzeArgs),
    /// Show one operation byte by byte: every field with its account
    Explain(explain::ExplainArgs),
    /// Find what wastes bytes or time, the setting that fixes it, and what you would save
    Advise(advise::AdviseArgs),
    /// Draw runs side by side: figure and Markdown table
    Report(report::ReportArgs),
    /// Compare runs with the first one: which accounts, fields and system calls differ
    Compare(compare::CompareArgs),
    /// Check runs against a budget of bytes, frames and system calls per operation, in CI
    Check(check::CheckArgs),
    /// Show operations by bytes, rate, calls or latency on a screen, live or from a capture
    #[cfg(feature = "top")]
    Top(crate::top::TopArgs),
    /// Watch all databases of this host, all the time: exact totals, and what they consist of, as metrics
    #[cfg(feature = "live")]
    Agent(crate::agent::AgentArgs),
    /// List what you can measure on this machine, and what would enable the rest
    #[cfg(feature = "live")]
    Doctor,
    /// Write man pages and shell completions
    #[command(hide = true)]
    Generate(crate::generate::Generate),
    /// A program with a verb; the verb is defined only if the program is installed.
    #[command(skip)]
    Beside(ProgramBeside, PassedArgs),
}

impl CliCommand {
    /// Returns whether the command observes this machine.
    pub fn is_live(&self) -> bool {
        match self {
            #[cfg(feature = "live")]
            Self::Agent(_) | Self::Capture(_) | Self::Sweep(_) | Self::Doctor => true,
            #[cfg(feature = "top")]
            Self::Top(_) => true,
            _ => false,
        }
    }

    /// Runs the command and returns its exit status.
    pub fn run(self) -> Result<u8> {
        match self {
            #[cfg(feature = "live")]
            Self::Capture(capture) => capture.run(),
            #[cfg(feature = "live")]
            Self::Sweep(sweep) => sweep.run(),
            Self::Analyze(analyze) => analyze.run(),
            Self::Explain(explain) => explain.run(),
            Self::Advise(advise) => advise.run(),
            Self::Report(report) => report.run(),
            Self::Compare(compare) => compare.run(),
            Self::Check(check) => check.run(),
            #[cfg(feature = "top")]
            Self::Top(top) => top.run(),
            #[cfg(feature = "live")]
            Self::Agent(agent) => agent.run(),
            #[cfg(feature = "live")]
            Self::Doctor => crate::doctor::run(),
            Self::Generate(generate) => generate.run(),
            Self::Beside(program, arguments) => program.run(&arguments),
        }
    }
}

/// Returns the definition of the command line, with the verbs of installed programs.
pub fn command() -> clap::Command {
    manual::with_examples(Cli::command()).subcommands(hand_over::verbs())
}

/// What `overhead` alone prints.
pub const STARTING_POINTS: &str = "\
overhead shows what a database protocol costs. Where to start:

  my bill     overhead analyze trace.pcap --by client --price 0.02/GB     who sends the bytes, and what they cost
  my driver   overhead advise trace.pcap                                  what it wastes, and which setting fixes that
  my query    overhead explain trace.pcap --name SELECT                   each byte of an operation

You have no capture? `sudo overhead capture -i lo --db postgres` makes one, and `overhead doctor` lists what you can measure here.
All commands: overhead --help
";

/// Reads the command line.
pub fn parse() -> Result<CliCommand> {
    let matches = matches(command())?;
    Ok(match matches.subcommand() {
        Some((verb, given)) if let Some(program) = hand_over::named(verb) => {
            CliCommand::Beside(program, PassedArgs::from_arg_matches(given)?)
        }
        _ => Cli::from_arg_matches(&matches)?.command,
    })
}

/// Reads the command line of another program that shares this one's errors.
pub fn parsed<T: Parser>() -> Result<T> {
    Ok(T::from_arg_matches(&matches(T::command())?)?)
}

fn matches(command: clap::Command) -> Result<ArgMatches> {
    let command = if no_color() { command.color(ColorChoice::Never) } else { command };
    command.clone().try_get_matches().map_err(|error| {
        let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        usage::fault(&error, &command, &words).map_or(error.into(), Into::into)
    })
}

/// The system name that requests detection.
const AUTO: &str = "auto";

/// Returns the help text for `--db`.
fn systems() -> String {
    let mut all = Protocol::ALL;
    all.sort_unstable();
    let listed = |name: fn(Protocol) -> &'static str| all.map(name).join(", ");
    let systems = listed(|protocol| System::default_for(protocol).map_or(protocol.name(), |system| system.name));
    format!("A system ({systems}, …) or protocol ({}); repeatable", listed(Protocol::name))
}

/// Accepts the names of systems and protocols, and `auto`.
fn system_parser() -> PossibleValuesParser {
    PossibleValuesParser::new(std::iter::once(AUTO).chain(System::ALL.iter().map(|system| system.name)))
}

/// The choice of connections and their protocols.
#[derive(Args, Clone, Debug, Default)]
pub struct Which {
    #[arg(long, value_name = "NAME", default_value = AUTO, help = systems(), value_parser = system_parser(), ignore_case = true, hide_possible_values = true)]
    pub db: Vec<String>,
    /// Server port, if not the usual one; with --db, decoded as that protocol; repeatable
    #[arg(long, value_name = "P", value_parser = port)]
    pub port: Vec<u16>,
    /// Texts of statements that were prepared before the capture: a line each of the statement's name or id, a tab and its text
    #[arg(hide_short_help = true, long, value_name = "FILE")]
    pub statements: Option<PathBuf>,
}

/// Parses a port.
fn port(text: &str) -> Result<u16, String> {
    let port = text.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| format!("{text} is no port: give a number from 1 to 65535, and the name of a database to --db"))
}

/// How captures are decoded.
#[derive(Args, Clone, Debug, Default)]
pub struct DecodeArgs {
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub keys: KeyFiles,
}

impl Which {
    /// Returns the choice stored in a record or a packet file.
    pub fn of(selected: &Selected) -> Self {
        let auto = || vec![AUTO.to_owned()];
        let db = if selected.db.is_empty() { auto() } else { selected.db.clone() };
        Self { db, port: selected.ports.clone(), statements: None }
    }

    /// Returns the choice as records store it.
    pub fn selected(&self) -> Selected {
        let named = self.db.iter().filter(|name| !name.eq_ignore_ascii_case(AUTO));
        Selected { db: named.cloned().collect(), ports: self.port.clone() }
    }

    /// Returns the choice as options.
    pub fn words(&self) -> Vec<String> {
        let Selected { db, ports } = self.selected();
        let db = db.iter().map(|db| format!("--db {}", quoted(db)));
        db.chain(ports.iter().map(|port| format!("--port {port}"))).collect()
    }

    /// Returns whether nothing was chosen.
    pub fn is_default(&self) -> bool {
        self.selected() == Selected::default()
    }

    /// Returns the named systems; none for `auto`.
    pub fn systems(&self) -> Result<Vec<System>> {
        let named = self.db.iter().filter(|name| !name.eq_ignore_ascii_case(AUTO));
        let unknown = |name: &str| anyhow!("--db {name}, in the record, is no system or protocol: name one with --db");
        named.map(|name| System::named(name).ok_or_else(|| unknown(name))).collect()
    }

    /// Returns which connections to decode.
    ///
    /// # Errors
    ///
    /// A name is unknown, or the texts of statements cannot be read.
    pub fn selection(&self) -> Result<Selection> {
        let systems = self.systems()?;
        let given =
            self.statements.as_deref().map(|path| given::read("--statements", path)).transpose()?.unwrap_or_default();
        let protocols: Vec<Protocol> = match systems.as_slice() {
            [] => Protocol::ALL.to_vec(),
            systems => {
                let mut protocols: Vec<_> = systems.iter().map(|system| system.protocol).collect();
                protocols.sort_unstable();
                protocols.dedup();
                protocols
            }
        };
        if !self.port.is_empty() {
            return Ok(Selection { ports: self.port.iter().map(|port| (*port, protocols.clone())).collect(), given });
        }
        let mut ports: Vec<(u16, Vec<Protocol>)> = Vec::new();
        for system in systems {
            for &port in std::iter::once(&system.port).chain(system.protocol.ports()) {
                if !ports.iter().any(|(of, _)| *of == port) {
                    ports.push((port, vec![system.protocol]));
                }
            }
        }
        Ok(Selection { ports, given })
    }
}

/// Options for printing a result.
#[derive(Args, Clone, Debug)]
pub struct Output {
    /// Form of the result on standard output
    #[arg(long, value_enum, default_value = "table")]
    pub format: Format,
    /// Columns in this order: operation, count, total, p99, an account, …
    #[arg(hide_short_help = true, long, value_name = "LIST", value_delimiter = ',', conflicts_with = "wide")]
    pub columns: Vec<String>,
    /// All columns, even if your terminal is too narrow
    #[arg(hide_short_help = true, long)]
    pub wide: bool,
    #[command(flatten)]
    pub rows: RowsArgs,
    /// Colours in tables
    #[arg(hide_short_help = true, long, value_enum, value_name = "WHEN", default_value = "auto")]
    pub color: Color,
    /// Say nothing but results and errors
    #[arg(short, long)]
    pub quiet: bool,
    /// Say what was read, how connections were chosen, and what it took
    #[arg(hide_short_help = true, short, long, conflicts_with = "quiet")]
    pub verbose: bool,
}

/// Options for the rows of a result.
#[derive(Args, Clone, Debug)]
pub struct RowsArgs {
    /// What a row is
    #[arg(long, value_parser = choice_parser(ROW_GRAINS), value_name = "WHAT", default_value = "auto")]
    by: RowGrain,
    /// A row for each way of sending a statement: simple, prepared, …
    #[arg(hide_short_help = true, long)]
    via: bool,
    /// Explain the columns
    #[arg(hide_short_help = true, long)]
    legend: bool,
    /// Order of rows: bytes, count, latency or bytes/op
    #[arg(hide_short_help = true, long, value_name = "KEY", default_value = "bytes", value_parser = sort_key)]
    sort: SortKey,
    /// Number of rows; the rest is added up in one more
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    top: Option<u64>,
    #[command(flatten)]
    pricing: PriceArgs,
}

impl RowsArgs {
    /// Returns the grain of the record's rows.
    pub fn by(&self) -> By {
        self.by.or(By::Name)
    }

    /// Returns whether the user left all of them out.
    #[cfg(feature = "live")]
    pub fn is_default(&self) -> bool {
        self.view(false, false).is_none() && self.by.0.is_none() && !self.via
    }

    /// Returns the view for people or for programs; `None` for the default. On a screen, further statements are one row.
    fn view(&self, for_people: bool, on_screen: bool) -> Option<ViewOptions> {
        let by = self.by.or(if for_people { By::Statement } else { By::Name });
        let is_compact = for_people && by == By::Statement;
        let most = (is_compact && on_screen && self.by.0.is_none()).then_some(STATEMENTS);
        let (sort, top, price) = (self.sort, self.top.or(most), self.pricing.price());
        let options = ViewOptions { by, sort, top, price, is_compact, by_way: is_compact && self.via };
        (options != ViewOptions::default()).then_some(options)
    }
}

/// Statements on a screen, so that a usual result fits.
const STATEMENTS: u64 = 6;

/// The grain of rows; `None` to choose a suitable one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowGrain(Option<By>);

impl RowGrain {
    /// Returns the grain that was chosen, or else this one.
    pub fn or(self, by: By) -> By {
        self.0.unwrap_or(by)
    }
}

/// What rows can be of, as help describes it.
pub const ROW_GRAINS: &[Choice<RowGrain>] = &[
    ("auto", RowGrain(None), "Statements in tables and Markdown, names in JSON and CSV"),
    ("name", RowGrain(Some(By::Name)), "Operations of a name"),
    (
        "statement",
        RowGrain(Some(By::Statement)),
        "Operations of a name and statement: their text without literals, the pattern of their keys",
    ),
    ("connection", RowGrain(Some(By::Connection)), "A connection"),
    ("client", RowGrain(Some(By::Client)), "The address of a client"),
    ("server", RowGrain(Some(By::Server)), "The address and port of a server"),
];

/// A value of an option: name, meaning and help.
pub type Choice<T> = (&'static str, T, &'static str);

/// Parses one of these values.
pub fn choice_parser<T: Copy + Send + Sync + 'static>(
    choices: &'static [Choice<T>],
) -> impl TypedValueParser<Value = T> {
    let names = choices.iter().map(|(name, _, help)| PossibleValue::new(*name).help(*help));
    PossibleValuesParser::new(names).try_map(|given| {
        let named = choices.iter().find(|(name, ..)| *name == given);
        named.map(|(_, value, _)| *value).ok_or("not among the possible values")
    })
}

/// Parses the value of `--sort`.
fn sort_key(text: &str) -> Result<SortKey, String> {
    match text {
        "bytes" => Ok(SortKey::Bytes),
        "count" => Ok(SortKey::Count),
        "latency" => Ok(SortKey::Latency),
        "bytes/op" => Ok(SortKey::BytesPerOperation),
        _ => Err("choose bytes, count, latency (the median) or bytes/op".to_owned()),
    }
}

/// Form of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// The run record.
    Json,
    /// Two lines per operation, one for each direction, and lines for the counters and the run.
    Csv,
    /// A table for documents.
    Markdown,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Output {
    /// Returns the style of tables for this output.
    pub fn style(&self) -> Style {
        let style = Style { legend: self.rows.legend, ..print::style(self.color.wanted()) };
        if self.wide { Style { width: None, ..style } } else { style }
    }

    /// Returns the view of the rows; `None` for the default.
    pub fn view(&self) -> Option<ViewOptions> {
        let for_people = matches!(self.format, Format::Table | Format::Markdown);
        self.rows.view(for_people, self.format == Format::Table && !self.wide && self.columns.is_empty())
    }

    /// Returns the columns that the user asked for.
    pub fn chosen(&self) -> Result<Columns> {
        if self.wide {
            return Ok(Columns::All);
        }
        if self.columns.is_empty() {
            return Ok(Columns::Fitting);
        }
        let named = |name: &String| OperationColumn::named(name).ok_or_else(|| unknown_column(name).into());
        self.columns.iter().map(named).collect::<Result<_>>().map(Columns::Listed)
    }

    /// Checks the options before any work is done.
    pub fn check(&self) -> Result<()> {
        self.chosen()?;
        if !self.columns.is_empty() && !matches!(self.format, Format::Table | Format::Markdown) {
            bail_usage!("--columns is for --format table and markdown; csv and json have everything");
        }
        Ok(())
    }
}

fn unknown_column(name: &str) -> StatusFault {
    let known: Vec<&str> = OperationColumn::names().collect();
    StatusFault::usage(format!("--columns {name}: no such column; choose from {}", known.join(", ")))
}

impl Color {
    /// Returns whether standard output is to be coloured.
    pub fn wanted(self) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => std::io::stdout().is_terminal() && !no_color(),
        }
    }
}

/// <https://no-color.org>
pub fn no_color() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}
