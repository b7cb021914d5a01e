//! The verbs.

use crate::hand_over::{self, PassedArgs, ProgramBeside};
use crate::{advise, analyze, check, compare, explain, manual, report};
use anyhow::Result;
use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};
use overhead_options::matches;

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
    Analyze(Box<analyze::AnalyzeArgs>),
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
            Self::Generate(generate) => generate.run(&command()),
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
    hand_over::check_installed(std::env::args().nth(1).as_deref())?;
    let matches = matches(command())?;
    Ok(match matches.subcommand() {
        Some((verb, given)) if let Some(program) = hand_over::named(verb) => {
            CliCommand::Beside(program, PassedArgs::from_arg_matches(given)?)
        }
        _ => Cli::from_arg_matches(&matches)?.command,
    })
}
