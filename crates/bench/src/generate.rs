//! Writes the man page and shell completions for `make install`; `overhead generate` covers only the main program.

use crate::cli;
use anyhow::{Context, Result};
use clap_complete::Shell;
use overhead_model::exit::COMPLETE;
use std::fs;
use std::path::Path;

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
