//! Every fuzz target on its seeds, on what was found before, and on a few thousand inputs made of them: the same ones
//! each time.

use crate::numbers::Numbers;
use overhead_model::Protocol;
use overhead_testing::hostile::{Target, seeds};
use std::fs;
use std::path::Path;

/// Inputs per target, next to the seeds.
const INPUTS: usize = 4_000;
const LONGEST: usize = 2_048;

impl Numbers {
    fn byte(&mut self) -> u8 {
        const ODD: [u8; 8] = [0, 1, 0x7f, 0x80, 0xff, 0xf5, b'\n', b'0'];
        if self.below(2) == 0 { ODD[self.below(ODD.len())] } else { self.below(256) as u8 }
    }

    /// A seed, and a few steps of damage.
    fn input(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut input = seeds[self.below(seeds.len())].clone();
        for _ in 0..=self.below(8) {
            let at = self.below(input.len());
            match self.below(6) {
                0 => input.truncate(at),
                1 => input.insert(at, self.byte()),
                2 => drop(input.drain(at..(at + self.below(16)).min(input.len()))),
                3 => {
                    let other = &seeds[self.below(seeds.len())];
                    input.truncate(at);
                    input.extend(&other[self.below(other.len())..]);
                }
                _ => {
                    let byte = self.byte();
                    input.iter_mut().skip(at).take(1).for_each(|place| *place = byte);
                }
            }
        }
        input.truncate(LONGEST);
        input
    }
}

fn short(target: Target) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for found in fs::read_dir(here.join("tests/found").join(target.name())).into_iter().flatten() {
        let path = found.unwrap().path();
        println!("{}", path.display());
        target.run(&fs::read(path).unwrap());
    }
    let seeds = seeds(target, &here.join("../../fixtures")).unwrap();
    assert!(seeds.len() > 4, "{} seeds", seeds.len());
    for seed in &seeds {
        target.run(seed);
    }
    let mut numbers = Numbers(0x6f76_6572_6865_6164);
    for round in 0..INPUTS {
        let input = numbers.input(&seeds);
        // Shown where the test fails.
        println!("{} {round}: {}", target.name(), input.escape_ascii());
        target.run(&input);
    }
}

#[test]
fn conversations() {
    std::thread::scope(|scope| {
        for protocol in Protocol::ALL {
            scope.spawn(move || short(Target::Conversation(protocol)));
        }
    });
}

#[test]
fn reassembler() {
    short(Target::Reassembler);
}

#[test]
fn memo() {
    short(Target::Memo);
}

#[test]
fn capture_file() {
    short(Target::CaptureFile);
}
