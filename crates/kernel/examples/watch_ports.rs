//! Counts the servers and clients of ports for some seconds and prints the record:
//! `cargo run -p overhead-kernel --example watch_ports -- SECONDS PORT…`

use overhead_kernel::{CounterOptions, KernelCounters, OwnCost};
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let seconds = words.next().ok_or("SECONDS PORT…")?.parse()?;
    let ports = words.map(|word| word.parse()).collect::<Result<Vec<u16>, _>>()?;
    let mut options = CounterOptions::for_ports(ports);
    options.own_cost = if std::env::var_os("OWN_COST").is_some() { OwnCost::Timed } else { OwnCost::Untimed };
    let mut counters = KernelCounters::load(&options)?;
    counters.begin()?;
    std::thread::sleep(Duration::from_secs(seconds));
    let record = counters.record_so_far()?;
    println!("{}", serde_json::to_string_pretty(&record)?);
    println!("{:?} {:?}", counters.bpf_ns(), counters.warnings());
    Ok(())
}
