//! Man page and shell completions from the definition of the command line, for `make install`: `overhead generate` knows of
//! this program that it is one of its own, and nothing more.

use crate::cli;
use anyhow::{Context, Result};
use clap_complete::Shell;
use overhead_model::exit::COMPLETE;
use std::fs;
use std::path::Path;

/// The program, in names of files.
const PROGRAM: &str = "overhead-bench";
/// Shells that get a completion, and the folder each one's lies in.
const SHELLS: [(Shell, &str); 3] = [(Shell::Bash, "bash"), (Shell::Zsh, "zsh"), (Shell::Fish, "fish")];

/// Writes them into folders below this one, which are made: man1, and one for each shell.
pub fn generate(folder: &Path) -> Result<u8> {
    let made = |name| {
        let folder = folder.join(name);
        fs::create_dir_all(&folder).map(|()| folder)
    };
    let mut command = cli::described();
    made("man1")
        .and_then(|pages| clap_mangen::generate_to(command.clone().name(PROGRAM), pages))
        .and_then(|()| {
            SHELLS.iter().try_for_each(|&(shell, name)| {
                clap_complete::generate_to(shell, &mut command, PROGRAM, made(name)?).map(drop)
            })
        })
        .with_context(|| format!("{} cannot be written: choose another folder", folder.display()))
        .map(|()| COMPLETE)
}
