//! `overhead generate`: man pages and shell completions from the definition of the command line, for packages and
//! `make install`. Hidden from `--help`.

use crate::cli;
use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::Shell;
use std::fs;
use std::path::{Path, PathBuf};

/// Arguments of `generate`.
#[derive(Args, Debug)]
pub struct Generate {
    /// Folder that the files are written into: man1, and one folder for each shell
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Shells that get a completion, and the folder each one's lies in.
const SHELLS: [(Shell, &str); 3] = [(Shell::Bash, "bash"), (Shell::Zsh, "zsh"), (Shell::Fish, "fish")];

impl Generate {
    /// Writes the files.
    pub fn run(self) -> Result<u8> {
        generate(&cli::command(), "overhead", &self.folder)
    }
}

/// Writes the man pages and shell completions of `program` into folders below this one, which are made.
///
/// # Errors
///
/// One of them cannot be written.
pub fn generate(command: &Command, program: &'static str, folder: &Path) -> Result<u8> {
    let pages = made(folder, "man1")?;
    clap_mangen::generate_to(command.clone().name(program), &pages).with_context(|| cannot_write(&pages))?;
    for (shell, name) in SHELLS {
        let folder = made(folder, name)?;
        clap_complete::generate_to(shell, &mut command.clone(), program, &folder)
            .with_context(|| cannot_write(&folder))?;
    }
    Ok(overhead_model::exit::COMPLETE)
}

fn made(folder: &Path, name: &str) -> Result<PathBuf> {
    let folder = folder.join(name);
    fs::create_dir_all(&folder).with_context(|| cannot_write(&folder))?;
    Ok(folder)
}

fn cannot_write(folder: &Path) -> String {
    format!("{} cannot be written: choose another folder", folder.display())
}
