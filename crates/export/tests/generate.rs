//! The man page and completions contain every option of `--help`.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};

fn program(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_overhead-export")).args(words).output().unwrap()
}

/// Returns the long options in a text.
fn options(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !(c.is_ascii_lowercase() || c == '-'))
        .filter(|word| word.len() > 2 && word.starts_with("--"))
        .collect()
}

#[test]
fn pages_and_completions_have_all_options() {
    let made = tempfile::tempdir().unwrap();
    let output = program(&["--generate", made.path().to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let help = String::from_utf8(program(&["--help"]).stdout).unwrap();
    let wanted = options(&help);
    assert!(wanted.len() > 10 && wanted.contains("--by-day"), "{wanted:?}");
    for place in
        ["man1/overhead-export.1", "bash/overhead-export.bash", "zsh/_overhead-export", "fish/overhead-export.fish"]
    {
        let text = fs::read_to_string(made.path().join(place)).unwrap();
        // Man pages contain fonts and escapes; fish puts names of long options after -l.
        let text = text.replace("\\fB", " ").replace("\\fR", " ").replace('\\', "").replace("-l ", "--");
        let missing: Vec<_> = wanted.difference(&options(&text)).copied().collect();
        assert!(missing.is_empty(), "{place} has no {missing:?}");
    }
}
