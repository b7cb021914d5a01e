//! Options that several verbs share, and their checked values.

use crate::terminal;
use anyhow::Result;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use overhead_dissect::LinkModel;
use overhead_model::bail_usage;
use overhead_model::exit::StatusFault;
use overhead_model::record::{BillingPeriod, By, Price, SortKey, WorkUnits};
use overhead_options::no_color;
use overhead_reading::DissectPlan;
use overhead_reading::time::duration;
use overhead_report::{Columns, OperationColumn, Style, ViewOptions};
use std::io::IsTerminal;
use std::time::Duration;

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

impl Format {
    /// Returns whether people read it: rows are statements, and the user chooses columns. Programs get names, and all columns.
    pub fn is_for_people(self) -> bool {
        matches!(self, Self::Table | Self::Markdown)
    }

    /// Returns whether it is read on a screen: it shows the warnings of the result, and fits.
    pub fn is_for_screens(self) -> bool {
        self == Self::Table
    }
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
        let style = Style { legend: self.rows.legend, ..terminal::style(self.color.wanted()) };
        if self.wide { Style { width: None, ..style } } else { style }
    }

    /// Returns the view of the rows; `None` for the default.
    pub fn view(&self) -> Option<ViewOptions> {
        let on_screen = self.format.is_for_screens() && !self.wide && self.columns.is_empty();
        self.rows.view(self.format.is_for_people(), on_screen)
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
        if !self.columns.is_empty() && !self.format.is_for_people() {
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

/// Options for what bytes cost.
#[derive(Args, Clone, Debug)]
pub struct PriceArgs {
    /// Price of bytes, as 0.02/GB: adds what they cost
    #[arg(long, value_name = "PRICE", value_parser = overhead_report::price)]
    price: Option<Price>,
    /// Time that costs are for, at the rate seen
    #[arg(hide_short_help = true, long, value_name = "TIME", requires = "price", value_parser = choice_parser(PERIODS), default_value = "day")]
    per: BillingPeriod,
}

const PERIODS: &[Choice<BillingPeriod>] =
    &[("day", BillingPeriod::Day, "24 hours"), ("month", BillingPeriod::Month, "730 hours")];

impl PriceArgs {
    /// Returns the price for this time.
    pub fn price(&self) -> Option<Price> {
        self.price.as_ref().map(|price| Price { per: self.per, ..price.clone() })
    }
}

/// Options for a model of the link.
#[derive(Args, Clone, Debug, Default)]
pub struct ProjectArgs {
    /// Also model a link of this MTU, in a second reading (longer frames are cut, with headers for each piece), or a round-trip
    /// time, such as mtu=1500 or rtt=20ms; repeatable
    #[arg(hide_short_help = true, long, value_name = "mtu=N|rtt=TIME", value_parser = projected)]
    project: Vec<Projected>,
    /// Also model the preamble, check sequence, gap and padding of Ethernet
    #[arg(hide_short_help = true, long)]
    physical: bool,
    /// Also divide the whole cost by your own unit of work, such as 400=page
    #[arg(hide_short_help = true, long, value_name = "N=NAME", value_parser = work_units)]
    pub work: Option<WorkUnits>,
}

/// Parses an amount of work such as `400=page`.
pub fn work_units(text: &str) -> Result<WorkUnits, String> {
    let read = || {
        let (units, name) = text.split_once('=')?;
        let units: f64 = units.trim().parse().ok().filter(|units: &f64| units.is_finite() && *units > 0.0)?;
        let name = name.trim();
        (!name.is_empty()).then(|| WorkUnits { units, name: name.to_owned() })
    };
    read().ok_or_else(|| {
        format!("{text} is not an amount of work: write a number and the name of one unit, such as 400=page")
    })
}

/// What `--project` models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Projected {
    Mtu(u32),
    RoundTripTime(Duration),
}

fn projected(text: &str) -> Result<Projected, String> {
    if let Some(rtt) = text.strip_prefix("rtt=") {
        let rtt = duration(rtt).ok().filter(|rtt| *rtt > Duration::ZERO);
        return rtt.map(Projected::RoundTripTime).ok_or_else(|| "invalid round-trip time: write rtt=20ms".to_owned());
    }
    // RFC 791: every link carries packets of 68 bytes.
    let mtu = text.strip_prefix("mtu=").and_then(|mtu| mtu.parse().ok()).filter(|mtu| (68..=65_535).contains(mtu));
    let wrong = || "invalid model: write mtu=N with N from 68 to 65535, such as mtu=1500, or rtt=20ms".to_owned();
    mtu.map(Projected::Mtu).ok_or_else(wrong)
}

impl ProjectArgs {
    /// Returns the link to model, if there is one.
    pub fn model(&self) -> Option<LinkModel> {
        let mut mtus =
            self.project.iter().filter_map(|model| if let Projected::Mtu(mtu) = model { Some(*mtu) } else { None });
        let model = LinkModel { mtu: mtus.next_back(), is_physical: self.physical };
        (model != LinkModel::default()).then_some(model)
    }

    /// Returns the round-trip times to model.
    pub fn round_trip_times(&self) -> Vec<Duration> {
        let times = self.project.iter().filter_map(|model| match model {
            Projected::RoundTripTime(rtt) => Some(*rtt),
            Projected::Mtu(_) => None,
        });
        times.collect()
    }
}

/// Slower ways to the same result, and coarser ones, for tests and measurements.
#[derive(Args, Clone, Copy, Debug)]
pub struct DissectArgs {
    /// Send every frame the general way; the result is the same
    #[arg(long, hide = true)]
    no_memo: bool,
    /// Tell no statements apart, to see what that costs
    #[arg(long, hide = true)]
    no_statements: bool,
}

impl DissectArgs {
    /// Returns the choice of ways.
    pub fn plan(self) -> DissectPlan {
        DissectPlan { no_memo: self.no_memo, no_statements: self.no_statements }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_mtu_is_said_by_name_and_is_one_that_links_have() {
        assert_eq!(projected("mtu=1500"), Ok(Projected::Mtu(1_500)));
        assert_eq!(projected("rtt=20ms"), Ok(Projected::RoundTripTime(Duration::from_millis(20))));
        assert!(projected("rtt=0").unwrap_err().contains("rtt=20ms"));
        for wrong in ["1500", "mtu=", "mtu=67", "mtu=65536", "mtu=x"] {
            assert!(projected(wrong).unwrap_err().contains("such as mtu=1500"), "{wrong}");
        }
    }
}
