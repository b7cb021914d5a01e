//! `overhead-bench`, started by `overhead bench`: runs the reference workload from the client's side.
//!
//! `cli` validates the arguments, `plan` holds what to measure, `bench` runs the phases, `run` measures one run,
//! `driver` has a folder per database, and `output` prints and records the results.

#![forbid(unsafe_code)]

use anyhow::{Context, Result};
use clap::Parser;
use clap_complete::Shell;
use overhead_model::exit::COMPLETE;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

mod bench;
mod cli;
mod data;
mod driver;
mod fault;
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

fn main() -> ExitCode {
    fault::exit_code(run())
}

fn run() -> Result<u8> {
    let words: Vec<OsString> = env::args_os().collect();
    match words.as_slice() {
        // For `make install`.
        [_, word, folder] if word == "--generate" => generate(Path::new(folder)),
        _ => bench::run(cli::BenchCli::try_parse_from(words)?.job()?),
    }
}

const PROGRAM: &str = "overhead-bench";
/// Shells, and their folders.
const SHELLS: [(Shell, &str); 3] = [(Shell::Bash, "bash"), (Shell::Zsh, "zsh"), (Shell::Fish, "fish")];

/// Creates the folders `man1` and one per shell in `folder`.
pub fn generate(folder: &Path) -> Result<u8> {
    let made = |name| {
        let folder = folder.join(name);
        fs::create_dir_all(&folder).map(|()| folder)
    };
    let mut command = cli::command();
    made("man1")
        .and_then(|pages| {
            clap_mangen::generate_to(command.clone().name(PROGRAM), &pages)?;
            overhead_files::add_sections(&pages)
        })
        .and_then(|()| {
            SHELLS.iter().try_for_each(|&(shell, name)| {
                clap_complete::generate_to(shell, &mut command, PROGRAM, made(name)?).map(drop)
            })
        })
        .with_context(|| format!("{} cannot be written: choose another folder", folder.display()))
        .map(|()| COMPLETE)
}
