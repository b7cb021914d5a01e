//! Options for what is read, and how it is decoded.

use clap::Args;
use clap::builder::PossibleValuesParser;
use overhead_model::record::Selected;
use overhead_model::{Protocol, System};
use overhead_reading::time::{TimePoint, TimeWindow, duration, moment};
use overhead_reading::{ConnectionChoice, DecodePlan, DutyCycle, KeyFiles, SamplePlan, duty_cycle};
use std::path::PathBuf;
use std::time::Duration;

/// The system name that requests detection.
const AUTO: &str = "auto";

/// How captures are decoded.
#[derive(Args, Clone, Debug)]
pub struct DecodeArgs {
    #[arg(long, value_name = "NAME", default_value = AUTO, help = systems(), value_parser = system_parser(), ignore_case = true, hide_possible_values = true)]
    db: Vec<String>,
    /// Server port, if not the usual one; with --db, decoded as that protocol; repeatable
    #[arg(long, value_name = "P", value_parser = port)]
    port: Vec<u16>,
    /// Texts of statements that were prepared before the capture: a line each of the statement's name or id, a tab and its text
    #[arg(hide_short_help = true, long, value_name = "FILE")]
    statements: Option<PathBuf>,
    #[command(flatten)]
    keys: KeyArgs,
}

/// Key logs of TLS.
#[derive(Args, Clone, Debug)]
pub struct KeyArgs {
    /// Key log for decrypting TLS, as clients and servers write it; repeatable [default: $SSLKEYLOGFILE]
    #[arg(hide_short_help = true, long, value_name = "FILE")]
    keylog: Vec<PathBuf>,
}

/// A window of time. Frames outside it are ignored.
#[derive(Args, Clone, Copy, Debug)]
pub struct WindowArgs {
    /// Leave out what is before: +2s or 1.5s after the first frame, 2026-01-31T12:00:00Z, or Unix seconds
    #[arg(long, value_name = "T", value_parser = moment)]
    from: Option<TimePoint>,
    /// Leave out this moment and what is after
    #[arg(long, value_name = "T", value_parser = moment)]
    to: Option<TimePoint>,
    /// Leave out this time after the first frame, while caches fill
    #[arg(long, value_name = "T", value_parser = duration, conflicts_with = "from")]
    warmup: Option<Duration>,
}

/// Options for reading only part of the time.
#[derive(Args, Clone, Copy, Debug)]
pub struct SampleArgs {
    /// Take only a window of each period, as in 10s/5m
    #[arg(hide_short_help = true, long = "sample", value_name = "WINDOW/PERIOD", value_parser = duty_cycle)]
    cycle: Option<DutyCycle>,
    /// Seed for the random places of the windows
    #[arg(hide_short_help = true, long, value_name = "N", requires = "cycle")]
    sample_seed: Option<u64>,
}

impl DecodeArgs {
    /// Returns the choice of connections and keys.
    pub fn plan(&self) -> DecodePlan {
        let named = self.db.iter().filter(|name| !name.eq_ignore_ascii_case(AUTO));
        let selected = Selected { db: named.cloned().collect(), ports: self.port.clone() };
        let connections = ConnectionChoice { selected, statements: self.statements.clone() };
        DecodePlan { connections, keys: self.keys.plan() }
    }
}

impl KeyArgs {
    /// Returns the choice of key logs.
    pub fn plan(&self) -> KeyFiles {
        KeyFiles::new(self.keylog.clone())
    }
}

impl WindowArgs {
    /// Returns the window.
    pub fn plan(self) -> TimeWindow {
        let Self { from, to, warmup } = self;
        TimeWindow { from, to, warmup }
    }
}

impl SampleArgs {
    /// Returns the choice of windows.
    pub fn plan(self) -> SamplePlan {
        SamplePlan { cycle: self.cycle, seed: self.sample_seed }
    }
}

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

/// Parses a port.
fn port(text: &str) -> Result<u16, String> {
    let port = text.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| "invalid port: use 1 to 65535, or name a database with --db".to_owned())
}
