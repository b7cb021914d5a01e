//! Replays of a simulated hour, each with other windows, against the bytes that the hour really had.

use super::*;
use std::sync::LazyLock;

/// `SplitMix64`, <https://prng.di.unimi.it/splitmix64.c>.
pub(super) struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// Returns a number above 0, up to 1.
    fn share(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number with median 1 (Box-Muller).
    fn lognormal(&mut self, sigma: f64) -> f64 {
        let normal = (-2.0 * self.share().ln()).sqrt() * (std::f64::consts::TAU * self.share()).cos();
        (sigma * normal).exp()
    }
}

/// Median bytes of ten statements, the most frequent first. The frequencies are those of Zipf.
const SIZES: [f64; JOB] = [900.0, 400.0, 800.0, 300.0, 1_500.0, 250.0, 600.0, 1_800.0, 350.0, 3_000.0];
/// Bursts of 2 to 6 s, at 20 random times.
const JOB: usize = 10;
/// Bursts of half a second each minute.
const PERIODIC: usize = 11;
const PARTS: usize = 12;
/// Steps of 10 ms.
const HOUR: usize = 360_000;
const PERIOD: usize = HOUR / 12;
const SOON: usize = HOUR / 6;

/// Operations and bytes by part since the beginning of the hour, at the end of each step.
type HourSteps = Vec<[[u32; 2]; PARTS]>;

/// Simulates 2,000 operations per second, whose rate drifts from 3/4 of that to 5/4, and varies from second to second. In a
/// burst, the job has half as many bytes per second as all other statements, and the periodic one as many.
fn simulate() -> HourSteps {
    let mut random = Random(1);
    let mut steps = vec![[[0; 2]; PARTS]; HOUR + 1];
    let spread: Vec<f64> = (0..4_096).map(|_| random.lognormal(0.5)).collect();
    let mut add = |step: usize, part: usize, bytes: f64| {
        let [count, sum] = &mut steps[step.min(HOUR - 1) + 1][part];
        (*count, *sum) = (*count + 1, *sum + bytes as u32);
    };
    let ranks: Vec<usize> = (0..JOB).flat_map(|rank| vec![rank; 2_520 / (rank + 1)]).collect();
    for second in 0..HOUR / 100 {
        let rate = 2_000.0 * (0.75 + 0.5 * second as f64 / 3_600.0) * random.lognormal(0.25);
        for _ in 0..rate as usize {
            let rank = ranks[random.below(ranks.len() as u64) as usize];
            let size = SIZES[rank] * spread[random.below(4_096) as usize];
            add(second * 100 + random.below(100) as usize, rank, size);
        }
    }
    for _ in 0..20 {
        let (start, length) = (random.below(HOUR as u64) as usize, 200 + random.below(400) as usize);
        (start..start + length).for_each(|step| add(step, JOB, 8_000.0 * random.lognormal(0.5)));
    }
    for start in (1_730..HOUR).step_by(6_000) {
        (start..start + 50).for_each(|step| add(step, PERIODIC, 16_000.0 * random.lognormal(0.5)));
    }
    let mut sums = [[0; 2]; PARTS];
    for step in &mut steps {
        for (sum, of) in sums.iter_mut().flatten().zip(step.iter_mut().flatten()) {
            *sum += *of;
            *of = *sum;
        }
    }
    steps
}

static STEPS: LazyLock<HourSteps> = LazyLock::new(simulate);

/// The simulated hour, with the bytes of bursts multiplied.
#[derive(Clone, Copy)]
struct RecordedHour {
    bursts: u64,
}

impl RecordedHour {
    fn between(self, start: usize, end: usize) -> [PartBytes; PARTS] {
        let (start, end) = (&STEPS[start], &STEPS[end]);
        let mut parts = [PartBytes::default(); PARTS];
        for (part, found) in parts.iter_mut().enumerate() {
            let bytes = u64::from(end[part][1] - start[part][1]);
            found.count = u64::from(end[part][0] - start[part][0]);
            found.wire_bytes[1] = if part < JOB { bytes } else { bytes * self.bursts };
        }
        parts
    }

    /// Replays the hour a number of times, on two threads.
    fn replays(self, number: u64) -> Vec<Replay> {
        let keys: Vec<_> = (0..PARTS).map(|at| part(&format!("{at:02}"))).collect();
        let half = |first| -> Vec<_> {
            (first..number).step_by(2).map(|seed| self.replay(&keys, &mut Random(seed))).collect()
        };
        let replays = std::thread::scope(|scope| {
            let other = scope.spawn(|| half(1));
            [half(0), other.join().unwrap()].concat()
        });
        let truth = self.between(0, HOUR);
        for (part, of) in truth.iter().enumerate() {
            let ([bytes, operations], bias) = (coverage(&replays, part), bias(&replays, part));
            let share = of.total() as f64 / sum(&truth) as f64 * 100.0;
            println!("{part:2}, {share:5.2}% of bytes: {bytes:5.1}% and {operations:5.1}% hold, bias {bias:6.3}");
        }
        replays
    }

    /// Captures 100 ms at a random place of each 10 s.
    fn replay(self, keys: &[TrafficPart], random: &mut Random) -> Replay {
        let (mut periods, mut soon) = (CompositionPeriods::new(PARTS), Composition::new(PARTS));
        for start in (0..HOUR).step_by(1_000) {
            let at = start + random.below(991) as usize;
            let sample = window(keys.iter().zip(self.between(at, at + 10)).filter(|(_, of)| of.count > 0));
            periods.add_window(&sample);
            if start < SOON {
                soon.add_window(&sample);
            }
            if (start + 1_000) % PERIOD == 0 {
                periods.end_period([0, sum(&self.between(start + 1_000 - PERIOD, start + 1_000))], 0.01);
            }
        }
        let truth = self.between(0, HOUR);
        let mut replay = Replay { errors: truth.map(|of| -(of.total() as f64)), ..Replay::default() };
        for found in periods.totals() {
            let at = keys.iter().position(|key| *key == found.part).unwrap();
            let holds = |found: Estimate, truth: u64| found.low <= truth as f64 && truth as f64 <= found.high;
            replay.errors[at] += found.bytes.value;
            replay.holding[at] = [holds(found.bytes, truth[at].total()), holds(found.operations, truth[at].count)];
        }
        let truth = self.between(0, SOON);
        let share = ratios_of(soon, 0.01, &keys[0]).bytes.values[1];
        replay.soon = share - truth[0].total() as f64 / sum(&truth) as f64;
        replay
    }
}

fn sum(parts: &[PartBytes]) -> u64 {
    parts.iter().map(PartBytes::total).sum()
}

#[derive(Clone, Default)]
struct Replay {
    /// Error of the hour's bytes by part.
    errors: [f64; PARTS],
    /// Whether the intervals of bytes and of operations hold.
    holding: [[bool; 2]; PARTS],
    /// Error of the largest share after ten minutes.
    soon: f64,
}

/// Returns in how many percent of the replays the intervals of bytes and of operations hold.
fn coverage(replays: &[Replay], part: usize) -> [f64; 2] {
    [0, 1].map(|of| {
        let holding = replays.iter().filter(|replay| replay.holding[part][of]).count();
        holding as f64 / replays.len() as f64 * 100.0
    })
}

/// Returns the mean error of the bytes in standard deviations.
fn bias(replays: &[Replay], part: usize) -> f64 {
    let mean = |of: &dyn Fn(f64) -> f64| {
        replays.iter().map(|replay| of(replay.errors[part])).sum::<f64>() / replays.len() as f64
    };
    let (first, second) = (mean(&|error| error), mean(&|error| error * error));
    first / (second - first * first).sqrt()
}

/// The intervals of bursts are wide rather than short: few windows show them, so Student's t has few degrees of freedom. Bursts
/// of several seconds also vary less than windows at any place would show, since each 10 s has one.
#[test]
fn intervals_hold_as_often_as_they_say() {
    let replays = RecordedHour { bursts: 1 }.replays(1_000);
    for part in 0..PARTS {
        let most = if part < JOB { 97.0 } else { 100.0 };
        for coverage in coverage(&replays, part) {
            assert!((93.0..=most).contains(&coverage), "{part}: {coverage}");
        }
    }
    let near = replays.iter().filter(|replay| replay.soon.abs() <= 0.02).count();
    println!("{near} within two points after ten minutes");
    assert!(near >= 950, "{near}");
}

/// With the plain ratio, the largest statement's bias is 0.36; with the linearised variance, 90% of its intervals hold.
#[test]
fn heavy_bursts_neither_bias_the_sum_of_periods_nor_shorten_intervals() {
    let replays = RecordedHour { bursts: 6 }.replays(200);
    for part in 0..JOB {
        assert!(bias(&replays, part).abs() < 0.2 && coverage(&replays, part)[0] > 92.0, "{part}");
    }
}
