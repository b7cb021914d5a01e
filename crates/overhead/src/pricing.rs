//! Options for what bytes cost.

use crate::cli::{Choice, choice_parser};
use clap::Args;
use overhead_model::record::{BillingPeriod, Price};

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
