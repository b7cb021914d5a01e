//! `overhead top`: operations by bytes, rate, calls or latency on a screen, while they happen, out of a capture, or from the agent.

use crate::options::{Choice, ROW_GRAINS, RowGrain, choice_parser};
use crate::print;
use anyhow::Result;
use clap::Args;
use overhead_model::bail_usage;
use overhead_model::record::By;
use overhead_options::DecodeArgs;
use overhead_reading::time::duration;
use overhead_reading::{InputPlan, Warnings};
use overhead_report::OperationKind;
use screen::Screen;
use std::collections::HashMap;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;
use view::SortBy;

mod draw;
#[cfg(feature = "live")]
mod live;
mod replay;
mod screen;
mod terminal;
mod view;

/// Arguments of `top`.
#[derive(Args, Debug)]
pub struct TopArgs {
    /// A capture or run folder to replay; without one, live traffic is captured
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    #[cfg(feature = "live")]
    #[command(flatten)]
    live: live::LiveArgs,
    #[cfg(feature = "live")]
    #[command(flatten)]
    asked: live::AskedAgent,
    #[command(flatten)]
    decode: DecodeArgs,
    /// What a row is; `g` changes it
    #[arg(long, value_parser = choice_parser(ROW_GRAINS), value_name = "WHAT", default_value = "name")]
    by: RowGrain,
    /// Order of the rows; b, r, c and l change it
    #[arg(long, value_parser = choice_parser(ORDERS), value_name = "KEY", default_value = "bytes")]
    sort: SortBy,
    /// Only rows whose names contain this, in any letter case; `/` changes it
    #[arg(long, value_name = "TEXT", default_value = "")]
    find: String,
    /// Time between two screens, for rates and latencies
    #[arg(long, value_name = "T", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Replay so many times as fast
    #[arg(long, value_name = "N", default_value = "1", value_parser = speed, requires = "files")]
    speed: f64,
    /// Print one screen as plain text and exit: one interval, or a whole capture
    #[arg(long)]
    once: bool,
}

/// Orders of the rows.
const ORDERS: &[Choice<SortBy>] = &[
    ("calls", SortBy::Calls, "Operations since the beginning"),
    ("rate", SortBy::Rate, "Operations a second"),
    ("bytes", SortBy::Bytes, "Bytes on the wire"),
    ("latency", SortBy::Latency, "The 99th percentile of latencies"),
];

/// Shorter intervals would themselves cause load.
const SHORTEST: Duration = Duration::from_millis(100);

impl TopArgs {
    pub fn run(self) -> Result<u8> {
        if !self.once && !std::io::stdout().is_terminal() {
            bail_usage!("standard output is not a terminal: --once prints one screen as text");
        }
        let mut screen = Screen::new(self.by.or(By::Statement), self.sort, self.find.clone(), self.interval);
        #[cfg(feature = "live")]
        {
            // The agent adds up statements from time to time only, so there is no rate of the last second.
            screen.is_whole = self.asked.agent.is_some();
        }
        if !self.once {
            terminal::hold_resize_signal()?;
        }
        let mut feed = self.feed()?;
        if self.once {
            terminal::once(feed.as_mut(), &mut screen)?;
        } else {
            terminal::show(feed.as_mut(), &mut screen)?;
        }
        Ok(print::settled(feed.finish()?))
    }

    fn feed(&self) -> Result<Box<dyn Feed>> {
        #[cfg(feature = "live")]
        if let Some(address) = &self.asked.agent {
            return Ok(Box::new(live::AgentFeed::open(&self.asked, address)?));
        }
        if self.files.is_empty() {
            #[cfg(feature = "live")]
            return Ok(Box::new(live::LiveFeed::open(&self.live, self.decode.plan())?));
            #[cfg(not(feature = "live"))]
            bail_usage!("this build cannot capture: name a capture to replay");
        }
        // A single screen covers the whole capture, which is read at full speed.
        let speed = (!self.once).then_some(self.speed);
        Ok(Box::new(replay::ReplayFeed::open(InputPlan::open(self.files.clone(), &self.decode.plan())?, speed)?))
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        time if time < SHORTEST => Err("give 100ms or more".to_owned()),
        time => Ok(time),
    }
}

fn speed(text: &str) -> Result<f64, String> {
    let speed = text.parse().ok().filter(|speed: &f64| (0.001..=1e6).contains(speed));
    speed.ok_or_else(|| format!("invalid speed {text}: use 0.001 to 1000000, such as 10 for ten times as fast"))
}

/// Figures since the beginning, at one moment.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// Time since the beginning, by the clock for rates.
    pub at: Duration,
    pub frames: u64,
    /// Bytes of the frames on the wire.
    pub wire_bytes: u64,
    pub dropped: u64,
    pub kinds: Vec<OperationKind>,
    /// Costs of rows in 30 days, by label, in the unit of the prices; empty without prices.
    pub costs: HashMap<String, f64>,
    /// The feed has ended.
    pub is_over: bool,
}

pub trait Feed {
    /// Returns a short description of the source.
    fn title(&self) -> String;

    /// Returns the current figures; `None` if they do not arrive in time.
    fn look(&mut self, by: By) -> Result<Option<Look>>;

    /// Returns whether figures accumulate in real time. Otherwise a look waits until all are available.
    fn takes_time(&self) -> bool;

    /// Stops or resumes the feed's clock, if it has one: live traffic and an agent do not wait.
    fn pause(&mut self, _paused: bool) {}

    /// Ends the feed and returns its warnings.
    fn finish(self: Box<Self>) -> Result<Warnings>;
}
