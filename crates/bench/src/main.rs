//! `overhead-bench`, which `overhead bench` starts: the reference workload from the client's side.

#![forbid(unsafe_code)]

mod bench;
mod cli;
mod data;
mod diagnose;
mod driver;
mod fault;
mod output;
mod pace;
mod plan;
mod run;
mod sbtest;
mod stats;
mod stop;
mod target;
mod tls;
mod usage;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let job = cli::Cli::try_parse().map_err(anyhow::Error::from).and_then(cli::Cli::job);
    fault::code(job.and_then(bench::run))
}
