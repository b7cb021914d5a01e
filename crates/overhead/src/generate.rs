//! `overhead generate`: man pages and shell completions from the definition of the command line, for packages and
//! `make install`. Hidden from `--help`.

use crate::cli;
use anyhow::{Context, Result};
use clap::Args;
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
        let pages = self.made("man1")?;
        clap_mangen::generate_to(cli::command(), &pages).with_context(|| cannot_write(&pages))?;
        for (shell, name) in SHELLS {
            let folder = self.made(name)?;
            clap_complete::generate_to(shell, &mut cli::command(), "overhead", &folder)
                .with_context(|| cannot_write(&folder))?;
        }
        Ok(overhead_model::exit::COMPLETE)
    }

    fn made(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.join(name);
        fs::create_dir_all(&folder).with_context(|| cannot_write(&folder))?;
        Ok(folder)
    }
}

fn cannot_write(folder: &Path) -> String {
    format!("{} cannot be written: choose another folder", folder.display())
}
