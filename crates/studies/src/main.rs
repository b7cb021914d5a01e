//! Makes the page of a study of `lab/comparison`: `overhead-studies TEMPLATE FOLDER` renders the template over the records in
//! the folder, and writes `README.md` and `figures/` there.
//!
//! A template says in words what was found, and asks the records for every figure. The same records give the same page.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "it says what it wrote")]

mod cell;
mod distribution;
mod drawing;
mod number;
mod page;
mod query;
mod records;
mod spread;

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [template, folder] = arguments.as_slice() else { bail!("usage: overhead-studies TEMPLATE FOLDER") };
    write(Path::new(template), Path::new(folder))
}

/// Writes the page and its figures, and says which files these are. Figures of an earlier page go.
fn write(template: &Path, folder: &Path) -> Result<()> {
    let text = fs::read_to_string(template).with_context(|| template.display().to_string())?;
    let study = records::read(folder)?;
    let page = page::render(&text, study).with_context(|| template.display().to_string())?;
    let figures = folder.join("figures");
    if figures.exists() {
        fs::remove_dir_all(&figures).with_context(|| figures.display().to_string())?;
    }
    let mut files = vec![("README.md".to_owned(), page.text.into_bytes())];
    files.extend(page.figures.into_iter().map(|(name, bytes)| (format!("figures/{name}"), bytes)));
    for (name, bytes) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder)).with_context(|| path.display().to_string())?;
        fs::write(&path, bytes).with_context(|| path.display().to_string())?;
        println!("{}", path.display());
    }
    Ok(())
}
