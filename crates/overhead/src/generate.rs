//! `overhead generate`: writes man pages and shell completions from the command line's definition, for packages and
//! `make install`. Hidden from `--help`.

use crate::{cli, hand_over};
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

/// Shells with completions, and the folder for each.
const SHELLS: [(Shell, &str); 3] = [(Shell::Bash, "bash"), (Shell::Zsh, "zsh"), (Shell::Fish, "fish")];

impl Generate {
    pub fn run(self) -> Result<u8> {
        let command = cli::command();
        let status = generate(&command, "overhead", &self.folder)?;
        complete_more(&command, &self.folder)?;
        Ok(status)
    }
}

/// Makes the completions of `overhead` delegate to those of separate programs after their verbs, and complete interfaces.
fn complete_more(command: &Command, folder: &Path) -> Result<()> {
    let edit = |name: &str, change: &dyn Fn(String) -> String| {
        let path = folder.join(name);
        fs::read_to_string(&path).and_then(|text| fs::write(&path, change(text))).with_context(|| cannot_write(folder))
    };
    edit("bash/overhead.bash", &|text| text + include_str!("generate/more.bash"))?;
    edit("fish/overhead.fish", &|text| text + include_str!("generate/more.fish"))?;
    edit("zsh/_overhead", &|text| {
        let verbs = command.get_subcommands().map(Command::get_name).filter(|verb| hand_over::named(verb).is_some());
        let text = verbs.fold(text, |text, verb| {
            // The first match belongs to the verb, the second to `help`.
            let begins = format!("({verb})\n");
            let hands_over = format!(
                "{begins}(( CURRENT > 1 && $+functions[_overhead-{verb}] )) && words[1]=overhead-{verb} && _overhead-{verb} && return\n"
            );
            text.replacen(&begins, &hands_over, 1)
        });
        text.replace(":IF:_default", ":IF:{ _values interface any ${(f)\"$(command ls /sys/class/net 2>/dev/null)\"} }")
    })
}

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
