//! Simulated hours, each sampled by other windows many times, against the operations and bytes that they really had.
//!
//! An hour has one window of 100 ms at a random place of each 10 s, as the defaults of the agent have. `OVERHEAD_SIMULATION=all` runs the
//! whole grid with 1,000 runs each, and prints its table.

use overhead_model::{Class, Protocol};
use overhead_report::composition::{CompositionPeriods, PartBytes, TrafficPart, WindowSample};

/// `SplitMix64`, <https://prng.di.unimi.it/splitmix64.c>.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// Returns a number above 0, up to 1.
    fn share(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.share().ln()
    }

    /// Returns a number with mean 0 and standard deviation 1 (Box-Muller).
    fn normal(&mut self) -> f64 {
        (-2.0 * self.share().ln()).sqrt() * (std::f64::consts::TAU * self.share()).cos()
    }
}

/// Seconds between windows, and of a period.
const EVERY: usize = 10;
const PERIOD: usize = 300;
const PARTS: usize = 4;
/// Part 3 of traffic with short connections.
const CONNECT: usize = 3;

/// Sums from the start, at the end of each step.
struct SimulatedTraffic {
    steps_per_second: usize,
    /// By part: operations that started, and their bytes, whenever they were sent.
    started: Vec<[[u64; 3]; PARTS]>,
    /// Bytes that were sent, by side.
    sent: Vec<[u64; 2]>,
}

impl SimulatedTraffic {
    /// Prepares an hour in steps of 10 ms, or more hours in steps of a window.
    fn new(hours: usize) -> Self {
        let steps_per_second = if hours > 1 { 10 } else { 100 };
        let steps = hours * 3_600 * steps_per_second + 1;
        Self { steps_per_second, started: vec![[[0; 3]; PARTS]; steps], sent: vec![[0; 2]; steps] }
    }

    fn seconds(&self) -> f64 {
        (self.sent.len() - 1) as f64 / self.steps_per_second as f64
    }

    /// Adds `count` operations of a part that start at a time. Their answers, and the acknowledgments of these, follow. Before the last
    /// second, so that all of them are sent within the time.
    fn add(
        &mut self,
        at: f64,
        part: usize,
        (count, [request, response]): (u64, [u64; 2]),
        [answer, acknowledgment]: [f64; 2],
    ) {
        let steps = self.steps_per_second as f64;
        let step = |time: f64| (time * steps) as usize + 1;
        if at > self.seconds() - 1.0 {
            return;
        }
        let sums = &mut self.started[step(at)][part];
        let all = if acknowledgment > 0.0 { request + 66 * count } else { request };
        for (sum, more) in sums.iter_mut().zip([count, all, response]) {
            *sum += more;
        }
        self.sent[step(at)][0] += request;
        self.sent[step(at + answer)][1] += response;
        self.sent[step(at + answer + acknowledgment)][0] += all - request;
    }

    fn summed(mut self) -> Self {
        for step in 1..self.sent.len() {
            let (started, sent) = (self.started[step - 1], self.sent[step - 1]);
            let sums = self.started[step].iter_mut().flatten().zip(started.iter().flatten());
            sums.for_each(|(sum, before)| *sum += before);
            self.sent[step].iter_mut().zip(sent).for_each(|(sum, before)| *sum += before);
        }
        self
    }

    fn started(&self, part: usize, from: usize, to: usize) -> [u64; 3] {
        std::array::from_fn(|of| self.started[to][part][of] - self.started[from][part][of])
    }

    fn sent(&self, from: usize, to: usize) -> [u64; 2] {
        [0, 1].map(|side| self.sent[to][side] - self.sent[from][side])
    }

    fn window(&self, names: &[TrafficPart], at: usize) -> WindowSample {
        let mut sample = WindowSample::default();
        let mut known = [0; 2];
        for (part, name) in names.iter().enumerate() {
            let [count, request, response] = self.started(part, at, at + self.steps_per_second / 10);
            if count > 0 {
                sample.parts.insert(name.clone(), PartBytes { count, wire_bytes: [request, response] });
                known = [known[0] + request, known[1] + response];
            }
        }
        for (side, sent) in self.sent(at, at + self.steps_per_second / 10).into_iter().enumerate() {
            sample.carried_in[side] = sent.saturating_sub(known[side]);
            sample.carried_out[side] = known[side].saturating_sub(sent);
        }
        sample
    }
}

/// `connections` that each send `LPUSH` and `LTRIM` in turn, the answers after `answer` seconds on average, then pause. A last part is rare.
fn paced(hours: usize, connections: usize, answer: f64, pause: f64, random: &mut Random) -> SimulatedTraffic {
    let mut traffic = SimulatedTraffic::new(hours);
    let seconds = hours * 3_600;
    for _ in 0..connections {
        let mut now = random.share() * (pause + 3.0 * answer);
        while now < seconds as f64 {
            for (part, bytes) in [(0, [160, 71]), (1, [107, 71]), (2, [120, 5_000])] {
                if part == 2 && random.below(10) > 0 {
                    continue;
                }
                let answer = answer * (0.5 + random.share());
                let is_last = part == 1;
                traffic.add(now, part, (1, bytes), [answer, if is_last { pause.min(0.04) } else { 0.0 }]);
                now += answer + 1e-4;
            }
            now += pause * (0.9 + 0.2 * random.share());
        }
    }
    traffic.summed()
}

/// Operations at random times, whose rate drifts and varies from second to second; in bursts, part 1 has most of the bytes.
fn random(hours: usize, rate: f64, answer: f64, bursts: usize, random: &mut Random) -> SimulatedTraffic {
    let mut traffic = SimulatedTraffic::new(hours);
    let seconds = hours as u32 * 3_600;
    for second in 0..seconds {
        let rate = rate * (0.75 + 0.5 * f64::from(second) / f64::from(seconds)) * (0.25 * random.normal()).exp();
        let (has_bursts, is_long) = (bursts > 0, bursts > 1);
        let is_burst = has_bursts && (random.below(10) == 0 || (is_long && second % 600 < 60));
        for (part, share, bytes) in [(0, 0.6, [130, 90]), (1, 0.3, [200, 900]), (2, 0.1, [90, 4_000])] {
            let rate = rate * share * if is_burst && part == 1 { 10.0 } else { 1.0 };
            if rate < 2_000.0 {
                let mut at = random.exponential(1.0 / rate);
                while at < 1.0 {
                    let size = [bytes[0], (bytes[1] as f64 * (0.5 * random.normal()).exp()) as u64];
                    traffic.add(f64::from(second) + at, part, (1, size), [answer * 2.0 * random.share(), 0.001]);
                    at += random.exponential(1.0 / rate);
                }
                continue;
            }
            for step in 0..traffic.steps_per_second {
                let mean = rate / traffic.steps_per_second as f64;
                let count = (mean + mean.sqrt() * random.normal()).round().max(0.0) as u64;
                let at = f64::from(second) + (step as f64 + 0.5) / traffic.steps_per_second as f64;
                traffic.add(at, part, (count, bytes.map(|bytes| bytes * count)), [answer, 0.001]);
            }
        }
    }
    traffic.summed()
}

/// Connections with a few operations each, which come at random times.
fn short_connections(rate: f64, answer: f64, random: &mut Random) -> SimulatedTraffic {
    let mut traffic = SimulatedTraffic::new(1);
    let mut start = 0.0;
    while start < 3_600.0 {
        start += random.exponential(1.0 / rate);
        traffic.add(start, CONNECT, (1, [140, 74]), [answer / 2.0, 0.0]);
        let mut now = start + answer / 2.0;
        for _ in 0..=random.below(4) {
            let part = random.below(3) as usize;
            traffic.add(now, part, (1, [[140, 80], [100, 700], [300, 71]][part]), [answer, 0.01]);
            now += answer + random.exponential(0.05);
        }
    }
    traffic.summed()
}

/// What many runs found of a part.
#[derive(Clone, Copy, Debug, Default)]
struct PartRuns {
    /// Runs with an interval, and those whose intervals of bytes and of operations hold.
    intervals: [f64; 3],
    /// Sums of the relative errors of bytes and of operations, and of their squares.
    errors: [[f64; 2]; 2],
}

impl PartRuns {
    fn add(&mut self, other: &Self) {
        let sums = self.intervals.iter_mut().chain(self.errors.iter_mut().flatten());
        sums.zip(other.intervals.iter().chain(other.errors.iter().flatten())).for_each(|(sum, more)| *sum += more);
    }
}

struct Simulation {
    name: &'static str,
    /// In how many percent of the runs an interval may hold.
    most: f64,
    traffic: SimulatedTraffic,
}

impl Simulation {
    fn names() -> Vec<TrafficPart> {
        let name = |number: usize| TrafficPart::Operations {
            class: if number == CONNECT { Class::Setup } else { Class::Workload },
            protocol: Protocol::Resp,
            name: number.to_string(),
            statement: String::new(),
        };
        (0..PARTS).map(name).collect()
    }

    fn run(&self, names: &[TrafficPart], random: &mut Random) -> [PartRuns; PARTS] {
        let mut periods = CompositionPeriods::new(PARTS);
        let (steps, every) = (self.traffic.sent.len() - 1, EVERY * self.traffic.steps_per_second);
        for start in (0..steps).step_by(every) {
            let at = start + random.below((every - self.traffic.steps_per_second / 10 + 1) as u64) as usize;
            let sample = self.traffic.window(names, at);
            if sample != WindowSample::default() {
                periods.add_window(&sample);
            }
            let (end, period) = (start + every, PERIOD * self.traffic.steps_per_second);
            if end % period == 0 {
                periods.end_period(self.traffic.sent(end - period, end), 0.01);
            }
        }
        let mut found = [PartRuns::default(); PARTS];
        let totals = periods.totals();
        for (part, runs) in found.iter_mut().enumerate() {
            let [count, request, response] = self.traffic.started(part, 0, steps).map(|truth| truth as f64);
            if count < 1.0 {
                assert!(totals.iter().all(|total| total.part != names[part]), "what never was is not there");
                continue;
            }
            let total = totals.iter().find(|total| total.part == names[part]);
            let truths = [request + response, count];
            let values = total.map_or([0.0; 2], |total| [total.bytes.value, total.operations.value]);
            for (which, errors) in runs.errors.iter_mut().enumerate() {
                let error = values[which] / truths[which] - 1.0;
                *errors = [error, error * error];
            }
            if let Some(total) = total.filter(|total| total.has_interval) {
                let holds = |which: usize| {
                    let estimate = [&total.bytes, &total.operations][which];
                    f64::from(u8::from((estimate.low..=estimate.high).contains(&truths[which])))
                };
                runs.intervals = [1.0, holds(0), holds(1)];
            }
        }
        found
    }

    /// Runs it with as many seeds, on two threads, and checks the result.
    fn check(&self, seeds: u64) {
        let names = Self::names();
        let half = |first: u64| {
            let mut sums = [PartRuns::default(); PARTS];
            for seed in (first..seeds).step_by(2) {
                let found = self.run(&names, &mut Random(seed));
                sums.iter_mut().zip(&found).for_each(|(sum, more)| sum.add(more));
            }
            sums
        };
        let sums = std::thread::scope(|scope| {
            let other = scope.spawn(|| half(1));
            let mut sums = half(0);
            sums.iter_mut().zip(&other.join().unwrap()).for_each(|(sum, more)| sum.add(more));
            sums
        });
        let runs = seeds as f64;
        let steps = self.traffic.sent.len() - 1;
        for (part, PartRuns { intervals: [shown, bytes, operations], errors }) in sums.iter().enumerate() {
            let operations_per_second = self.traffic.started(part, 0, steps)[0] as f64 / self.traffic.seconds();
            if operations_per_second <= 0.0 {
                continue;
            }
            let bias = errors.map(|[sum, squares]| {
                let mean = sum / runs;
                (mean, ((squares / runs - mean * mean).max(0.0) / runs).sqrt())
            });
            let held = [bytes, operations].map(|holding| holding / shown * 100.0);
            println!(
                "{:44} {part} {operations_per_second:9.1}/s  interval in {:5.1}%  bytes {:5.1}% hold, bias {:6.2}% ± {:.2}%  operations {:5.1}% hold, bias {:6.2}% ± {:.2}%",
                self.name,
                shown / runs * 100.0,
                held[0],
                bias[0].0 * 100.0,
                bias[0].1 * 100.0,
                held[1],
                bias[1].0 * 100.0,
                bias[1].1 * 100.0,
            );
            for (mean, error) in bias {
                assert!(mean.abs() <= 0.01_f64.max(2.0 * error), "{}: bias of part {part}", self.name);
            }
            // Fewer runs hold less or more often by chance.
            let chance = if seeds < 1_000 { 400.0 * (0.05 * 0.95 / shown).sqrt() } else { 0.0 };
            for held in held.into_iter().filter(|_| *shown >= runs / 10.0) {
                let is_right = (93.0 - chance..=self.most + chance).contains(&held);
                assert!(is_right, "{}: {held:.1}% of the intervals of part {part} hold", self.name);
            }
        }
    }
}

/// A name, how often intervals may hold, and the traffic.
type GridCase = (&'static str, f64, fn(&mut Random) -> SimulatedTraffic);

/// Each 10 s have a window, also in bursts. So bursts vary less between runs than windows at any place would show, and their intervals are
/// wider than they must be.
const GRID: [GridCase; 15] = [
    ("1/s, answers in 1 ms", 97.5, |seed| random(8, 1.0, 0.001, 0, seed)),
    ("1/s, answers in up to 500 ms", 97.5, |seed| random(8, 1.0, 0.25, 0, seed)),
    ("1 connection, answers in 500 ms", 97.5, |seed| paced(8, 1, 0.5, 0.0, seed)),
    ("1 connection, LPUSH, LTRIM, pause of 40 ms", 97.5, |seed| paced(1, 1, 0.0003, 0.04, seed)),
    ("1 connection, answers in 25 ms", 97.5, |seed| paced(1, 1, 0.025, 0.0, seed)),
    ("1,000 connections, answers in 500 ms", 97.5, |seed| paced(1, 1_000, 0.5, 5.0, seed)),
    ("100/s, answers in 1 ms", 97.5, |seed| random(1, 100.0, 0.001, 0, seed)),
    ("100/s, answers in up to 100 ms", 97.5, |seed| random(1, 100.0, 0.05, 0, seed)),
    ("100/s, bursts of a second", 98.0, |seed| random(1, 100.0, 0.001, 1, seed)),
    ("2,000/s, answers in up to 500 ms", 97.5, |seed| random(1, 2_000.0, 0.25, 0, seed)),
    ("100,000/s, bursts of a second", 98.0, |seed| random(1, 100_000.0, 0.001, 1, seed)),
    ("100,000/s, bursts of a minute", 100.0, |seed| random(1, 100_000.0, 0.001, 2, seed)),
    ("100,000/s, answers in 500 ms", 97.5, |seed| random(1, 100_000.0, 0.5, 0, seed)),
    ("short connections, 2/s", 97.5, |seed| short_connections(2.0, 0.002, seed)),
    ("short connections, 100/s, answers in 100 ms", 97.5, |seed| short_connections(100.0, 0.1, seed)),
];

#[test]
fn shares_operations_and_intervals_are_right_in_every_shape_of_traffic() {
    let is_whole = std::env::var_os("OVERHEAD_SIMULATION").is_some();
    for (number, (name, most, simulate)) in GRID.into_iter().enumerate() {
        if is_whole || [3, 6, 14].contains(&number) {
            let traffic = simulate(&mut Random(7));
            Simulation { name, most, traffic }.check(if is_whole { 1_000 } else { 100 });
        }
    }
}
