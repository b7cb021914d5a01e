//! Makes the pages of a study of `lab/comparison`: `overhead-studies NAME.md.jinja FOLDER` renders the template over the records
//! in the folder, and writes `README.md` and `figures/` there; `NAME.tables.md.jinja` beside it is `tables.md`, and so on.
//! Records that were just measured are packed into one file; `overhead-studies --unpack FOLDER INTO` writes them as files again.
//!
//! A template has the words, and takes every number from the records. The same records give the same pages.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "it says what it wrote")]

mod cell;
mod drawing;
mod number;
mod page;
mod query;
mod records;

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match arguments.as_slice() {
        [flag, folder, into] if flag == "--unpack" => records::unpack(Path::new(folder), Path::new(into)),
        [template, folder] => write(Path::new(template), Path::new(folder)),
        _ => bail!("usage: overhead-studies TEMPLATE FOLDER, or overhead-studies --unpack FOLDER INTO"),
    }
}

/// Writes the pages and their charts, and prints their names. Charts of earlier pages go. New records are packed once
/// they have made a page.
fn write(template: &Path, folder: &Path) -> Result<()> {
    let measured = records::measured(folder)?;
    let is_new = measured.is_some();
    let lines = measured.map_or_else(|| records::packed(folder), Ok)?;
    let study = records::study(&lines).with_context(|| folder.display().to_string())?;
    let pages = page::render(&templates(template)?, study).with_context(|| template.display().to_string())?;
    let figures = folder.join("figures");
    if figures.exists() {
        fs::remove_dir_all(&figures).with_context(|| figures.display().to_string())?;
    }
    let texts = pages.texts.into_iter().map(|(name, text)| (name, text.into_bytes()));
    let figures = pages.figures.into_iter().map(|(name, bytes)| (format!("figures/{name}"), bytes));
    for (name, bytes) in texts.chain(figures) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder)).with_context(|| path.display().to_string())?;
        fs::write(&path, bytes).with_context(|| path.display().to_string())?;
        println!("{}", path.display());
    }
    if is_new { records::pack(folder, &lines) } else { Ok(()) }
}

/// The ending of a template's name.
const TEMPLATE: &str = ".md.jinja";

/// Returns the templates of a study, `README.md` first, each with the name of its page.
fn templates(first: &Path) -> Result<Vec<(String, String)>> {
    let name = first.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(TEMPLATE));
    let study = name.with_context(|| format!("{}: not NAME{TEMPLATE}", first.display()))?;
    let folder = first.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let mut found = vec![("README.md".to_owned(), first.to_owned())];
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(TEMPLATE));
        if let Some(page) = name.and_then(|name| name.strip_prefix(study)?.strip_prefix('.')) {
            found.push((format!("{page}.md"), path));
        }
    }
    found[1..].sort();
    let read = |(name, path): (String, PathBuf)| {
        Ok((name, fs::read_to_string(&path).with_context(|| path.display().to_string())?))
    };
    found.into_iter().map(read).collect()
}
