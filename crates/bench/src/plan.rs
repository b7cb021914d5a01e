//! What is to be measured: operations, and the combinations of swept options.

use crate::data::Random;
use anyhow::{Result, bail};
use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

/// What a client asks of the server. The first three are the reference workload, the others are statements of `sysbench`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Reads a row that is not there.
    Empty,
    /// Reads a row by its id.
    Read,
    /// Inserts a row.
    Insert,
    /// Reads one column of a row by its id, as `oltp_point_select` does.
    OltpPoint,
    /// Reads one column of a hundred rows that follow each other, as the first of the range queries of `oltp_read_only` does.
    OltpRange,
    /// Inserts a row, as `oltp_insert` does: with its values in the text.
    OltpInsert,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Empty, Self::Read, Self::Insert, Self::OltpPoint, Self::OltpRange, Self::OltpInsert];

    /// Those of the reference workload, which every driver has.
    pub const REFERENCE: [Self; 3] = [Self::Empty, Self::Read, Self::Insert];

    /// Its name on the command line and in the record.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Read => "read",
            Self::Insert => "insert",
            Self::OltpPoint => "oltp-point",
            Self::OltpRange => "oltp-range",
            Self::OltpInsert => "oltp-insert",
        }
    }

    /// Returns whether it works on the table of `sysbench`.
    pub const fn is_oltp(self) -> bool {
        matches!(self, Self::OltpPoint | Self::OltpRange | Self::OltpInsert)
    }

    /// Returns whether it adds rows.
    pub const fn inserts(self) -> bool {
        matches!(self, Self::Insert | Self::OltpInsert)
    }
}

impl FromStr for Operation {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|operation| operation.name() == name);
        found.ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            format!("no such operation: {name}; choose of {known}")
        })
    }
}

/// Operations and how often each is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Operation and weight; no weight is 0, no operation is there twice.
    weights: Vec<(Operation, u32)>,
    sum: u32,
}

impl Mix {
    /// One operation only.
    pub fn of(operation: Operation) -> Self {
        Self { weights: vec![(operation, 1)], sum: 1 }
    }

    /// Returns the operations in it.
    pub fn operations(&self) -> Vec<Operation> {
        self.weights.iter().map(|&(operation, _)| operation).collect()
    }

    /// Returns the name in the record.
    pub fn name(&self) -> &'static str {
        match self.weights.as_slice() {
            [(operation, _)] => operation.name(),
            _ => "mix",
        }
    }

    /// Returns the weights in the record; none for a single operation.
    pub fn record(&self) -> BTreeMap<String, u32> {
        if self.weights.len() == 1 {
            return BTreeMap::new();
        }
        self.weights.iter().map(|&(operation, weight)| (operation.name().to_owned(), weight)).collect()
    }

    /// Returns the operation of the next round.
    #[inline]
    pub fn operation(&self, random: &mut Random) -> Operation {
        match self.weights.as_slice() {
            [(operation, _)] => *operation,
            _ => self.choose(random.next()),
        }
    }

    /// Returns the operation that the random number chooses.
    fn choose(&self, random: u64) -> Operation {
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

impl FromStr for Mix {
    type Err = String;

    /// `read=80,insert=15,empty=5`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut weights: Vec<(Operation, u32)> = Vec::new();
        for part in text.split(',') {
            let (name, weight) = part.split_once('=').ok_or_else(|| format!("'{part}' is not OPERATION=WEIGHT"))?;
            let operation: Operation = name.trim().parse()?;
            let weight = weight.trim().parse().ok().filter(|weight| (1..=1_000_000).contains(weight));
            let weight = weight.ok_or_else(|| format!("the weight of {name} is not a number from 1 to 1000000"))?;
            if weights.iter().any(|&(known, _)| known == operation) {
                return Err(format!("{name} is there twice"));
            }
            weights.push((operation, weight));
        }
        let sum = weights.iter().map(|&(_, weight)| weight).sum();
        Ok(Self { weights, sum })
    }
}

/// A list of numbers from 1, `1,2,4` or `1,2,4,…,64`: three dots double until the number behind them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep(pub Vec<u32>);

/// The most clients, and the most operations of a pipeline, that can be asked for.
const MOST: u32 = 10_000;

impl FromStr for Sweep {
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
            let number: u32 = number.ok_or_else(|| format!("'{part}' is not a number from 1 to {MOST}"))?;
            while let Some(next) = numbers.last().map(|last| last * 2).filter(|next| doubling && *next < number) {
                numbers.push(next);
            }
            doubling = false;
            numbers.push(number);
        }
        if doubling { Err("the list ends with dots".to_owned()) } else { Ok(Self(numbers)) }
    }
}

/// One combination of swept options: one result.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// What the clients do.
    pub mix: Mix,
    /// How many there are.
    pub clients: u32,
    /// Operations that each sends together.
    pub pipeline: u32,
}

/// Returns the combinations, in the order in which they run: all clients of all pipelines of one operation, then the next.
pub fn cells(mixes: &[Mix], clients: &Sweep, pipelines: &Sweep) -> Vec<Cell> {
    let mut cells = Vec::new();
    for mix in mixes {
        for &pipeline in &pipelines.0 {
            for &clients in &clients.0 {
                cells.push(Cell { mix: mix.clone(), clients, pipeline });
            }
        }
    }
    cells
}

/// What is done of a benchmark: make the rows, measure, remove the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// All of it.
    All,
    /// The rows are made, and stay.
    SetUp,
    /// There are rows, and they stay.
    Measure,
    /// The rows are removed.
    CleanUp,
}

impl Phase {
    /// Rows are made.
    pub fn sets_up(self) -> bool {
        matches!(self, Self::All | Self::SetUp)
    }

    /// Something is measured.
    pub fn measures(self) -> bool {
        matches!(self, Self::All | Self::Measure)
    }

    /// Rows are removed.
    pub fn cleans_up(self) -> bool {
        matches!(self, Self::All | Self::CleanUp)
    }
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// After so many operations, over all clients.
    Operations(u64),
    /// After this time.
    Time(Duration),
}

/// A length of time: `500ms`, `10s`, `2m`, or seconds without a unit.
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
        None => bail!("'{text}' is not a length of time: 500ms, 10s, 2m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_chosen_by_its_weights() {
        let mix: Mix = "read=80,insert=15,empty=5".parse().unwrap();
        let mut counts = BTreeMap::new();
        for random in 0..1000 {
            *counts.entry(mix.choose(random)).or_insert(0) += 1;
        }
        assert_eq!(counts, BTreeMap::from([(Operation::Read, 800), (Operation::Insert, 150), (Operation::Empty, 50)]));
        assert_eq!(mix.name(), "mix");
        assert_eq!(Mix::of(Operation::Read).name(), "read");
    }

    #[test]
    fn what_is_no_mix_is_refused() {
        for text in ["", "read", "read=0", "read=x", "write=1", "read=1,read=2", "read=1,"] {
            assert!(text.parse::<Mix>().is_err(), "{text}");
        }
    }

    #[test]
    fn dots_double() {
        assert_eq!("1,2,4,…,64".parse(), Ok(Sweep(vec![1, 2, 4, 8, 16, 32, 64])));
        assert_eq!("1,...,50".parse(), Ok(Sweep(vec![1, 2, 4, 8, 16, 32, 50])));
        assert_eq!("10,25,50".parse(), Ok(Sweep(vec![10, 25, 50])));
        for text in ["", "0", "1,,2", "1,…", "…,4", "10001", "1,…,…,4", "-1"] {
            assert!(text.parse::<Sweep>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_combination_is_a_cell() {
        let cells =
            cells(&[Mix::of(Operation::Empty), Mix::of(Operation::Read)], &Sweep(vec![1, 16]), &Sweep(vec![1, 10, 50]));
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
