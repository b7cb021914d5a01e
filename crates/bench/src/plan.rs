//! Operations, and the combinations of swept options.

use anyhow::{Result, bail};
use overhead_model::enum_with;
use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

enum_with! {
    /// An operation. The first three are the reference workload, the others are `sysbench` statements.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum BenchOp, name: &'static str {
        /// Reads a missing row.
        Empty = "empty",
        Read = "read",
        Insert = "insert",
        /// Reads one column by id, like `oltp_point_select`.
        OltpPoint = "oltp-point",
        /// Reads one column of 100 consecutive rows, like the first range query of `oltp_read_only`.
        OltpRange = "oltp-range",
        /// Inserts a row with its values in the text, like `oltp_insert`.
        OltpInsert = "oltp-insert",
    }
}

impl BenchOp {
    /// Supported by every driver.
    pub const REFERENCE: [Self; 3] = [Self::Empty, Self::Read, Self::Insert];

    /// Returns whether the operation uses the `sysbench` table.
    pub const fn is_oltp(self) -> bool {
        matches!(self, Self::OltpPoint | Self::OltpRange | Self::OltpInsert)
    }

    pub const fn inserts(self) -> bool {
        matches!(self, Self::Insert | Self::OltpInsert)
    }
}

impl FromStr for BenchOp {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|operation| operation.name() == name);
        found.ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            format!("unknown operation {name}: choose one of {known}")
        })
    }
}

/// Weighted operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationMix {
    /// Distinct operations with weights above 0.
    weights: Vec<(BenchOp, u32)>,
    sum: u32,
}

impl OperationMix {
    pub fn single(operation: BenchOp) -> Self {
        Self { weights: vec![(operation, 1)], sum: 1 }
    }

    pub fn operations(&self) -> Vec<BenchOp> {
        self.weights.iter().map(|&(operation, _)| operation).collect()
    }

    pub fn name(&self) -> &'static str {
        if let [(operation, _)] = self.weights.as_slice() { operation.name() } else { "mix" }
    }

    /// Returns the weights for the record; empty for a single operation.
    pub fn record(&self) -> BTreeMap<String, u32> {
        if self.weights.len() == 1 {
            return BTreeMap::new();
        }
        self.weights.iter().map(|&(operation, weight)| (operation.name().to_owned(), weight)).collect()
    }

    /// Returns the operation of the next round. Draws a random number only if there are several operations.
    #[inline]
    pub fn operation(&self, random: impl FnOnce() -> u64) -> BenchOp {
        if let [(operation, _)] = self.weights.as_slice() { *operation } else { self.choose(random()) }
    }

    fn choose(&self, random: u64) -> BenchOp {
        let mut left = (random % u64::from(self.sum)) as u32;
        for &(operation, weight) in &self.weights {
            if left < weight {
                return operation;
            }
            left -= weight;
        }
        self.weights[0].0
    }
}

impl FromStr for OperationMix {
    type Err = String;

    /// Parses `read=80,insert=15,empty=5`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut weights: Vec<(BenchOp, u32)> = Vec::new();
        for part in text.split(',') {
            let (name, weight) = part.split_once('=').ok_or_else(|| format!("'{part}' is not OPERATION=WEIGHT"))?;
            let operation: BenchOp = name.trim().parse()?;
            let weight = weight.trim().parse().ok().filter(|weight| (1..=1_000_000).contains(weight));
            let weight = weight.ok_or_else(|| format!("invalid weight of {name}: use 1 to 1000000"))?;
            if weights.iter().any(|&(known, _)| known == operation) {
                return Err(format!("{name} is given twice"));
            }
            weights.push((operation, weight));
        }
        let sum = weights.iter().map(|&(_, weight)| weight).sum();
        Ok(Self { weights, sum })
    }
}

/// Numbers from 1: `1,2,4` or `1,2,4,…,64`, where three dots double up to the next number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepValues(pub Vec<u32>);

/// Upper bound for clients and pipelines.
const MOST: u32 = 10_000;

impl FromStr for SweepValues {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut numbers: Vec<u32> = Vec::new();
        let mut doubling = false;
        for part in text.split(',').map(str::trim) {
            if matches!(part, "…" | "..." | "..") && !numbers.is_empty() && !doubling {
                doubling = true;
                continue;
            }
            let number = part.parse().ok().filter(|number| (1..=MOST).contains(number));
            let number: u32 = number.ok_or_else(|| format!("invalid number '{part}': use 1 to {MOST}"))?;
            while let Some(next) = numbers.last().map(|last| last * 2).filter(|next| doubling && *next < number) {
                numbers.push(next);
            }
            doubling = false;
            numbers.push(number);
        }
        if doubling { Err("the list ends with dots".to_owned()) } else { Ok(Self(numbers)) }
    }
}

/// One combination of swept options, which gives one result.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchCell {
    pub mix: OperationMix,
    pub clients: u32,
    /// Operations that each client sends together.
    pub pipeline: u32,
}

/// Returns the combinations in the order they run: by operation, then pipeline, then clients.
pub fn cells(mixes: &[OperationMix], clients: &SweepValues, pipelines: &SweepValues) -> Vec<BenchCell> {
    let mut cells = Vec::new();
    for mix in mixes {
        for &pipeline in &pipelines.0 {
            for &clients in &clients.0 {
                cells.push(BenchCell { mix: mix.clone(), clients, pipeline });
            }
        }
    }
    cells
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BenchPhase {
    All,
    /// Make the rows and keep them.
    SetUp,
    /// Use existing rows and keep them.
    Measure,
    CleanUp,
    /// Print the statements that clients have prepared.
    ListStatements,
}

impl BenchPhase {
    pub fn sets_up(self) -> bool {
        matches!(self, Self::All | Self::SetUp)
    }

    pub fn measures(self) -> bool {
        matches!(self, Self::All | Self::Measure)
    }

    pub fn cleans_up(self) -> bool {
        matches!(self, Self::All | Self::CleanUp)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunLength {
    /// Total of all clients.
    Operations(u64),
    Time(Duration),
}

/// Parses `500ms`, `10s`, `2m`, or seconds without a unit.
pub fn duration(text: &str) -> Result<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds = match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => bail!("'{text}' has no unit of time: use ms, s, m or h"),
    };
    match number.parse::<f64>().ok().map(|number| number * seconds).filter(|seconds| (0.0..=1e6).contains(seconds)) {
        Some(seconds) => Ok(Duration::from_secs_f64(seconds)),
        None => bail!("invalid duration '{text}': use 500ms, 10s or 2m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_chosen_by_its_weights() {
        let mix: OperationMix = "read=80,insert=15,empty=5".parse().unwrap();
        let mut counts = BTreeMap::new();
        for random in 0..1000 {
            *counts.entry(mix.choose(random)).or_insert(0) += 1;
        }
        assert_eq!(counts, BTreeMap::from([(BenchOp::Read, 800), (BenchOp::Insert, 150), (BenchOp::Empty, 50)]));
        assert_eq!(mix.name(), "mix");
        assert_eq!(OperationMix::single(BenchOp::Read).name(), "read");
    }

    #[test]
    fn what_is_no_mix_is_refused() {
        for text in ["", "read", "read=0", "read=x", "write=1", "read=1,read=2", "read=1,"] {
            assert!(text.parse::<OperationMix>().is_err(), "{text}");
        }
    }

    #[test]
    fn dots_double() {
        assert_eq!("1,2,4,…,64".parse(), Ok(SweepValues(vec![1, 2, 4, 8, 16, 32, 64])));
        assert_eq!("1,...,50".parse(), Ok(SweepValues(vec![1, 2, 4, 8, 16, 32, 50])));
        assert_eq!("10,25,50".parse(), Ok(SweepValues(vec![10, 25, 50])));
        for text in ["", "0", "1,,2", "1,…", "…,4", "10001", "1,…,…,4", "-1"] {
            assert!(text.parse::<SweepValues>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_combination_is_a_cell() {
        let cells = cells(
            &[OperationMix::single(BenchOp::Empty), OperationMix::single(BenchOp::Read)],
            &SweepValues(vec![1, 16]),
            &SweepValues(vec![1, 10, 50]),
        );
        assert_eq!(cells.len(), 12);
        assert_eq!((cells[1].clients, cells[1].pipeline), (16, 1));
        assert_eq!((cells[11].mix.name(), cells[11].clients, cells[11].pipeline), ("read", 16, 50));
    }

    #[test]
    fn times_have_units() {
        assert_eq!(duration("500ms").unwrap(), Duration::from_millis(500));
        assert_eq!(duration("1.5").unwrap(), Duration::from_millis(1500));
        assert_eq!(duration("2m").unwrap(), Duration::from_mins(2));
        for text in ["", "s", "10x", "-1s", "1e3s", "99999999999s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
