//! `overhead doctor`: what this machine can measure, and what would enable the rest.

use overhead_capture::live::{LiveOptions, LiveSource};
use overhead_model::exit;

/// Tries everything and prints a line for each.
pub fn run() -> u8 {
    match LiveSource::open(&LiveOptions::new("lo")) {
        Ok(_) => println!("yes  capturing packets on lo"),
        Err(error) => println!("no   capturing packets on lo: {error}"),
    }
    for capability in overhead_kernel::doctor() {
        match &capability.outcome {
            Ok(()) => println!("yes  {}", capability.name),
            Err(absence) => println!("no   {}: {}; {}", capability.name, absence.reason, absence.remedy),
        }
    }
    exit::COMPLETE
}
