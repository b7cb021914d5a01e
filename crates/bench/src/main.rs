//! `overhead-bench`, which `overhead bench` starts: the reference workload from the client's side.

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
    fault::code(run())
}

fn run() -> Result<u8> {
    let words: Vec<OsString> = env::args_os().collect();
    match words.as_slice() {
        // What `make install` asks; not for users.
        [_, word, folder] if word == "--generate" => generate::generate(Path::new(folder)),
        _ => bench::run(cli::Cli::try_parse_from(words)?.job()?),
    }
}
