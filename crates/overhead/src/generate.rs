//! `overhead generate`: writes man pages and shell completions from the command line's definition, for packages and
//! `make install`. Hidden from `--help`.

use crate::hand_over;
use anyhow::{Context, Result};
use clap::{Args, Command};
use overhead_options::generate;
use std::fs;
use std::path::{Path, PathBuf};

/// Arguments of `generate`.
#[derive(Args, Debug)]
pub struct Generate {
    /// Folder that the files are written into: man1, and one folder for each shell
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Generate {
    /// Writes the files for this command line.
    pub fn run(self, command: &Command) -> Result<u8> {
        let status = generate(command, "overhead", &self.folder)?;
        complete_more(command, &self.folder)?;
        Ok(status)
    }
}

/// Makes the completions of `overhead` delegate to those of separate programs after their verbs, and complete interfaces.
fn complete_more(command: &Command, folder: &Path) -> Result<()> {
    let edit = |name: &str, change: &dyn Fn(String) -> String| {
        let path = folder.join(name);
        fs::read_to_string(&path)
            .and_then(|text| fs::write(&path, change(text)))
            .with_context(|| format!("{} cannot be written: choose another folder", folder.display()))
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
