//! Sections of man pages that the generator does not know.

use std::fs;
use std::io;
use std::path::Path;

/// Gives the man pages in a folder the sections EXAMPLES and EXIT STATUS, from the text that ends the program's help: `Examples:`
/// and the indented lines below it, and the line `Exit status: …`.
pub fn add_sections(pages: &Path) -> io::Result<()> {
    for page in fs::read_dir(pages)? {
        let path = page?.path();
        let text = fs::read_to_string(&path)?;
        fs::write(path, with_sections(&text))?;
    }
    Ok(())
}

/// Returns a page whose section EXTRA is divided by what it is about.
fn with_sections(page: &str) -> String {
    let Some((before, extra)) = page.split_once(".SH EXTRA\n") else { return page.to_owned() };
    let (extra, after) = extra.find(".SH ").map_or((extra, ""), |at| extra.split_at(at));
    let [mut notes, mut examples, mut status] = [const { String::new() }; 3];
    let mut is_example = false;
    for line in extra.lines() {
        if let Some(statuses) = line.strip_prefix("Exit status: ") {
            status = format!(".SH \"EXIT STATUS\"\n{statuses}\n");
        } else if line == "Examples:" {
            is_example = true;
        } else {
            is_example &= line.starts_with("  ");
            let into = if is_example { &mut examples } else { &mut notes };
            into.extend([line, "\n"]);
        }
    }
    if !notes.trim().is_empty() {
        notes = format!(".SH NOTES\n{}\n", notes.trim());
    }
    if !examples.is_empty() {
        examples = format!(".SH EXAMPLES\n.nf\n{examples}.fi\n");
    }
    [before, notes.trim_start(), &examples, &status, after].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_and_statuses_are_sections_and_the_rest_are_notes() {
        let page = ".SH OPTIONS\nall\n.SH EXTRA\nBytes are exact.\n\nExamples:\n  overhead check b.toml a\n\nExit status: 0 within.\n.SH VERSION\nv1\n";
        let found = with_sections(page);
        let wanted = ".SH OPTIONS\nall\n.SH NOTES\nBytes are exact.\n.SH EXAMPLES\n.nf\n  overhead check b.toml a\n.fi\n.SH \"EXIT STATUS\"\n0 within.\n.SH VERSION\nv1\n";
        assert_eq!(found, wanted);
        assert_eq!(with_sections(".SH OPTIONS\n"), ".SH OPTIONS\n");
    }
}
