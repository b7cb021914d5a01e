//! Writes man pages and shell completions from a command line's definition, for packages and `make install`.

use anyhow::{Context, Result};
use clap::Command;
use clap_complete::Shell;
use std::fs;
use std::path::{Path, PathBuf};

/// Shells with completions, and the folder for each.
const SHELLS: [(Shell, &str); 3] = [(Shell::Bash, "bash"), (Shell::Zsh, "zsh"), (Shell::Fish, "fish")];

/// Writes the man pages and shell completions of `program` into folders below `folder`, making them if necessary.
///
/// # Errors
///
/// A file or folder cannot be written.
pub fn generate(command: &Command, program: &'static str, folder: &Path) -> Result<u8> {
    let pages = made(folder, "man1")?;
    // The generator leaves out the help of options that the short help hides.
    let shown = |command: Command| command.mut_args(|option| option.hide_short_help(false));
    clap_mangen::generate_to(shown(command.clone()).mut_subcommands(shown).name(program), &pages)
        .and_then(|()| overhead_files::add_sections(&pages))
        .with_context(|| cannot_write(&pages))?;
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
