//! `overhead-bench`, started by `overhead bench`: runs the reference workload from the client's side.
//!
//! `cli` validates the arguments, `plan` holds what to measure, `bench` runs the phases, `run` measures one run,
//! `driver` has a folder per database, and `output` prints and records the results.

#![forbid(unsafe_code)]

mod bench;
mod cli;
mod data;
mod diagnose;
mod driver;
mod fault;
mod generate;
mod output;
mod pace;
mod plan;
mod run;
mod sbtest;
mod statements;
mod stats;
mod stop;
mod target;
mod tls;
mod usage;

use anyhow::Result;
use clap::Parser;
use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    fault::exit_code(run())
}

fn run() -> Result<u8> {
    let words: Vec<OsString> = env::args_os().collect();
    match words.as_slice() {
        // For `make install`.
        [_, word, folder] if word == "--generate" => generate::generate(Path::new(folder)),
        _ => bench::run(cli::BenchCli::try_parse_from(words)?.job()?),
    }
}
